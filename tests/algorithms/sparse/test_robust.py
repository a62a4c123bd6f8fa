"""The robust mean: closed form against quadrature, the printed form's breakdown, bounded influence for every bit pattern."""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.sparse import csr_array
from scipy.stats import norm

from dpspec.algorithms.sparse import dp_sparse_mean_heavy_tailed as mean
from dpspec.algorithms.sparse import dp_sparse_optimization_heavy_tailed as optimisation
from dpspec.data.records import Records
from dpspec.numeric import robust
from dpspec.spec.expr import Num
from dpspec.spec.model import Sparse
from tests import leak
from tests.algorithms.sparse.exact import Exact
from tests.algorithms.support import logistic, minimise, tunables


def phi(a: float) -> float:
    return a - a**3 / 6 if abs(a) <= math.sqrt(2) else math.copysign(2 * math.sqrt(2) / 3, a)


def smoothed(a: float, beta: float) -> float:
    """E phi(a + |a| Z/sqrt(beta)) by quadrature over the cubic piece and exact tails."""
    b, r = abs(a) / math.sqrt(beta), math.sqrt(2)
    middle = quad(lambda t: phi(t) * norm.pdf(t, a, b), -r, r, points=[min(max(a, -r), r)], epsabs=1e-13, limit=200)[0]
    return middle + 2 * r / 3 * (norm.sf(r, a, b) - norm.cdf(-r, a, b))


def bare(a: float, beta: float) -> float:
    """The closed form as 003 has it, without guards."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        a = np.float64(a)
        b = np.abs(a) / math.sqrt(beta)
        low, high = (math.sqrt(2) - a) / b, (math.sqrt(2) + a) / b
        f1, f2 = norm.cdf(-low), norm.cdf(-high)
        e1, e2 = np.exp(-low * low / 2), np.exp(-high * high / 2)
        root = math.sqrt(2 * math.pi)
        rest = 2 * math.sqrt(2) / 3 * (f1 - f2) - (a - a**3 / 6) * (f1 + f2) + b / root * (1 - a * a / 2) * (e2 - e1)
        rest += a * b * b / 2 * (f2 + f1 + (high * e2 + low * e1) / root)
        rest += b**3 / (6 * root) * ((2 + low * low) * e1 - (2 + high * high) * e2)
        return float(a * (1 - b * b / 2) - a**3 / 6 + rest)


@pytest.mark.parametrize("beta", [0.5, 1.0, 4.0])
def test_the_closed_form_against_quadrature(beta):
    for a in (-30.0, -2.0, -1.0, -0.1, 1e-3, 0.4, 1.3, 1.5, 5.0, 100.0):
        assert robust.kernel(np.array([a]), beta)[0] == pytest.approx(smoothed(a, beta), abs=1e-6 if abs(a) >= 30 else 1e-9)
    assert robust.kernel(np.zeros(1), beta)[0] == 0.0


def test_the_bare_closed_form_breaks_its_bound():
    limit = 2 * math.sqrt(2) / 3
    # what is left where terms of size |a|^3 cancel is rounding, and differs between processors: the worst of a hundred arguments
    assert max(abs(bare(a, 1.0)) for a in np.geomspace(1e6, 2e6, 100)) > 100 * limit
    assert max(abs(bare(a, 1.0)) for a in np.geomspace(1e8, 2e8, 100)) > 1e7
    for a in (1e-160, math.inf, math.nan):
        assert math.isnan(bare(a, 1.0))
    for a in (1e6, -1e8, 1e-160, math.inf, -math.inf, math.nan):
        assert abs(robust.kernel(np.array([a]), 1.0)[0]) <= robust.supremum(1.0)
    leak.moved(max(abs(bare(a, 1.0)) for a in np.geomspace(1e6, 2e6, 100)), 2 * limit)  # against a record of 0


@pytest.mark.parametrize("beta", [0.05, 2.0, 30.0, 1e4])
def test_the_table_is_the_kernel(beta):
    """Between nodes, in both of the formulas that fill it, and where they meet: odd, within 1e-8 of the closed form derived."""
    g = np.random.default_rng(0)
    a = np.concatenate([g.random(2000) * 3, 10 ** g.uniform(-3, 1, 2000), [robust._FLAT * (1 + 1e-6 * k) for k in (-1, 0, 1)]])
    np.testing.assert_allclose(robust.kernel(a, beta), robust.closed_form(a, beta), rtol=0, atol=1e-8)
    np.testing.assert_array_equal(robust.kernel(-a, beta), -robust.kernel(a, beta))
    tiny = np.array([1e-300, 1e-12, 5e-7])
    np.testing.assert_allclose(robust.kernel(tiny, beta), tiny, rtol=1e-8)


def test_a_number_has_one_value_wherever_it_stands():
    """A record's part is the same double in every block: the sensitivity of a sum in doubles rests on it."""
    a = np.random.default_rng(1).standard_t(2, size=50_001)
    whole = robust.kernel(a, 5.0)
    np.testing.assert_array_equal(robust.kernel(a[7:], 5.0), whole[7:])
    np.testing.assert_array_equal([robust.kernel(a[k : k + 1], 5.0)[0] for k in range(40)], whole[:40])


