"""``answer smooth-queries(h)``: means of f(x) over the records, for functions f with bounded derivatives up to the order h.

Records lie in a box, which is mapped to [-1, 1]^d: u. What is released is a table of Chebyshev moments, of t^d numbers, from which the mean
of *any* such f is read: ``sum_v c_v moments[v]``, c the Chebyshev coefficients of f in u. The error is measured on a fixed battery of
functions whose partial derivatives up to the order h are at most 1 in absolute value, against their means over the records of the trial:

* waves cos(<w, u> + p)/|w|_inf^h, w in {0, 1, 2, 3}^d not 0, p in {0, pi/2};
* bumps b^h exp(-|u - c|^2/(2 b^2))/sqrt(h!), the kernels of density estimates: b in {1, 1/2, 1/4}, c the centre and the middles between it
  and the corners (by |He_k(z)| exp(-z^2/4) <= sqrt(k!), Cramer).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

from dpspec.algorithms.card import Problem
from dpspec.algorithms.nldp_erm._chebyshev import battery, battery_coefficients, queries
from dpspec.measures.measure import Array, Measure, Trial
from dpspec.spec.expr import NotANumber, Unbound, evaluate
from dpspec.spec.model import Answer
from dpspec.tasks.protocol import Binding, Refusal, Task

#: More variables have no answer at any n that there is: the error falls like n^(-h/(2 d + 2 h)).
MOST_VARIABLES: Final = 4
MOST_ORDER: Final = 8


def facts(binding: Binding) -> Mapping[str, float]:
    """``order``, the h of the spec; ``queries``, the size of the battery."""
    found: dict[str, float] = {}
    if binding.node.args:
        with contextlib.suppress(Unbound, NotANumber):
            found["order"] = float(evaluate(binding.node.args[0], binding.facts))
    if binding.problem.d <= MOST_VARIABLES:
        found["queries"] = float(queries(binding.problem.d))
    return found


def check(binding: Binding) -> Iterable[Refusal]:
    known, given = binding.problem.facts, facts(binding)
    if "x_low" not in known or "x_high" not in known or not known["x_high"] > known["x_low"]:
        yield Refusal("smooth queries are functions on a box, and the enforced domain of x is in none", "x in [-1, 1] by clip")
    if binding.problem.d > MOST_VARIABLES:
        yield Refusal(
            f"smooth queries of d = {binding.problem.d} variables: {MOST_VARIABLES} are the most, as at least (h + 1)^d moments are needed"
            f" ({(given.get('order', 1.0) + 1) ** binding.problem.d:.3g} here)",
            "name fewer columns",
        )
    if "order" in given and given["order"] > MOST_ORDER:
        yield Refusal(f"smooth-queries({given['order']:g}): an order of {MOST_ORDER} is the most", f"answer smooth-queries({MOST_ORDER})")


def answers(moments: Array, d: int, h: int) -> Array:
    """The battery's answers, (Q,), from t^d moments."""
    t = round(moments.size ** (1 / d))
    return np.asarray(np.ravel(moments) @ battery_coefficients(d, h, t))


def exact(records: Any, problem: Problem) -> Array:
    """The means of the battery over the records, (Q,)."""
    low, high, h = problem.facts["x_low"], problem.facts["x_high"], int(problem.facts["order"])
    total = np.zeros(queries(records.d))
    for x, _ in records.blocks(1 << 13):
        rows = x if isinstance(x, np.ndarray) else x.toarray()
        total += battery((rows - (low / 2 + high / 2)) / (high / 2 - low / 2), h).sum(axis=0)
    return np.asarray(total / records.n)


def _errors(moments: Array, trial: Trial) -> Array:
    p = trial.problem
    return np.abs(answers(np.asarray(moments), p.d, int(p.facts["order"])) - exact(trial.records, p))


def arrays(estimate: Any, problem: Problem) -> dict[str, Any]:
    """``moments``, one axis of t degrees a variable."""
    t = round(estimate.theta.size ** (1 / problem.d))
    return {"moments": estimate.theta.reshape([t] * problem.d)}


TASK = Task(
    name="smooth-queries",
    serves=lambda node: isinstance(node, Answer) and node.queries == "smooth-queries",
    words=("answer-smooth", "smooth-queries"),
    measures=(
        Measure("max-query-error", lambda m, trial: float(_errors(m, trial).max()), "records", compared=False),
        Measure("mean-query-error", lambda m, trial: float(_errors(m, trial).mean()), "records", compared=False),
    ),
    facts=facts,
    check=check,
    truth=lambda trial: exact(trial.records, trial.problem),
    trivial=lambda problem: np.ones(1),
    labelled=lambda node: False,
    arrays=arrays,
)
