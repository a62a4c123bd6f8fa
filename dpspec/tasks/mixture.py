"""``fit gmm(K)``, ``fit gmm(K, spherical)``, ``fit gmm(K, diagonal)``: weights, means and variances of K Gaussian components.

``gmm(2)`` alone is the symmetric mixture of two components (:mod:`dpspec.tasks.latent`); ``gmm(2, spherical)`` has two means of their own.
``sigma``, a public constant of the data section, is the *largest* standard deviation that a component may have in any coordinate: clips
are made of it, and it is where EM begins. Where records are comes from the domain of x, or from an option of the algorithm.

The law of a study names the means ``theta1``, ``theta2``, ...: ``x ~ mixture(0.5, theta1 + normal(0, 0.2), 0.5, theta2 + normal(0, 0.1))``.

Facts: ``components`` (K), ``diagonal`` (1, else 0), ``cluster_radius`` (an enforced l2 bound of the records, where there is one).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

from dpspec.algorithms.card import Problem
from dpspec.algorithms.em._clusters import Clusters, fit
from dpspec.measures.measure import Array, Measure, Trial
from dpspec.spec.expr import Name, NotANumber, Num, Unbound, evaluate
from dpspec.spec.model import Fit
from dpspec.spec.words import COVARIANCES
from dpspec.tasks.latent import KAPPA, TAILS, symmetric
from dpspec.tasks.protocol import Binding, Reference, Refusal, Task, fitted

_BLOCK: Final = 1 << 15
#: Facts that algorithms of two opposite components have formulas of: so that those say in words why they refuse.
_OPPOSITE: Final = {"kappa": KAPPA["gmm"], "tails": TAILS["gmm"]}
#: More components than this are no mixture that EM finds.
MOST: Final = 1000


def parts(node: Any, known: Mapping[str, Any]) -> int | None:
    """K, or None where it is no whole number of at least 1."""
    e = node.args[0] if node.args else None
    if e is None:
        return None
    try:
        value = float(e.value) if isinstance(e, Num) else float(evaluate(e, dict(known)))
    except (Unbound, NotANumber):
        return None
    return int(value) if value == int(value) and 1 <= value <= MOST else None


def covariance(node: Any) -> str:
    """``spherical`` where nothing is said."""
    e = node.args[1] if len(node.args) > 1 else None
    return e.id if isinstance(e, Name) else COVARIANCES[0]


def facts(binding: Binding) -> Mapping[str, float]:
    known = binding.problem.facts
    k = parts(binding.node, {**binding.facts, **known})
    found = {"components": float(k or 0), "diagonal": float(covariance(binding.node) == "diagonal"), **_OPPOSITE}
    if "sigma" in known:
        found["gradient_sd"] = known["sigma"]
    if "x_l2" in known or "x_linf" in known:
        found["cluster_radius"] = min(known.get("x_l2", math.inf), known.get("x_linf", math.inf) * math.sqrt(binding.problem.d))
    return found


def check(binding: Binding) -> Iterable[Refusal]:
    known = binding.problem.facts
    if parts(binding.node, {**binding.facts, **known}) is None:
        yield Refusal(f"the number of components is a whole number from 1 to {MOST}", "fit gmm(3)")
    sigma = known.get("sigma")
    if sigma is None or not 1e-100 <= sigma <= 1e100:
        yield Refusal(
            "the largest standard deviation sigma of a component has no value"
            if sigma is None
            else f"sigma is {sigma:g}; a standard deviation is a usual positive number",
            "it is public: sigma = 0.5 in the data section",
            code="DP411",
        )


def model_of(problem: Problem) -> Clusters:
    return Clusters(int(problem.facts["components"]), int(problem.facts.get("features", problem.d)), bool(problem.facts["diagonal"]))


def bind(binding: Binding) -> Clusters:
    return model_of(binding.problem)


def reference(records: Any, problem: Problem, settings: Mapping[str, Any]) -> Reference:
    """EM without noise from k-means, :func:`dpspec.algorithms.em._clusters.fit`."""
    return fit(records, problem.oracle, problem.facts["sigma"]), None


def truth(trial: Trial) -> Array:
    """The means of the law, (K, d), where it names theta1, theta2, ...; else those of the fit without noise."""
    model: Clusters = trial.problem.oracle
    names = [f"theta{j + 1}" for j in range(model.k)]
    if all(name in trial.truth for name in names):
        return np.stack([np.asarray(trial.truth[name], dtype=np.float64) for name in names])
    return model.unpack(fitted(trial)).means


def matched(found: Array, true: Array) -> Array:
    """Distances in l2 between components that belong together: the pairing of least total squared distance (Hungarian method)."""
    from scipy.optimize import linear_sum_assignment

    squares = ((found[:, None, :] - true) ** 2).sum(axis=2)
    return np.asarray(np.sqrt(squares[linear_sum_assignment(squares)]))


def means_error(theta: Array, trial: Trial) -> float:
    """The root of the mean over components of |mu_k - mu*_k|_2^2, components in the order that makes it least."""
    return float(np.sqrt(np.mean(matched(trial.problem.oracle.unpack(theta).means, trial.true) ** 2)))


def log_loss(theta: Array, trial: Trial) -> float:
    """The mean of -log p over fresh records of the law."""
    assert trial.population is not None
    found = [trial.problem.oracle.log_loss(theta, x) for x, _ in trial.population.records.blocks(_BLOCK)]
    return float(np.mean(np.concatenate(found)))


def assigned(model: Clusters, theta: Array, records: Any) -> Array:
    """The likeliest component of each record, (n,)."""
    return np.concatenate([model.responsibilities(theta, x).argmax(axis=1) for x, _ in records.blocks(_BLOCK)])


def clustering_error(theta: Array, trial: Trial) -> float:
    """The share of the records that are put into another component than by the fit without noise, components renamed so that it is
    least."""
    from scipy.optimize import linear_sum_assignment

    model: Clusters = trial.problem.oracle
    pairs = assigned(model, theta, trial.records) * model.k + assigned(model, fitted(trial), trial.records)
    table = np.bincount(pairs.astype(np.int64), minlength=model.k**2).reshape(model.k, model.k)
    return float(1 - table[linear_sum_assignment(-table)].sum() / table.sum())


def arrays(estimate: Any, problem: Problem) -> dict[str, Any]:
    q = model_of(problem).unpack(estimate.theta)
    return {"weights": q.weights, "means": q.means, "variances": q.variances}


TASK = Task(
    name="mixture",
    serves=lambda node: isinstance(node, Fit) and not symmetric(node),
    words=("fit", "fit-mixture"),
    measures=(
        Measure("means-error-up-to-permutation", means_error, "law"),
        Measure("clustering-error", clustering_error, "reference"),
        Measure("log-loss", log_loss, "population"),
    ),
    facts=facts,
    check=check,
    bind=bind,
    reference=reference,
    truth=truth,
    trivial=lambda problem: None,
    labelled=lambda node: False,
    arrays=arrays,
)
