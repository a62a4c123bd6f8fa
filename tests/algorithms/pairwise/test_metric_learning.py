"""Metric learning: constants against search, gradients against one pair after the other, the cone, movements of both kinds of method, and
the words of the language for losses of two records."""

from __future__ import annotations

import math
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dpspec.algorithms.pairwise import off_pair_c, on_pair_c
from dpspec.algorithms.sets import ConstraintSet, project_semidefinite
from dpspec.data.records import Records
from dpspec.domains.domain import finite
from dpspec.executor.bind import bound_problem
from dpspec.lang.source import parse_expr
from dpspec.spec.expr import Num
from dpspec.spec.model import Ball
from dpspec.symbolic.certify import certify
from dpspec.tasks import minimise_metric as task
from tests.algorithms.pairwise.streams import Fed
from tests.algorithms.pairwise.test_off_pair_c import Handed, drafted, sample


def certificate(loss: str, radius: Any = 2, d: int = 3, pairwise: bool = True, over: Any = None, y: Any = None) -> Any:
    set_ = Ball(norm="l2", radius=Num(Fraction(radius))) if over is None else over
    x = Ball(norm="l2", radius=Num(Fraction(1)))
    return certify(
        parse_expr(loss), over=set_, x=x, y=finite(Fraction(-1), Fraction(1)) if y is None else y, names={"d": d}, pairwise=pairwise
    )


def bound(algorithm: str, **spec: Any) -> tuple[Any, Any, Any]:
    draft = drafted(algorithm=algorithm, **{"loss": "metric-logistic", "d": 3, "n": 300, **spec})
    release = draft.releases[0]
    assert release.module.CARD.id == algorithm, [e.message for e in draft.diagnostics]
    return bound_problem(draft, release), release.tunables, release.calibrated


def slope(t: float, b: float, sign: float) -> float:
    """d/du log(1 + exp(-sign (b - u))) at u = ``t``."""
    return sign / (1 + math.exp(sign * (b - t)))


def test_no_pair_has_a_longer_gradient_and_the_ends_are_reached() -> None:
    """W = r e e^T and records at both ends of e have u = 4 r, the largest; equal ones u = 0."""
    r, b = 2.0, 1.0
    proved = certificate("metric-logistic", 2)
    longest = max(abs(slope(4 * r, b, 1)), abs(slope(0.0, b, -1))) * 4
    assert longest <= proved.lipschitz <= longest * (1 + 1e-9)
    assert proved.smooth == 4.0  # 1/4 of |v|^4 = 16
    rng = np.random.default_rng(0)
    for _ in range(2000):
        v = rng.normal(size=3)
        v *= 2 * rng.random() / np.linalg.norm(v)
        a = rng.normal(size=(3, 3))
        W = a @ a.T * (r / np.linalg.norm(a @ a.T))
        length = abs(slope(float(v @ W @ v), b, float(rng.choice([-1, 1])))) * float(v @ v)
        assert length <= proved.lipschitz


def test_pairs_that_share_a_record_are_no_further_apart_than_proved() -> None:
    """Searched over labels, records and matrices. Two pairs of two signs and one margin have slopes that add up to 1: what is proved takes
    each slope at its own worst margin."""
    r, b = 0.5, 1.0
    proved = certificate("metric-logistic", Fraction(1, 2))
    rng, most = np.random.default_rng(1), 0.0
    for k in range(4000):
        x1 = rng.normal(size=2)
        x1 /= np.linalg.norm(x1)
        x2, x3 = (-x1, -x1) if k % 4 == 0 else rng.normal(size=(2, 2))
        x2, x3 = (x / max(1.0, float(np.linalg.norm(x))) for x in (x2, x3))
        v, w = x1 - x2, x1 - x3
        W = r * rng.random() * np.outer(x1, x1)
        s, t = rng.choice([-1, 1], 2)
        gap = slope(float(v @ W @ v), b, s) * np.outer(v, v) - slope(float(w @ W @ w), b, t) * np.outer(w, w)
        most = max(most, float(np.linalg.norm(gap)))
    assert most <= proved.spread
    assert most >= 4.0
    assert most >= 0.65 * proved.spread
    agree = 4 * math.sqrt(2) / (1 + math.exp(b - 4 * r))
    assert proved.spread >= agree  # pairs of one sign, orthogonal


