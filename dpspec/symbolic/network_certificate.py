"""The certificate of a network of two layers: domains to ranges of margins and output weights, bounds to constants.

The set that the release minimises over is one of all weights, the vectors w_k and the numbers v_k together: norms are those of the whole
vector, so one unit's weights lie in the set of the same shape and radius, and every v_k within the bound of an entry.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from dpspec.domains.domain import Domain, Margin, margin_range
from dpspec.numeric.rounding import show, sqrt_up, up
from dpspec.symbolic.certificate import Certificate
from dpspec.symbolic.claims import declared_only
from dpspec.symbolic.findings import Claim, Finding
from dpspec.symbolic.network import Network, saturating
from dpspec.symbolic.parts import Parts

NAME = "network"
#: Boxes for the constant that noise is scaled to, and for each of the others.
_STEEP, _OTHER = 60_000, 20_000
_LOOSE = Fraction(1001, 1000)


@dataclass(frozen=True, slots=True)
class ThirdDerivative:
    """As :class:`dpspec.symbolic.third.HessianLipschitz`; searched for when asked. ``value`` is from the l2 to the operator norm."""

    net: Network
    region: object
    scale: Fraction

    def value(self) -> float:
        from dpspec.symbolic.network_bounds import supremum

        return supremum(self.net, self.region, "T", _OTHER).upper

    def third(self) -> float:
        found = self.value()
        return up(Fraction(found) / self.scale**3) if math.isfinite(found) else math.inf


def certificate(net: Network, parts: Parts, unit: Domain, whole: Domain, x: Domain, y: Domain, claims: Sequence[Claim] = ()) -> Certificate:
    """The constants of ``net`` for weights in a set whose domain is ``unit`` as one of the d weights of a unit and ``whole`` as one of all
    weights, and enforced domains of x and y. Infinite, with a finding, where a margin, an output weight or the label has no bound."""
    margin = margin_range(unit, x)
    bare = _bare(net, parts, margin)
    finding = _unbounded(net, unit, x, y, margin)
    if finding is not None:
        undecided = tuple(declared_only(claim, "the loss has no certificate") for claim in claims)
        return replace(bare, findings=(finding, *undecided))
    assert x.l2 is not None
    from dpspec.symbolic.network_bounds import FAR, Region, supremum

    z = (-FAR if margin.low is None else margin.low, FAR if margin.high is None else margin.high)
    v = _entries(whole)
    ranges = (*(z for _ in range(net.width)), *(v for _ in range(net.variables - net.width)))
    assert y.low is not None or y.values
    labels = tuple((a, a) for a in y.values) if y.values else ((y.low, y.high),)
    region = Region(ranges, labels, x.l2, whole.l2)  # type: ignore[arg-type]
    steep, bent = supremum(net, region, "G", _STEEP), supremum(net, region, "H", _OTHER)
    R, L, B = x.l2, steep.upper, bent.upper
    root = sqrt_up(Fraction(net.width))
    more = 1 if net.outputs else 0
    flat = Fraction(1) if net.outputs or x.linf is None else x.linf / R

    def times(c: float, k: Fraction | None) -> float:
        return math.inf if k is None or not math.isfinite(c) else up(Fraction(c) * k)

    found = replace(
        bare,
        method="interval branch and bound",
        lipschitz=L,
        lipschitz_inf=times(L, flat),
        # an l1 norm over K units is sqrt(K) times the l2 norm of their slopes at most
        lipschitz_l1=times(L, None if x.l1 is None else root * sqrt_up((x.l1 / R) ** 2 + more)),
        smooth=B,
        smooth_l1=times(B, flat**2),
        slope=times(L, 1 / R),
        curve=times(B, 1 / R**2),
        least_curve=-times(B, 1 / R**2),
        at_zero=_fall(net, region) if _holds_zero(whole) else math.inf,
        hessian=ThirdDerivative(net, region, R),
        frobenius=supremum(net, region, "F", _OTHER).upper if math.isfinite(B) else math.inf,
        evidence=_evidence(net, parts, margin, v, steep.boxes, L, B, R),
    )
    answers = (_answer(claim, found, parts) for claim in claims)
    loose = not (steep.tight and bent.tight) and math.isfinite(L)
    return replace(found, findings=(*_remarks(found, loose, margin), *(a for a in answers if a is not None)))


def _bare(net: Network, parts: Parts, margin: Margin) -> Certificate:
    return Certificate(
        NAME,
        "none",
        l2=float(parts.l2),
        l1=float(parts.l1),
        margin=margin,
        exact_regulariser=not parts.other.terms,
        network=net,
    )


def _entries(whole: Domain) -> tuple[Fraction, Fraction]:
    """The range of one weight; of an unbounded set nothing (no output weight is asked for)."""
    most = whole.linf
    low = whole.low if whole.low is not None else None if most is None else -most
    high = whole.high if whole.high is not None else most
    return (low if low is not None else Fraction(0), high if high is not None else Fraction(0))


def _holds_zero(whole: Domain) -> bool:
    return (whole.low is None or whole.low <= 0) and (whole.high is None or whole.high >= 0)


def _unbounded(net: Network, unit: Domain, x: Domain, y: Domain, margin: Margin) -> Finding | None:
    """What has no bound, so that nothing is proved."""
    if x.l2 is None:
        text = "the records are not enforced to lie in a bounded set, so the gradient of one record has no bound"
        return Finding("DP207", "warning", text, "Add an enforced domain such as `x in ball(l2, 1) by scale`.")
    if x.l2 == 0:
        return Finding("DP217", "warning", "every record is 0, so the margins are, too", "Enforce a domain of x with a positive radius.")
    if not y.values and (y.low is None or y.high is None):
        text = "the label y is not enforced to lie in a bounded set, so the derivatives of the loss have no bound"
        return Finding("DP214", "warning", text, "Enforce one, for example `y in [-1, 1] by clip`.")
    if net.outputs and unit.linf is None:
        text = "the output weights are unbounded, and with them the gradient of a record"
        return Finding(
            "DP208", "warning", text, "Minimise over a bounded set such as ball(l2, 2), or give v1, v2, ... numbers in the data block."
        )
    if not margin.bounded and not saturating(net):
        text = "the margins <w1, x> are unbounded, and the units are not all functions that level out (tanh, 1/(1 + exp(-z)), erf)"
        return Finding("DP208", "warning", text, "Minimise over a bounded set such as ball(l2, 2).")
    return None


def _fall(net: Network, region: object) -> float:
    """A bound of the loss of a record at weights 0 above its infimum over the set."""
    from dpspec.symbolic.network_bounds import Region, supremum

    assert isinstance(region, Region)
    origin = replace(region, ranges=((Fraction(0), Fraction(0)),) * net.variables, norm=None)
    top, bottom = supremum(net, origin, "high", 1_000).upper, supremum(net, region, "low", 5_000).upper
    return max(0.0, up(Fraction(top) + Fraction(bottom))) if math.isfinite(top) and math.isfinite(bottom) else math.inf


def _evidence(
    net: Network, parts: Parts, margin: Margin, v: tuple[Fraction, Fraction], boxes: int, L: float, B: float, R: Fraction
) -> tuple[str, ...]:
    out = []
    if margin.low is not None and margin.high is not None:
        out.append(f"margins <w_k, x> in [{show(margin.low, side=-1)}, {show(margin.high)}] ({margin.reason})")
    else:
        out.append("every unit levels out, so every margin counts")
    if net.outputs:
        out.append(f"output weights in [{show(v[0], side=-1)}, {show(v[1])}]")
    out.append(f"|gradient of a record| <= {show(L)}: bounds propagated through the units and the loss ({boxes} boxes), |x|_2 <= {show(R)}")
    out.append(f"|Hessian of a record| <= {show(B)}")
    if parts.l2 or parts.l1:
        out.append("regulariser split off: its gradient is the same for every record and cancels in replace-one differences")
    return tuple(out)


def _remarks(c: Certificate, loose: bool, margin: Margin) -> tuple[Finding, ...]:
    out = []
    if not math.isfinite(c.lipschitz):
        text = "the derivatives of the loss have no finite bound where margins, output weights and labels lie"
        out.append(Finding("DP217", "warning", text, "Shrink the constraint set or the record domain so that the loss stays regular."))
    elif not math.isfinite(c.smooth):
        out.append(Finding("DP209", "info", "the loss is not smooth: the derivative of a unit, or of the loss, jumps or is unbounded"))
    if loose:
        out.append(Finding("DP212", "info", "branch and bound stopped at its limit: the constants are proved but may be loose"))
    if not c.exact_regulariser:
        text = "the loss has a term in w alone that is neither c*|w|^2 nor c*|w|_1; it cancels in sensitivities, but no algorithm treats it"
        out.append(Finding("DP215", "warning", text, "Write the regulariser as a ridge, an l1 term, or a sum of these."))
    return tuple(out)


def _answer(claim: Claim, c: Certificate, parts: Parts) -> Finding | None:
    """A claim at or above what is proved holds; one below it, and convexity, is left undecided."""
    if claim.name not in ("lipschitz", "smooth"):
        return declared_only(claim, "no convexity of a network is proved")
    assert claim.value is not None
    plain = claim.name == "lipschitz" or (parts.l1 == 0 and not parts.other.terms)
    proved = c.lipschitz if claim.name == "lipschitz" else c.smooth + abs(c.l2)
    if not math.isfinite(proved) or not plain:
        return declared_only(claim, "no finite constant is proved")
    bound = Fraction(proved)
    if claim.value < bound:
        return declared_only(claim, f"only {show(bound)} is proved")
    if claim.value <= bound * _LOOSE:
        return None
    text = f"{claim.name}({float(claim.value):.6g}) holds, but {show(bound)} is proved"
    return Finding("DP205", "info", text, f"Drop the assumption, or write {claim.name}({show(bound)}).", claim.index)
