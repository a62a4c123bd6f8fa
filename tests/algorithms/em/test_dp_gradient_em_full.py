"""dp-gradient-em-full: sensitivity in exact arithmetic for hostile records, the models' gradients against likelihoods and quadrature."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from mpmath import mp
from scipy.sparse import csr_array
from scipy.stats import norm

from dpspec.algorithms.card import Problem
from dpspec.algorithms.em import _steps as steps
from dpspec.algorithms.em import dp_gradient_em_full as module
from dpspec.compiler.passes import compile_draft
from dpspec.data.records import Records
from dpspec.lang.source import parse_text
from dpspec.privacy.calibrate import Budget
from dpspec.privacy.meter import Release
from dpspec.privacy.noise import PublicRandomness, StudyNoise
from dpspec.privacy.schedule import draws
from dpspec.tasks.latent import TASK, Mixture, MixtureOfRegressions, RegressionWithMissing, log_posterior
from tests import leak
from tests.algorithms.sparse.exact import gaussian_delta
from tests.algorithms.support import plan, tunables
from tests.conformance.cases import case
from tests.conformance.replay import movements, worst

NASTY = [0.0, 5e-324, -1e-170, 1.6e-162, 0.7, -2.0, 1e6, -1e154, 1e300, -1e300]
MODELS = {"gmm": Mixture, "mixture-of-regressions": MixtureOfRegressions, "regression-with-missing": RegressionWithMissing}
MIXTURES = ("gmm", "mixture-of-regressions")


def problem(n: int, d: int, model: str = "gmm", neighbours: str = "replace-one", sigma: float = 0.5, **facts: float) -> Problem:
    known = {"n": n, "d": d, "epsilon": 1.0, "delta": 1e-6, "sigma": sigma, "gradient_sd": sigma, "signal_to_noise": 3.0}
    known |= {"tails": 2.0, "kappa": 0.25, **facts}
    return Problem("central", neighbours, SimpleNamespace(kind="fit", model=model), known, oracle=MODELS[model](sigma))


@dataclass
class Quiet:
    """A release without noise, or one that answers zeros whatever it is asked; it checks the stated sensitivity and the count."""

    tree: object
    blind: bool = False
    seed: int = 0
    done: int = 0

    @property
    def public(self) -> PublicRandomness:
        return PublicRandomness(self.seed)

    def draw(self, name, value, *, sensitivity):
        leaf = draws(self.tree)[name]
        self.done += 1
        assert self.done <= leaf.total
        assert sensitivity == leaf.draw.mechanism.sensitivity
        return np.zeros_like(value) if self.blind else value


def noiseless(x, y, p: Problem, t, seed: int = 0):
    return module.run(Records(x, y), p, t, Quiet(module.schedule(p, t), seed=seed)).theta


def released(x, y, p: Problem, t, c, seed: int):
    release = Release(c, StudyNoise(seed), mode="study", public=PublicRandomness(seed))
    estimate = module.run(Records(x, y), p, t, release)
    release.close()
    return estimate.theta


def drawn(model: str, n: int, beta: np.ndarray, sigma: float, seed: int):
    g = np.random.default_rng(seed)
    z = g.integers(0, 2, n) * 2.0 - 1
    if model == "gmm":
        return z[:, None] * beta + sigma * g.standard_normal((n, beta.size)), None
    x = g.standard_normal((n, beta.size))
    if model == "regression-with-missing":
        return np.where(g.random(x.shape) < 0.1, np.nan, x), x @ beta + sigma * g.standard_normal(n)
    return x, z * (x @ beta) + sigma * g.standard_normal(n)


def up_to_sign(found, beta) -> float:
    return min(float(np.linalg.norm(found - beta)), float(np.linalg.norm(found + beta)))


# ------------------------------------------------------------------------------------------------------------------ privacy


@pytest.mark.parametrize("neighbours", ["replace-one", "zero-out", "add-remove"])
@pytest.mark.parametrize("model", MODELS)
def test_no_pair_of_records_moves_the_gradient_by_more_than_its_sensitivity(model, neighbours):
    """In exact arithmetic, over all pairs of hostile records; under replace-one the largest movement comes close to it."""
    d = 2
    p = problem(3, d, model, neighbours)
    t = tunables(module, p)
    beta = np.array([0.9, 0.4])
    rest = np.array([[0.4, -1.0], [3.0, 0.2]])
    heights = [None] if model == "gmm" else [0.0, -3.0, 1e300]
    entries = [*NASTY, math.nan] if model == "regression-with-missing" else NASTY
    rows = [*itertools.product(itertools.product(entries, repeat=2), heights)]

    def mean(row):
        x = np.array([*([] if row is None else [row[0]]), *rest], dtype=float)
        y = None if model == "gmm" else np.array([*([] if row is None else [row[1]]), 0.5, -2.0])
        return steps.robust_gradient(Records(x, y), p.oracle, t, beta, p.n)

    means = [mean(row) for row in rows]
    lacking = mean(None) if neighbours == "add-remove" else mean(((0.0, 0.0), None if model == "gmm" else 0.0))
    distinct = unique(means)
    assert all(np.isfinite(m).all() for m in distinct)
    others = distinct if neighbours == "replace-one" else [lacking]
    squares = [sum((Fraction(float(a)) - Fraction(float(b))) ** 2 for a, b in zip(u, v, strict=True)) for u in distinct for v in others]
    stated = Fraction(steps.sensitivity(p, t, p.n))
    assert max(squares) <= stated**2
    if neighbours == "replace-one":
        assert max(squares) >= (Fraction(999, 1000) * stated) ** 2


def unique(means):
    return [np.array(v) for v in {m.tobytes(): tuple(m) for m in means}.values()]


def test_the_sensitivity_is_the_derived_one():
    """2 cap sqrt(d) s/n with cap = (2 sqrt(2)/3)(2 Phi(sqrt(b)) - 1), and half of it where a record leaves."""
    p = problem(1000, 7)
    t = tunables(module, p, b=3, s=11)
    cap = 2 * math.sqrt(2) / 3 * (2 * norm.cdf(math.sqrt(3)) - 1)
    assert steps.sensitivity(p, t, p.n) == pytest.approx(2 * cap * math.sqrt(7) * 11 / 1000, rel=1e-7)
    assert steps.sensitivity(problem(1000, 7, neighbours="zero-out"), t, 1000) == steps.sensitivity(p, t, p.n)
    assert steps.sensitivity(problem(1000, 7, neighbours="add-remove"), t, 1000) == pytest.approx(cap * math.sqrt(7) * 11 / 1000, rel=1e-7)


def test_all_rounds_together_spend_the_budget_exactly():
    p = problem(5000, 3)
    t = tunables(module, p)
    mu = math.sqrt(t.T) * steps.sensitivity(p, t, p.n) / plan(module, p, t).scale("gradient")
    assert gaussian_delta(mu, 1.0) == pytest.approx(1e-6, rel=1e-3)


def test_the_printed_noise_is_too_little_at_a_larger_scale():
    """At 000's own s its noise is enough; at four times that s the same formula spends more than 3 where 1 is stated."""
    p = problem(5000, 3, gradient_moment=2.0)
    own = math.sqrt(5000 * 2.0 / (2 * math.log(3 / 0.05)))
    spent = [
        module.published(p, tunables(module, p, s=factor * own), Budget(epsilon="1", delta="0.000001"))[1].epsilon for factor in (1, 4)
    ]
    assert spent[0] <= 1 < 3 < spent[1]
    leak.epsilon(spent[1], 1.0, 1e-6)


