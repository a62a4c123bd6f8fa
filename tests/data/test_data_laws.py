"""Data laws against scipy's distributions, closed-form moments and themselves read in another order."""

import math

import numpy as np
import pytest
from scipy import stats

from dpspec.data.enforce import enforce
from dpspec.data.laws import LAWS, Simulation
from dpspec.data.records import drawing_rows
from dpspec.spec.diagnostics import Span, SpecError
from dpspec.spec.expr import Bin, Call, Inner, Name, Neg, Norm, num
from dpspec.spec.model import Ball, Data, Domain, Enforcement, Law

I = Name("I")  # noqa: E741
THETA, X = Name("theta"), Name("x")


def call(word, *args):
    return Call(word, tuple(num(a) if isinstance(a, (int, str)) else a for a in args))


def law(variable, e, *modifiers):
    return Law(variable=variable, relation="~", law=e, modifiers=modifiers)


X_NORMAL = law("x", call("normal", 0, I))


def simulate(*laws, n=20_000, d=3, seed=3, trial=0, **values):
    return Simulation(laws, {"n": n, "d": d, **values}).trial(seed, trial)


REFERENCE = [
    (call("normal", 2, 9), stats.norm(2, 3)),
    (call("student-t", 3), stats.t(3)),
    (call("laplace", 2), stats.laplace(0, 2)),
    (call("laplace", -1, 2), stats.laplace(-1, 2)),
    (call("logistic", 1, 2), stats.logistic(1, 2)),
    (call("lognormal", 1, "0.5"), stats.lognorm(0.5, scale=math.e)),
    (call("log-logistic", "0.2", "0.2"), stats.fisk(5, scale=math.exp(0.2))),
    (call("pareto", 3), stats.pareto(3)),
    (call("pareto", "2.5", 2), stats.pareto(2.5, scale=2)),
    (call("uniform", -1, 3), stats.uniform(-1, 4)),
    (call("exponential", 2), stats.expon(scale=2)),
    (call("gamma", 2, 3), stats.gamma(2, scale=3)),
    (call("beta", 2, 5), stats.beta(2, 5)),
    (call("weibull", "1.5"), stats.weibull_min(1.5)),
    (call("chi2", 4), stats.chi2(4)),
    (Name("cauchy"), stats.cauchy()),
    (Bin("+", Bin("*", num(2), call("student-t", 5)), num(1)), stats.t(5, loc=1, scale=2)),
    (Neg(call("exponential", 1)), stats.uniform(-1, 1)),  # a wrong reference on purpose, see below
]


@pytest.mark.parametrize(("e", "reference"), REFERENCE[:-1])
def test_scalar_laws(e, reference):
    r, truth = simulate(law("x", e), law("y", e), n=8000, d=2)
    for sample in (r.x[:, 0], r.x[:, 1], r.y):
        assert stats.kstest(sample, reference.cdf).pvalue > 1e-4
    assert abs(np.corrcoef(np.argsort(np.argsort(r.x, axis=0), axis=0).T)[0, 1]) < 0.05
    mean, variance = reference.stats("mv")
    if np.isfinite(mean):
        assert truth.mean == pytest.approx(np.full(2, mean), abs=1e-12)
    else:
        assert truth.mean is None
    if np.isfinite(variance):
        assert truth.covariance == pytest.approx(variance * np.eye(2))
    else:
        assert truth.covariance is None


def test_the_comparison_of_laws_can_fail():
    e, reference = REFERENCE[-1]
    assert stats.kstest(simulate(law("x", e), n=8000)[0].x[:, 0], reference.cdf).pvalue < 1e-12


def test_every_scalar_law_is_compared_or_discrete():
    compared = {
        node.function if isinstance(node, Call) else node.id for e, _ in REFERENCE for node in [e] if isinstance(node, (Call, Name))
    }
    aliases = {"log-normal", "loglogistic", "uniform-cube"}
    assert set(LAWS) - compared - aliases == {"poisson", "bernoulli", "bernoulli-logistic", "categorical-logistic", "rademacher"}


