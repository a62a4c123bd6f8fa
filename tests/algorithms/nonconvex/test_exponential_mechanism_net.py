"""exponential-mechanism-net: what a net covers, the sensitivity to the last record, the printed one, the bound."""

from __future__ import annotations

import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from dpspec.algorithms.nonconvex_erm import exponential_mechanism_net as module
from dpspec.algorithms.sets import ConstraintSet
from dpspec.compiler.passes import compile_draft
from dpspec.data.records import Records
from dpspec.domains.domain import finite
from dpspec.executor.bind import bound_problem
from dpspec.lang.source import parse_expr, parse_text
from dpspec.spec.expr import Num
from dpspec.spec.model import Ball, Reals
from dpspec.symbolic.certify import certify
from tests import leak
from tests.algorithms.nonconvex.test_dp_gld import metered
from tests.algorithms.nonconvex.test_dp_pgd_nonconvex import SIGMOID, SPEC, sample

LABELS = "{-1, 1} by map(0 -> -1, 1 -> 1)"


def drafted(n=40, d=2, loss=SIGMOID, over="ball(l2, 2)", neighbours="replace-one", options="", y=LABELS):
    more = f" with {options}" if options else ""
    text = SPEC.format(n=n, d=d, loss=loss, over=over, y=y, neighbours=neighbours, options=more, epsilon="1", delta="0")
    text = text.replace("by dp-pgd-nonconvex", "by exponential-mechanism-net").replace(", delta = 0", "")
    return compile_draft(parse_text(text, surface="dps"))


def bound(**spec):
    draft = drafted(**spec)
    release = draft.releases[0]
    assert release.module is module, [e.message for e in draft.diagnostics]
    return bound_problem(draft, release), release.tunables, draft.calibrated or release.calibrated


@pytest.mark.parametrize(
    ("over", "d"),
    [
        (ConstraintSet("l2", radius=2.0), 1),
        (ConstraintSet("l2", radius=2.0), 3),
        (ConstraintSet("l1", radius=1.5), 2),
        (ConstraintSet("linf", radius=1.0), 2),
        (ConstraintSet("box", low=-0.5, high=2.0), 2),
        (ConstraintSet("simplex"), 3),
    ],
)
def test_the_net_covers_the_set_and_has_the_size_of_the_plan(over: ConstraintSet, d: int):
    """Every point of the set is within alpha of one of the net, and the net lies in the set; its radius is that of the set, not L/lam."""
    alpha = 0.31
    points = module.net(over, d, alpha)
    assert not isinstance(points, int)
    rng = np.random.default_rng(0)
    inside = np.array([over.project(v) for v in rng.normal(size=(600, d)) * rng.choice([0.3, 1, 4], size=(600, 1))])
    gaps = np.linalg.norm(inside[:, None, :] - points[None, :, :], axis=2).min(axis=1)
    assert gaps.max() <= alpha * (1 + 1e-9)
    assert gaps.max() > alpha / 3
    assert all(np.linalg.norm(over.project(w) - w) <= 1e-9 for w in points)
    draft = drafted(d=2, options="alpha = 0.3")
    assert draft.releases[0].problem is not None
    p, t, _ = bound(options="alpha = 0.3")
    assert module.schedule(p, t).mechanism.candidates == len(module.net(ConstraintSet("l2", radius=2.0), 2, 0.3))


def test_a_net_beyond_the_limit_is_refused_with_its_size():
    messages = " ".join(e.message for e in drafted(d=6, options="alpha = 0.1").diagnostics)
    cells = math.ceil(4 * math.sqrt(6) / 0.2)
    assert "in 6 dimensions" in messages
    assert f"{cells**6:.3g}" in messages
    assert "bounded set" in " ".join(e.message for e in drafted(over="R^d").diagnostics)
    assert "one point" in " ".join(e.message for e in drafted(options="alpha = 9").diagnostics)
    assert module.accepts(*bound(loss=f"{SIGMOID} + 0.1*|w|^2", over="R^d", options="alpha = 0.2")[:2]) is None


class Kept:
    """A release that keeps the scores."""

    def draw(self, name, value, *, sensitivity):
        self.value, self.sensitivity = np.array(value), sensitivity
        return 0


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
@pytest.mark.parametrize("loss", [SIGMOID, "biweight(1) + 0.05*|w|^2"])
def test_a_score_moves_by_its_sensitivity_and_no_more(neighbours: str, loss: str):
    """Over pairs of extreme records at all points, in fractions of the doubles that are handed over."""
    y = LABELS if loss == SIGMOID else "[-2, 2] by clip"
    p, t, _ = bound(n=5, loss=loss, neighbours=neighbours, options="alpha = 0.4", y=y)
    rest = sample(5, 2)
    seen = []
    labels = (-1.0, 1.0) if loss == SIGMOID else (-2.0, -0.6, 0.0, 0.45, 2.0)
    for x in ((1.0, 0.0), (-1.0, 0.0), (0.6, 0.8), (0.0, 0.0), (0.1, 0.0)):
        for label in labels:
            rows, column = np.array(rest.x), np.array(rest.y)
            rows[0], column[0] = x, label
            kept = Kept()
            module.run(Records(rows, column), p, t, kept)
            seen.append(kept.value)
    if neighbours == "add-remove":
        kept = Kept()
        module.run(Records(rest.x[1:], rest.y[1:]), p, t, kept)
        pairs = [(one, kept.value) for one in seen]
    else:
        pairs = [(one, other) for one in seen for other in seen]
    most = max(abs(Fraction(float(a)) - Fraction(float(b))) for one, other in pairs for a, b in zip(one, other, strict=True))
    assert most <= Fraction(kept.sensitivity)
    assert most >= Fraction(kept.sensitivity) * (Fraction(1, 2) if loss == SIGMOID else Fraction(1, 4))
    assert kept.sensitivity == module.sensitivity(p, t)