@pytest.mark.parametrize("name", ["metric-logistic", "metric-hinge"])
def test_values_and_gradients_are_those_of_one_pair_after_the_other(name: str) -> None:
    rng = np.random.default_rng(2)
    n, d = 40, 3
    x, y = rng.normal(size=(n, d)), rng.choice([-1.0, 1.0], n)
    f = task.MetricObjective(name, 0.5, 2.0, ConstraintSet("semidefinite", radius=2.0), l2=0.1)
    a = rng.normal(size=(d, d)) / 4
    W = a @ a.T
    total, gradient = 0.0, np.zeros((d, d))
    for i in range(n):
        for j in range(n):
            if i != j:
                v = x[i] - x[j]
                t = y[i] * y[j] * (0.5 - v @ W @ v)
                total += 2 * (math.log1p(math.exp(-t)) if name == "metric-logistic" else max(0.0, 1 - t))
                steep = 1 / (1 + math.exp(t)) if name == "metric-logistic" else float(t < 1)
                gradient += 2 * y[i] * y[j] * steep * np.outer(v, v)
    records = Records(x, y)
    assert f.value(W.ravel(), records) == pytest.approx(total / (n * (n - 1)) + 0.05 * (W * W).sum(), rel=1e-12)
    assert np.allclose(f.gradient(W.ravel(), records), (gradient / (n * (n - 1)) + 0.1 * W).ravel(), rtol=1e-10, atol=1e-13)
    come = f.arriving(records)
    single = sum(come.gradient(W.ravel(), k) for k in range(10, 20)) / 10
    assert np.allclose(come.against_earlier(W.ravel(), slice(10, 20)), single, atol=1e-12)
    held = np.array([3, 3, 8])
    each = np.mean([_pair(f, W, x[k], x[i], y[k], y[i]) for k in range(20, 24) for i in held], axis=0)
    assert np.allclose(come.against(W.ravel(), slice(20, 24), held), each, atol=1e-12)


def _pair(f: Any, W: np.ndarray, x: np.ndarray, z: np.ndarray, a: float, b: float) -> np.ndarray:
    s = f.slopes(W.ravel(), x[None], z[None], np.array([a]), np.array([b]))[0, 0]
    return np.asarray(s * np.outer(x - z, x - z).ravel())


def test_the_projection_is_the_nearest_matrix() -> None:
    """<v - p, q - p> <= 0 for every q of the set, which says that p is nearest."""
    rng = np.random.default_rng(3)
    for _ in range(200):
        d, r = int(rng.integers(1, 6)), float(rng.random() * 3)
        v = rng.normal(size=d * d) * 10.0 ** rng.integers(-3, 4)
        p = project_semidefinite(v, r)
        P = p.reshape(d, d)
        assert (P == P.T).all()
        assert np.linalg.eigvalsh(P).min() >= -1e-12 * max(1.0, r)
        assert np.linalg.norm(p) <= r * (1 + 1e-12)
        a = rng.normal(size=(d, d))
        q = a @ a.T
        q = (q * (r * rng.random() / np.linalg.norm(q))).ravel()
        assert (v - p) @ (q - p) <= 1e-9 * max(1.0, float(np.abs(v).max()))


@pytest.mark.parametrize("size", [5e-324, 1e-300, 1e300, 1.7e308, math.inf, math.nan])
def test_the_projection_stands_every_magnitude(size: float) -> None:
    v = np.array([size, -size, size, 1.0])
    p = project_semidefinite(v, 1.0)
    assert np.isfinite(p).all()
    assert np.linalg.norm(p) <= 1 + 1e-12


