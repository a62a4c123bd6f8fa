"""The noise that 000 prints for sampled and composed steps, against explicit neighbours and events; and ours against exact divergences.

The records of the events: all have the loss w in one dimension (slope 1) but one, whose slope is clip(w - c, -1, 1) (convex, 1-Lipschitz,
1-smooth). The neighbour has the loss w there as well, so every variance-reduced estimate is 1 plus noise. When the record is drawn
at a point below c - 1 with an anchor above c + 1, the estimate is 2 lower. Event: some estimate lies below 0.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom, norm

from dpspec.algorithms.convex_erm import dp_frank_wolfe, dp_sgd, dp_svrg
from dpspec.algorithms.vertices import clipped_gradient
from dpspec.data.records import Records
from dpspec.privacy.accounting import amplified
from dpspec.privacy.calibrate import Budget, calibrate
from dpspec.privacy.mechanisms.objective_gaussian import GaussianObjective
from dpspec.privacy.samplers import CalibrationError
from dpspec.privacy.schedule import Draw, Repeat
from dpspec.spec.expr import Num
from dpspec.spec.model import Ball
from tests.algorithms.support import logistic, minimise, plan, tunables


def exact_delta(epsilon: float, mu: float) -> float:
    return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))


def excess(p: np.ndarray, q: np.ndarray, cell: float, epsilon: float) -> float:
    """Hockey-stick divergence of two densities on a grid, the larger of the two directions."""
    e = math.exp(epsilon)
    return float(max(np.maximum(p - e * q, 0).sum(), np.maximum(q - e * p, 0).sum()) * cell)


# ------------------------------------------------------------------------------------------- printed noise, by an event


def exposed_steps(epochs: list[int], eta: float, c: float, th: float = 1.0, *, restart: bool = False) -> int:
    """Steps whose point y = th x + (1 - th) z lies below c - 1.5 while the anchor z is above c + 1.5, without noise (which moves the points
    by hundredths): from 0 with slope 1; z is the mean of an epoch's x, moved by th; ``restart``: x goes back to z."""
    x = z = 0.0
    count = 0
    for length in epochs:
        total = 0.0
        for _ in range(length):
            count += th * x + (1 - th) * z < c - 1.5 < c + 1.5 < z
            x -= eta
            total += x
        z = th * total / length + (1 - th) * z
        x = z if restart else x
    return count


def necessary_epsilon(n: int, steps: int, exposed: int, sigma: float, delta: float) -> float:
    """log((P - delta)/P'): the record is drawn in one of ``exposed`` steps, and its estimate, -1 + noise, is below 0; the neighbour's
    ``steps`` estimates are 1 + noise."""
    drawn = -math.expm1(exposed * math.log1p(-1 / n)) * norm.cdf(1 / sigma)
    return math.log(drawn - delta) - math.log(steps) - float(norm.logsf(1 / sigma))


def test_the_noise_of_dp_katyusha_by_an_event():
    """Theorem 3.1.3 at n = 1e5, T = 12, m = 75000, epsilon 1, delta 1e-4 (c = 1): the first epoch alone needs an epsilon above 500."""
    n, T, m, delta = 100_000, 12, 75_000, 1e-4
    sigma = math.sqrt(T * m * math.log(1 / delta)) / n
    exposed = exposed_steps([m], 2 / 3, -2.0, 0.5)
    assert exposed > m - 20
    assert necessary_epsilon(n, T * m, exposed, sigma, delta) > 500


def test_the_noise_of_dp_svrg_pp_by_an_event():
    """(3.7) at n = 50000, T = 10, m = 4, B = 1: the doubling epochs pass the kink once, and then an anchor lies behind for a while."""
    n, T, m, delta = 50_000, 10, 4, 1e-4
    epochs = [m * 2**s for s in range(1, T + 1)]
    sigma = math.sqrt(2**T * m * math.log(2 / delta)) / n
    exposed = max(exposed_steps(epochs, 1 / 13, c) for c in (-30.0, -60.0, -90.0, -150.0))
    assert exposed > 1000
    assert necessary_epsilon(n, sum(epochs), exposed, sigma, delta) > 10_000


