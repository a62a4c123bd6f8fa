"""dp-gradient-em-split: one record in one batch, its bound on fresh records, and what the printed algorithm would do."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dpspec.algorithms.em import _steps as steps
from dpspec.algorithms.em import dp_gradient_em_split as module
from dpspec.compiler.passes import compile_draft
from dpspec.data.records import Records
from dpspec.lang.source import parse_text
from dpspec.numeric import robust
from dpspec.privacy.calibrate import Budget
from dpspec.privacy.meter import Release
from dpspec.privacy.noise import PublicRandomness, StudyNoise
from tests import leak
from tests.algorithms.em.test_dp_gradient_em_full import NASTY, Quiet, contraction, drawn, problem, up_to_sign
from tests.algorithms.sparse.exact import gaussian_delta
from tests.algorithms.support import plan, tunables


class Seen(Quiet):
    """Answers zeros, and keeps what it was handed."""

    def draw(self, name, value, *, sensitivity):
        self.__dict__.setdefault("seen", []).append(np.array(value))
        return super().draw(name, value, sensitivity=sensitivity)


@pytest.mark.parametrize("place", [0, 3, 6])
def test_a_record_moves_one_batch_by_the_sensitivity_at_most(place):
    """Seven records, three batches of 2, 2 and 3: whatever stands at a place, only its batch moves, exactly within the stated distance."""
    p = problem(7, 2)
    t = tunables(module, p, T=3, s=1)
    base = np.random.default_rng(0).standard_normal((7, 2))
    handed = []
    for row in [(a, b) for a in NASTY for b in NASTY[3:]]:
        x = base.copy()
        x[place] = row
        door = Seen(module.schedule(p, t), blind=True)
        module.run(Records(x), p, t, door)
        handed.append(door.seen)
    moved = [{tuple(found[k]) for found in handed} for k in range(3)]
    assert [len(values) > 1 for values in moved] == [k == min(place // 2, 2) for k in range(3)]
    stated, values = Fraction(steps.sensitivity(p, t, 2)), list(moved[min(place // 2, 2)])
    largest = max(sum((Fraction(a) - Fraction(b)) ** 2 for a, b in zip(u, v, strict=True)) for u in values for v in values)
    assert largest <= stated**2
    assert largest >= (Fraction(6, 10) * stated) ** 2  # the batch of three is divided by three


def test_every_record_is_used_once_and_the_budget_is_spent_on_one_batch():
    p = problem(6001, 3)
    t = tunables(module, p)
    mu = steps.sensitivity(p, t, 6001 // t.T) / plan(module, p, t).scale("gradient")
    assert gaussian_delta(mu, 1.0) == pytest.approx(1e-6, rel=1e-3)

    read = []

    class Watched(Records):
        def blocks(self, size=1 << 15):
            for x, y in Records.blocks(self, size):
                read.extend(x[:, 0].tolist())
                yield x, y

        def slice(self, start, stop):
            return Watched(self.x[start:stop])

    x = np.arange(6001.0)[:, None] * np.ones(3)
    module.run(Watched(x), p, t, Quiet(module.schedule(p, t), blind=True))
    assert sorted(read) == x[:, 0].tolist()


def test_the_scale_is_the_best_for_the_bound():
    """The deviation at the balanced s, with the noise of that s, is within 2 % of the least over s (the tunable takes mu from zCDP)."""
    p = problem(100_000, 3, gradient_moment=4.0, delta=1e-6)

    def deviation(factor: float) -> float:
        t = tunables(module, p, s=factor * tunables(module, p).balanced)
        return steps.deviation(p, t, module.batch(p, t), plan(module, p, t).scale("gradient"))

    assert deviation(1.0) <= 1.02 * min(deviation(f) for f in (0.5, 0.7, 0.85, 1.15, 1.4, 2.0))


def test_the_bound_holds(monkeypatch):
    n, sigma, beta = 60_000, 0.5, np.array([1.5, 0.0])
    moment = (math.hypot(1.5, sigma) + 1.25 * 1.5) ** 2
    p = problem(n, 2, sigma=sigma, gradient_moment=moment, contraction=contraction(3.0, 1 / 8), start_within=1 / 8)
    t = tunables(module, p, T=2, s="balanced")
    c = plan(module, p, t, Budget(epsilon="4", delta="0.000001"))
    (bound,) = module.explicit_bounds(p, t, c).values()
    error = math.sqrt(2) * (t.tau * (1 + 1 / t.b) / (2 * t.s) + t.s * (t.b / 2 + math.log(4 * 2 * 2 / 0.05)) / (n / 2))
    error += c.scale("gradient") * (math.sqrt(2) + math.sqrt(2 * math.log(2 * 2 / 0.05)))
    assert bound == pytest.approx(p.facts["contraction"] ** 2 * 1.5 / 8 + error / (1 - p.facts["contraction"]))
    monkeypatch.setattr(steps, "start", lambda p, t, release: beta * 9 / 8)
    found = []
    for seed in range(8):
        release = Release(c, StudyNoise(seed), mode="study", public=PublicRandomness(seed))
        found.append(up_to_sign(module.run(Records(*drawn("gmm", n, beta, sigma, seed)), p, t, release).theta, beta))
        release.close()
    assert max(found) <= bound
    assert np.median(found) > bound / 40


# ------------------------------------------------------------------------------------------------------------ as it is printed


def test_the_printed_etilde_spends_six_times_the_budget():
    p = problem(5000, 3, delta=1e-5)
    t = tunables(module, p, b=10_000)  # the cap is then that of the documents, 2 sqrt(2)/3
    meant, printed = module.published(p, t, Budget(epsilon="1", delta="0.00001"))
    assert meant.epsilon <= 1
    assert gaussian_delta(math.sqrt(2), printed.epsilon) == pytest.approx(1e-5, rel=1e-3)  # epsilon^2-zCDP: mu = sqrt(2) epsilon
    assert printed.epsilon > 6
    leak.epsilon(printed.epsilon, 1.0, 1e-5)


def test_the_printed_sum_is_unbounded_in_a_record():
    """(23): polynomial parts of the batch over m, the rest of the kernel of all records over n. One record, n = 8, m = 4, b = 3."""
    n, m, b = 8, 4, 3.0

    def printed(records: np.ndarray) -> float:
        polynomial = records * (1 - records**2 / b / 2) - records**3 / 6
        rest = robust.kernel(records, b) - polynomial
        return float(polynomial[:m].sum() / m + rest.sum() / n)

    base = np.linspace(-0.5, 0.5, n)
    moved = []
    for size in (1.0, 1e2, 1e3):
        other = base.copy()
        other[0] = size
        moved.append(abs(printed(other) - printed(base)))
    whole = 2 * robust.supremum(b) / m
    assert moved[0] < whole
    assert moved[2] > 1e6 * whole
    assert moved[2] > 500 * moved[1]
    leak.moved(moved[2], whole)


def test_the_two_printed_variances_differ_by_a_logarithm():
    n, T, d, tau, zeta, etilde = 12_000, 6, 20, 2.0, 0.01, 0.07
    m, log = n / T, math.log(20 / 0.01)
    s, b = math.sqrt(m * tau * etilde) / (2 * log), math.sqrt(log)
    first, second = 16 * s**2 * d / (9 * m**2 * etilde**2), 4 * d * T * tau / (9 * n * b**2 * etilde)
    assert zeta == 0.01
    assert second / first == pytest.approx(log)


# ------------------------------------------------------------------------------------------------------------------- the plan

SPEC = """
analysis "a"
data
  n = {n}, d = 3
  sigma = 0.5
  from memory
  private, unit person, neighbours {relation}
