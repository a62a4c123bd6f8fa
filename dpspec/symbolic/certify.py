"""Certificates of a loss: Lipschitz constant, smoothness, convexity, strong convexity, proved from the expression.

A loss phi(<w, x>, y) has the gradient phi'(u, y) x and the Hessian phi''(u, y) x x^T, so bounds on phi' and phi'' over the range of
the margin u, times norms of x, bound everything that privacy and convergence need. The range of u comes from the constraint set and
the enforced record domain by Hoelder's inequality. Recognised losses have closed forms (:mod:`dpspec.symbolic.losses`, no heavy
import); any other expression of the language is differentiated by propagation and enclosed by branch and bound in ball arithmetic
(:mod:`dpspec.symbolic.enclose`). All numbers are rounded to the safe side.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, TypeAlias

from dpspec.spec.expr import Expr
from dpspec.spec.model import Ball, Box, Finite, Polytope, Reals, Set, Simplex, Sparse
from dpspec.symbolic.convexity import curvature
from dpspec.symbolic.domains import Margin, RecordDomain, finite, interval, margin_range, record_domain
from dpspec.symbolic.findings import Claim, Finding, Witness
from dpspec.symbolic.losses import Constants, constants, drop_free, recognise
from dpspec.symbolic.normal import (
    BadParameter,
    NoNormalForm,
    NoValue,
    Poly,
    Scope,
    Var,
    add,
    const,
    normal_form,
    substitute,
    var,
    variables,
)
from dpspec.symbolic.rounding import down, show, up

if TYPE_CHECKING:  # NumPy comes in only when the loss is evaluated
    from dpspec.symbolic.margin import MarginLoss

Method: TypeAlias = Literal["closed form", "interval branch and bound", "none"]
SetLike: TypeAlias = Set | RecordDomain


@dataclass(frozen=True, slots=True)
class Certificate:
    """Constants of one loss on one pair of domains. Infinite means "no finite constant is proved".

    ``lipschitz``, ``lipschitz_inf``, ``lipschitz_l1``: bounds on the l2, l_inf and l1 norm of the gradient of the data part (the
    regulariser has the same gradient for every record, so it cancels in the difference between neighbouring data sets).
    ``smooth``: of the data part in l2; ``smooth_l1`` in the l1 geometry (sup|phi''| times the squared l_inf radius of x).
    ``convex`` and ``strongly_convex``: of the data part and the regulariser together, for every record; None is "not decided".
    ``l2``: lam of the ridge term lam/2 |w|^2; ``l1``: weight of |w|_1. ``slope``, ``curve``, ``least_curve``: sup|phi'|, sup|phi''|
    and inf phi''. ``form``: the data part in normal form, None when there is none. ``exact_regulariser`` is False when the loss has a
    data-independent term that is neither ridge nor l1.
    """

    name: str
    method: Method
    lipschitz: float = math.inf
    lipschitz_inf: float = math.inf
    lipschitz_l1: float = math.inf
    smooth: float = math.inf
    smooth_l1: float = math.inf
    convex: bool | None = None
    data_convex: bool | None = None
    strongly_convex: float = 0.0
    l2: float = 0.0
    l1: float = 0.0
    slope: float = math.inf
    curve: float = math.inf
    least_curve: float = -math.inf
    margin: Margin | None = None
    evidence: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    form: Poly | None = None
    exact_regulariser: bool = True

    @property
    def ok(self) -> bool:
        """Whether a finite Lipschitz constant is proved."""
        return math.isfinite(self.lipschitz)

    @property
    def gradient_coordinate_bound(self) -> float:
        """Bound on every coordinate of a record's gradient."""
        return self.lipschitz_inf

    @property
    def margin_range(self) -> tuple[float, float]:
        m = self.margin
        if m is None:
            return (-math.inf, math.inf)
        return (-math.inf if m.low is None else down(m.low), math.inf if m.high is None else up(m.high))

    @property
    def margin_loss(self) -> MarginLoss:
        """The data part as vectorised functions. Raises ValueError when the loss has no normal form."""
        if self.form is None:
            raise ValueError(f"the loss {self.name} has no normal form")
        from dpspec.symbolic.margin import MarginLoss

        return MarginLoss(self.name, self.form)


