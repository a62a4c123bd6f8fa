"""Gradients of records near the origin against a search over records, labels and weights that knows nothing of the closed forms."""

from __future__ import annotations

from fractions import Fraction as F
from typing import Any

import numpy as np
import pytest

from dpspec.domains.domain import finite
from dpspec.lang.source import parse_expr
from dpspec.numeric.rounding import coarse_up
from dpspec.spec.expr import num
from dpspec.spec.model import Ball, Box, Finite, Reals
from dpspec.symbolic.certify import certify
from dpspec.symbolic.local import local_lipschitz
from dpspec.symbolic.margin import margin_functions
from dpspec.symbolic.parts import Case

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


@pytest.mark.parametrize(
    ("text", "y"),
    [("biweight(1)", UNIT), ("biweight(1)", Finite(values=(num(F(1)),))), ("1/(1 + exp(y*<w, x>))", Finite(values=(num(F(1)),)))],
)
@pytest.mark.parametrize("norm", [0.5, 1.0, 3.0])  # 1/2: the steepest margin, u = 1 - 1/sqrt(5), is beyond, so the longest lie along w
def test_a_loss_that_is_not_convex_has_no_better_spread_than_twice_the_length(text, y, norm):
    c = certify(parse_expr(text), over=ball(4), x=ball(1), y=y, names={"d": 2})
    assert c.local is not None
    assert c.local.spread(norm) == 2 * c.local.length(norm)


@pytest.mark.parametrize("norm", [0.0, 1e-300, 0.1, 1.0, 1.03, 2.0, 1e12])
def test_rounding_is_outwards_and_small(norm):
    assert norm <= coarse_up(norm) <= norm * (1 + 1 / 32)


def labels(*values: Any) -> Finite:
    return Finite(values=tuple(num(F(v)) for v in values))


def certified(text: str, y: Any, *, x: Any = 1, over: Any = None) -> Any:
    return certify(parse_expr(text), over=over or ball(4), x=ball(x), y=y, names={"d": 3})


ONE_SIDED = [
    ("log(1 + exp(-y*<w, x>))", labels(1)),
    ("log(1 + exp(-y*<w, x>))", labels(-1)),
    ("3*log(1 + exp(-y*<w, x>))", labels(-2, 3)),
    ("log(1 + exp(<w, x>)) - y*<w, x>", labels(0)),
    ("log(1 + exp(<w, x>)) - y*<w, x>", labels(1)),
    ("exp(<w, x>) - y*<w, x>", labels(5)),
    ("exp(<w, x>) - y*<w, x>", Box(low=num(F(2)), high=num(F(4)))),
    ("(<w, x> - y)^2", labels(2)),
    ("(<w, x> - y)^2", labels(-2, -1)),
    ("huber(1/2)", labels(1)),
    ("quantile(1/10)", labels(F(1, 2))),
    ("quantile(9/10)", labels(F(-1, 2), F(1, 3))),
    ("max(0, 1 - y*<w, x>)", labels(1)),
    ("max(0, 1/2 - y*<w, x>)^2", labels(-2)),
    ("exp(-y*<w, x>)", labels(1, 2)),
    ("-y*<w, x>", labels(-1, 2)),
]


@pytest.mark.parametrize(("text", "y"), ONE_SIDED)
@pytest.mark.parametrize("norm", [0.125, 1.0, 3.5])
def test_the_cells_cover_every_gradient_between_their_ends(text, y, norm):
    """The least ball about a multiple of w that holds densely sampled gradients, by another minimiser, is no larger than the proved one.
    The radius moves by at most as much as the centre, which is found to 1e-9 of the length, and that is twice the radius at most. Labels of
    one sign: at both signs a slope forgotten at one end of a cell is made up for by the mirror image."""
    from scipy.optimize import minimize_scalar

    c, slope = certified(text, y), margin_functions(parse_expr(text), {}).derivative
    ends = [float(v.value) for v in y.values] if isinstance(y, Finite) else np.linspace(2, 4, 9)
    xi, label = np.meshgrid(np.linspace(-1, 1, 40_001), ends)
    s = slope(norm * xi, label)
    long = np.abs(s).max()

    def radius(centre: float) -> float:
        return float((s * s - 2 * centre * s * xi + centre**2).max()) ** 0.5

    found = minimize_scalar(radius, bounds=(-long, long), method="bounded", options={"xatol": 1e-9 * long}).fun
    assert 2 * found * (1 - 1e-8) <= c.local.spread(norm) <= 2 * found * 1.02
    assert long * EXACT <= c.local.length(norm) <= long * 1.001


