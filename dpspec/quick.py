"""The decorator of dataclasses, with methods that are made when they are first called.

``dataclasses.dataclass`` compiles up to six functions a class while a module is imported; of the time that ``dpspec check`` took to start a
third went there. Here ``__init__`` is compiled at its first call, and the others are closures over the names of the fields. What comes out
is a dataclass like any other: ``fields``, ``replace``, ``asdict``, ``match``, ``pickle``, ``copy`` and ``inspect.signature`` see no
difference (``tests/house/test_quick.py`` holds both beside each other), and a type checker sees the decorator of the standard library.
``InitVar``, ``KW_ONLY``, ``order``, ``unsafe_hash`` and ``weakref_slot`` are not there.
"""

from __future__ import annotations

import dataclasses
import itertools
import reprlib
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field, fields, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

__all__ = ["dataclass", "field", "fields", "kept", "replace"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, slots=False, eq=True, kw_only=False):
        """As the standard library's, with these words alone."""

        def made(cls):
            return _made(cls, frozen, slots, eq, kw_only)

        return made if cls is None else made(cls)


V = TypeVar("V")
T = TypeVar("T")


def kept(function: Callable[[V], T]) -> Callable[[V], T]:
    """A function of values that never change, which remembers its answers for the last few hundred objects (not for what equals them)."""
    found: dict[int, tuple[V, T]] = {}

    def ask(value: V) -> T:
        hit = found.get(id(value))
        if hit is not None and hit[0] is value:
            return hit[1]
        answer = function(value)
        if len(found) >= 512:
            found.clear()
        found[id(value)] = (value, answer)
        return answer

    return ask


@dataclasses.dataclass
class _Sample:
    """Tells how the standard library marks its classes and their fields."""

    field: int = 0


_FIELD = _Sample.__dataclass_fields__["field"]._field_type  # type: ignore[attr-defined]
_PARAMS: Any = _Sample.__dataclass_params__  # type: ignore[attr-defined]
_MISSING = dataclasses.MISSING


def _made(cls: Any, frozen: bool, slots: bool, eq: bool, kw_only: bool) -> Any:
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__[1:]):
        if "__dataclass_fields__" in base.__dict__:
            if base.__dataclass_params__.frozen is not frozen:
                raise TypeError(f"{cls.__name__} and {base.__name__} have to be frozen both, or neither")
            found.update(base.__dataclass_fields__)
    own = cls.__dict__
    for name, annotation in own.get("__annotations__", {}).items():
        if not str(annotation).startswith(("ClassVar", "typing.ClassVar")):
            found[name] = _field(cls, name, annotation, own.get(name, _MISSING), kw_only)
    whole = tuple(found.values())
    placed = tuple(f for f in whole if f.init and not f.kw_only)
    late = next((f.name for f, g in itertools.pairwise(placed) if _optional(f) and not _optional(g)), None)
    if late is not None:
        raise TypeError(f"{cls.__name__}: a field without a default follows {late}, which has one")
    owner = [cls]
    methods: dict[str, Any] = {
        "__init__": _init(owner, whole, placed, frozen),
        "__repr__": _repr(tuple(f.name for f in whole if f.repr)),
        "__match_args__": tuple(f.name for f in placed),
        "__signature__": _SIGNATURE,
    }
    if eq:
        methods["__eq__"] = _eq(tuple(f.name for f in whole if f.compare))
        methods["__hash__"] = _hash(tuple(f.name for f in whole if (f.compare if f.hash is None else f.hash))) if frozen else None
    for name, value in methods.items():
        if name not in own:
            setattr(cls, name, value)
    if frozen:
        cls.__setattr__, cls.__delattr__ = _refusals(owner, frozenset(found))
    cls.__dataclass_fields__ = found
    cls.__dataclass_params__ = params = object.__new__(_PARAMS.__class__)
    for word in getattr(_PARAMS, "__slots__", ()):
        setattr(params, word, getattr(_PARAMS, word))
    params.eq, params.frozen = eq, frozen
    if not cls.__doc__:
        cls.__doc__ = cls.__name__
    if slots:
        cls = owner[0] = _slotted(cls, tuple(found), frozen)
    return cls


def _field(cls: Any, name: str, annotation: Any, given: Any, kw_only: bool) -> Any:
    found: Any = given if isinstance(given, dataclasses.Field) else field(default=given)
    if type(found.default).__hash__ is None:
        raise ValueError(f"the default of {cls.__name__}.{name} can change: give a default_factory")
    found.name, found.type, found._field_type = name, annotation, _FIELD
    if found.kw_only is _MISSING:
        found.kw_only = kw_only
    if found is given and found.default is _MISSING:
        delattr(cls, name)
    elif found is given:
        setattr(cls, name, found.default)
    return found


