"""Hessians: the certificate's Hessian-Lipschitz constants, sensitivities by search, the trust-region subproblem, the measures."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from dpspec.algorithms import second_order
from dpspec.domains.domain import finite, interval
from dpspec.lang.source import parse_expr
from dpspec.measures.second_order import LEAST_EIGENVALUE, SECOND_ORDER
from dpspec.spec.diagnostics import SpecError
from dpspec.spec.expr import Num
from dpspec.spec.model import Ball, Reals
from dpspec.symbolic.certify import certify
from dpspec.symbolic.margin import margin_loss
from tests import leak
from tests.algorithms.nonconvex.test_dp_pgd_nonconvex import bound, drafted, sample

LOSSES = [
    ("1/(1 + exp(y*<w, x>))", finite(-1, 1), None),
    ("3/2*logistic", interval(-2, 2), None),
    ("biweight(2)", interval(-1, 1), None),
    ("cauchy(1/2)", interval(-1, 1), None),
    ("squared", interval(-1, 1), None),
    ("log(1 + (<w, x> - y)^2)", interval(-1, 1), 3),
    ("(tanh(<w, x>) - y)^2", finite(0, 1), 2),
    ("(<w, x>^2 - y)^2/4", interval(0, 1), 2),
    ("max(0, 1 - y*<w, x>)^3", finite(-1, 1), 2),
]


def certified(loss: str, y, radius):
    ball = Ball(norm="l2", radius=Num(Fraction(3, 2)))
    over = Reals() if radius is None else Ball(norm="l2", radius=Num(Fraction(radius)))
    return certify(parse_expr(loss), over=over, x=ball, y=y, names={"d": Fraction(2)})


@pytest.mark.parametrize(("loss", "y", "radius"), LOSSES)
def test_the_hessian_lipschitz_constant_bounds_differences_of_second_derivatives(loss: str, y, radius):
    """Difference quotients of phi'' at random margins: never above the constant, and near it somewhere."""
    c = certified(loss, y, radius)
    third = c.hessian.third()
    assert c.hessian.value() == pytest.approx(third * 1.5**3)
    rng = np.random.default_rng(0)
    span = 8.0 if radius is None else 1.5 * radius
    u = rng.uniform(-span, span, 40_000)
    labels = np.array([float(v) for v in y.values]) if y.values else np.linspace(float(y.low), float(y.high), 9)
    t = rng.choice(labels, u.size)
    v = np.clip(u + rng.choice([-1, 1], u.size) * 10 ** rng.uniform(-4, 0, u.size), -span, span)
    f = replace(margin_loss(c), limit=math.inf, curve=math.inf)
    apart = np.abs(u - v) > 1e-5
    quotients = np.abs(f.second(u, t) - f.second(v, t))[apart] / np.abs(u - v)[apart]
    assert quotients.max() <= third * (1 + 1e-6) + 1e-6
    assert quotients.max() >= 0.9 * third


@pytest.mark.parametrize(("loss", "y"), [("huber(1)", interval(-3, 3)), ("max(0, 1 - y*<w, x>)^2", finite(-1, 1))])
def test_a_second_derivative_that_jumps_has_no_constant(loss: str, y):
    assert math.isinf(certified(loss, y, 2).hessian.value())


def test_two_records_hessians_are_no_further_apart_than_the_spread():
    """Random pairs of records and curvatures in [b, C]: the Frobenius distance and both ends of the spectrum; either is met."""
    rng = np.random.default_rng(1)
    for low in (-1.0, -0.3, 0.2):
        loss = SimpleNamespace(network=None, least_curve=low, curve=1.0, smooth=1.0)
        most = top = 0.0
        for _ in range(3000):
            x, z = rng.normal(size=(2, 3))
            if rng.random() < 0.3:
                z = x
            x, z = x / np.linalg.norm(x), z / np.linalg.norm(z)
            if rng.random() < 0.3:
                z = np.linalg.qr(np.stack([x, z], axis=1))[0][:, 1]
            c, e = (rng.choice([max(low, -1.0), 1.0, rng.uniform(low, 1)]) for _ in range(2))
            D = c * np.outer(x, x) - e * np.outer(z, z)
            most = max(most, float(np.linalg.norm(D)))
            top = max(top, float(np.abs(np.linalg.eigvalsh(D)).max()))
        assert most <= second_order.spread(loss)
        assert most >= 0.99 * second_order.spread(loss)
        assert 0.99 * (1 - min(low, 0)) <= top <= (1 - min(low, 0)) * (1 + 1e-12)


def test_the_mean_hessian_moves_by_its_sensitivity_and_no_more():
    """Two extreme records in the place of one, in fractions of the doubles: Frobenius norm and least eigenvalue."""
    p, _, _ = bound(n=3, d=2, loss="biweight(1)", y="[-2, 2] by clip")
    rest = sample(3, 2)
    stated = Fraction(second_order.sensitivity(p))
    matrices = []
    for x in ((1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.6, 0.8), (0.0, 0.0)):
        for label in (0.0, math.sqrt(0.6), 2.0, -0.2):
            rows, labels = np.array(rest.x), np.array(rest.y)
            rows[0], labels[0] = x, label
            from dpspec.data.records import Records

            matrices.append(second_order.mean_hessian(Records(rows, labels), p, np.zeros(2)))
    most = Fraction(0)
    for A in matrices:
        for B in matrices:
            upper = [(i, j, 1 if i == j else 2) for i in range(2) for j in range(i, 2)]
            most = max(most, sum(k * (Fraction(float(A[i, j])) - Fraction(float(B[i, j]))) ** 2 for i, j, k in upper))
    assert most <= stated**2
    assert most >= (Fraction(99, 100) * stated) ** 2
    least = [float(np.linalg.eigvalsh(A, UPLO="U")[0]) for A in matrices]
    assert max(least) - min(least) <= second_order.eigenvalue_sensitivity(p)
    # as printed: 2 L. The loss sin(k(<w, x> - y))/k is 1-Lipschitz, its second derivative reaches k at either sign; n = 10, k = 100
    n, k = 10, 100.0
    one, other = (-k * math.sin(k * (0.0 - y)) for y in (math.pi / 2 / k, -math.pi / 2 / k))
    leak.moved(abs(one - other) / n, 2.0)


def test_a_curvature_that_doubles_cannot_compute_stays_in_its_range():
    p, _, _ = bound(n=3, d=2)
    broken = replace(p, oracle=replace(p.oracle, curvature=lambda u, y: np.array([np.inf, np.nan, 7.0])))
    H = second_order.mean_hessian(sample(3, 2), broken, np.zeros(2))
    x = sample(3, 2).x
    assert np.allclose(H, p.loss.curve * np.outer(x[2], x[2]) / 3)


@pytest.mark.parametrize("seed", range(4))
def test_the_trust_region_subproblem_is_solved(seed: int):
    """Against many points of the ball, and by its optimality conditions; the hard case and next to it."""
    rng = np.random.default_rng(seed)
    for _ in range(120):
        d = int(rng.integers(1, 6))
        H = rng.normal(size=(d, d))
        H = (H + H.T) / 2
        values, Q = np.linalg.eigh(H)
        g = rng.normal(size=d) * rng.choice([0.0, 1e-9, 1.0, 10.0])
        if seed % 2:
            g = g - Q[:, 0] * (Q[:, 0] @ g)
        r = 10 ** rng.uniform(-2, 1)
        h, lam = second_order.trust_region(g, H, r)
        q = g @ h + h @ H @ h / 2
        points = rng.normal(size=(200, d))
        points *= r * rng.random((200, 1)) ** rng.choice([0.0, 0.3]) / np.linalg.norm(points, axis=1, keepdims=True)
        assert q <= (points @ g + np.einsum("ij,jk,ik->i", points, H, points) / 2).min() + 1e-8 * (1 + abs(q))
        assert np.linalg.norm(h) <= r * (1 + 1e-9)
        assert np.linalg.norm(H @ h + lam * h + g) <= 1e-6 * (1 + np.linalg.norm(g))
        assert lam >= max(0.0, -values[0]) * (1 - 1e-9)
        assert lam * (r - np.linalg.norm(h)) <= 1e-6 * (1 + lam * r)


def test_products_are_those_of_the_matrix_and_eigenvalues_go_without_it():
    p, _, _ = bound(n=200, d=5, loss="1/(1 + exp(y*<w, x>)) + 0.01*|w|^2")
    r, w, v = sample(200, 5), np.full(5, 0.7), np.arange(5.0)
    H = second_order.symmetric(second_order.mean_hessian(r, p, w))
    assert np.allclose(second_order.product(r, p, w, v), H @ v, atol=1e-14)
    by_matrix = second_order.least_eigenvalue(r, p, w)
    before = second_order.LARGEST_DIMENSION
    try:
        second_order.LARGEST_DIMENSION = 2
        assert second_order.least_eigenvalue(r, p, w) == pytest.approx(by_matrix, abs=1e-9)
    finally:
        second_order.LARGEST_DIMENSION = before
    assert by_matrix == pytest.approx(np.linalg.eigvalsh(H)[0] + 0.02, abs=1e-14)


def test_the_measures_are_the_least_eigenvalue_and_the_least_alpha():
    p, _, _ = bound(n=300, d=3)
    r, w = sample(300, 3), np.array([0.3, -0.4, 2.0])
    trial = SimpleNamespace(problem=p, records=r)
    u, y = r.x @ w, r.y
    s = 1 / (1 + np.exp(y * u))
    gradient = (-(s * (1 - s) * y)[:, None] * r.x).mean(axis=0)
    H = (r.x.T * (s * (1 - s) * (1 - 2 * s) * -1)) @ r.x / 300 * -1
    H = (r.x.T * (s * (1 - s) * (1 - 2 * s))) @ r.x / 300
    least = np.linalg.eigvalsh(H)[0]
    assert LEAST_EIGENVALUE.of(w, trial) == pytest.approx(max(0, -least), abs=1e-12)
    expected = max(np.linalg.norm(gradient), max(0, -least) ** 2 / 0.125)
    assert SECOND_ORDER.of(w, trial) == pytest.approx(expected, rel=1e-9)
    draft = drafted(loss="1/(1 + exp(y*<w, x>)) + 0.1*|w|_1")
    from dpspec.executor.bind import bound_problem

    other = SimpleNamespace(problem=bound_problem(draft, draft.releases[0]), records=r)
    for measure in (LEAST_EIGENVALUE, SECOND_ORDER):
        with pytest.raises(SpecError, match="no Hessian"):
            measure.of(w, other)