@pytest.mark.parametrize(("text", "y"), ONE_SIDED)
def test_longer_weights_never_bring_gradients_together(text, y):
    """What makes a bound at a norm hold below it; searched in the plane by the distances themselves, at the scale of the sampling."""
    slope, last = margin_functions(parse_expr(text), {}).derivative, 0.0
    ends = [float(v.value) for v in y.values] if isinstance(y, Finite) else [2.0, 4.0]
    xi, label = np.meshgrid(np.linspace(-1, 1, 301), ends)
    across = np.sqrt(1 - xi * xi).ravel()
    c = certified(text, y)
    for norm in (0.01, 0.25, 0.5, 0.99, 1.0, 1.9, 4.0):
        s = slope(norm * xi, label).ravel()
        along, beside = s * xi.ravel(), np.abs(s) * across
        apart = np.hypot(along[:, None] - along, beside[:, None] + beside).max()
        assert last * (1 - 5e-3) <= apart
        assert apart * EXACT <= c.local.spread(norm)
        last = apart


def test_the_norm_that_was_asked_first_does_not_matter():
    """Norms that are rounded to one number share a bound, which holds for the largest of them."""
    for first, second in ((2.0625, 2.05), (2.05, 2.0625)):
        c = local("poisson")
        assert c.local.spread(first) == c.local.spread(second)
        g = gradients("poisson", 2.0625, 240)
        assert np.sqrt(((g[:, None, :] - g[None, :, :]) ** 2).sum(axis=2).max()) * EXACT <= c.local.spread(second)


@pytest.mark.parametrize("text", ["abs(<w, x> - y)", "max(0, -y*<w, x>)", "quantile(1/2)"])
@pytest.mark.parametrize("norm", [0.0, 5e-324, 1e-300, 1e-160])
@pytest.mark.parametrize("x", ["1", "1e-200"])
def test_a_kink_at_zero_counts_on_both_sides_at_every_small_norm(text, norm, x):
    """The norm of weights of 1e-170 comes out as 0, and records x and -x still have the slopes 1 and -1 there (half of that: quantile)."""
    y = labels(-1, 1) if "max" in text else labels(0)
    c, size = certified(text, y, x=F(x)), (0.5 if "quantile" in text else 1.0) * float(x)
    assert c.local.length(norm) == pytest.approx(size, rel=1e-9, abs=0)
    assert c.local.spread(norm) == pytest.approx(2 * size, rel=1e-9, abs=0)


def test_a_computed_margin_may_reach_a_kink_that_the_exact_one_misses():
    """|w| = 63/64 and a label beyond it by less than rounding: <w, x> - y is 0 or more in doubles, where the slope is 0.9 and not 0.1."""
    c = certified("quantile(1/10)", labels(F(63, 64) + F(1, 10**18)))
    assert c.local.length(63 / 64) == pytest.approx(0.9)
    assert c.local.length(62 / 64) == pytest.approx(0.1)


@pytest.mark.parametrize("norm", [1e300, 1.7e308, float("inf"), float("nan")])
def test_a_norm_that_is_no_number_of_use_gives_no_local_bound(norm):
    assert certified(LOSSES["logistic"][0], SIGNS, over=Reals()).local.spread(norm) == np.inf
    c = certify(parse_expr("multinomial(3)"), over=Reals(), x=ball(1), y=labels(0, 1, 2), names={"d": 2})
    assert c.local.spread(norm) == pytest.approx(2 * np.sqrt(2))


@pytest.mark.parametrize("factor", ["1e-200", "1e-160", "1e150"])
@pytest.mark.parametrize("x", ["1e-80", "1", "1e100"])
def test_the_spread_is_free_of_units(factor, x):
    """phi times k, x times X and w divided by X: k X times the spread, far outside of where squares are doubles."""
    plain = certified("log(1 + exp(-y*<w, x>))", SIGNS, over=Reals()).local.spread(1.0)
    c = certified(f"{factor}*log(1 + exp(-y*<w, x>))", SIGNS, x=F(x), over=Reals())
    assert c.local.spread(1 / float(x)) / (float(factor) * float(x)) >= plain * (1 - 1e-9)
    assert c.local.spread(1 / float(x)) <= 1.05 * plain * float(factor) * float(x)


def test_products_with_labels_of_an_interval_or_many_labels_have_twice_the_length():
    for y in (UNIT, labels(*range(-50, 50))):
        c = certified("log(1 + exp(-y*<w, x>))", y)
        assert c.local.spread(1.0) == 2 * c.local.length(1.0)


def test_the_longest_of_several_cases_counts():
    """As in pairwise losses: gradients of two losses, one three times the other."""
    small, large = (Case(certified(f"{k}*(<w, x> - y)^2/2", SIGNS).form, finite(-1, 1)) for k in (1, 3))
    margin = certified("(<w, x> - y)^2/2", SIGNS).margin
    both = local_lipschitz([small, large], margin, F(1))
    assert both is not None
    assert both.length(1.0) == pytest.approx(6, rel=1e-6)
    assert both.spread(1.0) == 2 * both.length(1.0)


def test_several_classes_times_a_factor():
    c = certify(parse_expr("5*multinomial(3)"), over=Reals(), x=ball(2), y=labels(0, 1, 2), names={"d": 2})
    assert c.local.length(0.0) == pytest.approx(10 * np.sqrt(2 / 3), rel=1e-9)
