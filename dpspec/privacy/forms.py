"""The lossless JSON form of mechanisms, channels and schedules, and what the numbers of a noise spend.

A mechanism or channel is a frozen dataclass, and its form is its ``kind`` with every one of its fields: nothing is registered, the files of
``mechanisms`` and ``channels`` are read (a class counts that has ``kind``, ``family`` and ``scale``; one whose kind depends on a field
lists its ``kinds``). Beside the fields, a class says what it draws and what that costs:

* ``numbers(level)``: the numbers that set the law of the output, ``{"scale": scale(level)}`` where it does not say;
* ``spent(noise)``: the mu of a Gaussian draw or the epsilon of any other (at the mechanism's own ``delta`` for ``approx``), from these
  numbers and the fields alone, never from a level. Gaussian and Laplace draws have sensitivity/scale where they do not say.

The reader is strict: a missing field, one that is not known, a number of another type or outside the range of its meaning is a
:class:`FormError`, which names the field.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from dpspec.privacy.mechanism import Mechanism

if TYPE_CHECKING:
    from dpspec.privacy.schedule import Draw, Tree

_FOLDERS = ("mechanisms", "channels")
_DEEPEST = 64


class FormError(ValueError):
    """A JSON form that cannot be read. ``what``: ``missing``, ``unknown`` (a field or word that nothing here knows), or ``range`` (a value
    that its meaning does not allow). ``where``: the path of the field."""

    def __init__(self, what: Literal["missing", "unknown", "range"], where: str, message: str) -> None:
        self.what, self.where = what, where
        super().__init__(f"{where}: {message}")


# ---------------------------------------------------------------------------------------------------------------- registry


@functools.lru_cache(maxsize=1)
def classes() -> dict[str, type]:
    """The class of each kind of mechanism and channel, from the files of the two folders."""
    import pkgutil
    from pathlib import Path

    found: dict[str, type] = {}
    for folder in _FOLDERS:
        for module in pkgutil.iter_modules([str(Path(__file__).parent / folder)]):
            name = f"dpspec.privacy.{folder}.{module.name}"
            for value in vars(importlib.import_module(name)).values():
                if not (isinstance(value, type) and value.__module__ == name and dataclasses.is_dataclass(value)):
                    continue
                if not all(hasattr(value, word) for word in ("kind", "family", "scale")):
                    continue
                for kind in kinds(value):
                    if found.setdefault(kind, value) is not value:
                        raise RuntimeError(f"two mechanisms are called {kind!r}: {found[kind].__name__} and {value.__name__}")
    return found


def kinds(cls: type) -> tuple[str, ...]:
    """The kinds of a class: its ``kind``, or its ``kinds`` where a field decides."""
    several = getattr(cls, "kinds", None)
    if several is not None:
        return tuple(several)
    kind = cls.kind  # type: ignore[attr-defined]
    if not isinstance(kind, str):
        raise TypeError(f"{cls.__name__}: kind depends on a field, so the class must list its kinds")
    return (kind,)


def is_channel(kind: str) -> bool:
    """Whether a kind is the client of a local channel (a file of ``channels``)."""
    return classes()[kind].__module__.startswith("dpspec.privacy.channels.")


# -------------------------------------------------------------------------------------------------------------- mechanisms


def mechanism_json(mechanism: Mechanism) -> dict[str, Any]:
    """``kind``, ``family`` and every field."""
    fields = {name: _plain(getattr(mechanism, name), hint) for name, hint in _fields(type(mechanism)).items()}
    return {"kind": mechanism.kind, "family": mechanism.family, **fields}


def mechanism_of(data: Any, where: str = "mechanism") -> Mechanism:
    """The mechanism of a form. Raises :class:`FormError`."""
    form = mapping(data, where)
    kind = text(form, "kind", where)
    cls = classes().get(kind)
    if cls is None:
        raise FormError("unknown", f"{where}.kind", f"no mechanism or channel is called {kind!r}")
    return made(cls, form, where)


def made(cls: type, form: Mapping[str, Any], where: str = "mechanism") -> Mechanism:
    """The mechanism of a form whose class is known. Raises :class:`FormError`."""
    hints = _fields(cls)
    only(form, ("kind", "family", *hints), where)
    values = {name: _value(form[name], hint, f"{where}.{name}") for name, hint in hints.items()}
    try:
        found: Mechanism = cls(**values)
        numbers = (found.kind, found.family, found.size, found.sensitivity)
    except (ValueError, ArithmeticError) as problem:
        raise FormError("range", where, str(problem)) from None
    for name in ("kind", "family"):
        if form[name] != getattr(found, name):
            raise FormError("unknown", f"{where}.{name}", f"{form[name]!r} is stated, {getattr(found, name)!r} follows from the fields")
    if found.norm != "none" and not (math.isfinite(numbers[3]) and numbers[3] > 0):
        raise FormError("range", where, f"a sensitivity of {numbers[3]!r}")
    return found


@functools.cache
def _fields(cls: type) -> dict[str, Any]:
    hints = get_type_hints(cls)
    return {f.name: hints[f.name] for f in dataclasses.fields(cls)}


def _plain(value: Any, hint: Any) -> Any:
    if hint is float:
        return float(value)
    if hint is int:
        return int(value)
    return value


def _value(value: Any, hint: Any, where: str) -> Any:
    if hint is float:
        return number(value, where)
    if hint is int:
        return whole(value, where)
    if hint is bool:
        if not isinstance(value, bool):
            raise FormError("range", where, f"true or false, not {_shown(value)}")
        return value
    if get_origin(hint) is Literal:
        if not isinstance(value, str) or value not in get_args(hint):
            raise FormError("unknown", where, f"one of {', '.join(map(str, get_args(hint)))}, not {_shown(value)}")
        return value
    raise TypeError(f"{where}: a field of type {hint!r} has no JSON form")


# ------------------------------------------------------------------------------------------------------------------- noise


def noise_of(mechanism: Mechanism, level: float) -> dict[str, float]:
    """The numbers that set the law of one draw at a level."""
    own: Callable[[float], Mapping[str, float]] | None = getattr(mechanism, "numbers", None)
    if own is not None:
        return {name: float(value) for name, value in own(level).items()}
    return {"scale": float(mechanism.scale(level))}


def spent_of(mechanism: Mechanism, noise: Mapping[str, float]) -> float:
    """mu (gaussian) or epsilon (any other family) of one draw of this noise, from its numbers alone.

    Raises :class:`FormError` for numbers that are no noise of this mechanism, and for a mechanism that does not say.
    """
    own: Callable[[Mapping[str, float]], float] | None = getattr(mechanism, "spent", None)
    try:
        if own is not None:
            value = float(own(noise))
        elif mechanism.family in ("gaussian", "laplace"):
            value = mechanism.sensitivity / noise["scale"]
        else:
            raise FormError("unknown", mechanism.kind, "what its noise spends is not stated beside the mechanism")
    except KeyError as problem:
        raise FormError("missing", f"noise.{problem.args[0]}", f"{mechanism.kind} needs it") from None
    except (ValueError, ArithmeticError) as problem:
        if isinstance(problem, FormError):
            raise
        raise FormError("range", "noise", f"no noise of {mechanism.kind}: {problem}") from None
    if math.isnan(value) or value < 0:
        raise FormError("range", "noise", f"no noise of {mechanism.kind}")
    return value


# --------------------------------------------------------------------------------------------------------------- schedules


def to_json(tree: Tree, levels: Mapping[str, float] | None = None) -> dict[str, Any]:
    """The tree as JSON, without loss; with ``levels``, each draw has its level and the numbers of the noise that is drawn."""
    from dpspec.privacy.schedule import Attributes, Disjoint, Draw, Parallel, Repeat, Sampled, Sequence

    match tree:
        case Draw(name=name, mechanism=mechanism):
            body: dict[str, Any] = {
                "type": "draw",
                "name": name,
                "per": tree.per,
                "weight": float(tree.weight),
                "mechanism": mechanism_json(mechanism),
            }
            if levels is not None:
                body |= {"level": float(levels[name]), "noise": noise_of(mechanism, levels[name])}
            return body
        case Sequence(parts=parts):
            return {"type": "sequence", "parts": [to_json(part, levels) for part in parts]}
        case Parallel(parts=parts):
            return {"type": "parallel", "parts": [to_json(part, levels) for part in parts]}
        case Repeat(body=body_, count=count):
            return {"type": "repeat", "count": int(count), "body": to_json(body_, levels)}
        case Disjoint(body=body_, count=count):
            return {
                "type": "attributes" if isinstance(tree, Attributes) else "disjoint",
                "count": int(count),
                "body": to_json(body_, levels),
            }
        case Sampled(body=body_):
            return {
                "type": "sampled",
                "method": tree.method,
                "rate": float(tree.rate),
                "n": int(tree.n),
                "body": to_json(body_, levels),
            }
    raise TypeError(f"{tree!r} is no schedule")


def from_json(data: Any, where: str = "tree") -> tuple[Tree, dict[str, float], dict[str, dict[str, float]]]:
    """The tree, the levels and the noise of :func:`to_json` (empty where there are none).

    Every field must be there, none may be added, and each must be in the range of its meaning: raises :class:`FormError`, which names the
    field.
    """
    from dpspec.privacy.schedule import draws

    levels: dict[str, float] = {}
    noise: dict[str, dict[str, float]] = {}
    names: set[str] = set()
    tree = _tree(data, where, levels, noise, names, 0)
    try:
        draws(tree)
    except ValueError as problem:  # sampling inside sampling
        raise FormError("range", where, str(problem)) from None
    if levels and set(levels) != names:
        raise FormError("missing", where, f"the level of {', '.join(sorted(names - set(levels)))}")
    return tree, levels, noise


def _tree(data: Any, where: str, levels: dict[str, float], noise: dict[str, dict[str, float]], names: set[str], depth: int) -> Tree:
    from dpspec.privacy.schedule import Attributes, Disjoint, Parallel, Repeat, Sampled, Sequence

    form = mapping(data, where)
    if depth > _DEEPEST:
        raise FormError("range", where, f"nested more than {_DEEPEST} deep")
    word = text(form, "type", where)

    def body() -> Tree:
        return _tree(form["body"], f"{where}.body", levels, noise, names, depth + 1)

    if word == "draw":
        return _draw(form, where, levels, noise, names)
    if word in ("sequence", "parallel"):
        only(form, ("type", "parts"), where)
        parts = form["parts"]
        if not isinstance(parts, list) or not parts:
            raise FormError("range", f"{where}.parts", "a list of at least one part")
        made = tuple(_tree(part, f"{where}.parts[{i}]", levels, noise, names, depth + 1) for i, part in enumerate(parts))
        return Sequence(made) if word == "sequence" else Parallel(made)
    if word in ("repeat", "disjoint", "attributes"):
        only(form, ("type", "count", "body"), where)
        count = positive(form["count"], f"{where}.count")
        if word == "repeat":
            return Repeat(body(), count)
        return Attributes(body(), count) if word == "attributes" else Disjoint(body(), count)
    if word == "sampled":
        only(form, ("type", "method", "rate", "n", "body"), where)
        method = form["method"]
        if method not in ("poisson", "fixed"):
            raise FormError("unknown", f"{where}.method", f"poisson or fixed, not {_shown(method)}")
        rate = number(form["rate"], f"{where}.rate")
        if not 0 < rate <= 1:
            raise FormError("range", f"{where}.rate", f"a sampling rate lies in (0, 1], not {rate:g}")
        return Sampled(body(), method, rate, positive(form["n"], f"{where}.n"))
    raise FormError("unknown", f"{where}.type", f"draw, sequence, repeat, disjoint, attributes, parallel or sampled, not {word!r}")


def _draw(form: Mapping[str, Any], where: str, levels: dict[str, float], noise: dict[str, dict[str, float]], names: set[str]) -> Draw:
    from dpspec.privacy.schedule import Draw

    calibrated = "level" in form or "noise" in form
    only(form, ("type", "name", "per", "weight", "mechanism", *(("level", "noise") if calibrated else ())), where)
    name = text(form, "name", where)
    if name in names:
        raise FormError("range", f"{where}.name", f"two draws are named {name!r}")
    names.add(name)
    per = form["per"]
    if per not in ("run", "user"):
        raise FormError("unknown", f"{where}.per", f"run or user, not {_shown(per)}")
    weight = number(form["weight"], f"{where}.weight")
    if weight <= 0:
        raise FormError("range", f"{where}.weight", f"a share of the budget is positive, not {weight:g}")
    made = Draw(name, mechanism_of(form["mechanism"], f"{where}.mechanism"), per, weight)
    if calibrated:
        level = number(form["level"], f"{where}.level")
        if level <= 0:
            raise FormError("range", f"{where}.level", f"a level is positive, not {level:g}")
        levels[name] = level
        drawn = mapping(form["noise"], f"{where}.noise")
        noise[name] = {str(key): number(value, f"{where}.noise.{key}") for key, value in drawn.items()}
    return made


# ----------------------------------------------------------------------------------------------------------- typed reading


def mapping(data: Any, where: str) -> Mapping[str, Any]:
    """The value as a mapping with words as keys."""
    if not isinstance(data, Mapping) or not all(isinstance(key, str) for key in data):
        raise FormError("range", where, f"a mapping, not {_shown(data)}")
    return data


def only(form: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    """Every known field is there and no other."""
    for name in known:
        if name not in form:
            raise FormError("missing", f"{where}.{name}", "not stated")
    for name in form:
        if name not in known:
            raise FormError("unknown", f"{where}.{name}", "a field that nothing here uses")


def text(form: Mapping[str, Any], name: str, where: str) -> str:
    if name not in form:
        raise FormError("missing", f"{where}.{name}", "not stated")
    value = form[name]
    if not isinstance(value, str):
        raise FormError("range", f"{where}.{name}", f"a word, not {_shown(value)}")
    return value


def number(value: Any, where: str) -> float:
    """A finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise FormError("range", where, f"a number, not {_shown(value)}")
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise FormError("range", where, f"a finite number, not {_shown(value)}")
    return found


def whole(value: Any, where: str) -> int:
    """A whole number, given as one."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise FormError("range", where, f"a whole number, not {_shown(value)}")
    return value


def positive(value: Any, where: str) -> int:
    """A whole number of at least 1 (and at most 2^53, so that it is exact as a double)."""
    found = whole(value, where)
    if not 1 <= found <= 2**53:
        raise FormError("range", where, f"a whole number of at least 1, not {_shown(value)}")
    return found


def _shown(value: Any) -> str:
    try:
        shown = repr(value)
    except ValueError:  # an integer of thousands of digits
        return "a number of thousands of digits"
    return shown if len(shown) <= 60 else shown[:57] + "..."
