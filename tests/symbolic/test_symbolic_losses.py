"""Closed forms of the named losses against branch and bound, and both against derivatives written out by hand on a dense grid."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpspec.domains.domain import Margin, finite, interval
from dpspec.symbolic.enclose import supremum
from dpspec.symbolic.losses import constants, recognise
from dpspec.symbolic.normal import named_loss

Array = np.ndarray


def s(z: Array) -> Array:
    return 1 / (1 + np.exp(-z))


# phi' and phi'' in u, by hand; u an array, y a number
HAND: dict[str, tuple[tuple[str, ...], Callable[[Array, float], Array], Callable[[Array, float], Array] | None]] = {
    "logistic": ((), lambda u, y: -y * s(-y * u), lambda u, y: y * y * s(y * u) * s(-y * u)),
    "logistic-glm": ((), lambda u, y: s(u) - y, lambda u, y: s(u) * s(-u)),
    "squared": ((), lambda u, y: u - y, lambda u, y: 1 + 0 * u),
    "hinge": (("0.75",), lambda u, y: np.where(y * u < 0.75, -y, 0.0), None),
    "squared-hinge": (
        ("1",),
        lambda u, y: np.where(y * u < 1, -2 * y * (1 - y * u), 0.0),
        lambda u, y: np.where(y * u < 1, 2.0 * y * y, 0.0),
    ),
    "smoothed-hinge": (
        ("0.5", "1"),
        lambda u, y: y / 2 * ((y * u - 1) / np.hypot(y * u - 1, 0.5) - 1),
        lambda u, y: y * y * 0.125 / ((y * u - 1) ** 2 + 0.25) ** 1.5,
    ),
    "huber": (
        ("0.8",),
        lambda u, y: np.where(np.abs(u - y) < 0.8, u - y, 0.8 * np.sign(u - y)),
        lambda u, y: np.where(np.abs(u - y) < 0.8, 1.0, 0.0),
    ),
    "biweight": (
        ("2",),
        lambda u, y: np.where(np.abs(u - y) < 2, (u - y) * (1 - (u - y) ** 2 / 4) ** 2, 0.0),
        lambda u, y: np.where(np.abs(u - y) < 2, (1 - (u - y) ** 2 / 4) * (1 - 5 * (u - y) ** 2 / 4), 0.0),
    ),
    "cauchy": (
        ("1.5",),
        lambda u, y: (u - y) / (1 + (u - y) ** 2 / 2.25),
        lambda u, y: (1 - (u - y) ** 2 / 2.25) / (1 + (u - y) ** 2 / 2.25) ** 2,
    ),
    "sigmoid": ((), lambda u, y: -y * s(y * u) * s(-y * u), lambda u, y: y * y * s(y * u) * s(-y * u) * (2 * s(y * u) - 1)),
    "poisson": ((), lambda u, y: np.exp(u) - y, lambda u, y: np.exp(u)),
    "absolute": ((), lambda u, y: np.sign(u - y), None),
    "quantile": (("0.3",), lambda u, y: np.where(u > y, 0.7, -0.3), None),
    "exponential": ((), lambda u, y: -y * np.exp(-y * u), lambda u, y: y * y * np.exp(-y * u)),
    "linear": ((), lambda u, y: -y + 0 * u, lambda u, y: 0 * u),
}

ends = st.fractions(min_value=-4, max_value=4, max_denominator=97)


def margin(a: Fraction, b: Fraction) -> Margin:
    return Margin(a, b, None, None, False, "")


def grid(a: Fraction, b: Fraction, *extra: float) -> Array:
    u = np.concatenate([np.linspace(float(a), float(b), 20_001), extra])
    return u[(u >= float(a)) & (u <= float(b))]


@pytest.mark.parametrize("name", sorted(HAND))
@settings(max_examples=25, deadline=None)
@given(a=ends, b=ends, labels=st.sampled_from([(-1, 1), (0, 1), (Fraction(-3, 2), Fraction(1, 3), 2)]))
def test_closed_form_is_an_upper_bound_and_is_tight(name: str, a: Fraction, b: Fraction, labels: tuple[Fraction, ...]) -> None:
    low, high = min(a, b), max(a, b)
    params, first, second = HAND[name]
    named = recognise(named_loss(name, tuple(Fraction(p) for p in params)))
    assert named is not None
    assert named.name == name
    got = constants(named, margin(low, high), finite(*labels))
    assert got.slope is not None
    by_hand = max(float(np.abs(first(grid(low, high), float(y))).max()) for y in labels)
    assert float(got.slope) >= by_hand * (1 - 1e-12)
    # the grid spacing is at most 4e-4 and |phi''| <= 6 exp(8): compare relative to the local size
    steep = 0.0 if second is None else max(float(np.abs(second(grid(low, high), float(y))).max()) for y in labels)
    kink_at_an_end = second is None
    if not kink_at_an_end:
        assert float(got.slope) <= by_hand + 5e-4 * steep + 1e-12
        assert got.curve is not None
        assert got.least is not None
        lows = min(float(second(grid(low, high), float(y)).min()) for y in labels)
        assert float(got.curve) >= steep * (1 - 1e-12) - 1e-15
        assert float(got.least) <= lows + 1e-12 + abs(lows) * 1e-12


@pytest.mark.parametrize("name", sorted(HAND))
@settings(max_examples=4, deadline=None)
@given(a=ends, b=ends)
def test_closed_form_agrees_with_branch_and_bound(name: str, a: Fraction, b: Fraction) -> None:
    low, high = min(a, b), max(a, b) + Fraction(1, 89)
    form = named_loss(name, tuple(Fraction(p) for p in HAND[name][0]))
    named = recognise(form)
    assert named is not None
    got = constants(named, margin(low, high), finite(-1, 1))
    boxes = [(low, high, Fraction(v), Fraction(v)) for v in (-1, 1)]
    first = supremum(form, "abs-first", boxes)
    assert got.slope is not None
    assert first.lower <= float(got.slope) * (1 + 1e-12)
    assert float(got.slope) <= first.upper * (1 + 1e-5) + 1e-12
    second = supremum(form, "abs-second", boxes)
    if got.curve is None:
        assert math.isinf(second.upper)
    else:
        assert second.lower <= float(got.curve) * (1 + 1e-12)
        assert float(got.curve) <= second.upper * (1 + 1e-5) + 1e-12
    concave = supremum(form, "minus-second", boxes, floor=1e-9)
    assert got.least is not None
    assert -concave.upper - 2e-9 <= float(got.least) + abs(concave.upper) * 2e-6
    assert float(got.least) <= -concave.lower + 1e-12


@pytest.mark.parametrize("name", ["logistic", "sigmoid", "biweight", "cauchy", "huber", "squared", "poisson", "logistic-glm"])
@settings(max_examples=20, deadline=None)
@given(a=ends, b=ends, p=ends, q=ends)
def test_interval_labels_are_covered(name: str, a: Fraction, b: Fraction, p: Fraction, q: Fraction) -> None:
    low, high, y0, y1 = min(a, b), max(a, b), min(p, q), max(p, q)
    params, first, second = HAND[name]
    named = recognise(named_loss(name, tuple(Fraction(v) for v in params)))
    assert named is not None
    assert second is not None
    got = constants(named, margin(low, high), interval(y0, y1))
    u = np.linspace(float(low), float(high), 401)
    for y in np.linspace(float(y0), float(y1), 41):
        assert float(got.slope or 0) >= float(np.abs(first(u, y)).max()) * (1 - 1e-12)
        assert float(got.curve or 0) >= float(np.abs(second(u, y)).max()) * (1 - 1e-12) - 1e-15
        assert float(got.least if got.least is not None else -math.inf) <= float(second(u, y).min()) + 1e-12


def test_known_constants() -> None:
    """Numbers computed by hand or printed in the catalogue."""
    unit = margin(Fraction(-1), Fraction(1))

    def at(name: str, *params: str) -> tuple[float, float]:
        named = recognise(named_loss(name, tuple(Fraction(p) for p in params)))
        assert named is not None
        c = constants(named, unit, finite(-1, 1))
        assert c.slope is not None
        return float(c.slope), math.inf if c.curve is None else float(c.curve)

    assert at("logistic") == pytest.approx((math.e / (1 + math.e), 0.25), rel=1e-12)
    assert at("sigmoid") == pytest.approx((0.25, 0.0908577), rel=1e-6)  # catalogue 03: 0.25 and 0.0909 on [-1, 1]
    assert at("squared") == (2.0, 1.0)
    assert at("hinge") == (1.0, math.inf)
    assert at("squared-hinge") == (4.0, 2.0)
    assert at("poisson") == pytest.approx((math.e + 1, math.e), rel=1e-12)
    assert at("huber", "0.5") == (0.5, 1.0)
    # thesis lemma 5.1.8: f'' <= 1/(2b), the kink of the hinge with threshold 1/2 lies inside
    assert at("smoothed-hinge", "0.1", "0.5")[1] == pytest.approx(5.0, rel=1e-12)
    # biweight: 16/25 * c/sqrt(5) at s = c/sqrt(5)
    assert at("biweight", "2")[0] == pytest.approx(16 / 25 * 2 / math.sqrt(5), rel=1e-12)


@pytest.mark.parametrize("name", ["logistic", "sigmoid", "hinge", "absolute", "huber", "biweight", "cauchy", "smoothed-hinge", "quantile"])
def test_unbounded_margins_use_the_limits(name: str) -> None:
    params, first, _ = HAND[name]
    named = recognise(named_loss(name, tuple(Fraction(v) for v in params)))
    assert named is not None
    c = constants(named, Margin(None, None, None, None, False, ""), finite(-1, 1))
    assert c.slope is not None
    far = np.linspace(-60, 60, 240_001)
    found = max(float(np.abs(first(far, float(y))).max()) for y in (-1, 1))
    assert found * (1 - 1e-12) <= float(c.slope) <= found * (1 + 1e-4)


@pytest.mark.parametrize("name", ["squared", "poisson", "exponential", "squared-hinge", "logistic-glm"])
def test_unbounded_margins_without_a_bound(name: str) -> None:
    named = recognise(named_loss(name, ()))
    assert named is not None
    c = constants(named, Margin(None, None, None, None, False, ""), finite(-1, 1))
    assert (c.slope is None) == (name != "logistic-glm")
