"""nldp-glm-public: messages in exact arithmetic, the estimator by hand and by an independent fit, and what the document's version costs."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import brentq, minimize
from scipy.special import expit
from scipy.stats import norm

from dpspec.algorithms.card import Problem
from dpspec.algorithms.public_data import _scaled as scaled
from dpspec.algorithms.public_data import nldp_glm_public as module
from dpspec.compiler.passes import compile_draft
from dpspec.data.records import Records
from dpspec.lang.source import parse_text
from dpspec.privacy.calibrate import Budget
from dpspec.privacy.schedule import draws
from dpspec.spec.expr import Name
from dpspec.spec.model import EstimateTheta
from tests import leak
from tests.algorithms.support import Silent, plan, study, tunables

BUDGET = Budget(epsilon="1", delta="0.00001")
BINARY = {"y_low": 0.0, "y_high": 1.0, "y_abs": 1.0}
SIGNS = {"y_low": -1.0, "y_high": 1.0, "y_abs": 1.0}
COUNTS = {"y_low": 0.0, "y_high": 20.0, "y_abs": 20.0}


def problem(n: int, d: int, link: str = "logistic", *, m: int = 500, **facts: float) -> Problem:
    known = {"n": n, "d": d, "m": m, "epsilon": 1.0, "delta": 1e-5, "x_l2": 1.0, **BINARY}
    return Problem("nldp", "replace-one", EstimateTheta(form="glm", link=Name(link)), {**known, **facts}, modifiers=frozenset({"public"}))


def exact_delta(epsilon: float, mu: float) -> float:
    return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))


def law(n: int, theta: np.ndarray, draw, m: int, seed: int = 0) -> Records:
    """Spherical x of radius about sqrt(d), responses by ``draw(generator, margins)``, and public x."""
    g = np.random.default_rng(seed)
    x = g.normal(size=(n + m, theta.size))
    return Records(x[:n], draw(g, x[:n] @ theta), x[n:])


def labels(g, u):
    return (g.random(u.size) < expit(u)).astype(float)


# ------------------------------------------------------------------------------------------------------------------ privacy


NASTY = [0.0, 5e-324, -1e-170, 0.6, -2.0, 1e154, -1.7e308, math.inf, math.nan]


def test_no_record_moves_a_message_by_more_than_its_sensitivity():
    """Both clipped statistics over all pairs of hostile records, in exact fractions: at most sqrt(2) r^2 and 2 r tau, and attained."""
    p = problem(10, 2)
    t = tunables(module, p, moment="private", r=2)
    planned = {name: leaf.draw.mechanism for name, leaf in draws(module.schedule(p, t)).items()}
    assert planned["moment"].sensitivity == pytest.approx(math.sqrt(2) * 4)
    assert planned["xy"].sensitivity == pytest.approx(2 * 2 * 0.5)
    sent: dict[str, list[list[Fraction]]] = {"moment": [], "xy": []}
    for a, b, y in itertools.product([*NASTY, 2.0], [*NASTY, 2.0], [0.0, 1.0, 1e308, math.nan]):
        ((x, centred),) = scaled.blocks(Records(np.array([[a, b]]), np.array([y])), t.y0)
        for name, values in sent.items():
            values.append([Fraction(float(v)) for v in planned[name].encode((x, centred), 1.0, NoNoise())[0]])
    for name, values in sent.items():
        distinct = {tuple(v) for v in values}
        largest = max(sum((s - r) ** 2 for s, r in zip(u, v, strict=True)) for u in distinct for v in distinct)
        stated = Fraction(planned[name].sensitivity)
        assert largest <= stated**2
        assert largest >= (Fraction(999, 1000) * stated) ** 2
    far = np.array([6.0, 8.0])  # as printed nothing is clipped: a record of length 10 against 0, noise for |x| <= r = 2
    leak.moved(float(np.linalg.norm(np.outer(far, far))), math.sqrt(2) * 4)


class NoNoise:
    def add_gaussian(self, x, scale, *, sensitivity, dim):
        return x


@pytest.mark.parametrize("moment", ["private", "public"])
def test_the_messages_together_spend_the_budget_exactly(moment):
    p = problem(1000, 3)
    t = tunables(module, p, moment=moment)
    c = plan(module, p, t, BUDGET)
    mu = math.hypot(*(leaf.draw.mechanism.sensitivity / c.scale(name) for name, leaf in draws(c.tree).items()))
    assert exact_delta(1.0, mu) == pytest.approx(1e-5, rel=1e-3)
    assert exact_delta(1.0, mu) <= 1e-5 * (1 + 1e-9)


def test_private_records_enter_through_the_two_messages_alone():
    """Records that the messages cannot tell apart give one estimate, bit by bit: the server reads nothing else of them."""
    p = problem(3, 2)
    t = tunables(module, p, moment="private")
    c = plan(module, p, t, BUDGET)
    public = np.random.default_rng(1).normal(size=(50, 2))
    near = Records(np.array([[3.0, 0.0], [0.0, 0.1], [0.6, 0.8]]), np.array([5.0, 0.0, 1.0]), public)
    far = Records(np.array([[1e9, 0.0], [0.0, 0.1], [0.6, 0.8]]), np.array([1e9, -3.0, 1.0]), public)
    one, other = (study(module, r, p, t, c, 3, per_user=True) for r in (near, far))
    assert np.array_equal(one.theta, other.theta)
    assert dict(one.extras).keys() == dict(other.extras).keys() == {"direction", "scale", "scale_found"}
    moved = Records(near.x, near.y, public[:40])  # the public records are read as they are
    assert not np.array_equal(one.theta, study(module, moved, p, t, c, 3, per_user=True).theta)


SPEC = """
analysis "a"
data
  n = 4, d = 2
  from "{private}" target y
  private, unit person, neighbours replace-one
  x in ball(l2, 1) by scale
  y in {{0, 1}} by map(0 -> 0, 1 -> 1)
