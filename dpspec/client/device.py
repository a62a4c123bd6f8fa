"""What a device knows of a plan, read strictly, and what one report of it spends, recomputed."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dpspec.client.frame import HEADER, MOST_ROUNDS
from dpspec.models.features import Feature, Vector
from dpspec.models.features import of_form as feature_of
from dpspec.numeric.rules import Rule
from dpspec.numeric.rules import of_form as rule_of
from dpspec.privacy.channels.protocol import Channel
from dpspec.privacy.forms import FormError, made, noise_of, spent_of
from dpspec.privacy.wire import Codec, WireError, codec

if TYPE_CHECKING:
    from pathlib import Path

FORMAT: Final = "dpspec-client"
ROUND_FORMAT: Final = "dpspec-round"
VERSION: Final = 1
#: What recomputed and stated numbers may differ by, relatively: the last bits of two libraries of mathematics.
_SLACK: Final = 1e-9
MOST_RECORD: Final = 10**7

#: The file and class of each channel that a client may run.
CHANNELS: Final = {
    "binary-response": ("randomized_response", "BinaryResponse"),
    "cube": ("cube", "Cube"),
    "gaussian-ball-product": ("gaussian_ball_product", "GaussianBallProduct"),
    "gaussian-outer": ("gaussian_outer", "GaussianOuter"),
    "gaussian-product": ("gaussian_product", "GaussianProduct"),
    "gaussian-vector": ("gaussian_vector", "GaussianVector"),
    "hadamard-response": ("hadamard_response", "HadamardResponse"),
    "hemisphere": ("hemisphere", "Hemisphere"),
    "kary-response": ("randomized_response", "KaryResponse"),
    "laplace-vector": ("laplace_vector", "LaplaceVector"),
    "one-bit-mean": ("one_bit", "OneBitMean"),
    "optimised-unary-encoding": ("unary_encoding", "UnaryEncoding"),
    "priv-unit": ("priv_unit", "PrivUnit"),
    "sampled-coordinate": ("sampled_coordinate", "SampledCoordinate"),
    "subset-selection": ("subset_selection", "SubsetSelection"),
    "symmetric-unary-encoding": ("unary_encoding", "UnaryEncoding"),
    "wishart-outer": ("wishart_outer", "WishartOuter"),
}


class ClientError(ValueError):
    """A client file, a state or a limit by which nothing is reported. No record was looked at, and no noise was drawn."""


@dataclass(frozen=True)
class DeviceDraw:
    """``count`` reports of one channel, on the values of one feature."""

    name: str
    channel: Channel
    level: float
    feature: Feature
    count: int

    @cached_property
    def codec(self) -> Codec:
        return codec(self.channel, self.level)

    @property
    def bits(self) -> int:
        return self.count * self.codec.bits


@dataclass(frozen=True)
class Device:
    """A client file that was read and checked. ``epsilon``, ``delta``: what one report spends, recomputed from the channels."""

    plan: bytes
    rounds: int
    d: int
    has_y: bool
    columns: tuple[str, ...]
    missing: bool
    protects: str
    x_rules: tuple[Rule, ...]
    y_rules: tuple[Rule, ...]
    draws: tuple[DeviceDraw, ...]

    @cached_property
    def payload_bytes(self) -> int:
        return (sum(draw.bits for draw in self.draws) + 7) // 8

    @property
    def length(self) -> int:
        """Bytes of every report."""
        return HEADER.size + self.payload_bytes

    @property
    def asks(self) -> tuple[str, ...]:
        """The names of the arrays that users are told before they report."""
        return tuple(sorted({name for draw in self.draws for name in draw.feature.asks}))

    def spent(self, delta: float, unit: str = "record") -> float:
        """epsilon of one report at ``delta``, of the whole record or (``unit = attribute``) of one of its entries alone.

        Pure parts add up; Gaussian ones are one Gaussian of mu^2 = sum mu_i^2 (Dong, Roth and Su 2022), whose epsilon is added.
        """
        pure, square = 0.0, 0.0
        for draw in self.draws:
            count = 1 if unit == "attribute" else draw.count
            value = spent_of(draw.channel, noise_of(draw.channel, draw.level))
            if draw.channel.family == "gaussian":
                square += count * value**2
            else:
                pure += count * value
        if square == 0.0:
            return pure
        if not 0 < delta < 1:
            raise ClientError("the reports have Gaussian noise, which no epsilon describes without a delta: state delta= of your limit")
        return pure + gaussian_epsilon(math.sqrt(square), delta)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The epsilon of mu-GDP at ``delta``, from above: delta(eps) = Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu) falls with eps."""

    def phi(z: float) -> float:
        return 0.5 * math.erfc(-z / math.sqrt(2.0))

    def over(epsilon: float) -> bool:
        far = phi(-mu / 2 - epsilon / mu)
        return phi(mu / 2 - epsilon / mu) - (math.exp(epsilon + math.log(far)) if far > 0 else 0.0) > delta

    if not over(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while over(high):
        low, high = high, 2 * high
        if high > 1e6:
            return math.inf
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if over(middle) else (low, middle)
    return high


def load(
    source: str | Path | Mapping[str, Any], *, epsilon: float, delta: float = 0.0, unit: str = "record", plan: str | None = None
) -> Device:
    """The device of a client file (a path, or its JSON as a mapping).

    ``epsilon``, ``delta``: the most that one report may spend, which the caller decides and no file. ``unit``: ``record``, or ``attribute``
    where the caller accepts that the limit is for one entry of the record alone. ``plan``: the SHA-256 of the plan that the caller has
    reviewed, in hexadecimal.

    Raises :class:`ClientError` for a file that is not understood to the last field, whose stated noise is not that of its channels, whose
    plan is another one, or whose reports spend more than the limit.
    """
    if not (math.isfinite(epsilon) and epsilon > 0 and 0 <= delta < 1) or unit not in ("record", "attribute"):
        raise ClientError("the limit is a finite epsilon > 0, a delta in [0, 1) and the unit record or attribute")
    try:
        device = _device(_json(source))
    except ClientError:
        raise
    except (FormError, WireError, ValueError, ArithmeticError) as problem:
        raise ClientError(f"the client file is not understood: {problem}") from None
    if plan is not None and device.plan.hex() != plan.lower():
        raise ClientError(f"the client file is of the plan {device.plan.hex()}, not of {plan}")
    if unit == "attribute" and device.protects != "attributes":
        raise ClientError("the plan protects whole records, so a limit for one attribute does not apply to it")
    if unit == "attribute" and device.d > 1 and any(_mixes(rule) for rule in device.x_rules):
        raise ClientError(
            "a rule of enforcement lets one entry change the others, so a report of each would be about all: no limit for one"
        )
    try:
        spent = device.spent(delta, unit)
    except FormError as problem:
        raise ClientError(f"the client file is not understood: {problem}") from None
    if not spent <= epsilon * (1 + _SLACK):
        raise ClientError(f"one report spends epsilon = {spent:.6g} at delta = {delta:g}, above the limit {epsilon:g}; nothing is reported")
    return device


def _mixes(rule: Rule) -> bool:
    """Whether a rule's value of one entry depends on others: a scaling of the record, and zeros for all where one lies outside."""
    return rule.kind == "scale" or bool(getattr(rule, "reject", False))  # type: ignore[attr-defined]


def _json(source: str | Path | Mapping[str, Any]) -> Any:
    if isinstance(source, Mapping):
        return source
    import json

    with open(source, encoding="utf-8") as file:
        return json.load(file)


def _only(form: Any, names: set[str], what: str) -> Mapping[str, Any]:
    if not isinstance(form, Mapping) or set(form) != names:
        given = sorted(map(str, form)) if isinstance(form, Mapping) else form
        raise ClientError(f"{what} has the fields {', '.join(sorted(names))}, not {given!r:.200}")
    return form


def _whole(value: Any, low: int, high: int, what: str) -> int:
    if type(value) is not int or not low <= value <= high:
        raise ClientError(f"{what} is a whole number from {low} to {high}, not {value!r:.40}")
    return value


def _hash(value: Any) -> bytes:
    if not isinstance(value, str) or len(value) != 64 or value != value.lower():
        raise ClientError("the plan is named by its SHA-256, 64 hexadecimal digits")
    return bytes.fromhex(value)


def _device(data: Any) -> Device:
    form = _only(data, {"format", "version", "plan", "rounds", "record", "enforce", "protects", "draws"}, "a client file")
    if (form["format"], form["version"]) != (FORMAT, VERSION):
        raise ClientError(f"this client reads {FORMAT} {VERSION}, not {form['format']!r:.40} {form['version']!r:.40}")
    record = _only(form["record"], {"d", "y", "columns", "missing"}, "record")
    rules = _only(form["enforce"], {"x", "y"}, "enforce")
    if not all(isinstance(v, list) for v in (*rules.values(), form["draws"], record["columns"])) or not all(
        isinstance(record[word], bool) for word in ("y", "missing")
    ):
        raise ClientError("rules, draws and columns are lists, y and missing are true or false")
    d = _whole(record["d"], 1, MOST_RECORD, "d")
    columns = tuple(record["columns"])
    if not all(isinstance(c, str) for c in columns) or (columns and (len(columns) != d or len(set(columns)) != d)):
        raise ClientError("columns are names, one a coordinate")
    if form["protects"] not in ("records", "attributes"):
        raise ClientError(f"protects is records or attributes, not {form['protects']!r:.40}")
    draws = tuple(_draw(draw, d, record["y"]) for draw in form["draws"])
    if not draws:
        raise ClientError("a client file without a draw reports nothing")
    return Device(
        plan=_hash(form["plan"]),
        rounds=_whole(form["rounds"], 1, MOST_ROUNDS, "rounds"),
        d=d,
        has_y=record["y"],
        columns=columns,
        missing=record["missing"],
        protects=form["protects"],
        x_rules=tuple(rule_of(rule) for rule in rules["x"]),
        y_rules=tuple(rule_of(rule) for rule in rules["y"]),
        draws=draws,
    )


def _draw(data: Any, d: int, has_y: bool) -> DeviceDraw:
    form = _only(data, {"name", "count", "feature", "channel", "level", "noise", "coins"}, "a draw")
    name, level = form["name"], form["level"]
    if not isinstance(name, str) or type(level) not in (int, float) or not (math.isfinite(level) and level > 0):
        raise ClientError("a draw has a name and a level, a positive number")
    channel = channel_of(form["channel"], form["coins"])
    feature = feature_of(form["feature"])
    draw = DeviceDraw(name, channel, float(level), feature, _whole(form["count"], 1, MOST_RECORD, "count"))
    noise = noise_of(channel, draw.level)
    stated = _only(form["noise"], set(noise), f"the noise of {name}")
    for key, value in noise.items():
        if type(stated[key]) not in (int, float) or not abs(stated[key] - value) <= _SLACK * abs(value):
            raise ClientError(f"{name}: {key} = {stated[key]!r:.40} is stated, and the channel at this level has {value!r}")
    if form["coins"] != coins_of(channel, draw.level):
        raise ClientError(f"{name}: the stated coins are not those of the channel at this level")
    if feature.needs_y and not has_y:
        raise ClientError(f"{name} is about y, and the record has none")
    _ = draw.codec  # a channel without a wire form is refused here
    _fits(draw, d, has_y)
    return draw


def channel_of(data: Any, coins: Any) -> Channel:
    """The channel of its form. Raises ``ValueError`` (:class:`ClientError` and :class:`~dpspec.privacy.forms.FormError` are)."""
    kind = data.get("kind") if isinstance(data, Mapping) else None
    if kind == "priv-unit":
        from dpspec.client.cap import given

        return given(data, coins)
    if not isinstance(kind, str) or kind not in CHANNELS:
        raise ClientError(f"this client has no channel {kind!r:.60}")
    module, name = CHANNELS[kind]
    channel = made(getattr(importlib.import_module(f"dpspec.privacy.channels.{module}"), name), data, "channel")
    assert isinstance(channel, Channel)
    return channel


def coins_of(channel: Channel, level: float) -> dict[str, str]:
    """The coins of a channel that is nothing but coins, as whole multiples of 2^-64 in decimal digits: what a client without Python's
    fractions tosses; of PrivUnit its cap, which is found with SciPy. Empty for other channels."""
    from dpspec.privacy.noise import keep_threshold

    if channel.kind in ("one-bit-mean", "binary-response"):
        return {"keep": str(keep_threshold(level))}
    if channel.kind == "priv-unit":
        cap = channel.cap(level)  # type: ignore[attr-defined]
        return {"height": repr(float(cap.height)), "inside": str(int(cap.inside * 2**64)), "mean": repr(float(cap.mean))}
    if channel.kind == "subset-selection":
        return {"truth": str(int(channel.truth(level) * 2**64)), "width": str(channel.width(level))}  # type: ignore[attr-defined]
    return {}


class _NoCoins:
    def integers(self, high: int, size: Any) -> Any:
        return np.zeros(size, dtype=np.int64)


def _fits(draw: DeviceDraw, d: int, has_y: bool) -> None:
    """Tries the feature and the channel on the record of zeros, so that no file makes a report fail after a record was looked at."""
    from dpspec.privacy.noise import SecureNoise

    x, y = np.zeros((1, d)), np.zeros(1) if has_y else None
    told = {name: np.zeros(d) for name in draw.feature.asks}
    try:
        values = draw.feature.values(x, y, told, _NoCoins())
        shapes = [draw.codec.numbers(draw.channel.encode(v, draw.level, SecureNoise())).shape for v in values[:1]]
    except (ValueError, IndexError, TypeError) as problem:
        raise ClientError(f"{draw.name}: channel and feature do not fit records of {d} numbers ({problem})") from None
    if len(values) != draw.count or any(shape[0] != 1 for shape in shapes):
        raise ClientError(f"{draw.name}: {draw.count} reports are stated, and the feature has {len(values)}")


# --------------------------------------------------------------------------------------------------------------------- rounds


@dataclass(frozen=True, slots=True)
class RoundState:
    """What the users of one round are told: public arrays of shape (d,) by name."""

    plan: bytes
    round: int
    told: Mapping[str, Vector]


def read_state(source: str | Path | Mapping[str, Any], device: Device) -> RoundState:
    """The state of a round for a device. Raises :class:`ClientError` where it is of another plan, of a round that the plan has not, or is
    not made of the finite arrays that the plan's clients ask for. What the arrays say cannot weaken a report: a channel takes any value."""
    try:
        data = _json(source)
    except ValueError as problem:
        raise ClientError(f"the state is not understood: {problem}") from None
    form = _only(data, {"format", "version", "plan", "round", "told"}, "a state")
    if (form["format"], form["version"]) != (ROUND_FORMAT, VERSION):
        raise ClientError(f"this client reads {ROUND_FORMAT} {VERSION}, not {form['format']!r:.40} {form['version']!r:.40}")
    if _hash(form["plan"]) != device.plan:
        raise ClientError("the state is of another plan")
    at = _whole(form["round"], 1, device.rounds, "round")
    told = _only(form["told"], set(device.asks), "told")
    arrays: dict[str, Vector] = {}
    for name, value in told.items():
        try:
            array = np.array(value, dtype=np.float64)
        except (TypeError, ValueError):
            raise ClientError(f"{name} is not an array of numbers") from None
        if array.shape != (device.d,) or not np.isfinite(array).all():
            raise ClientError(f"{name} is {device.d} finite numbers")
        arrays[name] = array
    return RoundState(device.plan, at, arrays)
