"""Closed forms of the least n and epsilon, against the bisection of the same bound."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from dpspec.algorithms.registry import all_modules
from dpspec.lang.source import parse_expr
from dpspec.spec.expr import Expr, NotANumber, evaluate, names
from dpspec.symbolic.bounds import BoundExpr
from dpspec.symbolic.inversion import TARGET, inverted, text

BOUNDS = sorted({b.expression for m in all_modules() for b in m.CARD.bounds if b.kind == "order"})


def drawn(e: Expr) -> dict[str, float]:
    g = np.random.default_rng(zlib.crc32(repr(sorted(names(e))).encode()))
    return {name: float(g.uniform(1.5, 4.0)) for name in sorted(names(e) - {"pi"})} | {"delta": 1e-5, "zeta": 0.01}


def number(found: object, values: dict[str, float]) -> float:
    return float(found.subs({s: values[s.name] for s in found.free_symbols}))  # type: ignore[attr-defined]


@pytest.mark.parametrize("variable", ["n", "epsilon"])
def test_of_the_cards_it_is_where_the_bound_is_the_target(variable: str) -> None:
    """The target is the bound's own value at a chosen point, which the closed form must give back."""
    count = 0
    for expression in BOUNDS:
        e = parse_expr(expression)
        found = inverted(e, variable)
        if found is None:
            continue
        values = drawn(e)
        try:
            target = float(evaluate(e, values))
        except NotANumber:
            continue
        assert number(found, {**values, TARGET: target}) == pytest.approx(values[variable], rel=1e-6), expression
        count += 1
    assert count >= 40


@pytest.mark.parametrize(
    ("expression", "variable"), [("C*d/(n*epsilon)", "n"), ("3/n + 2/sqrt(n) + 1/10", "n"), ("sqrt(d)/(n*epsilon)^(2/3)", "epsilon")]
)
def test_it_agrees_with_the_bisection(expression: str, variable: str) -> None:
    values = {"C": 2.0, "d": 5.0, "n": 300.0, "epsilon": 0.7}
    found = number(inverted(parse_expr(expression), variable), {**values, TARGET: 0.25})
    numeric = BoundExpr(parse_expr(expression)).solve_for(variable, 0.25, values, (1e-3, 1e9), whole=False)
    assert numeric.ok
    assert numeric.value == pytest.approx(found, rel=1e-6)


@pytest.mark.parametrize("expression", ["log(n)/n", "exp(-n)", "sqrt(n)", "1/n + 1/n^3", "d", "max(1/n, 1/2)"])
def test_other_shapes_have_none(expression: str) -> None:
    assert inverted(parse_expr(expression), "n") is None


def test_text_is_that_of_the_language() -> None:
    found = text(inverted(parse_expr("C*sqrt(d)/(n*epsilon)^(1/3)"), "n"))
    assert found == "C^3*d^(3/2)/(epsilon*t^3)"
    parse_expr(found)
