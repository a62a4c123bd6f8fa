"""How the data layer says no, and how it turns declared expressions into numbers."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import NoReturn

from dpspec.spec.diagnostics import Diagnostic, Span, SpecError
from dpspec.spec.expr import Expr, NotANumber, Unbound, evaluate

Number = Fraction | int | float
Values = Mapping[str, Number]


def problem(code: str, message: str, help: str = "", span: Span | None = None) -> Diagnostic:
    return Diagnostic(code, "error", message, help, span)


def fail(code: str, message: str, help: str = "", span: Span | None = None, *, path: str = "") -> NoReturn:
    raise SpecError([problem(code, message, help, span)], path=path)


def nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known word closest to ``word``, or None when none is close."""
    found = difflib.get_close_matches(word, list(known), n=1, cutoff=cutoff)
    return found[0] if found else None


def number(e: Expr, values: Values, what: str, code: str) -> Fraction | float:
    """The value of a declared expression; SpecError with ``code`` when it has none."""
    try:
        return evaluate(e, values)
    except Unbound as error:
        fail(
            code, f"{what} needs the value of {error.name!r}, which nothing declares", "declare it in the data block", error.span or e.span
        )
    except NotANumber as error:
        fail(code, f"{what} is not a number: {error.reason}", "give a finite number", error.span or e.span)


def integer(e: Expr, values: Values, what: str, code: str) -> int:
    value = number(e, values, what, code)
    if value != math.floor(value):
        fail(code, f"{what} must be a whole number, it is {float(value):g}", "", e.span)
    return math.floor(value)


def float_down(value: Fraction | float) -> float:
    """The largest double at or below ``value`` (of magnitude below 2**1024)."""
    f = float(value)
    return f if f <= value else math.nextafter(f, -math.inf)


def float_up(value: Fraction | float) -> float:
    """The smallest double at or above ``value`` (of magnitude below 2**1024)."""
    return -float_down(-value)