privacy central
  epsilon = 1, delta = 1e-6
assume
  signal-to-noise(3)
  start(1/8)
  contraction(0.05)
release m
  fit gmm(2)
  by dp-gradient-em-split with s = balanced
"""


def test_a_plan_gives_the_bound_where_iterates_stay_and_refuses_add_remove():
    values = {}
    for n in (4000, 10**8):
        draft = compile_draft(parse_text(SPEC.format(n=n, relation="replace-one"), surface="dps"))
        assert [d.code for d in draft.diagnostics if d.severity == "error"] == []
        values[n] = next(b.value for b in draft.releases[0].bounds if b.kind == "explicit")
    assert values[4000] is None
    assert 0 < values[10**8] < 0.25 * 1.5 + 0.05**5
    refused = compile_draft(parse_text(SPEC.format(n=4000, relation="add-remove"), surface="dps")).diagnostics
    assert "DP306" in {d.code for d in refused if d.severity == "error"}


def test_the_default_scale_errs_less_than_the_balanced_one():
    beta, p = np.array([1.2, -0.9]), problem(12_000, 2, gradient_moment=8.0)
    errors = []
    for given in ({}, {"s": "balanced"}):
        t = tunables(module, p, **given)
        c, found = plan(module, p, t), []
        for seed in range(3):
            release = Release(c, StudyNoise(seed), mode="study", public=PublicRandomness(seed))
            found.append(up_to_sign(module.run(Records(*drawn("gmm", 12_000, beta, 0.5, seed)), p, t, release).theta, beta))
            release.close()
        errors.append(np.median(found))
    assert errors[0] < errors[1] / 2
    assert errors[0] < 0.1