def test_eigenvectors_round_within_what_the_sensitivity_counts() -> None:
    """Against the exact projection of matrices whose eigenvectors are known: v = Q diag Q^T of Householder reflections."""
    from dpspec.algorithms.sets import EIGEN

    rng, most = np.random.default_rng(4), 0.0
    for d in (2, 5, 12):
        for _ in range(60):
            h = rng.integers(-3, 4, size=d).astype(float)
            if not h.any():
                continue
            q = np.eye(d) - 2 * np.outer(h, h) / (h @ h)
            values = rng.choice([-4.0, -1e-9, 1e-9, 1.0, 1.0, 8.0], d)
            exact, whole = (q * np.maximum(values, 0)) @ q.T, (q * values) @ q.T
            off = np.linalg.norm(project_semidefinite(whole.ravel(), 1e6) - exact.ravel()) / np.linalg.norm(whole)
            most = max(most, float(off) / (EIGEN * d * d * 2.0**-53))
    assert most < 1


def test_a_record_moves_the_offline_answer_by_no_more_than_stated() -> None:
    p, t, _ = bound("off-pair-c", n=60, d=2)
    stated = off_pair_c.sensitivity(p, t)
    most = 0.0
    c = off_pair_c.chain(p, t)
    ends = [(np.array([1.0, 0.0]), 1.0), (np.array([-1.0, 0.0]), -1.0), (np.array([0.0, 0.0]), 1.0), (np.array([0.0, 1.0]), -1.0)]
    for rest, label in ends[:2]:
        for place in (c.begin, c.begin + 1, 59):
            seen = []
            for own, sign in ends:
                x, y = np.tile(-rest, (60, 1)), np.full(60, label)
                x[place], y[place] = own, sign
                release = Handed()
                off_pair_c.run(Records(x, y), p, t, release)  # type: ignore[arg-type]
                seen.append(release.seen[0])
            most = max(most, *(float(np.linalg.norm(a - b)) for a in seen for b in seen))
    assert most <= stated
    assert most >= 0.2 * stated


@pytest.mark.parametrize("loss", ["metric-logistic", "metric-hinge"])
def test_a_record_moves_no_transcript_further_than_stated(loss: str) -> None:
    """Every gradient at the same released points, of records at opposite ends among equal ones of the other label."""
    p, t, _ = bound("on-pair-c", n=80, d=2, loss=loss, online=", online")
    answers, most = np.random.default_rng(5).normal(size=(200, 4)), 0.0
    for place in (0, 40, 79):
        seen = []
        for own, label in (((1.0, 0.0), 1.0), ((-1.0, 0.0), -1.0), ((1.0, 0.0), -1.0)):
            x, y = np.tile([-1.0, 0.0], (80, 1)), np.ones(80)
            x[place], y[place] = own, label
            fed = Fed(answers)
            on_pair_c.run(Records(x, y), p, t, fed)  # type: ignore[arg-type]
            seen.append(np.concatenate(fed.seen))
        most = max(most, *(float(np.linalg.norm(a - b)) for a in seen for b in seen))
    assert most <= on_pair_c.sensitivity(p, t)
    assert most >= 0.2 * on_pair_c.sensitivity(p, t)


def test_what_is_released_is_a_matrix_of_the_set() -> None:
    p, t, _ = bound("off-pair-c", n=100)
    assert p.shape == (3, 3)
    assert p.d == 9
    release = Handed(seed=1)
    release.draw = lambda name, value, *, sensitivity: value + 5.0 * np.random.default_rng(0).normal(size=9)  # type: ignore[method-assign]
    w = off_pair_c.run(sample(100, 3), p, t, release).theta.reshape(3, 3)  # type: ignore[arg-type]
    assert (w == w.T).all()
    assert np.linalg.eigvalsh(w).min() >= -1e-12
    assert np.linalg.norm(w) <= 1 + 1e-12


