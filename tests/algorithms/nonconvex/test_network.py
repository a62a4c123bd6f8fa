"""Networks as objectives: derivatives by differences, what one record can move, and what is refused by name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import dpspec
from dpspec.algorithms import second_order
from dpspec.algorithms.gradients import mean_sensitivity
from dpspec.compiler.passes import compile_draft
from dpspec.data.records import Records
from dpspec.executor.bind import bound_problem
from dpspec.executor.study import study
from dpspec.lang.source import parse_text
from tests.cli.call import call

SPEC = """
analysis "t"
data
  n = {n}, d = 2
  from memory
  private, unit person, neighbours replace-one
  x in ball(l2, 1) by scale
  y in [-1, 1] by clip
privacy central
  epsilon = 1, delta = 1e-6
release weights
  minimise {loss} over {over}
  by {by}
  expect {measure} <= 10
"""
OUTPUTS = "(v1*tanh(<w1, x>) + v2*tanh(<w2, x>) - y)^2/2"
COMMITTEE = "(tanh(<w1, x>) + tanh(<w2, x>) - y)^2/2 + 0.05*|w|^2"


def draft(loss=OUTPUTS, over="ball(l2, 1)", by="dp-pgd-nonconvex", n=300, measure="gradient-norm"):
    words = {"loss": loss, "over": over, "by": by, "n": str(n), "measure": measure}
    text = SPEC
    for word, value in words.items():
        text = text.replace("{" + word + "}", value)
    return compile_draft(parse_text(text, surface="dps"))


def bound(loss, over, by="dp-pgd-nonconvex", n=300):
    d = draft(loss, over, by, n)
    return bound_problem(d, d.releases[0])


def records(n=300, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 2))
    return Records(x / np.maximum(1.0, np.linalg.norm(x, axis=1))[:, None], rng.uniform(-1, 1, n))


def test_what_is_released_has_a_row_a_unit():
    d = draft()
    assert [x.code for x in d.diagnostics if x.severity == "error"] == []
    assert d.releases[0].problem.d == 6
    assert d.releases[0].problem.shape == (2, 3)


@pytest.mark.parametrize(
    ("by", "over", "measure", "words"),
    [
        ("exponential-mechanism-net", "ball(l2, 1)", "gradient-norm", "one a hidden unit"),
        ("dp-gd", "ball(l2, 1)", "gradient-norm", "convex"),
        ("dp-pgd-nonconvex", "ball(l2, 1)", "label-error", "change places"),
        ("dp-pgd-nonconvex", "simplex", "gradient-norm", "weights of a network"),
        ("dp-pgd-nonconvex", "R^d", "gradient-norm", "output weights are unbounded"),
    ],
)
def test_what_networks_do_not_have_is_refused_by_name(by, over, measure, words):
    found = draft(over=over, by=by, measure=measure)
    texts = [x.message for x in found.diagnostics]
    assert any(words in t for t in texts), texts
    assert any(x.severity == "error" for x in found.diagnostics)


CASES = [(OUTPUTS, "ball(l2, 1)"), (COMMITTEE, "R^d")]


@pytest.mark.parametrize(("loss", "over"), CASES)
def test_gradients_hessians_and_products_are_derivatives_of_the_value(loss, over):
    """By differences; the constants of the certificate hold everywhere, so nothing is cut here."""
    p, r = bound(loss, over), records()
    f, rng, h = p.objective, np.random.default_rng(1), 1e-5
    w = 0.3 * rng.standard_normal(p.d)
    g, H = f.data_gradient(w, r), f.data_hessian(w, r)
    for i, e in enumerate(np.eye(p.d) * h):
        assert g[i] == pytest.approx((f.data_value(w + e, r) - f.data_value(w - e, r)) / (2 * h), abs=1e-9)
        assert H[i] == pytest.approx((f.data_gradient(w + e, r) - f.data_gradient(w - e, r)) / (2 * h), abs=1e-8)
    v = rng.standard_normal(p.d)
    assert second_order.product(r, p, w, v) == pytest.approx(H @ v, rel=1e-10)
    assert second_order.mean_hessian(r, p, w) == pytest.approx(H, rel=1e-12)
    assert f.gradients(w, r.x, r.y).mean(axis=0) == pytest.approx(g, rel=1e-10)


@pytest.mark.parametrize(("loss", "over"), CASES)
def test_one_record_moves_gradient_and_hessian_by_no_more_than_their_sensitivities(loss, over):
    p = bound(loss, over, n=1)
    rng, most, bent, lowest = np.random.default_rng(2), 0.0, 0.0, 0.0
    for _ in range(150):
        w = rng.standard_normal(p.d)
        w *= rng.random() ** 0.2 / np.linalg.norm(w)
        one, other = records(1, int(rng.integers(1 << 30))), records(1, int(rng.integers(1 << 30)))
        one, other = (Records(v.x / np.linalg.norm(v.x), np.sign(v.y)) for v in (one, other))
        most = max(most, float(np.linalg.norm(p.objective.data_gradient(w, one) - p.objective.data_gradient(w, other))))
        A, B = (second_order.mean_hessian(v, p, w) for v in (one, other))
        bent = max(bent, float(np.linalg.norm(A - B)))
        lowest = max(lowest, abs(float(np.linalg.eigvalsh(A)[0] - np.linalg.eigvalsh(B)[0])))
    assert 0.2 * mean_sensitivity(p) <= most <= mean_sensitivity(p)
    assert bent <= second_order.sensitivity(p)
    assert lowest <= second_order.eigenvalue_sensitivity(p)


@pytest.mark.parametrize(("loss", "over"), CASES)
def test_a_hostile_expression_cannot_leave_the_certified_norms(loss, over):
    """Slopes and second derivatives that doubles make far too large, or no number, are cut record by record."""
    p, r = bound(loss, over, n=3), records(3)
    for value in (1e300, np.inf, np.nan, -5.0):
        f = replace(
            p.objective,
            slope=lambda z, y, value=value: np.full((len(z), len(y)), value),
            curvature=lambda z, y, value=value: np.full((len(z), len(z), len(y)), value),
        )
        w = np.full(p.d, 0.1)
        lengths = np.linalg.norm(f.gradients(w, r.x, r.y), axis=1)
        assert (lengths <= p.loss.lipschitz).all()
        assert np.linalg.norm(f.data_gradient(w, r)) <= p.loss.lipschitz
        assert np.linalg.norm(f.data_hessian(w, r)) <= p.loss.frobenius


def test_sparse_records_and_hidden_sizes_give_the_same_gradient():
    from scipy.sparse import csr_matrix

    p, r = bound(*CASES[0]), records(50)
    w = np.linspace(-0.4, 0.4, p.d)
    dense = p.objective.data_gradient(w, r)
    assert p.objective.data_gradient(w, Records(csr_matrix(r.x), r.y)) == pytest.approx(dense, rel=1e-12)
    assert replace(p.objective, alone=True).data_gradient(w, r) == pytest.approx(dense, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("by", ["dp-gd-sosp with T = 20", "dp-tr with T = 5", "dp-gd-so with T = 3"])
def test_second_order_methods_serve_networks(by):
    over = "ball(l2, 1)" if "dp-gd-so " in by else "R^d"
    measure = "frank-wolfe-gap" if "dp-gd-so " in by else "second-order-stationarity"
    text = SPEC
    for word, value in {"loss": COMMITTEE, "over": over, "by": by, "n": "2000", "measure": measure}.items():
        text = text.replace("{" + word + "}", value)
    text += "\nsimulate\n  theta = dense unit l2\n  x ~ uniform-sphere\n  y = tanh(2*<theta, x>)\n\nstudy\n  trials 2, seed 1\n"
    (point,) = study(parse_text(text, surface="dps"), workers=1).to_json()["points"]
    assert 0 <= point["error"]["mean"] < 10


def test_predictions_of_a_network_are_refused_by_name(tmp_path):
    """What a released network says of a record is an expression that a record does not state: the command says so and writes nothing."""
    given = tmp_path / "spec.dps"
    text = SPEC
    for word, value in {"loss": OUTPUTS, "over": "ball(l2, 1)", "by": "dp-pgd-nonconvex with T = 10", "n": "300"}.items():
        text = text.replace("{" + word + "}", value)
    given.write_text(text.replace("  expect {measure} <= 10\n", ""))
    made = records()
    dpspec.plan(given).run({"x": made.x, "y": made.y}, out=tmp_path / "released")
    np.savetxt(tmp_path / "new.csv", made.x[:3], delimiter=",", header="a,b", comments="")
    found = call("predict", str(tmp_path / "released"), str(tmp_path / "new.csv"), "--out", str(tmp_path / "out.csv"))
    assert found.code == 2
    assert "release 'weights' is of a network: what it predicts is an expression of its margins" in found.stderr
    assert not (tmp_path / "out.csv").exists()
