"""Enforcement: what makes a declared domain true of every record, whatever the record holds.

Privacy rests on this module, so it makes no assumption on its input: NaN and infinities become zeros (the whole x of that record, or
its y), norms are computed without overflow, and rounding goes inwards. After :func:`enforce` the norm of every record, computed in
double precision in any order of summation, is at most the declared radius. Every rule looks at one record at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final, NoReturn, TypeAlias

import numpy as np

from dpspec.data.problems import Number, Values, fail, float_down, float_up, number
from dpspec.data.records import AnyRecords, GeneratedRecords, Records, Vector, drawing_rows, is_sparse
from dpspec.data.sources import as_number, known_values
from dpspec.numeric.norms import LARGEST, SMALLEST, Entries, Mask, scale_into
from dpspec.spec.expr import Expr
from dpspec.spec.model import Ball, Box, Data, Domain, Enforcement, Finite, NormName, Reals, Set


@dataclass(slots=True)
class Counts:
    """How many records enforcement changed, by variable: for studies only, since the numbers are statistics of the records.

    ``touched``: outside the domain by more than rounding. ``not_finite``: replaced because of a NaN or an infinity. For generated
    records the numbers grow as blocks are drawn. Never print them for private records.
    """

    n: int
    touched: dict[str, int] = field(default_factory=dict)
    not_finite: dict[str, int] = field(default_factory=dict)
    _seen: set[tuple[str, int]] = field(default_factory=set)

    def add(self, variable: str, block: int, touched: int, not_finite: int) -> None:
        if (variable, block) not in self._seen:
            self._seen.add((variable, block))
            self.touched[variable] = self.touched.get(variable, 0) + touched
            self.not_finite[variable] = self.not_finite.get(variable, 0) + not_finite

    def to_json(self) -> dict[str, object]:
        return {"n": self.n, "touched": dict(self.touched), "not_finite": dict(self.not_finite)}


#: A rule takes entries that are finite and that it may overwrite. It returns the new values and the rows that lay outside the domain.
Rule: TypeAlias = Callable[[Entries], tuple[Vector, Mask]]


# -------------------------------------------------------------------------------------------------------------------- rules


def _scale(norm: NormName, r: float, *, reject: bool = False) -> Rule:
    """x * min(1, r/|x|), with every rounding inwards; with ``reject``, zeros where |x| > r. Proof: :mod:`dpspec.numeric.norms`."""
    return lambda e: scale_into(e, r, norm, reject=reject)


def _clip(low: float, high: float) -> Rule:
    def apply(e: Entries) -> tuple[Vector, Mask]:
        outside = e.reduce(np.logical_or, (e.v < low) | (e.v > high)).astype(bool)
        if outside.any():
            np.clip(e.v, low, high, out=e.v)
        return e.v, outside

    return apply


def _reject_box(low: float, high: float) -> Rule:
    def apply(e: Entries) -> tuple[Vector, Mask]:
        outside = e.reduce(np.logical_or, (e.v < low) | (e.v > high)).astype(bool)
        e.v[e.where(outside)] = 0.0
        return e.v, outside

    return apply


def _nearest(values: Vector) -> Rule:
    """The nearest listed value; the first listed of two equally near ones."""

    order = np.argsort(values, kind="stable")
    ascending = values[order]
    middle = ascending[:-1] + np.diff(ascending) / 2
    upper_first = np.append(order[1:] < order[:-1], False)

    def apply(e: Entries) -> tuple[Vector, Mask]:
        at = np.searchsorted(middle, e.v)  # a value in the middle goes to the lower one
        tie = np.isin(e.v, middle) & upper_first[at]
        best = ascending[at + tie]
        return best, e.reduce(np.logical_or, best != e.v).astype(bool)

    return apply


def _reject_finite(values: Vector) -> Rule:
    def apply(e: Entries) -> tuple[Vector, Mask]:
        outside = e.reduce(np.logical_or, ~np.isin(e.v, values)).astype(bool)
        e.v[e.where(outside)] = 0.0
        return e.v, outside

    return apply


def _map(pairs: tuple[tuple[float | None, float], ...], done: bool) -> Rule:
    """Each key becomes its image, anything else the first image. ``done``: the values are images already."""

    def apply(e: Entries) -> tuple[Vector, Mask]:
        out = np.full_like(e.v, pairs[0][1])
        known = np.zeros(e.v.shape, dtype=bool)
        for key, image in pairs:
            if done or key is not None:
                hit = (e.v == (image if done else key)) & ~known
                out[hit] = image
                known |= hit
        return out, e.reduce(np.logical_or, ~known).astype(bool)

    return apply


def _chain(first: Rule, second: Rule) -> Rule:
    def apply(e: Entries) -> tuple[Vector, Mask]:
        v, touched = first(e)
        v, more = second(Entries(v, e.indptr))
        return v, touched | more

    return apply


# ------------------------------------------------------------------------------------------------------------ declarations


def _size(e: Expr, values: Values, what: str) -> Fraction | float:
    value = number(e, values, what, "DP521")
    if not SMALLEST <= value <= LARGEST:
        fail("DP521", f"{what} must be positive and between {SMALLEST:g} and {LARGEST:g}", "", e.span)
    return value


def _ends(box: Box, values: Values, variable: str) -> tuple[Fraction | float, Fraction | float]:
    low = number(box.low, values, f"the lower end of the domain of {variable}", "DP521")
    high = number(box.high, values, f"the upper end of the domain of {variable}", "DP521")
    if not -(LARGEST**2) <= low <= high <= LARGEST**2:
        fail(
            "DP521", f"the interval of {variable} must have finite ends in order, they are {_show(low)} and {_show(high)}", "", box.low.span
        )
    return low, high


def _show(value: Number) -> str:
    try:
        return f"{float(value):g}"
    except OverflowError:
        return "too large a number"


def _contains_zero(s: Set, values: Values, variable: str) -> bool:
    match s:
        case Ball() | Reals():
            return True
        case Box():
            low, high = _ends(s, values, variable)
            return low <= 0 <= high
        case Finite(values=listed):
            return any(number(e, values, "a listed value", "DP521") == 0 for e in listed)
        case _:
            return False


def _holds_cube(s: Set, tau: Fraction | float, d: int, values: Values, variable: str) -> bool:
    """Whether all vectors with coordinates up to tau lie in the set."""
    match s:
        case Ball(norm=norm, radius=radius):
            r = Fraction(_size(radius, values, f"the radius of {variable}"))
            t = Fraction(tau)
            return {"linf": t <= r, "l2": d * t * t <= r * r, "l1": d * t <= r}[norm]
        case Box():
            low, high = _ends(s, values, variable)
            return low <= -tau and tau <= high
        case Reals():
            return True
        case _:
            return False


_NAMES: Final = {
    "ball": "a ball",
    "simplex": "the simplex",
    "box": "a box",
    "finite": "a finite set",
    "sparse": "sparse vectors",
    "polytope": "a polytope",
}


def _refuse(domain: Domain, rule: Enforcement, why: str, help: str) -> NoReturn:
    kind = _NAMES.get(domain.set.kind, "an unbounded set")
    span = rule.tau.span if rule.tau is not None else None
    fail("DP520", f"{rule.how} does not put {domain.variable} in {kind}: {why}", help, span)


def _rule(domain: Domain, rule: Enforcement, d: int, values: Values, done: bool) -> Rule:
    variable, s = domain.variable, domain.set
    match s:
        case Ball(norm=norm, radius=radius):
            r = float_down(_size(radius, values, f"the radius of {variable}"))
            match rule.how:
                case "scale":
                    return _scale(norm, r)
                case "reject":
                    return _scale(norm, r, reject=True)
                case "clip" if norm == "linf" or d == 1:
                    return _clip(-r, r)
                case "clip":
                    _refuse(
                        domain,
                        rule,
                        f"clamping coordinates does not bound the {norm} norm by the radius",
                        f"{variable} in ball(...) by scale",
                    )
        case Box():
            low, high = _ends(s, values, variable)
            inner_low, inner_high = float_up(low), float_down(high)
            if inner_low > inner_high:
                fail("DP521", f"no double lies in the interval of {variable}", "widen it", s.low.span)
            match rule.how:
                case "clip":
                    return _clip(inner_low, inner_high)
                case "reject" if low <= 0 <= high:
                    return _reject_box(inner_low, inner_high)
                case "reject":
                    _refuse(domain, rule, "a rejected record becomes zero, which is outside", "clip, or an interval that contains 0")
                case "scale" if low == -high and high > 0:
                    return _scale("linf", float_down(_size(s.high, values, f"the interval of {variable}")))
                case "scale":
                    _refuse(domain, rule, "scaling towards zero keeps balls, not boxes", f"{variable} in box(...) by clip")
        case Finite(values=listed):
            if not listed:
                fail("DP521", f"the finite set of {variable} is empty", "")
            exact = [number(e, values, f"a value of {variable}", "DP521") for e in listed]
            floats = np.array([float(v) for v in exact])
            match rule.how:
                case "clip":
                    return _nearest(floats)
                case "reject" if 0 in exact:
                    return _reject_finite(floats)
                case "reject":
                    _refuse(domain, rule, "a rejected value becomes zero, which is not listed", "map or clip")
    match rule.how:
        case "shrink" if rule.tau is not None:
            tau = _size(rule.tau, values, "tau")
            if not _holds_cube(s, tau, d, values, variable):
                _refuse(
                    domain,
                    rule,
                    f"vectors with d = {d} coordinates up to {_show(tau)} are not all inside",
                    "a smaller tau, or a larger set",
                )
            t = float_down(tau)
            clamp = _clip(-t, t)
            if isinstance(s, Ball) and s.norm != "linf":  # the cube touches the ball: only rounding is left to take care of
                return _chain(clamp, _scale(s.norm, float_down(_size(s.radius, values, f"the radius of {variable}"))))
            return clamp
        case "map" if rule.mapping:
            pairs = tuple((as_number(key), number(image, values, "an image", "DP521")) for key, image in rule.mapping)
            for (key, _), (_, image) in zip(rule.mapping, pairs, strict=True):
                if not _contains(s, image, values, variable):
                    _refuse(domain, rule, f"the image of {key}, {_show(image)}, is outside", "map to values of the set")
            return _map(tuple((key, float(image)) for key, image in pairs), done)
    _refuse(domain, rule, "no such rule is known", "scale (balls), clip (boxes, finite sets), shrink(tau), reject, map (finite sets)")


def _contains(s: Set, value: Fraction | float, values: Values, variable: str) -> bool:
    match s:
        case Finite(values=listed):
            return any(number(e, values, "a listed value", "DP521") == value for e in listed)
        case Box():
            low, high = _ends(s, values, variable)
            return low <= value <= high
        case _:
            return False


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of the domains of one variable, in order. ``zero``: they map zero to zero (absent entries of a CSR matrix stay absent)."""

    variable: str
    rules: tuple[Rule, ...]
    zero: bool

    def apply(self, e: Entries) -> tuple[Vector, int, int]:
        """New values, how many records were outside, how many were not finite. ``e.v`` may be overwritten."""
        bad: Mask | None = None
        with np.errstate(over="ignore", invalid="ignore"):
            suspicious = not math.isfinite(float(e.v.sum()))
        if suspicious:
            bad = e.reduce(np.logical_or, ~np.isfinite(e.v)).astype(bool)
            e.v[e.where(bad)] = 0.0
        v, touched = e.v, np.zeros(e.rows, dtype=bool)
        for rule in self.rules:
            v, more = rule(Entries(v, e.indptr))
            touched |= more
        if bad is not None:
            touched &= ~bad
        return v, int(touched.sum()), 0 if bad is None else int(bad.sum())


