"""Cells of a study as Dask tasks: on a distributed cluster, or on Dask's scheduler of processes.

A task computes its cells one after the other, alone in its process and with one BLAS thread, so that results are those of the local engine
to the last bit. Workers need this version of dpspec and its libraries, and a spec's files under the same paths.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from dpspec.executor.public import forget_real
from dpspec.executor.trial import Cell, CellResult, execute
from dpspec.executor.workers import Execute, begin, cores, one_thread


@contextmanager
def dask_tasks(memory: Any = None, workers: int | None = None, scheduler: str | None = None) -> Iterator[Execute]:
    """On the ``scheduler`` of this address, else the one that Dask's configuration names (``DASK_SCHEDULER_ADDRESS``, or its files), else
    the active distributed client; without any on ``workers`` processes of this machine.

    Cells are handed over in a window, so that a scheduler holds few of them, and yielded as they finish. Raises SpecError (DP415) without
    Dask, and when the scheduler that was named does not answer: another place than the one that was asked for is no answer.
    """
    address = address_of(scheduler)
    study = uuid.uuid4().hex
    with client_of(address) as client:
        if client is None:
            with _pool(workers) as pool:
                yield lambda cells: _on_processes(cells, memory, study, pool)
        else:
            yield lambda cells: _on_cluster(cells, memory, study, client)


def address_of(scheduler: str | None) -> str | None:
    from dpspec.executor.design import refuse

    try:
        import dask
    except ImportError:
        refuse("the dask engine needs the dask package", "pip install 'dpspec[dask]', or --engine local", "DP415")
    found = scheduler or dask.config.get("scheduler-address", None)
    return None if found is None else str(found)


#: Cells handed over ahead of time, for each process or thread that computes them.
AHEAD = 4


def _on_processes(cells: Sequence[Cell], memory: Any, study: str, pool: Any) -> Iterator[tuple[int, CellResult]]:
    """Dask's scheduler of processes gives its results all at once, so it is asked for a window of cells at a time."""
    import dask

    window = AHEAD * int(pool._max_workers)
    for start in range(0, len(cells), window):
        tasks = [dask.delayed(_alone)(cell, memory, study) for cell in cells[start : start + window]]
        yield from enumerate(dask.compute(*tasks, scheduler="processes", pool=pool), start)


def _on_cluster(cells: Sequence[Cell], memory: Any, study: str, client: Any) -> Iterator[tuple[int, CellResult]]:
    from distributed import as_completed

    data = None if memory is None else client.scatter(memory, broadcast=True, hash=False)
    threads = max(1, sum(client.nthreads().values()))
    places: dict[Any, range] = {}
    took: dict[int, float] = {}
    handed, last = 0, TASK_SECONDS

    def submit() -> Iterator[Any]:
        """The next task, where a cell is left: as many cells as take about TASK_SECONDS by what the last ones of their points took (of a
        new point, by ten times what the last cell of all took), and fewer near the end, so that no worker is idle."""
        nonlocal handed
        start, expected = handed, 0.0
        most = min(MOST_A_TASK, max(1, (len(cells) - start) // (2 * threads)))
        while handed < len(cells) and handed - start < most and (expected < TASK_SECONDS or handed == start):
            expected += took.get(cells[handed].point.index, 10 * last)
            handed += 1
        if handed > start:
            future = client.submit(_several, cells[start:handed], data, study, pure=False)
            places[future] = range(start, handed)
            yield future

    try:
        finished = as_completed([future for _ in range(AHEAD * threads) for future in submit()])
        for future in finished:
            results, seconds = result_of(future)
            part = places.pop(future)
            last = seconds / len(part)
            took[cells[part[0]].point.index] = took[cells[part[-1]].point.index] = last
            for following in submit():
                finished.add(following)
            yield from zip(part, results, strict=True)
    finally:
        with suppress(Exception):  # of a scheduler that is gone
            client.cancel(list(places))


#: A task costs a scheduler and its client some ten milliseconds whatever it computes, so small cells share one; what an interrupt loses
#: stays about this much of each thread.
TASK_SECONDS = 0.5
MOST_A_TASK = 200


def result_of(future: Any) -> Any:
    """What a task gave. Raises SpecError (DP415) where the scheduler is gone, which would wait or end in a traceback otherwise."""
    from concurrent.futures import CancelledError

    from distributed.comm import CommClosedError

    from dpspec.executor.design import refuse

    try:
        if future.status != "cancelled":
            return future.result()
    except (CancelledError, CommClosedError):
        pass
    refuse(
        "the Dask scheduler was lost before all tasks were done",
        "start it again and repeat the command: what --out keeps is not computed again",
        "DP415",
    )


@contextmanager
def client_of(address: str | None) -> Iterator[Any]:
    """The active client of dask.distributed, else one of the scheduler at ``address``; None without either."""
    from dpspec.executor.design import refuse

    try:
        from distributed import Client, get_client
    except ImportError:
        if address is not None:
            refuse(f"the scheduler at {address} needs dask.distributed", "pip install 'dpspec[dask]'", "DP415")
        yield None
        return
    try:
        active = get_client() if address is None else None
    except ValueError:
        active = None
    if address is None:
        yield active
        return
    try:
        client = Client(address, timeout=ANSWERS)
    except (OSError, ValueError, TimeoutError) as error:
        refuse(
            f"the Dask scheduler at {address} does not answer ({type(error).__name__})",
            "start it with `dask scheduler`, mend --scheduler or DASK_SCHEDULER_ADDRESS, or leave it out to compute on this machine",
            "DP415",
        )
    with client:
        yield client


#: How long a scheduler has to answer, in words that Dask reads.
ANSWERS = "10s"


@contextmanager
def _pool(workers: int | None) -> Iterator[Any]:
    """Processes of this machine that are deaf to Ctrl-C and end with this one, as those of the local engine."""
    pool = begin(workers or cores())
    try:
        yield pool
    finally:
        children = list((pool._processes or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for child in children:
            child.terminate()


#: One cell at a time in a process: what trials keep between them (plans, real data, memory for records) is shared by its threads.
_LOCK = threading.Lock()
#: The study whose real data this process keeps. Files may have changed before the next one.
_STUDY = [""]


def _several(cells: Sequence[Cell], memory: Any, study: str) -> tuple[list[CellResult], float]:
    """The results of one task, and the seconds that it took."""
    start = time.perf_counter()
    return [_alone(cell, memory, study) for cell in cells], time.perf_counter() - start


def _alone(cell: Cell, memory: Any, study: str) -> CellResult:
    with _LOCK, one_thread():
        if _STUDY[0] != study:
            forget_real()
            _STUDY[0] = study
        return execute(cell, memory)
