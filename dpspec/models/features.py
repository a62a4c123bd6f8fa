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
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeAlias, get_type_hints

import numpy as np
from numpy.typing import NDArray

from dpspec.models.columns import Cells, Column, Condition, Conditions
from dpspec.numeric.norms import clip_rows, lengths
from dpspec.numeric.slopes import SLOPES

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
class Centred:
    """A column's number on [-1, 1]."""

    column: Column
    kind: ClassVar[str] = "centred-column"
    asks: ClassVar[tuple[str, ...]] = ()

    @property
    def needs_y(self) -> bool:
        return self.column.in_y

    def values(self, x: Vector, y: Vector | None, told: Told, coins: Coins) -> list[Any]:
        return [centred(self.column, x, y)]


def centred(column: Column, x: Any, y: Any) -> Vector:
    """The column's entries on [-1, 1], (users, 1)."""
    middle, half = (column.low + column.high) / 2, (column.high - column.low) / 2
    return np.asarray(np.clip((column.entries(x, y) - middle) / half, -1.0, 1.0)[:, None])


@dataclass(frozen=True, slots=True)
class Satisfied:
    """1 where a record satisfies every condition, -1 elsewhere."""

    conditions: tuple[Condition, ...]
    kind: ClassVar[str] = "satisfied"
    asks: ClassVar[tuple[str, ...]] = ()

    @property
    def needs_y(self) -> bool:
        return any(c.column.in_y for c in self.conditions)

    def values(self, x: Vector, y: Vector | None, told: Told, coins: Coins) -> list[Any]:
        return [np.where(Conditions(self.conditions).hold(x, y), 1.0, -1.0)[:, None]]


@dataclass(frozen=True, slots=True)
class CellOf:
    """The number of a record's cell among the levels of a column or the intervals between ``edges``, one more for none."""

    column: Column
    cells: int
    edges: tuple[float, ...]
    kind: ClassVar[str] = "cell"
    asks: ClassVar[tuple[str, ...]] = ()

    @property
    def needs_y(self) -> bool:
        return self.column.in_y

    def values(self, x: Vector, y: Vector | None, told: Told, coins: Coins) -> list[Any]:
        at = self.column.cells(x, y, np.asarray(self.edges, dtype=np.float64)) if self.edges else self.column.codes(x, y)
        return [np.where(at < 0, self.cells, at)]


def cell_of(cells: Cells) -> CellOf:
    return CellOf(cells.column, len(cells.names), tuple(cells.edges))


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


@dataclass(frozen=True, slots=True)
class LinearGradient:
    """x (<theta, x> - y) with x clipped at ``x_clip`` and y at ``y_clip``; where they are positive, the residual at ``residual_clip`` and
    then x into the l2 ball of ``x_radius``. ``theta`` is told by the server."""

    x_clip: float
    y_clip: float
    residual_clip: float
    x_radius: float
    kind: ClassVar[str] = "linear-gradient"
    needs_y: ClassVar[bool] = True
    asks: ClassVar[tuple[str, ...]] = ("theta",)

    def values(self, x: Vector, y: Vector | None, told: Told, coins: Coins) -> list[Any]:
        assert y is not None
        return [self.gradients(x, y, told["theta"])]

    def gradients(self, x: Vector, y: Vector, theta: Vector) -> Vector:
        with np.errstate(all="ignore"):  # what leaves the doubles is the gradient 0 to the channel
            clipped = np.clip(x, -self.x_clip, self.x_clip)
            residual = clipped @ theta - np.clip(y, -self.y_clip, self.y_clip)
            if self.residual_clip > 0:
                residual = np.clip(residual, -self.residual_clip, self.residual_clip)
            if self.x_radius > 0:
                clipped = clip_rows(clipped, self.x_radius)
            clipped *= residual[:, None]
        return clipped


@dataclass(frozen=True, slots=True)
class MarginGradient:
    """x phi'(<w, x>, y) of a named loss: factor*y*f'(y*u) where it is one of the ``product``, factor*f'(u - y) of the ``residual``.
    ``w`` is told by the server."""

    loss: str
    parameters: tuple[float, ...]
    family: str
    factor: float
    kind: ClassVar[str] = "margin-gradient"
    needs_y: ClassVar[bool] = True
    asks: ClassVar[tuple[str, ...]] = ("w",)

    def __post_init__(self) -> None:
        if self.loss not in SLOPES or self.family not in ("product", "residual"):
            raise ValueError(f"no slope of the loss {self.loss!r:.40} by the {self.family!r:.40}")

    def values(self, x: Vector, y: Vector | None, told: Told, coins: Coins) -> list[Any]:
        assert y is not None
        slope = SLOPES[self.loss]
        with np.errstate(all="ignore"):  # what leaves the doubles is the gradient 0 to the channel
            u = x @ told["w"]
            if self.family == "residual":
                s = self.factor * slope(u - y, *self.parameters)
            else:
                s = (y if self.factor == 1.0 else self.factor * y) * slope(y * u, *self.parameters)
            return [x * s[:, None]]