def certify(
    loss: Expr,
    *,
    over: SetLike,
    x: SetLike,
    y: SetLike,
    names: Mapping[str, Fraction | int | float] | None = None,
    claims: Sequence[Claim] = (),
    pairwise: bool = False,
) -> Certificate:
    """Certify ``loss``, an expression in w, x, y (w, x1, x2, y1, y2 when ``pairwise``), for w in ``over`` and *enforced* domains of x
    and y: pass ``Reals`` (or ``UNBOUNDED``) for a domain that is only declared. Never raises on a loss it cannot treat; the
    findings say what is wrong. A claim is answered by a finding only when it is false, loose or undecided.
    """
    values = dict(names or {})
    x_domain = _domain(x, values, None)
    over_domain = _domain(over, values, x_domain.dimension)
    if over_domain.dimension is not None and x_domain.dimension is None:
        x_domain = _domain(x, values, over_domain.dimension)
    y_domain = _domain(y, values, 1)
    scope = Scope(values, ("w", "x1", "x2"), ("y1", "y2")) if pairwise else Scope(values)
    try:
        parts = _split(normal_form(loss, scope))
        cases = _cases(parts.data, pairwise, y_domain)
    except NoValue as error:
        return _refused(Finding("DP213", "error", str(error), "Give it a value in the data block, or correct the name."), claims)
    except BadParameter as error:
        return _refused(Finding("DP216", "error", str(error), "Correct the parameter."), claims)
    except NoNormalForm as error:
        return _refused(
            Finding("DP200", "warning", f"no certificate for this loss: {error}", "Declare the constant and let the gradient be clipped."),
            claims,
        )
    if pairwise:
        x_domain = _differences(x_domain)
    margin = margin_range(over_domain, x_domain)
    draft = _constants(parts, cases, margin, x_domain)
    return replace(draft.certificate, findings=(*draft.certificate.findings, *_answer(draft, claims)))


# ------------------------------------------------------------------------------------------------------------------- domains


def _domain(s: SetLike, names: Mapping[str, Fraction | int | float], dimension: int | None) -> RecordDomain:
    if isinstance(s, RecordDomain):
        return (
            s if s.dimension is not None or dimension is None or s.shape not in ("l1", "l2", "linf", "box") else _redimension(s, dimension)
        )
    assert isinstance(s, Ball | Box | Finite | Polytope | Reals | Simplex | Sparse)
    return record_domain(s, names, dimension=dimension)


def _redimension(s: RecordDomain, dimension: int) -> RecordDomain:
    from dpspec.symbolic.domains import closed

    return closed(replace(s, dimension=dimension))


def _differences(x: RecordDomain) -> RecordDomain:
    """The domain of x1 - x2."""

    def double(r: Fraction | None) -> Fraction | None:
        return None if r is None else 2 * r

    spread = None if x.low is None or x.high is None else x.high - x.low
    return RecordDomain(
        l1=double(x.l1),
        l2=double(x.l2),
        linf=double(x.linf),
        low=None if spread is None else -spread,
        high=spread,
        dimension=x.dimension,
        shape=x.shape if x.shape in ("l1", "l2", "linf") else "other",
    )


# ------------------------------------------------------------------------------------------------------------------ splitting


@dataclass(frozen=True, slots=True)
class _Parts:
    data: Poly
    l2: Fraction
    l1: Fraction
    other: Poly


def _split(form: Poly) -> _Parts:
    """Data part, ridge, l1 and other terms that depend on w alone. Raises NoNormalForm when the data part is no function of a margin."""
    data, other = const(0), const(0)
    l2 = l1 = Fraction(0)
    for term in form.terms:
        mono, c = term
        used = variables(Poly((term,)))
        norms = {v for v in used if v.startswith("|w|")}
        if any(v.startswith(("|x", "<x")) for v in used):
            raise NoNormalForm("it depends on the record beyond the margin <w, x> and the label y")
        if norms and used != norms:
            raise NoNormalForm("a norm of w multiplies something that depends on the record")
        if not norms:
            data = add(data, Poly((term,)))
        elif mono == ((Var("|w|_2"), 2),):
            l2 += 2 * c
        elif mono == ((Var("|w|_1"), 1),):
            l1 += c
        else:
            other = add(other, Poly((term,)))
    if not any(v.startswith("u") for v in variables(data)):
        raise NoNormalForm("it does not depend on <w, x>")
    return _Parts(data, l2, l1, other)


