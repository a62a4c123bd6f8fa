"""Numbers of a description that are written as formulas: ``1/n^2``, ``2*log(1/delta)``, ``sqrt(8*rho)``.

A formula may name ``n`` of the setting and the numbers of the claim (``epsilon``, ``delta``, ``rho``, ``mu``), in this order, so that none
needs itself. ``log`` and ``ln`` are natural. Nothing else has a meaning: other names, calls and operators are no formula.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from dpspec.spec.ratio import ratio

_LONGEST = 120
_CALLS: Mapping[str, Callable[..., float]] = {
    "log": math.log,
    "ln": math.log,
    "log2": math.log2,
    "log10": math.log10,
    "log1p": math.log1p,
    "exp": math.exp,
    "expm1": math.expm1,
    "sqrt": math.sqrt,
    "min": min,
    "max": max,
    "ceil": math.ceil,
    "floor": math.floor,
}
_ARITY = {"min": (2, 8), "max": (2, 8)}
_OPERATORS: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: math.pow,
}
#: Places whose text is never a formula.
_TEXT = (
    "subject", "what", "text", "note", "method", "condition", "unit", "events_unit", "sampling", "source", "type", "variant", "rule",
    "accountant", "inputs", "outputs", "rows", "neighbouring", "neighbours", "model", "samples", "outputs_outside", "name", "dtype",
)  # fmt: skip


_LONGEST_FRACTION = 60


def numeric(value: Any) -> Any:
    """``"1/3"`` and ``"2.5e-3"`` as numbers (infinite when beyond the doubles); anything else unchanged."""
    if isinstance(value, str):
        text = value.strip()
        if text and text[0] in "0123456789.+-":
            try:
                if "/" not in text:
                    return float(text)
                return float(ratio(text)) if len(text) <= _LONGEST_FRACTION and "e" not in text.lower() else value
            except OverflowError:
                return math.inf
            except (ValueError, ZeroDivisionError):
                return value
    return value


def value_of(text: str, names: Mapping[str, float]) -> float:
    """The finite number that a formula stands for. Raises :class:`ValueError`, saying what it does not understand."""
    if len(text) > _LONGEST:
        raise ValueError("it is too long")
    try:
        tree = ast.parse(text.strip().replace("^", "**"), mode="eval")
        found = float(_value(tree.body, names))
    except (SyntaxError, RecursionError, MemoryError):
        raise ValueError("it is no formula") from None
    except (ZeroDivisionError, OverflowError):
        raise ValueError("it has no finite value") from None
    except ValueError as error:
        raise ValueError(str(error) if "domain" not in str(error) else "it has no finite value") from None
    if not math.isfinite(found):
        raise ValueError("it has no finite value")
    return found


def _value(node: ast.AST, names: Mapping[str, float]) -> float:
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
        return float(node.value)
    if isinstance(node, ast.Name):
        if node.id not in names:
            raise ValueError(f"{node.id} has no value here")
        return names[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        inner = _value(node.operand, names)
        return -inner if isinstance(node.op, ast.USub) else inner
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.left, names), _value(node.right, names))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CALLS and not node.keywords:
        least, most = _ARITY.get(node.func.id, (1, 1))
        if least <= len(node.args) <= most:
            return float(_CALLS[node.func.id](*(_value(a, names) for a in node.args)))
    raise ValueError("it is no formula")


def is_formula(value: Any) -> bool:
    """Whether a text is meant as a formula: it computes with something, and parses."""
    if not isinstance(value, str) or len(value) > _LONGEST or not isinstance(numeric(value), str):
        return False
    try:
        tree = ast.parse(value.strip().replace("^", "**"), mode="eval")
    except (SyntaxError, RecursionError, MemoryError, ValueError):
        return False
    computes = any(isinstance(node, (ast.BinOp, ast.Call)) for node in ast.walk(tree))
    known = {*_CALLS, "n", "epsilon", "delta", "rho", "mu"}
    return computes and all(node.id in known for node in ast.walk(tree) if isinstance(node, ast.Name))


def resolved(data: Mapping[str, Any]) -> dict[str, Any]:
    """The description with its formulas as numbers; one that has no value stays as it is, and its field refuses it."""
    names: dict[str, float] = {}
    found = dict(data)
    for place, words in (("setting", ("n",)), ("claim", ("delta", "epsilon", "rho", "mu"))):
        part = found.get(place)
        if not isinstance(part, Mapping):
            continue
        part = dict(part)
        for word in words:
            if is_formula(part.get(word)):
                part[word] = _or_text(part[word], names)
            number = part.get(word)
            if isinstance(number, str):
                number = numeric(number)
            if isinstance(number, (int, float)) and not isinstance(number, bool) and abs(number) < 1e300:
                names[word] = float(number)
        found[place] = part
    return {key: _walk(value, names, str(key)) for key, value in found.items()}


def _walk(value: Any, names: Mapping[str, float], key: str) -> Any:
    if isinstance(value, Mapping):
        return {k: _walk(v, names, str(k)) for k, v in value.items()}
    if isinstance(value, list):
        return value if key in _TEXT else [_walk(v, names, key) for v in value]
    return _or_text(value, names) if key not in _TEXT and is_formula(value) else value


def _or_text(text: str, names: Mapping[str, float]) -> Any:
    try:
        found = value_of(text, names)
    except ValueError:
        return text
    return int(found) if found == int(found) and abs(found) < 2**53 else found
