"""Answers to the claims of the ``assume`` block: true in silence, false with a witness, loose with the better constant, or undecided."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dpspec.domains.domain import Domain, Margin
from dpspec.numeric.rounding import down, show
from dpspec.symbolic.certificate import Certificate
from dpspec.symbolic.extrema import window
from dpspec.symbolic.findings import Claim, Finding, Witness
from dpspec.symbolic.parts import Case, Parts, labels


@dataclass(frozen=True, slots=True)
class Draft:
    """A certificate together with the exact quantities that claims are compared with."""

    certificate: Certificate
    parts: Parts
    cases: tuple[Case, ...]
    margin: Margin
    x: Domain
    slope: Fraction | None
    curve: Fraction | None
    least: Fraction | None
    strong: Fraction
    points: tuple[tuple[Case, Fraction, Fraction], ...]
    concave_at: tuple[Case, Fraction, Fraction] | None


def scaled(k: Fraction | None, r: Fraction | None) -> Fraction | None:
    if k == 0 or r == 0:
        return Fraction(0)
    return None if k is None or r is None else k * r


def shrunk(v: Fraction) -> Fraction:
    """A radius may have been rounded up; what a witness reaches is rounded down."""
    return v * (1 - Fraction(1, 2**40))


def reached(u: Fraction, margin: Margin) -> bool:
    return margin.attained and (
        (margin.attained_low is None or margin.attained_low <= u) and (margin.attained_high is None or u <= margin.attained_high)
    )


def declared_only(claim: Claim, why: str) -> Finding:
    said = claim.name if claim.value is None else f"{claim.name}({_number(claim.value)})"
    return Finding(
        "DP206",
        "warning",
        f"{said} is declared only: {why}",
        "Bounds may use it and say so; privacy will not rest on it.",
        claim.index,
    )


def _number(v: Fraction) -> str:
    return f"{float(v):.6g}"


def answer(d: Draft, claims: Sequence[Claim]) -> tuple[Finding, ...]:
    answers = {"lipschitz": _lipschitz, "smooth": _smooth, "convex": _convex, "strongly-convex": _strongly_convex}
    found = (answers[claim.name](d, claim) for claim in claims)
    return tuple(f for f in found if f is not None)


#: A claim looser than the proved constant by more than this factor is remarked on.
_LOOSE = Fraction(1001, 1000)


def _lipschitz(d: Draft, claim: Claim) -> Finding | None:
    assert claim.value is not None
    bound = scaled(d.slope, d.x.l2)
    if bound is not None and claim.value >= bound:
        if claim.value <= bound * _LOOSE:
            return None
        text = f"lipschitz({_number(claim.value)}) holds, but {show(bound)} is proved; less noise follows from the smaller constant"
        return Finding("DP205", "info", text, f"Drop the assumption, or write lipschitz({show(bound)}).", claim.index)
    witness = _steepest(d)
    if witness is not None and d.x.l2 is not None:
        reached = Fraction(witness.value) * shrunk(d.x.l2)
        if reached > claim.value:
            text = (
                f"lipschitz({_number(claim.value)}) is false: at margin {_number(witness.margin)} and label {_number(witness.label)} "
                f"|phi'| >= {show(witness.value, side=-1)}, so the gradient of a record with |x|_2 = {show(d.x.l2)} has norm at least "
                f"{show(reached, side=-1)}"
            )
            tight = "Enforce smaller records or labels." if bound is None else f"Drop the assumption; {show(bound)} is proved."
            return Finding("DP201", "error", text, tight, claim.index, witness)
    if d.x.l2 is None:
        return declared_only(claim, "the records are not enforced to be bounded")
    why = "no finite constant is proved" if bound is None else f"only {show(bound)} is proved"
    return declared_only(claim, why)


def _candidates(d: Draft) -> list[tuple[Case, Fraction, Fraction]]:
    """Margins that records reach, with labels, at which a quantity may be extreme."""
    m = d.margin
    if not m.attained:
        return []
    margins = [v for v in (m.attained_low, m.attained_high) if v is not None] + [Fraction(0)]
    if m.attained_low is None or m.attained_high is None:
        margins += [Fraction(s * 4**k) for k in range(16) for s in (-1, 1)]
    out = [p for p in d.points if reached(p[1], m)]
    out += [(case, u, y) for case in d.cases for y in labels(case) for u in margins if reached(u, m)]
    return out


def _steepest(d: Draft) -> Witness | None:
    from dpspec.symbolic.enclose import derivative_at

    best: Witness | None = None
    for case, u, y in _candidates(d):
        low, high = derivative_at(case.form, u, y, 1)
        value = max(low, -high)  # a lower bound of |phi'|
        if math.isfinite(value) and value > 0 and (best is None or value > best.value):
            best = Witness(u, y, "|phi'|", value)
    return best


def _smooth(d: Draft, claim: Claim) -> Finding | None:
    assert claim.value is not None
    data = scaled(d.curve, None if d.x.l2 is None else d.x.l2**2)
    bound = None if data is None else data + abs(d.parts.l2)
    if bound is not None and claim.value >= bound and not d.parts.other.terms and d.parts.l1 == 0 and d.parts.group is None:
        if claim.value <= bound * _LOOSE:
            return None
        text = f"smooth({_number(claim.value)}) holds, but {show(bound)} is proved"
        return Finding("DP205", "info", text, f"Drop the assumption, or write smooth({show(bound)}).", claim.index)
    bent = d.parts.l1 < 0 or (d.parts.group is not None and d.parts.group[0] < 0)  # it may take away what the data part curves
    witness = None if d.parts.other.terms or bent else _sharpest(d)
    if witness is not None and d.x.l2 is not None:
        reached = Fraction(witness.value) * shrunk(d.x.l2**2) + d.parts.l2
        if reached > claim.value:
            text = (
                f"smooth({_number(claim.value)}) is false: near margin {_number(witness.margin)} and label {_number(witness.label)} phi' "
                f"changes at a rate of at least {show(witness.value, side=-1)}, so the gradient at a rate of at least "
                f"{show(reached, side=-1)}"
            )
            tight = "The derivative has no finite rate of change." if bound is None else f"Drop the assumption; {show(bound)} is proved."
            return Finding("DP202", "error", text, tight, claim.index, witness)
    return declared_only(claim, "no finite constant is proved" if bound is None else f"only {show(bound)} is proved")


def _sharpest(d: Draft) -> Witness | None:
    """A proved lower bound of the rate of change of phi': |phi'(b) - phi'(a)|/(b - a) <= sup|phi''|, on shrinking intervals."""
    from dpspec.symbolic.enclose import derivative_at

    if not d.margin.attained:
        return None
    best: Witness | None = None
    low, high = window(d.margin)

    def rate(case: Case, a: Fraction, b: Fraction, y: Fraction) -> float:
        (l1, h1), (l2, h2) = derivative_at(case.form, a, y, 1), derivative_at(case.form, b, y, 1)
        gap = max(l2 - h1, l1 - h2)
        return down(Fraction(gap) / (b - a)) if math.isfinite(gap) and gap > 0 else 0.0

    for case in d.cases:
        for y in labels(case):
            for start in range(8):
                # pieces cut at odd fractions, so that a kink at a round number does not fall on a cut
                a = low + (high - low) * Fraction(1246 * start, 9973)
                b = low + (high - low) * Fraction(min(1246 * start + 1250, 9973), 9973)
                if a == b:
                    continue
                for _ in range(30):
                    m = (a + b) / 2
                    left, right = rate(case, a, m, y), rate(case, m, b, y)
                    a, b = (a, m) if left >= right else (m, b)
                    value = max(left, right)
                    if value > 0 and (best is None or value > best.value):
                        best = Witness(m, y, "rate of change of phi'", value)
    return best


