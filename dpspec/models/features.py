"""What a client hands to its channel: the public map of one record, as data.

An algorithm of the local model that has clients says with these what each of its planned draws is made of (``client`` in its file). The
executor computes the same for blocks of records; ``tests/client`` compares the two for hostile records. Nothing here imports more than
NumPy, since devices run it (:mod:`dpspec.client`).

A feature is a frozen dataclass of JSON-able fields and its form is its ``kind`` with these. ``values(x, y, told, coins)`` takes enforced
records, x (users, d) and y (users,) or None, what the server told the round's users, and a source of public coins; it gives what the
channel's ``encode`` takes, one block for each of ``count`` draws. It is total: no record makes it raise.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeAlias, get_type_hints

import numpy as np
from numpy.typing import NDArray

from dpspec.numeric.norms import lengths

Vector: TypeAlias = NDArray[np.float64]
Told: TypeAlias = Mapping[str, Vector]


class Coins(Protocol):
    """Coins that are drawn without a look at a record."""

    def integers(self, high: int, size: Any, /) -> Any: ...


class Feature(Protocol):
    """``needs_y``: whether the record has a response. ``asks``: the names of the public arrays that a round's users are told, (d,) each."""

    @property
    def kind(self) -> str: ...

    @property
    def needs_y(self) -> bool: ...

    @property
    def asks(self) -> tuple[str, ...]: ...

    def values(self, x: Vector, y: Vector | None, told: Told, coins: Coins) -> list[Any]: ...


@dataclass(frozen=True, slots=True)
class Shifted:
    """x - centre."""

    centre: float
    kind: ClassVar[str] = "shifted"
    needs_y: ClassVar[bool] = False
    asks: ClassVar[tuple[str, ...]] = ()

    def values(self, x: Vector, y: Vector | None, told: Told, coins: Coins) -> list[Any]:
        with np.errstate(over="ignore"):  # what leaves the doubles is the record 0 to its channel
            return [x - self.centre]


@dataclass(frozen=True, slots=True)
class Record:
    """x itself."""

    kind: ClassVar[str] = "record"
    needs_y: ClassVar[bool] = False
    asks: ClassVar[tuple[str, ...]] = ()

    def values(self, x: Vector, y: Vector | None, told: Told, coins: Coins) -> list[Any]:
        return [x]


@dataclass(frozen=True, slots=True)
class Pair:
    """(x, y), for channels that clip both and send a product or a moment."""

    kind: ClassVar[str] = "pair"
    needs_y: ClassVar[bool] = True
    asks: ClassVar[tuple[str, ...]] = ()

    def values(self, x: Vector, y: Vector | None, told: Told, coins: Coins) -> list[Any]:
        return [(x, y)]


@dataclass(frozen=True, slots=True)
class ScaledPair:
    """(x, y) with y multiplied by the factor min(1, ``radius``/|x|) by which the channel scales x."""

    radius: float
    kind: ClassVar[str] = "scaled-pair"
    needs_y: ClassVar[bool] = True
    asks: ClassVar[tuple[str, ...]] = ()

    def values(self, x: Vector, y: Vector | None, told: Told, coins: Coins) -> list[Any]:
        assert y is not None
        return [(x, self.scaled(x, y))]

    def scaled(self, x: Vector, y: Vector) -> Vector:
        """y min(1, r/|x|) row by row, (users,): one record each. What is no number stays none, and its record is 0 to the channels."""
        with np.errstate(all="ignore"):
            return np.asarray(y * np.minimum(1.0, lengths(x).limits(self.radius)))


