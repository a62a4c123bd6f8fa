"""Losses of this family, certificates over all margins, the reference of many restarts, and what measures compare with."""

from __future__ import annotations

import importlib.util
import json
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from dpspec.algorithms.nonconvex_erm import dp_gd_sosp
from dpspec.algorithms.objective import optimum
from dpspec.algorithms.restarts import RESTARTS, best_of_restarts, starts
from dpspec.compiler.passes import compile_draft
from dpspec.data.records import Records
from dpspec.domains.domain import finite, interval
from dpspec.executor.study import study
from dpspec.lang.source import parse_text
from dpspec.measures.gradient import gradient_norm, population_gradient_norm
from dpspec.measures.measure import Population
from dpspec.tasks import minimise
from tests.algorithms.nonconvex.saddles import mixed, planned
from tests.algorithms.nonconvex.test_dp_pgd_nonconvex import SPEC, sample
from tests.algorithms.nonconvex.test_second_order import certified

LABELS, CLIPPED = "{-1, 1} by map(0 -> -1, 1 -> 1)", "[-1, 1] by clip"
#: loss, set, labels, and one algorithm that plans it.
PLANS = [
    ("1/(1 + exp(y*<w, x>))", "R^d", LABELS, "dp-tr"),
    ("biweight(2)", "R^d", CLIPPED, "dp-gd-sosp"),  # Tukey
    ("cauchy(1/2)", "R^d", CLIPPED, "dp-str"),
    ("min((<w, x> - y)^2, 1/4)", "ball(l2, 1)", CLIPPED, "exponential-mechanism-net"),  # truncated squares have a kink
    ("(1/(1 + exp(-<w, x>)) - y)^2", "R^d", "{0, 1} by map(0 -> 0, 1 -> 1)", "dp-tr"),
    ("(tanh(<w, x>) - y)^2/4", "R^d", LABELS, "dp-gd-sosp"),
    ("(tanh(<w, x>) - y)^2/4", "ball(l1, 2)", LABELS, "dp-fw-l1"),
    ("(<w, x>^2 - y)^2/4", "ball(l2, 1)", "[0, 1] by clip", "dp-gd-so"),  # phase retrieval
    ("(<w, x>^2 - y)^2/4", "ball(l2, 1)", "[0, 1] by clip", "dp-pmd-nonconvex"),
]


def compiled(loss: str, over: str, y: str, by: str, n: int = 20_000, more: str = ""):
    known = {"n": n, "d": 3, "neighbours": "replace-one", "epsilon": "1", "delta": "1e-6", "options": ""}
    text = SPEC.format(loss=loss, over=over, y=y, **known).replace("by dp-pgd-nonconvex", f"by {by}") + more
    return compile_draft(parse_text(text, surface="dps"))


@pytest.mark.slow
@pytest.mark.parametrize(("loss", "over", "y", "by"), PLANS)
def test_every_loss_of_the_family_has_a_plan(loss: str, over: str, y: str, by: str):
    draft = compiled(loss, over, y, by)
    assert not draft.failed, [e.message for e in draft.diagnostics]
    assert draft.releases[0].module.CARD.id == by


def test_truncated_squares_are_refused_where_a_method_needs_smoothness():
    draft = compiled("min((<w, x> - y)^2, 1/4)", "ball(l2, 1)", CLIPPED, "dp-pgd-nonconvex")
    assert draft.failed
    assert any("smooth" in e.message for e in draft.diagnostics)


