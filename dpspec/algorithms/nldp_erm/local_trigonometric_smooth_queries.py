"""Smooth queries from one Chebyshev product a user (non-interactive local model).

u in [-1, 1]^d is the record, mapped from its box. The N = t^d - 1 products T_v(u) = prod_j cos(v_j arccos u_j), v in {0, ..., t - 1}^d
not 0, are dealt to the users evenly by a public random permutation; a user sends one bit, of mean T_v(u) (``one-bit``). The server
averages them: moments, from which the mean of any smooth f is read by the cosine transform of f (``_chebyshev``). For the Q functions of
the battery, with partial derivatives up to the order h in [-1, 1], t > h,

    max_f |answer - mean|  <=  bias(d, h, t) + sqrt(2 V log(2 Q/zeta)),        V = (B^2 + 4) W/floor(n/N),    B = coth(epsilon/2),

W the largest sum of c_v^2, v not 0, of one of them: a public number, at most 2^d max |f|^2.

*Derived*: the error against the interpolant's mean is a sum over the users, each in the slot of a random permutation with a coefficient
c_v/m; as in ``_parities`` its proxy is (B^2 + 4) sum c_v^2/m, products lying in [-1, 1]. The same holds for any f fixed beforehand. Over
the whole class at once |answer - mean| <= bias + 2^(d/2) |error of the moments|_2, which is t^-h + t^d/(sqrt(n) epsilon) up to constants:
alpha at n of the order alpha^-(2 + 2 d/h)/epsilon^2, where the document has the exponent (5 d + 2 h)/h.

``degree = 0`` takes the t of least predicted error.

Source: 000, section 5.1.5, Algorithm 5.1.36, Lemma 5.1.11, Theorem 5.1.11.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.nldp_erm import _chebyshev as series
from dpspec.algorithms.nldp_erm import _parities as shared
from dpspec.algorithms.sets import Vector
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.channels.one_bit import OneBitMean
from dpspec.privacy.schedule import Draw, Tree

_EVIDENCE = "tests/algorithms/nldp_erm/test_local_trigonometric_smooth_queries.py::"

LARGEST: Final = "Jackson's theorem at the nodes, and Hoeffding's lemma for a random permutation and one bit a user"
#: Moments in a table.
MOST_MOMENTS: Final = 2**16

CARD = Card(
    id="local-trigonometric-smooth-queries",
    title="Smooth queries from one Chebyshev product a user",
    family="nldp_erm",
    task="smooth-queries",
    models=("nldp", "sldp"),
    guarantees=("pure", "approx"),
    sources=(Source("000", "5.1.5", "Algorithm 5.1.36", ("Lemma 5.1.11", "Theorem 5.1.11")),),
    summary="Each user sends one bit for one publicly assigned Chebyshev product; the server reads any smooth query off the moments.",
    needs=(Need("x", "privacy", "a record lies in a box"),),
    tunables={
        "zeta": Tunable("1/20", "the probability that a bound fails", minimum=1e-12, maximum=0.5),
        "degree": Tunable("0", "t, degrees of a variable; 0: of least predicted error", integer=True, minimum=0, maximum=MOST_MOMENTS),
    },
    bounds=(
        Bound(
            "max-query-error",
            "explicit",
            "upper",
            "bias + sqrt(2*V*log(2*Q/zeta))",
            "proved",
            LARGEST,
            probability="1 - zeta",
            conditions="Q functions fixed beforehand, derivatives up to the order h in [-1, 1], t > h; on any records",
            where={"bias": "Jackson's error at the nodes", "V": "variance proxy of an answer", "Q": "number of queries"},
        ),
        Bound(
            "max-query-error",
            "order",
            "upper",
            "C*(1/(sqrt(n)*epsilon))^(order/(d + order))",
            "proved",
            "the whole class by the l2 norm of the moments' error, t = (sqrt(n)*epsilon)^(1/(d + h))",
            probability="1 - zeta",
            conditions="d, h and zeta are constants, epsilon <= 1",
            when=("epsilon <= 1",),
            where={"order": "number of bounded derivatives"},
        ),
        Bound(
            "max-query-error",
            "order",
            "upper",
            "C*sqrt(log(1/zeta))*(1/(sqrt(n)*epsilon))^(2*order/(5*d + 2*order))",
            "claimed",
            "000 Theorem 5.1.11",
            probability="1 - zeta",
            conditions="d, h are constants; true, as it is weaker",
            where={"order": "number of bounded derivatives"},
        ),
    ),
    faults=(
        Fault(
            "000 Algorithm 5.1.36: the server runs LDP-AVG on the users' products",
            "then they leave the device without noise, and tell the record; the client draws its noise here",
            _EVIDENCE + "test_products_without_noise_tell_the_record",
            "privacy",
        ),
        Fault(
            "000 Algorithm 5.1.36, step 9: b = 1 and epsilon for each of t^d entries in [-1, 1]",
            "an entry moves by 2, and there are t^d: noise of 1/epsilon on each spends more than epsilon t^d/2 already at d = 1",
            _EVIDENCE + "test_the_printed_noise_spends_a_multiple_of_epsilon",
            "privacy",
        ),
        Fault(
            "000 Theorem 5.1.11: exponent 2 h/(5 d + 2 h)",
            "h/(d + h) by the l2 norm of the coefficients; the printed one sums the errors of t^d entries twice",
            _EVIDENCE + "test_the_rate_is_better_than_the_printed_one",
            "utility",
        ),
        Fault(
            "000 Algorithm 5.1.36: f(D) and b.c in the definition of a query; query time (sqrt(n) epsilon)^((4 d + 4)/(5 d + 2 h) + ...)",
            "f(x), the inner product of moments and coefficients; 2 d + 4 by Lemma 5.1.11",
            "docs/faults.md#query-of-a-mean",
            "text",
        ),
    ),
    cost={"gradients": "0", "rounds": "1", "bits_per_user": "1", "memory_bytes": "16*n"},
    reads="sums",
    spec="specs/nldp_erm/local-trigonometric-smooth-queries.dps",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    h = int(p.facts["order"])
    if (h + 1) ** p.d > MOST_MOMENTS:
        return f"({h} + 1)^{p.d} = {(h + 1) ** p.d} moments are the least for this order, more than {MOST_MOMENTS}"
    if t.degree and not h < t.degree <= MOST_MOMENTS ** (1 / p.d) * (1 + 1e-12):
        return f"degree = {t.degree}: above the order {h}, and t^d is at most {MOST_MOMENTS}"
    return None


def degree(p: Problem, t: Tunables) -> int:
    """t: as set, or of least predicted error among those that have a user a product, the least one where none has."""
    if t.degree:
        return int(t.degree)
    h, scale = int(p.facts["order"]), OneBitMean(1.0).scale(p.facts["epsilon"])
    most = int(min(MOST_MOMENTS, p.n + 1) ** (1 / p.d) * (1 + 1e-12))
    best, least = h + 1, _expected(p, h + 1, scale)
    for s in range(h + 2, most + 1):  # noise grows, and what Jackson's theorem leaves falls faster and faster below it
        if (new := _expected(p, s, scale)) >= least:
            break
        best, least = s, new
    return best


def schedule(p: Problem, t: Tunables) -> Tree:
    return Draw("report", OneBitMean(1.0), per="user")


def run(records: Rows, p: Problem, t: Tunables, release: Door) -> Estimate:
    s = degree(p, t)
    parts = s**p.d - 1
    which = shared.dealt(p.n, parts, release.public.generator("questions"))
    reports = release.reports("report", products(records, p, which, s))
    return Estimate(np.clip(np.concatenate([[1.0], shared.means(reports, which, parts)]), -1.0, 1.0))


def products(records: Rows, p: Problem, which: shared.Integers, s: int) -> Vector:
    """Each user's own product, (n, 1): what its client randomises."""
    low, high = p.facts["x_low"], p.facts["x_high"]
    v = np.stack(np.unravel_index(np.arange(1, s**p.d), (s,) * p.d), axis=1)
    out, start = np.empty((len(which), 1)), 0
    for x, _ in records.blocks(1 << 15):
        rows = x if isinstance(x, np.ndarray) else x.toarray()
        with np.errstate(all="ignore"):  # what is no number is the product 0 to its channel
            u = (rows - (low / 2 + high / 2)) / (high / 2 - low / 2)
            out[start : start + len(rows), 0] = series.products(u, v[which[start : start + len(rows)]])
        start += len(rows)
    return out