@dataclass(frozen=True, slots=True)
class _Case:
    """A function of u and y alone and the domain of y. A pairwise loss with finite labels has one case a pair."""

    form: Poly
    y: RecordDomain


_NO_LABEL = finite(0)


def _cases(data: Poly, pairwise: bool, y: RecordDomain) -> tuple[_Case, ...]:
    if not pairwise:
        return (_Case(data, y if "y" in variables(drop_free(data)) else _NO_LABEL),)
    shifted = substitute(data, {"u1": add(var("u"), var("u2"))})
    if "u2" in variables(shifted):
        raise NoNormalForm("a pairwise loss must depend on the records through <w, x1 - x2>")
    labels = variables(drop_free(shifted)) & {"y1", "y2"}
    if not labels:
        return (_Case(shifted, _NO_LABEL),)
    difference = substitute(shifted, {"y1": add(var("y"), var("y2"))})
    if "y2" not in variables(drop_free(difference)):
        if y.low is None or y.high is None:
            return (_Case(drop_free(difference), RecordDomain()),)
        if y.values:
            return (_Case(drop_free(difference), finite(*{a - b for a in y.values for b in y.values})),)
        return (_Case(drop_free(difference), interval(y.low - y.high, y.high - y.low)),)
    if not y.values:
        raise NoNormalForm("a pairwise loss needs finitely many labels unless it depends on y1 - y2 alone")
    pairs = [(a, b) for a in y.values for b in y.values]
    forms = dict.fromkeys(drop_free(substitute(shifted, {"y1": const(a), "y2": const(b)})) for a, b in pairs)
    return tuple(_Case(f, _NO_LABEL) for f in forms)


# ------------------------------------------------------------------------------------------------------------------ constants


@dataclass(frozen=True, slots=True)
class _Draft:
    """A certificate together with the exact quantities that claims are compared with."""

    certificate: Certificate
    parts: _Parts
    cases: tuple[_Case, ...]
    margin: Margin
    x: RecordDomain
    slope: Fraction | None
    curve: Fraction | None
    least: Fraction | None
    strong: Fraction
    points: tuple[tuple[_Case, Fraction, Fraction], ...]
    concave_at: tuple[_Case, Fraction, Fraction] | None


def _scaled(k: Fraction | None, r: Fraction | None) -> Fraction | None:
    if k == 0 or r == 0:
        return Fraction(0)
    return None if k is None or r is None else k * r


def _up(v: Fraction | None) -> float:
    return math.inf if v is None else up(v)


def _constants(parts: _Parts, cases: tuple[_Case, ...], margin: Margin, x: RecordDomain) -> _Draft:
    results = [(case, _case_constants(case, margin)) for case in cases]
    slope, curve = _largest([r.bounds.slope for _, r in results]), _largest([r.bounds.curve for _, r in results])
    leasts = [r.bounds.least for _, r in results]
    least = None if None in leasts else min(v for v in leasts if v is not None)
    method: Method = "closed form" if all(r.closed for _, r in results) else "interval branch and bound"
    if slope is None and not any(r.closed for _, r in results) and not margin.bounded:
        method = "none"
    data_convex = _all([r.convex for _, r in results])
    name = results[0][1].name if len({r.name for _, r in results}) == 1 else "expression"
    points = tuple((case, *r.bounds.at) for case, r in results if r.bounds.at is not None)
    concave = next(((case, *r.concave_at) for case, r in results if r.concave_at is not None), None)
    square = None if x.l2 is None else x.l2**2
    smooth = _scaled(curve, square)
    least_hessian = Fraction(0) if data_convex else _scaled(least, square)
    convex: bool | None = None
    if parts.l2 >= 0 and parts.l1 >= 0 and not parts.other.terms:
        if data_convex or (least_hessian is not None and parts.l2 + least_hessian >= 0):
            convex = True
        elif concave is not None and margin.attained:
            convex = _not_convex(concave, parts, margin, square)
    strong = parts.l2 + least_hessian if least_hessian is not None and convex else Fraction(0)
    certificate = Certificate(
        name=name,
        method=method,
        lipschitz=_up(_scaled(slope, x.l2)),
        lipschitz_inf=_up(_scaled(slope, x.linf)),
        lipschitz_l1=_up(_scaled(slope, x.l1)),
        smooth=_up(smooth),
        smooth_l1=_up(_scaled(curve, None if x.linf is None else x.linf**2)),
        convex=convex,
        data_convex=data_convex,
        strongly_convex=max(0.0, down(strong)),
        l2=float(parts.l2),
        l1=float(parts.l1),
        slope=_up(slope),
        curve=_up(curve),
        least_curve=-math.inf if least is None else down(least),
        margin=margin,
        form=parts.data,
        exact_regulariser=not parts.other.terms,
    )
    draft = _Draft(certificate, parts, cases, margin, x, slope, curve, least, max(strong, Fraction(0)), points, concave)
    boxes = sum(r.boxes for _, r in results)
    loose = any(r.loose for _, r in results)
    evidence = _evidence(draft, boxes)
    findings = _remarks(draft, loose)
    return replace(draft, certificate=replace(certificate, evidence=evidence, findings=findings))


