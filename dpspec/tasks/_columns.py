"""From the name of a column in a spec to :class:`dpspec.models.columns.Column`, and what every statistic of one column shares.

Which entries of x a column has, and between which numbers they lie, is said by the spec alone: its ``columns``, ``encode`` and domains.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any

from dpspec.domains.domain import Domain
from dpspec.models.columns import Cells, Column, Condition, Conditions, Keys
from dpspec.spec.expr import NotANumber, Unbound, evaluate
from dpspec.spec.model import Comparison, Encode, Estimate
from dpspec.spec.words import STATISTICS
from dpspec.tasks.protocol import Binding, Refusal

#: As far as `bounds auto` looks: numbers beyond count as this, one record at a time.
WIDEST = 2.0**50

_UNBOUNDED = "{} has no bounds, and how far one record moves a statistic of it is not known"


class NoColumn(Exception):
    """Why a name is no column here, and what to write."""

    def __init__(self, message: str, help: str) -> None:
        super().__init__(message)
        self.message, self.help = message, help


def _target(binding: Binding) -> str | None:
    return getattr(binding.analysis.data.source, "target", None)


def column_of(name: str, binding: Binding) -> Column:
    """Raises :class:`NoColumn`."""
    if name == "y" or (name != "" and name == _target(binding)):
        return _label(name, binding)
    data = binding.analysis.data
    encodings = {e.column: e for e in data.encode}
    listed = tuple(c for c in getattr(data.source, "columns", ()) if c != _target(binding))
    if name == "x" or not listed:
        features = int(binding.facts.get("d", 0)) - int(data.intercept)
        if features != 1 or (name != "x" and name not in encodings):
            what = f"x has {features} columns" if name == "x" else f"which column of the records {name} is, is not said"
            raise NoColumn(
                f"{what}: their names and order have to be public", f"from ... columns [{'age, hours' if name == 'x' else name}]"
            )
        return _number(name, 0, encodings.get(name) or next(iter(encodings.values()), None), binding)
    if name not in listed:
        raise NoColumn(f"there is no column {name}; the spec lists {', '.join(listed)}", "name one of them, or add it to columns")
    first = 0
    for other in listed:
        width = _width(encodings.get(other), binding)
        if other == name:
            return _number(name, first, encodings.get(name), binding) if width is None else _levels(encodings[name], first, width)
        first += width or 1
    raise AssertionError(name)


def _width(e: Encode | None, binding: Binding) -> int | None:
    """Indicators of a column; None for a number."""
    if e is None or e.how in ("range", "standard", "auto"):
        return None
    return len(e.levels) if e.how == "levels" else int(_value(e.args[0], binding))


def _value(e: Any, binding: Binding) -> float:
    try:
        return float(evaluate(e, binding.facts))
    except (Unbound, NotANumber, OverflowError) as error:
        raise NoColumn(f"a number of the spec has no value: {error}", "declare it in the data section") from None


def _levels(e: Encode, first: int, width: int) -> Column:
    names = e.levels or tuple(str(k) for k in range(width))
    return (
        Column(e.column, first=first, width=width, levels=names)
        if width > 1
        else Column(e.column, first=first, levels=names, values=(1.0,))
    )


def _number(name: str, first: int, e: Encode | None, binding: Binding) -> Column:
    domain = binding.domains.get("x")
    said = Domain() if domain is None else domain.known
    if domain is not None and domain.by is not None and domain.by.how == "scale" and said.shape != "linf" and binding.facts.get("d") != 1:
        raise NoColumn(
            f"enforcing the domain of x scales whole records, and {name} would no longer be what it is",
            f"x in box(0, 1) by clip, with encode {name} as range(a, b)",
        )
    low, high = (-math.inf if said.low is None else float(said.low), math.inf if said.high is None else float(said.high))
    offset, factor = 0.0, 1.0
    if e is not None and e.how == "auto":
        if math.isfinite(low) or math.isfinite(high):
            raise NoColumn(
                f"the domain of x bounds {name} already, and would clip what `bounds auto` looks for",
                "leave the domain of x out: every column has an encoding with bounds; or leave `bounds auto` out",
            )
        return Column(name, first=first, low=-WIDEST, high=WIDEST, auto=True)
    if e is not None:
        a, b = (_value(arg, binding) for arg in e.args)
        offset, factor = (a, b - a) if e.how == "range" else (a, b)
        if e.how == "range":
            low, high = max(low, 0.0), min(high, 1.0)
    if not (math.isfinite(low) and math.isfinite(high) and low < high and factor > 0):
        raise NoColumn(
            f"{name} has no bounds, and how far one record moves a statistic of it is not known", f"encode {name} as range(a, b)"
        )
    return Column(name, first=first, low=low, high=high, offset=offset, factor=factor)


def _label(name: str, binding: Binding) -> Column:
    domain = binding.domains.get("y")
    said = Domain() if domain is None else domain.known
    if said.low is None or said.high is None or said.low >= said.high:
        raise NoColumn(_UNBOUNDED.format("y"), "y in [a, b] by clip")
    values = tuple(float(v) for v in said.values)
    return Column(name, True, low=float(said.low), high=float(said.high), levels=tuple(f"{v:g}" for v in values), values=values)


def number_of(name: str, binding: Binding) -> Column:
    """A column that is a number: one of levels has no sum. Raises :class:`NoColumn`."""
    found = column_of(name, binding)
    if found.auto and (binding.node.what not in ("sum", "mean") or binding.node.group):
        what = f"{binding.node.what} group by" if binding.node.group else binding.node.what
        raise NoColumn(
            f"the bounds of {name} are auto, which sum and mean find; {what} needs them declared", f"encode {name} as range(a, b)"
        )
    if found.levels and not found.in_y:
        raise NoColumn(f"{name} is a column of levels, which have no {binding.node.what}", f"histogram({name})")
    return found


# --------------------------------------------------------------------------------------------------------------- tasks


def conditions(binding: Binding) -> Conditions:
    """Raises :class:`NoColumn`."""
    return Conditions(tuple(_condition(c, binding) for c in getattr(binding.node, "where", ())))


def _condition(c: Comparison, binding: Binding) -> Condition:
    column = column_of(c.column, binding)
    words = column.levels and not column.in_y
    if isinstance(c.value, str) or words:
        if not words:
            raise NoColumn(f"{c.column} is a number, and is compared with a word", f"{c.column} >= 1")
        said = c.value if isinstance(c.value, str) else f"{_value(c.value, binding):g}"
        if c.order != "=":
            raise NoColumn(f"{c.column} is a column of levels, which have no order", f'{c.column} = "{column.levels[0]}"')
        if said not in column.levels:
            raise NoColumn(f"{said!r} is no declared level of {c.column}", f"its levels are {', '.join(column.levels[:8])}")
        return Condition(column, "=", float(column.levels.index(said)))
    value = _value(c.value, binding)
    number = Column(column.name, column.in_y, column.first, low=column.low, high=column.high, offset=column.offset, factor=column.factor)
    return Condition(number, c.order, number.entry(value))


def cells(binding: Binding) -> Cells:
    """Raises :class:`NoColumn`."""
    column = column_of(binding.node.of, binding)
    ends = [_value(e, binding) for e in binding.node.args]
    if column.levels and not (column.in_y and ends):
        if ends:
            raise NoColumn(f"{column.name} is a column of levels, which lie between no edges", f"histogram({column.name})")
        return Cells(column, column.levels)
    if len(ends) < 2:
        low, high = column.value_low, column.value_high
        raise NoColumn(
            f"{column.name} is a number, and its histogram needs edges, which are public",
            f"histogram({column.name}, {low:g}, {(low + high) / 2:g}, {high:g})",
        )
    names = [f"[{a:g}, {b:g})" for a, b in pairwise(ends)]
    names[-1] = names[-1][:-1] + "]"
    return Cells(column, tuple(names), tuple(column.entry(v) for v in ends))


def keys_of(binding: Binding) -> Keys:
    """The keys of ``group by``, and the column that is summed. Raises :class:`NoColumn`."""
    node, source = binding.node, binding.analysis.data.source
    name, unit = node.group, binding.analysis.data.identified
    if unit and name == unit:
        raise NoColumn(f"{name} tells units apart, and a group of one unit hides nobody", "group by another column")
    of = None if node.what == "count" else number_of(node.of, binding)
    listed = getattr(source, "columns", ())
    if name not in (*listed, "x", "y", getattr(source, "target", None)):
        if source is not None and not listed:
            raise NoColumn(
                f"which columns are features is not said, so {name} would be one of them and the key",
                "from ... columns [age, hours], without the key",
            )
        return Keys(name, None, conditions(binding), of, unit)
    return Keys(name, column_of(name, binding), conditions(binding), of, unit)


def key_facts(binding: Binding) -> Mapping[str, float]:
    """``cells``: how many keys are declared, where they are; the ends of the column that is summed."""
    keys = keys_of(binding)
    found = {} if keys.of is None else {"value_low": keys.of.value_low, "value_high": keys.of.value_high}
    return {**found, **({"cells": float(len(keys.levels))} if keys.levels else {})}


def shares(binding: Binding) -> tuple[float, ...]:
    """The shares of ``quantile(c, p, ...)``; the median's is a half."""
    return (0.5,) if binding.node.what == "median" else tuple(_value(e, binding) for e in binding.node.args)


