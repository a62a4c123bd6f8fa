"""Multinomial logistic regression through the compiler and a run: the noise, the number of weights in every formula, what is refused."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction as F

import numpy as np
import pytest

from dpspec.algorithms.sets import constraint_set
from dpspec.compiler.draft import Chosen
from dpspec.compiler.passes import compile_draft
from dpspec.compiler.plan import make_plan
from dpspec.executor.run import run
from dpspec.executor.study import study
from dpspec.lang.printer import to_dps, to_yaml
from dpspec.lang.source import parse_text

N, K, D = 3000, 3, 5

SPEC = """analysis "three classes"

data
  n = {n}, d = 5
  from memory
  private, unit person, neighbours {neighbours}
  x in ball(l2, {radius}) by scale
  y in {labels}

privacy central
  {budget}

release weights
  minimise {loss} over {over}
  by {by}

simulate
  a = dense unit l2
  b = dense unit l2
  x ~ uniform-ball
  y ~ categorical-logistic(5*<a, x>, 5*<b, x>, 0)
"""

DEFAULTS = {
    "n": N,
    "neighbours": "replace-one",
    "radius": 1,
    "labels": "{0, 1, 2} by reject",
    "budget": "epsilon = 1, delta = 1e-5",
    "loss": "multinomial(3) + 0.01/2*|w|^2",
    "over": "R^d",
    "by": "dp-gd",
}


def parsed(**changes):
    return parse_text(SPEC.format(**{**DEFAULTS, **changes}), path="three.dps", surface="dps")


def compiled(**changes):
    return compile_draft(parsed(**changes))


def found(draft):
    return [(d.code, d.span.line if d.span else 0, d.span.column if d.span else 0) for d in draft.diagnostics if d.severity == "error"]


# ------------------------------------------------------------------------------------------------------------- the noise


@pytest.mark.parametrize(("neighbours", "moved"), [("replace-one", 2.0), ("add-remove", 1.0), ("zero-out", 1.0)])
@pytest.mark.parametrize("radius", [1, 3])
def test_the_noise_is_that_of_two_gradients_of_norm_sqrt_2(neighbours, moved, radius):
    """The sensitivity is moved*sqrt(2)*R/n, never below it, and T draws of the planned scale spend the budget and no less: by the Gaussian
    profile at mu = S sqrt(T)/scale, an independent formula."""
    from scipy.stats import norm

    plan = make_plan(parsed(neighbours=neighbours, radius=radius), check=False)
    (row,) = plan.to_json()["releases"][0]["noise"]
    exact = moved * math.sqrt(2) * radius / N
    held = 8 * N if neighbours == "add-remove" else N  # so many records are allowed for; one block of them, or many, is summed
    room = 2 / moved * held * (held + 32) * 2.0**-53  # twice (R + 32) u m L over moved*L: one block, and what follows the sum
    assert exact <= row["sensitivity"] <= exact * (1 + room) * (1 + 1e-9)
    assert F(row["sensitivity"]) ** 2 >= 2 * F(moved) ** 2 * radius**2 / F(N) ** 2
    assert row["size"] == K * D
    mu = exact * math.sqrt(row["count"]) / row["scale"]
    delta = norm.cdf(mu / 2 - 1 / mu) - math.e * norm.cdf(-mu / 2 - 1 / mu)
    assert 0.99e-5 <= delta <= 1e-5 * (1 + 1e-9)
    half = 2 * mu
    assert norm.cdf(half / 2 - 1 / half) - math.e * norm.cdf(-half / 2 - 1 / half) > 100e-5  # half the noise would not do


def test_the_sensitivity_is_approached_and_not_exceeded():
    """Two records x, x' = (+-cos a, sin a) on the unit sphere and weights that put both into class 1: the gradients (e_1 - e_0) x^T and
    (e_1 - e_0) x'^T are opposite as a -> 0."""
    from dpspec.data.records import Records
    from dpspec.executor.bind import bound_problem

    draft = compiled()
    (release,) = draft.releases
    a = 1e-3
    x, y = np.zeros((N, D)), np.zeros(N)
    x[0, :2] = math.cos(a), math.sin(a)
    other = x.copy()
    other[0, 0] *= -1
    w = np.zeros((K, D))
    w[1, 1] = 1e5
    f = bound_problem(draft, release).objective
    distance = np.linalg.norm(f.data_gradient(w.ravel(), Records(x, y), N) - f.data_gradient(w.ravel(), Records(other, y), N))
    planned = release.tree.body.mechanism.sensitivity
    assert 0.999 * planned < distance <= planned