privacy nldp
  with public x (m = 4, path "{public}")
  epsilon = 1, delta = 1e-6
release theta
  estimate theta in y ~ glm({link})
  by nldp-glm-public
"""


def test_the_private_file_is_not_taken_for_the_public_one(tmp_path):
    (tmp_path / "a.csv").write_text("u,v,y\n1,2,0\n2,1,1\n0,1,0\n1,0,1\n")
    (tmp_path / "b.csv").write_text("u,v\n1,2\n2,1\n0,3\n4,0\n")
    (tmp_path / "c.csv").symlink_to(tmp_path / "a.csv")
    for public, refused in (("a.csv", True), ("c.csv", True), ("b.csv", False)):
        text = SPEC.format(private="a.csv", public=public, link="logistic")
        draft = compile_draft(parse_text(text, path=str(tmp_path / "s.dps"), surface="dps"))
        assert [d.code for d in draft.diagnostics if d.severity == "error"] == (["DP518"] if refused else [])


# ---------------------------------------------------------------------------------------------------------------- estimator


def test_two_users_by_hand():
    """x = (1, 0), (0, 1), y = 1, 0, y0 = 1/2: A = I/2, b = (1, -1)/4, v = (1, -1)/2, <b, v> = 1/4; of the identity c = 1. The
    logistic score at public u = +-1 is expit(c) - 1/2 = 1/4 at c = log 3. At u = +-1/4 it stays below 1/8: no root, and c is
    where c expit'(c/4) is largest, z tanh(z/2) = 1 with z = c/4."""
    public = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    records = Records(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([1.0, 0.0]), public)
    p = problem(2, 2, "identity", m=3)
    t = tunables(module, p, moment="private")
    got = module.run(records, p, t, Silent(module.schedule(p, t)))
    assert np.allclose(got.extras["direction"], [0.5, -0.5])
    assert np.allclose(got.theta, [0.5, -0.5])
    t = tunables(module, p, moment="public")  # A = diag(1, 2)/3
    assert np.allclose(module.run(records, p, t, Silent(module.schedule(p, t))).theta, [0.75, -0.375])
    p = problem(2, 2, m=3)
    t = tunables(module, p, moment="private")
    got = module.run(Records(records.x, records.y, 2 * public), p, t, Silent(module.schedule(p, t)))
    assert got.extras["scale_found"] == 1
    assert got.extras["scale"] == pytest.approx(math.log(3), rel=1e-9)
    got = module.run(Records(records.x, records.y, public / 2), p, t, Silent(module.schedule(p, t)))
    assert got.extras["scale_found"] == 0
    assert got.extras["scale"] == pytest.approx(4 * brentq(lambda z: z * math.tanh(z / 2) - 1, 0.5, 5), rel=1e-4)