@pytest.mark.parametrize(
    ("e", "values", "probabilities"),
    [
        (Name("rademacher"), [-1, 1], [0.5, 0.5]),
        (Name("uniform-cube"), [-1, 1], [0.5, 0.5]),
        (call("bernoulli", "0.3"), [0, 1], [0.7, 0.3]),
        (call("bernoulli-logistic", 1), [-1, 1], [1 / (1 + math.e), math.e / (1 + math.e)]),
        (call("categorical-logistic", 0, 1, 2), [0, 1, 2], [math.exp(j) / (1 + math.e + math.e**2) for j in range(3)]),
        (call("categorical-logistic", 0, 2000), [1], [1.0]),
        (call("poisson", 2), [0, 1, 2], [math.exp(-2), 2 * math.exp(-2), 2 * math.exp(-2)]),
    ],
)
def test_discrete_laws(e, values, probabilities):
    r, truth = simulate(law("x", e), n=30_000, d=1)
    for value, p in zip(values, probabilities, strict=True):
        assert np.mean(r.x == value) == pytest.approx(p, abs=4.5 * math.sqrt(p * (1 - p) / 30_000))
    if sum(probabilities) > 0.999:
        m = np.dot(values, probabilities)
        assert truth.mean[0] == pytest.approx(m)
        assert truth.covariance[0, 0] == pytest.approx(np.dot(np.square(values), probabilities) - m * m)
        assert set(np.unique(r.x)) == set(values)


# ----------------------------------------------------------------------------------------------------------------- vectors


def check_covariance(r, truth, expected, factor=1.0):
    """Empirical mean and covariance of 20,000 records within five standard errors of a normal with the expected covariance."""
    n = r.n
    spread = np.sqrt((expected**2 + np.outer(np.diag(expected), np.diag(expected))) / n)
    assert (np.abs(np.cov(r.x.T) - expected) <= 5 * factor * spread).all()
    assert (np.abs(r.x.mean(axis=0) - truth.mean) <= 5 * np.sqrt(np.diag(expected) / n)).all()
    assert truth.covariance == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("e", "expected"),
    [
        (call("toeplitz", "0.6"), [[1, 0.6, 0.36, 0.216], [0.6, 1, 0.6, 0.36], [0.36, 0.6, 1, 0.6], [0.216, 0.36, 0.6, 1]]),
        (call("toeplitz", "-0.5"), [[1, -0.5, 0.25, -0.125], [-0.5, 1, -0.5, 0.25], [0.25, -0.5, 1, -0.5], [-0.125, 0.25, -0.5, 1]]),
        (call("banded", 1, "0.8"), [[1, 0.4, 0, 0], [0.4, 1, 0.4, 0], [0, 0.4, 1, 0.4], [0, 0, 0.4, 1]]),
        (call("diagonal", 1, 2, 3, 4), np.diag([1, 2, 3, 4])),
        (Bin("*", Bin("^", Name("s"), num(2)), I), 4 * np.eye(4)),
        (
            Bin("/", call("toeplitz", "0.5"), num(2)),
            [[0.5, 0.25, 0.125, 0.0625], [0.25, 0.5, 0.25, 0.125], [0.125, 0.25, 0.5, 0.25], [0.0625, 0.125, 0.25, 0.5]],
        ),
        (num(9), 9 * np.eye(4)),
    ],
)
def test_covariances(e, expected):
    r, truth = simulate(law("x", call("normal", 1, e)), d=4, s=2)
    check_covariance(r, truth, np.array(expected, dtype=float))


def test_spiked_covariance_has_its_directions_in_the_truth():
    r, truth = simulate(law("x", call("normal", 0, call("spiked", 2, 5))), d=6)
    u = truth.subspace
    assert u.T @ u == pytest.approx(np.eye(2), abs=1e-12)
    check_covariance(r, truth, np.eye(6) + 5 * u @ u.T)
    other = simulate(law("x", call("normal", 0, call("spiked", 2, 5))), d=6, trial=1)[1].subspace
    assert np.linalg.norm(u @ u.T - other @ other.T) > 0.1


def test_a_named_covariance_is_a_parameter():
    r, truth = simulate(law("Sigma", call("spiked", 1, 3)), law("x", call("normal", 0, Name("Sigma"))), d=4)
    check_covariance(r, truth, truth["Sigma"])
    assert np.linalg.eigvalsh(truth["Sigma"]) == pytest.approx([1, 1, 1, 4])