def test_bounded_weights_need_less_noise():
    """On the unit ball the slope is between its value at |z| = 1 for one wrong class and sqrt(2)."""
    free, ball = (compiled(over=over).releases[0].problem.loss.lipschitz for over in ("R^d", "ball(l2, 1)"))
    z = np.array([-1.0, 1.0, 0.0]) / math.sqrt(2)
    p = np.exp(z) / np.exp(z).sum()
    assert np.linalg.norm(p - [1, 0, 0]) <= ball < 0.8 * free


# ------------------------------------------------------------------------------------------------- the number of weights


def test_every_formula_counts_the_weights():
    draft = compiled(over="ball(linf, 1/2)")
    (release,) = draft.releases
    p = release.problem
    assert (p.d, p.shape, p.facts["features"], draft.facts["d"]) == (15, (3, 5), 5, 5)
    assert p.facts["w_radius"] == pytest.approx(0.5 * math.sqrt(15))
    assert p.facts["w_l1"] == pytest.approx(7.5)
    assert p.facts["x_l1"] == pytest.approx(math.sqrt(5))  # a record has five numbers
    assert constraint_set(p.task.over, p.facts).distance_bound(p.d) == pytest.approx(0.5 * math.sqrt(15))
    t = release.tunables
    tau = 1 / (2 * p.loss.lipschitz * math.sqrt(15) / (t.reach * N * t.strength) + 0.01 / 4)
    assert t.tau == pytest.approx(tau)
    assert release.cost["memory_bytes"] == 8 * N * 6
    assert release.cost["noise_draws"] == t.T * 15


def test_d_is_the_number_of_features_in_the_spec_and_of_weights_in_the_options():
    """A radius is a number of the analysis, an option stands for a formula of the card."""
    (release,) = compiled(over="ball(l2, sqrt(d))", by="dp-gd with T = d").releases
    p = release.problem
    assert p.facts["w_radius"] == pytest.approx(math.sqrt(5))
    assert constraint_set(p.task.over, p.facts).radius == pytest.approx(math.sqrt(5))
    assert release.tunables.T == 15


def test_a_margin_loss_counts_its_features():
    p = compiled(loss="logistic", labels="{-1, 1} by map(-1 -> -1, 1 -> 1)", over="ball(l2, sqrt(d))").releases[0].problem
    assert (p.d, p.shape, p.facts["features"]) == (5, (5,), 5)
    assert p.loss.at_zero == pytest.approx(math.log(2))
    twice = compiled(loss="2*logistic", labels="{-1, 1} by map(-1 -> -1, 1 -> 1)").releases[0].problem
    assert twice.loss.at_zero == pytest.approx(2 * math.log(2))


# --------------------------------------------------------------------------------------------------------- what is refused


def test_objective_perturbation_refuses_and_says_why():
    for budget in ("epsilon = 1, delta = 1e-5", "epsilon = 1"):
        draft = compiled(by="objective-perturbation", budget=budget)
        (d,) = [d for d in draft.diagnostics if d.severity == "error"]
        assert d.code == "DP407"
        assert "turn with the weights" in d.message
        assert not isinstance(draft.releases[0], Chosen)