@pytest.mark.parametrize(
    ("link", "draw", "facts"),
    [
        ("logistic", labels, BINARY),
        ("logistic", lambda g, u: 2 * labels(g, u) - 1, SIGNS),
        ("poisson", lambda g, u: g.poisson(np.exp(u)).astype(float), COUNTS),
        ("identity", lambda g, u: u + g.normal(size=u.size) / 3, {"y_low": -20.0, "y_high": 20.0, "y_abs": 20.0}),
    ],
)
@pytest.mark.parametrize("root", ["score", "stein"])
def test_without_noise_it_finds_what_the_maximum_likelihood_finds(link, draw, facts, root):
    """200,000 Gaussian records: within 0.03 of a fit by BFGS on the likelihood written out here, both at |theta| = 0.8."""
    theta = np.array([0.6, -0.4, math.sqrt(0.64 - 0.52)])
    records = law(200_000, theta, draw, 40_000)
    p = problem(200_000, 3, link, m=40_000, x_l2=30.0, **facts)
    t = tunables(module, p, moment="public", root=root)
    got = module.run(records, p, t, Silent(module.schedule(p, t)))
    y = (records.y + 1) / 2 if facts is SIGNS else records.y
    cumulant = {"logistic": lambda u: np.logaddexp(0, u), "poisson": np.exp, "identity": lambda u: u * u / 2}[link]
    mean = {"logistic": expit, "poisson": np.exp, "identity": lambda u: u}[link]

    def loss(w):
        u = records.x @ w
        return np.mean(cumulant(u) - y * u), records.x.T @ (mean(u) - y) / len(y)

    fitted = minimize(loss, np.zeros(3), jac=True, method="BFGS").x
    assert got.extras["scale_found"] == 1
    assert np.linalg.norm(got.theta - fitted) < 0.03
    assert np.linalg.norm(got.theta - theta) < 0.03


def test_the_mean_functions_are_the_derivatives_of_the_likelihoods():
    """Central differences of the cumulants of :mod:`dpspec.symbolic`, whose expressions are written there; every link has one."""
    from dpspec.symbolic.links import GLM_LOSSES, glm_loss
    from dpspec.symbolic.margin import margin_functions

    u, h = np.linspace(-4, 4, 33), 1e-4
    for link in GLM_LOSSES:
        cumulant = margin_functions(glm_loss(link)).value
        zero = np.zeros_like(u)
        mean, slope = module.functions(link)
        assert np.allclose(mean(u), (cumulant(u + h, zero) - cumulant(u - h, zero)) / (2 * h), rtol=1e-6, atol=1e-8)
        assert np.allclose(slope(u), (mean(u + h) - mean(u - h)) / (2 * h), rtol=1e-6, atol=1e-8)


def test_centring_halves_the_noise_of_binary_labels():
    p = problem(1000, 3)
    half, whole = (tunables(module, p, moment="public", **given) for given in ({}, {"y0": 0}))
    assert (half.tau, whole.tau) == (0.5, 1.0)
    scales = [plan(module, p, t, BUDGET).scale("xy") for t in (half, whole)]
    assert scales[1] == pytest.approx(2 * scales[0])


def test_the_moment_comes_from_where_it_is_known_better():
    """The rule against its two sides, measured: the variance of both versions of A v - b, x on a sphere, |v| = tau sqrt(d)/(2 r)."""
    d, tau, r, n = 5, 0.5, 1.0, 10_000_000
    g = np.random.default_rng(2)
    v = np.eye(d)[0] * tau * math.sqrt(d) / (2 * r)
    x = g.normal(size=(100_000, d))
    x *= r / np.linalg.norm(x, axis=1)[:, None]
    sampling = np.sum(np.var(x * (x @ v)[:, None], axis=0))  # of one record
    for m in (30, 300, 3000):
        p = problem(n, d, m=m)
        t = tunables(module, p)
        w, each = t.weight, d / (n * t.strength**2)
        private = each * (2 * r**4 * (v @ v) / w + (2 * r * tau) ** 2 / (1 - w))
        public = each * (2 * r * tau) ** 2 + sampling / m
        assert scaled.public_moment(p, t) == (public <= private), m
    few = problem(1000, 5, m=8)
    assert not scaled.public_moment(few, tunables(module, few))


