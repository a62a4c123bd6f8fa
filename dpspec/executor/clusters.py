"""Cells of a study as Dask tasks: on a distributed cluster, or on Dask's scheduler of processes.

A task computes one cell, alone in its process and with one BLAS thread, so that results are those of the local engine to the last bit.
Workers need this version of dpspec and its libraries, and a spec's files under the same paths.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dpspec.executor.trial import Cell, CellResult, execute, forget_real
from dpspec.executor.workers import Execute, one_thread


@contextmanager
def dask_tasks(memory: Any = None, workers: int | None = None) -> Iterator[Execute]:
    """On the active distributed client, or the one that DASK_SCHEDULER_ADDRESS names; without either on ``workers`` processes.

    Raises SpecError (DP415) without Dask.
    """
    from dpspec.executor.design import refuse

    try:
        import dask
    except ImportError:
        refuse("the dask engine needs the dask package", "pip install 'dpspec[dask]', or --engine local", "DP415")
    study = uuid.uuid4().hex
    client = _client()
    if client is None:

        def on_processes(cells: Sequence[Cell]) -> Iterator[tuple[int, CellResult]]:
            tasks = [dask.delayed(_alone)(cell, memory, study) for cell in cells]
            yield from enumerate(dask.compute(*tasks, scheduler="processes", num_workers=workers))

        yield on_processes
        return

    def on_cluster(cells: Sequence[Cell]) -> Iterator[tuple[int, CellResult]]:
        from distributed import as_completed

        data = None if memory is None else client.scatter(memory, broadcast=True, hash=False)
        places = {client.submit(_alone, cell, data, study, pure=False): i for i, cell in enumerate(cells)}
        try:
            for future in as_completed(list(places)):
                yield places[future], future.result()
        finally:
            client.cancel(list(places))

    yield on_cluster


def _client() -> Any:
    """The active client of dask.distributed, None when there is none or the package is missing."""
    try:
        from distributed import get_client
    except ImportError:
        return None
    try:
        return get_client()
    except ValueError:  # no client, and no address in Dask's configuration
        return None


#: One cell at a time in a process: what trials keep between them (plans, real data, memory for records) is shared by its threads.
_LOCK = threading.Lock()
#: The study whose real data this process keeps. Files may have changed before the next one.
_STUDY = [""]


def _alone(cell: Cell, memory: Any, study: str) -> CellResult:
    with _LOCK, one_thread():
        if _STUDY[0] != study:
            forget_real()
            _STUDY[0] = study
        return execute(cell, memory)