def test_its_proof_does_fail_for_this_loss():
    """The determinants' ratio in both proofs is 1 + B/(n Lambda) for Hessians of rank one. One record's Hessian here has rank K - 1, and
    at z = 0 the ratio is (1 + 1/(K n Lambda))^(K - 1), beyond the claimed 1 + 1/(2 n Lambda) from K = 4 on."""
    classes, spread = 10, 1.0  # n Lambda
    curve = np.eye(classes) / classes - np.full((classes, classes), 1 / classes**2)
    ratio = np.linalg.det(spread * np.eye(classes) + curve) / spread**classes
    assert ratio == pytest.approx((1 + 1 / (classes * spread)) ** (classes - 1))
    assert ratio > 1 + 0.5 / spread


def test_algorithms_for_one_margin_refuse():
    """Every algorithm for this task either says that it serves several margins or is refused, with a reason, before it plans a draw."""
    from dpspec.algorithms.registry import all_modules

    for module in all_modules():
        card = module.CARD
        if card.task != "minimise" or card.role != "algorithm" or card.margins == "several":
            continue
        budget = DEFAULTS["budget"] if "approx" in card.guarantees else "epsilon = 1"
        text = SPEC.replace("privacy central", f"assume\n  sparse(2)\n  moment(order 2, bound 1)\n\nprivacy {card.models[0]}").format(
            **{**DEFAULTS, "over": "ball(l2, 1)", "by": card.id, "budget": budget}
        )
        for d in (5, 1):  # what many dimensions alone would refuse is asked again in few
            draft = compile_draft(parse_text(text.replace("d = 5", f"d = {d}"), surface="dps"))
            errors = [e for e in draft.diagnostics if e.severity == "error"]
            assert [e.code for e in errors] == ["DP407"], card.id
            assert not isinstance(draft.releases[0], Chosen)
            if any(words in errors[0].message for words in ONE_MARGIN):
                break
        else:
            pytest.fail(f"{card.id}: {errors[0].message}")


#: How an algorithm says that a loss of several margins is not its own.
ONE_MARGIN = ("margin", "turn with the weights", "least squares", "<w, x>", "linear in y", "not the hinge")


def test_auto_never_takes_one_that_refuses():
    for over in ("R^d", "ball(l2, 1)", "ball(l1, 1)", "box(-1, 1)"):
        release = compiled(by="auto", over=over).releases[0]
        assert release.module.CARD.margins == "several"
        assert "objective-perturbation" in {c.id for c in release.candidates if not c.eligible}


def test_labels_and_sets_are_told_at_their_place():
    assert ("DP220", 8, 3) in found(compiled(labels="{0, 1, 2}"))  # declared only
    assert ("DP220", 8, 3) in found(compiled(labels="{1, 2, 3} by map(1 -> 1, 2 -> 2, 3 -> 3)"))
    assert ("DP220", 8, 3) in found(compiled(labels="[0, 2] by clip"))
    assert ("DP221", 14, 47) in found(compiled(over="simplex"))
    assert ("DP221", 14, 47) in found(compiled(over="sparse(2)"))
    assert "DP216" in {code for code, _, _ in found(compiled(loss="multinomial(1)"))}
    assert "DP407" in {code for code, _, _ in found(compiled(loss="multinomial(3) + group(w, 5)"))}


# ---------------------------------------------------------------------------------------------------------------- runs


def test_both_surfaces_and_a_named_number_of_classes():
    text = SPEC.format(**{**DEFAULTS, "loss": "multinomial(classes)"}).replace("d = 5\n", "d = 5, classes = 3\n")
    analysis = parse_text(text, surface="dps").analysis
    assert parse_text(to_yaml(analysis), surface="yaml").analysis == analysis
    assert parse_text(to_dps(analysis), surface="dps").analysis == analysis
    assert compile_draft(parse_text(text, surface="dps")).releases[0].problem.shape == (3, 5)


@pytest.fixture(scope="module")
def records():
    """Three sectors of the plane: nearly separable."""
    g = np.random.default_rng(0)
    x = g.normal(size=(N, D))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return x, np.argmax(x[:, :3], axis=1).astype(float)