def test_a_start_from_the_records_would_show_them(monkeypatch):
    """The witness: answers that do not depend on the records at all. Ours then releases one vector for all data; a start at the direction
    of the records, as 000's assumption of a near one suggests, releases the records' mean."""
    p = problem(20, 3)
    t = tunables(module, p, T=2)
    one, other = (drawn("gmm", 20, np.array([1.0, 2.0, 0.0]), 0.5, seed)[0] for seed in (1, 2))

    def answers(x):
        return module.run(Records(x), p, t, Quiet(module.schedule(p, t), blind=True)).theta

    assert np.array_equal(answers(one), answers(other))
    for x in (one, other):
        monkeypatch.setattr(steps, "start", lambda p, t, release, x=x: x[0] / np.linalg.norm(x[0]))
        np.testing.assert_allclose(answers(x), x[0] / np.linalg.norm(x[0]))
    # The noise of T steps is sqrt(T) eta s long in a coordinate, and s^2 = T S^2/mu^2 for the mu of the budget: a start at the direction of
    # the first record moves by up to 2, which eta T S must cover for it to hide there.
    p = problem(100_000, 3)
    t = tunables(module, p)
    turned = np.array([1.0, 2.0, 0.0])
    starts = [v / np.linalg.norm(v) for v in (turned, -turned)]
    leak.moved(float(np.linalg.norm(np.subtract(*starts))), t.eta * t.T * steps.sensitivity(p, t, p.n))


