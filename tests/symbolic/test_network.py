"""Networks of two layers: what is read, what is refused by name, and constants against suprema that are found by other means.

The independent route: losses are written out in NumPy as functions of the weights, gradients and Hessians come from differences of these at
random weights of the set and random records, and the largest are improved by a local search.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction

import numpy as np
import pytest

from dpspec.domains.domain import ball, finite, interval
from dpspec.lang.source import parse_text
from dpspec.spec.expr import num
from dpspec.spec.model import Ball, Box, Reals
from dpspec.symbolic.certify import certify
from dpspec.symbolic.network import exchangeable, recognise, saturating
from dpspec.symbolic.network_values import function
from dpspec.symbolic.normal import NoNormalForm, Scope

SPEC = """
analysis "t"
data
  n = 100, d = 3
  from memory
  private, unit person, neighbours replace-one
  x in ball(l2, 1) by scale
  y in [-1, 1] by clip
privacy central
  epsilon = 1, delta = 1e-6
release weights
  minimise {loss} over {over}
  by dp-pgd-nonconvex
"""


def loss_of(text, over="ball(l2, 1)"):
    return parse_text(SPEC.replace("{loss}", text).replace("{over}", over), surface="dps").analysis.releases[0].task.loss


def certified(text, over, x=None, y=None, **values):
    return certify(loss_of(text), over=over, x=x or ball("l2", 1, 3), y=y or interval(-1, 1), names={"d": 3, "n": 100, **values})


def sig(z):
    return 1 / (1 + np.exp(-z))


#: Text, set radius, R, labels, and the loss of a record by hand: W (K, d), v (K,), x, y.
CASES = {
    "committee": ("(tanh(<w1, x>) + tanh(<w2, x>) - y)^2/2", 2, 2, lambda W, v, x, y: (np.tanh(W @ x).sum() - y) ** 2 / 2),
    "sigmoid, squared": (
        "(v1/(1 + exp(-<w1, x>)) + v2/(1 + exp(-<w2, x>)) - y)^2/2",
        2,
        1,
        lambda W, v, x, y: (v @ sig(W @ x) - y) ** 2 / 2,
    ),
    "tanh, logistic": (
        "log(1 + exp(-y*(v1*tanh(<w1, x>) + v2*tanh(<w2, x>))))",
        1,
        2,
        lambda W, v, x, y: np.log1p(np.exp(-y * (v @ np.tanh(W @ x)))),
    ),
    "softplus": (
        "(log(1 + exp(<w1, x>)) - log(1 + exp(<w2, x>)) - y)^2/2",
        1,
        1,
        lambda W, v, x, y: (np.log1p(np.exp(W @ x)) @ np.array([1.0, -1.0]) - y) ** 2 / 2,
    ),
}


def drawn(rng, radius, reach, outputs, d=2, K=2):
    """Weights of the ball and a record, more often than not of the largest norms, with y at an end."""
    size = K * (d + outputs)
    theta = rng.standard_normal(size)
    theta *= radius * min(1.0, 1.3 * rng.random() ** (1 / size)) / np.linalg.norm(theta)
    x = rng.standard_normal(d)
    return theta, x * reach / np.linalg.norm(x), rng.choice([-1.0, 1.0])


def unpacked(theta, outputs, K=2):
    M = theta.reshape(K, -1)
    return (M[:, :-1], M[:, -1]) if outputs else (M, np.zeros(K))


def derivatives(value, theta, h=1e-4):
    """Gradient and Hessian by central differences."""
    eye, m = np.eye(len(theta)) * h, len(theta)
    g = np.array([(value(theta + e) - value(theta - e)) / (2 * h) for e in eye])
    H = np.empty((m, m))
    for i in range(m):
        for j in range(i, m):
            a, b = eye[i], eye[j]
            H[i, j] = H[j, i] = (value(theta + a + b) - value(theta + a - b) - value(theta - a + b) + value(theta - a - b)) / (4 * h * h)
    return g, H


@pytest.mark.parametrize("name", ["committee", *(pytest.param(n, marks=pytest.mark.slow) for n in CASES if n != "committee")])
def test_constants_hold_and_are_close_to_what_is_reached(name):
    text, radius, reach, by_hand = CASES[name]
    outputs = int("v1" in text)
    c = certified(text, Ball(norm="l2", radius=num(radius)), x=ball("l2", reach, 2), d=2)
    rng, best = np.random.default_rng(7), np.zeros(3)
    for _ in range(150):
        theta, x, y = drawn(rng, radius, reach, outputs)
        g, H = derivatives(lambda t, x=x, y=y: by_hand(*unpacked(t, outputs), x, y), theta)
        best = np.maximum(best, [np.linalg.norm(g), np.abs(np.linalg.eigvalsh(H)).max(), np.linalg.norm(H)])
    proved = np.array([c.lipschitz, c.smooth, c.frobenius])
    assert (best <= proved * (1 + 1e-4)).all()
    assert proved[0] <= 2 * best[0]  # random points lie below the supremum, and the box search stops above it
    assert proved[1] <= 4 * best[1]
    assert c.slope * reach == pytest.approx(c.lipschitz, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["committee", "sigmoid, squared"])
def test_hessians_change_no_faster_than_the_third_derivative(name):
    text, radius, reach, by_hand = CASES[name]
    outputs = int("v1" in text)
    c = certified(text, Ball(norm="l2", radius=num(radius)), x=ball("l2", reach, 2), d=2)
    rng, best = np.random.default_rng(3), 0.0
    for _ in range(60):
        theta, x, y = drawn(rng, radius, reach, outputs)
        step = rng.standard_normal(len(theta))
        near = theta * 0.97
        far = near + 0.02 * radius * step / np.linalg.norm(step)
        value = lambda t, x=x, y=y: by_hand(*unpacked(t, outputs), x, y)  # noqa: E731
        H, G = derivatives(value, near, 1e-3)[1], derivatives(value, far, 1e-3)[1]
        best = max(best, np.abs(np.linalg.eigvalsh(H - G)).max() / np.linalg.norm(far - near))
    assert c.hessian is not None
    assert best <= c.hessian.value() * (1 + 1e-3)
    assert c.hessian.value() <= 8 * best


def test_units_that_level_out_have_constants_over_all_weights():
    c = certified("(tanh(<w1, x>) - tanh(<w2, x>) - y)^2/2", Reals())
    # |residual| <= 3 and |(tanh', tanh')| <= sqrt(2), not both at once
    assert c.lipschitz < 3 * math.sqrt(2)
    assert c.at_zero == pytest.approx(0.5, abs=1e-4)
    z = np.random.default_rng(0).standard_normal((2, 20_000)) * 3
    y = np.where(np.arange(20_000) % 2, 1.0, -1.0)
    t = np.tanh(z)
    g = np.abs(t[0] - t[1] - y) * np.sqrt((1 - t[0] ** 2) ** 2 + (1 - t[1] ** 2) ** 2)
    assert g.max() <= c.lipschitz <= 1.1 * g.max()


@pytest.mark.parametrize(
    ("text", "over", "names", "words"),
    [
        ("(tanh(<w1, x>) + tanh(<w3, x>) - y)^2", Reals(), {}, "w2 is missing"),
        ("(v1*tanh(<w1, x>) + tanh(<w2, x>) - y)^2", Ball(norm="l2", radius=num(1)), {}, "v1 to v2"),
        ("(tanh(<w1, x>) + tanh(<w9, x>) - y)^2", Reals(), {}, "at most 8"),
        ("(tanh(<w1, w2>) - y)^2", Reals(), {}, "margins <w1, x>"),
        ("(tanh(<w1, x>) - y)^2*|w|^2", Reals(), {}, "summands of their own"),
        ("(tanh(<w1, x>) - y)^2 + group(w, 1)", Reals(), {}, "group norms"),
        ("(tanh(<w1, x>) - y)^logistic", Reals(), {}, "logistic is a loss of <w, x>"),
        ("(ceil(<w1, x>) - y)^2", Ball(norm="l2", radius=num(1)), {}, "ceil is not covered"),
        ("(tanh(<w1, x>) - y)^2", Reals(), {"w1": 2}, "makes it a number"),
    ],
)
def test_what_is_no_network_is_refused_by_name(text, over, names, words):
    with pytest.raises(NoNormalForm, match=re.escape(words)):
        recognise(loss_of(text), Scope({"d": 3, **names}))
    c = certify(loss_of(text), over=over, x=ball("l2", 1, 3), y=interval(-1, 1), names={"d": 3, **names})
    assert not c.ok
    assert any(f.code == "DP200" for f in c.findings)


@pytest.mark.parametrize(
    ("text", "over", "x", "y", "code"),
    [
        ("(v1*tanh(<w1, x>) - y)^2", Reals(), ball("l2", 1, 3), interval(-1, 1), "DP208"),
        ("(log(1 + exp(<w1, x>)) - y)^2", Reals(), ball("l2", 1, 3), interval(-1, 1), "DP208"),
        ("(tanh(<w1, x>) - y)^2", Reals(), None, interval(-1, 1), "DP207"),
        ("(tanh(<w1, x>) - y)^2", Reals(), ball("l2", 1, 3), None, "DP214"),
    ],
)
def test_what_cannot_be_bounded_has_no_constants(text, over, x, y, code):
    c = certify(loss_of(text), over=over, x=x or Reals(), y=y or Reals(), names={"d": 3})
    assert not c.ok
    assert [f.code for f in c.findings] == [code]


def test_a_kink_leaves_the_slope_and_takes_the_curvature():
    c = certified("(max(<w1, x>, 0) - max(<w2, x>, 0) - y)^2/2", Ball(norm="l2", radius=num(1)))
    assert c.ok
    assert math.isinf(c.smooth)
    assert any(f.code == "DP209" for f in c.findings)


def test_numbers_in_the_data_block_are_no_output_weights():
    fixed = recognise(loss_of("(v1*tanh(<w1, x>) - y)^2"), Scope({"v1": Fraction(2)}))
    free = recognise(loss_of("(v1*tanh(<w1, x>) - y)^2"), Scope({}))
    assert fixed is not None
    assert free is not None
    assert (fixed[0].outputs, free[0].outputs) == (False, True)
    assert saturating(fixed[0])
    assert not saturating(free[0])
    assert free[0].size(3) == 4


def test_units_change_places_only_where_the_loss_stays_the_same():
    same = recognise(loss_of("(v1*tanh(<w1, x>) + v2*tanh(<w2, x>) - y)^2"), Scope({}))
    other = recognise(loss_of("(tanh(<w1, x>) - tanh(<w2, x>) - y)^2"), Scope({}))
    assert same is not None
    assert other is not None
    assert exchangeable(same[0])
    assert not exchangeable(other[0])


def test_a_regulariser_is_split_off_and_the_box_serves():
    c = certified("(tanh(<w1, x>) + tanh(<w2, x>) - y)^2/2 + 0.1*|w|^2 + 0.01*|w|_1", Box(low=num(-1), high=num(1)), y=finite(-1, 1))
    assert (c.l2, c.l1) == (pytest.approx(0.2), pytest.approx(0.01))
    assert c.exact_regulariser
    plain = certified("(tanh(<w1, x>) + tanh(<w2, x>) - y)^2/2", Box(low=num(-1), high=num(1)), y=finite(-1, 1))
    assert c.lipschitz == plain.lipschitz


def test_derivatives_over_arrays_are_those_of_the_expression():
    found = recognise(loss_of("log(1 + exp(-y*(v1*tanh(2*<w1, x>) + v2/(1 + exp(<w2, x>)) + <w1 - w2, x>^2/4)))"), Scope({}))
    assert found is not None
    net, rng = found[0], np.random.default_rng(5)
    z, y = rng.standard_normal((4, 6)), rng.choice([-1.0, 1.0], 6)

    def by_hand(z):
        return np.log1p(np.exp(-y * (z[2] * np.tanh(2 * z[0]) + z[3] / (1 + np.exp(z[1])) + (z[0] - z[1]) ** 2 / 4)))

    assert function(net, 0)(z, y) == pytest.approx(by_hand(z), rel=1e-13)
    g, H, h = function(net, 1)(z, y), function(net, 2)(z, y), 1e-5
    for i in range(4):
        e = np.zeros((4, 1))
        e[i] = h
        assert g[i] == pytest.approx((by_hand(z + e) - by_hand(z - e)) / (2 * h), abs=1e-8)
        assert H[i] == pytest.approx((function(net, 1)(z + e, y) - function(net, 1)(z - e, y)) / (2 * h), abs=1e-7)