def _optional(f: Any) -> bool:
    return f.default is not _MISSING or f.default_factory is not _MISSING


def _init(owner: list[Any], whole: tuple[Any, ...], placed: tuple[Any, ...], frozen: bool) -> Callable[..., None]:
    """``__init__``: compiles itself at the first call, and stands in the class from then on."""

    def made() -> Callable[..., None]:
        given: dict[str, Any] = {"_set": object.__setattr__, "_missing": _Factory()}
        words, body = [], []
        for f in (*placed, *(f for f in whole if f.init and f.kw_only)):
            if f.kw_only and "*" not in words:
                words.append("*")
            if f.default is not _MISSING:
                given[f"_default_{f.name}"] = f.default
            at = f"=_default_{f.name}" if f.default is not _MISSING else "=_missing" if f.default_factory is not _MISSING else ""
            words.append(f.name + at)
        for f in whole:
            value = f.name if f.init else f"_default_{f.name}"
            if f.default_factory is not _MISSING:
                given[f"_made_{f.name}"] = f.default_factory
                value = f"_made_{f.name}() if {f.name} is _missing else {f.name}" if f.init else f"_made_{f.name}()"
            elif not f.init and f.default is _MISSING:
                continue
            elif not f.init:
                given[value] = f.default
            body.append(f"  _set(_self, {f.name!r}, {value})" if frozen else f"  _self.{f.name} = {value}")
        if hasattr(owner[0], "__post_init__"):
            body.append("  _self.__post_init__()")
        text = f"def made({', '.join(given)}):\n def __init__({', '.join(['_self', *words])}):\n" + "\n".join(body or ["  pass"])
        names: dict[str, Any] = {}
        exec(f"{text}\n return __init__", {}, names)
        init: Callable[..., None] = names["made"](**given)
        init.__qualname__, init.__module__ = f"{owner[0].__qualname__}.__init__", owner[0].__module__
        init.__annotations__ = {f.name: f.type for f in whole if f.init} | {"return": None}
        if owner[0].__dict__.get("__init__") is first:
            owner[0].__init__ = init
        return init

    def first(self: Any, /, *args: Any, **words: Any) -> None:
        made()(self, *args, **words)

    first.made = made  # type: ignore[attr-defined]
    return first


class _Factory:
    """In a signature, as the standard library shows a default that is made."""

    def __repr__(self) -> str:
        return "<factory>"


class _Signature:
    """The signature of a class, found when it is asked for."""

    def __get__(self, instance: Any, owner: Any) -> Any:
        import inspect

        init = owner.__init__
        found = inspect.signature(init.made() if hasattr(init, "made") else init)
        return found.replace(parameters=list(found.parameters.values())[1:])


_SIGNATURE = _Signature()


def _values(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) > 1:
        return attrgetter(*names)
    return (lambda self: (getattr(self, names[0]),)) if names else (lambda self: ())


def _repr(names: tuple[str, ...]) -> Callable[[Any], str]:
    @reprlib.recursive_repr()
    def __repr__(self: Any) -> str:
        return f"{type(self).__qualname__}({', '.join([f'{name}={getattr(self, name)!r}' for name in names])})"

    return __repr__


def _eq(names: tuple[str, ...]) -> Callable[[Any, Any], Any]:
    values = _values(names)

    def __eq__(self: Any, other: Any) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return __eq__


def _hash(names: tuple[str, ...]) -> Callable[[Any], int]:
    values = _values(names)

    def __hash__(self: Any) -> int:
        return hash(values(self))

    return __hash__


def _refusals(owner: list[Any], names: frozenset[str]) -> tuple[Callable[..., None], Callable[..., None]]:
    def __setattr__(self: Any, name: str, value: Any) -> None:
        if type(self) is owner[0] or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(owner[0], self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is owner[0] or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(owner[0], self).__delattr__(name)

    return __setattr__, __delattr__


def _slotted(cls: Any, names: tuple[str, ...], frozen: bool) -> Any:
    """The class anew, its fields in slots."""
    if "__slots__" in cls.__dict__:
        raise TypeError(f"{cls.__name__} has __slots__ already")
    taken = {name for base in cls.__mro__[1:] for name in base.__dict__.get("__slots__", ())}
    body = {k: v for k, v in cls.__dict__.items() if k not in names and k not in ("__dict__", "__weakref__")}
    body["__slots__"] = tuple(name for name in names if name not in taken)
    made = type(cls)(cls.__name__, cls.__bases__, body)
    made.__qualname__ = cls.__qualname__
    if frozen:
        for name, value in (("__getstate__", _state), ("__setstate__", _restored)):
            if name not in body:
                setattr(made, name, value)
    return made


def _state(self: Any) -> list[Any]:
    return [getattr(self, f.name) for f in fields(self)]


def _restored(self: Any, state: list[Any]) -> None:
    for f, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, f.name, value)