def rules_of(data: Data, variable: str, d: int, values: Values, *, done: bool = False) -> Rules:
    """The enforcement of one record variable (``x`` with its d coordinates, or ``y`` with d = 1).

    Raises SpecError (DP520, DP521) when a rule cannot make its set true; nothing is read from records.
    """
    rules: list[Rule] = []
    zero = True
    enforced = [domain for domain in data.domains if domain.variable == variable and domain.by is not None]
    for domain in enforced:
        rule = domain.by
        assert rule is not None
        rules.append(_rule(domain, rule, d, values, done))
        if rule.how == "map":  # zero is a key like any other, or an unlisted value
            zero &= float(rules[-1](Entries(np.zeros((1, 1))))[0][0, 0]) == 0.0
        else:
            zero &= rule.how in ("scale", "shrink") or _contains_zero(domain.set, values, variable)
    if len(enforced) > 1:
        for domain in enforced:
            if not isinstance(domain.set, (Ball, Box)) or not _contains_zero(domain.set, values, variable):
                fail(
                    "DP520",
                    f"{variable} has two enforced domains, and enforcing one can break the other",
                    "enforce balls and boxes around zero, or one domain",
                )
    return Rules(variable, tuple(rules), zero)


# ------------------------------------------------------------------------------------------------------------------ records