def test_the_printed_sensitivity_lacks_the_radius():
    """phi = -y u, |x| <= 1: L = 1, lam = 0.1, so minimisers in [-10, 10]. Exact laws on a fine net of two neighbours, epsilon = 1: by L/n
    the log-ratio is 10, by 2 L^2/(lam n) below 1. One record is enough: n cancels."""
    w = np.linspace(-10, 10, 2001)
    ridge = 0.05 * w**2

    def law(sign: float, s: float) -> np.ndarray:
        e = -(sign * w + ridge) / (2 * s)
        p = np.exp(e - e.max())
        return p / p.sum()

    ratios = {s: np.abs(np.log(law(1, s) / law(-1, s))).max() for s in (1.0, 2 / 0.1)}
    assert ratios[1.0] == pytest.approx(10, rel=1e-3)
    assert ratios[20.0] < 1

    def with_others(s: float, n: int = 200) -> float:
        # the others' losses have their least value at the end that the record leaves: the law has all its mass there, and then not
        e0 = -n * (-(w / n) + ridge * 0) / (2 * s)
        e1 = -n * (w / n + ridge * 0) / (2 * s)
        p0, p1 = (np.exp(e - e.max()) for e in (e0, e1))
        return float(np.abs(np.log(p0 / p0.sum()) - np.log(p1 / p1.sum())).max())

    assert with_others(1.0) == pytest.approx(10, rel=1e-3)
    assert with_others(20.0) <= 0.5 + 1e-9
    leak.epsilon(float(ratios[1.0]), 1.0)


def test_the_concave_loss_is_lipschitz_on_a_ball_alone():
    ball = Ball(norm="l2", radius=Num(Fraction(1)))
    loss = parse_expr("-<w, x>^2/2")
    known = {"x": ball, "y": finite(-1, 1), "names": {"d": Fraction(2)}}
    assert math.isinf(certify(loss, over=Reals(), **known).lipschitz)
    assert certify(loss, over=ball, **known).lipschitz == pytest.approx(1)


def test_the_law_is_the_exponential_one_and_the_bound_holds():
    p, t, c = bound(n=300, loss="biweight(1)", over="ball(l2, 1)", y="[-2, 2] by clip", options="alpha = 0.1")
    rng = np.random.default_rng(3)
    x = sample(300, 2).x
    r = Records(x, np.clip(x @ np.array([0.6, -0.8]) + rng.normal(0, 0.2, 300), -2, 2))
    points = module.net(module.region(p), 2, 0.1)
    q = 1 - np.minimum((x @ points.T - r.y[:, None]) ** 2, 1)
    losses = ((1 - q**3) / 6).mean(axis=0)  # the biweight loss by hand
    kept = Kept()
    module.run(r, p, t, kept)
    start = ((1 - (1 - np.minimum(r.y**2, 1)) ** 3) / 6).mean()
    assert np.allclose(kept.value, start - losses, atol=1e-12)
    exponents = -losses / c.scale("choice")
    law = np.exp(exponents - exponents.max())
    law /= law.sum()
    drawn = [metered(module, r, p, t, c, seed) for seed in range(60)]
    values = [losses[int(np.argmin(np.abs(points - w).sum(axis=1)))] for w in drawn]
    expected, spread = float(law @ losses), math.sqrt(float(law @ losses**2) - float(law @ losses) ** 2)
    assert np.mean(values) == pytest.approx(expected, abs=4 * spread / math.sqrt(60))
    (value,) = module.explicit_bounds(p, t, c).values()
    assert value == pytest.approx(p.loss.lipschitz * 0.1 + c.scale("choice") * math.log(len(points)), rel=1e-6)
    assert expected - losses.min() < value
    assert module.far(p) == pytest.approx(1)


def test_a_ridge_makes_the_ball_of_all_minimisers():
    p, _, _ = bound(loss=f"{SIGMOID} + 0.1*|w|^2", over="R^d", options="alpha = 0.2")
    assert module.region(p).radius == pytest.approx(0.25 / 0.2, rel=1e-9)
    r = sample(200, 2, 4)
    found = SimpleNamespace(w=np.zeros(2))
    for _ in range(400):
        found.w = found.w - 2 * p.oracle.gradient(found.w, r)
    assert np.linalg.norm(found.w) < module.region(p).radius