def test_vector_laws_of_records():
    r, truth = simulate(law("x", call("sphere", 2)), d=5)
    assert np.linalg.norm(r.x, axis=1) == pytest.approx(np.full(r.n, 2.0))
    check_covariance(r, truth, np.eye(5) * 4 / 5)
    r, truth = simulate(law("x", call("uniform-ball", 2)), d=5)
    assert stats.kstest((np.linalg.norm(r.x, axis=1) / 2) ** 5, "uniform").pvalue > 1e-4
    check_covariance(r, truth, np.eye(5) * 4 / 7)
    r, _ = simulate(law("x", Name("simplex")), d=5)
    assert r.x.sum(axis=1) == pytest.approx(np.ones(r.n))
    assert r.x.min() >= 0
    assert stats.kstest(r.x[:, 2], stats.beta(1, 4).cdf).pvalue > 1e-4
    r, truth = simulate(law("x", call("student-t", 3), "unit l1"), d=5)
    assert np.abs(r.x).sum(axis=1) == pytest.approx(np.ones(r.n))
    assert truth.mean is None


def test_mixtures():
    two = call("mixture", "0.3", call("normal", THETA, I), "0.7", call("normal", Neg(THETA), call("diagonal", 1, 2, 3)))
    r, truth = simulate(law("theta", call("constant", 2)), law("x", two))
    m = (0.3 - 0.7) * np.full(3, 2.0)
    expected = 0.3 * np.eye(3) + 0.7 * np.diag([1, 2, 3]) + 0.3 * np.outer(2 - m, 2 - m) + 0.7 * np.outer(-2 - m, -2 - m)
    check_covariance(r, truth, expected)
    assert np.mean(r.x.sum(axis=1) > 0) == pytest.approx(0.3, abs=0.03)
    r, truth = simulate(law("theta", call("constant", 2)), law("x", call("gmm", THETA, "0.5")))
    check_covariance(r, truth, 0.5 * np.eye(3) + np.full((3, 3), 4.0))
    r, _ = simulate(ONES, X_NORMAL, law("y", call("mixture", "0.9", call("normal", 0, 1), "0.1", call("normal", X_MEAN, "1e-6"))))
    assert np.mean(np.abs(r.y - r.x[:, 0] - r.x[:, 1] - r.x[:, 2]) < 0.01) == pytest.approx(0.1, abs=0.02)


X_MEAN = Inner(Name("ones"), X)
ONES = law("ones", call("constant", 1))


def test_mixture_of_record_dependent_laws():
    y = call("mixture", call("normal", X_MEAN, 0), call("normal", Neg(X_MEAN), 0))
    r, _ = simulate(ONES, X_NORMAL, law("y", y))
    s = r.x.sum(axis=1)
    assert np.abs(r.y) == pytest.approx(np.abs(s))
    assert np.mean(np.sign(r.y) == np.sign(s)) == pytest.approx(0.5, abs=0.02)


# ------------------------------------------------------------------------------------------------------ targets, parameters


def test_linear_model_with_noise():
    noise = call("student-t", 3)
    r, truth = simulate(law("theta", call("sparse", 5), "unit l2"), X_NORMAL, law("y", Bin("+", Inner(THETA, X), noise)), d=20, n=10_000)
    theta = truth["theta"]
    assert np.linalg.norm(theta) == pytest.approx(1)
    assert np.count_nonzero(theta) == 5
    assert np.abs(theta[theta != 0]) == pytest.approx(np.full(5, 1 / math.sqrt(5)))
    assert stats.kstest(r.y - r.x @ theta, stats.t(3).cdf).pvalue > 1e-4
    assert (
        len({tuple(np.flatnonzero(simulate(law("theta", call("sparse", 5)), X_NORMAL, d=20, n=2, trial=t)[1]["theta"])) for t in range(8)})
        > 4
    )


def test_centred_noise_of_the_heavy_tailed_study():
    e = call("centred", call("lognormal", 1, 1))
    r, _ = simulate(ONES, X_NORMAL, law("y", Bin("+", X_MEAN, e)))
    assert stats.kstest(r.y - r.x.sum(axis=1) + math.exp(1.5), stats.lognorm(1, scale=math.e).cdf).pvalue > 1e-4
    e = call("centred", call("log-logistic", "0.2", "0.2"))
    r, _ = simulate(X_NORMAL, law("y", e))
    assert stats.kstest(r.y + stats.fisk(5, scale=math.exp(0.2)).mean(), stats.fisk(5, scale=math.exp(0.2)).cdf).pvalue > 1e-4
    with pytest.raises(SpecError, match="DP531"):
        simulate(X_NORMAL, law("y", call("centred", call("pareto", 1))))