UNBOUNDED = [
    ("savage", finite(-1, 1), lambda u, y: 1 / (1 + np.exp(y * u)) ** 2),
    ("(1 - tanh(y*<w, x>))^2", finite(-1, 1), lambda u, y: (1 - np.tanh(y * u)) ** 2),
    pytest.param("(tanh(<w, x>) - y)^2", interval(-1, 1), lambda u, y: (np.tanh(u) - y) ** 2, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("loss", "y", "by_hand"), UNBOUNDED)
def test_losses_that_level_out_have_constants_over_all_margins(loss: str, y, by_hand):
    """|phi'|, |phi''| and the fall from w = 0 against difference quotients on a grid; x has norm 3/2 at most."""
    c = certified(loss, y, None)
    u, h = np.linspace(-40, 40, 200_001), 1e-4
    slope = curve = fall = 0.0
    for label in (-1.0, -0.5, 0.0, 0.5, 1.0) if not y.values else (-1.0, 1.0):
        f = by_hand(u, label)
        slope = max(slope, np.abs(by_hand(u + h, label) - by_hand(u - h, label)).max() / (2 * h))
        curve = max(curve, np.abs(by_hand(u + h, label) - 2 * f + by_hand(u - h, label)).max() / h**2)
        fall = max(fall, float(by_hand(np.zeros(1), label)[0] - f.min()))
    assert slope * (1 - 1e-4) <= c.slope <= slope * (1 + 1e-3)
    assert curve * (1 - 1e-4) <= c.curve <= curve * (1 + 1e-3)
    assert fall <= c.at_zero * (1 + 1e-9)
    assert c.at_zero <= fall + 0.01
    assert math.isfinite(c.hessian.value())


def test_a_loss_that_bends_at_infinity_has_none():
    """tanh(u^2) levels out too, but its argument is not of first degree; and a tiny factor of u is beyond what is cut."""
    assert math.isinf(certified("tanh((<w, x> - y)^2)", interval(-1, 1), None).lipschitz)
    assert math.isinf(certified("tanh(<w, x>/10^12)^2", finite(-1, 1), None).lipschitz)


def test_restarts_leave_a_saddle_point_where_one_search_stays():
    """w = 0 is stationary for the mixed regressions: a search from there stays, and the reference does not."""
    p, _, _ = planned(dp_gd_sosp, n=400)
    r = mixed(400)
    stays = optimum(p.objective, r)
    w, value = best_of_restarts(p.objective, r)
    assert np.linalg.norm(stays[0]) < 1e-9
    assert value < stays[1] - 0.002
    assert value == pytest.approx(minimise.reference(r, p, {})[1])
    at = starts(p.objective, 2)
    assert len(at) == RESTARTS
    assert np.array_equal(at[1], starts(p.objective, 2)[1])  # the same for every data set
    assert np.linalg.norm(p.objective.gradient(w, r)) < 1e-5


def test_the_reference_of_a_convex_loss_is_one_search_and_says_nothing():
    p, _, _ = planned(dp_gd_sosp, loss="log(1 + exp(-y*<w, x>))", y=LABELS, n=400)
    assert minimise.caveat(p) == ""
    assert minimise.reference(sample(400, 2), p, {})[1] == optimum(p.objective, sample(400, 2))[1]


LAW = """
simulate
  theta = dense unit l2
  x ~ uniform-ball
  y ~ <theta, x> + normal(0, 0.1)
study
  trials 2, seed 1
"""


def test_a_study_says_that_the_reference_is_the_best_of_restarts_and_shows_it():
    expected = "  expect gradient-norm <= 1\n"
    text = SPEC.format(
        loss="biweight(2)", over="R^d", y=CLIPPED, n=1000, d=3, neighbours="replace-one", epsilon="1", delta="1e-6", options=""
    )
    body = study(parse_text(text + expected + LAW, surface="dps"), workers=1).to_json()
    (point,) = body["points"]
    assert any(f"best of {RESTARTS}" in note for note in body["notes"])
    assert 0 <= point["reference_error"]["mean"] < 1e-5 < point["error"]["mean"] < point["trivial_error"]
    assert point["cost_of_privacy"] is None  # of nothing


def test_the_population_norm_is_that_of_fresh_records():
    p, _, _ = planned(dp_gd_sosp, n=400)
    mine, fresh, w = sample(400, 2), sample(4000, 2, seed=5), np.array([0.3, -0.2])
    t = SimpleNamespace(problem=p, records=mine, population=Population(fresh))
    assert population_gradient_norm(w, t) == pytest.approx(float(np.linalg.norm(p.objective.gradient(w, fresh))))
    assert gradient_norm(w, t) == pytest.approx(float(np.linalg.norm(p.objective.gradient(w, mine))))


def test_the_sample_of_the_law_solves_nothing_that_is_not_asked_for():
    asked: list[int] = []
    one = Population(Records(np.zeros((1, 1))), lambda: asked.append(1) or (None, 0.5))
    assert not asked
    assert one.optimum == one.optimum == 0.5
    assert len(asked) == 1


@pytest.mark.slow
def test_the_picture_of_the_saddle_point_is_what_runs_show():
    """Three runs at T = 10: those of dp-tr end beyond it, gradient methods stay; the numbers beside the picture say the same."""
    root = Path(__file__).resolve().parents[3] / "docs"
    loaded = importlib.util.spec_from_file_location("gen_saddle", root / "gen_saddle.py")
    assert loaded is not None
    module = importlib.util.module_from_spec(loaded)
    loaded.loader.exec_module(module)
    drawn = json.loads((root / "algorithms" / "saddle-escape.json").read_text())
    module.STEPS = (10,)
    found = module.shares(3)
    at = drawn["steps"].index(10)
    assert found["dp-tr"] == [1.0] == [drawn["shares"]["dp-tr"][at]]
    for name in ("gradient steps without noise", "dp-gd-sosp", "dp-pgd-nonconvex, last"):
        assert found[name] == [0.0] == [drawn["shares"][name][at]]


#: One weight, records x = +-1 with y = theta x, theta = +-1: each record's biweight(2) loss is rho(w - theta), so that every measure is a
#: number at w = 0 and 0 at w = theta. rho'(1) = 9/16, rho''(1) = -3/16, rho(1) = (1 - (3/4)^3) 2/3, rho''' of at most 8/2.
RHO = 2 / 3 * (1 - 0.75**3)
#: measure: set, algorithm, value at the zero vector.
AT_ZERO = {
    "gradient-norm": ("R^d", "dp-pgd-nonconvex", 9 / 16),
    "population-gradient-norm": ("R^d", "dp-pgd-nonconvex", 9 / 16),
    "frank-wolfe-gap": ("ball(l2, 2)", "dp-fw-l2", 2 * 9 / 16),
    "mirror-mapping-norm": ("ball(l2, 2)", "dp-pmd-nonconvex", 2 * 9 / 16),  # in units of the set
    "least-eigenvalue": ("R^d", "dp-pgd-nonconvex", 3 / 16),
    "second-order-stationarity": ("R^d", "dp-tr", 9 / 16),
    "excess-empirical-risk": ("R^d", "dp-pgd-nonconvex", RHO),
    "excess-population-risk": ("R^d", "dp-pgd-nonconvex", RHO),
    "gradient-norm over a short ball": (
        "ball(l2, 1/5)",
        "dp-pgd-nonconvex",
        0.2 / 0.5,
    ),  # the mapping: a step of 1/(2 S) ends at the boundary
}


@pytest.mark.parametrize("name", AT_ZERO)
def test_a_study_shows_the_trivial_and_the_non_private_value_of_every_measure(name):
    over, by, zero = AT_ZERO[name]
    measure = name.split(" over")[0]
    known = {"n": 60, "d": 1, "neighbours": "replace-one", "epsilon": "1", "delta": "1e-6", "options": " with T = 10"}
    text = SPEC.format(loss="biweight(2)", over=over, y=CLIPPED, **known).replace("by dp-pgd-nonconvex", f"by {by}")
    text += f"  expect {measure} <= 100\nsimulate\n  theta = dense unit l2\n  x ~ uniform-sphere\n  y = <theta, x>\n"
    (point,) = study(parse_text(text + "study\n  trials 1, seed 1\n", surface="dps"), workers=1).to_json()["points"]
    assert point["error"]["measure"] == measure
    assert point["trivial_error"] == pytest.approx(zero, rel=1e-6)
    assert point["reference_error"]["mean"] == pytest.approx(0.0, abs=1e-5)
