"""on-pair-c: how far one record moves a whole transcript, exactly; blocks; regret; and the printed claims."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpspec.algorithms.pairwise import _stream
from dpspec.algorithms.pairwise import on_pair_c as module
from dpspec.algorithms.pairwise._printed import start_phase
from dpspec.measures.risk import EXCESS_EMPIRICAL_RISK
from dpspec.privacy.meter import Release
from dpspec.privacy.noise import StudyNoise
from tests.algorithms.pairwise.streams import RANKING, Fed, bound, movement
from tests.algorithms.pairwise.test_off_pair_c import drafted, sample

LINEAR = "-(y1 - y2)*<w, x1 - x2>"


@pytest.mark.parametrize(("every", "begin"), [(1, 1), (3, 2), (2, 5)])
def test_a_record_moves_a_transcript_by_the_sensitivity_and_no_more(every: int, begin: int):
    """A linear loss, whose pairs all pull one way: attained. All places of the record, in fractions."""
    p, t, _ = bound(module, n=11, d=1, loss=LINEAR, options=f"every = {every}, T_1 = {begin}, alpha = 1, shift = 2")
    plan = _stream.blocks(p, t)
    most = movement(p.n, lambda u, y: Fraction(-y), [Fraction(0)] * plan.count, plan, None)
    stated = Fraction(module.sensitivity(p, t)) ** 2
    assert stated * Fraction(999, 1000) <= most <= stated


def test_with_curvature_and_released_points_elsewhere_it_is_not_exceeded():
    loss = "(1 - (y1 - y2)*<w, x1 - x2>)^2/2"
    p, t, _ = bound(module, n=9, d=1, loss=loss, over="ball(l2, 0.125)", options="every = 2, T_1 = 1, alpha = 1, shift = 2")
    plan = _stream.blocks(p, t)
    points = [Fraction((-1) ** q, 8) for q in range(plan.count)]
    most = movement(p.n, lambda u, y: -y * (1 - y * u), points, plan, None)
    assert Fraction(module.sensitivity(p, t)) ** 2 / 400 <= most <= Fraction(module.sensitivity(p, t)) ** 2


def test_a_release_a_record_costs_little_more_than_one_gradient():
    """pi/sqrt(6) without a start phase, whatever n is."""
    for n in (50, 5000):
        assert _stream._against_all(n, _stream.Blocks(1, 1, n - 1)) == pytest.approx(math.sqrt(sum(1 / k**2 for k in range(1, n))))
    assert _stream._against_all(5000, _stream.Blocks(12, 1, 4988)) < 1.05


def test_doubles_follow_the_exact_gradients_and_the_points_are_read_from_the_answers():
    p, t, _ = bound(module, n=40, d=2, options="every = 7, T_1 = 3, alpha = 0.5, shift = 4")
    r, rng = sample(40, 2), np.random.default_rng(0)
    plan = _stream.blocks(p, t)
    meter = Fed(rng.normal(size=(plan.count, 2)))
    path = module.run(r, p, t, meter).extras["transcript"]
    for q in range(plan.count):
        w, total = path[q], np.zeros(2)
        for k in range(plan.rows(q).start, plan.rows(q).stop):
            for i in range(k):
                gap, u = r.x[k] - r.x[i], r.y[k] - r.y[i]
                total += -u * gap / (1 + math.exp(u * (gap @ w))) / k / plan.every
        assert meter.seen[q] == pytest.approx(total, rel=1e-9, abs=1e-12)
        eta = 1 / (0.5 * (q + 4))
        inner = (w - eta * meter.answers[q]) / (1 + 0.5 * eta)
        assert path[q + 1] == pytest.approx(inner / max(1, np.linalg.norm(inner)), abs=1e-12)


def test_large_blocks_and_long_prefixes_are_cut(monkeypatch: pytest.MonkeyPatch):
    from dpspec.tasks import minimise_pairwise as task

    p, t, _ = bound(module, n=60, d=2, options="every = 20, T_1 = 10, alpha = 0.5")
    r = sample(60, 2)
    whole, cut = Fed(), Fed()
    module.run(r, p, t, whole)
    monkeypatch.setattr(task, "_BLOCK", 50)
    module.run(r, p, t, cut)
    assert np.array(cut.seen) == pytest.approx(np.array(whole.seen), abs=1e-13)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"neighbours": "add-remove"}, "how many records"),
        ({"options": "alpha = 0"}, "both 0"),
        ({"options": "T_1 = 400"}, "leaves no block"),
    ],
)
def test_refusals(spec: dict[str, Any], words: str):
    errors = [d.message for d in drafted(algorithm="on-pair-c", **spec).diagnostics if d.severity == "error"]
    assert any(words in message for message in errors), errors


def test_a_hinge_loss_is_served():
    """Nothing has to contract, so nothing has to be smooth."""
    bound(module, loss="max(0, 1 - (y1 - y2)*<w, x1 - x2>)")


def run(n: int, seed: int, **spec: Any) -> tuple[float, Any, Any, Any]:
    p, t, calibrated = bound(module, n=n, d=2, **spec)
    r = sample(n, 2, seed)
    meter = Release(calibrated, StudyNoise(seed), mode="study")
    estimate = module.run(r, p, t, meter)
    meter.close()
    return float(p.oracle.stream_regret(estimate.extras["transcript"], estimate.extras["times"], r)), p, t, calibrated


def test_the_regret_is_that_of_a_loop_and_stays_below_the_bound():
    values = [
        run(300, seed, options="every = 10, T_1 = 5, alpha = 0.3, shift = 20", budget="epsilon = 4, delta = 1e-6") for seed in range(4)
    ]
    stated = module.explicit_bounds(*values[0][1:])[_stream.THEOREM]
    assert 0 < np.mean([v[0] for v in values]) <= stated
    p, t, calibrated = values[0][1:]
    r = sample(300, 2, 0)
    estimate = module.run(r, p, t, Release(calibrated, StudyNoise(0), mode="study"))
    path, times = estimate.extras["transcript"], estimate.extras["times"]

    def penalty(w: np.ndarray, k: int) -> float:
        return float(np.mean([np.logaddexp(0, -(r.y[k] - r.y[i]) * ((r.x[k] - r.x[i]) @ w)) for i in range(k)]))

    paid = sum(penalty(path[np.searchsorted(times, k, "right") - 1], k) for k in range(1, 300)) / 299
    best = paid - values[0][0]
    rng = np.random.default_rng(0)
    for w in rng.normal(size=(5, 2)):
        w = w / max(1, np.linalg.norm(w))
        assert sum(penalty(w, k) for k in range(1, 300)) / 299 >= best - 1e-9


def test_the_bound_counts_what_it_says():
    p, t, calibrated = bound(
        module, n=10_000, d=2, budget="epsilon = 8, delta = 1e-6", options="every = 50, alpha = 0.05, shift = 200, T_1 = 500"
    )
    (value,) = module.explicit_bounds(p, t, calibrated).values()
    L, Q, b, A, D = p.loss.lipschitz, 190, 50, 0.05, 1.0
    V = L**2 + 2 * calibrated.scale("gradients") ** 2
    late = A * 200 / 2 * D**2 + V / (2 * A) * sum(1 / (q + 199) for q in range(1, Q + 1)) + Q * A / 2 * D**2
    assert value == pytest.approx((499 * L * D + b * late) / 9999)


# ------------------------------------------------------------------------------------------------------------ printed claims


def test_the_printed_start_phase_takes_no_step():
    """alpha = n^(-1/4), B = 4: 16 (4 + alpha)^2 sqrt(n) is at least n up to 65,536."""
    assert start_phase(4 + 350**-0.25, 350**-0.25) > 5000 > 350
    assert all(start_phase(4 + n**-0.25, n**-0.25) >= n for n in (1000, 10_000, 65_536))


def test_the_regret_grows_as_the_square_root():
    """The explicit bound at its own best alpha and shift falls as n^(-1/2) a record, the printed one as n^(-1/4)."""
    values = []
    for n in (10_000, 160_000):
        every, D, L, d, S, mu = math.ceil(5 * math.sqrt(5)), 1.0, 4.0, 5, 4.0, 0.2
        Q = n / every
        V = L**2 + d * (1.15 * S / (every * mu)) ** 2
        A = math.sqrt(V * math.log(2) / (2 * Q)) / D
        values.append(every / n * (A * Q * D**2 / 2 + V / (2 * A) * math.log(2) + Q * A * D**2 / 2))
    assert math.log(values[0] / values[1]) / math.log(16) == pytest.approx(0.5, abs=1e-9)


def test_the_printed_product_is_no_bound_for_small_constants():
    """At L = B = D = 0.05 the printed product has a factor 0.05^6, and the term n alpha D^2/2 of its own proof is larger for C = 1."""
    n, d, e, delta, zeta, small = 10_000, 2, 1.0, 1e-6, 0.05, 0.05
    printed = small**6 * math.sqrt(d) * math.log(n / zeta) ** 1.5 * n**0.75 * math.sqrt(math.log(1 / delta)) / e
    assert n * n**-0.25 * small**2 / 2 > 300 * printed


def test_the_excess_risk_is_a_part_of_that_of_the_zero_vector():
    n = 2000
    p, t, calibrated = bound(module, n=n, d=3, loss=RANKING, budget="epsilon = 2, delta = 1e-6")
    r = sample(n, 3)
    from dpspec.algorithms.objective import optimum

    least = optimum(p.oracle, r)[1]
    found = [p.oracle.value(module.run(r, p, t, Release(calibrated, StudyNoise(s), mode="study")).theta, r) - least for s in range(4)]
    assert np.mean(found) <= (p.oracle.value(np.zeros(3), r) - least) / 3
    assert EXCESS_EMPIRICAL_RISK.name == "excess-empirical-risk"