def test_the_neighbours_are_those_of_the_metric() -> None:
    """Against all distances, one after the other."""
    rng = np.random.default_rng(6)
    x, y = rng.normal(size=(60, 3)), rng.choice([-1.0, 1.0], 60)
    W = np.diag([4.0, 1.0, 0.0])
    wrong = 0
    for i in range(60):
        far = sorted((float((x[i] - x[j]) @ W @ (x[i] - x[j])), j) for j in range(60) if j != i)
        wrong += np.sign(sum(y[j] for _, j in far[:3])) != y[i]
    trial: Any = SimpleNamespace(records=Records(x, y))
    assert task.neighbour_error(W.ravel(), trial) == pytest.approx(wrong / 60)


# ------------------------------------------------------------------------------------------------------------------- words


@pytest.mark.parametrize(
    ("word", "written"),
    [
        ("auc", "log(1 + exp(-(y1 - y2)*<w, x1 - x2>))"),
        ("logistic", "log(1 + exp(-(y1 - y2)*<w, x1 - x2>))"),
        ("squared-hinge", "max(0, 1 - (y1 - y2)*<w, x1 - x2>)^2"),
        ("ranking", "1/2*(<w, x1 - x2> - (y1 - y2))^2"),
        ("huber(1)", "huber(1)"),
        ("minimum-error-entropy(1/2)", "1/4*(1 - exp(-2*(<w, x1 - x2> - (y1 - y2))^2))"),
    ],
)
def test_a_word_is_the_loss_of_the_differences(word: str, written: str) -> None:
    a, b = certificate(word, 1), certificate(written, 1)
    assert a.form == b.form
    assert (a.lipschitz, a.smooth, a.spread, a.data_convex) == (b.lipschitz, b.smooth, b.spread, b.data_convex)
    assert math.isfinite(a.lipschitz)
    assert "y1" in str(a.form)  # the labels are read


@pytest.mark.parametrize("word", ["auc", "ranking", "minimum-error-entropy", "metric", "metric-hinge"])
def test_a_loss_of_two_records_is_refused_for_one(word: str) -> None:
    (found,) = certificate(word, 1, pairwise=False).findings
    assert found.code == "DP216"
    assert f"minimise pairwise {word}" in found.message


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"loss": "metric-logistic + 0.1*|w|_1"}, "DP200"),
        ({"loss": "metric-logistic^2"}, "DP200"),
        ({"loss": "metric-logistic + <w, x1 - x2>"}, "DP200"),
        ({"loss": "metric-logistic(0)"}, "DP216"),
        ({"over": Ball(norm="l1", radius=Num(Fraction(1)))}, "DP221"),
        ({"y": finite(0, 1)}, "DP220"),
    ],
)
def test_what_a_metric_cannot_be_is_refused(change: dict[str, Any], code: str) -> None:
    found = certificate(**{"loss": "metric-logistic", **change})
    assert not found.ok
    assert found.findings[0].code == code


def test_a_loss_that_is_not_convex_is_served_online_and_not_offline() -> None:
    online = drafted(loss="minimum-error-entropy", algorithm="on-pair-c", online=", online").releases[0]
    assert online.module is on_pair_c
    assert not online.certificate.data_convex
    draft = drafted(loss="minimum-error-entropy", algorithm="off-pair-c")
    assert any("not proved convex" in e.message for e in draft.diagnostics)


@pytest.mark.slow
def test_it_learns_the_direction_that_tells_labels_apart() -> None:
    """Without noise, the largest entry of W is that of the coordinate that labels follow, and neighbours agree more often than in the
    metric that weighs all coordinates alike."""
    rng = np.random.default_rng(7)
    x = rng.uniform(-1, 1, size=(400, 3)) / math.sqrt(3)
    y = np.sign(x[:, 0])
    f = task.MetricObjective("metric-logistic", 1.0, 1.0, ConstraintSet("semidefinite", radius=4.0))
    w, _ = task.reference(Records(x, y), SimpleNamespace(oracle=f), {})  # type: ignore[arg-type]
    W = w.reshape(3, 3)
    assert W[0, 0] > 5 * max(W[1, 1], W[2, 2])
    trial: Any = SimpleNamespace(records=Records(x, y))
    assert task.neighbour_error(w, trial) <= 0.5 * task.neighbour_error(np.eye(3).ravel(), trial)
