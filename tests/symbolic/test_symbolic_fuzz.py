"""Random losses: secants of the loss, evaluated by the plain evaluator of expressions, never exceed the certificate."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from symbolic_build import U, Y, f, minus, neg, over, plus, power, times

from dpspec.domains.domain import ball, finite, interval
from dpspec.spec.expr import Expr, NotANumber, evaluate, num
from dpspec.symbolic.certify import certify

numbers = st.sampled_from(["0.5", "1", "2", "3", "0.25"]).map(num)
leaves = st.one_of(st.just(U), st.just(Y), st.just(times(Y, U)), st.just(minus(U, Y)), numbers)


def grow(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    return st.one_of(
        st.tuples(inner, inner).map(lambda p: plus(*p)),
        st.tuples(inner, inner).map(lambda p: minus(*p)),
        st.tuples(inner, inner).map(lambda p: times(*p)),
        st.tuples(inner, st.integers(2, 3)).map(lambda p: power(*p)),
        inner.map(lambda a: over(a, plus(num(2), power(a, 2)))),
        inner.map(lambda a: f("log", plus(num(1), f("exp", a)))),
        inner.map(lambda a: f("sqrt", plus(num("0.5"), power(a, 2)))),
        st.tuples(inner, inner).map(lambda p: f("max", *p)),
        st.tuples(inner, inner).map(lambda p: f("min", *p)),
        st.tuples(st.sampled_from(["abs", "tanh", "sin", "cos", "erf"]), inner).map(lambda p: f(*p)),
        inner.map(neg),
    )


losses = st.recursive(leaves, grow, max_leaves=6)


def phi(loss: Expr, u: float, y: float) -> float:
    return float(evaluate(loss, {"w": u, "x": 1.0, "y": y}))


@pytest.mark.slow
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(
    loss=losses,
    r=st.sampled_from([Fraction(1, 2), Fraction(1), Fraction(3, 2)]),
    labels=st.sampled_from(["signs", "interval"]),
    seed=st.integers(0, 999),
)
def test_secants_stay_below_the_certificate(loss: Expr, r: Fraction, labels: str, seed: int) -> None:
    check(loss, r, labels, seed)


@pytest.mark.slow
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(
    loss=losses,
    r=st.sampled_from([Fraction(1, 2), Fraction(1), Fraction(3, 2)]),
    labels=st.sampled_from(["signs", "interval"]),
    seed=st.integers(0, 999),
)
def test_secants_stay_below_the_certificate_long(loss: Expr, r: Fraction, labels: str, seed: int) -> None:
    check(loss, r, labels, seed)


def check(loss: Expr, r: Fraction, labels: str, seed: int) -> None:
    y_domain = finite(-1, 1) if labels == "signs" else interval(-1, 1)
    got = certify(loss, over=ball("l2", r), x=ball("l2", 1), y=y_domain)
    if not got.ok:
        assert got.findings
        return
    rng = np.random.default_rng(seed)
    for _ in range(20):
        y = float(rng.choice([-1.0, 1.0])) if labels == "signs" else float(rng.uniform(-1, 1))
        a, b = rng.uniform(-float(r), float(r), 2)
        try:
            fa, fb = phi(loss, a, y), phi(loss, b, y)
        except NotANumber:
            continue
        noise = 1e-9 * (1 + abs(fa) + abs(fb))
        assert abs(fa - fb) <= got.slope * abs(a - b) + noise
        m, h = (a + b) / 2, abs(a - b) / 2
        bend = fa - 2 * phi(loss, m, y) + fb
        assert abs(bend) <= got.curve * h * h + noise or math.isinf(got.curve)
        assert bend >= got.least_curve * h * h - noise or math.isinf(got.least_curve)
        if got.data_convex:
            assert bend >= -noise
