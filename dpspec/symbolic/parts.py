"""A loss taken apart: the data part as a function of margin and label, and the regulariser."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dpspec.domains.domain import Domain, finite, interval
from dpspec.symbolic import groups
from dpspec.symbolic.losses import drop_free
from dpspec.symbolic.normal import NoNormalForm, Poly, Var, add, const, substitute, var, variables


@dataclass(frozen=True, slots=True)
class Parts:
    data: Poly
    l2: Fraction
    l1: Fraction
    other: Poly
    group: tuple[Fraction, groups.Groups] | None = None


def split(form: Poly) -> Parts:
    """Data part, ridge, l1, one group norm and other terms that depend on w alone (a second group norm is one of these: the two groups
    of a coordinate have no joint shrinkage in closed form). Raises NoNormalForm when the data part is no function of a margin."""
    data, other = const(0), const(0)
    l2 = l1 = Fraction(0)
    group: tuple[Fraction, groups.Groups] | None = None
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
        elif group is None and (found := groups.named(next(iter(norms)))) is not None and mono == ((Var(found.name), 1),):
            group = (c, found)
        else:
            other = add(other, Poly((term,)))
    if not any(v.startswith("u") for v in variables(data)):
        raise NoNormalForm("it does not depend on <w, x>")
    return Parts(data, l2, l1, other, group)


@dataclass(frozen=True, slots=True)
class Case:
    """A function of u and y alone and the domain of y. A pairwise loss with finite labels has one case a pair."""

    form: Poly
    y: Domain


_NO_LABEL = finite(0)


def of_difference(data: Poly) -> Poly:
    """A pairwise data part as a function of u = <w, x1 - x2>. Raises NoNormalForm when it depends on the two margins otherwise."""
    shifted = substitute(data, {"u1": add(var("u"), var("u2"))})
    if "u2" in variables(shifted):
        raise NoNormalForm("a pairwise loss must depend on the records through <w, x1 - x2>")
    return shifted


def cases(data: Poly, pairwise: bool, y: Domain) -> tuple[Case, ...]:
    """``data`` is in u (in u = <w, x1 - x2> and y1, y2 when ``pairwise``: see :func:`of_difference`)."""
    if not pairwise:
        return (Case(data, y if "y" in variables(drop_free(data)) else _NO_LABEL),)
    if not variables(drop_free(data)) & {"y1", "y2"}:
        return (Case(data, _NO_LABEL),)
    difference = substitute(data, {"y1": add(var("y"), var("y2"))})
    if "y2" not in variables(drop_free(difference)):
        if y.low is None or y.high is None:
            return (Case(drop_free(difference), Domain()),)
        if y.values:
            return (Case(drop_free(difference), finite(*{a - b for a in y.values for b in y.values})),)
        return (Case(drop_free(difference), interval(y.low - y.high, y.high - y.low)),)
    if not y.values:
        raise NoNormalForm("a pairwise loss needs finitely many labels unless it depends on y1 - y2 alone")
    pairs = [(a, b) for a in y.values for b in y.values]
    forms = dict.fromkeys(drop_free(substitute(data, {"y1": const(a), "y2": const(b)})) for a, b in pairs)
    return tuple(Case(f, _NO_LABEL) for f in forms)


def labels(case: Case) -> tuple[Fraction, ...]:
    if case.y.values:
        return case.y.values
    ends = [v for v in (case.y.low, case.y.high) if v is not None]
    return tuple(dict.fromkeys([*ends, Fraction(0)])) if (case.y.low or 0) <= 0 <= (case.y.high or 0) else tuple(ends)
