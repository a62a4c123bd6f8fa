"""A progress bar on a terminal; nothing where output is piped."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def progress_bar(label: str, *, quiet: bool = False) -> Iterator[Callable[[str, int, int], None] | None]:
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
