"""The bytes of a report: a header of 56 bytes, then the payload.

====== ====== ===================================================================================================
offset bytes  what
====== ====== ===================================================================================================
0      4      ``DPSR``
4      1      version of the format, 1
5      1      0
6      2      round, little endian, from 1; 1 where there are no rounds
8      32     SHA-256 of the plan, as the plan prints it
40     16     id of the report: the user's token where a server gives tokens out, random bytes of the device elsewhere
56     ...    payload: the draws of the plan in order, each report of a draw as many bits as its codec says
                (:mod:`dpspec.privacy.wire`), little end first, without gaps; the last byte is filled with zero bits
====== ====== ===================================================================================================

All reports of a plan are equally long. Nothing but the payload depends on the record. There is one encoding of each report: every bit of
the header and every filling bit is fixed, and integers out of their range are refused.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

MAGIC: Final = b"DPSR"
VERSION: Final = 1
HEADER: Final = struct.Struct("<4sBBH32s16s")
ID_BYTES: Final = 16
#: Bytes before the id: the same for every report of a round.
PREFIX: Final = HEADER.size - ID_BYTES
MOST_ROUNDS: Final = 2**16 - 1


@dataclass(frozen=True, slots=True)
class Header:
    round: int
    plan: bytes
    id: bytes


def header(round: int, plan: bytes, id: bytes) -> bytes:
    return HEADER.pack(MAGIC, VERSION, 0, round, plan, id)


def read(data: bytes) -> Header | None:
    """The header of a report, or None where there is none."""
    if len(data) < HEADER.size:
        return None
    magic, version, zero, round, plan, id = HEADER.unpack_from(data)
    if (magic, version, zero) != (MAGIC, VERSION, 0):
        return None
    return Header(round, plan, id)
