"""Least squares over an l1 ball from one message a user (non-interactive local model).

F(w) = c (1/2n) sum (<x_i, w> - y_i)^2 over |w|_1 <= Lambda, from noisy products: S of x x^T, b of x y, each user's clipped and noised.

``method = direct``: d coordinates. The second moment M of the records is positive semidefinite and, with probability 1 - zeta/2, within
delta = sd sqrt(2 log(2 d (d + 1)/zeta)/n) of S in every entry. S is moved to such a matrix by alternating projections between that box and
the cone; a matrix of the box with eigenvalues above -e becomes S^+ = it + e I. They stop once e <= delta, which K = 1000 of them reach up
to a factor d/sqrt(K): they never move away from M (Fejer), so sum_k dist(S_k, cone)^2 <= |S - M|_F^2 <= (d delta)^2. Then

    |S^+ - M|_max <= (2 + max(1, d/sqrt(K))) delta = D,        |b - its mean|_inf <= delta_b = sd_b sqrt(2 log(4 d/zeta)/n),
    F(w) - min F  <=  c (D Lambda^2 + 2 delta_b Lambda) + gap,  w the minimiser of <w, S^+ w>/2 - <b, w>,

as F moves by at most c (D Lambda^2/2 + delta_b Lambda) on the ball. Rate n^-1/2. gap: 2 |S^+|_op (2 Lambda)^2/(T + 1)^2 after T steps.

``method = projection``: the users first map x by a public matrix, Phi^T x of m numbers, *clipped at B*; S^+ is the part of S with
eigenvalues above 0, and w minimises <Phi^T w, S^+ Phi^T w>/2 - <b, Phi^T w>. Rate n^-1/4, for dimensions where d^2/2 numbers a user are
too many. The paper sends noisy copies of Phi^T x and y and multiplies them at the server: noise of sigma^2, so n epsilon^4 in the rates.

Privacy: every client clips what it reports; sensitivities sqrt(2) r^2 (upper triangle) and 2 r tau (B for r), which compose exactly.

Source: 001, section 3.2, Algorithm 3, Lemma 6, Theorem 3.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.formulas import STRENGTH, STRENGTH_SOURCE
from dpspec.algorithms.objective import Objective
from dpspec.algorithms.sets import Vector, project_l1, unkept
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.channels.gaussian_ball_product import GaussianBallProduct
from dpspec.privacy.channels.gaussian_outer import GaussianOuter
from dpspec.privacy.schedule import Draw, Sequence, Tree

_EVIDENCE = "tests/algorithms/nldp_erm/test_ldp_l1_linear_regression.py::"

ENTRIES: Final = "noise that is small in every entry, a positive semidefinite matrix near it"
#: Alternating projections, and steps of the server's least squares, on public numbers.
PROJECTIONS: Final = 1000
STEPS: Final = 1000
#: Columns of a report's matrix: 125,250 numbers.
LARGEST: Final = 500

CARD = Card(
    id="ldp-l1-linear-regression",
    title="Least squares over an l1 ball from one message a user",
    family="nldp_erm",
    task="minimise",
    models=("nldp", "sldp"),
    guarantees=("approx", "zcdp", "gdp"),
    sources=(Source("001", "3.2", "Algorithm 3", ("Lemma 6", "Theorem 3")),),
    summary="Each user sends noisy products of its record, or of a public projection of it; the server minimises over the l1 ball.",
    needs=(
        Need("x", "privacy", "|x|_2 <= r, or the projected record at most B long", enforced_by="each client clips what it reports"),
        Need("y", "privacy", "|y| <= tau", enforced_by="each client clips its response"),
    ),
    options={"method": ("auto", "direct", "projection")},
    tunables={
        "zeta": Tunable("1/20", "the probability that a bound fails", minimum=1e-12, maximum=0.5),
        "r": Tunable("x_l2 else sigma_x*(sqrt(d) + sqrt(2*log(n)))", "the l2 norm of a record; 001: 1", minimum=1e-100, maximum=1e70),
        "tau": Tunable("y_abs else sigma_y*sqrt(2*log(n))", "the range of y; 001: 1", minimum=1e-100, maximum=1e70),
        "Lambda": Tunable("w_l1", "the radius of the l1 ball after `over`", minimum=1e-100, maximum=1e100),
        "strength": Tunable(STRENGTH, STRENGTH_SOURCE),
        "weight": Tunable(
            "min(0.9, max(0.1, (Lambda*r)^(2/3)/((Lambda*r)^(2/3) + (sqrt(2)*tau)^(2/3))))",
            "share of the second moment in mu^2: least Lambda^2 sd + 2 Lambda sd_b, up to logarithms",
            minimum=1e-6,
            maximum=1 - 1e-6,
        ),
        "width": Tunable(
            "min(d, 500, max(1, ceil(strength*sqrt(n*log(d + 1)))))",
            "m = Theta(epsilon sqrt(n log d)), 001 Theorem 3; for method = projection",
            integer=True,
            minimum=1,
            maximum=LARGEST,
        ),
        "B": Tunable(
            "r*(1 + sqrt(2*log(n/zeta)/width))",
            "clips no Phi^T x of a record of norm r with probability 1 - zeta",
            minimum=1e-100,
            maximum=1e70,
        ),
    },
    bounds=(
        Bound(
            "excess-empirical-risk",
            "explicit",
            "upper",
            "factor*(D*Lambda^2 + 2*delta_b*Lambda + gap)",
            "proved",
            ENTRIES,
            probability="1 - zeta",
            conditions="method = direct, |x|_2 <= r and |y| <= tau for every record",
            options={"method": "direct"},
            where={
                "factor": "sup phi''",
                "D": "error of an entry of the second moment, at most",
                "delta_b": "error of an entry of the moment with y, at most",
                "gap": "what is left of the solver's steps",
            },
        ),
        Bound(
            "excess-empirical-risk",
            "order",
            "upper",
            "C*Lambda*r*(Lambda*r + tau)*sqrt(log(d/zeta)/n)/epsilon",
            "proved",
            "the same for d <= 30, epsilon <= 1",
            probability="1 - zeta",
            conditions="method = direct, times sqrt(log(1/delta))",
            options={"method": "direct"},
            when=("epsilon <= 1", "d <= 30"),
        ),
        Bound(
            "excess-empirical-risk",
            "order",
            "upper",
            "C*(log(d)/(n*epsilon^2))^(1/4)",
            "claimed",
            "001 Theorem 3, with products in the place of copies",
            conditions="method = projection, r = tau = Lambda = 1; the printed scheme has epsilon^4",
            options={"method": "projection"},
            when=("r = 1", "tau = 1", "Lambda = 1"),
        ),
    ),
    faults=(
        Fault(
            "001 Algorithm 3, step 2, by Algorithm 1: noise for sensitivity 1, in the debiasing term, too",
            "vectors of the unit ball differ by up to 2: a nominal (1/2, delta/2) of each half spends 0.7",
            _EVIDENCE + "test_the_printed_noise_is_half_of_what_is_needed",
            "privacy",
        ),
        Fault(
            "001 line 231: the clip of Phi^T x hardly ever acts, and is left out of what is calibrated",
            "unclipped, two records differ by up to 2 |Phi|_op; a clip at 1 acts on half of them. It is at B here, and calibrated to B",
            _EVIDENCE + "test_a_projected_record_is_clipped_and_calibrated_to_the_clip",
            "privacy",
        ),
        Fault(
            "001 Lemma 6: |E^T E - n sigma^2 I| of order sigma sqrt(log m/n)",
            "2 sigma^2 sqrt(m/n) by Wishart matrices, so Theorem 3 has n epsilon^4; products noised by the client have n epsilon^2",
            _EVIDENCE + "test_the_noise_of_copies_is_larger_than_printed",
            "utility",
        ),
        Fault(
            "001 Lemma 6: |X^T r|/n of order 1/sqrt(n)",
            "sigma/sqrt(n)",
            "docs/faults.md#noise-times-data",
            "text",
        ),
        Fault(
            "001 section 3.2: Phi of m x d in the text, d x m in the algorithm; a stray `for beta > 0` in Theorem 3",
            "d x m, and nothing",
            "docs/faults.md#shape-of-a-projection",
            "text",
        ),
    ),
    cost={
        "gradients": "0",
        "rounds": "1",
        "bits_per_user": "64*(min(d, 500)*(min(d, 500) + 1)/2 + min(d, 500))",
        "memory_bytes": "8*(8192*d + 4*min(d, 500)^2)",
    },
    reads="sums",
    spec="specs/nldp_erm/ldp-l1-linear-regression.dps",
)


def resolved_options(p: Problem, t: Tunables) -> dict[str, str]:
    return {"method": method(p, t)}


def accepts(p: Problem, t: Tunables) -> str | None:
    if p.loss is None or p.loss.name != "squared" or p.loss.l1 or p.loss.l2 or p.loss.group is not None:
        return "the loss is not (<w, x> - y)^2/2 alone, up to a factor and without an l1 or group term"
    if getattr(p.task.over, "norm", "") != "l1":
        return "the set is no l1 ball (`minimise squared over ball(l1, 1)`)"
    if t.Lambda > p.facts["w_l1"] * (1 + 1e-12):
        return f"Lambda = {t.Lambda:g} exceeds the radius {p.facts['w_l1']:g} of the l1 ball after `over`: the estimate would lie outside"
    if t.method == "direct" and p.d > LARGEST:
        return f"method = direct sends d*(d + 1)/2 numbers a user; d = {p.d} is above {LARGEST}: method = projection"
    return unkept(p, "l1", radius=t.Lambda)


def method(p: Problem, t: Tunables) -> str:
    return ("direct" if p.d <= LARGEST else "projection") if t.method == "auto" else str(t.method)


def _size(p: Problem, t: Tunables) -> tuple[int, float]:
    """Columns of a report's matrix, and the length that its client clips at."""
    return (p.d, t.r) if method(p, t) == "direct" else (int(t.width), t.B)


