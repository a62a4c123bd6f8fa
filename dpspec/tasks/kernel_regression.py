"""``regress y on kernel(rbf, gamma)``: a function f with small E (f(x) - y)^2, of a space with the kernel k.

Kernels: rbf, k = exp(-gamma |x - x'|_2^2), and laplacian, k = exp(-gamma |x - x'|_1). gamma is a public number of the spec. What is
released is f itself, as random Fourier features: a table of one row a frequency s, (s, a, b), and

    f(x) = sum over the rows of (a cos<s, x> + b sin<s, x>)/sqrt(rows).

``prediction-error`` is the mean of (f(x) - y)^2 over fresh records of the law, ``training-error`` over those of the trial, both over at
most 2^15 of them. The reference is ridge regression on features without noise, of as many.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from dpspec.algorithms.card import Problem
from dpspec.algorithms.nldp_erm.random_fourier_features import KERNELS, features, frequencies
from dpspec.measures.measure import Array, Measure, Trial
from dpspec.spec.expr import NotANumber, Unbound, evaluate
from dpspec.spec.model import Regress
from dpspec.tasks.protocol import Binding, Reference, Refusal, Task, fitted

#: Frequencies of the reference, and the seed of their draw.
PAIRS: Final = 100
SEED: Final = 0
#: Records that the reference and the measures read.
MOST: Final = 1 << 15
_BLOCK: Final = 1 << 13


def facts(binding: Binding) -> Mapping[str, float]:
    """``gamma``, the parameter of the kernel (1 unless given)."""
    if not binding.node.args:
        return {"gamma": 1.0}
    with contextlib.suppress(Unbound, NotANumber):
        return {"gamma": float(evaluate(binding.node.args[0], binding.facts))}
    return {}


def check(binding: Binding) -> Iterable[Refusal]:
    node = binding.node
    if node.kernel not in KERNELS:
        yield Refusal(f"no kernel {node.kernel}: {' and '.join(KERNELS)} are known", "regress y on kernel(rbf, 1/2)")
    elif len(node.args) > 1:
        yield Refusal(f"kernel({node.kernel}) takes one parameter, gamma", f"regress y on kernel({node.kernel}, 1/2)")


def predictions(model: Array, x: Any, d: int) -> Array:
    """f at the rows of x, (rows,), from a table of rows (s, a, b)."""
    table = np.asarray(model).reshape(-1, d + 2)
    phi = features(x if isinstance(x, np.ndarray) else x.toarray(), table[:, :d])
    return np.asarray(phi @ np.concatenate([table[:, d], table[:, d + 1]]))


def packed(s: Array, weights: Array) -> Array:
    """The table, flat: frequencies (D, d) and the weights (2 D,) of their cosines and sines."""
    return np.column_stack([s, weights[: len(s)], weights[len(s) :]]).reshape(-1)


def ridge(second: Array, cross: Array, c: float) -> Array:
    """The minimiser of C (<w, S w>/2 - <b, w>) + |w|^2/2: (C S + I)^-1 C b, S with no negative eigenvalue."""
    return np.asarray(np.linalg.solve(c * second + np.eye(len(cross)), c * cross))


def first(records: Any) -> Iterator[tuple[Any, Array]]:
    """The first :data:`MOST` records in blocks."""
    start = 0
    for x, y in records.blocks(_BLOCK):
        stop = min(start + x.shape[0], MOST)
        yield x[: stop - start], y[: stop - start]
        if (start := stop) == MOST:
            return


def reference(records: Any, problem: Problem, settings: Mapping[str, Any]) -> Reference:
    """Ridge regression on :data:`PAIRS` pairs of features, C the number of records: a ridge of 1 for their sum."""
    s = frequencies(problem.task.kernel, problem.facts["gamma"], PAIRS, records.d, np.random.default_rng(SEED))
    second, cross = np.zeros((2 * PAIRS, 2 * PAIRS)), np.zeros(2 * PAIRS)
    n = min(records.n, MOST)
    for x, y in first(records):
        phi = features(x if isinstance(x, np.ndarray) else x.toarray(), s)
        second += phi.T @ phi
        cross += phi.T @ y
    return packed(s, ridge(second / n, cross / n, float(n))), None


def squared_error(model: Array, records: Any, d: int) -> float:
    total = sum(float(((predictions(model, x, d) - y) ** 2).sum()) for x, y in first(records))
    return float(total / min(records.n, MOST))


def prediction_error(model: Array, trial: Trial) -> float:
    """E (f(x) - y)^2 on fresh records of the law."""
    assert trial.population is not None
    return squared_error(model, trial.population.records, trial.problem.d)


def training_error(model: Array, trial: Trial) -> float:
    """The mean of (f(x) - y)^2 over the records of the trial."""
    return squared_error(model, trial.records, trial.problem.d)


def arrays(estimate: Any, problem: Problem) -> dict[str, Any]:
    """``frequencies``, (D, d), and ``weights`` of their cosines and sines, (D, 2)."""
    table = np.asarray(estimate.theta).reshape(-1, problem.d + 2)
    return {"frequencies": table[:, : problem.d], "weights": table[:, problem.d :]}


TASK = Task(
    name="kernel-regression",
    serves=lambda node: isinstance(node, Regress),
    words=("regress", "kernel-regression"),
    measures=(Measure("prediction-error", prediction_error, "population"), Measure("training-error", training_error, "records")),
    facts=facts,
    check=check,
    reference=reference,
    truth=fitted,
    trivial=lambda problem: np.zeros(problem.d + 2),
    arrays=arrays,
)
