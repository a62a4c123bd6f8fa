"""The exact M-step and mixtures of K components without noise, against likelihoods by scipy and the mixtures of scikit-learn; measures."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm
from sklearn.datasets import load_iris
from sklearn.mixture import GaussianMixture

from dpspec.algorithms.em import _clusters as clusters
from dpspec.algorithms.em import em as module
from dpspec.compiler.passes import compile_draft
from dpspec.data.records import Records
from dpspec.lang.source import parse_text
from dpspec.measures.measure import Population, Trial
from dpspec.tasks import latent, mixture
from tests.algorithms.em.test_dp_gradient_em_full import MODELS, drawn, problem, up_to_sign
from tests.algorithms.support import tunables


@pytest.mark.parametrize("model", MODELS)
def test_the_fixed_point_is_a_maximum_of_the_likelihood(model):
    """There the gradients (checked against 50 digits in dp-gradient-em-full's tests) add up to 0, and no step lowered the likelihood."""
    beta = np.array([0.9, -1.2])
    x, y = drawn(model, 2000, beta, 0.5, 0)
    p = problem(2000, 2, model)
    found = module.run(Records(x, y), p, tunables(module, p), None).theta
    assert up_to_sign(found, beta) < 0.1
    assert np.abs(p.oracle.gradients(found, x, y).mean(axis=0)).max() < 1e-7
    path = [np.array([0.5, 0.5])]
    for _ in range(6):
        path.append(np.linalg.solve(*p.oracle.normal(path[-1], x, y)))
    losses = [float(p.oracle.log_loss(b, x, y).mean()) for b in path]
    assert all(b <= a + 1e-12 for a, b in itertools.pairwise(losses))
    assert losses[0] > losses[-1] + 1e-3


@pytest.mark.parametrize("model", MODELS)
def test_log_losses_are_those_of_the_densities(model):
    beta, sigma = np.array([0.4, -1.1]), 0.7
    x, y = drawn(model, 20, np.array([1.0, 0.5]), sigma, 3)
    if model == "gmm":
        parts = [multivariate_normal(s * beta, sigma**2).pdf(x) for s in (1, -1)]
    elif model == "mixture-of-regressions":
        parts = [norm.pdf(y, s * (x @ beta), sigma) for s in (1, -1)]
    else:
        seen, gone = np.nan_to_num(x), np.isnan(x)
        parts = [norm.pdf(y, seen @ beta, np.sqrt(sigma**2 + gone @ beta**2))] * 2
    np.testing.assert_allclose(MODELS[model](sigma).log_loss(beta, x, y), -np.log(sum(parts) / 2), rtol=1e-10)


@pytest.mark.parametrize("diagonal", [False, True])
def test_k_components_are_those_of_scikit_learn(diagonal):
    x = load_iris().data
    model = clusters.Clusters(3, 4, diagonal)
    theta = clusters.fit(Records(x), model, 1.0, rounds=500, tolerance=1e-12)
    q = model.unpack(theta)
    other = GaussianMixture(  # from all of it: its own weights and covariances at these means lead elsewhere from some of the starts
        3,
        covariance_type="diag" if diagonal else "spherical",
        weights_init=q.weights,
        means_init=q.means,
        precisions_init=1 / (q.variances if diagonal else q.variances[:, 0]),
        tol=1e-9,
        max_iter=500,
        reg_covar=0,
    ).fit(x)
    assert -float(model.log_loss(theta, x).mean()) == pytest.approx(other.score(x), abs=1e-4)
    np.testing.assert_allclose(q.means, other.means_, atol=1e-2)
    np.testing.assert_allclose(q.weights, other.weights_, atol=1e-2)
    np.testing.assert_allclose(np.exp(model.responsibilities(theta, x)).sum(axis=1), 1.0)


def test_no_record_makes_a_nan():
    model = clusters.Clusters(2, 2, False)
    theta = clusters.Parameters(np.array([0.5, 0.5]), np.array([[1.0, 0.0], [-1.0, 0.0]]), np.full((2, 1), 1e-4)).packed
    x = np.array(list(itertools.product([0.0, 5e-324, 1e6, -1e154, 1e300], repeat=2)))
    shares = np.exp(model.responsibilities(theta, x))
    assert not np.isnan(shares).any()
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)