def _largest(values: Sequence[Fraction | None]) -> Fraction | None:
    return None if None in values else max(v for v in values if v is not None)


def _all(values: Sequence[bool | None]) -> bool | None:
    if False in values:
        return False
    return None if None in values else True


@dataclass(frozen=True, slots=True)
class _Result:
    name: str
    bounds: Constants
    convex: bool | None
    closed: bool
    boxes: int = 0
    loose: bool = False
    concave_at: tuple[Fraction, Fraction] | None = None


def _case_constants(case: _Case, margin: Margin) -> _Result:
    named = recognise(case.form)
    if named is not None:
        bounds = constants(named, margin, case.y)
        convex = True if named.convex else None
        if not named.convex and bounds.least is not None and bounds.least >= 0:
            convex = True
        at = _concave_point(case, margin) if convex is None else None
        return _Result(named.name, bounds, False if at is not None else convex, True, concave_at=at)
    by_rules = curvature(case.form) in ("constant", "affine", "convex")
    if not margin.bounded or (not case.y.values and (case.y.low is None or case.y.high is None)):
        at = None if by_rules else _concave_point(case, margin)
        return _Result(
            "expression",
            Constants(None, None, Fraction(0) if by_rules else None, None),
            by_rules or (None if at is None else False),
            False,
            concave_at=at,
        )
    return _branch_and_bound(case, margin, by_rules)


def _branch_and_bound(case: _Case, margin: Margin, by_rules: bool) -> _Result:
    from dpspec.symbolic.enclose import supremum

    assert margin.low is not None
    assert margin.high is not None
    boxes: list[tuple[Fraction, Fraction, Fraction, Fraction]]
    form, back = case.form, None
    if case.y.values:
        boxes = [(margin.low, margin.high, v, v) for v in case.y.values]
    else:
        assert case.y.low is not None
        assert case.y.high is not None
        boxes = [(margin.low, margin.high, case.y.low, case.y.high)]
        residual = drop_free(substitute(case.form, {"u": add(var("u"), var("y"))}))
        if "y" not in variables(residual):
            # a function of u - y: one dimension instead of two, with exactly the same range
            form, back = residual, case.y
            boxes = [(margin.low - case.y.high, margin.high - case.y.low, Fraction(0), Fraction(0))]
    first = supremum(form, "abs-first", boxes)
    second = supremum(form, "abs-second", boxes)
    floor = 1e-9 * second.upper if math.isfinite(second.upper) else 0.0
    concave = supremum(form, "minus-second", boxes, floor=floor)
    least = None if math.isinf(concave.upper) else -Fraction(concave.upper)
    convex: bool | None = None
    if by_rules or (least is not None and least >= 0):
        convex, least = True, max(least or Fraction(0), Fraction(0))
    elif concave.lower > 0:
        convex = False
    bounds = Constants(
        Fraction(first.upper) if math.isfinite(first.upper) else None,
        Fraction(second.upper) if math.isfinite(second.upper) else None,
        least,
        _unshift(first.at, margin, back),
    )
    loose = (math.isfinite(first.upper) and not first.tight) or (math.isfinite(second.upper) and not second.tight)
    at = _unshift(concave.at, margin, back) if convex is False else None
    return _Result("expression", bounds, convex, False, first.leaves + second.leaves + concave.leaves, loose, at)


