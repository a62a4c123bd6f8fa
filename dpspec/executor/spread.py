"""A run whose sums over the records are computed by Dask workers.

A task reads the rows of consecutive blocks from the files, encodes and enforces them, and gives back the sum of each block: what the
algorithm adds. This process adds them in the order of the blocks, as it does when it reads the records itself, so the value that reaches
the meter is the same, whichever worker computed what, and how often: a task is a function of the files and of what is public or
released, so one that is lost with its worker is computed again. (A block's sum is computed with one BLAS thread; to the last bit it is
that of a run in one process with one.) Noise, ledger and record are this process' alone.

Workers need this version of dpspec and the files under the same path. What is wrong with the records comes back as findings, and a task
that fails says nothing: a worker's log is no place for what a record holds.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from dpspec.compiler.draft import Draft
from dpspec.compiler.passes import compile_draft
from dpspec.data.records import Block
from dpspec.data.sources import counted_as
from dpspec.executor.clusters import address_of, client_of, result_of
from dpspec.executor.design import refuse
from dpspec.executor.reading import Read, source_of
from dpspec.executor.workers import cores, one_thread
from dpspec.lang.source import Parsed
from dpspec.spec.diagnostics import Diagnostic, SpecError

#: Tasks handed over ahead of time for each thread of a worker, and the rows of one: at least and at most.
AHEAD: Final = 2
LEAST: Final = 1 << 16
MOST: Final = 1 << 20

#: What a worker keeps of the last run: the key of its source, and the source.
_KEPT: list[Any] = []


class Spread:
    """Records in files that workers read. ``each`` is what algorithms ask (:func:`dpspec.models.rows.each`); there is nothing else."""

    def __init__(self, source: Any, parsed: Parsed, path: Path | None, client: Any, checked: Callable[[], None] | None) -> None:
        self.d, self.has_y, self.public_x, self.mapped = source.d, source.has_y, source.public_x, source.mapped
        self._source, self._parsed, self._path, self._client = source, parsed, path, client
        self._checked, self._complete = checked, False

    @property
    def sparse(self) -> bool:
        return False

    @property
    def n(self) -> int:
        return sum(self._source.counts)

    def blocks(self, size: int = 0) -> Iterator[Block]:
        raise TypeError("the records are with the workers")

    def each(self, rows: int, part: Callable[[Any, Any], Any]) -> Iterator[Any]:
        """``part`` of the blocks of ``rows`` records, in order. Raises SpecError at the end of a pass over data that contradict it."""
        import cloudpickle

        body = cloudpickle.dumps(part)
        threads = max(1, sum(self._client.nthreads().values()))
        step = max(LEAST, min(MOST, -(-self.n // (4 * threads))))
        step = -(-step // rows) * rows
        starts = deque(range(0, self.n, step))
        waiting: deque[Any] = deque()
        found: dict[str, Diagnostic] = {}
        failed = False
        try:
            while starts or waiting:
                while starts and len(waiting) < AHEAD * threads:
                    a = starts.popleft()
                    task = (self._parsed, self._path, a, min(a + step, self.n), rows, body)
                    waiting.append(self._client.submit(_sums, *task, pure=False))
                future = waiting.popleft()
                parts, wrong, lost = result_of(future)
                future.release()
                failed |= lost
                for problem in wrong:
                    found.setdefault(problem.message, problem)
                if not found and not failed:
                    yield from parts
        finally:
            with suppress(Exception):  # of a scheduler that is gone
                self._client.cancel(list(waiting))
        if found:
            raise SpecError(list(found.values()), path=self._source.where)
        if failed:
            raise RuntimeError("a task failed")
        if not self._complete:
            self._complete = True
            if self._checked is not None:
                self._checked()


def _sums(parsed: Parsed, path: Path | None, start: int, stop: int, rows: int, body: bytes) -> tuple[list[Any], list[Diagnostic], bool]:
    """In a worker: the part of each block, what is wrong with the records, and whether it failed."""
    import numpy as np

    try:
        import cloudpickle

        with one_thread(), warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            part = cloudpickle.loads(body)
            blocks, found = _source(parsed, path).part(start, stop, rows)
            made = [part(x, y) for x, y in blocks]
            return ([], found, False) if found else (made, [], False)
    except SpecError as error:
        return [], list(error.diagnostics), False
    except Exception:  # its words may hold a record's
        return [], [], True


def _source(parsed: Parsed, path: Path | None) -> Any:
    key = (parsed.text, str(parsed.path), str(path))
    if not _KEPT or _KEPT[0] != key:
        draft: Any = compile_draft(parsed)  # the client's plan has every stage, so has this
        _KEPT[:] = [key, source_of(draft, path, None)]
    return _KEPT[1]


@contextmanager
def spread(
    draft: Draft, data_file: Path | None, memory: Any, scheduler: str | None, workers: int | None, checked: Callable[[], None] | None
) -> Iterator[Read]:
    """The records of a run on workers: of the ``scheduler``, of Dask's configuration, of the active client, or of a cluster of
    ``workers`` processes on this machine that ends with the run.

    Raises SpecError: DP416 where a release or the source cannot be spread, DP415 without Dask or where the scheduler does not answer, and
    what reading the records raises.
    """
    if memory is not None:
        refuse("workers read files, and the records were handed over in memory", "write them to Parquet files, or --engine local")
    for r in draft.releases:
        card = r.module.CARD
        if not card.spread or r.release.part is not None:
            why = f"release {r.release.name!r} is a part of the records" if r.release.part is not None else f"{card.id} does not"
            refuse(f"--engine dask is for algorithms that add sums over blocks: {why}", "--engine local")
    source = source_of(draft, data_file, None)
    if source is None or source.counts is None or source.batches is None:
        refuse("workers reach rows of Parquet and Arrow files, and this source is another", "write it to Parquet files, or --engine local")
    if not source.reading.uncounted:
        counted_as(sum(source.counts), source.reading.size, source.where)
    parsed: Parsed = draft.parsed
    with _workers(address_of(scheduler), workers) as client:
        yield Read(Spread(source, parsed, data_file, client, checked), late=True)


@contextmanager
def _workers(address: str | None, workers: int | None) -> Iterator[Any]:
    with client_of(address) as client:
        if client is not None:
            yield client
            return
        from distributed import Client, LocalCluster

        with (
            LocalCluster(n_workers=workers or cores(), threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
            Client(cluster) as own,
        ):
            yield own
