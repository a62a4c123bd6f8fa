"""``fit gmm(2)``, ``fit mixture-of-regressions(2)``: models with a hidden sign, z = 1 or -1 with probability 1/2 each.

==========================  =========================================  ==========================================
model                       records                                    gradient of Q(.; beta) at beta, of one record
==========================  =========================================  ==========================================
gmm(2)                      x = z beta* + sigma N(0, I)                tanh(<beta, x>/sigma^2) x - beta
mixture-of-regressions(2)   y = z <beta*, x> + sigma N(0, 1)           (tanh(y <beta, x>/sigma^2) y - <beta, x>) x
==========================  =========================================  ==========================================

sigma is known and public: a constant of the data section. beta* is known up to its sign. The gradients are sigma^2 times those of the log
likelihood (Fisher), so Q is 1-smooth and 1-strongly concave, and one step of length 1 is the M-step (gmm). 000 (7.45), (7.47) and 002
(5), (7) print the posterior 1/(1 + exp(-u)), which lacks a factor 2 in the exponent: that of z = 1 is 1/(1 + exp(-2 u)), u the argument
of tanh, and the printed form is not consistent with itself (where
|beta*|/sigma <= 1 its only fixed point is 0).

How large a gradient is, at beta = beta*, *derived*: the posterior mean of z is self-consistent, E[tanh(u) x] = beta* (gmm), and a square
is at most the complete one's, so a coordinate has E g_j^2 <= E x_j^2 - beta*_j^2 = sigma^2; in the mixture of regressions, given x,
E[(tanh(u) y - <beta*, x>)^2] <= E y^2 - <beta*, x>^2 = sigma^2, so E g_j^2 <= sigma^2 E x_j^2. That is the fact ``gradient_sd``, for x of
unit second moments unless `moment(order 2, bound t) of x` says otherwise.

What the spec may assume, each a fact: ``signal-to-noise(r)``: |beta*|_2 is r sigma (``signal_to_noise``); ``start(q)``: the start is within
q |beta*|_2 of beta* or of -beta* (``start_within``); ``contraction(g)``: the population gradient at beta is within g |beta - beta*| of
that of Q(.; beta*) (``contraction``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np

from dpspec.algorithms.card import Problem
from dpspec.algorithms.objective import margins
from dpspec.measures.measure import Array, Measure, Trial
from dpspec.measures.vector import DISTANCES
from dpspec.spec.expr import NotANumber, Num, Unbound, evaluate
from dpspec.spec.model import Fit
from dpspec.tasks.protocol import Binding, Reference, Refusal, Task, parameter

#: Words of ``assume`` that this task reads, and the facts that they become.
ASSUMED: Final = {"signal-to-noise": "signal_to_noise", "start": "start_within", "contraction": "contraction"}
#: kappa of the documents: gradients are contracted within this share of |beta*| (000 Lemmas 7.2.3, 7.2.5).
KAPPA: Final = {"gmm": 1 / 4, "mixture-of-regressions": 1 / 32}
#: In units of their spread, where truncation begins to matter. Products of two normals have exponential tails, and are larger far from
#: beta*.
TAILS: Final = {"gmm": 2.0, "mixture-of-regressions": 4.0}
_BLOCK: Final = 1 << 15


class Latent(Protocol):
    """What an algorithm asks of a latent model. Blocks are rows of records, dense or CSR; NaN and infinite products count as 0, and what a
    record gives is a function of it and of ``beta`` alone."""

    sigma: float

    def responsibilities(self, beta: Array, x: Any, y: Any) -> Array:
        """Logarithms of the posterior probabilities of z = 1 and z = -1, (rows, 2); no record makes one NaN."""
        ...

    def gradients(self, beta: Array, x: Any, y: Any) -> Array:
        """The gradient of each record's q(.; beta) at beta, (rows, d). Entries may be infinite or NaN for records of huge entries."""
        ...


def responses(y: Any) -> Array:
    """Raises ValueError where the records have none."""
    if y is None:
        raise ValueError("a mixture of regressions needs responses y and the records have none")
    return np.asarray(y, dtype=np.float64)