# ----------------------------------------------------------------------------------------------------------------- measures


def trial(model: clusters.Clusters, x, truth, reference=None) -> Trial:
    p = SimpleNamespace(oracle=model)
    return Trial(Records(x), p, truth, reference, None, mixture.truth, Population(Records(x)))


def test_errors_do_not_depend_on_the_order_of_components():
    g = np.random.default_rng(0)
    model, true, found = clusters.Clusters(4, 3, False), g.standard_normal((4, 3)), g.standard_normal((4, 3))
    t = trial(model, np.zeros((1, 3)), {f"theta{j + 1}": true[j] for j in range(4)})
    by_hand = min(math.sqrt(((found[list(order)] - true) ** 2).sum() / 4) for order in itertools.permutations(range(4)))
    for order in ([0, 1, 2, 3], [2, 0, 3, 1]):
        theta = clusters.Parameters(np.full(4, 0.25), found[order], np.ones((4, 1))).packed
        assert mixture.means_error(theta, t) == pytest.approx(by_hand)


def test_clustering_error_counts_records_after_the_best_renaming():
    model = clusters.Clusters(2, 1, False)
    x = np.array([[-2.0], [-1.0], [-0.2], [1.0], [2.0]])

    def at(low, high):
        return clusters.Parameters(np.array([0.5, 0.5]), np.array([[low], [high]]), np.ones((2, 1))).packed

    t = trial(model, x, {}, at(-1.0, 1.0))
    assert mixture.clustering_error(at(1.0, -1.0), t) == 0
    assert mixture.clustering_error(at(-2.0, 1.0), t) == pytest.approx(1 / 5)  # the middle of the means is -0.5
    np.testing.assert_allclose(mixture.truth(t), [[-1.0], [1.0]])
    assert mixture.log_loss(at(-1.0, 1.0), t) == pytest.approx(-np.log((norm.pdf(x, -1) + norm.pdf(x, 1)) / 2).mean())


def test_a_symmetric_mixture_is_measured_on_fresh_records_too():
    beta = np.array([1.5, 0.0])
    x, _ = drawn("gmm", 4000, beta, 0.5, 0)
    p = problem(2, 2)
    t = Trial(Records(x), p, {"theta": beta}, None, None, latent.TASK.truth, Population(Records(x)))
    assert latent.clustering_error(-beta, t) == 0
    assert latent.clustering_error(np.array([0.0, 1.0]), t) == pytest.approx(0.5, abs=0.03)  # at a right angle
    assert latent.log_loss(beta, t) == pytest.approx(p.oracle.log_loss(beta, x, None).mean())
    assert latent.log_loss(beta, t) < latent.log_loss(0.8 * beta, t)


SPEC = """
analysis "a"
data
  n = 600, d = 2
  sigma = 1, K = {k}
  from memory
  private, unit person, neighbours replace-one
  x in ball(l2, 6) by scale
privacy central
  epsilon = 1, delta = 1e-4
release m
  fit {task}
"""


@pytest.mark.parametrize(
    ("task", "k", "components", "diagonal"), [("gmm(3)", 9, 3, 0), ("gmm(2, spherical)", 9, 2, 0), ("gmm(4, diagonal)", 9, 4, 1)]
)
def test_a_mixture_states_its_components(task, k, components, diagonal):
    draft = compile_draft(parse_text(SPEC.format(task=task, k=k), surface="dps"))
    assert [d.message for d in draft.diagnostics if d.severity == "error"] == []
    facts = draft.releases[0].problem.facts
    assert (facts["components"], facts["diagonal"], facts["cluster_radius"]) == (components, diagonal, 6)


@pytest.mark.parametrize(
    ("task", "words"), [("gmm(3, full)", "one of the words"), ("gmm(2.5)", "whole number"), ("gmm(3, diagonal, 2)", "one of the words")]
)
def test_what_is_no_mixture_is_refused(task, words):
    from dpspec.spec.diagnostics import SpecError

    with pytest.raises(SpecError, match=words):
        parse_text(SPEC.format(task=task, k=2), surface="dps")
