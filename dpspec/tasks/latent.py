"""``fit gmm(2)``, ``fit mixture-of-regressions(2)``, ``fit regression-with-missing(p)``: beta* and what is not seen.

=============================  ====================================  =============================================================
model                          records                               gradient of Q(.; beta) at beta, of one record
=============================  ====================================  =============================================================
gmm(2)                         x = z beta* + sigma N(0, I)           tanh(<beta, x>/sigma^2) x - beta
mixture-of-regressions(2)      y = z <beta*, x> + sigma N(0, 1)      (tanh(y <beta, x>/sigma^2) y - <beta, x>) x
regression-with-missing(p)     y = <beta*, x> + sigma N(0, 1)        r x_j sigma^2/q where x_j is seen, (r^2/q - 1) beta_j sigma^2/q where
                                                                     it is not; r = y - <beta, x seen>, q = sigma^2 + |beta not seen|^2
=============================  ====================================  =============================================================

z is 1 or -1 with probability 1/2 each, so beta* of a mixture is known up to its sign. Entries of x are missing with probability p each,
independently (NaN in the records). sigma is known and public: a constant of the data section. The gradients are sigma^2 times those of the
log likelihood (Fisher), so where E x x^T = I (regressions) Q is 1-smooth and 1-strongly concave; one step of length 1 is the M-step of gmm.

000 (7.45), (7.47) and 002 (5), (7) print the posterior of z = 1 as 1/(1 + exp(-u)), which lacks a factor 2 in the exponent: it is
1/(1 + exp(-2 u)), u the argument of tanh, and the printed form is not consistent with itself (where |beta*|/sigma <= 1 its only fixed
point is 0). Their K of missing entries, (7.51), is no posterior moment either: (r^2/q - 1) beta_j without sigma^2/q, right at beta* alone.

How large a gradient is, at beta = beta*, *derived*: the posterior mean of z is self-consistent, E[tanh(u) x] = beta* (gmm), and a square
is at most the complete one's, so a coordinate has E g_j^2 <= E x_j^2 - beta*_j^2 = sigma^2; in the mixture of regressions, given x,
E[(tanh(u) y - <beta*, x>)^2] <= E y^2 - <beta*, x>^2 = sigma^2, so E g_j^2 <= sigma^2 E x_j^2; with missing entries r is N(0, q), so an
entry that is seen gives x_j^2 sigma^4/q, and one that is not 2 beta*_j^2 sigma^4/q^2 <= sigma^2/2 by q >= sigma^2 + beta*_j^2. That is the
fact ``gradient_sd``, for x of unit second moments unless `moment(order 2, bound t) of x` says otherwise.

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
from dpspec.numeric import latent
from dpspec.spec.expr import Num
from dpspec.spec.model import Fit
from dpspec.spec.words import Assumption
from dpspec.tasks.protocol import Binding, Reference, Refusal, Task, parameter

#: Words of ``assume`` that this task reads.
ASSUMED: Final = {
    "signal-to-noise": Assumption("|beta*|_2 is r sigma", ("signal_to_noise",)),
    "start": Assumption("the start is within q |beta*|_2 of beta* or of -beta*", ("start_within",)),
    "contraction": Assumption("the population gradient at beta is within g |beta - beta*|_2 of that of Q(.; beta*)", ("contraction",)),
}
#: kappa of the documents: gradients are contracted within this share of |beta*| (000 Lemmas 7.2.3, 7.2.5; with missing entries any below 1
#: that goes with p).
KAPPA: Final = {"gmm": 1 / 4, "mixture-of-regressions": 1 / 32, "regression-with-missing": 1 / 2}
#: In units of their spread, where truncation begins to matter. Products of two normals have exponential tails, and are larger far from
#: beta*.
TAILS: Final = {"gmm": 2.0, "mixture-of-regressions": 4.0, "regression-with-missing": 4.0}
_BLOCK: Final = 1 << 15


class Latent(Protocol):
    """What an algorithm asks of a latent model. Blocks are rows of records, dense or CSR; what a record gives is a function of it and of
    ``beta`` alone. Mixtures also have ``responsibilities(beta, x, y)``: logarithms of the posterior probabilities of z = 1 and z = -1,
    (rows, 2), which no record makes NaN. ``normal(beta, x, y)`` adds up a block's part of the M-step: beta' solves gram beta' = moment.
    ``terms``, of mixtures, is what the mean of is the M-step: of regressions, where E x x^T = I is known."""

    sigma: float

    def normal(self, beta: Array, x: Any, y: Any) -> tuple[Array, Array]:
        """Gram matrix (d, d) and moment (d,) of the block."""
        ...

    def log_loss(self, beta: Array, x: Any, y: Any) -> Array:
        """-log p(x; beta), of regressions -log p(y given x; beta), of each record, (rows,)."""
        ...

    def gradients(self, beta: Array, x: Any, y: Any) -> Array:
        """The gradient of each record's q(.; beta) at beta, (rows, d). Entries may be infinite or NaN for records of huge entries."""
        ...