@dataclass(frozen=True, slots=True)
class Answers:
    """The label of each entry of x, one value a task. Where an entry is no label, the last of ``symbols``, or a public coin among the
    labels where there is no symbol for it."""

    labels: tuple[float, ...]
    symbols: int
    kind: ClassVar[str] = "answers"
    needs_y: ClassVar[bool] = False
    asks: ClassVar[tuple[str, ...]] = ()

    def values(self, x: Vector, y: Vector | None, told: Told, coins: Coins) -> list[Any]:
        codes = np.full(x.shape, -1, dtype=np.int64)
        for k, label in enumerate(self.labels):
            codes[x == label] = k
        classes = len(self.labels)
        stand_in = coins.integers(classes, x.shape) if self.symbols == classes else np.full(x.shape, classes)
        return list(np.where(codes < 0, stand_in, codes).T)


# --------------------------------------------------------------------------------------------------------------------- forms

#: The module of each kind: a device loads the one of its plan.
_HERE: dict[str, Any] = {cls.kind: cls for cls in (Shifted, Record, Pair, ScaledPair, Answers)}
_ELSEWHERE = {
    "centred-column": "column_features",
    "satisfied": "column_features",
    "cell": "column_features",
    "linear-gradient": "round_features",
    "margin-gradient": "round_features",
    "truncated": "round_features",
    "latent-gradient": "round_features",
}


def _class(kind: Any) -> Any:
    if not isinstance(kind, str) or (kind not in _HERE and kind not in _ELSEWHERE):
        return None
    if kind in _HERE:
        return _HERE[kind]
    module = importlib.import_module(f"dpspec.models.{_ELSEWHERE[kind]}")
    return next(cls for cls in vars(module).values() if getattr(cls, "kind", None) == kind)


def form(feature: Any) -> dict[str, Any]:
    """The JSON form. Names of columns and levels, which no device needs, are left out."""
    return {"kind": feature.kind, **{f.name: _plain(getattr(feature, f.name)) for f in dataclasses.fields(feature)}}


def of_form(data: Any) -> Feature:
    """The feature of a form. Raises ``ValueError`` for a form with another field, or one less, or of another type."""
    cls = _class(data.get("kind")) if isinstance(data, Mapping) else None
    if cls is None:
        raise ValueError(f"no feature: {data!r:.80}")
    found: Feature = _made(cls, {k: v for k, v in data.items() if k != "kind"})
    return found


_MOST = float(np.finfo(np.float64).max)


def _unsent(cls: Any) -> Mapping[str, Any]:
    """Fields that no device needs, with what stands for them there."""
    found: Mapping[str, Any] = getattr(cls, "unsent", {})
    return found


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        skipped = _unsent(type(value))
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value) if f.name not in skipped}
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    plain = value.item() if isinstance(value, np.generic) else value
    return min(max(plain, -_MOST), _MOST) if isinstance(plain, float) else plain  # entries are finite: an infinite bound is beyond all


@functools.cache
def _hints(cls: Any) -> dict[str, Any]:
    hints = get_type_hints(cls)
    return {f.name: hints[f.name] for f in dataclasses.fields(cls) if f.name not in _unsent(cls)}


def _made(cls: Any, data: Any) -> Any:
    hints = _hints(cls)
    if not isinstance(data, Mapping) or set(data) != set(hints):
        raise ValueError(f"{cls.__name__} has the fields {', '.join(sorted(hints))}, not {data!r:.120}")
    return cls(**{name: _read(data[name], hint) for name, hint in hints.items()}, **_unsent(cls))


def _read(value: Any, hint: Any) -> Any:
    if dataclasses.is_dataclass(hint):
        return _made(hint, value)
    if hint is bool and isinstance(value, bool):
        return value
    if hint is str and isinstance(value, str):
        return value
    if hint is int and type(value) is int:
        return value
    if hint is float and type(value) in (int, float):
        return float(value)
    parts: tuple[Any, ...] = getattr(hint, "__args__", ())
    if len(parts) == 2 and parts[1] is Ellipsis and isinstance(value, list):
        return tuple(_read(v, parts[0]) for v in value)
    raise ValueError(f"{value!r:.60} where {getattr(hint, '__name__', hint)} is wanted")
