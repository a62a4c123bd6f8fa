"""``answer marginals(k)``: for every k of the d attributes the share of records in each of their 2^k cells.

A record is a row of d attributes with two values each: ``x in {0, 1} by map(0 -> 0, 1 -> 1)``. The answer is a table, (C(d, k), 2^k):
a row a set of k attributes in lexicographic order, a column a cell, the attributes' values read as a binary number, the first attribute
leading. Errors are against the answers on the records of the trial.

Under a curator the attributes are the columns of x, each with declared levels, and the answers are counts: how many records there are may
be private. They are one vector, table after table, a cell named by its levels.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dpspec.algorithms.card import Problem
from dpspec.algorithms.nldp_erm._parities import sets
from dpspec.measures.measure import Array, Measure, Trial
from dpspec.models.columns import Column, Tables
from dpspec.spec.expr import NotANumber, Unbound, evaluate
from dpspec.spec.model import Answer
from dpspec.tasks._columns import NoColumn, column_of
from dpspec.tasks._statistics import table
from dpspec.tasks.protocol import Binding, Reference, Refusal, Task

#: More numbers in a table are refused.
MOST_ANSWERS: Final = 2**22
_BLOCK: Final = 1 << 14


def facts(binding: Binding) -> Mapping[str, float]:
    """``order``, the k of the spec; ``answers``, how many numbers there are; ``cut``, between the two values of an attribute. Of declared
    columns: ``attributes``, how many there are, and ``levels_1``, ``levels_2``, ...
    """
    found: dict[str, float] = {}
    if binding.node.args:
        with contextlib.suppress(Unbound, NotANumber):
            found["order"] = k = float(evaluate(binding.node.args[0], binding.facts))
            if curated(binding):
                return {**found, **_of_columns(binding, k)}
            if k == int(k) and 1 <= k <= binding.problem.d:
                found["answers"] = float(math.comb(binding.problem.d, int(k)) << int(k))
    if len(values := listed(binding)) == 2:
        found["cut"] = values[0] / 2 + values[1] / 2
    return found


def curated(binding: Binding) -> bool:
    """Whether the tables are of declared columns, counted by a curator."""
    return bool(binding.problem.model == "central")


def _of_columns(binding: Binding, k: float) -> dict[str, float]:
    try:
        sizes = [len(c.levels) for c in columns(binding)]
    except NoColumn:
        return {}
    found = {"attributes": float(len(sizes)), **{f"levels_{i}": float(n) for i, n in enumerate(sizes, 1)}}
    if k == int(k) and 1 <= k <= len(sizes) and math.comb(len(sizes), int(k)) <= MOST_ANSWERS:
        found["answers"] = float(sum(math.prod(of) for of in itertools.combinations(sizes, int(k))))
    return found


def columns(binding: Binding) -> tuple[Column, ...]:
    """The columns of levels that the tables are of. Raises :class:`NoColumn`."""
    data = binding.analysis.data
    target = getattr(data.source, "target", None)
    names = tuple(c for c in getattr(data.source, "columns", ()) if c != target)
    if data.intercept:
        raise NoColumn("the intercept is no attribute, and has no level", "leave it out")
    if len(values := listed(binding)) == 2:
        d = binding.problem.d
        if (d > len(names) and names) or data.encode:
            raise NoColumn("attributes of two values each take no encoding", "leave the encodings, or the domain of x, out")
        said = names or tuple(f"x{j + 1}" for j in range(d))
        return tuple(Column(c, first=j, levels=tuple(f"{v:g}" for v in values), values=values) for j, c in enumerate(said))
    if not names:
        raise NoColumn("which columns the tables are of is not said", "from ... columns [sex, city], each with levels(...)")
    encodings = {e.column: e.how for e in data.encode}
    for c in names:
        if encodings.get(c) not in ("levels", "one-hot"):
            raise NoColumn(f"{c} is a number, and a table counts levels", f'encode {c} as levels("a", "b")')
    return tuple(column_of(c, binding) for c in names)


def listed(binding: Binding) -> tuple[float, ...]:
    """The values that an enforced attribute may have, in increasing order; empty where the domain lists none."""
    x = binding.domains.get("x")
    return () if x is None or x.enforced.values is None else tuple(sorted(float(v) for v in x.enforced.values))


def check(binding: Binding) -> Iterable[Refusal]:
    known, d = facts(binding), binding.problem.d
    if curated(binding):
        try:
            d = len(columns(binding))
        except NoColumn as error:
            yield Refusal(error.message, error.help)
            return
    elif len(listed(binding)) != 2:
        yield Refusal(
            "marginals are of attributes with two values each, and the enforced domain of x does not list two",
            "x in {0, 1} by map(0 -> 0, 1 -> 1)",
        )
    if "order" not in known or known["order"] < 1 or known["order"] != int(known["order"]):
        yield Refusal("the k of marginals(k) is a whole number of attributes", "answer marginals(3)")
    elif known["order"] > d:
        yield Refusal(f"marginals({known['order']:g}) of {d} attributes: there are not that many", f"answer marginals({d})")
    elif known.get("answers", math.inf) > MOST_ANSWERS:
        yield Refusal(
            f"marginals({known['order']:g}) of {d} attributes are {known.get('answers', math.inf):.4g} numbers, more than {MOST_ANSWERS}",
            "ask for a smaller k, or name fewer attributes",
        )


def exact(records: Any, d: int, k: int, cut: float) -> Array:
    """The table of these records, (C(d, k), 2^k). It counts the rows that differ once where they repeat."""
    rows, counts = _distinct(records, cut)
    shares = np.zeros((math.comb(d, k), 1 << k))
    weights = 1 << np.arange(k - 1, -1, -1)
    for number, chosen in enumerate(sets(d, k)):
        shares[number] = np.bincount(rows[:, chosen] @ weights, weights=counts, minlength=1 << k)
    return np.asarray(shares / records.n)


def _distinct(records: Any, cut: float) -> tuple[NDArray[np.int64], Array]:
    """The different rows of bits and how often each comes."""
    blocks = [np.packbits((x if isinstance(x, np.ndarray) else x.toarray()) > cut, axis=1) for x, _ in records.blocks(_BLOCK)]
    packed, counts = np.unique(np.concatenate(blocks), axis=0, return_counts=True)
    return np.unpackbits(packed, axis=1, count=records.d).astype(np.int64), counts.astype(np.float64)


def reference(records: Any, problem: Problem, settings: Mapping[str, Any]) -> Reference:
    if problem.oracle is not None:
        return problem.oracle.counts(records).astype(np.float64), None
    return exact(records, problem.d, int(problem.facts["order"]), problem.facts["cut"]), None


def bind(binding: Binding) -> Tables | None:
    return Tables(columns(binding), int(facts(binding)["order"])) if curated(binding) else None


def uniform(problem: Problem) -> Array:
    """Every cell alike: what needs no data."""
    k = int(problem.facts["order"])
    if "attributes" in problem.facts:
        sizes = [int(problem.facts[f"levels_{i}"]) for i in range(1, int(problem.facts["attributes"]) + 1)]
        return np.concatenate([np.full(math.prod(of), problem.n / math.prod(of)) for of in itertools.combinations(sizes, k)])
    return np.full((math.comb(problem.d, k), 1 << k), 0.5**k)


def largest(answer: Array, trial: Trial) -> float:
    """max |answer - share of the records|."""
    return float(np.abs(np.asarray(answer) - trial.reference).max())


def average(answer: Array, trial: Trial) -> float:
    """The mean of |answer - share of the records| over all answers."""
    return float(np.abs(np.asarray(answer) - trial.reference).mean())


def arrays(estimate: Any, problem: Problem) -> dict[str, Any]:
    """``answers``, the table, and ``attributes``, which k columns a row of it is about; of a curator cells by name, as other counts."""
    if problem.oracle is not None:
        return cells(estimate, problem)
    return {"answers": estimate.theta, "attributes": sets(problem.d, int(problem.facts["order"]))}


cells = table(lambda problem: list(problem.oracle.names))

TASK = Task(
    name="marginals",
    serves=lambda node: isinstance(node, Answer) and node.queries == "marginals",
    words=("answer", "marginals"),
    measures=(Measure("max-query-error", largest, "reference"), Measure("mean-query-error", average, "reference")),
    facts=facts,
    check=check,
    bind=bind,
    reference=reference,
    truth=lambda trial: np.asarray(trial.reference),
    trivial=uniform,
    labelled=lambda node: False,
    total=lambda problem: problem.model == "central",
    arrays=arrays,
)