def responses(y: Any) -> Array:
    """Raises ValueError where the records have none."""
    if y is None:
        raise ValueError("a regression needs responses y and the records have none")
    return np.asarray(y, dtype=np.float64)


def log_posterior(u: Array) -> Array:
    """log 1/(1 + exp(-2u)) and log 1/(1 + exp(2u)), (rows, 2): finite for finite u, -infinity only at the wrong sign of an infinite one."""
    with np.errstate(over="ignore"):
        return np.stack([-np.logaddexp(0.0, -2.0 * u), -np.logaddexp(0.0, 2.0 * u)], axis=1)


def dense(x: Any) -> Array:
    return x if isinstance(x, np.ndarray) else np.asarray(x.toarray())


def _log_cosh(u: Array) -> Array:
    return np.asarray(np.abs(u) + np.log1p(np.exp(-2 * np.abs(u))) - math.log(2))


@dataclass(frozen=True, slots=True)
class Mixture:
    """gmm(2): two spheres around beta and -beta."""

    sigma: float

    def _lean(self, beta: Array, x: Any) -> Array:
        with np.errstate(all="ignore"):
            return latent.finite(margins(x, beta) / self.sigma / self.sigma)

    def responsibilities(self, beta: Array, x: Any, y: Any) -> Array:
        return log_posterior(self._lean(beta, x))

    def gradients(self, beta: Array, x: Any, y: Any) -> Array:
        return latent.mixture(self.sigma, beta, dense(x), y)

    def terms(self, beta: Array, x: Any, y: Any) -> Array:
        """tanh(<beta, x>/sigma^2) x, (rows, d)."""
        with np.errstate(all="ignore"):
            return np.asarray(dense(x) * np.tanh(self._lean(beta, x))[:, None])

    def normal(self, beta: Array, x: Any, y: Any) -> tuple[Array, Array]:
        return x.shape[0] * np.eye(x.shape[1]), np.asarray(x.T @ np.tanh(self._lean(beta, x)))

    def log_loss(self, beta: Array, x: Any, y: Any) -> Array:
        rows, square = dense(x), self.sigma**2
        whole = (np.einsum("ij,ij->i", rows, rows) + beta @ beta) / (2 * square) + rows.shape[1] / 2 * math.log(2 * math.pi * square)
        return np.asarray(whole - _log_cosh(self._lean(beta, x)))

    def first(self, records: Any) -> Array:
        """From the second moment: E x x^T - sigma^2 I = beta* beta*^T."""

        def moment(x: Any, y: Any) -> Array:
            rows = x if isinstance(x, np.ndarray) else x.toarray()
            return np.asarray(rows.T @ rows - len(rows) * self.sigma**2 * np.eye(rows.shape[1]))

        return leading(records, moment, self.sigma)


@dataclass(frozen=True, slots=True)
class MixtureOfRegressions:
    """mixture-of-regressions(2): two lines through 0 of slopes beta and -beta."""

    sigma: float

    def _both(self, beta: Array, x: Any, y: Any) -> tuple[Array, Array]:
        with np.errstate(all="ignore"):
            fitted = margins(x, beta)
            return fitted, latent.finite(responses(y) * fitted / self.sigma / self.sigma)

    def responsibilities(self, beta: Array, x: Any, y: Any) -> Array:
        return log_posterior(self._both(beta, x, y)[1])

    def gradients(self, beta: Array, x: Any, y: Any) -> Array:
        return latent.regressions(self.sigma, beta, dense(x), responses(y))

    def terms(self, beta: Array, x: Any, y: Any) -> Array:
        """tanh(y <beta, x>/sigma^2) y x, (rows, d)."""
        lean = self._both(beta, x, y)[1]
        with np.errstate(all="ignore"):
            return np.asarray(dense(x) * (np.tanh(lean) * y)[:, None])

    def normal(self, beta: Array, x: Any, y: Any) -> tuple[Array, Array]:
        rows = dense(x)
        return rows.T @ rows, rows.T @ (np.tanh(self._both(beta, x, y)[1]) * y)

    def log_loss(self, beta: Array, x: Any, y: Any) -> Array:
        fitted, lean = self._both(beta, x, y)
        square = self.sigma**2
        whole = (np.square(y) + np.square(fitted)) / (2 * square) + math.log(2 * math.pi * square) / 2
        return np.asarray(whole - _log_cosh(lean))

    def first(self, records: Any) -> Array:
        """For standard normal x: E y^2 (x x^T - I) = 2 beta* beta*^T."""

        def moment(x: Any, y: Any) -> Array:
            rows, squares = x if isinstance(x, np.ndarray) else x.toarray(), responses(y) ** 2
            return np.asarray((rows * squares[:, None]).T @ rows - squares.sum() * np.eye(rows.shape[1])) / 2

        return leading(records, moment, self.sigma)


