"""Marginals from one bit a user: every parity of at most k attributes, or the cells themselves (non-interactive local model).

``method = parities``: users are dealt over the N = sum_{1 <= j <= k} C(d, j) parities, each sends its parity by randomised response, and an
answer is the signed mean of the 2^k - 1 parities of its attributes and 1: see ``_parities``. ``method = cells``: users are dealt over the
C(d, k) sets of attributes, each sends its cell of 2^k by k-ary randomised response. ``auto`` takes the one of less predicted error: for
small epsilon the variance of an answer is about 4 N/(2^k n epsilon^2) against 2^k C(d, k)/(n epsilon^2), so cells are for large epsilon.

    max |answer - share|  <=  sqrt(2 V log(2 A/zeta)),        A = C(d, k) 2^k answers, probability 1 - zeta, any records,
    V = (B^2 + (1 + q)^2) (2^k - 1)/(4^k floor(n/N))        (parities; q the share of users asked about one set),
    V = (1/a^2 + 1)/(4 floor(n/C(d, k)))                    (cells; a the probability that a report is not uniform).

The second: a report counts for a cell by -u or 1/a - u, of range 1/a, and users of a set are a sample without replacement.

Privacy: which question a user answers is drawn from public coins, without any record; its answer is one report of a channel.

Source: 000, sections 5.1.1 and 5.1.5 name it after Cormode, Kulkarni and Srivastava 2018; no algorithm is printed. Bounds re-derived.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from dpspec.algorithms.card import Bound, Card, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.nldp_erm import _parities as shared
from dpspec.algorithms.sets import Vector
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.channels.one_bit import OneBitMean
from dpspec.privacy.channels.randomized_response import KaryResponse
from dpspec.privacy.schedule import Draw, Tree

LARGEST: Final = "Hoeffding's lemma for a random permutation and one bit a user, all answers"
MEAN: Final = "the same variance, answer by answer"

CARD = Card(
    id="marginals-fourier-ldp",
    title="Marginals from one parity a user",
    family="nldp_erm",
    task="marginals",
    models=("nldp", "sldp"),
    guarantees=("pure", "approx"),
    sources=(Source("000", "5.1.1", "named, not printed"), Source("000", "5.1.5")),
    summary="Each user sends one publicly assigned parity by randomised response; the server inverts the Hadamard transform.",
    needs=(Need("x", "privacy", "an attribute has one of two listed values"),),
    options={"method": ("auto", "parities", "cells")},
    tunables={"zeta": Tunable("1/20", "the probability that a bound fails", minimum=1e-12, maximum=0.5)},
    bounds=(
        Bound(
            "max-query-error",
            "explicit",
            "upper",
            "sqrt(2*V*log(2*A/zeta))",
            "proved",
            LARGEST,
            probability="1 - zeta",
            conditions="V of an answer by the method, A = C(d, k)*2^k answers; against the shares of any records",
            where={"V": "variance proxy of an answer by the method", "A": "answers, C(d, k)*2^k"},
        ),
        Bound(
            "mean-query-error",
            "explicit",
            "upper",
            "sqrt(V)",
            "proved",
            MEAN,
            conditions="in expectation",
            where={"V": "variance proxy of an answer by the method"},
        ),
        Bound(
            "max-query-error",
            "order",
            "upper",
            "C*sqrt(d^order*(log(d^order/zeta))/n)/epsilon",
            "proved",
            "the same with N <= d^k, epsilon <= 1",
            probability="1 - zeta",
            when=("epsilon <= 1",),
            where={"order": "order of the marginals"},
        ),
    ),
    cost={"gradients": "0", "rounds": "1", "bits_per_user": "order", "memory_bytes": "16*n + 16*answers"},
    reads="sums",
    spec="specs/nldp_erm/marginals-fourier-ldp.dps",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    return None  # the task refuses what cannot be asked


def _order(p: Problem) -> int:
    return int(p.facts["order"])


def _parts(p: Problem, way: str) -> int:
    return shared.number(p.d, _order(p)) if way == "parities" else math.comb(p.d, _order(p))


def weights(k: int) -> Vector:
    """Of the indicator of a cell: every character has 2^-k."""
    return np.full(k + 1, 0.5**k)


def channel(p: Problem, way: str) -> Any:
    return OneBitMean(1.0) if way == "parities" else KaryResponse(1 << _order(p))


def method(p: Problem, t: Tunables) -> str:
    if t.method != "auto":
        return str(t.method)
    return min(("parities", "cells"), key=lambda way: _spread(p, way, channel(p, way).scale(p.facts["epsilon"])))


def schedule(p: Problem, t: Tunables) -> Tree:
    return Draw("report", channel(p, method(p, t)), per="user")


def run(records: Rows, p: Problem, t: Tunables, release: Door) -> Estimate:
    k, way = _order(p), method(p, t)
    which = shared.dealt(p.n, _parts(p, way), release.public.generator("questions"))
    if way == "parities":
        values = shared.parities(records, shared.table(p.d, k), which, p.facts["cut"])
        found = shared.means(release.reports("report", values), which, _parts(p, way))
        return Estimate(np.clip(shared.cells(found, p.d, k, weights(k)), 0.0, 1.0))
    reports = np.asarray(release.reports("report", _cells(records, p, which)), dtype=np.int64).reshape(-1)
    width, parts = 1 << k, _parts(p, way)
    counts = np.bincount(which * width + reports, minlength=parts * width).reshape(parts, width)
    users, a = counts.sum(axis=1, keepdims=True), 1 / release.scale("report")
    shares = np.where(users > 0, counts / np.maximum(users, 1), 1 / width)
    return Estimate(np.clip((shares - (1 - a) / width) / a, 0.0, 1.0))


def _cells(records: Rows, p: Problem, which: shared.Integers) -> shared.Integers:
    """The cell of each user's own attributes, (n,): what its client randomises."""
    k = _order(p)
    every, powers = shared.sets(p.d, k), 1 << np.arange(k - 1, -1, -1)
    out, start = np.empty(p.n, dtype=np.int64), 0
    for x, _ in records.blocks(1 << 15):
        bits = (shared.signs(x, p.facts["cut"]) > 0).astype(np.int64)
        mine = every[which[start : start + len(bits)]]
        out[start : start + len(bits)] = np.take_along_axis(bits, mine, axis=1) @ powers
        start += len(bits)
    return out