def test_a_shift_by_the_records_moves_all_of_them():
    """The witness for 002's preparation of real data: shifted by the midpoint of two class means, neighbours differ in every record and the
    robust gradient moves by fifty times what is stated for one record that differs. Records as they are keep it."""
    p, n = problem(400, 2), 400
    t = tunables(module, p)
    beta, g = np.array([1.0, 0.5]), np.random.default_rng(0)
    label = np.arange(n) % 2 == 0
    one = g.standard_normal((n, 2)) * 0.5 + np.where(label[:, None], beta, -beta)
    other = one.copy()
    other[0] = [2000.0, 0.0]  # its class has 200 records, so the midpoint moves by 5

    def shifted(x):
        return x - (x[label].mean(axis=0) + x[~label].mean(axis=0)) / 2

    def apart(u, v):
        return float(np.linalg.norm(np.subtract(*(steps.robust_gradient(Records(x), p.oracle, t, beta, n) for x in (u, v)))))

    stated = steps.sensitivity(p, t, n)
    assert apart(one, other) <= stated
    assert apart(shifted(one), shifted(other)) > 50 * stated
    leak.moved(apart(shifted(one), shifted(other)), stated)


@pytest.mark.parametrize("task", ["mixture-of-regressions(2)", "regression-with-missing(1/4)"])
def test_the_other_models_replay_as_the_gallery_s_does(task):
    """The shared replay on the models that no gallery spec has: every pair of extreme records, missing entries too."""
    text = spec(task).replace("n = 4000, d = 3", "n = 6, d = 3").replace("delta = 1e-6", "delta = 0.1")
    text = text.replace("by dp-gradient-em-full", "by dp-gradient-em-full with T = 3")
    found = movements(case(parse_text(text, surface="dps")), "replace-one", surroundings=1)
    assert 0.3 < max(worst(found).values()) <= 1 + 1e-9


# ------------------------------------------------------------------------------------------------------------------- models


@pytest.mark.parametrize("u", [0.0, 5e-324, -1e-300, 0.3, -7.0, 800.0, -1e200, math.inf])
def test_responsibilities_are_logarithms_and_never_nan(u):
    got = log_posterior(np.array([u]))[0]
    assert not np.isnan(got).any()
    if math.isfinite(u):
        with mp.workdps(40):
            for value, sign in zip(got, (1, -1), strict=True):
                exact = -mp.log1p(mp.exp(-2 * sign * mp.mpf(u)))
                assert abs(mp.mpf(float(value)) - exact) <= 1e-14 * abs(exact) + mp.mpf(5e-324)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("sigma", [1e-90, 0.5, 1e90])