def _unshift(at: tuple[Fraction, Fraction] | None, margin: Margin, y: RecordDomain | None) -> tuple[Fraction, Fraction] | None:
    """From s = u - y back to some u and y of their ranges."""
    if at is None or y is None:
        return at
    assert margin.low is not None
    assert margin.high is not None
    assert y.low is not None
    assert y.high is not None
    u = min(max(at[0] + y.low, margin.low), margin.high)
    return u, u - at[0]


def _labels(case: _Case) -> tuple[Fraction, ...]:
    if case.y.values:
        return case.y.values
    ends = [v for v in (case.y.low, case.y.high) if v is not None]
    return tuple(dict.fromkeys([*ends, Fraction(0)])) if (case.y.low or 0) <= 0 <= (case.y.high or 0) else tuple(ends)


def _concave_point(case: _Case, margin: Margin) -> tuple[Fraction, Fraction] | None:
    """A margin and a label where phi'' is proved negative, if a coarse search meets one."""
    from dpspec.symbolic.enclose import derivative_at

    low, high = _window(margin)
    best: tuple[float, Fraction, Fraction] | None = None
    for label in _labels(case):
        for i in range(65):
            u = low + (high - low) * i / 64
            top = derivative_at(case.form, u, label, 2)[1]
            if top < 0 and (best is None or top < best[0]):
                best = (top, u, label)
    return None if best is None else best[1:]


def _window(margin: Margin) -> tuple[Fraction, Fraction]:
    """A bounded window of margins in which to look for counterexamples; attained margins when they are known."""
    if margin.attained and margin.attained_low is not None and margin.attained_high is not None:
        return margin.attained_low, margin.attained_high
    return (
        margin.low if margin.low is not None else Fraction(-16),
        margin.high if margin.high is not None else Fraction(16),
    )


def _not_convex(at: tuple[_Case, Fraction, Fraction], parts: _Parts, margin: Margin, square: Fraction | None) -> bool | None:
    """False when the record's Hessian phi'' x x^T + lam I has a negative eigenvalue at the witness; None otherwise."""
    from dpspec.symbolic.enclose import derivative_at

    case, u, y = at
    if square is None or not _reached(u, margin):
        return None
    return False if Fraction(derivative_at(case.form, u, y, 2)[1]) * _shrunk(square) + parts.l2 < 0 else None


def _shrunk(v: Fraction) -> Fraction:
    """A radius may have been rounded up; what a witness reaches is rounded down."""
    return v * (1 - Fraction(1, 2**40))


def _reached(u: Fraction, margin: Margin) -> bool:
    return margin.attained and (
        (margin.attained_low is None or margin.attained_low <= u) and (margin.attained_high is None or u <= margin.attained_high)
    )


# ------------------------------------------------------------------------------------------------------------------- wording


def _on(margin: Margin) -> str:
    if not margin.bounded:
        return "for every margin"
    assert margin.low is not None
    assert margin.high is not None
    return f"on [{show(margin.low, side=-1)}, {show(margin.high)}]"


def _evidence(d: _Draft, boxes: int) -> tuple[str, ...]:
    c, where = d.certificate, _on(d.margin)
    out = []
    if d.margin.bounded:
        out.append(f"margin <w, x> in {where[3:]} ({d.margin.reason})")
    proof = f" ({boxes} boxes)" if c.method == "interval branch and bound" else ""
    if d.slope is not None:
        out.append(f"|phi'| <= {show(c.slope)} {where}{proof}")
    if d.curve is not None:
        out.append(f"|phi''| <= {show(c.curve)} {where}")
    if c.data_convex:
        out.append(f"phi is convex {where}")
    if c.l2 or c.l1 or not c.exact_regulariser:
        out.append("regulariser split off: its gradient is the same for every record and cancels in replace-one differences")
    return tuple(out)