# --------------------------------------------------------------------------------------------------- what is known beforehand


def _spread(p: Problem, way: str, scale: float) -> float:
    """The standard deviation of an answer, about; a cell's at the share 2^-k."""
    k = _order(p)
    if way == "parities":
        return shared.spread(p.n, p.d, k, weights(k), scale)
    return math.sqrt(0.5**k * (1 - 0.5**k) * math.comb(p.d, k) / p.n) * scale


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    k, way, scale = _order(p), method(p, t), calibrated.scale("report")
    least = p.n // _parts(p, way)
    if least == 0:
        return {}
    v = shared.proxy(p.n, p.d, k, weights(k), scale) if way == "parities" else (scale * scale + 1) / (4 * least)
    return {LARGEST: math.sqrt(2 * v * math.log(2 * p.facts["answers"] / t.zeta)), MEAN: math.sqrt(v)}


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    k, way, scale = _order(p), method(p, t), calibrated.scale("report")
    least = max(p.n // _parts(p, way), 1)
    V = shared.proxy(p.n, p.d, k, weights(k), scale) if way == "parities" else (scale * scale + 1) / (4 * least)
    return {LARGEST: {"V": V, "A": p.facts["answers"]}, MEAN: {"V": V}}


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """The largest error of all answers: that of normal ones."""
    return math.sqrt(2 * math.log(2 * p.facts["answers"])) * _spread(p, method(p, t), calibrated.scale("report"))


def warnings(p: Problem, t: Tunables, calibrated: Any) -> list[str]:
    return shared.unasked(p.n, _parts(p, method(p, t)))