def _finite(u: Array) -> Array:
    """An inner product that overflows in both directions at once is no number: it says nothing about the sign."""
    return np.where(np.isnan(u), 0.0, u)


def log_posterior(u: Array) -> Array:
    """log 1/(1 + exp(-2u)) and log 1/(1 + exp(2u)), (rows, 2): finite for finite u, -infinity only at the wrong sign of an infinite one."""
    with np.errstate(over="ignore"):
        return np.stack([-np.logaddexp(0.0, -2.0 * u), -np.logaddexp(0.0, 2.0 * u)], axis=1)


@dataclass(frozen=True, slots=True)
class Mixture:
    """gmm(2): two spheres around beta and -beta."""

    sigma: float

    def _lean(self, beta: Array, x: Any) -> Array:
        with np.errstate(all="ignore"):
            return _finite(margins(x, beta) / self.sigma / self.sigma)

    def responsibilities(self, beta: Array, x: Any, y: Any) -> Array:
        return log_posterior(self._lean(beta, x))

    def gradients(self, beta: Array, x: Any, y: Any) -> Array:
        lean = np.tanh(self._lean(beta, x))
        rows = x if isinstance(x, np.ndarray) else x.toarray()
        with np.errstate(all="ignore"):
            return np.asarray(rows * lean[:, None] - beta)

    def moment(self, x: Any, y: Any) -> Array:
        """sum x x^T - sigma^2 I: its leading eigenvector is the direction of beta*, its eigenvalue n |beta*|^2."""
        rows = x if isinstance(x, np.ndarray) else x.toarray()
        return np.asarray(rows.T @ rows - len(rows) * self.sigma**2 * np.eye(rows.shape[1]))

    def size(self, eigenvalue: float) -> float:
        return math.sqrt(max(eigenvalue, 0.0))


@dataclass(frozen=True, slots=True)
class MixtureOfRegressions:
    """mixture-of-regressions(2): two lines through 0 of slopes beta and -beta."""

    sigma: float

    def _both(self, beta: Array, x: Any, y: Any) -> tuple[Array, Array]:
        with np.errstate(all="ignore"):
            fitted = margins(x, beta)
            return fitted, _finite(responses(y) * fitted / self.sigma / self.sigma)

    def responsibilities(self, beta: Array, x: Any, y: Any) -> Array:
        return log_posterior(self._both(beta, x, y)[1])

    def gradients(self, beta: Array, x: Any, y: Any) -> Array:
        fitted, lean = self._both(beta, x, y)
        rows = x if isinstance(x, np.ndarray) else x.toarray()
        with np.errstate(all="ignore"):
            return np.asarray(rows * (np.tanh(lean) * y - fitted)[:, None])

    def moment(self, x: Any, y: Any) -> Array:
        """sum y^2 (x x^T - I): for standard normal x its mean is 2 n beta* beta*^T."""
        rows = x if isinstance(x, np.ndarray) else x.toarray()
        squares = responses(y) ** 2
        return np.asarray((rows * squares[:, None]).T @ rows - squares.sum() * np.eye(rows.shape[1])) / 2

    def size(self, eigenvalue: float) -> float:
        return math.sqrt(max(eigenvalue, 0.0))


MODELS: Final = {"gmm": Mixture, "mixture-of-regressions": MixtureOfRegressions}