def schedule(p: Problem, t: Tunables) -> Tree:
    m, r = _size(p, t)
    return Sequence(
        (
            Draw("moment", GaussianOuter(m, r), per="user", weight=t.weight),
            Draw("xy", GaussianBallProduct(m, r, t.tau), per="user", weight=1 - t.weight),
        )
    )


def run(records: Rows, p: Problem[Objective], t: Tunables, release: Door) -> Estimate:
    phi = None
    if method(p, t) == "projection":
        phi = release.public.generator("projection").normal(size=(p.d, t.width)) / math.sqrt(t.width)
    s, b = release.mean_blocks_many(("moment", "xy"), reported(records, phi))
    if phi is None:
        near, moved = nearest(s, level(p.d, p.n, release.scale("moment"), t.zeta))
        return Estimate(minimiser(near, b, t.Lambda), {"shift": moved})
    values, vectors = np.linalg.eigh(s)
    half = (vectors * np.sqrt(np.maximum(values, 0.0))).T @ phi.T
    return Estimate(minimiser(half.T @ half, phi @ b, t.Lambda))


def reported(records: Rows, phi: Vector | None, rows: int = 8192) -> Iterator[tuple[Vector, Vector]]:
    """(x, y) or (Phi^T x, y) in blocks: what each client clips. What leaves the doubles is the record 0."""
    for x, y in records.blocks(rows):
        dense = x if isinstance(x, np.ndarray) else x.toarray()
        with np.errstate(all="ignore"):
            yield (dense if phi is None else dense @ phi), y


