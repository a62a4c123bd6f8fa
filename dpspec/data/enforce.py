"""Enforcement: what makes a declared domain true of every record, whatever the record holds.

Privacy rests on this module, so it makes no assumption on its input: NaN and infinities become zeros (the whole x of that record, or
its y), norms are computed without overflow, and rounding goes inwards. After :func:`enforce` the norm of every record, computed in
double precision in any order of summation, is at most the declared radius. Every rule looks at one record at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final, NoReturn

import numpy as np

from dpspec.data.problems import Number, Values, fail, float_down, float_up, number
from dpspec.data.records import AnyRecords, GeneratedRecords, Records, Vector, drawing_rows, is_sparse
from dpspec.data.sources import as_number, known_values
from dpspec.numeric.norms import LARGEST, SMALLEST, Entries
from dpspec.numeric.rules import Chain, Clip, Map, Nearest, Rule, Scale
from dpspec.numeric.rules import enforced as applied
from dpspec.spec.expr import Expr
from dpspec.spec.model import Ball, Box, Data, Domain, Enforcement, Finite, Reals, Set


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
                    return Scale(norm, r)
                case "reject":
                    return Scale(norm, r, reject=True)
                case "clip" if norm == "linf" or d == 1:
                    return Clip(-r, r)
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
                    return Clip(inner_low, inner_high)
                case "reject" if low <= 0 <= high:
                    return Clip(inner_low, inner_high, reject=True)
                case "reject":
                    _refuse(domain, rule, "a rejected record becomes zero, which is outside", "clip, or an interval that contains 0")
                case "scale" if low == -high and high > 0:
                    return Scale("linf", float_down(_size(s.high, values, f"the interval of {variable}")))
                case "scale":
                    _refuse(domain, rule, "scaling towards zero keeps balls, not boxes", f"{variable} in box(...) by clip")
        case Finite(values=listed):
            if not listed:
                fail("DP521", f"the finite set of {variable} is empty", "")
            exact = [number(e, values, f"a value of {variable}", "DP521") for e in listed]
            floats = tuple(float(v) for v in exact)
            match rule.how:
                case "clip":
                    return Nearest(floats)
                case "reject" if 0 in exact:
                    return Nearest(floats, reject=True)
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
            clamp = Clip(-t, t)
            if isinstance(s, Ball) and s.norm != "linf":  # the cube touches the ball: only rounding is left to take care of
                return Chain((clamp, Scale(s.norm, float_down(_size(s.radius, values, f"the radius of {variable}")))))
            return clamp
        case "map" if rule.mapping:
            pairs = tuple((as_number(key), number(image, values, "an image", "DP521")) for key, image in rule.mapping)
            for (key, _), (_, image) in zip(rule.mapping, pairs, strict=True):
                if not _contains(s, image, values, variable):
                    _refuse(domain, rule, f"the image of {key}, {_show(image)}, is outside", "map to values of the set")
            return Map(tuple((key, float(image)) for key, image in pairs), done)
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

    def apply(self, e: Entries, missing: bool = False) -> tuple[Vector, int, int]:
        """New values, how many records were outside, how many were not finite. ``e.v`` may be overwritten."""
        v, touched, bad = applied(self.rules, e, missing)
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


def _enforce_x(x: Any, rules: Rules, counts: Counts | None, missing: bool = False, fresh: bool = False) -> Any:
    if is_sparse(x):
        if not rules.zero:
            fail(
                "DP522",
                f"the domain of {rules.variable} moves zeros, and the records are sparse",
                "use a domain that contains zero, or a dense array",
            )
        from scipy.sparse import csr_array

        v, touched, bad = rules.apply(Entries(x.data.copy(), x.indptr), missing)
        if counts is not None:
            counts.add(rules.variable, 0, touched, bad)
        return csr_array((v, x.indices, x.indptr), shape=x.shape)
    out: Vector | None = None
    rows = drawing_rows(x.shape[1])
    if fresh:
        whole: Vector = x.view()
        whole.setflags(write=True)  # numpy allows it where the memory itself may be written
        near = max(256, 2**16 // max(x.shape[1], 1))  # what several passes over half a megabyte find in the cache
        for block, start in enumerate(range(0, len(whole), rows)):
            outside = gone = 0
            for at in range(start, min(start + rows, len(whole)), near):
                part = whole[at : min(at + near, start + rows)]
                v, touched, bad = rules.apply(Entries(part), missing)
                outside, gone = outside + touched, gone + bad
                if v is not part:
                    part[...] = v
            if counts is not None:
                counts.add(rules.variable, block, outside, gone)
        return whole
    for block, start in enumerate(range(0, len(x), rows)):
        old = x[start : start + rows]
        v, touched, bad = rules.apply(Entries(np.array(old)), missing)
        if counts is not None:
            counts.add(rules.variable, block, touched, bad)
        if out is None and not np.array_equal(v, old, equal_nan=missing):
            out = np.array(x)
        if out is not None:
            out[start : start + rows] = v
    return x if out is None else out


def alone(x: Any, missing: bool) -> Any:
    """``x`` (dense or CSR) with each entry that is not finite replaced by itself: by NaN where entries may be missing, else by 0."""
    v = x if isinstance(x, np.ndarray) else x.data
    gone = ~np.isfinite(v)
    if not gone.any():
        return x
    v = np.where(gone, np.nan if missing else 0.0, v)
    if isinstance(x, np.ndarray):
        return v
    from scipy.sparse import csr_array

    return csr_array((v, x.indices, x.indptr), shape=x.shape)


def enforce(
    records: AnyRecords,
    data: Data,
    values: Mapping[str, Number] | None = None,
    *,
    missing: bool = False,
    apart: bool = False,
    fresh: bool = False,
) -> tuple[AnyRecords, Counts]:
    """The records with every enforced domain of ``data`` made true, and how many records that changed.

    ``values``: numbers by name for the expressions in the domains (n and d default to the records' own). Sparse records stay sparse,
    generated ones are enforced as they are drawn, public records are enforced like private ones. A domain without ``by`` changes
    nothing (it is only declared), but NaN and infinities become zeros in any case; where entries of x may be ``missing``, NaN is one that
    is, and stays. ``apart``: one entry is protected by itself, so one that is not finite becomes 0 (or missing) alone, and not its whole
    record. ``fresh``: nobody else holds x, which may be overwritten. The counts are statistics of the records: studies
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
            v, touched, bad = x_rules.apply(Entries(alone(x, missing) if apart else x), missing)
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

    x = _enforce_x(alone(records.x, missing) if apart else records.x, x_rules, counts, missing, fresh)
    y = None if records.y is None else _enforce_x(records.y[:, None], y_rules, counts)
    return Records(x, None if y is None else y[:, 0], public, mapped, records.words), counts