def _convex(d: Draft, claim: Claim) -> Finding | None:
    c = d.certificate
    if c.convex:
        return None
    if c.convex is False and d.concave_at is not None:
        from dpspec.symbolic.enclose import derivative_at

        case, u, y = d.concave_at
        high = derivative_at(case.form, u, y, 2)[1]
        text = f"convex is false: at margin {_number(u)} and label {_number(y)} phi'' <= {show(high)}"
        if d.parts.l2:
            text += f", more than the ridge term {_number(d.parts.l2)}/2 |w|^2 makes up for"
        witness = Witness(u, y, "-phi''", -high)
        return Finding("DP203", "error", text, "Use an algorithm for non-convex losses, or enlarge the ridge term.", claim.index, witness)
    return declared_only(claim, "neither a proof nor a counterexample was found")


def _strongly_convex(d: Draft, claim: Claim) -> Finding | None:
    assert claim.value is not None
    proved = d.strong
    if claim.value <= proved or (d.certificate.convex and claim.value <= d.parts.l2 and d.certificate.data_convex):
        if claim.value * _LOOSE >= proved:
            return None
        text = f"strongly-convex({_number(claim.value)}) holds, but {show(proved, side=-1)} is proved"
        return Finding("DP205", "info", text, f"Write strongly-convex({show(proved, side=-1)}).", claim.index)
    data = scaled(d.curve, None if d.x.l2 is None else d.x.l2**2)
    if data is not None and not d.parts.other.terms and d.parts.group is None:
        # the least eigenvalue of an average of phi'' x x^T is at most its trace over d
        ceiling = d.parts.l2 + data / (d.x.dimension or 1)
        if claim.value > ceiling:
            per = f"/{d.x.dimension}" if d.x.dimension else ""
            text = (
                f"strongly-convex({_number(claim.value)}) is false: the least curvature of the risk is at most the ridge weight plus "
                f"sup|phi''| |x|_2^2{per} = {show(ceiling)} whatever the data"
            )
            return Finding("DP204", "error", text, "Enlarge the ridge term, or claim no more than it gives.", claim.index)
    why = f"the expression proves {show(proved, side=-1)} (the ridge term); the rest depends on the data's covariance"
    return declared_only(claim, why)