def test_labels_of_a_logistic_model():
    r, truth = simulate(
        law("theta", Name("dense"), "unit l2"), X_NORMAL, law("y", call("bernoulli-logistic", Bin("*", num(3), Inner(THETA, X))))
    )
    u = 3 * r.x @ truth["theta"]
    assert set(np.unique(r.y)) == {-1, 1}
    for low, high in ((-3, -2), (-1, -0.5), (0, 0.5), (2, 3)):
        at = (u > low) & (u < high)
        p = 1 / (1 + np.exp(-u[at]))
        assert np.mean(r.y[at] == 1) == pytest.approx(p.mean(), abs=5 * math.sqrt(p.mean() * (1 - p.mean()) / at.sum()))


def test_labels_of_a_model_with_three_classes():
    """P(y = j | x) against the softmax of the margins, in cells of one margin; the logits stand in the order of the labels."""
    a = Bin("*", num(2), Inner(THETA, X))
    r, truth = simulate(law("theta", Name("dense"), "unit l2"), X_NORMAL, law("y", call("categorical-logistic", a, 0, Neg(a))), n=40_000)
    u = 2 * r.x @ truth["theta"]
    logits = np.exp(np.stack([u, np.zeros_like(u), -u]))
    p = logits / logits.sum(axis=0)
    assert set(np.unique(r.y)) == {0, 1, 2}
    for low, high in ((-3, -1), (-1, 0), (0, 1), (1, 3)):
        at = (u > low) & (u < high)
        for j in range(3):
            mean = p[j, at].mean()
            assert np.mean(r.y[at] == j) == pytest.approx(mean, abs=5 * math.sqrt(mean * (1 - mean) / at.sum()))


def test_expressions():
    y = Bin("+", call("tanh", Inner(THETA, X)), Bin("*", Norm(X, "1"), call("sign", Bin("-", Norm(X), Name("c")))))
    r, truth = simulate(law("theta", call("sphere", 3)), X_NORMAL, law("y", y), c=1.5)
    assert np.linalg.norm(truth["theta"]) == pytest.approx(3)
    expected = np.tanh(r.x @ truth["theta"]) + np.abs(r.x).sum(axis=1) * np.where(np.linalg.norm(r.x, axis=1) >= 1.5, 1, -1)
    assert r.y == pytest.approx(expected)


def test_records_given_the_label():
    r, _ = simulate(
        ONES, law("y", Name("rademacher")), law("x", Bin("+", Bin("*", Name("y"), Name("ones")), call("normal", 0, "0.01"))), d=2
    )
    assert np.abs(r.x - r.y[:, None]).max() < 0.6


def test_workers_answer_tasks():
    truth_law = law("truth", Name("rademacher"))
    r, truth = simulate(truth_law, law("x", call("one-coin", Name("truth"), call("beta", 4, 2), "0.8")), d=200, n=3000)
    assert set(np.unique(r.x)) == {-1, 0, 1}
    assert set(np.unique(truth["truth"])) == {-1, 1}
    assert np.mean(r.x != 0) == pytest.approx(0.8, abs=0.005)
    right = np.sum(r.x == truth["truth"], axis=1)
    answered = np.sum(r.x != 0, axis=1)
    # right answers of a worker are beta-binomial: mean 2/3, and Var(p) = 4*2/(36*7) beside the binomial part
    share = right / answered
    assert share.mean() == pytest.approx(2 / 3, abs=5 * math.sqrt(8 / 252 / 3000))
    binomial = np.mean(1 / answered) * (2 / 3 - (8 / 252 + 4 / 9))
    assert share.var() == pytest.approx(8 / 252 + binomial, rel=0.12)
    exact, truth = simulate(truth_law, law("x", call("one-coin", Name("truth"), 1)), d=50, n=10)
    assert (exact.x == truth["truth"]).all()


def test_wrong_answers_of_several_labels_are_equally_likely():
    truth_law = (law("label", call("categorical-logistic", 0, 0, 0)), law("truth", Bin("+", Name("label"), num(1))))
    r, truth = simulate(*truth_law, law("x", call("one-coin", Name("truth"), "0.6", "0.9", 3)), d=300, n=1000)
    right = truth["truth"]
    assert set(np.unique(right)) == {1, 2, 3}
    assert set(np.unique(r.x)) == {0, 1, 2, 3}
    for shift, share in ((0, 0.6), (1, 0.2), (2, 0.2)):  # of the answers, by how far they are from the true label, in a circle
        assert np.mean(r.x == (right - 1 + shift) % 3 + 1) == pytest.approx(0.9 * share, abs=0.005)