@dataclass(frozen=True, slots=True)
class Truncated:
    """s kernel(x/s, beta), the smooth truncation of :mod:`dpspec.numeric.robust`, entry by entry."""

    s: float
    beta: float
    kind: ClassVar[str] = "truncated"
    needs_y: ClassVar[bool] = False
    asks: ClassVar[tuple[str, ...]] = ()

    def values(self, x: Vector, y: Vector | None, told: Told, coins: Coins) -> list[Any]:
        return [self.cut(x)]

    def cut(self, x: Vector) -> Vector:
        from dpspec.numeric import robust

        with np.errstate(over="ignore", invalid="ignore"):  # the kernel is flat far out, and 0 for a NaN
            return np.asarray(self.s * robust.kernel(x / self.s, self.beta))


@dataclass(frozen=True, slots=True)
class LatentGradient:
    """The gradient of a latent model at ``beta``, which the server tells, truncated as by :class:`Truncated`. ``y``: whether it has one."""

    model: str
    sigma: float
    y: bool
    s: float
    smoothing: float
    kind: ClassVar[str] = "latent-gradient"
    asks: ClassVar[tuple[str, ...]] = ("beta",)

    def __post_init__(self) -> None:
        from dpspec.numeric.latent import GRADIENTS

        if self.model not in GRADIENTS or GRADIENTS[self.model][1] != self.y:
            raise ValueError(f"no gradient of the model {self.model!r:.40}")

    @property
    def needs_y(self) -> bool:
        return self.y

    def values(self, x: Vector, y: Vector | None, told: Told, coins: Coins) -> list[Any]:
        from dpspec.numeric.latent import GRADIENTS

        return [Truncated(self.s, self.smoothing).cut(GRADIENTS[self.model][0](self.sigma, told["beta"], x, y))]


# --------------------------------------------------------------------------------------------------------------------- forms

_ALL = (
    *(Shifted, Record, Pair, ScaledPair, Centred, Satisfied, CellOf, Answers, LinearGradient, MarginGradient),
    *(Truncated, LatentGradient),
)
_KINDS: dict[str, Any] = {cls.kind: cls for cls in _ALL}


def form(feature: Any) -> dict[str, Any]:
    """The JSON form. Names of columns and levels, which no device needs, are left out."""
    return {"kind": feature.kind, **{f.name: _plain(getattr(feature, f.name)) for f in dataclasses.fields(feature)}}


def of_form(data: Any) -> Feature:
    """The feature of a form. Raises ``ValueError`` for a form with another field, or one less, or of another type."""
    if not isinstance(data, Mapping) or not isinstance(data.get("kind"), str) or data["kind"] not in _KINDS:
        raise ValueError(f"no feature: {data!r:.80}")
    found: Feature = _made(_KINDS[data["kind"]], {k: v for k, v in data.items() if k != "kind"})
    return found


_MOST = float(np.finfo(np.float64).max)
_LEFT_OUT: dict[type, dict[str, Any]] = {Column: {"name": "", "levels": (), "auto": False}}  # automatic bounds are of the central model


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        skipped = _LEFT_OUT.get(type(value), {})
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value) if f.name not in skipped}
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    plain = value.item() if isinstance(value, np.generic) else value
    return min(max(plain, -_MOST), _MOST) if isinstance(plain, float) else plain  # entries are finite: an infinite bound is beyond all


@functools.cache
def _hints(cls: Any) -> dict[str, Any]:
    hints = get_type_hints(cls)
    return {f.name: hints[f.name] for f in dataclasses.fields(cls) if f.name not in _LEFT_OUT.get(cls, {})}


def _made(cls: Any, data: Any) -> Any:
    hints = _hints(cls)
    if not isinstance(data, Mapping) or set(data) != set(hints):
        raise ValueError(f"{cls.__name__} has the fields {', '.join(sorted(hints))}, not {data!r:.120}")
    return cls(**{name: _read(data[name], hint) for name, hint in hints.items()}, **_LEFT_OUT.get(cls, {}))


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
