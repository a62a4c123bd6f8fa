"""The certificate of multinomial logistic regression, the one loss of several margins.

The weights are a matrix W of shape (K, d) with rows w_j. With the margins z = W x and p = softmax(z),

    loss      phi(z, y) = log sum_j exp(z_j) - z_y                           (times a positive factor)
    gradient  (p - e_y) x^T,       of Frobenius norm |p - e_y|_2 |x|_2
    Hessian   (diag(p) - p p^T) kron x x^T,   positive semidefinite, of largest eigenvalue lambda_max(diag(p) - p p^T) |x|_2^2.

For every p: |p - e_y|^2 = q^2 + sum_{j != y} p_j^2 <= 2 q^2 < 2 with q = 1 - p_y (a sum of squares of non-negative numbers is at most the
square of their sum), and v^T (diag(p) - p p^T) v, the variance of v_j under p, is at most (max v - min v)^2/4 <= |v|^2/2 (Popoviciu 1935).
Both are approached, at z_j - z_y -> infinity and at p = (1/2, 1/2, 0, ...), when the weights are not bounded.

Bounded weights, |z|_2 <= |W|_F |x|_2 <= rho, give less. Let a_j = z_j - z_y, j != y.

(1) S = sum exp(a_j) <= (K - 1) + rho sqrt(K(K - 1)) + (K/2)(exp(t) - 1 - t) with t = sqrt(2) rho, hence q = S/(1 + S) is bounded.
    For a_j <= t as |e_j - e_y| = sqrt(2); sum a_j = <z, sum_j e_j - (K - 1) e_y> <= rho sqrt(K(K - 1)); sum a_j^2 <= K rho^2, K being the
    largest eigenvalue of I + 1 1^T; and exp(a) <= 1 + a + a^2 h for a <= t with h = (exp(t) - 1 - t)/t^2: (exp(a) - 1 - a)/a^2 increases.
(2) p_j <= m = 1/(1 + (K - 1) exp(-rho sqrt(K/(K - 1)))). For by Jensen sum_{i != j} exp(z_i - z_j) >= (K - 1) exp of the mean of the
    z_i - z_j, and that mean is <z, v> with |v|^2 = 1 + 1/(K - 1).
(3) Non-negative numbers of sum q, each at most m, have squares that add up to at most k m^2 + (q - k m)^2, k = floor(q/m) (a convex
    function is largest at a vertex), which increases in q and in m.

So |p - e_y|^2 <= q^2 + (3), exact for K = 2, and lambda_max <= min(1/2, m), as diag(p) - p p^T <= diag(p). The norm of the weights is the
one over the set that the release minimises over: a gradient is only ever taken at its points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from dpspec.domains.domain import Domain
from dpspec.numeric.rounding import down, padded_down, padded_up, show, sqrt_up, up
from dpspec.symbolic.certificate import Certificate
from dpspec.symbolic.claims import declared_only, scaled, shrunk
from dpspec.symbolic.findings import Claim, Finding
from dpspec.symbolic.local import rounded
from dpspec.symbolic.losses import exp_down, exp_up
from dpspec.symbolic.parts import Parts
from dpspec.symbolic.softmax import NAME, Multinomial

HALF, ONE, TWO = Fraction(1, 2), Fraction(1), Fraction(2)
#: Beyond this product of norms the bounds are those of unbounded weights, to sixty digits.
_FAR = Fraction(100)


# ------------------------------------------------------------------------------------------------------------- the constants


@dataclass(frozen=True, slots=True)
class Extrema:
    """Over all labels and all margins with |z|_2 <= rho: ``slope`` >= sup |p - e_y|_2, ``wrong`` >= sup (1 - p_y), which is also the
    largest entry of |p - e_y|, ``curve`` >= sup lambda_max(diag(p) - p p^T)."""

    slope: Fraction
    wrong: Fraction
    curve: Fraction


def extrema(classes: int, rho: Fraction | None) -> Extrema:
    """The bounds of the docstring, rounded up; ``rho`` None: unbounded."""
    K = Fraction(classes)
    if rho is None or rho > _FAR:
        return Extrema(sqrt_up(TWO), ONE, HALF)
    t = sqrt_up(2 * rho * rho)
    e = exp_up(t)
    assert e is not None  # t <= 142
    total = min((K - 1) * e, (K - 1) + rho * sqrt_up(K * (K - 1)) + K / 2 * (e - 1 - t))
    wrong = total / (1 + total)
    most = min(wrong, _largest(K, rho))
    whole = math.floor(wrong / most)
    squares = wrong**2 + whole * most**2 + (wrong - whole * most) ** 2
    return Extrema(min(sqrt_up(TWO), sqrt_up(squares)), wrong, min(HALF, _largest(K, rho)))


@dataclass(frozen=True, slots=True)
class Local:
    """As :class:`dpspec.symbolic.local.LocalLipschitz`, for weights of Frobenius norm at most r."""

    classes: int
    factor: Fraction
    x: Fraction
    _known: dict[float, float] = field(default_factory=dict, compare=False, repr=False)

    def length(self, norm: float) -> float:
        r = rounded(norm)
        if r not in self._known:
            rho = Fraction(r) * self.x if r < math.inf else None
            self._known[r] = up(self.factor * extrema(self.classes, rho).slope * self.x)
        return self._known[r]

    def spread(self, norm: float) -> float:
        return 2 * self.length(norm)


@dataclass(frozen=True, slots=True)
class Error:
    """As :class:`dpspec.symbolic.running.SlopeError`. Every exp(z_j - max z) is off by 2^-53 |z_j - max z| and 32 units, of itself, so by
    at most 33 units of 1; their sum by K more; p has entries that sum to 1, so |p - e_y|_2 is off by no more than both together."""

    classes: int
    factor: float

    def value(self) -> float:
        return (2 * self.classes + 128) * 2.0**-53 * self.factor


def _largest(K: Fraction, rho: Fraction) -> Fraction:
    """(2): a bound of the largest probability, that of the label included."""
    return 1 / (1 + (K - 1) * exp_down(-rho * sqrt_up(K / (K - 1))))


def reached(classes: int, rho: Fraction | None) -> Fraction:
    """A value of |p - e_y|_2 that margins with |z|_2 <= rho have, rounded down: at z = 0, at z_j = -z_y for one j, or at all z_j alike."""
    K = classes
    r = 40.0 if rho is None else float(min(shrunk(rho), Fraction(40)))
    spread = r * math.sqrt((K - 1) / K)  # -z_y, the others at r/sqrt(K(K - 1))
    found = []
    for own, one, rest in ((0.0, 0.0, 0.0), (-r / math.sqrt(2), r / math.sqrt(2), 0.0), (-spread, spread / (K - 1), spread / (K - 1))):
        top = max(own, one, rest)
        a, b, c = math.exp(own - top), math.exp(one - top), math.exp(rest - top)
        total = a + b + (K - 2) * c
        found.append(math.sqrt(((total - a) / total) ** 2 + (b / total) ** 2 + (K - 2) * (c / total) ** 2))
    return padded_down(max(found))


# ----------------------------------------------------------------------------------------------------------- the certificate


def labels(classes: int) -> str:
    return f"{{{', '.join(map(str, range(classes)))}}}" if classes <= 12 else f"{{0, 1, ..., {classes - 1}}}"


def certificate(loss: Multinomial, parts: Parts, over: Domain, x: Domain, y: Domain, claims: Sequence[Claim] = ()) -> Certificate:
    """The constants of ``loss`` for W in ``over`` (a domain of K*d numbers: Frobenius norms) and enforced domains of x and y. Infinite,
    with the finding DP220, when nothing enforces labels 0, ..., K-1."""
    K = loss.classes
    if len(y.values) != K or any(v != i for i, v in enumerate(y.values)):
        text = f"multinomial({K}) needs labels in {labels(K)}, and nothing enforces that of y"
        found = Finding(
            "DP220", "error", text, f"Write y in {labels(K)} by reject (any other becomes 0), or by map(...) from the labels of the file."
        )
        undecided = tuple(declared_only(claim, "the loss has no certificate") for claim in claims)
        return Certificate(NAME, "none", classes=K, factor=loss.factor, findings=(found, *undecided))
    rho = scaled(over.l2, x.l2)
    bounds = extrema(K, rho)
    slope, curve = loss.factor * bounds.slope, loss.factor * bounds.curve
    square = None if x.l2 is None else x.l2**2
    plain = not parts.other.terms and parts.group is None
    convex = True if plain and parts.l2 >= 0 and parts.l1 >= 0 else None
    out = Certificate(
        name=NAME,
        method="closed form",
        lipschitz=_up(scaled(slope, x.l2)),
        lipschitz_inf=_up(scaled(loss.factor * bounds.wrong, x.linf)),
        lipschitz_l1=_up(scaled(2 * loss.factor * bounds.wrong, x.l1)),
        smooth=_up(scaled(curve, square)),
        # every entry of diag(p) - p p^T is at most 1/4 in size
        smooth_l1=_up(scaled(loss.factor / 4, None if x.linf is None else x.linf**2)),
        convex=convex,
        data_convex=True,
        strongly_convex=max(0.0, down(parts.l2)) if convex else 0.0,
        l2=float(parts.l2),
        l1=float(parts.l1),
        slope=up(slope),
        curve=up(curve),
        least_curve=0.0,
        classes=K,
        factor=loss.factor,
        at_zero=up(loss.factor * padded_up(math.log(K))),
        local=None if x.l2 is None else Local(K, loss.factor, x.l2),
        error=Error(K, up(loss.factor)),
        evidence=_evidence(loss, bounds, rho, parts),
        exact_regulariser=plain,
    )
    answers = (_answer(claim, out, loss, parts, over, x, slope, curve, rho) for claim in claims)
    return _with(out, (*_remarks(out, x), *(a for a in answers if a is not None)))


def _with(c: Certificate, findings: tuple[Finding, ...]) -> Certificate:
    from dataclasses import replace

    return replace(c, findings=findings)


def _up(v: Fraction | None) -> float:
    return math.inf if v is None else up(v)


def _evidence(loss: Multinomial, b: Extrema, rho: Fraction | None, parts: Parts) -> tuple[str, ...]:
    times = "" if loss.factor == 1 else f"{show(loss.factor)} times "
    slope, curve = show(loss.factor * b.slope), show(loss.factor * b.curve)
    out = []
    if rho is None:
        slopes = "|p - e_y|_2^2 = (1 - p_y)^2 + the other p_j^2 <= 2 (1 - p_y)^2 < 2"
        curves = "up to 1/2, as a variance under p is at most a quarter of the squared range"
    else:
        out.append(f"margins z = W x with |z|_2 <= |W|_F |x|_2 <= {show(rho)}")
        slopes = f"1 - p_y <= {show(b.wrong)} and p_j <= {show(min(ONE, _largest(Fraction(loss.classes), min(rho, _FAR))))} there"
        curves = "up to 1/2, as a variance under p is at most a quarter of the squared range, and up to the largest p_j"
    out.append(f"|phi'| <= {slope}: the gradient is {times}(p - e_y) x^T, p = softmax(W x), and {slopes}")
    out.append(f"|phi''| <= {curve}: the Hessian is {times}(diag(p) - p p^T) kron x x^T, with eigenvalues of its first factor {curves}")
    out.append("phi is convex: diag(p) - p p^T is a covariance")
    if parts.l2 or parts.l1 or parts.group is not None or parts.other.terms:
        out.append("regulariser split off: its gradient is the same for every record and cancels in replace-one differences")
    return tuple(out)


def _remarks(c: Certificate, x: Domain) -> tuple[Finding, ...]:
    out = []
    if x.l2 is None:
        text = "the records are not enforced to lie in a bounded set, so the gradient of one record has no bound"
        out.append(Finding("DP207", "warning", text, "Add an enforced domain such as `x in ball(l2, 1) by scale`."))
    if not c.exact_regulariser:
        text = "multinomial weights have a ridge or an l1 term, and this loss has another term in w alone; no algorithm treats it"
        out.append(Finding("DP215", "warning", text, "Write the regulariser as a ridge, an l1 term, or their sum."))
    return tuple(out)


# ---------------------------------------------------------------------------------------------------------------- the claims

_LOOSE = Fraction(1001, 1000)


def _answer(
    claim: Claim,
    c: Certificate,
    loss: Multinomial,
    parts: Parts,
    over: Domain,
    x: Domain,
    slope: Fraction,
    curve: Fraction,
    rho: Fraction | None,
) -> Finding | None:
    """As :func:`dpspec.symbolic.claims.answer`. A claim is false when it is below what some weights of the set reach with a record of the
    largest norm: W = z x^T/|x|^2 has the margins z and |W|_F = |z|/|x|."""
    if claim.name == "convex":
        return None if c.convex else declared_only(claim, "neither a proof nor a counterexample was found")
    assert claim.value is not None
    if claim.name == "strongly-convex":
        return _strongly(claim, parts)
    known = x.l2 is not None and x.shape in ("l1", "l2", "linf")  # a record of the largest norm exists
    free = over.shape == "reals"
    zero = free or over.shape in ("l1", "l2", "linf")
    if claim.name == "lipschitz":
        bound = scaled(slope, x.l2)
        least = loss.factor * reached(loss.classes, rho if over.shape == "l2" or free else Fraction(0)) if known and zero else None
        at = None if least is None or x.l2 is None else least * shrunk(x.l2)
    else:
        data = scaled(curve, None if x.l2 is None else x.l2**2)
        bound = None if data is None or not parts_smooth(parts) else data + parts.l2
        # z = 0 has p = 1/K; two equal margins far above the others have p = (1/2, 1/2, 0, ...)
        top = HALF if free else Fraction(1, loss.classes)
        at = loss.factor * shrunk(top) * shrunk(x.l2**2) + parts.l2 if known and zero and x.l2 is not None else None
    said = f"{claim.name}({float(claim.value):.6g})"
    if bound is not None and claim.value >= bound:
        if claim.value <= bound * _LOOSE:
            return None
        text = f"{said} holds, but {show(bound)} is proved"
        return Finding("DP205", "info", text, f"Drop the assumption, or write {claim.name}({show(bound)}).", claim.index)
    if at is not None and at > claim.value and (claim.name == "lipschitz" or parts_smooth(parts)):
        code, what = ("DP201", "the gradient of a record has norm") if claim.name == "lipschitz" else ("DP202", "the Hessian has norm")
        text = f"{said} is false: {what} at least {show(at, side=-1)} at a point of the set, for a record of the largest norm"
        return Finding(code, "error", text, f"Drop the assumption; {_proved(bound)} is proved.", claim.index)
    return declared_only(claim, "no finite constant is proved" if bound is None else f"only {show(bound)} is proved")


def _proved(bound: Fraction | None) -> str:
    return "no finite constant" if bound is None else show(bound)


def parts_smooth(parts: Parts) -> bool:
    return parts.l1 == 0 and parts.l2 >= 0 and parts.group is None and not parts.other.terms


def _strongly(claim: Claim, parts: Parts) -> Finding | None:
    assert claim.value is not None
    said = f"strongly-convex({float(claim.value):.6g})"
    if claim.value <= parts.l2:
        if claim.value * _LOOSE >= parts.l2:
            return None
        text = f"{said} holds, but {show(parts.l2, side=-1)} is proved"
        return Finding("DP205", "info", text, f"Write strongly-convex({show(parts.l2, side=-1)}).", claim.index)
    if not parts_smooth(parts):
        return declared_only(claim, f"the expression proves {show(parts.l2, side=-1)} (the ridge term)")
    text = (
        f"{said} is false: adding one vector to every row of W changes no probability, so the risk curves there by the ridge weight "
        f"{show(parts.l2)} alone, whatever the data"
    )
    return Finding("DP204", "error", text, "Enlarge the ridge term, or claim no more than it gives.", claim.index)
