"""Local channels made of others: what is drawn once and randomized again for every report, and records of several positions.

A chain sends its input through one channel after another. The first stage is drawn once and remembered (memoised); the later ones are
drawn afresh for each of ``reports`` reports. One report shows what the product of the matrices shows; of many the counts of each value
are all that matters; without a bound on their number they show what the first stage shows, unless later stages merge its outputs.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dpspec.audit.deployment import ChannelSpec
from dpspec.audit.matrices import ExactResult, checked_matrix, keep_of, matrix_privacy
from dpspec.audit.pairs import Array, Atoms, randomized_response
from dpspec.spec.diagnostics import Diagnostic, SpecError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_MOST_STATES = 1000
_MOST_OUTCOMES = 200_000


def _refuse(message: str, help: str = "") -> SpecError:
    return SpecError([Diagnostic("DP675", "error", message, help)])


def stage_matrix(c: ChannelSpec) -> tuple[Array, int]:
    """One stage as conditional probabilities, and how many independent pairs of opposite bits two inputs differ in (0: it is no encoding in
    bits). Encodings in bits treat each bit alone: the matrix is that of a bit, row 0 for a bit that is set."""
    if c.kind == "matrix":
        if c.fields.get("neighbours") is not None:
            raise _refuse("a matrix of a chain has all its inputs for neighbours", "leave out neighbours")
        return checked_matrix(c.fields.get("rows")), 0
    if c.kind == "unary":
        p, q = c.number("p_true_bit", "p"), c.number("q_other_bit", "q")
        if p is None or q is None or not (0 <= p <= 1 and 0 <= q <= 1):
            raise _refuse("a unary stage needs p_true_bit and q_other_bit in [0, 1]")
        return np.array([[p, 1 - p], [q, 1 - q]]), int(c.number("hot_bits") or 1)
    if c.kind == "randomized_response":
        k = int(c.number("categories") or 0)
        if not 2 <= k <= _MOST_STATES:
            raise _refuse(f"a stage of randomized response takes 2 to {_MOST_STATES} categories")
        keep = keep_of(c, k)
        return np.full((k, k), (1 - keep) / (k - 1)) + np.eye(k) * (keep - (1 - keep) / (k - 1)), 0
    raise _refuse(f"no stage of a chain can be {c.kind!r}", "matrix, unary or randomized_response")


def chain(c: ChannelSpec) -> ExactResult:
    """The channel ``chain``. Raises :class:`SpecError` (DP675) for stages that do not fit or outcomes too many to enumerate."""
    stages = [stage_matrix(s) for s in c.fields["channels"]]
    if len({bits > 0 for _, bits in stages}) > 1 or len({bits for _, bits in stages if bits > 1}) > 1:
        raise _refuse("encodings in bits and values cannot follow one another in a chain")
    bits = max(bits for _, bits in stages)
    for (a, _), (b, _) in itertools.pairwise(stages):
        if a.shape[1] != b.shape[0]:
            raise _refuse(f"a stage has {a.shape[1]} outputs and the next one {b.shape[0]} inputs")
    first, later = stages[0][0], _product([m for m, _ in stages[1:]], stages[0][0].shape[1])
    reports = c.fields.get("reports", 1)
    single = matrix_privacy(_in_bits(first @ later, bits))
    endless = reports in ("unbounded", "unknown")
    rows = _merged(first, later) if endless else _many(first, later, int(reports))
    found = matrix_privacy(_in_bits(rows, bits))
    told = "all reports of one value, however many" if endless else f"{int(reports)} report(s) of one value"
    how = f"{told}: the first of {len(stages)} stages is drawn once" + (f", {2 * bits} bits differ" if bits else "")
    # unlimited reports come as close as one likes to what they show in the limit
    return replace(found, how=how, one_report=single.epsilon, output=None, pair=None)


def _product(matrices: list[Array], size: int) -> Array:
    whole = np.eye(size)
    for m in matrices:
        whole = whole @ m
    return whole


def _in_bits(rows: Array, times: int) -> Array:
    """Two inputs that differ in ``times`` bits each way, from the law of a set bit and of one that is not."""
    if times == 0:
        return rows
    one = np.stack([np.outer(rows[0], rows[1]).ravel(), np.outer(rows[1], rows[0]).ravel()])
    whole = one
    for _ in range(times - 1):
        if whole.shape[1] * one.shape[1] > _MOST_OUTCOMES:
            raise _refuse(
                "the outcomes of so many bits and reports are too many to enumerate", "state fewer reports, or reports: unbounded"
            )
        whole = np.stack([np.outer(whole[0], one[0]).ravel(), np.outer(whole[1], one[1]).ravel()])
    if whole.shape[1] > 4 * _MOST_OUTCOMES:
        raise _refuse("the outcomes of so many bits and reports are too many to enumerate", "state fewer reports, or reports: unbounded")
    return whole


def _merged(first: Array, later: Array) -> Array:
    """The first stage, where its outputs that the later ones do not tell apart are one."""
    groups: list[list[int]] = []
    for y in range(later.shape[0]):
        near = next((g for g in groups if np.array_equal(later[g[0]], later[y])), None)
        if near is None:
            groups.append([y])
        else:
            near.append(y)
    return np.stack([first[:, g].sum(axis=1) for g in groups], axis=1)


def _many(first: Array, later: Array, reports: int) -> Array:
    """The law of how often each value is reported, for every input."""
    if reports == 1:
        return first @ later
    outputs = later.shape[1]
    if math.comb(reports + outputs - 1, outputs - 1) * first.shape[0] > _MOST_OUTCOMES:
        raise _refuse(f"{reports} reports of {outputs} values are too many to enumerate", "state fewer reports, or reports: unbounded")
    from scipy.special import gammaln, xlogy

    counts = np.array(list(_compositions(reports, outputs)), dtype=float)
    ways = gammaln(reports + 1) - gammaln(counts + 1).sum(axis=1)
    law = np.exp(ways + xlogy(counts[None, :, :], later[:, None, :]).sum(axis=2))  # outputs of the first stage by counts
    found: Array = first @ law
    return found


def _compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    if parts == 1:
        yield (total,)
        return
    for i in range(total + 1):
        for rest in _compositions(total - i, parts - 1):
            yield (i, *rest)


def positions(c: ChannelSpec, audited: Callable[[ChannelSpec], ExactResult]) -> ExactResult:
    """The channel ``positions``: a record of several values, each reported by a channel of its own (``counts``: how many are alike).

    ``differs: record``: two records differ in every position, and their losses add up; ``attribute``: in one, the worst of them.
    """
    differs = c.fields.get("differs")
    if differs not in ("record", "attribute"):
        raise _refuse("channel positions needs differs: attribute or record")
    channels = c.fields["channels"]
    counts = c.fields.get("counts") or [1] * len(channels)
    if len(counts) != len(channels) or any(n < 1 or n != int(n) for n in counts):
        raise _refuse("counts must be one whole number from 1 for each of the channels")
    found = [(audited(part), int(n)) for part, n in zip(channels, counts, strict=True)]
    if differs == "attribute":
        worst = max((r for r, _ in found), key=lambda r: (r.epsilon, r.delta_needed))
        if len(found) == 1:
            return worst
        # which position shows the most at a delta is not worked out
        needed = max(r.delta_needed for r, _ in found)
        over = randomized_response(worst.epsilon) if 0 < worst.epsilon < 500 and needed == 0 else None
        return replace(worst, how=f"the worst of the positions: {worst.how}", delta_needed=needed, delta_at=None, over=over)
    total = math.fsum(r.epsilon * n for r, n in found)
    needed = 1 - math.prod((1 - r.delta_needed) ** n for r, n in found)
    pairs = [r.under for r, n in found for _ in range(min(n, 40))]
    finite = [p for p in pairs if isinstance(p, Atoms)]
    return ExactResult(
        total,
        "all positions differ, and their losses add up",
        delta_needed=needed,
        attained=False,
        over=randomized_response(total) if 0 < total < 500 and needed == 0 else None,
        under=_outer(finite) if len(finite) == len(pairs) else None,
    )


def _outer(pairs: list[Atoms]) -> Atoms | None:
    """The product of finite pairs, where it is small."""
    p, q = np.ones(1), np.ones(1)
    for pair in pairs:
        if p.size * len(pair.p) > 4000:
            return None
        p, q = np.outer(p, pair.p).ravel(), np.outer(q, pair.q).ravel()
    return Atoms(tuple(p.tolist()), tuple(q.tolist()))
