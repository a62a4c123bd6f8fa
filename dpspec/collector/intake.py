"""Reports as they arrive: which bytes are reports of the plan, and what they add.

Nothing that a sender does makes a reader fail: bytes are a report or they are not, and what is refused is counted by its reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np

from dpspec.client.device import Device, DeviceDraw
from dpspec.client.frame import HEADER, MAGIC, PREFIX, VERSION
from dpspec.privacy.noise import Integers
from dpspec.privacy.wire import Bytes, Tally, whole

#: Bytes that are read at a time.
CHUNK: Final = 1 << 20
#: Bytes of payload that are decoded at a time, about.
_NUMBERS: Final = 1 << 22


@dataclass(frozen=True, slots=True)
class Reports:
    """Valid reports of one round. ``numbers``: of each draw, (users, count, entries)."""

    round: int
    ids: Bytes
    numbers: tuple[Integers, ...]

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, kept: Any) -> Reports:
        return Reports(self.round, self.ids[kept], tuple(n[kept] for n in self.numbers))


def block_rows(device: Device) -> int:
    """Reports that are decoded at a time: a function of their length, so that memory is bounded."""
    return int(max(1, min(1 << 14, _NUMBERS // max(1, device.payload_bytes))))


def decode(device: Device, rows: Bytes, round: int, refused: Counter[str]) -> Reports:
    """The valid reports of ``round`` among ``rows``, (users, device.length) bytes, in their order; the others are counted."""
    head = rows[:, : HEADER.size]
    form = head[:, :6] == np.frombuffer(MAGIC + bytes([VERSION, 0]), dtype=np.uint8)
    good = form.all(axis=1)
    refused["malformed"] += int((~good).sum())
    planned = (head[:, 8:PREFIX] == np.frombuffer(device.plan, dtype=np.uint8)).all(axis=1)
    refused["another plan"] += int((good & ~planned).sum())
    good &= planned
    at = head[:, 6].astype(np.int64) + 256 * head[:, 7].astype(np.int64)
    refused["another round"] += int((good & (at != round)).sum())
    good &= at == round
    rows = rows[good]
    payload = rows[:, HEADER.size :]
    valid, start, numbers = np.ones(len(rows), dtype=bool), 0, []
    for draw in device.draws:
        found, fine = _unpacked(draw, payload, start)
        numbers.append(found.reshape(len(rows), draw.count, found.shape[1]))
        valid &= fine.reshape(len(rows), draw.count).all(axis=1)
        start += draw.bits
    if start % 8:  # the filling bits of the last byte
        valid &= payload[:, -1] >> (start % 8) == 0
    refused["malformed"] += int((~valid).sum())
    return Reports(round, rows[:, PREFIX : HEADER.size].copy(), tuple(numbers)).take(valid)


def _unpacked(draw: DeviceDraw, payload: Bytes, start: int) -> tuple[Integers, Any]:
    """The integers of one draw, whose bits begin at ``start``, a row a report, and which are valid. Whole bytes are read as they are."""
    rows = len(payload) * draw.count
    each = getattr(draw.codec, "each", 0)
    if each and start % 8 == 0:
        raw = payload[:, start // 8 : (start + draw.bits) // 8].reshape(rows, draw.codec.bits // each, each // 8)
        checked: tuple[Integers, Any] = draw.codec.checked(whole(raw))  # type: ignore[attr-defined]
        return checked
    first, last = start // 8, (start + draw.bits + 7) // 8
    bits = np.unpackbits(payload[:, first:last], axis=1, bitorder="little").astype(bool)[:, start - 8 * first :][:, : draw.bits]
    return draw.codec.unpack(bits.reshape(rows, draw.codec.bits))


def add(device: Device, tallies: dict[tuple[int, int], Tally], reports: Reports) -> None:
    """``tallies`` by (draw, its number among the draw's reports of a user)."""
    for i, draw in enumerate(device.draws):
        for k in range(draw.count):
            tallies[i, k].add(reports.numbers[i][:, k])


def empty(device: Device) -> dict[tuple[int, int], Tally]:
    return {(i, k): Tally.empty(draw.codec) for i, draw in enumerate(device.draws) for k in range(draw.count)}


# --------------------------------------------------------------------------------------------------------------------- framing


def split(device: Device, pieces: Iterable[bytes], refused: Counter[str]) -> Iterator[Bytes]:
    """Rows of possible reports from a stream of concatenated ones, in blocks. Where a report does not begin as one, the stream goes on at
    the next beginning of a report of this plan; what lies between is one malformed report."""
    length, most = device.length, block_rows(device)
    mark = MAGIC + bytes([VERSION, 0])
    held = b""
    lost = False
    for piece in pieces:
        held += piece
        while len(held) >= length:
            whole = len(held) // length
            rows = np.frombuffer(held, dtype=np.uint8, count=min(whole, most) * length).reshape(-1, length)
            begins = (rows[:, : len(mark)] == np.frombuffer(mark, dtype=np.uint8)).all(axis=1)
            run = len(rows) if begins.all() else int(np.argmin(begins))
            if run:
                yield rows[:run]
                held, lost = held[run * length :], False
                continue
            at = held.find(mark, 1)
            if not lost:
                refused["malformed"] += 1
                lost = True
            held = held[at:] if at >= 0 else held[-(len(mark) - 1) :]
    if held and not lost:
        refused["malformed"] += 1


def pieces(stream: BinaryIO) -> Iterator[bytes]:
    while piece := stream.read(CHUNK):
        yield piece


def files(paths: Iterable[Path]) -> Iterator[Path]:
    """The files of a list of files and folders (every file below), in order of their names."""
    for path in paths:
        if path.is_dir():
            yield from sorted(p for p in path.rglob("*") if p.is_file())
        else:
            yield path
