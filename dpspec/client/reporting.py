"""One report: the record enforced, its public map, randomised once, as bytes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dpspec.client.device import ClientError, Device, RoundState
from dpspec.client.frame import ID_BYTES, header
from dpspec.models.features import Vector
from dpspec.numeric.norms import Entries
from dpspec.numeric.rules import enforced
from dpspec.privacy.noise import SecureNoise

if TYPE_CHECKING:
    from pathlib import Path


def report(device: Device, record: Any, *, state: RoundState | None = None, token: bytes | None = None) -> bytes:
    """The report of one record, ``device.length`` bytes. Each call is a report of its own and spends the budget again: :class:`Client`
    answers once.

    ``record``: x, shape (d,), where the plan has no y; (x, y); a mapping with ``x`` (and ``y``), or with the plan's columns (and ``y``).
    NaN, infinities and numbers outside the domain are enforced as the executor does and seen by nobody. ``state``: of the round, where
    the plan has rounds. ``token``: 16 bytes that the server gave to this user; random bytes where there are none.

    Raises :class:`ClientError` for a record of another shape, or a state or token that does not fit: before any noise is drawn.
    """
    x, y = _record(device, record)
    at, told = _told(device, state)
    if token is not None and (not isinstance(token, bytes) or len(token) != ID_BYTES):
        raise ClientError(f"a token is {ID_BYTES} bytes")
    noise = SecureNoise()
    with np.errstate(all="ignore"):
        x, y = made_true(device, x, y)
        bits = []
        for draw in device.draws:
            for value in draw.feature.values(x, y, told, noise):
                numbers = draw.codec.numbers(draw.channel.encode(value, draw.level, noise))
                bits.append(draw.codec.pack(numbers)[0])
    payload = np.packbits(np.concatenate(bits), bitorder="little").tobytes()
    return header(at, device.plan, os.urandom(ID_BYTES) if token is None else token) + payload


def made_true(device: Device, x: Vector, y: Vector | None) -> tuple[Vector, Vector | None]:
    """x (1, d) and y (1,) with the domains of the plan made true, as the executor does; ``x`` may be overwritten."""
    if device.protects == "attributes":  # one entry that is no number must not make zeros of the others, whose reports it would move
        x[~np.isfinite(x)] = np.nan if device.missing else 0.0
    x = enforced(device.x_rules, Entries(x), device.missing)[0]
    return x, None if y is None else enforced(device.y_rules, Entries(y[:, None]))[0][:, 0]


def _record(device: Device, record: Any) -> tuple[Vector, Vector | None]:
    """x (1, d) and y (1,), copies."""
    given_y: Any = None
    if isinstance(record, Mapping):
        names = set(record)
        if names == ({"x", "y"} if device.has_y else {"x"}):
            x, given_y = record["x"], record.get("y")
        elif device.columns and names == {*device.columns, *(("y",) if device.has_y else ())}:
            x, given_y = [record[name] for name in device.columns], record.get("y")
        else:
            known = " and ".join(["x", "y"] if device.has_y else ["x"])
            raise ClientError(f"a record is {known}{', or its columns by name' if device.columns else ''}")
    elif device.has_y:
        if not isinstance(record, tuple) or len(record) != 2:
            raise ClientError("a record is (x, y)")
        x, given_y = record
    else:
        x = record
    return _numbers(x, device.d, "x")[None, :], _numbers([given_y], 1, "y") if device.has_y else None


def _numbers(value: Any, size: int, what: str) -> Vector:
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ClientError(f"{what} is not made of numbers") from None
    if array.shape != (size,) and not (size == 1 and array.size == 1):
        raise ClientError(f"{what} is {size} numbers, not an array of shape {array.shape}")
    return array.reshape(size)


def _told(device: Device, state: RoundState | None) -> tuple[int, Mapping[str, Vector]]:
    if state is None:
        if device.rounds > 1 or device.asks:
            raise ClientError("the plan has rounds: report with the state of yours")
        return 1, {}
    if state.plan != device.plan or not 1 <= state.round <= device.rounds or set(state.told) != set(device.asks):
        raise ClientError("the state is not one of this plan")
    return state.round, state.told


class Client:
    """One person, who answers once.

    ``answered``: a file that says so beyond this process. It is made before a record is looked at, and a client whose file exists refuses:
    an answer that was interrupted counts as given.
    """

    def __init__(self, device: Device, *, answered: str | Path | None = None) -> None:
        self.device, self._file, self._done = device, None if answered is None else os.fspath(answered), False

    def report(self, record: Any, *, state: RoundState | None = None, token: bytes | None = None) -> bytes:
        """As :func:`report`, once. Raises :class:`ClientError` at the second call, whatever the round or the plan's state."""
        if self._done:
            raise ClientError("this client has answered; a second report would spend its budget again")
        _record(self.device, record)
        _told(self.device, state)
        if self._file is not None:
            try:
                os.close(os.open(self._file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            except FileExistsError:
                raise ClientError(f"{self._file} says that this client has answered") from None
        self._done = True
        return report(self.device, record, state=state, token=token)
