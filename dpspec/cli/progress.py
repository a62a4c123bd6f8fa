"""How far a command is: a bar on a terminal, JSON lines for machines, nothing where output is piped and nobody asked.

Lines are for studies alone: how long a run on private data takes follows its records, and a log of it would keep that.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

Update: TypeAlias = Callable[[str, int, int], None]

#: At most so many lines a second; the last one is always written.
SECONDS_A_LINE: Final = 1.0


@contextlib.contextmanager
def progress_bar(label: str, *, quiet: bool = False) -> Iterator[Update | None]:
    """Yields ``update(what, done, total)`` or None. The bar shows the share done and the time left."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None)

        def update(what: str, done: int, total: int) -> None:
            bar.update(task, description=f"{label} {what}", completed=done, total=total)

        yield update


@contextlib.contextmanager
def progress_lines(label: str) -> Iterator[Update]:
    """Yields ``update(what, done, total)``, which writes a JSON object a line to stderr: what is done of how much, the seconds since the
    start, and about how many are left (of what is done here: what was kept took no time)."""
    start, written, before = time.monotonic(), -SECONDS_A_LINE, -1

    def update(what: str, done: int, total: int) -> None:
        nonlocal written, before
        elapsed = time.monotonic() - start
        before = done - 1 if before < 0 else before
        if done < total and elapsed - written < SECONDS_A_LINE:
            return
        written = elapsed
        left = elapsed / (done - before) * (total - done)
        line = {"progress": label, "done": done, "total": total, "seconds": round(elapsed, 1), "seconds_left": round(left, 1)}
        sys.stderr.write(json.dumps(line) + "\n")
        sys.stderr.flush()

    yield update
