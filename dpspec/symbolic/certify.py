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
from functools import lru_cache
from typing import TypeAlias

from dpspec.domains.domain import Domain, Margin, closed, domain_of_set, margin_range
from dpspec.numeric.rounding import down, padded_up, show, up
from dpspec.spec.expr import Expr
from dpspec.spec.expr import names as words
from dpspec.spec.model import Ball, Box, Finite, Polytope, Reals, Set, Simplex, Sparse
from dpspec.symbolic import metric, multinomial, network, network_certificate, softmax
from dpspec.symbolic.certificate import Certificate, Method
from dpspec.symbolic.claims import Draft, answer, declared_only, reached, scaled, shrunk
from dpspec.symbolic.extrema import Result, case_constants, reach, saturating
from dpspec.symbolic.findings import Claim, Finding
from dpspec.symbolic.groups import GroupTerm
from dpspec.symbolic.local import local_lipschitz
from dpspec.symbolic.losses import drop_free, recognise
from dpspec.symbolic.normal import BadParameter, NoNormalForm, NoValue, Poly, Scope, normal_form
from dpspec.symbolic.pairs import spread
from dpspec.symbolic.parts import Case, Parts, cases, of_difference, split
from dpspec.symbolic.running import SlopeError
from dpspec.symbolic.third import HessianLipschitz

