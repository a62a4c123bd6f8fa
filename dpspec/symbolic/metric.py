"""The certificate of metric learning: a loss of two records and a Mahalanobis matrix W, symmetric and positive semidefinite.

With the records' difference v = x1 - x2, u = v^T W v = <W, v v^T> >= 0 and t = y1 y2 (b - u), y in {-1, 1},

    loss      phi(t): log(1 + exp(-t)) or max(0, 1 - t)              (times a positive factor)
    gradient  s v v^T, s = -y1 y2 phi'(t),   of Frobenius norm |s| |v|^2
    Hessian   phi''(t) (v v^T)(v v^T)^T,     of norm phi''(t) |v|^4,

so it is convex in W. For |x| <= X and |W|_F <= r the margin u lies in [0, R], R = 4 r X^2, and the logistic slope in [0, s+] where
labels agree, s+ = 1/(1 + exp(b - R)), and in [-s-, 0] where they do not, s- = 1/(1 + exp(-b)); 1 for the hinge.

Two pairs that share a record have gradients s v v^T and t w w^T, |v|, |w| <= 2 X. Of one sign they are at most sqrt(s^2 |v|^4 + t^2
|w|^4) <= sqrt(2) max(s+, s-) 4 X^2 apart, as <v v^T, w w^T> = <v, w>^2 >= 0; of two signs at most (s+ + s-) 4 X^2.

Source: 000, section 3.3.1, Example 1 (whose v^T W v is printed with w for x), with b = 1. The catalogue's G = L_s = 4 is r = X = 1 with
slopes of 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dpspec.domains.domain import Domain
from dpspec.numeric.rounding import down, show, sqrt_up, up
from dpspec.spec.expr import Call, Expr, Name, walk
from dpspec.symbolic.certificate import Certificate
from dpspec.symbolic.claims import declared_only
from dpspec.symbolic.findings import Claim, Finding
from dpspec.symbolic.losses import drop_free, sigmoid_up
from dpspec.symbolic.normal import Fn, NoNormalForm, Poly, Scope, normal_form, variables
from dpspec.symbolic.parts import Parts, split

NAMES = ("metric-logistic", "metric-hinge")
_TWO, _FOUR = Fraction(2), Fraction(4)


@dataclass(frozen=True, slots=True)
class Metric:
    """``factor`` times the loss ``name`` at the threshold ``b``."""

    name: str
    b: Fraction
    factor: Fraction


@dataclass(frozen=True, slots=True)
class Error:
    """As :class:`dpspec.symbolic.running.SlopeError`. x^T W x and the cross product of a margin are sums of d^2 products, off by
    (2 d + 16) units of |W|_F |x|^2 each, four of them in u; phi' follows by phi'', and its own evaluation is off by 64 units."""

    features: int
    slope: float
    curve: float
    far: float  # R

    def value(self) -> float:
        margin = (2 * self.features + 16) * 2.0**-53 * self.far
        return 64 * 2.0**-53 * self.slope + (self.curve * margin if math.isfinite(self.curve) else 0.0)


def recognise(data: Poly) -> Metric | None:
    """The data part of a loss as one of a Mahalanobis matrix; None when that does not occur in it. Raises NoNormalForm when it occurs in
    any other way than multiplied by a positive number."""
    form = drop_free(data)
    if not any(isinstance(a, Fn) and a.name in NAMES for m, _ in form.terms for a, _ in m):
        return None
    if len(form.terms) == 1:
        mono, factor = form.terms[0]
        if len(mono) == 1 and mono[0][1] == 1 and isinstance(mono[0][0], Fn) and factor > 0 and variables(data) == {"u"}:
            return Metric(mono[0][0].name, mono[0][0].params[0], factor)
    raise NoNormalForm("the loss of a metric may only be multiplied by a positive number and have a ridge added")


def of(loss: Expr, values: Mapping[str, Fraction | int | float]) -> Metric | None:
    """The metric loss that an expression of two records is, in public numbers."""
    return recognise(split(normal_form(loss, Scope(values, ("w", "x1", "x2"), ("y1", "y2")))).data)


def mentions(loss: Expr) -> bool:
    """Whether a loss is one of a Mahalanobis matrix, by its words."""
    words = (*NAMES, "metric")
    return any((isinstance(e, Call) and e.function in words) or (isinstance(e, Name) and e.id in words) for e in walk(loss))


def certificate(loss: Metric, parts: Parts, over: Domain, x: Domain, y: Domain, claims: Sequence[Claim] = ()) -> Certificate:
    """The constants of ``loss`` for W in ``over`` (a Frobenius ball of d*d numbers) and enforced domains of x and y. Infinite, with a
    finding, when nothing enforces labels -1 and 1 (DP220) or a bound of x (DP207). Raises NoNormalForm for a penalty other than a ridge."""
    if parts.l1 != 0 or parts.group is not None or parts.other.terms or parts.l2 < 0:
        raise NoNormalForm("a Mahalanobis matrix has a ridge c/2*|w|^2 or no penalty")
    d = x.dimension
    assert d is not None
    assert over.l2 is not None
    undecided = tuple(declared_only(claim, "it is not decided for the loss of a metric") for claim in claims)
    if tuple(y.values) != (Fraction(-1), Fraction(1)):
        text = f"{loss.name} is a loss of labels -1 and 1, and nothing enforces that of y"
        found = Finding("DP220", "error", text, "Write y in {-1, 1} by map(...), with the labels of the file.")
        return Certificate(loss.name, "none", classes=d, factor=loss.factor, findings=(found, *undecided))
    if x.l2 is None:
        text = "the records are not enforced to lie in a bounded set, so the gradient of one record has no bound"
        found = Finding("DP207", "warning", text, "Add an enforced domain such as `x in ball(l2, 1) by scale`.")
        return Certificate(loss.name, "none", classes=d, factor=loss.factor, findings=(found, *undecided))
    long = _FOUR * x.l2**2  # |v|^2
    far = over.l2 * long
    logistic = loss.name == "metric-logistic"
    alike, unlike = (sigmoid_up(far - loss.b), sigmoid_up(loss.b)) if logistic else (Fraction(1), Fraction(1))
    slope = loss.factor * max(alike, unlike)
    curve = loss.factor / 4 if logistic else None
    apart = max(loss.factor * (alike + unlike), sqrt_up(_TWO) * slope)
    entry = None if x.linf is None else (2 * x.linf) ** 2
    return Certificate(
        name=loss.name,
        method="closed form",
        lipschitz=up(slope * long),
        lipschitz_inf=math.inf if entry is None else up(slope * entry),
        lipschitz_l1=math.inf if x.l1 is None else up(slope * (2 * x.l1) ** 2),
        smooth=math.inf if curve is None else up(curve * long**2),
        smooth_l1=math.inf if curve is None or entry is None else up(curve * entry**2),
        convex=True,
        data_convex=True,
        strongly_convex=down(parts.l2),
        l2=float(parts.l2),
        slope=up(slope),
        curve=math.inf if curve is None else up(curve),
        least_curve=0.0,
        evidence=(
            f"(x1 - x2)^T W (x1 - x2) in [0, {show(far)}]",
            f"|phi'| <= {show(slope)}",
            "phi is convex in W",
            "regulariser split off: its gradient is the same for every record and cancels in replace-one differences",
        ),
        findings=undecided,
        classes=d,
        factor=loss.factor,
        spread=up(apart * long),
        error=Error(d, up(slope), math.inf if curve is None else up(curve), up(far)),
    )