# ------------------------------------------------------------------------------------------------ pieces, post-processing


def level(d: int, n: int, sd: float, zeta: float) -> float:
    """delta: with probability 1 - zeta/2 no entry of the mean of n noises of standard deviation sd is larger."""
    return sd * math.sqrt(2 * math.log(2 * d * (d + 1) / zeta) / n)


def nearest(s: Vector, delta: float) -> tuple[Vector, float]:
    """A positive semidefinite matrix within delta of s in every entry, plus e I; and e, at most delta unless the projections end first."""
    now, best, least = s, s, math.inf
    for _ in range(PROJECTIONS):
        values, vectors = np.linalg.eigh(now)
        if (e := max(0.0, -float(values[0]))) < least:
            best, least = now, e
        if least <= delta:
            break
        now = np.clip((vectors * np.maximum(values, 0.0)) @ vectors.T, s - delta, s + delta)
    return best + least * np.eye(len(s)), least


def minimiser(s: Vector, b: Vector, radius: float) -> Vector:
    """The minimiser of <w, S w>/2 - <b, w> over the l1 ball, S positive semidefinite, by accelerated projected gradient, until
    <g, w> + radius |g|_inf, g the gradient, which bounds the gap, is what all steps promise."""
    top = max(float(np.linalg.eigvalsh(s)[-1]), 1e-300)
    enough = 2 * top * (2 * radius) ** 2 / (STEPS + 1) ** 2
    w = ahead = np.zeros(b.size)
    momentum = 1.0
    for i in range(STEPS):
        if i % 8 == 0 and float(w @ (g := s @ w - b)) + radius * float(np.abs(g).max()) <= enough:
            break
        new = project_l1(ahead - (s @ ahead - b) / top, radius)
        grown = (1 + math.sqrt(1 + 4 * momentum * momentum)) / 2
        ahead = new + (momentum - 1) / grown * (new - w)
        w, momentum = new, grown
    return np.asarray(w)