def leading(records: Any, moment: Any, least: float) -> Array:
    """beta where the sum of ``moment`` over the records is about n beta beta^T; of length ``least`` at least."""
    total = np.zeros((records.d, records.d))
    for x, y in records.blocks(_BLOCK):
        total += moment(x, y)
    values, vectors = np.linalg.eigh(total / records.n)
    return np.asarray(vectors[:, -1] * max(math.sqrt(max(float(values[-1]), 0.0)), least))


@dataclass(frozen=True, slots=True)
class RegressionWithMissing:
    """regression-with-missing(p): linear regression on records with entries that are not there (NaN)."""

    sigma: float

    def gradients(self, beta: Array, x: Any, y: Any) -> Array:
        return latent.missing(self.sigma, beta, dense(x), responses(y))

    def _seen(self, beta: Array, x: Any, y: Any) -> tuple[Array, Array, Array, Array]:
        """Which entries are missing, the others, what is left of y and its variance."""
        rows = dense(x)
        gone = np.isnan(rows)
        seen = np.where(gone, 0.0, rows)
        return gone, seen, responses(y) - margins(seen, beta), self.sigma**2 + margins(gone.astype(np.float64), beta * beta)

    def normal(self, beta: Array, x: Any, y: Any) -> tuple[Array, Array]:
        """The posterior second moment of x, which is m m^T + diag(missing) - (beta missing)(beta missing)^T/q, and y times its mean m."""
        gone, seen, rest, spread = self._seen(beta, x, y)
        guessed = np.where(gone, beta, 0.0)
        mean, less = seen + guessed * (rest / spread)[:, None], guessed / np.sqrt(spread)[:, None]
        return mean.T @ mean + np.diag(gone.sum(axis=0)) - less.T @ less, mean.T @ responses(y)

    def log_loss(self, beta: Array, x: Any, y: Any) -> Array:
        _, _, rest, spread = self._seen(beta, x, y)
        return np.asarray(rest**2 / (2 * spread) + np.log(2 * math.pi * spread) / 2)

    def first(self, records: Any) -> Array:
        """For standard normal x: E[y x_j given that x_j is seen] = beta*_j."""
        total, seen = np.zeros(records.d), np.zeros(records.d)
        for x, y in records.blocks(_BLOCK):
            rows = x if isinstance(x, np.ndarray) else x.toarray()
            total += np.nansum(rows * responses(y)[:, None], axis=0)
            seen += (~np.isnan(rows)).sum(axis=0)
        return np.asarray(total / np.maximum(seen, 1.0))


MODELS: Final = {"gmm": Mixture, "mixture-of-regressions": MixtureOfRegressions, "regression-with-missing": RegressionWithMissing}


def facts(binding: Binding) -> Mapping[str, float]:
    """``gradient_sd``, ``tails``, ``kappa`` (above), and ``gradient_moment``: a bound of the second
    moment of every coordinate of a gradient within kappa |beta*| of beta* (by Minkowski; |beta*|_inf is at most |beta*|_2). Of mixtures, of
    the terms f of the M-step (E f = beta* at the truth): ``step_moment``, E f_j^2 <= E x_j^2, or E y^2 x_j^2, and ``step_sd``."""
    known, model = binding.problem.facts, binding.node.model
    if "sigma" not in known or model not in MODELS or not known["sigma"] > 0:
        return {}
    sigma, kappa = known["sigma"], KAPPA[model]
    second = known.get("moment_bound_x", 1.0) ** (2 / known.get("moment_order_x", 2.0)) if model != "gmm" else 1.0
    second = max(second, 0.5) if model == "regression-with-missing" else second
    found = {"gradient_sd": sigma * math.sqrt(second), "tails": TAILS[model], "kappa": kappa}
    if model == "gmm":
        found["step_sd"] = sigma
    if "signal_to_noise" in known:
        size = known["signal_to_noise"] * sigma
        mean = math.hypot(size, sigma) + (1 + kappa) * size
        lines = math.sqrt(3 * size**2 + sigma**2) + math.sqrt(3) * (1 + kappa) * size
        whole = sigma**2 + (1 + kappa**2) * size**2
        missing = max(3 * whole, 3 * whole**2 / (4 * sigma**2) + (1 + kappa) ** 2 * size**2)
        found["gradient_moment"] = {"gmm": mean**2, "mixture-of-regressions": lines**2, "regression-with-missing": missing}[model]
        if model == "gmm":
            found["step_moment"] = size**2 + sigma**2
        elif model == "mixture-of-regressions":  # E y^2 x_j^2 = |beta*|^2 + 2 beta*_j^2 + sigma^2 for standard normal x
            found |= {"step_moment": 3 * size**2 + sigma**2, "step_sd": math.sqrt(2 * size**2 + sigma**2)}
    return found