@pytest.mark.parametrize("factor", [math.sqrt(math.log(24 / 1e-4)), math.log(24 / 1e-4)], ids=["root", "whole"])
def test_the_noise_of_remark_3_1_1_by_an_event(factor):
    """Algorithm 3.1.1 with the noise of Remark 3.1.1, larger by O(log(T/delta)), at the setting of the experiments."""
    n, T, m, delta = 100_000, 24, 100, 1e-4
    sigma = factor * math.sqrt(T * m * math.log(1 / delta)) / n
    exposed = exposed_steps([m] * T, 0.1, -2.0, restart=True)
    assert exposed >= 60
    assert necessary_epsilon(n, T * m, exposed, sigma, delta) > 500


# --------------------------------------------------------------------------------------------- ours, by quadrature


def test_a_batch_step_of_ours_by_quadrature():
    """dp-sgd, one step, batches of 2 of 10 records: all gradients are -L, or one is L and in the batch with probability 1/5; the mean is
    then 2L/b higher. The plan's delta is met with equality, so at 9/10 of the noise it is exceeded."""
    p = minimise(10, 1, logistic(), facts={"epsilon": 1.0, "delta": 1e-3})
    t = tunables(dp_sgd, p, T=1, b=2)
    scale = plan(dp_sgd, p, t, Budget(epsilon="1", delta="0.001")).scale("gradient")

    def spent(s: float) -> float:
        x = np.linspace(-12 * s - 1, 12 * s + 1, 400_001)
        one, other = 0.8 * norm.pdf(x, 0, s) + 0.2 * norm.pdf(x, 1, s), norm.pdf(x, 0, s)
        return excess(one, other, x[1] - x[0], 1.0)

    assert 0.99 * 1e-3 < spent(scale) <= 1e-3 * (1 + 1e-6)
    assert spent(0.9 * scale) > 1e-3


def test_a_variance_reduced_step_of_ours_by_quadrature():
    """One step with its anchor, batches of 2 of 10: the anchor moves from L/n to -L/n; all scaled differences are -2L, or one is 2L, and
    when it is drawn the mean is 4L/b higher. Two numbers at the scales of the plan, which meets its delta; at 9/10 of them it is
    exceeded."""
    p = minimise(10, 1, logistic(l2=0.1), facts={"epsilon": 1.0, "delta": 1e-3})
    c = plan(dp_svrg, p, tunables(dp_svrg, p, T=1, m=1, b=2), Budget(epsilon="1", delta="0.001"))

    def spent(share: float) -> float:
        a, b = share * c.scale("anchor"), share * c.scale("difference")
        u, v = np.linspace(-9 * a - 1, 9 * a + 1, 1501), np.linspace(-9 * b - 2, 9 * b + 2, 1501)
        one = norm.pdf(u, 0.1, a)[:, None] * (0.8 * norm.pdf(v, 0, b) + 0.2 * norm.pdf(v, 2, b))[None, :]
        other = norm.pdf(u, -0.1, a)[:, None] * norm.pdf(v, 0, b)[None, :]
        return excess(one, other, (u[1] - u[0]) * (v[1] - v[0]), 1.0)

    assert 0.9 * 1e-3 < spent(1.0) <= 1e-3 * (1 + 1e-6)
    assert spent(0.9) > 1e-3


def test_amplification_of_ours_covers_large_epsilon():
    """Randomised response at epsilon 5 on a tenth of the records loses log(0.9 + 0.1 e^5) exactly; ours is that, rounded up."""
    exact = math.log(0.9 + 0.1 * math.exp(5))
    ours = float(amplified(Fraction(5), Fraction(1, 10)))
    assert exact * (1 - 1e-15) <= ours <= exact * (1 + 1e-12)
    assert ours > 2 * 0.1 * 5


