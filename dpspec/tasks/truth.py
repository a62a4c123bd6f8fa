"""``infer truth from labels``: the true answer of d tasks from the answers of n workers.

A record is a worker's row of answers, a column a task. The domain of x lists what an answer may be: **0 is no answer**, in every row and
task, and each other value is a label: ``x in {-1, 0, 1} by map(0 -> 0, -1 -> -1, 1 -> 1)``, or ``{0, 1, 2, 3}`` for three labels. A
zeroed row, an empty cell of a table (NaN) and an absent entry of a sparse matrix then all say the same: no answer.

What the spec may assume, beside ``one-coin`` (a worker errs with one probability on every task, independently):

* ``advantage(m) of workers``: over all workers, the mean of P(right) - P(the likeliest wrong label) is at least m; no answer is neither,
  so it lowers m. For two labels and no abstention it is the mean of 2p - 1;
* ``ability(v) of workers``: the mean of (2p - 1)^2 is at least v.

Both become facts of their own names.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dpspec.algorithms.card import Problem
from dpspec.data.problems import fail
from dpspec.measures.measure import Array, Measure, Trial
from dpspec.spec.model import Infer
from dpspec.spec.words import Assumption
from dpspec.tasks.protocol import Binding, Reference, Refusal, Task, fitted

#: The code of a cell without an answer.
NONE: Final = -1
#: Words of ``assume`` that this task reads.
ASSUMED: Final = {
    "one-coin": Assumption("a worker errs with one probability on every task, independently"),
    "advantage": Assumption("the mean over workers of P(right) - P(the likeliest wrong label) is at least m", ("advantage",)),
    "ability": Assumption("the mean over workers of (2p - 1)^2 is at least v", ("ability",)),
}
#: More labels than this are no classification.
MOST_LABELS: Final = 1000

Codes = NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class Votes:
    """What an algorithm asks: the labels, in increasing order, and the answers as numbers of labels."""

    labels: tuple[float, ...]

    def codes(self, records: Any) -> Codes:
        """The answers as numbers of labels, :data:`NONE` where there is none, shape (d, n): a row a *task*. A value that is no label
        (nothing that enforcement leaves) is no answer."""
        out: Codes = np.full((records.d, records.n), NONE, dtype=np.int16)
        start = 0
        for x, _ in records.blocks():
            stop = start + x.shape[0]
            if isinstance(x, np.ndarray):
                out[:, start:stop] = self._numbers(x).T
            else:
                rows = np.repeat(np.arange(start, stop), np.diff(x.indptr))
                out[x.indices, rows] = self._numbers(x.data)
            start = stop
        return out

    def _numbers(self, answers: Any) -> Codes:
        known = np.asarray(self.labels)
        at = np.searchsorted(known, answers)
        found: Codes = np.where(known[np.minimum(at, len(known) - 1)] == answers, at, NONE).astype(np.int16)
        return found

    def named(self, winners: Any) -> Array:
        """The labels of these numbers."""
        return np.asarray(self.labels, dtype=np.float64)[np.asarray(winners, dtype=np.int64)]


def listed(binding: Binding) -> tuple[float, ...]:
    """The values that an enforced answer may have, in increasing order; empty where the domain lists none."""
    x = binding.domains.get("x")
    return () if x is None or x.enforced.values is None else tuple(sorted(float(v) for v in x.enforced.values))


def facts(binding: Binding) -> Mapping[str, float]:
    """``classes``, the number of labels."""
    values = listed(binding)
    return {"classes": float(sum(v != 0 for v in values))}


def check(binding: Binding) -> Iterable[Refusal]:
    values = listed(binding)
    labels = [v for v in values if v != 0]
    if not values:
        yield Refusal(
            "what an answer may be is not listed: labels are told apart by a finite domain of x that is enforced",
            "x in {-1, 0, 1} by map(0 -> 0, -1 -> -1, 1 -> 1), where 0 is no answer",
        )
    elif len(labels) < 2:
        yield Refusal(
            f"the domain of x lists {len(labels)} label{'' if len(labels) == 1 else 's'}: 0 is no answer, and each other value is a label",
            "map answers of 0 and 1 to -1 and 1: x in {-1, 1} by map(0 -> -1, 1 -> 1)",
        )
    elif len(labels) > MOST_LABELS:
        yield Refusal(f"{len(labels)} labels are more than {MOST_LABELS}", "map the answers to fewer labels")
    for word in ("advantage", "ability"):
        if binding.problem.facts.get(word, 0.0) > 1:
            yield Refusal(f"{word} is a mean of numbers of at most 1", f"{word}(0.3) of workers", code="DP411")


def bind(binding: Binding) -> Votes:
    return Votes(tuple(v for v in listed(binding) if v != 0))


def reference(records: Any, problem: Problem, settings: Mapping[str, Any]) -> Reference:
    """Dawid-Skene EM on the raw answers, :mod:`dpspec.algorithms.crowdsourcing.dawid_skene`."""
    from dpspec.algorithms.crowdsourcing import _one_coin as one_coin

    votes: Votes = problem.oracle
    matrices, least = one_coin.named(votes.codes(records), len(votes.labels)), 1 / (2 * records.d + 2)
    return votes.named(np.argmax(one_coin.em(matrices, least, 1 - least, 20)[0], axis=1)), None


def truth(trial: Trial) -> Array:
    """The true answers of the law; those of the non-private EM where there is none (real data)."""
    if "truth" in trial.truth:
        return np.asarray(trial.truth["truth"], dtype=np.float64)
    return fitted(trial)


def label_error(labels: Array, trial: Trial) -> float:
    """The share of tasks whose label is not the true one."""
    return float(np.mean(np.asarray(labels) != trial.true))


def ability_error(labels: Array, trial: Trial) -> float:
    """The mean over workers of |ability - share of right answers|: the released ability against what the worker's own answers show beside
    the truth (of real data, beside the labels of EM without noise). Where the algorithm also says how many tasks each has ``answered``, the
    share is that among answers, and a worker without any is left out; else no answer counts as the guess that was sent for it, 1/K right.

    Raises SpecError (DP413) where the algorithm releases no abilities.
    """
    if "abilities" not in trial.released:
        fail("DP413", "ability-error needs the abilities of workers, and this algorithm releases none", "by private-dawid-skene")
    votes: Votes = trial.problem.oracle
    codes = votes.codes(trial.records)
    right = (codes == np.searchsorted(np.asarray(votes.labels), trial.true)[:, None]).sum(axis=0)
    answered = (codes != NONE).sum(axis=0)
    share, some = (right + (len(codes) - answered) / len(votes.labels)) / len(codes), np.full(len(right), True)
    if "answered" in trial.released:
        share, some = right / np.maximum(answered, 1), answered > 0
    apart = np.abs(np.asarray(trial.released["abilities"]) - share)[some]
    return float(apart.mean()) if len(apart) else 0.0


def arrays(estimate: Any, problem: Problem) -> dict[str, Any]:
    found = {"labels": estimate.theta}
    found.update({k: v for k, v in estimate.extras.items() if hasattr(v, "shape") or isinstance(v, (int, float))})
    return found


def advantage(votes: Votes, codes: Codes, true: Array) -> tuple[float, float]:
    """The share of right answers less that of wrong ones among all cells, and its standard error over workers and tasks."""
    number = np.searchsorted(np.asarray(votes.labels), true)[:, None]
    score = np.where(codes == NONE, 0, np.where(codes == number, 1, -1))
    return float(score.mean()), float(score.std() / math.sqrt(max(score.size, 1)))


def broken(release: Any, problem: Problem, law: Any, records: Any, parts: tuple[Any, ...] = (), room: float = 0.0) -> Iterator[str]:
    """A declared advantage that these workers do not have. With more than two labels a wrong answer counts whole, which only lowers it."""
    if "advantage" not in problem.facts or "truth" not in law or len(problem.oracle.labels) != 2:
        return
    found, error = advantage(problem.oracle, problem.oracle.codes(records), np.asarray(law["truth"]))
    if found + 5 * error < problem.facts["advantage"]:
        yield f"the workers have an advantage of {found:.4g}, and {problem.facts['advantage']:.4g} is declared"


TASK = Task(
    name="truth",
    serves=lambda node: isinstance(node, Infer),
    words=("infer",),
    measures=(
        Measure("label-error", label_error, "law", transfers=False),
        Measure("ability-error", ability_error, "law", compared=False, transfers=False),
    ),
    assumes=ASSUMED,
    facts=facts,
    check=check,
    bind=bind,
    reference=reference,
    truth=truth,
    trivial=lambda problem: None,
    labelled=lambda node: False,
    missing=lambda node: True,
    arrays=arrays,
    broken=broken,
)