def facts(binding: Binding) -> Mapping[str, float]:
    """The assumptions that have a value, ``gradient_sd``, ``tails``, ``kappa`` (above), and ``gradient_moment``: a bound of the second
    moment of every coordinate of a gradient within kappa |beta*| of beta* (by Minkowski; |beta*|_inf is at most |beta*|_2)."""
    found = {}
    for stated in binding.analysis.assume:
        if stated.name in ASSUMED and stated.args:
            try:
                found[ASSUMED[stated.name]] = float(evaluate(stated.args[0], binding.facts))
            except (Unbound, NotANumber):
                continue
    known, model = binding.problem.facts, binding.node.model
    if "sigma" not in known or model not in MODELS or not known["sigma"] > 0:
        return found
    sigma, kappa = known["sigma"], KAPPA[model]
    second = known.get("moment_bound_x", 1.0) ** (2 / known.get("moment_order_x", 2.0)) if model != "gmm" else 1.0
    found.update(gradient_sd=sigma * math.sqrt(second), tails=TAILS[model], kappa=kappa)
    if "signal_to_noise" in found:
        size = found["signal_to_noise"] * sigma
        mean = math.hypot(size, sigma) + (1 + kappa) * size
        lines = math.sqrt(3 * size**2 + sigma**2) + math.sqrt(3) * (1 + kappa) * size
        found["gradient_moment"] = mean**2 if model == "gmm" else lines**2
    return found


def check(binding: Binding) -> Iterable[Refusal]:
    node = binding.node
    if node.model not in MODELS:
        yield Refusal(
            f"{node.model} is not fitted yet: records with missing entries are not read",
            f"fit {' or fit '.join(f'{name}(2)' for name in MODELS)}",
        )
    elif (parts := _parts(node)) is not None and parts != 2:
        yield Refusal(f"{node.model}({parts:g}): two components, of opposite means, are fitted", f"fit {node.model}(2)")
    sigma = binding.problem.facts.get("sigma")
    if sigma is None or not 1e-100 <= sigma <= 1e100:
        yield Refusal(
            "the noise level sigma of the model has no value"
            if sigma is None
            else f"sigma is {sigma:g}; a noise level is a usual positive number",
            "it is public: sigma = 0.5 in the data section",
            code="DP411",
        )
    if node.model == "mixture-of-regressions" and not _has_response(binding):
        yield Refusal(
            "a mixture of regressions has responses y, and the laws of this spec have none", "y = rademacher*<x, theta> + normal(0, 1)"
        )


def _has_response(binding: Binding) -> bool:
    return not binding.analysis.simulate or any(law.variable == "y" for law in binding.analysis.simulate)


def _parts(node: Any) -> float | None:
    first = node.args[0] if node.args else None
    return float(first.value) if isinstance(first, Num) else None


def bind(binding: Binding) -> Any:
    model = MODELS.get(binding.node.model)
    return None if model is None else model(binding.problem.facts["sigma"])


def reference(records: Any, problem: Problem, settings: Mapping[str, Any]) -> Reference:
    """Gradient EM without noise from the leading direction of the moments, 200 steps of length 1 or until it stands still."""
    model: Any = problem.oracle
    moment = np.zeros((records.d, records.d))
    for x, y in records.blocks(_BLOCK):
        moment += model.moment(x, y)
    values, vectors = np.linalg.eigh(moment / records.n)
    beta = vectors[:, -1] * max(model.size(float(values[-1])), problem.facts["sigma"])
    for _ in range(200):
        step = sum(model.gradients(beta, x, y).sum(axis=0) for x, y in records.blocks(_BLOCK)) / records.n
        beta = beta + step
        if float(np.linalg.norm(step)) <= 1e-9 * float(np.linalg.norm(beta)):
            break
    return beta, None


def up_to_sign(beta: Array, trial: Trial) -> float:
    """min(|beta - beta*|_2, |beta + beta*|_2): the sign of a symmetric mixture is a name."""
    return min(float(np.linalg.norm(beta - trial.true)), float(np.linalg.norm(beta + trial.true)))


TASK = Task(
    name="latent",
    serves=lambda node: isinstance(node, Fit),
    words=("fit",),
    measures=(
        Measure("l2-error-up-to-sign", up_to_sign, "truth"),
        Measure("squared-l2-error-up-to-sign", lambda beta, trial: up_to_sign(beta, trial) ** 2, "truth"),
        *DISTANCES,
    ),
    facts=facts,
    check=check,
    bind=bind,
    reference=reference,
    truth=parameter,
    labelled=lambda node: node.model == "mixture-of-regressions",
)