SetLike: TypeAlias = Set | Domain


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
    and y: pass ``Reals`` (or ``UNBOUNDED``) for a domain that is only declared. ``names``: numbers by name; ``d`` among them is the
    dimension unless the domain of x has one. Never raises on a loss it cannot treat; the findings say what is wrong. A claim is
    answered by a finding only when it is false, loose or undecided.

    A certificate is a function of the numbers that the loss and the sets name, and of d: it is kept, so that a search over n or epsilon, a
    study or a second algorithm does not prove it again.
    """
    values = dict(names or {})
    read = {"d", *words(loss), *(w for e in (*_expressions(over), *_expressions(x), *_expressions(y)) for w in words(e))}
    used = tuple(sorted((k, v) for k, v in values.items() if k in read))
    found = _certified(loss, over, x, y, used, tuple(claims), pairwise)
    if any(f.code in ("DP213", "DP216") for f in found.findings):  # the advice may name a number that the loss does not
        return _certify(loss, over, x, y, values, claims, pairwise)
    return found


def _expressions(s: SetLike) -> tuple[Expr, ...]:
    match s:
        case Ball(radius=e) | Sparse(k=e):
            return (e,)
        case Box(low=low, high=high):
            return (low, high)
        case Finite(values=values):
            return values
        case _:
            return ()


@lru_cache(maxsize=256)
def _certified(
    loss: Expr,
    over: SetLike,
    x: SetLike,
    y: SetLike,
    names: tuple[tuple[str, Fraction | int | float], ...],
    claims: tuple[Claim, ...],
    pairwise: bool,
) -> Certificate:
    return _certify(loss, over, x, y, dict(names), claims, pairwise)


def _certify(
    loss: Expr,
    over: SetLike,
    x: SetLike,
    y: SetLike,
    values: Mapping[str, Fraction | int | float],
    claims: Sequence[Claim],
    pairwise: bool,
) -> Certificate:
    x_domain = _domain(x, values, int(values["d"]) if "d" in values and values["d"] >= 1 else None)
    over_domain = _domain(over, values, x_domain.dimension)
    if over_domain.dimension is not None and x_domain.dimension is None:
        x_domain = _domain(x, values, over_domain.dimension)
    y_domain = _domain(y, values, 1)
    scope = Scope(values, ("w", "x1", "x2"), ("y1", "y2")) if pairwise else Scope(values)
    try:
        several_units = network.recognise(loss, scope)
        if several_units is not None:
            return _network(*several_units, pairwise, over, x_domain, y_domain, values, claims)
        parts = split(normal_form(loss, scope))
        several = softmax.recognise(parts.data)
        if several is not None:
            return _several(several, parts, pairwise, over, x_domain, y_domain, values, claims)
        matrix = metric.recognise(parts.data)
        if matrix is not None:
            return _metric(matrix, parts, over, x_domain, y_domain, values, claims)
        if pairwise:
            parts = replace(parts, data=of_difference(parts.data))
        loss_cases = cases(parts.data, pairwise, y_domain)
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
    try:
        draft = _constants(parts, loss_cases, margin, x_domain, y_domain if pairwise else None)
    except OverflowError:
        text = "the domains are so large that the derivative of the loss does not fit a double"
        return _refused(Finding("DP217", "warning", text, "Shrink the constraint set or the record domain."), claims)
    except NoNormalForm as error:
        return _refused(
            Finding("DP200", "warning", f"no certificate for this loss: {error}", "Declare the constant and let the gradient be clipped."),
            claims,
        )
    return replace(draft.certificate, findings=(*draft.certificate.findings, *answer(draft, claims)))


def _several(
    loss: softmax.Multinomial,
    parts: Parts,
    pairwise: bool,
    over: SetLike,
    x: Domain,
    y: Domain,
    values: Mapping[str, Fraction | int | float],
    claims: Sequence[Claim],
) -> Certificate:
    """The certificate of a loss with a K x d matrix of weights: ``over`` is a set of K*d numbers."""
    if pairwise:
        raise NoNormalForm("multinomial(K) is a loss of one record")
    if isinstance(over, Polytope | Simplex | Sparse) or (isinstance(over, Domain) and over.shape == "simplex"):
        text = "the weights of multinomial(K) are a K x d matrix, and this set is one of vectors"
        return _refused(Finding("DP221", "error", text, "Minimise over ball(l1 | l2 | linf, r), box(a, b) or R^d."), claims)
    weights = _domain(over, values, None if x.dimension is None else loss.classes * x.dimension)
    return multinomial.certificate(loss, parts, weights, x, y, claims)


def _metric(
    loss: metric.Metric,
    parts: Parts,
    over: SetLike,
    x: Domain,
    y: Domain,
    values: Mapping[str, Fraction | int | float],
    claims: Sequence[Claim],
) -> Certificate:
    """The certificate of a loss of a Mahalanobis matrix, d x d: ``over`` is a ball of d*d numbers, and the matrix is semidefinite too."""
    if x.dimension is None:
        raise NoNormalForm("a Mahalanobis matrix needs the number of features, d")
    if (over.norm if isinstance(over, Ball) else over.shape if isinstance(over, Domain) else "") != "l2":
        text = "the weights of a metric are a d x d matrix, and this set is no ball of such matrices"
        return _refused(Finding("DP221", "error", text, "Minimise over ball(l2, r), the Frobenius ball."), claims)
    return metric.certificate(loss, parts, _domain(over, values, x.dimension**2), x, y, claims)


def _network(
    net: network.Network,
    parts: Parts,
    pairwise: bool,
    over: SetLike,
    x: Domain,
    y: Domain,
    values: Mapping[str, Fraction | int | float],
    claims: Sequence[Claim],
) -> Certificate:
    """The certificate of a network: ``over`` is a set of the weights of all its units."""
    if pairwise:
        raise NoNormalForm("a network is a loss of one record")
    if isinstance(over, Polytope | Simplex | Sparse) or (isinstance(over, Domain) and over.shape == "simplex"):
        text = "the weights of a network are those of its units one after the other, and this set is one of vectors"
        return _refused(Finding("DP221", "error", text, "Minimise over ball(l1 | l2 | linf, r), box(a, b) or R^d."), claims)
    whole = _domain(over, values, None if x.dimension is None else net.size(x.dimension))
    return network_certificate.certificate(net, parts, _domain(over, values, x.dimension), whole, x, y, claims)


# ------------------------------------------------------------------------------------------------------------------- domains


def _domain(s: SetLike, names: Mapping[str, Fraction | int | float], dimension: int | None) -> Domain:
    if isinstance(s, Domain):
        return (
            s if s.dimension is not None or dimension is None or s.shape not in ("l1", "l2", "linf", "box") else _redimension(s, dimension)
        )
    assert isinstance(s, Ball | Box | Finite | Polytope | Reals | Simplex | Sparse)
    return domain_of_set(s, names, dimension=dimension)


def _redimension(s: Domain, dimension: int) -> Domain:

    return closed(replace(s, dimension=dimension))


def _differences(x: Domain) -> Domain:
    """The domain of x1 - x2."""

    def double(r: Fraction | None) -> Fraction | None:
        return None if r is None else 2 * r

    spread = None if x.low is None or x.high is None else x.high - x.low
    return Domain(
        l1=double(x.l1),
        l2=double(x.l2),
        linf=double(x.linf),
        low=None if spread is None else -spread,
        high=spread,
        dimension=x.dimension,
        shape=x.shape if x.shape in ("l1", "l2", "linf") else "other",
    )


# ------------------------------------------------------------------------------------------------------------------ assembly


def _up(v: Fraction | None) -> float:
    return math.inf if v is None else up(v)


_Results: TypeAlias = tuple[tuple[Case, Result], ...]
_Point: TypeAlias = tuple[Case, Fraction, Fraction]


@dataclass(frozen=True, slots=True)
class _Curvature:
    """Whether the data part, and the loss with its regulariser, is convex (None: not decided); ``strong``: a proved least curvature."""

    data: bool | None
    whole: bool | None
    strong: Fraction


def _constants(parts: Parts, cases: tuple[Case, ...], margin: Margin, x: Domain, pair: Domain | None = None) -> Draft:
    """``pair``: the labels of the two records of a pairwise loss."""
    results: _Results = tuple((case, case_constants(case, margin)) for case in cases)
    bounds = [r.bounds for _, r in results]
    slope, curve = _largest([b.slope for b in bounds]), _largest([b.curve for b in bounds])
    least = _least([b.least for b in bounds])
    points = tuple((case, *r.bounds.at) for case, r in results if r.bounds.at is not None)
    concave = next(((case, *r.concave_at) for case, r in results if r.concave_at is not None), None)
    bent = _curvature(parts, _all([r.convex for _, r in results]), least, concave, margin, None if x.l2 is None else x.l2**2)
    certificate = _certificate(parts, results, margin, x, slope, curve, least, bent)
    if pair is not None:
        certificate = replace(certificate, spread=_up(spread(parts.data, pair, results, margin, x.l2)))
    draft = Draft(certificate, parts, cases, margin, x, slope, curve, least, max(bent.strong, Fraction(0)), points, concave)
    evidence = _evidence(draft, sum(r.boxes for _, r in results))
    findings = _remarks(draft, any(r.loose for _, r in results))
    return replace(draft, certificate=replace(certificate, evidence=evidence, findings=findings))


def _curvature(
    parts: Parts, data: bool | None, least: Fraction | None, concave: _Point | None, margin: Margin, square: Fraction | None
) -> _Curvature:
    """``least``: inf phi''; ``concave``: where phi'' is negative; ``square``: the squared l2 bound of the records."""
    hessian = Fraction(0) if data else scaled(least, square)
    whole: bool | None = None
    if parts.l2 >= 0 and parts.l1 >= 0 and (parts.group is None or parts.group[0] >= 0) and not parts.other.terms:
        if data or (hessian is not None and parts.l2 + hessian >= 0):
            whole = True
        elif concave is not None and margin.attained and parts.group is None:  # a group norm curves upwards across its groups
            whole = not_convex(concave, parts, margin, square)
    return _Curvature(data, whole, parts.l2 + hessian if hessian is not None and whole else Fraction(0))


def _certificate(
    parts: Parts,
    results: _Results,
    margin: Margin,
    x: Domain,
    slope: Fraction | None,
    curve: Fraction | None,
    least: Fraction | None,
    bent: _Curvature,
) -> Certificate:
    """The constants as doubles on the safe side, without evidence and findings."""
    name = results[0][1].name if len({r.name for _, r in results}) == 1 else "expression"
    cases = tuple(case for case, _ in results)
    return Certificate(
        name=name,
        method=_method(results, slope, margin),
        lipschitz=_up(scaled(slope, x.l2)),
        lipschitz_inf=_up(scaled(slope, x.linf)),
        lipschitz_l1=_up(scaled(slope, x.l1)),
        smooth=_up(scaled(curve, None if x.l2 is None else x.l2**2)),
        smooth_l1=_up(scaled(curve, None if x.linf is None else x.linf**2)),
        convex=bent.whole,
        data_convex=bent.data,
        strongly_convex=max(0.0, down(bent.strong)),
        l2=float(parts.l2),
        l1=float(parts.l1),
        slope=_up(slope),
        curve=_up(curve),
        least_curve=-math.inf if least is None else down(least),
        margin=margin,
        form=parts.data,
        exact_regulariser=not parts.other.terms,
        at_zero=_at_zero(parts.data) if name == "logistic" else _drop(results, margin) if bent.data is not True else math.inf,
        group=None if parts.group is None else GroupTerm(float(parts.group[0]), parts.group[1]),
        local=local_lipschitz(cases, margin, x.l2),
        error=SlopeError(cases, margin, _up(slope)),
        hessian=HessianLipschitz(cases, margin, x.l2),
    )


def _method(results: _Results, slope: Fraction | None, margin: Margin) -> Method:
    closed_forms = [r.closed for _, r in results]
    if slope is None and not any(closed_forms) and not margin.bounded:
        return "none"
    return "closed form" if all(closed_forms) else "interval branch and bound"


def _at_zero(data: Poly) -> float:
    """The logistic loss is positive, and factor*log 2 at w = 0."""
    named = recognise(data)
    return math.inf if named is None else up(named.factor * padded_up(math.log(2.0)))


def _drop(results: _Results, margin: Margin) -> float:
    """Of a loss that need not be convex: sup over y of phi(0, y) - inf_u phi(u, y). The named ones are not negative; of others the range
    over margins and labels is enclosed."""
    found = 0.0
    for case, result in results:
        if result.name == "biweight":  # at most c^2/6, whatever y is
            ends: list[tuple[Fraction, Fraction]] = [(Fraction(0), Fraction(0))]
        elif case.y.values or case.y.low is None or case.y.high is None:
            ends = [(v, v) for v in case.y.values]
        else:
            ends = [(case.y.low, case.y.high)]
        if not ends:
            return math.inf
        found = max(found, *(_fall(case, margin, low, high) for low, high in ends))
    return found


def _fall(case: Case, margin: Margin, low: Fraction, high: Fraction) -> float:
    from dpspec.symbolic.enclose import supremum

    form, origin = drop_free(case.form), (Fraction(0), Fraction(0), low, high)
    named = recognise(form)
    if named is not None and named.name == "biweight":
        return up(named.factor * named.params[0] ** 2 / 6)
    if named is not None and named.name == "sigmoid":
        return up(named.factor / 2)
    if named is not None and named.name == "cauchy":  # least at u = y, where it is 0
        q = max(abs(low), abs(high)) / named.params[0]
        return up(named.factor * named.params[0] ** 2 / 2 * padded_up(math.log1p(float(padded_up(float(q * q))))))
    if not (margin.bounded or saturating(form)):
        return math.inf
    top = supremum(form, "value", [origin])
    bottom = supremum(form, "minus-value", [origin, *((a, b, low, high) for a, b in reach(margin))])
    return max(0.0, up(Fraction(top.upper) + Fraction(bottom.upper))) if math.isfinite(top.upper + bottom.upper) else math.inf


def _largest(values: Sequence[Fraction | None]) -> Fraction | None:
    return None if None in values else max(v for v in values if v is not None)


def _least(values: Sequence[Fraction | None]) -> Fraction | None:
    return None if None in values else min(v for v in values if v is not None)


def _all(values: Sequence[bool | None]) -> bool | None:
    if False in values:
        return False
    return None if None in values else True


def not_convex(at: tuple[Case, Fraction, Fraction], parts: Parts, margin: Margin, square: Fraction | None) -> bool | None:
    """False when the record's Hessian phi'' x x^T + lam I has a negative eigenvalue at the witness; None otherwise."""
    from dpspec.symbolic.enclose import derivative_at

    case, u, y = at
    if square is None or not reached(u, margin):
        return None
    return False if Fraction(derivative_at(case.form, u, y, 2)[1]) * shrunk(square) + parts.l2 < 0 else None