def test_no_record_makes_a_nan(model, sigma):
    oracle = MODELS[model](sigma)
    x = np.array(list(itertools.product([*NASTY, *([math.nan] if model not in MIXTURES else [])], repeat=2)))
    for height, beta in itertools.product((0.0, -1e300, 5e-324), ([1.0, -2.0], [1e150, 1e150], [0.0, 0.0])):
        y = None if model == "gmm" else np.full(len(x), height)
        if model in MIXTURES:
            shares = oracle.responsibilities(np.array(beta), x, y)
            assert not np.isnan(shares).any()
            np.testing.assert_allclose(np.exp(shares).sum(axis=1), 1.0)
        p = problem(len(x), 2, model, sigma=0.5)
        assert np.isfinite(steps.robust_gradient(Records(x, y), p.oracle, tunables(module, p), np.array(beta), p.n)).all()


@pytest.mark.parametrize("model", MODELS)
def test_gradients_are_those_of_the_likelihood(model):
    """Fisher's identity: sigma^2 times the gradient of log p, the density written out and differentiated at 50 digits."""
    sigma, beta = 0.7, np.array([0.4, -1.1])
    x, y = drawn(model, 5, np.array([1.0, 0.5]), sigma, 3)
    if model == "regression-with-missing":
        x[1, 0] = x[2, 1] = x[3, 0] = x[3, 1] = np.nan
    got = MODELS[model](sigma).gradients(beta, x, y)

    def log_density(b, i):
        if model == "gmm":
            squares = [sum((mp.mpf(v) - s * w) ** 2 for v, w in zip(x[i], b, strict=True)) for s in (1, -1)]
        elif model == "mixture-of-regressions":
            fitted = sum(mp.mpf(v) * w for v, w in zip(x[i], b, strict=True))
            squares = [(mp.mpf(y[i]) - s * fitted) ** 2 for s in (1, -1)]
        else:  # y is normal with the entries that are not seen integrated out
            fitted = sum(mp.mpf(v) * w for v, w in zip(x[i], b, strict=True) if not math.isnan(v))
            spread = mp.mpf(sigma) ** 2 + sum(w * w for v, w in zip(x[i], b, strict=True) if math.isnan(v))
            return -((mp.mpf(y[i]) - fitted) ** 2) / (2 * spread) - mp.log(spread) / 2
        return mp.log(sum(mp.exp(-q / (2 * mp.mpf(sigma) ** 2)) for q in squares))

    with mp.workdps(50):
        for i in range(5):
            for j in range(2):
                at = [mp.mpf(v) for v in beta]
                slope = mp.diff(lambda v, i=i, j=j, at=at: log_density([v if k == j else w for k, w in enumerate(at)], i), at[j])
                assert float(slope * mp.mpf(sigma) ** 2) == pytest.approx(got[i, j], rel=1e-9, abs=1e-12)


NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(120)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def one_dimension(model: str, ratio: float):
    """Records of the law at d = 1, sigma = 1, beta* = ratio on a grid, and their weights; z = 1 by symmetry."""
    if model == "gmm":
        return (ratio + NODES)[:, None], None, WEIGHTS
    x, v = np.repeat(NODES, 120), np.tile(NODES, 120)
    if model == "regression-with-missing":  # half seen and half missing
        seen = np.concatenate([x, np.full(x.size, np.nan)])
        return seen[:, None], np.tile(ratio * x + v, 2), np.tile(np.outer(WEIGHTS, WEIGHTS).ravel(), 2) / 2
    return x[:, None], ratio * x + v, np.outer(WEIGHTS, WEIGHTS).ravel()


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("ratio", [0.1, 0.5, 1.0, 3.0])
def test_a_gradient_at_the_truth_spreads_by_at_most_sigma(model, ratio):
    """By quadrature: mean 0 and second moment at most sigma^2 (times E x^2 = 1), less where the components overlap."""
    x, y, weights = one_dimension(model, ratio)
    g = MODELS[model](1.0).gradients(np.array([ratio]), x, y)[:, 0]
    assert abs(weights @ g) < 1e-3
    assert weights @ g**2 <= 1 + 1e-3