def check(binding: Binding) -> Iterable[Refusal]:
    node = binding.node
    if node.model != "regression-with-missing" and (parts := _parts(node)) is not None and parts != 2:
        more = " (gmm(3) and gmm(2, diagonal) are mixtures of components with means of their own)" if node.model == "gmm" else ""
        yield Refusal(f"{node.model}({parts:g}): two components, of opposite means, are fitted{more}", f"fit {node.model}(2)")
    sigma = binding.problem.facts.get("sigma")
    if sigma is None or not 1e-100 <= sigma <= 1e100:
        yield Refusal(
            "the noise level sigma of the model has no value"
            if sigma is None
            else f"sigma is {sigma:g}; a noise level is a usual positive number",
            "it is public: sigma = 0.5 in the data section",
            code="DP411",
        )
    if labelled(node) and not _has_response(binding):
        yield Refusal("a regression has responses y, and the laws of this spec have none", "y = rademacher*<x, theta> + normal(0, 1)")


def labelled(node: Any) -> bool:
    """Whether the model has responses y."""
    return bool(node.model != "gmm")


def _has_response(binding: Binding) -> bool:
    return not binding.analysis.simulate or any(law.variable == "y" for law in binding.analysis.simulate)


def _parts(node: Any) -> float | None:
    first = node.args[0] if node.args else None
    return float(first.value) if isinstance(first, Num) else None


def bind(binding: Binding) -> Any:
    model = MODELS.get(binding.node.model)
    return None if model is None else model(binding.problem.facts["sigma"])


def reference(records: Any, problem: Problem, settings: Mapping[str, Any]) -> Reference:
    """Gradient EM without noise, :mod:`dpspec.algorithms.em.gradient_em`."""
    from dpspec.algorithms.em.gradient_em import climb

    return climb(records, problem.oracle, 200, 1.0, 1e-9), None


def up_to_sign(beta: Array, trial: Trial) -> float:
    """min(|beta - beta*|_2, |beta + beta*|_2): the sign of a symmetric mixture is a name; that of a regression is not."""
    if trial.problem.task.model == "regression-with-missing":
        return float(np.linalg.norm(beta - trial.true))
    return min(float(np.linalg.norm(beta - trial.true)), float(np.linalg.norm(beta + trial.true)))


def log_loss(beta: Array, trial: Trial) -> float:
    """The mean of -log p over fresh records of the law."""
    assert trial.population is not None
    found = [trial.problem.oracle.log_loss(beta, x, y) for x, y in trial.population.records.blocks(_BLOCK)]
    return float(np.mean(np.concatenate(found)))


def clustering_error(beta: Array, trial: Trial) -> float:
    """The share of fresh records of the law that a mixture puts into another component than the true one does, up to a swap."""
    assert trial.population is not None
    if not hasattr(trial.problem.oracle, "responsibilities"):
        raise LookupError("a regression with missing entries has no components")

    def first(b: Array) -> Array:
        parts = [trial.problem.oracle.responsibilities(b, x, y) for x, y in trial.population.records.blocks(_BLOCK)]  # type: ignore[union-attr]
        return np.concatenate([part[:, 0] >= part[:, 1] for part in parts])

    share = float(np.mean(first(beta) != first(trial.true)))
    return min(share, 1 - share)


def symmetric(node: Any) -> bool:
    """Whether the model has one vector beta: a mixture of K spheres or ellipsoids is another question (:mod:`dpspec.tasks.mixture`)."""
    return node.model != "gmm" or (len(node.args) == 1 and (_parts(node) or 2) <= 2)


TASK = Task(
    name="latent",
    serves=lambda node: isinstance(node, Fit) and symmetric(node),
    words=("fit",),
    measures=(
        Measure("l2-error-up-to-sign", up_to_sign, "truth"),
        Measure("squared-l2-error-up-to-sign", lambda beta, trial: up_to_sign(beta, trial) ** 2, "truth"),
        *DISTANCES,
        Measure("log-loss", log_loss, "population"),
        Measure("clustering-error", clustering_error, "population"),
    ),
    assumes=ASSUMED,
    facts=facts,
    check=check,
    bind=bind,
    reference=reference,
    truth=parameter,
    labelled=labelled,
    missing=lambda node: node.model == "regression-with-missing",
)