# --------------------------------------------------------------------------------------------------- what is known beforehand


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    f = p.facts
    if method(p, t) != "direct" or t.Lambda < f["w_l1"] * (1 - 1e-12):
        return {}
    if not (t.r >= f.get("x_l2", math.inf) * (1 - 1e-12) and t.tau >= f.get("y_abs", math.inf) * (1 - 1e-12)):
        return {}
    return {ENTRIES: _bound(p, t, calibrated, 2 + max(1.0, p.d / math.sqrt(PROJECTIONS)))}


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    assert p.loss is not None
    off = (2 + max(1.0, p.d / math.sqrt(PROJECTIONS))) * level(p.d, p.n, calibrated.scale("moment"), t.zeta)
    cross = calibrated.scale("xy") * math.sqrt(2 * math.log(4 * p.d / t.zeta) / p.n)
    gap = 2 * (t.r**2 + p.d * off) * (2 * t.Lambda) ** 2 / (STEPS + 1) ** 2
    return {ENTRIES: {"factor": p.loss.curve, "D": off, "delta_b": cross, "gap": gap}}


def _bound(p: Problem, t: Tunables, calibrated: Any, times: float) -> float:
    assert p.loss is not None
    off = times * level(p.d, p.n, calibrated.scale("moment"), t.zeta)
    cross = calibrated.scale("xy") * math.sqrt(2 * math.log(4 * p.d / t.zeta) / p.n)
    gap = 2 * (t.r**2 + p.d * off) * (2 * t.Lambda) ** 2 / (STEPS + 1) ** 2
    return float(p.loss.curve * (off * t.Lambda**2 + 2 * cross * t.Lambda + gap))


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """Direct: a quarter of the bound, as the two noises hardly ever add up at one point. Projection: the noise of b and S through Phi and
    sqrt(log(d)/m) for the inner products."""
    if method(p, t) == "direct":
        return _bound(p, t, calibrated, 2.0) / 4
    assert p.loss is not None
    m = int(t.width)
    noise = (
        calibrated.scale("moment") * 2 * math.sqrt(m / p.n) * t.Lambda**2
        + calibrated.scale("xy") * math.sqrt(2 * math.log(2 * p.d) / p.n) * t.Lambda
    )
    bent = (t.r * t.Lambda) * (t.r * t.Lambda + t.tau) * math.sqrt(math.log(2 * p.d) / m) if m < p.d else 0.0
    return float(p.loss.curve * min((t.r * t.Lambda + t.tau) ** 2 / 2, noise + bent))