def test_the_printed_posterior_is_not_self_consistent():
    """The fixed point of the population step at a signal-to-noise ratio of 1: ours is beta*, the printed exponent, half as long, ends
    near 0."""
    x, _, weights = one_dimension("gmm", 1.0)

    def fixed(step) -> float:
        beta = 1.0
        for _ in range(3000):
            beta = float(step(beta))
        return beta

    assert fixed(lambda b: b + weights @ Mixture(1.0).gradients(np.array([b]), x, None)[:, 0]) == pytest.approx(1.0, abs=1e-6)
    assert fixed(lambda b: weights @ ((2 / (1 + np.exp(-b * x[:, 0])) - 1) * x[:, 0])) < 0.05  # its slope at 0 is E x^2/2 = 1: slow


# ----------------------------------------------------------------------------------------------------------------- accuracy


@pytest.mark.parametrize(
    ("model", "facts"),
    [("gmm", {}), ("mixture-of-regressions", {"tails": 4.0, "kappa": 1 / 32}), ("regression-with-missing", {"tails": 4.0, "kappa": 1 / 2})],
)
def test_defaults_find_the_components(model, facts):
    beta = np.array([0.9, -1.2])
    p = problem(8000, 2, model, **facts)
    t = tunables(module, p)
    c = plan(module, p, t)
    errors = [up_to_sign(released(*drawn(model, 8000, beta, 0.5, seed), p, t, c, seed), beta) for seed in range(3)]
    assert np.median(errors) < 0.04
    own = TASK.reference(Records(*drawn(model, 8000, beta, 0.5, 0)), p, {})[0]
    assert up_to_sign(own, beta) < 0.04


def contraction(ratio: float, kappa: float) -> float:
    """The population's, by quadrature, at the ends of the ball of radius kappa |beta*|: |M(beta) - beta*|/|beta - beta*|, d = 1, sigma =
    1."""
    x, _, weights = one_dimension("gmm", ratio)
    ends = [(weights @ (np.tanh(b * x[:, 0]) * x[:, 0]) - ratio) / (b - ratio) for b in (ratio * (1 - kappa), ratio * (1 + kappa))]
    return max(*map(abs, ends), 1e-3)


def test_the_explicit_bound_holds_at_the_printed_scale(monkeypatch):
    """Signal-to-noise 3 and s of 000. 8 runs from a start on the rim of the ball; the bound written out."""
    n, sigma, beta = 20_000, 0.5, np.array([1.5, 0.0])
    moment = (math.hypot(1.5, sigma) + 1.25 * 1.5) ** 2
    facts = {"gradient_moment": moment, "contraction": contraction(3.0, 1 / 8), "start_within": 1 / 8}
    p = problem(n, 2, sigma=sigma, **facts)
    t = tunables(module, p, s=math.sqrt(n * moment / (2 * math.log(2 / 0.05))), T=3)
    c = plan(module, p, t, Budget(epsilon="20", delta="0.000001"))
    error = math.sqrt(2) * (t.tau * (1 + 1 / t.b) / (2 * t.s) + t.s * (t.b / 2 + math.log(4 * 2 * 3 / 0.05)) / n)
    error += c.scale("gradient") * (math.sqrt(2) + math.sqrt(2 * math.log(2 * 3 / 0.05)))
    bound = facts["contraction"] ** 3 / 8 * 1.5 + error / (1 - facts["contraction"])
    assert list(module.explicit_bounds(p, t, c).values()) == [pytest.approx(bound)]
    monkeypatch.setattr(steps, "start", lambda p, t, release: beta * 7 / 8)
    found = [up_to_sign(released(*drawn("gmm", n, beta, sigma, seed), p, t, c, seed), beta) for seed in range(8)]
    assert max(found) <= bound
    assert np.median(found) > bound / 40
    farther = problem(n, 2, sigma=sigma, **{**facts, "start_within": 0.3})  # beyond kappa = 1/4
    assert module.explicit_bounds(farther, t, c) == {}