def test_the_estimate_is_projected_on_its_set_and_the_direction_is_left():
    from dpspec.spec.expr import num
    from dpspec.spec.model import Ball

    theta = np.array([0.8, 0.6])
    records = law(20_000, theta, labels, 5_000)
    task = EstimateTheta(form="glm", link=Name("logistic"), over=Ball(norm="l2", radius=num(0.5)))
    p = problem(20_000, 2, m=5_000, x_l2=30.0)
    p = Problem(p.model, p.neighbours, task, p.facts, modifiers=p.modifiers)
    t = tunables(module, p, moment="public")
    got = module.run(records, p, t, Silent(module.schedule(p, t)))
    assert np.linalg.norm(got.theta) == pytest.approx(0.5)
    assert np.linalg.norm(got.extras["direction"]) * got.extras["scale"] > 0.9


def test_a_run_of_noise_alone_ends_with_an_estimate():
    """Six users, delta 1e-5: the reports are noise. Whatever they are the run ends, and the shapes are the same."""
    p = problem(6, 3)
    t = tunables(module, p, moment="private")
    c = plan(module, p, t, BUDGET)
    g = np.random.default_rng(0)
    for seed in range(20):
        got = study(module, Records(g.normal(size=(6, 3)), np.ones(6), g.normal(size=(200, 3))), p, t, c, seed)
        assert got.theta.shape == (3,)
        assert np.isfinite(got.theta).all()


@pytest.mark.parametrize(
    ("facts", "link", "words"),
    [
        ({}, "cauchit", "known are logistic"),
        (SIGNS, "poisson", "counts are not negative"),
        (COUNTS, "logistic", "labels 0 and 1"),
    ],
)
def test_what_no_model_fits_is_refused_in_words(facts, link, words):
    p = problem(100, 3, link, **facts)
    assert words in str(module.accepts(p, tunables(module, p)))


def test_the_other_needs_are_refused_in_words():
    p = problem(100, 30, m=20)
    assert "cannot give an invertible" in str(module.accepts(p, tunables(module, p, moment="public")))
    bare = Problem("nldp", "replace-one", p.task, p.facts)
    assert "public records" in str(module.accepts(bare, tunables(module, bare)))
    linear = Problem("nldp", "replace-one", EstimateTheta(form="linear"), p.facts, modifiers=p.modifiers)
    assert "not a generalised linear one" in str(module.accepts(linear, tunables(module, linear)))


def test_a_noisy_inverse_is_warned_about():
    p = problem(1000, 5, eig_min=0.05)
    t = tunables(module, p, moment="private")
    assert "moment = public" in module.warnings(p, t, plan(module, p, t, BUDGET))[-1]
    p = problem(100_000, 5, eig_min=0.2)
    t = tunables(module, p, moment="public")
    assert module.warnings(p, t, plan(module, p, t, BUDGET)) == []


# ------------------------------------------------------------------------------------------------------------------- faults


def test_the_printed_noise_spends_less_than_half():
    """mu^2 = (sqrt(2)/c)^2 + (2/c)^2 with c^2 = 32 log(2.5/delta)/epsilon^2, solved by SciPy: 0.43 of a stated 1 at delta 1e-5."""
    p = problem(1000, 3)
    t = tunables(module, p, moment="private", y0=0)
    printed = module.published(p, t, BUDGET)
    c = math.sqrt(32 * math.log(2.5e5))
    spent = brentq(lambda e: exact_delta(e, math.sqrt(6) / c) - 1e-5, 0.01, 5)
    assert spent == pytest.approx(0.43, abs=0.005)
    assert [b.epsilon for b in printed] == pytest.approx([spent, spent], rel=1e-4)
    assert [b.scale for b in printed] == pytest.approx([c, c])


def test_the_noisy_moment_is_indefinite_at_small_n():
    """d = 10, x = +-1/d, n = 290,000, epsilon 10, the printed noise at r = 1: least eigenvalue of the mean far below 0."""
    g = np.random.default_rng(0)
    n, d = 290_000, 10
    scale = math.sqrt(32 * math.log(2.5 * n)) / 10 / math.sqrt(n)
    noise = np.triu(g.normal(size=(d, d))) * scale
    a = np.eye(d) / d**2 + noise + np.triu(noise, 1).T
    assert np.linalg.eigvalsh(a).min() < -0.1 / d**2
    repaired = scaled.shrunk(a, scaled.operator_norm(scale, d))
    assert np.linalg.eigvalsh(repaired).min() > 0
    assert np.linalg.eigvalsh(repaired).max() <= 1 / scaled.operator_norm(scale, d) * (1 + 1e-12)