def test_the_released_array_is_a_matrix_that_classifies(records):
    x, y = records
    plan = make_plan(parsed(loss="multinomial(3) + 0.001/2*|w|^2", budget="epsilon = 8, delta = 1e-5"), check=False)
    record = run(plan, x, y)
    w = record.outputs["weights"]["theta"]
    assert w.shape == (3, 5)
    assert np.mean(np.argmax(x @ w.T, axis=1) == y) > 0.85
    assert record.body["events"][0]["count"] == plan.releases[0].tunables.T
    assert "3" in repr(record)


def test_labels_outside_the_classes_become_class_0(records):
    x, y = records
    wild = y.copy()
    wild[:5] = [7.0, -1.0, 0.5, 1e300, np.nan]
    plan = make_plan(parsed(), check=False)
    with pytest.raises(Exception, match=r"NaN|finite|missing"):
        run(plan, x, wild)
    wild[4] = 2.0
    assert run(plan, x, wild).outputs["weights"]["theta"].shape == (3, 5)


def test_a_study_measures_the_excess_risk_against_the_reference():
    body = study(parsed(n=2000), trials=3, workers=1).to_json()
    (point,) = body["points"]
    assert point["error"]["measure"] == "excess-empirical-risk"
    assert 0 <= point["error"]["mean"] < 0.1
    assert all(v >= -1e-9 for v in point["error"]["values"])


def test_the_explicit_bound_of_gradient_descent_holds():
    body = study(parsed(over="ball(l2, 2)", loss="multinomial(3)"), trials=8, workers=1).to_json()
    (point,) = body["points"]
    assert point["bound"]["holds"] is True
    assert point["error"]["mean"] <= point["bound"]["value"] < math.log(3)


def test_a_vector_of_the_law_is_not_the_target_of_a_matrix():
    """theta has d numbers and the weights K*d: distances are from the non-private weights."""
    analysis = parsed(n=2000, by="dp-gd\n  expect l2-error <= 9").analysis
    laws = parse_text(
        SPEC.format(**DEFAULTS).replace("  a = dense", "  theta = dense").replace("<a, x>", "<theta, x>"), surface="dps"
    ).analysis
    body = study(replace(parsed(), analysis=analysis.model_copy(update={"simulate": laws.simulate})), trials=2, workers=1).to_json()
    (point,) = body["points"]
    assert point["error"]["measure"] == "l2-error"
    assert 0 < point["error"]["mean"] < 9


def test_label_error_counts_the_largest_margin():
    from types import SimpleNamespace

    from dpspec.data.records import Records
    from dpspec.measures.risk import LABEL_ERROR

    w = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])
    r = Records(np.array([[2.0, 1.0], [1.0, 2.0], [-1.0, -1.0], [3.0, 0.0]]), np.array([0.0, 1.0, 2.0, 1.0]))
    trial = SimpleNamespace(records=r, problem=SimpleNamespace(loss=SimpleNamespace(classes=3)))
    assert LABEL_ERROR.of(w.ravel(), trial) == 0.25


def test_a_shared_reason_is_said_once_and_its_repair_fits():
    """Group terms are refused for several classes, so no repair may offer them."""
    (error,) = [d for d in compiled(loss="multinomial(3) + 0.1*group(w, 2)", by="auto").diagnostics if d.severity == "error"]
    assert error.code == "DP401"
    assert error.message.count("the loss has a term without x and y") == 1
    assert "group" not in error.help


def test_a_repair_belongs_to_the_reason_that_refuses_the_most():
    """A concave term: no declared constant makes that loss convex, so none is asked for."""
    changes = {"labels": "{-1, 1} by map(-1 -> -1, 1 -> 1)", "loss": "logistic - 0.05*group(w, 2)", "by": "auto"}
    (error,) = [d for d in compiled(**changes).diagnostics if d.severity == "error"]
    assert error.code == "DP401"
    assert error.message.count("not proved convex in w") == 1
    assert "w_l1" not in error.help
