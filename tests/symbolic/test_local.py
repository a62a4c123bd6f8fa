"""Gradients of records near the origin against a search over records, labels and weights that knows nothing of the closed forms."""

from __future__ import annotations

from fractions import Fraction as F
from typing import Any

import numpy as np
import pytest

from dpspec.lang.source import parse_expr
from dpspec.spec.expr import num
from dpspec.spec.model import Ball, Box, Finite, Reals
from dpspec.symbolic.certify import certify
from dpspec.symbolic.rounding import coarse_up

SIGNS = Finite(values=(num(F(-1)), num(F(1))))
UNIT = Box(low=num(F(-1)), high=num(F(1)))
#: loss, labels, the ends of the labels, phi'
LOSSES: dict[str, Any] = {
    "logistic": ("log(1 + exp(-y*<w, x>))", SIGNS, (-1, 1), lambda u, y: -y / (1 + np.exp(y * u))),
    "squared": ("(<w, x> - y)^2/2", UNIT, (-1, 1), lambda u, y: u - y),
    "squared-hinge": ("max(0, 1 - y*<w, x>)^2", SIGNS, (-1, 1), lambda u, y: -2 * y * np.maximum(1 - y * u, 0)),
    "hinge": ("max(0, 1 - y*<w, x>)", SIGNS, (-1, 1), lambda u, y: -1.0 * y * (y * u < 1)),
    "poisson": ("exp(<w, x>) - y*<w, x>", Box(low=num(F(0)), high=num(F(3))), (0, 3), lambda u, y: np.exp(u) - y),
}
X = 1.5
EXACT = 1 - 1e-14  # rounding of the search


def ball(r: Any) -> Ball:
    return Ball(norm="l2", radius=num(F(r)))


def local(name: str, radius: int = 4) -> Any:
    text, labels, _, _ = LOSSES[name]
    c = certify(parse_expr(text), over=ball(radius), x=ball(F(3, 2)), y=labels, names={"d": 3})
    assert c.local is not None
    return c


def gradients(name: str, norm: float, points: int) -> np.ndarray:
    """Of records in the plane, w = (norm, 0): all directions, four lengths, the labels' ends and some between. (m, 2)"""
    _, labels, ends, slope = LOSSES[name]
    angle, length = np.meshgrid(np.linspace(0, 2 * np.pi, points, endpoint=False), X * np.array([1.0, 0.8, 0.5, 0.1]))
    x = np.stack([(length * np.cos(angle)).ravel(), (length * np.sin(angle)).ravel()], axis=1)
    ys = ends if labels is SIGNS else np.linspace(*ends, 5)
    return np.vstack([slope(norm * x[:, 0], y)[:, None] * x for y in ys])


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("norm", [0.0, 0.01, 0.3, 1.0, 2.5, 4.0])
def test_the_length_holds_and_is_nearly_reached(name, norm):
    c = local(name)
    found = np.linalg.norm(gradients(name, norm, 400), axis=1).max()
    above = np.linalg.norm(gradients(name, coarse_up(norm), 400), axis=1).max()
    assert found * EXACT <= c.local.length(norm) <= above * (1 + 1e-9)
    assert c.local.length(norm) <= c.lipschitz * (1 + 1e-9)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("norm", [0.0, 0.01, 0.3, 1.0, 2.5, 4.0])
def test_no_two_gradients_are_farther_apart_than_the_spread(name, norm):
    c = local(name)
    g = gradients(name, norm, 240)
    found = np.sqrt(((g[:, None, :] - g[None, :, :]) ** 2).sum(axis=2).max())
    assert found * EXACT <= c.local.spread(norm) <= 2 * c.local.length(norm)
    assert c.local.spread(norm) <= 1.2 * found  # a ball around the gradients is wider than they are; twice the length may be half more


@pytest.mark.parametrize(("norm", "apart"), [(0.0, 1.0), (1.0, 1.11), (3.0, 1.43), (8.0, 1.79)])
def test_logistic_gradients_are_closer_together_than_twice_their_length(norm, apart):
    """w = (r, 0), records at +-theta of w with y = -1: 2 s(r cos theta) sin theta is attained, so no smaller number would be right."""
    c = certify(parse_expr(LOSSES["logistic"][0]), over=Reals(), x=ball(1), y=SIGNS, names={"d": 3})
    theta = np.linspace(0, np.pi, 2001)
    attained = float((2 * np.sin(theta) / (1 + np.exp(-norm * np.cos(theta)))).max())
    assert c.local is not None
    assert attained * EXACT <= c.local.spread(norm) <= apart * (1 + 1e-9)
    assert c.lipschitz == 1.0
    assert c.local.length(1e9) <= 1.0
    assert attained <= c.local.spread(1e9) <= 2.0


def test_the_spread_holds_for_every_norm_that_is_rounded_to_one_grid_point():
    c = local("logistic")
    for norm in np.linspace(2.01, 2.06, 7):
        g = gradients("logistic", norm, 240)
        assert np.sqrt(((g[:, None, :] - g[None, :, :]) ** 2).sum(axis=2).max()) <= c.local.spread(norm)


@pytest.mark.parametrize("norm", [0.0, 0.5, 3.0])
def test_several_classes(norm):
    labels = Finite(values=tuple(num(F(i)) for i in range(3)))
    c = certify(parse_expr("multinomial(3)"), over=Reals(), x=ball(1), y=labels, names={"d": 2})
    assert c.local is not None
    rng = np.random.default_rng(0)
    z = rng.standard_normal((200_000, 3))
    z *= norm / np.linalg.norm(z, axis=1, keepdims=True)
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    p[:, 0] -= 1
    found = float(np.linalg.norm(p, axis=1).max())
    assert found <= c.local.length(norm) <= np.sqrt(2) * (1 + 1e-9)
    assert c.local.spread(norm) == 2 * c.local.length(norm)
    assert norm > 0 or c.local.length(norm) == pytest.approx(np.sqrt(2 / 3), rel=1e-9)  # p = (1, 1, 1)/3


def test_without_a_closed_form_or_a_bound_of_the_records_there_is_none():
    assert certify(parse_expr("log(1 + exp(-y*<w, x>))"), over=ball(1), x=Reals(), y=SIGNS, names={"d": 2}).local is None
    assert certify(parse_expr("sin(<w, x>)^2 + y"), over=ball(1), x=ball(1), y=SIGNS, names={"d": 2}).local is None


def test_a_loss_that_is_not_convex_has_no_better_spread_than_twice_the_length():
    c = certify(parse_expr("biweight(1)"), over=ball(4), x=ball(1), y=UNIT, names={"d": 2})
    assert c.local is not None
    assert c.local.spread(1.0) == 2 * c.local.length(1.0)


@pytest.mark.parametrize("norm", [0.0, 1e-300, 0.1, 1.0, 1.03, 2.0, 1e12])
def test_rounding_is_outwards_and_small(norm):
    assert norm <= coarse_up(norm) <= norm * (1 + 1 / 32)