def _apply(rules: Rules, e: Entries, missing: bool) -> tuple[Vector, int, int]:
    """``rules.apply``; where entries may be ``missing`` they are NaN before and after, and count as 0 between: a record is its entries that
    are there."""
    gone = np.isnan(e.v) if missing else None
    if gone is None or not gone.any():
        return rules.apply(e)
    e.v[gone] = 0.0
    v, touched, bad = rules.apply(e)
    v[gone] = np.nan
    return v, touched, bad


def _enforce_x(x: Any, rules: Rules, counts: Counts | None, missing: bool = False) -> Any:
    if is_sparse(x):
        if not rules.zero:
            fail(
                "DP522",
                f"the domain of {rules.variable} moves zeros, and the records are sparse",
                "use a domain that contains zero, or a dense array",
            )
        from scipy.sparse import csr_array

        v, touched, bad = _apply(rules, Entries(x.data.copy(), x.indptr), missing)
        if counts is not None:
            counts.add(rules.variable, 0, touched, bad)
        return csr_array((v, x.indices, x.indptr), shape=x.shape)
    out: Vector | None = None
    rows = drawing_rows(x.shape[1])
    for block, start in enumerate(range(0, len(x), rows)):
        old = x[start : start + rows]
        v, touched, bad = _apply(rules, Entries(np.array(old)), missing)
        if counts is not None:
            counts.add(rules.variable, block, touched, bad)
        if out is None and not np.array_equal(v, old, equal_nan=missing):
            out = np.array(x)
        if out is not None:
            out[start : start + rows] = v
    return x if out is None else out