# --------------------------------------------------------------------------------------------------- what is known beforehand


def _expected(p: Problem, s: int, scale: float) -> float:
    """The largest error of the battery: what Jackson's theorem leaves in each variable, and normal noise."""
    h = int(p.facts["order"])
    noise = scale * math.sqrt(series.energy(p.d, h, s) * (s**p.d - 1) / p.n)
    return p.d * series.best(h, s) + math.sqrt(2 * math.log(2 * p.facts["queries"])) * noise


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    s, h = degree(p, t), int(p.facts["order"])
    least, scale = p.n // (s**p.d - 1), calibrated.scale("report")
    if least == 0:
        return {}
    v = (scale * scale + 4) * series.energy(p.d, h, s) / least
    return {LARGEST: series.bias(p.d, h, s) + math.sqrt(2 * v * math.log(2 * p.facts["queries"] / t.zeta))}


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    s, h, scale = degree(p, t), int(p.facts["order"]), calibrated.scale("report")
    V = (scale * scale + 4) * series.energy(p.d, h, s) / max(p.n // (s**p.d - 1), 1)
    return {LARGEST: {"bias": series.bias(p.d, h, s), "V": V, "Q": p.facts["queries"]}}


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    return _expected(p, degree(p, t), calibrated.scale("report"))


def warnings(p: Problem, t: Tunables, calibrated: Any) -> list[str]:
    return shared.unasked(p.n, degree(p, t) ** p.d - 1)