def test_missing_coordinates_do_not_reach_the_target():
    laws = (ONES, law("x", call("missing", "0.3", call("normal", 0, I))), law("y", X_MEAN))
    r, truth = simulate(*laws)
    whole = r.x.all(axis=1)
    assert np.mean(r.x == 0) == pytest.approx(0.3, abs=0.01)
    assert whole.mean() == pytest.approx(0.7**3, abs=0.015)
    assert r.y[whole] == pytest.approx(r.x[whole].sum(axis=1))
    assert np.var(r.y) == pytest.approx(3, rel=0.05)  # of the complete x: 2.1 if the target saw the holes
    assert truth.covariance == pytest.approx(np.eye(3))


# ----------------------------------------------------------------------------------------------------------------- streams


def test_group_sparse_parameters_fill_whole_groups():
    """d = 11 in groups of 4, 4 and 3: two of them hold normals, one is empty; which ones depends on the trial."""
    found = set()
    for trial in range(30):
        theta = simulate(law("theta", call("group-sparse", 2, 4)), X_NORMAL, d=11, n=2, trial=trial)[1]["theta"]
        full = tuple(bool(np.all(part != 0)) for part in np.split(theta, [4, 8]))
        assert sum(full) == 2
        assert np.count_nonzero(theta) == sum(size for size, kept in zip((4, 4, 3), full, strict=True) if kept)
        found.add(full)
    assert len(found) == 3


LINEAR = (law("theta", call("sparse", 3), "unit l2"), X_NORMAL, law("y", Bin("+", Inner(THETA, X), call("normal", 0, 1))))


def test_the_same_trial_again_and_in_any_order():
    n, d = 3 * drawing_rows(30) + 11, 30
    s = Simulation(LINEAR, {"n": n, "d": d})
    a, ta = s.trial(7, 2)
    b, tb = Simulation(LINEAR, {"n": n, "d": d}).trial(7, 2, m=50, cache_bytes=0)
    assert np.array_equal(ta["theta"], tb["theta"])
    backwards = [b.slice(start, min(start + 1000, n)).x for start in range(0, n, 1000)][::-1]
    assert np.array_equal(np.vstack(backwards[::-1]), a.x)
    assert np.array_equal(a.y, b.y)
    assert a.public_x is None
    assert b.public_x.shape == (50, d)
    assert not np.isin(b.public_x, a.x).any()


def test_trials_seeds_and_blocks_are_different():
    n, d = 2 * drawing_rows(30), 30
    s = Simulation(LINEAR, {"n": n, "d": d})
    first = s.trial(7, 0)[0].x
    assert not np.isin(s.trial(7, 1)[0].x[:100], first).any()
    assert not np.isin(s.trial(8, 0)[0].x[:100], first).any()
    half = n // 2
    assert not np.isin(first[half : half + 100], first[:half]).any()


def test_fewer_records_are_a_prefix():
    rows = drawing_rows(30)
    long = Simulation(LINEAR, {"n": 2 * rows + 9, "d": 30}).trial(7, 0)[0]
    short = Simulation(LINEAR, {"n": rows, "d": 30}).trial(7, 0)[0]
    assert np.array_equal(long.x[:rows], short.x)
    assert np.array_equal(long.y[:rows], short.y)


def test_enforcement_of_simulated_records():
    data = Data(domains=(Domain(variable="x", set=Ball(norm="l2", radius=num(2)), by=Enforcement(how="scale")),))
    raw = simulate(*LINEAR)[0]
    r, counts = enforce(raw, data)
    assert (np.linalg.norm(r.x, axis=1) <= 2).all()
    assert np.array_equal(r.y, raw.y)
    assert counts.touched["x"] == (np.linalg.norm(raw.x, axis=1) > 2).sum()


# ------------------------------------------------------------------------------------------------------------------ errors

SPAN = Span(3, 7, 3, 20)