def _remarks(d: _Draft, loose: bool) -> tuple[Finding, ...]:
    c, out = d.certificate, []
    if d.x.l2 is None:
        out.append(
            Finding(
                "DP207",
                "warning",
                "the records are not enforced to lie in a bounded set, so the gradient of one record has no bound",
                "Add an enforced domain such as `x in ball(l2, 1) by scale`, or choose an algorithm that clips gradients.",
            )
        )
    elif d.slope is None:
        unbounded_y = any(not case.y.values and case.y.magnitude is None for case in d.cases)
        if unbounded_y:
            text = "the label y is not enforced to lie in a bounded set, so the derivative of the loss has no bound"
            out.append(Finding("DP214", "warning", text, "Enforce one, for example `y in [-1, 1] by clip`."))
        elif not d.margin.bounded:
            text = "the margin <w, x> is unbounded, and on it no finite Lipschitz constant is proved for this loss"
            out.append(Finding("DP208", "warning", text, "Minimise over a bounded set such as ball(l2, 1), or clip gradients."))
        else:
            text = f"the derivative of the loss has no finite bound {_on(d.margin)}"
            out.append(Finding("DP217", "warning", text, "Shrink the constraint set or the record domain so that the loss stays regular."))
    if d.slope is not None and d.curve is None:
        out.append(Finding("DP209", "info", f"the loss is not smooth {_on(d.margin)}: its derivative jumps or is unbounded"))
    if c.data_convex is False:
        out.append(Finding("DP211", "info", "the loss is not convex in w; convex methods and their bounds do not apply"))
    if loose:
        out.append(Finding("DP212", "info", "branch and bound stopped at its limit: the constants are proved but may be loose"))
    if not c.exact_regulariser:
        text = "the loss has a term in w alone that is neither c*|w|^2 nor c*|w|_1; it cancels in sensitivities, but no algorithm treats it"
        out.append(Finding("DP215", "warning", text, "Write the regulariser as a ridge, an l1 term, or their sum."))
    if _rewards_errors(d):
        text = "at margin zero the loss falls when a label is contradicted: its minimiser classifies against the labels"
        out.append(Finding("DP218", "warning", text, "Check the sign of y in the exponent or in the argument."))
    return tuple(out)


def _rewards_errors(d: _Draft) -> bool:
    case = d.cases[0]
    if d.certificate.method == "closed form" or len(d.cases) > 1 or not case.y.values or case.y.values[0] >= 0 or case.y.values[-1] <= 0:
        return False
    from dpspec.symbolic.enclose import derivative_at

    slopes = [(v, derivative_at(case.form, Fraction(0), v, 1)) for v in case.y.values if v]
    return all(low > 0 if v > 0 else high < 0 for v, (low, high) in slopes)


def _refused(finding: Finding, claims: Sequence[Claim]) -> Certificate:
    undecided = tuple(_declared_only(claim, "the loss has no certificate") for claim in claims)
    return Certificate("expression", "none", findings=(finding, *undecided))


# --------------------------------------------------------------------------------------------------------------------- claims


def _declared_only(claim: Claim, why: str) -> Finding:
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


def _answer(d: _Draft, claims: Sequence[Claim]) -> tuple[Finding, ...]:
    answers = {"lipschitz": _lipschitz, "smooth": _smooth, "convex": _convex, "strongly-convex": _strongly_convex}
    found = (answers[claim.name](d, claim) for claim in claims)
    return tuple(f for f in found if f is not None)


#: A claim looser than the proved constant by more than this factor is remarked on.
_LOOSE = Fraction(1001, 1000)


def _lipschitz(d: _Draft, claim: Claim) -> Finding | None:
    assert claim.value is not None
    bound = _scaled(d.slope, d.x.l2)
    if bound is not None and claim.value >= bound:
        if claim.value <= bound * _LOOSE:
            return None
        text = f"lipschitz({_number(claim.value)}) holds, but {show(bound)} is proved; less noise follows from the smaller constant"
        return Finding("DP205", "info", text, f"Drop the assumption, or write lipschitz({show(bound)}).", claim.index)
    witness = _steepest(d)
    if witness is not None and d.x.l2 is not None:
        reached = Fraction(witness.value) * _shrunk(d.x.l2)
        if reached > claim.value:
            text = (
                f"lipschitz({_number(claim.value)}) is false: at margin {_number(witness.margin)} and label {_number(witness.label)} "
                f"|phi'| >= {show(witness.value, side=-1)}, so the gradient of a record with |x|_2 = {show(d.x.l2)} has norm at least "
                f"{show(reached, side=-1)}"
            )
            tight = "Enforce smaller records or labels." if bound is None else f"Drop the assumption; {show(bound)} is proved."
            return Finding("DP201", "error", text, tight, claim.index, witness)
    if d.x.l2 is None:
        return _declared_only(claim, "the records are not enforced to be bounded")
    why = "no finite constant is proved" if bound is None else f"only {show(bound)} is proved"
    return _declared_only(claim, why)


