"""Solvers, projections, deviations and measures of the matrix family, against closed forms, other libraries and simulation."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from dpspec.algorithms.matrix import _deviation as dev
from dpspec.algorithms.matrix import graphical_lasso as reference
from dpspec.algorithms.matrix import pca
from dpspec.algorithms.matrix._fantope import capped_simplex, project, select
from dpspec.algorithms.matrix._lasso import graphical_lasso
from dpspec.algorithms.matrix._moment import LANCZOS_FROM, leading, positive_part, second_moment
from dpspec.data.covariances import spiked
from dpspec.data.records import Records
from dpspec.executor.trial import drawn_again
from dpspec.measures import matrix as mm
from dpspec.tasks.registry import of, tasks
from tests.algorithms import support
from tests.algorithms.matrix.helpers import ball, problem

RNG = np.random.default_rng


# --------------------------------------------------------------------------------------------------------------- Fantope


@pytest.mark.parametrize("seed", range(8))
def test_capped_simplex_by_bisection(seed: int) -> None:
    g, k = RNG(seed).standard_normal(9) * 3, 1 + seed % 5
    low, high = g.min() - 2, g.max() + 1
    for _ in range(200):
        theta = (low + high) / 2
        low, high = (theta, high) if np.clip(g - theta, 0, 1).sum() > k else (low, theta)
    np.testing.assert_allclose(capped_simplex(g, k), np.clip(g - theta, 0, 1), atol=1e-10)


def test_fantope_projection_is_the_nearest_point() -> None:
    """Variational inequality <A - P, X - P> <= 0 against random projectors (the extreme points of the Fantope)."""
    rng = RNG(0)
    for _ in range(10):
        a = rng.standard_normal((6, 6))
        a = a + a.T
        p = project(a, 2)
        assert np.trace(p) == pytest.approx(2)
        assert np.linalg.eigvalsh(p)[0] > -1e-12
        assert np.linalg.eigvalsh(p)[-1] < 1 + 1e-12
        for _ in range(50):
            q = np.linalg.qr(rng.standard_normal((6, 2)))[0]
            assert ((a - p) * (q @ q.T - p)).sum() <= 1e-9


def test_selection_without_penalty_is_pca_and_is_optimal_with_one() -> None:
    rng = RNG(1)
    a = rng.standard_normal((8, 8))
    a = a @ a.T
    v = np.linalg.eigh(a)[1][:, -2:]
    free = select(a, 2, 1e-12, tolerance=1e-7, steps=5000)
    assert free.converged
    np.testing.assert_allclose(free.x, v @ v.T, atol=1e-4)
    penalty = 0.5
    found = select(a, 2, penalty, tolerance=1e-7, steps=20_000)
    assert found.converged
    assert max(found.primal, found.dual) <= math.sqrt(2) * 1e-7
    value = (a * found.x).sum() - penalty * np.abs(found.x).sum()
    for _ in range(300):
        b = project(found.x + 0.3 * (lambda z: z + z.T)(rng.standard_normal((8, 8))), 2)
        assert (a * b).sum() - penalty * np.abs(b).sum() <= value + 1e-4


def test_selection_stops_and_says_when_it_has_not_converged() -> None:
    assert not select(np.diag(np.arange(5.0)), 2, 0.3, tolerance=1e-14, steps=3).converged


# ------------------------------------------------------------------------------------------------------- graphical lasso


@pytest.mark.parametrize(("d", "rho"), [(4, 0.2), (10, 0.05), (15, 0.02)])
def test_the_solver_agrees_with_scikit_learn(d: int, rho: float) -> None:
    """Penalised diagonal here, free diagonal there: S + rho*I."""
    p = problem("precision", 300, d, penalty=rho)
    x = RNG(d).multivariate_normal(np.zeros(d), 0.6 ** np.abs(np.subtract.outer(np.arange(d), np.arange(d))) / d, 300)
    x *= np.minimum(1, 1 / np.linalg.norm(x, axis=1))[:, None]
    ours, theirs = (
        reference.run(Records(x), p, support.tunables(reference, p, penalty=rho, solver=s), None).theta for s in ("admm", "sklearn")
    )
    assert np.linalg.norm(ours - theirs) <= 2e-3 * np.linalg.norm(theirs)


def test_the_solver_meets_the_optimality_conditions() -> None:
    """Theta^-1 - S has entries in [-rho, rho], equal to rho*sign where Theta is not 0."""
    s = second_moment(Records(ball(RNG(2), 40, 12)))
    rho = 0.004
    found = graphical_lasso(s, rho, gap=1e-11)
    u = np.linalg.inv(found.theta) - s
    assert np.abs(u).max() <= rho * (1 + 1e-3)
    on = np.abs(found.theta) > 1e-3
    np.testing.assert_allclose(u[on], rho * np.sign(found.theta[on]), atol=2e-3 * rho)
    assert found.gap <= 1e-11


def test_the_solver_refuses_an_indefinite_matrix() -> None:
    with pytest.raises(ValueError, match="positive semi-definite"):
        graphical_lasso(np.diag([1.0, -1.0]), 0.1, steps=200)
    with pytest.raises(ValueError, match="positive"):
        graphical_lasso(np.eye(2), 0.0)


# ------------------------------------------------------------------------------------------------------------ eigenvalues


def test_the_positive_part_at_most_doubles_the_spectral_error() -> None:
    rng, worst = RNG(4), 0.0
    for _ in range(200):
        s = second_moment(Records(rng.standard_normal((3, 6))))
        noisy = s + (lambda z: z + z.T)(rng.standard_normal((6, 6)))
        plus = positive_part(noisy)
        assert np.linalg.eigvalsh(plus)[0] >= -1e-10
        assert np.linalg.norm(plus - s) <= np.linalg.norm(noisy - s) + 1e-9
        worst = max(worst, np.linalg.norm(plus - s, 2) / np.linalg.norm(noisy - s, 2))
    assert 1 < worst <= 2


def test_leading_vectors_are_the_algebraically_largest_and_lanczos_agrees() -> None:
    values, vectors = leading(np.diag([-9.0, 3.0, 1.0]), 1)
    assert values == pytest.approx([3.0])
    np.testing.assert_allclose(np.abs(vectors[:, 0]), [0, 1, 0], atol=1e-12)
    rng = RNG(5)
    c = spiked(LANCZOS_FROM, 3, 20.0, rng)
    a = c.matrix() + 0.01 * (lambda z: z + z.T)(rng.standard_normal((LANCZOS_FROM, LANCZOS_FROM)))
    values, vectors = leading(a, 3)
    dense, basis = np.linalg.eigh(a)
    np.testing.assert_allclose(values, dense[::-1][:3], rtol=1e-9)
    assert 3 - np.linalg.norm(basis[:, -3:].T @ vectors) ** 2 < 1e-9


def test_sparse_spikes_have_that_many_rows() -> None:
    c = spiked(30, 2, 4.0, RNG(0), 5)
    assert c.directions is not None
    assert int((np.linalg.norm(c.directions, axis=1) > 0).sum()) == 5
    np.testing.assert_allclose(c.directions.T @ c.directions, np.eye(2), atol=1e-12)


# ------------------------------------------------------------------------------------------------------------- deviations


def test_deviation_bounds_hold_in_simulation() -> None:
    """Each bound fails at most as often as it says, and is within a factor of 4 of the median."""
    rng, d, n, eta = RNG(6), 12, 400, 0.05
    x = {k: [] for k in ("operator", "max", "iso", "upper", "entry", "frobenius", "laplace")}
    population = np.diag(np.full(d, 1 / d))
    for _ in range(300):
        z = rng.standard_normal((n, d))
        z /= np.linalg.norm(z, axis=1, keepdims=True)
        s = z.T @ z / n - population
        x["operator"].append(np.linalg.norm(s, 2))
        x["max"].append(np.abs(s).max())
        g = np.triu(rng.standard_normal((d, d)))
        full = g + np.triu(g, 1).T
        iso = np.diag(np.diag(g)) + (np.triu(g, 1) + np.triu(g, 1).T) / math.sqrt(2)
        x["iso"].append(np.linalg.norm(iso, 2))
        x["upper"].append(np.linalg.norm(full, 2))
        x["entry"].append(np.abs(full).max())
        x["frobenius"].append(np.linalg.norm(full))
        lap = np.triu(rng.laplace(size=(d, d)))
        x["laplace"].append(np.linalg.norm(lap + np.triu(lap, 1).T))
    bounds = {
        "operator": dev.sampling_operator(n, d, 1.0, 1 / d, eta),
        "max": dev.sampling_max(n, d, 1.0, eta),
        "iso": dev.gaussian_operator(1.0, d, eta, isotropic=True),
        "upper": dev.gaussian_operator(1.0, d, eta, isotropic=False),
        "entry": dev.gaussian_max(1.0, d, eta),
        "frobenius": dev.gaussian_frobenius(1.0, d, eta, isotropic=False),
        "laplace": dev.laplace_frobenius(1.0, d, eta),
    }
    for name, bound in bounds.items():
        assert np.mean(np.array(x[name]) > bound) <= eta, name
        assert bound <= 4 * np.median(x[name]) or name == "max", name


def test_wishart_norm_bounds_hold_in_simulation() -> None:
    rng, d, m = RNG(7), 6, 9
    one, both = [], []
    for _ in range(300):
        g = rng.standard_normal((2, d, m))
        w = g @ g.transpose(0, 2, 1)
        one.append(np.linalg.norm(w[0]))
        both.append(np.linalg.norm(w[0] - w[1]))
    assert np.mean(np.array(one) > dev.wishart_frobenius(1.0, m, d, 0.05)) <= 0.05
    assert np.mean(np.array(both) > dev.symmetrised_frobenius(1.0, d, 0.05, m)) <= 0.05
    assert np.mean(np.array(both) ** 2) == pytest.approx(2 * m * d * (d + 1), rel=0.1)


def test_chi_square_does_not_tensorise_as_printed() -> None:
    """Bernoulli(0.6) against Bernoulli(0.4), n = 10, from the binomial law (sufficient): 3.67, not chi2^10 = 1.7e-8."""
    single = 0.04 / 0.4 + 0.04 / 0.6
    k = np.arange(11)
    whole = float((binom.pmf(k, 10, 0.6) ** 2 / binom.pmf(k, 10, 0.4)).sum() - 1)
    assert whole == pytest.approx((1 + single) ** 10 - 1, rel=1e-9)
    assert whole == pytest.approx(3.67, abs=0.01)
    assert single**10 == pytest.approx(1.65e-8, rel=0.05)


# --------------------------------------------------------------------------------------------------------------- measures

MEASURES = {m.name: m.of for task in tasks() for m in task.measures}


def trial(what: str, **truth: Any) -> Any:
    known = {"covariance": None, "mean": None, "subspace": None, **truth}
    p = problem(what, 10, 3, **({"rank": float(known["subspace"].shape[1])} if what == "subspace" else {}))
    return of(p.task).trial(None, p, SimpleNamespace(**known), truth.get("reference"))


def test_the_largest_projector_distance_is_sqrt_2k() -> None:
    """4.472 for k = 10: Table 6.2 prints 4.518."""
    eye = np.eye(40)
    t = trial("subspace", subspace=eye[:, :10])
    assert mm.projector_distance(eye[:, 10:20], t) == pytest.approx(math.sqrt(20))
    assert math.sqrt(20) < 4.518
    w = np.linalg.qr(RNG(0).standard_normal((40, 10)))[0]
    direct = np.linalg.norm(w @ w.T - eye[:, :10] @ eye[:, :10].T)
    assert mm.projector_distance(w, t) == pytest.approx(direct)
    assert mm.subspace_distance(w, t) ** 2 == pytest.approx(MEASURES["squared-subspace-distance"](w, t))


def test_matrix_measures_by_hand() -> None:
    sigma = np.array([[2.0, 1.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 1.0]])
    guess = np.diag([2.0, 2.0, 2.0])
    t = trial("covariance", covariance=sigma)
    assert MEASURES["operator-error"](guess, t) == pytest.approx(1.0)
    assert MEASURES["frobenius-error"](guess, t) == pytest.approx(math.sqrt(3))
    assert MEASURES["l1-operator-error"](guess, t) == pytest.approx(1.0)
    assert MEASURES["max-error"](guess, t) == 1.0
    assert MEASURES["relative-operator-error"](guess, t) == pytest.approx(1 / 3)
    assert MEASURES["relative-l1-operator-error"](guess, t) == pytest.approx(1 / 3)
    assert MEASURES["matrix-support-error"](guess, t) == 1.0
    assert MEASURES["matrix-support-error"](sigma, t) == 0.0
    shifted = {"covariance": sigma, "mean": np.array([0.0, 0.0, 1.0])}
    assert MEASURES["frobenius-error"](guess, trial("second-moment", **shifted)) == pytest.approx(math.sqrt(2))
    assert MEASURES["frobenius-error"](guess, trial("covariance", **shifted)) == pytest.approx(math.sqrt(3))
    precise = trial("precision", covariance=np.diag([1.0, 2.0, 4.0]))
    theta = np.diag([2.0, 0.5, 0.25])
    assert MEASURES["frobenius-error"](theta, precise) == pytest.approx(1.0)
    assert MEASURES["gaussian-kl"](theta, precise) == pytest.approx((2 - 1 - math.log(2)) / 2)
    assert MEASURES["gaussian-kl"](-theta, precise) == math.inf
    p = problem("precision", 10, 3)
    t = of(p.task).trial(None, p, {}, np.eye(3))
    assert MEASURES["relative-reference-error"](np.zeros((3, 3)), t) == 1.0
    rows = trial("subspace", subspace=np.eye(3)[:, :1])
    assert MEASURES["row-support-error"](np.array([[1.0], [1.0], [0.0]]) / math.sqrt(2), rows) == pytest.approx(1 / 3)
    basis = trial("subspace", subspace=np.array([[0.8], [0.6], [0.0]]))
    for found, norm in (([1.0, 1.0, 0.0], 0.0), ([1.0, 0.0, 0.0], 0.6), ([0.0, 0.0, 1.0], 0.8)):
        assert MEASURES["least-row-norm"](np.array(found)[:, None], basis) == pytest.approx(norm)


def test_references_are_left_out_where_the_records_would_be_drawn_again() -> None:
    assert drawn_again(SimpleNamespace(n=10**8, d=100))
    assert not drawn_again(SimpleNamespace(n=10**6, d=60))
    assert all(task.spared for task in tasks() if task.name in ("subspace", "precision", "covariance"))
    x = ball(RNG(0), 50, 4)
    p = problem("subspace", 50, 4, rank=2.0)
    found, _ = of(p.task).reference(Records(x), p, {})
    assert found is not None
    same = pca.run(Records(x), p, support.tunables(pca, p), None).theta
    np.testing.assert_allclose(found, same)
