"""What printed versions disclose, shown on two neighbouring data sets: numbers that are computed from the records without noise.

Each is a function of the records that the printed algorithm shows, or that the law of its output depends on. Where the two values differ an
event has probability 1 for one data set and 0 for the other, so the printed version is (epsilon, delta)-DP for no delta below 1; where
noise is added all the same, the exact loss is compared with the stated one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests import leak

RNG = np.random.default_rng(20_261_129)
N, D = 60, 4
X = RNG.standard_normal((N, D)) / 4
Y = X @ np.array([1.0, -1.0, 0.0, 0.0]) + 0.1 * RNG.standard_normal(N)
FAR = np.array([0.0, 0.0, 3.0, 0.0])


def neighbours() -> tuple[Any, Any]:
    """(x, y) with and without one far record in the last place."""
    x, y = X.copy(), Y.copy()
    x[-1], y[-1] = FAR, 1.0
    return (X, Y), (x, y)


def spectrum(x: Any) -> tuple[float, float]:
    values = np.linalg.eigvalsh(x.T @ x / len(x))
    return float(values[0]), float(values[-1])


def test_numbers_of_steps_and_coordinates_from_the_samples_spectrum_differ() -> None:
    """003: eta = 2/(3 gamma), T of the order of (gamma/mu) log n, s of the order of (gamma/mu)^2 s*; 000, Theorem 5.3.8 the same with
    kappa. How many rounds are run and how many coordinates are kept is seen in the output."""
    shown = []
    for x, _ in neighbours():
        mu, gamma = spectrum(x)
        shown.append((2 / (3 * gamma), math.ceil(gamma / mu * math.log(N)), math.ceil(72 * (gamma / mu) ** 2)))
    assert all(a != b for a, b in zip(*shown, strict=True))
    leak.certain(*shown)


def test_an_entry_that_is_not_a_number_is_always_chosen() -> None:
    """003, Algorithm 4: argmax of |v_j| + noise. NaN compares as larger than everything in the reference implementation of argmax."""
    chosen: dict[bool, list[int]] = {False: [], True: []}
    for seed in range(200):
        for bad in (False, True):
            v = np.array([1.0, 2.0, 0.0 if not bad else math.nan, 1.5])
            chosen[bad].append(int(np.argmax(np.abs(v) + np.random.default_rng(seed).laplace(0, 5.0, 4))))
    assert set(chosen[True]) == {2}
    assert chosen[False].count(2) < 100  # delta is at least the difference, above 1/2
    leak.event(1.0, 1 / 1000, stated=1.0)  # of 1000 zeros with noise of one law, each is chosen with probability 1/1000


def test_steps_balanced_by_the_distance_to_the_least_risk_differ() -> None:
    """000, Theorems 4.1.2 and 4.1.4: T of the order of sqrt(F(w_1) - F*)."""
    shown = []
    for x, y in neighbours():
        best = np.linalg.lstsq(x, y, rcond=None)[0]
        shown.append(float(np.mean(y**2) - np.mean((y - x @ best) ** 2)) / 2)
    assert math.ceil(100 * math.sqrt(shown[0])) != math.ceil(100 * math.sqrt(shown[1]))
    leak.certain(*(math.ceil(100 * math.sqrt(s)) for s in shown))


def test_variables_chosen_by_their_spread_differ() -> None:
    """000, section 6.3.6: the variables of largest variance are kept, and the data normalised by their deviations."""
    kept = [frozenset(np.argsort(x.var(axis=0))[-1:]) for x, _ in neighbours()]
    assert kept[0] != kept[1]
    scales = [x.std(axis=0) for x, _ in neighbours()]
    assert not np.array_equal(*scales)
    leak.certain(*(sorted(k) for k in kept))


def test_largest_eigenvalues_of_estimates_differ() -> None:
    """000, Theorems 6.3.4 to 6.3.8: M = max(|Theta*|^2, ...), and (6.99): beta = max |Theta|_2 over the data sets, as printed numbers."""
    norms = [float(np.linalg.norm(np.linalg.inv(x.T @ x / N + 0.1 * np.eye(D)), 2)) for x, _ in neighbours()]
    assert norms[0] != norms[1]
    leak.certain(*norms)


def test_a_threshold_or_a_clip_from_the_data_differs() -> None:
    """000, section 6.2: gamma from max_j Sigma_jj; 004, Theorem 7: clips from the largest |x| and |y| of the data."""
    assert len({float((x**2).mean(axis=0).max()) for x, _ in neighbours()}) == 2
    assert len({float(np.abs(x).max()) for x, _ in neighbours()}) == 2
    assert len({float(np.abs(y).max()) for _, y in neighbours()}) == 2
    leak.certain(*((x**2).mean(axis=0).max() for x, _ in neighbours()))


def test_subtracting_the_mean_of_all_spends_more_than_one_report() -> None:
    """000, section 6.1.5: the second moment of x_i less the mean of all. A user's own centred report leaves the unit ball that the noise is
    for, since |x - mean| is up to 2, and every other user's report moves, too."""
    n, s, mean = 50, 1.0, np.array([0.9, 0.0])
    records = np.tile(mean, (n, 1))
    other = records.copy()
    other[-1] = -mean

    def reports(x: Any) -> Any:
        centred = x - x.mean(axis=0)
        return np.einsum("ij,ik->ijk", centred, centred)

    one = math.sqrt(2.0) * s  # the stated sensitivity of x x^T over the unit ball, for one user's report
    moved = float(np.linalg.norm(reports(other)[-1] - reports(records)[-1]))
    whole = float(np.linalg.norm(reports(other) - reports(records)))
    assert moved > one  # |x - mean| is up to 2: the user's own report leaves the ball that the noise is for
    assert whole > moved
    leak.moved(whole, one)