def enforce(
    records: AnyRecords, data: Data, values: Mapping[str, Number] | None = None, *, missing: bool = False
) -> tuple[AnyRecords, Counts]:
    """The records with every enforced domain of ``data`` made true, and how many records that changed.

    ``values``: numbers by name for the expressions in the domains (n and d default to the records' own). Sparse records stay sparse,
    generated ones are enforced as they are drawn, public records are enforced like private ones. A domain without ``by`` changes
    nothing (it is only declared), but NaN and infinities become zeros in any case; where entries of x may be ``missing``, NaN is one that
    is, and stays. The counts are statistics of the records: studies
    may show them, a release may not. Raises SpecError DP520...DP523.
    """
    env = known_values(data, values)
    env.setdefault("n", records.n)
    env.setdefault("d", records.d)
    for domain in data.domains:
        if domain.variable not in ("x", "y"):
            fail("DP523", f"a domain is declared for {domain.variable!r}", "domains are for x and y")
        if domain.variable == "y" and not records.has_y and domain.by is not None:
            fail("DP523", "a domain is declared for y and the records have no target", "name the target of the data")
    x_rules = rules_of(data, "x", records.d, env, done="x" in records.mapped)
    y_rules = rules_of(data, "y", 1, env, done="y" in records.mapped)
    mapped = records.mapped | {d.variable for d in data.domains if d.by is not None and d.by.how == "map"}
    counts = Counts(records.n)
    public = None if records.public_x is None else _enforce_x(records.public_x, x_rules, None)

    if isinstance(records, GeneratedRecords):

        def transform(block: int, x: Vector, y: Vector) -> None:
            v, touched, bad = _apply(x_rules, Entries(x), missing)
            if v is not x:
                x[...] = v
            counts.add("x", block, touched, bad)
            if records.has_y:
                v, touched, bad = y_rules.apply(Entries(y[:, None]))
                y[...] = v[:, 0]
                counts.add("y", block, touched, bad)

        made = records.transformed(transform, mapped=mapped)
        made.public_x = public
        return made, counts

    x = _enforce_x(records.x, x_rules, counts, missing)
    y = None if records.y is None else _enforce_x(records.y[:, None], y_rules, counts)
    return Records(x, None if y is None else y[:, 0], public, mapped, records.words), counts
