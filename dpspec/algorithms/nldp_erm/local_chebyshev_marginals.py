"""Marginals of many attributes from parities of few, by a Chebyshev polynomial (non-interactive local model).

A record is in a cell of k attributes iff m = 0 of them differ from it. The indicator is replaced by a polynomial of degree t < k in m,

    p(m) = T T_t((2m - k - 1)/(k - 1)) (-1)^t/(T + 1),        T = T_t((k + 1)/(k - 1)),        |p(m) - [m = 0]| <= gamma = 1/(T + 1)

at m = 0, 1, ..., k: T_t is at most 1 on [-1, 1], which holds 1, ..., k, and T at m = 0. (The document scales it to err at 1, ..., k alone:
twice gamma.) A symmetric polynomial of degree t has a Fourier series of characters of at most t attributes, with the weights

    w_s = 2^-k sum_m p(m) K_m(s),        K_m(s) = sum_i (-1)^i C(s, i) C(k - s, m - i),

so N = sum_{1 <= s <= t} C(d, s) parities answer all signed marginals of k attributes, one bit a user (``_parities``):

    max |answer - share|  <=  gamma + sqrt(2 V log(2 A/zeta)),    V = (B^2 + (1 + q)^2) sum_{s >= 1} C(k, s) w_s^2/floor(n/N).

``degree = 0`` takes the degree of least predicted error. t = k is marginals-fourier-ldp. The printed form sends the coefficients of a
disjunction in the monomial basis, 1[S in supp(x)]; characters have the same span and less noise, and answer every sign pattern.

Source: 000, section 5.1.5, Algorithm 5.1.35, Lemma 5.1.10, Theorem 5.1.10.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.nldp_erm import _parities as shared
from dpspec.algorithms.sets import Vector
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.channels.one_bit import OneBitMean
from dpspec.privacy.schedule import Draw, Tree

_EVIDENCE = "tests/algorithms/nldp_erm/test_local_chebyshev_marginals.py::"

LARGEST: Final = "Chebyshev's polynomial, and Hoeffding's lemma for a random permutation and one bit a user"
#: Rounding in the weights of a polynomial: sums of 2^k terms of both signs.
MOST_ATTRIBUTES: Final = 20

CARD = Card(
    id="local-chebyshev-marginals",
    title="Marginals of many attributes from parities of few",
    family="nldp_erm",
    task="marginals",
    models=("nldp", "sldp"),
    guarantees=("pure", "approx"),
    sources=(Source("000", "5.1.5", "Algorithm 5.1.35", ("Lemma 5.1.10", "Theorem 5.1.10")),),
    summary="One publicly assigned parity of few attributes a user; the server answers by a Chebyshev polynomial of the cell's indicator.",
    needs=(Need("x", "privacy", "an attribute has one of two listed values"),),
    tunables={
        "zeta": Tunable("1/20", "the probability that a bound fails", minimum=1e-12, maximum=0.5),
        "degree": Tunable("0", "of the polynomial; 0: of least predicted error", integer=True, minimum=0, maximum=MOST_ATTRIBUTES),
    },
    bounds=(
        Bound(
            "max-query-error",
            "explicit",
            "upper",
            "1/(T + 1) + sqrt(2*V*log(2*A/zeta))",
            "proved",
            LARGEST,
            probability="1 - zeta",
            conditions="T of the degree, V of an answer, A = C(d, k)*2^k answers; against the shares of any records",
            where={"T": "height of the polynomial of the degree", "V": "variance proxy of an answer", "A": "answers, C(d, k)*2^k"},
        ),
        Bound(
            "max-query-error",
            "order",
            "upper",
            "C*d^(C*sqrt(order)*log(1/alpha))*sqrt(log(1/zeta)/n)/epsilon",
            "claimed",
            "000 Theorem 5.1.10",
            probability="1 - zeta",
            conditions="alpha the error of the polynomial; n above d^(C*sqrt(k)*log(1/alpha)): no polynomial in d",
            where={"alpha": "error of the polynomial", "order": "order of the marginals"},
        ),
    ),
    faults=(
        Fault(
            "000 Algorithm 5.1.35: the server runs LDP-AVG on the users' coefficients",
            "then the coefficients leave the device without noise, and tell the record; the client draws its noise here",
            _EVIDENCE + "test_coefficients_without_noise_tell_the_record",
            "privacy",
        ),
        Fault(
            "000 Algorithm 5.1.35, step 7: LDP-AVG of Lemma 5.1.1 with epsilon on each of N coefficients",
            "that spends up to N epsilon; one coefficient a user spends epsilon",
            _EVIDENCE + "test_noise_on_every_coefficient_spends_epsilon_each",
            "privacy",
        ),
        Fault(
            "000 Algorithm 5.1.35: coefficients in [0, b]",
            "they have both signs, so a range of 2 b, and noise of b/epsilon spends 2 epsilon; a parity is 1 or -1",
            _EVIDENCE + "test_the_printed_range_is_half_of_the_true_one",
            "privacy",
        ),
        Fault(
            "000 Algorithm 5.1.35: b = d^(C sqrt(k) log(1/gamma)), C unspecified",
            "characters have weights of at most 1 in absolute value",
            _EVIDENCE + "test_the_weights_are_at_most_one",
            "utility",
        ),
        Fault(
            "000 Algorithm 5.1.35: R^(p + t_k) and a query of dimension d",
            "C(p + t_k, t_k) coefficients, p attributes",
            "docs/faults.md#coefficients-of-a-marginal",
            "text",
        ),
    ),
    cost={"gradients": "0", "rounds": "1", "bits_per_user": "1", "memory_bytes": "16*n + 16*answers"},
    reads="sums",
    spec="specs/nldp_erm/local-chebyshev-marginals.dps",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    k = _order(p)
    if k < 2:
        return "a marginal of one attribute is a parity itself: marginals-fourier-ldp"
    if k > MOST_ATTRIBUTES:
        return f"{k} attributes a marginal are more than {MOST_ATTRIBUTES}, to which the weights of its polynomial are exact in doubles"
    if t.degree >= k:
        return f"degree = {t.degree} of {k} attributes is no approximation: marginals-fourier-ldp answers exactly"
    return None


def _order(p: Problem) -> int:
    return int(p.facts["order"])


def height(k: int, t: int) -> float:
    """T = T_t((k + 1)/(k - 1)) of k >= 2."""
    return math.cosh(t * math.acosh((k + 1) / (k - 1)))


def weights(k: int, t: int) -> Vector:
    """w_0, ..., w_t of the polynomial of degree t < k, from its values at 0, ..., k."""
    at = np.arange(k + 1)
    values = np.polynomial.chebyshev.chebval((2 * at - k - 1) / (k - 1), [0.0] * t + [1.0]) * (-1.0) ** t / (height(k, t) + 1)
    values[0] = height(k, t) / (height(k, t) + 1)
    return np.array([sum(float(values[m]) * krawtchouk(k, m, s) for m in range(k + 1)) for s in range(t + 1)]) / 2.0**k


def krawtchouk(k: int, m: int, s: int) -> int:
    """The sum over the cells that differ in m of k attributes of the character of s of them."""
    return sum((-1) ** i * math.comb(s, i) * math.comb(k - s, m - i) for i in range(min(s, m) + 1))


def degree(p: Problem, t: Tunables) -> int:
    """As set, or the one of least predicted error among those that have a user a parity."""
    if t.degree:
        return int(t.degree)
    scale = OneBitMean(1.0).scale(p.facts["epsilon"])
    fit = [s for s in range(1, _order(p)) if s == 1 or shared.number(p.d, s) <= p.n]
    return min(fit, key=lambda s: _expected(p, s, scale))


def schedule(p: Problem, t: Tunables) -> Tree:
    return Draw("report", OneBitMean(1.0), per="user")


def run(records: Rows, p: Problem, t: Tunables, release: Door) -> Estimate:
    k, few = _order(p), degree(p, t)
    parts = shared.number(p.d, few)
    which = shared.dealt(p.n, parts, release.public.generator("questions"))
    values = shared.parities(records, shared.table(p.d, few), which, p.facts["cut"])
    found = shared.means(release.reports("report", values), which, parts)
    return Estimate(np.clip(shared.cells(found, p.d, k, weights(k, few)), 0.0, 1.0))


# --------------------------------------------------------------------------------------------------- what is known beforehand


def _expected(p: Problem, t: int, scale: float) -> float:
    """The largest error of all answers: of the polynomial, and of normal noise."""
    k = _order(p)
    noise = math.sqrt(2 * math.log(2 * p.facts["answers"])) * shared.spread(p.n, p.d, k, weights(k, t), scale)
    return 1 / (height(k, t) + 1) + noise


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    k, few = _order(p), degree(p, t)
    if p.n < shared.number(p.d, few):
        return {}
    v = shared.proxy(p.n, p.d, k, weights(k, few), calibrated.scale("report"))
    return {LARGEST: 1 / (height(k, few) + 1) + math.sqrt(2 * v * math.log(2 * p.facts["answers"] / t.zeta))}


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    k, few = _order(p), degree(p, t)
    V = shared.proxy(p.n, p.d, k, weights(k, few), calibrated.scale("report")) if p.n >= shared.number(p.d, few) else math.inf
    return {LARGEST: {"T": height(k, few), "V": V, "A": p.facts["answers"]}}


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    return _expected(p, degree(p, t), calibrated.scale("report"))


def warnings(p: Problem, t: Tunables, calibrated: Any) -> list[str]:
    return shared.unasked(p.n, shared.number(p.d, degree(p, t)))