@pytest.mark.parametrize("share", [1.5, 3.0])
def test_a_bernoulli_parameter_above_one_stops_the_run(share: float) -> None:
    """000 and 004: a bit of parameter 1/2 + |g|/(2 r) for a gradient of length share*r. There is no such bit: a client that raises tells
    that its gradient is long, and its neighbour's run ends."""
    coin = np.random.default_rng(1)
    assert coin.binomial(1, 0.5 + 0.9 / 2) in (0, 1)
    with pytest.raises(ValueError, match="p > 1"):
        coin.binomial(1, 0.5 + share / 2)
    leak.certain(0.5 + 0.9 / 2 > 1, 0.5 + share / 2 > 1)  # the run ends, or not


def test_a_value_beyond_the_promised_range_spends_its_multiple() -> None:
    """000, section 5.1.3: Laplace noise 1/epsilon for losses in [0, 1]. A loss of 5 against one of 0 has a log-likelihood ratio of
    5 epsilon on the half line below 0."""
    from scipy.stats import laplace

    epsilon = 0.7
    ratio = laplace.logpdf(-1.0, 0.0, 1 / epsilon) - laplace.logpdf(-1.0, 5.0, 1 / epsilon)
    assert ratio == pytest.approx(5 * epsilon)
    assert laplace.cdf(0.0, 0.0, 1 / epsilon) == pytest.approx(0.5)  # and the event is half of all outcomes
    leak.epsilon(float(ratio), epsilon)


def test_a_start_from_the_labels_variance_differs_and_stays() -> None:
    """000, Algorithms 5.2.39 and 5.2.40: Newton from 2/Var(y), for a fixed number of steps of an equation with noise."""

    def newton(y: Any, steps: int = 3) -> float:
        c = 2 / float(np.var(y))
        for _ in range(steps):
            c -= (math.tanh(c / 40) * 40 - 1.7) / (1 / math.cosh(c / 40) ** 2)
        return c

    assert len({newton(y) for _, y in neighbours()}) == 2
    leak.certain(*(newton(y) for _, y in neighbours()), given="the noisy equation")


def test_rows_that_are_public_and_private_show_without_noise() -> None:
    """000, section 5.2.5: 390,000 "public" rows of 406,708 are also private users'. What is solved with the public x changes with them."""
    moments = [x.T @ x / N for x, _ in neighbours()]
    assert not np.array_equal(*moments)
    leak.certain(*moments)


def test_the_best_of_several_runs_tells_neighbours_apart() -> None:
    """000, section 4.3.3: results "after carefully tuning". Of two settings the one of lower risk on the records is kept: which one it is
    follows from the released points and the records, and one record decides it."""
    kept = [int(np.argmin([np.mean((y - x @ w) ** 2) for w in ([1.0, -1.0, 0.0, 0.0], [1.0, -1.0, 1 / 3, 0.0])])) for x, y in neighbours()]
    leak.certain(*kept, given="the points of all runs, which are shown")