@pytest.mark.parametrize(
    ("laws", "code", "words"),
    [
        ((law("x", Call("gausian", (num(0), I), SPAN)),), "DP530", "normal"),
        ((law("x", Call("studentt", (num(3),), SPAN)),), "DP530", "student-t"),
        ((law("x", Call("normal", (num(0),), SPAN)),), "DP531", "2 arguments"),
        ((law("x", Call("student-t", (num(0),), SPAN)),), "DP531", "df > 0"),
        ((law("x", Call("uniform", (num(2), num(1)), SPAN)),), "DP531", "a < b"),
        ((X_NORMAL, law("y", Name("beta0", SPAN))), "DP532", "beta0"),
        ((X_NORMAL, law("y", Name("rademaker", SPAN))), "DP532", "did you mean 'rademacher'"),
        ((X_NORMAL, law("y", Inner(Name("theta", SPAN), X))), "DP532", "theta"),
        ((law("theta", Call("sparse", (num(9),), SPAN)), X_NORMAL), "DP531", "d = 3"),
        ((law("theta", Call("sparse", (num("1.5"),), SPAN)), X_NORMAL), "DP531", "whole"),
        ((law("theta", Call("group-sparse", (num(3), num(2)), SPAN)), X_NORMAL), "DP531", "number of groups of d = 3"),
        ((law("x", Call("sparse", (num(1),), SPAN)),), "DP531", "parameters"),
        ((law("x", call("normal", 0, Call("toeplitz", (num(1),), SPAN))),), "DP531", "rho"),
        ((law("x", call("normal", 0, Call("spiked", (num(4), num(1)), SPAN))),), "DP531", "from 1 to d"),
        ((law("x", call("normal", 0, Call("diagonal", (num(4), num(1)), SPAN))),), "DP531", "d = 3"),
        ((X_NORMAL, law("y", Name("x", SPAN))), "DP531", "vector"),
        ((X_NORMAL, law("y", Call("sphere", (), SPAN))), "DP531", "vectors"),
        ((X_NORMAL, law("y", Call("normal", (num(0), num(-1)), SPAN))), "DP531", "variance"),
        ((X_NORMAL, law("y", Inner(X, num(1), SPAN))), "DP531", "two vectors"),
        ((X_NORMAL, law("y", Bin("+", I, num(1), SPAN))), "DP531", "covariance"),
        ((law("x", Call("mixture", (num("0.5"), call("laplace", 1), num("0.6"), call("laplace", 2)), SPAN)),), "DP531", "sum to one"),
        ((law("x", Call("mixture", (call("laplace", 1),), SPAN)),), "DP531", "two laws"),
        ((law("x", Call("normal", (num(0), I), SPAN), "unit l7"),), "DP531", "unit l7"),
        ((law("x", Call("missing", (num(2), call("normal", 0, I)), SPAN)),), "DP531", "below 1"),
        ((law("x", Bin("+", num(1), Call("missing", (num("0.1"), call("normal", 0, I)), SPAN))),), "DP531", "whole law"),
        ((law("x", Call("missing", (num("0.1"),), SPAN)),), "DP531", "a law"),
        ((law("x", Call("one-coin", (num(1), num(1)), SPAN)),), "DP531", "true answers"),
        ((ONES, law("x", Call("one-coin", (Name("ones"), num(2)), SPAN))), "DP531", "probabilities"),
        ((ONES, law("x", Call("one-coin", (Name("ones"), num("0.5"), num(1), num(1)), SPAN))), "DP531", "2 <= K"),
        ((law("y", Call("normal", (num(0), num(1)), SPAN)),), "DP533", "law for x"),
        ((X_NORMAL, law("x", Call("normal", (num(0), I), SPAN))), "DP533", "two laws"),
    ],
)
def test_laws_that_cannot_be_drawn(laws, code, words):
    with pytest.raises(SpecError) as error:
        Simulation(laws, {"n": 100, "d": 3})
    (found,) = error.value.diagnostics
    assert found.code == code
    assert words in found.message + found.help
    if words not in ("law for x", "true answers"):
        assert found.span == SPAN


@pytest.mark.slow
def test_memory_of_a_million_records():
    """A million records of twenty doubles are 160 MB: kept once when there is room for them, never whole when there is none."""
    import tracemalloc

    n, d = 1_000_000, 20
    s = Simulation((X_NORMAL,), {"n": n, "d": d})

    def ours():
        for _x, _y in s.trial(1, 0)[0].blocks():
            pass

    tracemalloc.start()
    ours()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2.2e8
    tracemalloc.start()
    for _x, _y in s.trial(1, 0, cache_bytes=0)[0].blocks():
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2e7