def test_the_least_eigenvalue_is_at_most_r2_over_d():
    """tr E x x^T = E|x|^2 <= r^2, over laws of all shapes; the isotropic one attains it."""
    g = np.random.default_rng(1)
    d, r = 6, 2.0
    for k in range(20):
        x = g.normal(size=(500, d)) * g.random(d) ** k
        x *= r / np.linalg.norm(x, axis=1).max()
        assert np.linalg.eigvalsh(x.T @ x / 500).min() <= r * r / d
    axes = r * np.eye(d)
    assert np.linalg.eigvalsh(axes.T @ axes / d).min() == pytest.approx(r * r / d)


def test_the_settings_of_the_gallery_beat_the_zero_vector_by_far():
    """n = 40,000, d = 5, epsilon 4, delta 1e-8, radius 4: the mean error of eight runs is below half of |theta| = 1; without noise 0.03."""
    theta = np.ones(5) / math.sqrt(5)
    p = problem(40_000, 5, m=20_000, epsilon=4.0, delta=1e-8, x_l2=4.0, eig_min=0.9)
    t = tunables(module, p)
    c = plan(module, p, t, Budget(epsilon="4", delta="0.00000001"))
    records = law(40_000, theta, labels, 20_000)
    errors = [np.linalg.norm(study(module, records, p, t, c, seed).theta - theta) for seed in range(8)]
    assert np.mean(errors) < 0.5
    assert np.mean(errors) < 2 * module.predicted(p, t, c)
    assert np.mean(errors) > module.predicted(p, t, c) / 4


# ------------------------------------------------------------------------------------------------------- noise that is allowed for


def test_directions_of_noise_are_shrunk_as_the_least_squares_estimate_of_their_prior():
    """Against the posterior mean of v ~ N(0, w^2 I) given b = A v + N(0, s^2 I), solved as a linear system; w^2 = tau^2/(4 tr A)."""
    g = np.random.default_rng(3)
    q = np.linalg.qr(g.normal(size=(4, 4)))[0]
    a = q @ np.diag([3.0, 1.0, 0.1, 1e-6]) @ q.T
    s, tau, b = 0.2, 0.5, g.normal(size=4)
    w2 = tau**2 / (4 * np.trace(a))
    posterior = np.linalg.solve(a @ a / s**2 + np.eye(4) / w2, a @ b / s**2)
    assert np.allclose(scaled.shrunk(a, 0.0, 2 * s / tau) @ b, posterior, rtol=1e-6, atol=1e-9)
    assert np.allclose(scaled.shrunk(a[:2, :2], 0.0), np.linalg.inv(a[:2, :2]))


def test_the_length_allows_for_the_noise_of_the_direction():
    """Identity link, A = I: theta is the positive part of James and Stein's estimate, here of a fixed report, and 0 for a report that is
    no longer than noise."""
    rows = np.concatenate([np.eye(3), -np.eye(3)]) * math.sqrt(3)  # second moment I
    s = 0.3
    for b in (np.array([1.0, 0.5, -0.2]), np.array([0.1, 0.2, 0.0])):
        t = tunables(module, problem(10, 3, "identity", m=6), moment="public")
        energy = float(b @ b - 3 * s**2)
        scale = scaled.scale_of(rows @ b, t, *module.functions("identity"), energy)
        stein = max(0.0, 1 - 3 * s**2 / float(b @ b))
        assert scale.c == pytest.approx(stein, abs=1e-9)
        assert scale.found == (stein > 0)


@pytest.mark.parametrize(("size", "limit"), [(1.0, 1.25), (3.0, 1.1)])
def test_an_estimate_of_noise_is_not_far_worse_than_zero(size, limit):
    """epsilon 0.3, where b is noise alone: without the two corrections the mean error was hundreds of times |theta|."""
    theta = size * np.ones(5) / math.sqrt(5)
    p = problem(20_000, 5, m=5_000, epsilon=0.3, delta=1e-6, x_l2=4.0)
    t = tunables(module, p)
    c = plan(module, p, t, Budget(epsilon="0.3", delta="0.000001"))
    assert "drawn towards 0" in module.warnings(p, t, c)[0]
    records = law(20_000, theta, labels, 5_000)
    errors = [np.linalg.norm(study(module, records, p, t, c, seed).theta - theta) for seed in range(24)]
    assert np.median(errors) <= limit * size
    assert module.predicted(p, t, c) <= 1.0 + math.sqrt(5 / 5_000)
