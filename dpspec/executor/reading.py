"""The records of a run: in memory, from a file of the enforced ones, or read anew as they are asked for.

Which of these it is follows from what the algorithms' cards say that they ask of records (``Card.reads``) and from public sizes, and
changes no bit of what is released. Records that an algorithm needs all at once are refused before one is read where this machine has no
room for them.
"""

from __future__ import annotations

import math
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from dpspec.compiler.draft import Draft
from dpspec.compiler.files import base_dir
from dpspec.compiler.needs import LOADED, doubles
from dpspec.data.problems import fail
from dpspec.executor.bind import beside, enforced, missing, of_units, public_records, values
from dpspec.privacy.noise import SecureNoise
from dpspec.spec.model import CsvSource, MemorySource, SqlSource

#: Records of no more bytes of doubles than this are held in memory.
SMALL: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class Read:
    """``records`` for the algorithms. ``late``: they are read while the algorithm runs, so what is wrong with them shows before its draw
    and not yet."""

    records: Any
    late: bool = False


def read(draft: Draft, data_file: Path | None, memory: Any, *, checked: Callable[[], None] | None = None) -> Read:
    """The enforced records. ``checked``: called when they were read and nothing was wrong with them, before any draw.

    Raises SpecError: what :func:`dpspec.data.sources.load` does, and DP526 where they do not fit into memory, or its file on the disk.
    """
    found = _out_of_core(draft, data_file, memory, checked)
    if found is None:
        _room(draft, data_file, memory)
        found = Read(_loaded(draft, data_file, memory))
    if not found.late and checked is not None:
        checked()
    return found


def _loaded(draft: Draft, data_file: Path | None, memory: Any) -> Any:
    from dpspec.data.sources import load

    base = base_dir(draft.parsed.path)
    raw = load(
        draft.analysis.data,
        data_file=data_file,
        memory=memory,
        base_dir=base,
        values=values(draft),
        missing=missing(draft),
        beside=beside(draft),
    )
    records, _ = enforced(draft, public_records(draft, raw, base))
    return of_units(draft, records, SecureNoise())


def _out_of_core(draft: Draft, data_file: Path | None, memory: Any, checked: Callable[[], None] | None) -> Read | None:
    from dpspec.data.stream import Streamed, stored

    words = {r.module.CARD.reads for r in draft.releases}
    if "whole" in words:
        return None
    source = source_of(draft, data_file, memory)
    if source is None:
        return None
    said, row = int(draft.facts["n"]), 8 * (source.d + int(source.has_y))
    if row * max(said, sum(source.counts or ())) <= SMALL and not source.once:
        return None
    first = draft.releases[0]
    alone = len(draft.releases) == 1 and first.release.part is None and first.problem.model == "central"
    if words == {"sums"} and alone and not source.once and source.rows() is not None:
        return Read(Streamed(source, checked), late=True)
    folder = tempfile.gettempdir()
    free, size = shutil.disk_usage(folder).free, row * said  # by the public n alone: under add-remove the files tell more than may show
    if size > free:
        fail(
            "DP526",
            f"the enforced records take {_size(size)} in a file, {folder} has {_size(free)} free",
            "set TMPDIR to a folder of a larger disk",
        )
    return Read(stored(source, folder))


def source_of(draft: Draft, data_file: Path | None, memory: Any) -> Any:
    """The source of the records as one that is read in chunks (:class:`dpspec.data.stream.Source`); None where it is read whole."""
    from dpspec.data import sql
    from dpspec.data.files import local
    from dpspec.data.sources import reading_of
    from dpspec.data.stream import of_batches, of_file, of_memory

    data = draft.analysis.data
    if data.identified or any(e.how == "auto" for e in data.encode):  # which rows count, and how, is found out by looking at all of them
        return None
    if data.n is None or beside(draft) or (not isinstance(data.source, (CsvSource, MemorySource, SqlSource)) and data_file is None):
        return None
    reading = reading_of(data, values(draft), missing=missing(draft))
    if reading.long:
        return None
    base = base_dir(draft.parsed.path)

    def enforce(records: Any, fresh: bool) -> Any:
        return enforced(draft, records, fresh)[0]

    if memory is not None:
        source = of_memory(memory, reading, enforce)
    elif data_file is not None:
        source = of_file(local(data_file), reading, enforce)
    elif isinstance(data.source, CsvSource):
        source = of_file(local(data.source.path, base), reading, enforce)
    elif isinstance(data.source, SqlSource):
        source = of_batches(sql.opened(data.source, base, reading.wanted), reading, enforce)
    else:
        return None
    if source is None or draft.analysis.privacy.public is None:
        return source
    return replace(source, public_x=_public(draft, source.d, source.has_y, base))


def _public(draft: Draft, d: int, has_y: bool, base: Path) -> Any:
    """The public records, enforced like the private ones."""
    import numpy as np

    from dpspec.data.records import Records
    from dpspec.data.sources import Raw

    none = Records(np.empty((0, d)), np.empty(0) if has_y else None)
    return enforced(draft, public_records(draft, Raw(none, (), ""), base))[0].public_x


# --------------------------------------------------------------------------------------------------------------------- room


def _room(draft: Draft, data_file: Path | None, memory: Any) -> None:
    """Refuse records that have to be in memory all at once where there is no room for them. Decided by the public n and d alone."""
    if memory is not None or (data_file is None and not isinstance(draft.analysis.data.source, (CsvSource, SqlSource))):
        return
    needed, room = LOADED * doubles(draft.facts), available()
    if room is not None and needed > room:
        names = ", ".join(dict.fromkeys(r.module.CARD.id for r in draft.releases))
        fail(
            "DP526",
            f"{names} holds all records in memory: {_size(needed)} while they are read, this process has {_size(room)}",
            "a machine with more memory, or an algorithm that reads in passes (dpspec algorithms ID says what one reads)",
        )


def available() -> int | None:
    """Bytes that this process may still take: of the machine, its control group, and its own limits; None where nothing says so."""
    found = [*_machine(), *_group(), *_limits()]
    return max(min(found), 0) if found else None


def _machine() -> list[int]:
    try:
        with open("/proc/meminfo", encoding="ascii") as f:
            lines: Mapping[str, str] = dict(line.split(":", 1) for line in f if ":" in line)
        return [int(lines["MemAvailable"].split()[0]) * 1024]
    except (OSError, KeyError, ValueError):
        pass
    try:
        return [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    except (OSError, ValueError, AttributeError):
        return []


def _group() -> list[int]:
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        try:
            return [int(Path(limit).read_text()) - int(Path(used).read_text())]
        except (OSError, ValueError):  # "max"
            continue
    return []


def _limits() -> list[int]:
    try:
        import resource
    except ImportError:
        return []
    soft = resource.getrlimit(resource.RLIMIT_AS)[0]
    if soft == resource.RLIM_INFINITY:
        return []
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return [soft]
    return [soft - pages * os.sysconf("SC_PAGE_SIZE")]


def _size(bytes_: float) -> str:
    power = min(int(math.log(max(bytes_, 1), 1000)), 5)
    return f"{bytes_ / 1000**power:.3g} {('B', 'kB', 'MB', 'GB', 'TB', 'PB')[power]}"