def asks(what: str, *others: str, column: bool = True) -> Callable[[Any], bool]:
    """Whether a node asks for this statistic; of a column where x is not meant as a whole."""

    def serves(node: Any) -> bool:
        return (
            isinstance(node, Estimate)
            and node.what in (what, *others)
            and not (node.group and column)
            and (not column or node.of != "x" or STATISTICS[node.what].of == "column")
        )

    return serves


def checked(make: Callable[[Binding], Any]) -> Callable[[Binding], Iterable[Refusal]]:
    """The refusals of ``make``, which reads names and numbers of the node."""

    def check(binding: Binding) -> Iterable[Refusal]:
        if {"labels-only", "attribute"} & binding.problem.modifiers:
            yield Refusal(f"{binding.node.what} is a statistic of whole records", "leave `labels only` and `attribute` out")
        if binding.node.over is not None:
            yield Refusal(f"{binding.node.what} has no set", "leave `over` out: its domain bounds it already")
        try:
            make(binding)
        except NoColumn as error:
            yield Refusal(error.message, error.help)

    return check


def facts_of(make: Callable[[Binding], Mapping[str, float]]) -> Callable[[Binding], Mapping[str, float]]:
    """The facts where there are any: what has none is refused by :func:`checked`."""

    def facts(binding: Binding) -> Mapping[str, float]:
        try:
            return make(binding)
        except NoColumn:
            return {}

    return facts


def interval_facts(binding: Binding) -> Mapping[str, float]:
    """``value_low`` and ``value_high``, in the author's units."""
    column = number_of(binding.node.of, binding)
    if column.auto:
        return {"auto": 1.0}
    return {"value_low": column.value_low, "value_high": column.value_high}


def needs_y(node: Any) -> bool:
    """Whether the statistic reads y. A target that is named is read as well, and the records have it then."""
    return bool("y" in (node.of, node.group) or any(c.column == "y" for c in getattr(node, "where", ())))


def of_a_number(binding: Binding) -> Column:
    """The column that a statistic of numbers is of. Raises :class:`NoColumn`."""
    return number_of(binding.node.of, binding)
