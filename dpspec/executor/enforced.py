"""The truth of the enforced law. Study mode only.

An algorithm sees records after enforcement: scaled, clipped, shrunk or rejected by the domains of the spec, and by the clients of a
local algorithm. Its bounds speak of the law of those records, so errors are measured against that law's parameters. How far they lie from
those of the law before enforcement is the *bias of enforcement*: no number of records makes it smaller, and no bound speaks of it.

The parameters come from a large sample of the law, drawn beside the trials and enforced like them:

- second moments and means: the mean of s s^T over the sample, with the law's own E x x^T as a control variate where it is known and
  no tail is heavy (the sample's error then falls with the share of the records that change);
- theta of a regression model: the law's own plus the difference of two non-private estimates, from the enforced sample and from the same
  records before enforcement; the estimate from the enforced sample alone for heavy tails.

The sample is cut into :data:`PARTS` interleaved parts; the spread of the parts' answers, in the measure itself, gives the standard
error of the truth, and verdicts leave room for :data:`ROOM` of them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpspec.compiler.draft import Draft, ReleaseDraft
from dpspec.measures.measure import Measure, Trial
from dpspec.numeric.norms import clip_rows
from dpspec.spec.model import as_json
from dpspec.tasks.registry import of

Vector: TypeAlias = NDArray[np.float64]

#: Parts of the sample; seven degrees of freedom for its standard error.
PARTS: Final = 8
#: Standard errors that a verdict leaves room for: Student's t with seven degrees exceeds 4.8 with probability 1 in 1000.
ROOM: Final = 4.8
#: Numbers in a sample (records times coordinates), and the most and the fewest records. Truths that differ from trial to trial get a
#: sample of the size of the trial, at most.
NUMBERS: Final = 2**24
MOST: Final = 2**20
FEWEST: Final = 2**14
#: Numbers in a sample that a regression is solved on.
SOLVED: Final = 2**22


@dataclass(frozen=True, eq=False)
class Enforced:
    """``truth``: of the enforced law. ``parts``: truths from the parts of the sample. ``changed``: share of ``sample`` records that
    enforcement changed."""

    truth: Any
    parts: tuple[Any, ...]
    changed: float
    sample: int


def enforced_law(draft: Draft, release: ReleaseDraft, problem: Any, seed: int, trial: int, truth: Any) -> Enforced | None:
    """The enforced law's truth for one trial; None where enforcement changes no record of the sample. Cached in the process: trials and
    points with one law, one enforcement and one set of parameters share theirs."""
    from dpspec.data.laws import Simulation

    data = draft.analysis.data
    task = of(release.release.task)
    radius = task.radius(release.tunables or {})
    if radius == math.inf and all(d.by is None for d in data.domains):
        return None
    simulation = Simulation(draft.analysis.simulate, draft.facts)
    what = task.enforced_truth
    if not what:
        return None
    parts = [as_json(x) for x in (*draft.analysis.simulate, *data.domains)]
    text = "\n".join([*parts, str(data.constants), as_json(release.release.task)])
    named = tuple(sorted((k, v) for k, v in draft.facts.items() if re.search(rf'"{re.escape(k)}"', text) or k in ("d", "features")))
    number = 0 if simulation.fixed else trial
    size = _size(simulation.d, None if simulation.fixed else simulation.n, what)
    key = (text, named, seed, number, radius, what, size)
    if key not in _KNOWN:
        while len(_KNOWN) >= 64:
            _KNOWN.pop(next(iter(_KNOWN)))
        moves = simulation.fixed or simulation.heavy or _moves(draft, simulation, (seed, number), radius)
        _KNOWN[key] = _computed(draft, problem, simulation, (seed, number), truth, radius, what, size) if moves else None
    return _KNOWN[key]


_KNOWN: dict[Any, Enforced | None] = {}


def _size(d: int, n: int | None, what: str) -> int:
    most = min(MOST, max((SOLVED if what == "regression" else NUMBERS) // d, FEWEST))
    return most if n is None else min(most, max(n, 4 * FEWEST))


Pair: TypeAlias = tuple[Any, Any]


def _pairs(draft: Draft, simulation: Any, key: tuple[int, int], radius: float, size: int) -> Iterator[tuple[Pair, Pair]]:
    """Blocks ((x, y) before, (x, y) after) enforcement."""
    from dpspec.data.enforce import enforce
    from dpspec.data.records import Records
    from dpspec.executor.bind import values

    known = {**values(draft), **{k: draft.facts[k] for k in ("n", "d") if k in draft.facts}}
    for x, y in simulation.checking(*key, size):
        made, _ = enforce(Records(x.copy(), None if y is None else y.copy()), draft.analysis.data, known)
        s = np.asarray(made.x)
        if math.isfinite(radius):
            s = clip_rows(np.array(s), radius)
        yield (x, y), (s, made.y)


def _moves(draft: Draft, simulation: Any, key: tuple[int, int], radius: float) -> bool:
    """Whether enforcement changes any of a few records: parameters that differ from trial to trial need a sample each."""
    return any(_changed(before, after).any() for before, after in _pairs(draft, simulation, key, radius, FEWEST))


def _computed(draft: Draft, problem: Any, simulation: Any, key: tuple[int, int], truth: Any, radius: float, what: str, size: int) -> Any:
    pairs = _pairs(draft, simulation, key, radius, size)
    return _regression(problem, pairs, truth, simulation.heavy) if what == "regression" else _moments(pairs, truth, simulation.heavy)


def _changed(before: Pair, after: Pair) -> Any:
    """Which records are others. Rounding inwards by scaling is no change."""
    (x, y), (s, t) = before, after
    moved = np.abs(s - x).max(axis=1) > 1e-9 * np.abs(x).max(axis=1, initial=0.0)
    moved |= ~np.isfinite(x).all(axis=1)
    return moved if y is None else moved | ~(np.abs(t - y) <= 1e-9 * np.abs(y))


class _Sums:
    """Of one part: records n, s s^T, s, x x^T, x, and the scalars whose covariance says how much the known moments help."""

    __slots__ = ("first", "mean", "moment", "n", "products", "raw")

    def __init__(self, d: int) -> None:
        self.n, self.products = 0, np.zeros(4)
        self.moment, self.raw = np.zeros((d, d)), np.zeros((d, d))
        self.mean, self.first = np.zeros(d), np.zeros(d)

    def add(self, x: Vector, s: Vector, known: bool) -> None:
        self.n += len(s)
        self.moment += s.T @ s
        self.mean += s.sum(axis=0)
        if known:
            both, own = np.einsum("ij,ij->i", s, x), np.einsum("ij,ij->i", x, x)
            self.raw += x.T @ x
            self.first += x.sum(axis=0)
            self.products += [(both**2).sum(), (own**2).sum(), both.sum(), own.sum()]


def _moments(pairs: Iterator[tuple[Pair, Pair]], truth: Any, heavy: bool) -> Enforced | None:
    """Mean and covariance of the enforced x. Where the law's own are known they are control variates: the estimate of E s s^T is
    mean(s s^T) - b*(mean(x x^T) - E x x^T) with the b of least total variance, cov(s s^T, x x^T)/var(x x^T) summed over entries."""
    known = not heavy and truth.covariance is not None and truth.mean is not None
    total = changed = 0
    sums: list[_Sums] = []
    for (x, _), (s, _) in pairs:
        changed += int(np.count_nonzero(_changed((x, None), (s, None))))
        total += len(x)
        sums = sums or [_Sums(x.shape[1]) for _ in range(PARTS)]
        for j, part in enumerate(sums):
            part.add(x[j::PARTS], s[j::PARTS], known)
    if not changed:
        return None
    weights = _weights(sums) if known else (0.0, 0.0)

    def from_parts(some: list[_Sums]) -> Any:
        n = sum(part.n for part in some)
        moment, mean = sum(part.moment for part in some) / n, sum(part.mean for part in some) / n
        if known:
            centre = truth.mean
            moment = moment - weights[0] * (sum(part.raw for part in some) / n - truth.covariance - np.outer(centre, centre))
            mean = mean - weights[1] * (sum(part.first for part in some) / n - centre)
        return replace(truth, mean=mean, covariance=moment - np.outer(mean, mean), subspace=None)

    return Enforced(from_parts(sums), tuple(from_parts([part]) for part in sums), changed / total, total)


def _weights(sums: list[_Sums]) -> tuple[float, float]:
    """(for the second moment, for the mean): regression of the enforced on the known, over all entries together."""
    n = sum(part.n for part in sums)
    after, before = (np.sum([getattr(part, k) for part in sums], axis=0) / n for k in ("moment", "raw"))
    s, x = (np.sum([getattr(part, k) for part in sums], axis=0) / n for k in ("mean", "first"))
    four, own4, two, own2 = (float(v) for v in np.sum([part.products for part in sums], axis=0) / n)
    second, first = own4 - float((before * before).sum()), own2 - float(x @ x)
    return (
        (four - float((after * before).sum())) / second if second > 0 else 0.0,
        (two - float(s @ x)) / first if first > 0 else 0.0,
    )


def _regression(problem: Any, pairs: Iterator[tuple[Pair, Pair]], truth: Any, heavy: bool) -> Enforced | None:
    """theta of the model that the non-private estimate fits to ever more enforced records."""
    from dpspec.data.records import Records

    name = next((k for k in ("theta", "w") if k in truth), None)
    kept = list(pairs)
    moved = [_changed(a, b) for a, b in kept]
    total, changed = sum(len(m) for m in moved), int(sum(np.count_nonzero(m) for m in moved))
    if name is None or not changed or kept[0][0][1] is None:
        return None
    x, y, s, t = (np.concatenate([pair[i][k] for pair in kept]) for i, k in ((0, 0), (0, 1), (1, 0), (1, 1)))

    def fitted(rows: slice) -> Any:
        after = of(problem.task).reference(Records(s[rows], t[rows]), problem, {})[0]
        before = None if heavy else of(problem.task).reference(Records(x[rows], y[rows]), problem, {})[0]
        if after is None or (before is None and not heavy):
            return None
        value = after if before is None else np.asarray(truth[name]) + (after - before)
        return replace(truth, parameters={**truth.parameters, name: value}, mean=None, covariance=None, subspace=None)

    whole = fitted(slice(None))
    if whole is None:  # a link without a known likelihood: nothing to compare with
        return None
    return Enforced(whole, tuple(fitted(slice(j, None, PARTS)) for j in range(PARTS)), changed / total, total)


def distances(law: Enforced, measure: Measure, truth: Any, trial: Callable[[Any], Trial]) -> tuple[float, float]:
    """(bias of enforcement, standard error of the enforced truth), both in the measure. ``trial``: the measure's argument from a truth."""
    seen = trial(law.truth)
    bias = float(measure.of(seen.true, trial(truth)))
    spread = [float(measure.of(trial(part).true, seen)) ** 2 for part in law.parts]
    return bias, math.sqrt(sum(spread) / len(spread) / (len(spread) - 1))
