"""What makes a declared domain true of a record: one object a rule, which looks at one record at a time.

The executor applies them to blocks of records (:mod:`dpspec.data.enforce` reads them off a spec), a client to its own record
(:mod:`dpspec.client` reads them off its file): the same code runs on both sides. A rule takes entries that are finite and that it may
overwrite, and returns the new values and the rows that lay outside the domain. Its JSON form is its ``kind`` with its fields.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from dpspec.numeric.norms import Entries, Mask, Norm, Vector, plainly_finite, scale_into


class Rule(Protocol):
    def __call__(self, e: Entries, /) -> tuple[Vector, Mask]: ...


@dataclass(frozen=True, slots=True)
class Scale:
    """x * min(1, r/|x|), with every rounding inwards; with ``reject``, zeros where |x| > r. Proof: :mod:`dpspec.numeric.norms`."""

    norm: Norm
    radius: float
    reject: bool = False
    kind: ClassVar[str] = "scale"

    def __post_init__(self) -> None:
        if self.norm not in ("l1", "l2", "linf") or not 0 < self.radius < math.inf:
            raise ValueError(f"no ball {self.norm} of radius {self.radius!r}")

    def __call__(self, e: Entries) -> tuple[Vector, Mask]:
        return scale_into(e, self.radius, self.norm, reject=self.reject)


@dataclass(frozen=True, slots=True)
class Clip:
    """Each entry into [low, high]; with ``reject``, zeros where an entry of the record lies outside."""

    low: float
    high: float
    reject: bool = False
    kind: ClassVar[str] = "clip"

    def __post_init__(self) -> None:
        if not -math.inf < self.low <= self.high < math.inf:
            raise ValueError(f"no interval [{self.low!r}, {self.high!r}]")

    def __call__(self, e: Entries) -> tuple[Vector, Mask]:
        outside = e.reduce(np.logical_or, (e.v < self.low) | (e.v > self.high)).astype(bool)
        if self.reject:
            e.v[e.where(outside)] = 0.0
        elif outside.any():
            np.clip(e.v, self.low, self.high, out=e.v)
        return e.v, outside


@dataclass(frozen=True, slots=True)
class Nearest:
    """The nearest listed value; the first listed of two equally near ones. With ``reject``, zeros where an entry is not listed."""

    values: tuple[float, ...]
    reject: bool = False
    kind: ClassVar[str] = "nearest"

    def __post_init__(self) -> None:
        if not self.values or not all(math.isfinite(v) for v in self.values):
            raise ValueError("a finite set lists finite numbers, at least one")

    def __call__(self, e: Entries) -> tuple[Vector, Mask]:
        values = np.array(self.values)
        if self.reject:
            outside = e.reduce(np.logical_or, ~np.isin(e.v, values)).astype(bool)
            e.v[e.where(outside)] = 0.0
            return e.v, outside
        order = np.argsort(values, kind="stable")
        ascending = values[order]
        middle = ascending[:-1] + np.diff(ascending) / 2
        upper_first = np.append(order[1:] < order[:-1], False)
        at = np.searchsorted(middle, e.v)  # a value in the middle goes to the lower one
        tie = np.isin(e.v, middle) & upper_first[at]
        best = ascending[at + tie]
        return best, e.reduce(np.logical_or, best != e.v).astype(bool)


@dataclass(frozen=True, slots=True)
class Map:
    """Each key becomes its image, anything else the first image. ``done``: the values are images already. A key that is a word, which no
    number equals, is None."""

    pairs: tuple[tuple[float | None, float], ...]
    done: bool = False
    kind: ClassVar[str] = "map"

    def __post_init__(self) -> None:
        if not self.pairs or not all(math.isfinite(image) for _, image in self.pairs):
            raise ValueError("a map has finite images, at least one")

    def __call__(self, e: Entries) -> tuple[Vector, Mask]:
        out = np.full_like(e.v, self.pairs[0][1])
        known = np.zeros(e.v.shape, dtype=bool)
        for key, image in self.pairs:
            if self.done or key is not None:
                hit = (e.v == (image if self.done else key)) & ~known
                out[hit] = image
                known |= hit
        return out, e.reduce(np.logical_or, ~known).astype(bool)


@dataclass(frozen=True, slots=True)
class Chain:
    """One rule after another."""

    rules: tuple[Rule, ...]
    kind: ClassVar[str] = "chain"

    def __call__(self, e: Entries) -> tuple[Vector, Mask]:
        v, touched = e.v, np.zeros(e.rows, dtype=bool)
        for rule in self.rules:
            v, more = rule(Entries(v, e.indptr))
            touched |= more
        return v, touched


def enforced(rules: Sequence[Rule], e: Entries, missing: bool = False) -> tuple[Vector, Mask, Mask | None]:
    """New values, the records that were outside, and those that were not finite (None where all are): these are zeros before the first
    rule. Where entries may be ``missing`` they are NaN before and after, and count as 0 between: a record is its entries that are there.
    ``e.v`` may be overwritten."""
    gone = np.isnan(e.v) if missing else None
    if gone is not None and gone.any():
        e.v[gone] = 0.0
        found = enforced(rules, e)
        found[0][gone] = np.nan
        return found
    bad: Mask | None = None
    if not plainly_finite(e.v):
        bad = e.reduce(np.logical_or, ~np.isfinite(e.v)).astype(bool)
        e.v[e.where(bad)] = 0.0
    v, touched = Chain(tuple(rules))(e)
    return v, touched if bad is None else touched & ~bad, bad


# --------------------------------------------------------------------------------------------------------------------- forms

_KINDS: dict[str, Any] = {cls.kind: cls for cls in (Scale, Clip, Nearest, Map)}


def forms(rules: Sequence[Any]) -> list[dict[str, Any]]:
    """The JSON form of rules in their order; a chain is its parts."""
    found: list[dict[str, Any]] = []
    for rule in rules:
        if isinstance(rule, Chain):
            found += forms(rule.rules)
        else:
            found.append({"kind": rule.kind, **dataclasses.asdict(rule)})
    return found


def of_form(form: Any) -> Rule:
    """The rule of a form. Raises ``ValueError`` for a form with another field, or one less, or a value outside its meaning."""
    if not isinstance(form, Mapping) or form.get("kind") not in _KINDS:
        raise ValueError(f"no rule of enforcement: {form!r:.80}")
    cls = _KINDS[form["kind"]]
    names = {f.name for f in dataclasses.fields(cls)}
    if set(form) != names | {"kind"}:
        given = ", ".join(sorted(set(form) - {"kind"}))
        raise ValueError(f"the rule {form['kind']} has the fields {', '.join(sorted(names))}, not {given}")
    try:
        values = {name: _frozen(form[name]) for name in names}
        rule: Rule = cls(**values)
    except TypeError as problem:
        raise ValueError(f"the rule {form['kind']}: {problem}") from None
    return rule


def _frozen(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_frozen(v) for v in value)
    return float(value) if type(value) is int else value