# ------------------------------------------------------------------------------------------------------------------- wording


def _on(margin: Margin) -> str:
    if not margin.bounded:
        return "for every margin"
    assert margin.low is not None
    assert margin.high is not None
    return f"on [{show(margin.low, side=-1)}, {show(margin.high)}]"


def _evidence(d: Draft, boxes: int) -> tuple[str, ...]:
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
    if c.l2 or c.l1 or c.group is not None or not c.exact_regulariser:
        out.append("regulariser split off: its gradient is the same for every record and cancels in replace-one differences")
    return tuple(out)


def _remarks(d: Draft, loose: bool) -> tuple[Finding, ...]:
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
        text = (
            "the loss has a term in w alone that is neither c*|w|^2, c*|w|_1 nor the first c*group(w, ...); "
            "it cancels in sensitivities, but no algorithm treats it"
        )
        out.append(Finding("DP215", "warning", text, "Write the regulariser as a ridge, an l1 term, one group term, or a sum of these."))
    if _rewards_errors(d):
        text = "at margin zero the loss falls when a label is contradicted: its minimiser classifies against the labels"
        out.append(Finding("DP218", "warning", text, "Check the sign of y in the exponent or in the argument."))
    return tuple(out)


def _rewards_errors(d: Draft) -> bool:
    case = d.cases[0]
    if d.certificate.method == "closed form" or len(d.cases) > 1 or not case.y.values or case.y.values[0] >= 0 or case.y.values[-1] <= 0:
        return False
    from dpspec.symbolic.enclose import derivative_at

    slopes = [(v, derivative_at(case.form, Fraction(0), v, 1)) for v in case.y.values if v]
    return all(low > 0 if v > 0 else high < 0 for v, (low, high) in slopes)


def _refused(finding: Finding, claims: Sequence[Claim]) -> Certificate:
    undecided = tuple(declared_only(claim, "the loss has no certificate") for claim in claims)
    return Certificate("expression", "none", findings=(finding, *undecided))