def test_the_error_does_not_vanish_with_the_signal():
    """A tenth of the signal, a tenth of the printed bound (7.63), and an error that is not smaller."""
    errors = []
    for size in (0.6, 0.06):
        beta = np.array([size, 0.0, 0.0])
        p = problem(4000, 3, signal_to_noise=size / 0.5)
        t = tunables(module, p, T=6)
        c = plan(module, p, t)
        errors.append(np.median([up_to_sign(released(*drawn("gmm", 4000, beta, 0.5, seed), p, t, c, seed), beta) for seed in range(5)]))
    assert errors[1] > errors[0] / 2


def test_half_of_the_random_starts_end_at_the_other_sign():
    beta = np.array([1.5, 0.0])
    x, _ = drawn("gmm", 500, beta, 0.5, 0)
    p = problem(500, 2)
    t = tunables(module, p, T=9)
    found = np.array([noiseless(x, None, p, t, seed)[0] for seed in range(60)])
    assert np.abs(np.abs(found) - 1.5).max() < 0.2
    assert 15 <= (found > 0).sum() <= 45  # binomial(60, 1/2) leaves this with probability 1e-4


def test_sparse_records_are_read_as_dense_ones():
    g = np.random.default_rng(1)
    x = np.where(g.random((50, 3)) < 0.4, g.standard_normal((50, 3)), 0.0)
    for model, y in (("gmm", None), ("mixture-of-regressions", g.standard_normal(50))):
        p = problem(50, 3, model)
        t = tunables(module, p)
        np.testing.assert_allclose(noiseless(csr_array(x), y, p, t), noiseless(x, y, p, t), rtol=1e-12)


# ------------------------------------------------------------------------------------------------------------------ the task


def spec(task: str = "gmm(2)", sigma: str = "sigma = 0.5", laws: str = "") -> str:
    return f"""
analysis "a"
data
  n = 4000, d = 3
  {sigma}
  from memory
  private, unit person, neighbours replace-one
privacy central
  epsilon = 1, delta = 1e-6
assume
  signal-to-noise(3)
release m
  fit {task}
  by dp-gradient-em-full
{laws}
"""


@pytest.mark.parametrize(
    ("task", "s", "rounds", "moment"), [("gmm(2)", 1.0, 9, (math.sqrt(2.5) + 1.875) ** 2), ("mixture-of-regressions(2)", 2.0, 12, None)]
)
def test_a_plan_reads_the_model_and_its_assumptions(task, s, rounds, moment):
    draft = compile_draft(parse_text(spec(task), surface="dps"))
    assert [d.code for d in draft.diagnostics if d.severity != "info"] == []
    (release,) = draft.releases
    t = release.tunables
    assert (t.s, t.T, t.radius) == (pytest.approx(s), rounds, pytest.approx(1.5))
    if moment is not None:
        assert t.tau == pytest.approx(moment)
    assert release.calibrated.guarantee.epsilon <= 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (spec("gmm(3)"), "two components"),
        (spec(sigma="level = 0.5"), "sigma"),
        (spec("mixture-of-regressions(2)", laws="simulate\n  theta = dense unit l2\n  x ~ normal(0, I)"), "responses y"),
    ],
)
def test_what_is_not_fitted_is_refused_in_words(text, words):
    found = compile_draft(parse_text(text, surface="dps")).diagnostics
    assert any(words in d.message for d in found if d.severity == "error"), [d.message for d in found]