def _candidates(d: _Draft) -> list[tuple[_Case, Fraction, Fraction]]:
    """Margins that records reach, with labels, at which a quantity may be extreme."""
    m = d.margin
    if not m.attained:
        return []
    margins = [v for v in (m.attained_low, m.attained_high) if v is not None] + [Fraction(0)]
    if m.attained_low is None or m.attained_high is None:
        margins += [Fraction(s * 4**k) for k in range(16) for s in (-1, 1)]
    out = [p for p in d.points if _reached(p[1], m)]
    out += [(case, u, y) for case in d.cases for y in _labels(case) for u in margins if _reached(u, m)]
    return out


def _steepest(d: _Draft) -> Witness | None:
    from dpspec.symbolic.enclose import derivative_at

    best: Witness | None = None
    for case, u, y in _candidates(d):
        low, high = derivative_at(case.form, u, y, 1)
        value = max(low, -high)  # a lower bound of |phi'|
        if math.isfinite(value) and value > 0 and (best is None or value > best.value):
            best = Witness(u, y, "|phi'|", value)
    return best


def _smooth(d: _Draft, claim: Claim) -> Finding | None:
    assert claim.value is not None
    data = _scaled(d.curve, None if d.x.l2 is None else d.x.l2**2)
    bound = None if data is None else data + abs(d.parts.l2)
    if bound is not None and claim.value >= bound and not d.parts.other.terms and d.parts.l1 == 0:
        if claim.value <= bound * _LOOSE:
            return None
        text = f"smooth({_number(claim.value)}) holds, but {show(bound)} is proved"
        return Finding("DP205", "info", text, f"Drop the assumption, or write smooth({show(bound)}).", claim.index)
    witness = None if d.parts.other.terms or d.parts.l1 < 0 else _sharpest(d)
    if witness is not None and d.x.l2 is not None:
        reached = Fraction(witness.value) * _shrunk(d.x.l2**2) + d.parts.l2
        if reached > claim.value:
            text = (
                f"smooth({_number(claim.value)}) is false: near margin {_number(witness.margin)} and label {_number(witness.label)} phi' "
                f"changes at a rate of at least {show(witness.value, side=-1)}, so the gradient at a rate of at least "
                f"{show(reached, side=-1)}"
            )
            tight = "The derivative has no finite rate of change." if bound is None else f"Drop the assumption; {show(bound)} is proved."
            return Finding("DP202", "error", text, tight, claim.index, witness)
    return _declared_only(claim, "no finite constant is proved" if bound is None else f"only {show(bound)} is proved")


def _sharpest(d: _Draft) -> Witness | None:
    """A proved lower bound of the rate of change of phi': |phi'(b) - phi'(a)|/(b - a) <= sup|phi''|, on shrinking intervals."""
    from dpspec.symbolic.enclose import derivative_at

    if not d.margin.attained:
        return None
    best: Witness | None = None
    window = _window(d.margin)

    def rate(case: _Case, a: Fraction, b: Fraction, y: Fraction) -> float:
        (l1, h1), (l2, h2) = derivative_at(case.form, a, y, 1), derivative_at(case.form, b, y, 1)
        gap = max(l2 - h1, l1 - h2)
        return down(Fraction(gap) / (b - a)) if math.isfinite(gap) and gap > 0 else 0.0

    for case in d.cases:
        for y in _labels(case):
            for start in range(8):
                step = (window[1] - window[0]) / 8
                a, b = window[0] + start * step, window[0] + (start + 1) * step
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


def _convex(d: _Draft, claim: Claim) -> Finding | None:
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
    return _declared_only(claim, "neither a proof nor a counterexample was found")


def _strongly_convex(d: _Draft, claim: Claim) -> Finding | None:
    assert claim.value is not None
    proved = d.strong
    if claim.value <= proved or (d.certificate.convex and claim.value <= d.parts.l2 and d.certificate.data_convex):
        if claim.value * _LOOSE >= proved:
            return None
        text = f"strongly-convex({_number(claim.value)}) holds, but {show(proved, side=-1)} is proved"
        return Finding("DP205", "info", text, f"Write strongly-convex({show(proved, side=-1)}).", claim.index)
    data = _scaled(d.curve, None if d.x.l2 is None else d.x.l2**2)
    if data is not None and not d.parts.other.terms:
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
    return _declared_only(claim, why)