# ------------------------------------------------------------------------------------------------- composition lemmas


def test_lemma_2_1_5_certifies_twice_what_it_spends():
    """T mechanisms (epsilon', delta/T), epsilon' = epsilon/(2 sqrt(2 T log(2/delta))): the lemma states 2 delta. The exact composition
    (Kairouz, Oh, Viswanath 2015: randomised responses that fail with probability delta/T) is below delta: text, not privacy."""
    for T in (1, 10, 100, 1000):
        for epsilon, delta in ((1.0, 1e-4), (0.5, 1e-6)):
            each = epsilon / (2 * math.sqrt(2 * T * math.log(2 / delta)))
            lies = np.arange(T + 1)
            loss = (T - 2 * lies) * each
            over = binom.pmf(lies, T, 1 / (1 + math.exp(each))) * np.maximum(-np.expm1(epsilon - loss), 0.0)
            spent = 1 - (1 - delta / T) ** T * (1 - float(over.sum()))
            assert 0.9 * delta < spent <= delta * (1 + 1e-9)


def test_mechanisms_with_a_delta_are_not_composed():
    """Against Lemma 2.1.6: a mechanism of which one pair (epsilon, delta) is known composes with nothing here."""
    once = Draw("objective", GaussianObjective(10, 1, 1.0, 0.25, 0.1, 1e-6, 1e-6))
    assert calibrate(once, Budget(epsilon="1", delta="0.00001")).guarantee.epsilon == 1.0
    with pytest.raises(CalibrationError) as caught:
        calibrate(Repeat(once, 2), Budget(epsilon="1", delta="0.00001"))
    assert caught.value.code == "DP308"


# ---------------------------------------------------------------------------------------------- records that are too large


def test_a_record_beyond_the_assumed_bound_breaks_a_vertex_choice():
    """003, section 4: entries of gradients assumed at most L = 0.1. One choice among +-2 e_1, +-2 e_2 at epsilon 1, probabilities of the
    exponential mechanism in closed form: a record with entries 10 makes the loss far larger than 1; clipped, it is at most 1."""
    n, c = 50, 0.1
    p = minimise(n, 2, logistic(), over=Ball(norm="l1", radius=Num(2)), facts={"w_radius": 2.0})
    t = tunables(dp_frank_wolfe, p, clip=0.1, T=1)
    scale = calibrate(dp_frank_wolfe.schedule(p, t), Budget(epsilon="1")).scale("vertex")
    x = np.random.default_rng(0).uniform(-0.1, 0.1, (n, 2))
    wild = x.copy()
    wild[0] = 10.0
    y = np.ones(n)

    def choice(gradient: np.ndarray) -> np.ndarray:
        weights = np.exp(2.0 * np.concatenate([-gradient, gradient]) / scale)
        return weights / weights.sum()

    f, w = p.objective, np.zeros(2)
    loose = [choice(f.data_gradient(w, Records(a, y), n)) for a in (x, wild)]
    tight = [choice(clipped_gradient(f, w, Records(a, y), n, c, 1.0)) for a in (x, wild)]
    assert np.abs(np.log(loose[0] / loose[1])).max() > 10
    assert 0.1 < np.abs(np.log(tight[0] / tight[1])).max() <= 1


def test_scaling_by_the_largest_norm_by_its_delta():
    """A mean of 100 numbers, scaled by the largest, with noise that is (1, 1e-5)-DP for a change of 2/100: one record moves it by 0.98."""
    x = np.ones(100)
    wild = np.where(np.arange(100) == 0, 50.0, 1.0)
    mu = 0.22  # 0.02 over the noise
    assert exact_delta(1.0, mu) <= 1e-5
    moved = abs((x / x.max()).mean() - (wild / wild.max()).mean())
    assert exact_delta(1.0, mu * moved / 0.02) > 0.9
    ours = abs((x / np.maximum(1, x)).mean() - (wild / np.maximum(1, wild)).mean())
    assert ours <= 0.02