@pytest.mark.parametrize("beta", [0.25, 1.0, 2.0])
def test_any_bit_pattern_stays_within_the_supremum(beta):
    bits = np.random.default_rng(0).integers(0, 2**64, 200_000, dtype=np.uint64)
    values = robust.kernel(bits.view(np.float64), beta)
    assert np.isfinite(values).all()
    assert np.abs(values).max() <= robust.supremum(beta)
    assert robust.supremum(beta) == pytest.approx(2 * math.sqrt(2) / 3 * (2 * norm.cdf(math.sqrt(beta)) - 1))


def test_the_supremum_is_the_limit_of_the_smoothed_function():
    values = [smoothed(a, 1.0) for a in np.geomspace(0.01, 1e4, 200)]
    assert max(values) <= robust.supremum(1.0) + 1e-9
    assert values[-1] == pytest.approx(robust.supremum(1.0), abs=1e-3)


def problem(n: int, d: int, **facts: float):
    return minimise(n, d, logistic(l2=0.1), over=Sparse(k=Num(2)), facts={"k": 2, **facts})


def test_the_influence_of_a_record():
    """Over nasty records: the step moves by at most lam = 2 sup eta s/m, reached by records at opposite ends; printed 4 sqrt(2) s eta/m."""
    n, d = 4, 2
    p = problem(n, d)
    t = tunables(optimisation, p, T=1, scale=0.5, eta=1)
    lam = optimisation.sensitivity(p, t)
    w = np.array([0.3, 0.0])
    nasty = [0.0, 1.0, -3.0, 1e6, -1e6, 1e9, 1e300, -1e300]
    steps = []
    for a, y in itertools.product(nasty, (-1.0, 1.0)):
        x = np.array([[a, a], [1.0, 2.0], [0.5, 0.1], [-1.0, 0.4]])
        for first in (a, 0.0):  # with 0 the slope is -y/2 and the second coordinate goes either way
            x[0, 0] = first
            steps.append(t.eta * optimisation.robust_gradient(x, np.array([y, 1.0, 1.0, -1.0]), w, p, t))
    worst = max(float(np.abs(a - b).max()) for a in steps for b in steps)
    assert worst <= lam
    assert worst > 0.99 * lam
    printed = 4 * math.sqrt(2) * t.scale * t.eta / n
    assert lam < printed / 3  # the factor 1/3 it lost, and the exact supremum


def test_one_round_by_hand():
    """w = 0, logistic slope -y/2: coordinates -y x/2 through the kernel, one step, two kept entries."""
    x, y = np.array([[1.0, 0.0, 0.2], [0.0, 3.0, 0.0]]), np.array([1.0, -1.0])
    p = problem(2, 3)
    t = tunables(optimisation, p, T=1, scale=2, eta=1)
    got = optimisation.run(Records(x, y), p, t, Exact(optimisation.schedule(p, t)))
    expected = np.array([-2 * smoothed(-0.25, 1.0) / 2, -2 * smoothed(0.75, 1.0) / 2, 0.0])
    assert np.allclose(got.theta, expected, atol=1e-9)


def test_sparse_records_give_the_same():
    g = np.random.default_rng(0)
    x = g.standard_t(3, size=(60, 5)) * (g.random((60, 5)) < 0.4)
    y = np.where(g.random(60) < 0.5, 1.0, -1.0)
    p = problem(60, 5)
    t = tunables(optimisation, p, T=1)
    w = np.array([0.5, 0.0, -1.0, 0.0, 0.0])
    dense = optimisation.robust_gradient(x, y, w, p, t)
    assert np.allclose(optimisation.robust_gradient(csr_array(x), y, w, p, t), dense, atol=1e-13)


def test_the_robust_mean_beats_the_plain_one_on_heavy_tails():
    """Student-t(2.1): the error of the plain mean is driven by single records; the kernel's is not. Median over 40 data sets."""
    errors = {"plain": [], "robust": []}
    for seed in range(40):
        x = np.random.default_rng(seed).standard_t(1.5, size=(2000, 1))
        errors["plain"].append(abs(x.mean()))
        errors["robust"].append(abs(float(robust.column_sums(x, np.ones(2000), 20.0, 1.0)[0]) / 2000))
    assert np.quantile(errors["robust"], 0.9) < 0.6 * np.quantile(errors["plain"], 0.9)


def test_the_sparse_mean_by_hand():
    from types import SimpleNamespace

    from dpspec.algorithms.card import Problem

    p = Problem(
        "central", "replace-one", SimpleNamespace(kind="estimate", what="mean"), {"n": 2, "d": 3, "k": 1, "epsilon": 1.0, "delta": 1e-6}
    )
    t = tunables(mean, p, scale=4)
    got = mean.run(Records(np.array([[1.0, 8.0, 0.0], [1.0, 4.0, -1e9]])), p, t, Exact(mean.schedule(p, t)))
    assert np.allclose(got.theta, [0.0, 2 * (smoothed(2.0, 1.0) + smoothed(1.0, 1.0)), 0.0], atol=1e-8)
    other = Problem("central", "replace-one", SimpleNamespace(kind="estimate", what="covariance"), p.facts)
    assert "means" in (mean.accepts(other, t) or "")
