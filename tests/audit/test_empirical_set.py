"""The classic broken set: mechanisms with a known fault and their correct twins, audited at the claim they make.

Every mechanism is ``f(input, n, rng) -> (n, width)``. The claim is epsilon = 1 (delta = 0 unless stated). ``why`` derives what is true,
by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from dpspec.audit.empirical import Answers, audit_callable, audit_pair, numbers

A = np.array
EPS = 1.0


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    f: Callable[..., Any]
    a: Any
    b: Any
    broken: bool
    why: str
    delta: float = 0.0


# ---- maxima ---------------------------------------------------------------------------------------------------------------------------


def noisy_max(scale, what="index", law="laplace"):
    def f(q, n, rng):
        z = q + (rng.laplace(0, scale, (n, len(q))) if law == "laplace" else rng.exponential(scale, (n, len(q))))
        return (z.max(1) if what == "value" else z.argmax(1)).astype(float)[:, None]

    return f


def exponential_mechanism(rate):
    def f(u, n, rng):
        return (rate * u + rng.gumbel(size=(n, len(u)))).argmax(1).astype(float)[:, None]

    return f


# ---- sparse vector (Lyu, Su and Li 2017, figure 1, algorithms 1 to 6); threshold 0.5, sensitivity 1 -----------------------------------


def sparse_vector(threshold, query, c=None, *, refresh=0.0, value=False):
    """1 above, 0 below, 2 after the c-th above; ``refresh``: scale of a fresh threshold noise after each above; ``value``: publishes the
    noisy answer in place of 'above' (0 is then below, -100 after the stop)."""

    def f(q, n, rng):
        rho = rng.laplace(0, threshold, n)
        seen = np.zeros(n, dtype=int)
        out = np.empty((n, len(q)))
        for j, x in enumerate(q):
            z = x + (rng.laplace(0, query, n) if query else 0.0)
            above = z >= 0.5 + rho
            stopped = seen >= c if c else np.zeros(n, dtype=bool)
            out[:, j] = np.where(stopped, -100.0 if value else 2.0, np.where(above, z if value else 1.0, 0.0))
            seen += above & ~stopped
            if refresh:
                rho = np.where(above & ~stopped, rng.laplace(0, refresh, n), rho)
        return out

    return f


# ---- sums, means, histograms ----------------------------------------------------------------------------------------------------------


def laplace_sum(scale, width=1):
    return lambda x, n, rng: np.sum(x, axis=0) + rng.laplace(0, scale, (n, width))


def gaussian_sum(sigma):
    return lambda x, n, rng: np.sum(x, axis=0) + rng.normal(0, sigma, (n, np.shape(x)[1]))


def mean(noised):
    def f(x, n, rng):
        budget = 0.5 if noised else 1.0
        count = len(x) + rng.laplace(0, 1 / budget, (n, 1)) if noised else np.full((n, 1), float(len(x)))
        return x.sum() / count + rng.laplace(0, np.maximum(1e-12, 1 / budget / count))

    return f


def noisy_mean(x, n, rng):
    """Noisy sum over noisy count, eps/2 each."""
    return (x.sum() + rng.laplace(0, 2, (n, 1))) / np.maximum(1.0, len(x) + rng.laplace(0, 2, (n, 1)))


def histogram(scale, bound):
    """Items of users over 4 bins: a list of lists; at most ``bound`` items of a user count (None: all)."""

    def f(users, n, rng):
        counts = np.zeros(4)
        for items in users:
            for i in items[:bound]:
                counts[i] += 1
        return counts + rng.laplace(0, scale, (n, 4))

    return f


def histogram_of_present(users, n, rng):
    """Bins without a record are left out of the release."""
    counts = np.bincount([i for items in users for i in items], minlength=4)
    return np.where(counts > 0, counts + rng.laplace(0, 1, (n, 4)), np.nan)


def clipped_sum(clip):
    """Sum of values clipped to ``clip``; None: to the largest value of the data."""

    def f(x, n, rng):
        c = x.max() if clip is None else clip
        return np.minimum(x, c).sum() + rng.laplace(0, max(c, 1e-9), (n, 1))

    return f


def two_sums(shared, scale):
    def f(x, n, rng):
        z = rng.laplace(0, scale, (n, 1))
        return np.concatenate([x.sum() + z, (x * x).sum() + (z if shared else rng.laplace(0, scale, (n, 1)))], axis=1)

    return f


def median_local(x, n, rng):
    """Laplace noise at the local sensitivity of the median."""
    s = np.sort(x)
    m = len(s) // 2
    return s[m] + rng.laplace(0, max(s[m] - s[m - 1], s[min(m + 1, len(s) - 1)] - s[m], 1e-9), (n, 1))


def median_exponential(x, n, rng):
    """Exponential mechanism on a grid, utility -|rank difference| of sensitivity 1 under replace-one."""
    grid = np.linspace(0, 1, 11)
    u = -np.abs((x[None, :] < grid[:, None]).sum(1) - (x[None, :] > grid[:, None]).sum(1)) / 2.0
    return exponential_mechanism(EPS / 2)(u, n, rng)


def randomized_response(keep, k=2):
    def f(x, n, rng):
        other = (int(x[0]) + rng.integers(1, k, n)) % k
        return np.where(rng.random(n) < keep, int(x[0]), other).astype(float)[:, None]

    return f


E1 = float(np.e)
MAX_A, MAX_B = A([1.0, 1, 1, 1, 1]), A([2.0, 0, 0, 0, 0])
SVT_A, SVT_B = A([0.0, 0, 0, 0, 1]), A([1.0, 1, 1, 1, 0])
USERS = [[0], [1], [1, 2]]

CASES = [
    Case("laplace tight", laplace_sum(1.0), A([0.0]), A([1.0]), False, "exactly 1"),
    Case("laplace 10% short", laplace_sum(0.9), A([0.0]), A([1.0]), True, "1/0.9 = 1.11"),
    Case("replace-one sum at add-remove noise", laplace_sum(1.0), A([-1.0]), A([1.0]), True, "the sum moves by 2: 2"),
    Case("replace-one sum", laplace_sum(2.0), A([-1.0]), A([1.0]), False, "exactly 1"),
    Case("max index", noisy_max(2.0), MAX_A, MAX_B, False, "at most 1"),
    Case("max index, exponential noise", noisy_max(2.0, law="exponential"), MAX_A, MAX_B, False, "permute and flip: at most 1"),
    Case("max index, half the noise", noisy_max(1.0), MAX_A, MAX_B, True, "up to 2, 1.2 here"),
    Case("max returns the value", noisy_max(2.0, "value"), np.zeros(5), np.ones(5), True, "all five move: up to 2.5"),
    Case("exponential mechanism", exponential_mechanism(0.5), MAX_A, MAX_B, False, "at most 1"),
    Case("exponential mechanism without the 2", exponential_mechanism(1.0), MAX_A, MAX_B, True, "ln of (e^2/(e^2+4)) / (1/5) = 1.18 here"),
    Case("sparse vector, algorithm 1", sparse_vector(2.0, 4.0, 1), SVT_A, SVT_B, False, "at most 1"),
    Case("sparse vector, algorithm 2", sparse_vector(4.0, 8.0, 2, refresh=4.0), SVT_A, SVT_B, False, "at most 1"),
    Case(
        "sparse vector, algorithm 3",
        sparse_vector(2.0, 2.0, 1, value=True),
        np.array([0.0] * 10 + [1.0]),
        np.array([1.0] * 10 + [0.0]),
        True,
        "infinite",
    ),
    Case(
        "sparse vector, algorithm 4",
        sparse_vector(4.0, 4 / 3, 3),
        A([0.0] * 3 + [1.0] * 3),
        A([1.0] * 3 + [0.0] * 3),
        True,
        "(1 + 6c)/4 = 4.75 at most",
    ),
    Case("sparse vector, algorithm 5", sparse_vector(2.0, 0.0), A([1.0, 1, 0, 0, 0]), A([0.0, 0, 1, 1, 1]), True, "infinite"),
    Case("sparse vector, algorithm 6", sparse_vector(2.0, 2.0), A([1.0, 1, 1, 0, 0]), A([0.0, 0, 0, 1, 1]), True, "grows with the queries"),
    Case("sparse vector, half the noise", sparse_vector(1.0, 2.0, 1), SVT_A, SVT_B, True, "at most 2, 1.6 here"),
    Case("mean over the true count", mean(False), A([1.0]), A([1.0, 0.0]), True, "the scale gives n away: infinite"),
    Case("mean over a noisy count", mean(True), A([1.0]), A([1.0, 0.0]), False, "at most 1 on this pair"),
    Case("noisy sum over noisy count", noisy_mean, A([1.0]), A([1.0, 0.0]), False, "1/2 + 1/2"),
    Case("histogram, users unbounded", histogram(1.0, None), USERS, [*USERS, [3, 3, 3]], True, "three records of one user: 3"),
    Case("histogram, one item a user", histogram(1.0, 1), USERS, [*USERS, [3, 3, 3]], False, "exactly 1"),
    Case("histogram, three items a user", histogram(3.0, 3), USERS, [*USERS, [3, 3, 3]], False, "exactly 1"),
    Case("histogram of the bins present", histogram_of_present, [[0], [1]], [[0], [1], [2]], True, "an absent bin: infinite"),
    Case(
        "sum clipped at the data's maximum", clipped_sum(None), A([1.0, 1, 1]), A([1.0, 1, 1, 4]), True, "the scale gives the maximum away"
    ),
    Case("sum clipped at 1", clipped_sum(1.0), A([1.0, 1, 1]), A([1.0, 1, 1, 4]), False, "exactly 1"),
    Case("one noise for two sums", two_sums(True, 2.0), A([0.5]), A([0.5, 0.7]), True, "their difference is exact: infinite"),
    Case("two sums", two_sums(False, 2.0), A([0.5]), A([0.5, 1.0]), False, "1/2 + 1/2"),
    Case("two sums at the budget of one", two_sums(False, 1.0), A([0.5]), A([0.5, 1.0]), True, "1 + 1"),
    Case(
        "median at local sensitivity", median_local, A([0.0, 0, 0, 0, 1]), A([0.0, 0, 0, 1, 1]), True, "local sensitivity 0 and 1: infinite"
    ),
    Case("median, exponential mechanism", median_exponential, A([0.0, 0, 0, 1, 1]), A([0.0, 0, 1, 1, 1]), False, "at most 1"),
    Case("randomized response", randomized_response(E1 / (E1 + 1)), A([0]), A([1]), False, "exactly 1"),
    Case("randomized response of 4 values", randomized_response(E1 / (E1 + 3), 4), A([0]), A([1]), False, "exactly 1"),
    Case("randomized response of 4 values, coin of 2", randomized_response(E1 / (E1 + 1), 4), A([0]), A([1]), True, "ln(3e) = 2.1"),
    Case("gaussian", gaussian_sum(4.8448), np.zeros((1, 3)), A([[1.0, 0, 0]]), False, "sqrt(2 ln(1.25/delta))", 1e-5),
    Case(
        "gaussian, unclipped records of norm 4", gaussian_sum(4.8448), np.zeros((1, 3)), A([[4.0, 0, 0]]), True, "mu = 0.83 for 0.27", 1e-5
    ),
]
BROKEN = [c for c in CASES if c.broken]
CORRECT = [c for c in CASES if not c.broken]


def run(case: Case, n: int, seed: int):
    rng = np.random.default_rng([seed, n])
    return audit_pair(case.f(case.a, n, rng), case.f(case.b, n, rng), claim=EPS, delta=case.delta)


HARD = {"laplace 10% short", "sparse vector, algorithm 3"}  # not in every seed at 1e4 runs: tested at 1e5


@pytest.mark.parametrize("case", [c for c in BROKEN if c.name not in HARD], ids=lambda c: c.name)
def test_broken_is_refuted_at_ten_thousand_runs(case):
    found = run(case, 10_000, 1)
    assert found.verdict == "violated"
    assert found.epsilon_lower > EPS
    assert found.diagnostics[-1].code == "DP650"


@pytest.mark.parametrize("case", CORRECT, ids=lambda c: c.name)
def test_correct_is_not_refuted(case):
    found = run(case, 10_000, 2)
    assert found.verdict == "not-certified"
    assert "DP651" in [d.code for d in found.diagnostics]


@pytest.mark.slow
@pytest.mark.parametrize("case", BROKEN, ids=lambda c: c.name)
def test_broken_is_refuted_at_a_hundred_thousand_runs(case):
    assert [run(case, 100_000, seed).verdict for seed in range(3)] == ["violated"] * 3


@pytest.mark.slow
@pytest.mark.parametrize("case", CORRECT, ids=lambda c: c.name)
def test_correct_is_not_refuted_in_eight_seeds(case):
    assert [run(case, 100_000, seed).verdict for seed in range(8)] == ["not-certified"] * 8


SEARCHES = [
    ("max index, half the noise", noisy_max(1.0), Answers(5), True),
    ("max index", noisy_max(2.0), Answers(5), False),
    ("max returns the value", noisy_max(2.0, "value"), Answers(5), True),
    ("sparse vector, algorithm 1", sparse_vector(2.0, 4.0, 1), Answers(5), False),
    ("sparse vector, algorithm 4", sparse_vector(4.0, 4 / 3, 2), Answers(5), True),
    ("sparse vector, algorithm 5", sparse_vector(2.0, 0.0), Answers(5), True),
    ("sparse vector, algorithm 6", sparse_vector(2.0, 2.0), Answers(5), True),
    ("mean over the true count", mean(False), numbers(6, 0, 1, relation="add-remove"), True),
    ("noisy sum over noisy count", noisy_mean, numbers(6, 0, 1, relation="add-remove"), False),
    ("replace-one sum at add-remove noise", laplace_sum(1.0), numbers(6, -1, 1), True),
    ("median at local sensitivity", median_local, numbers(5, 0, 1), True),
    ("median, exponential mechanism", median_exponential, numbers(5, 0, 1), False),
]


@pytest.mark.parametrize(("name", "f", "domain", "broken"), SEARCHES, ids=[s[0] for s in SEARCHES])
def test_search_finds_its_own_inputs(name, f, domain, broken):
    found = audit_callable(f, domain, EPS, samples=20_000, seed=3)
    assert domain.neighbours(*found.pair)
    assert found.verdict == ("violated" if broken else "not-certified")
