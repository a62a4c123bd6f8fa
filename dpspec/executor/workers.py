"""Cells of a study on all cores: this process and others like it, one BLAS thread each.

The results do not depend on how many processes there are, because a cell is a pure function of its description and because every
process, this one included, computes with one BLAS thread (sums are grouped differently by several).
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from dpspec.executor.trial import Cell, CellResult, execute

#: Yields (position in the sequence, result) as cells finish.
Execute: TypeAlias = Callable[[Sequence[Cell]], Iterator[tuple[int, CellResult]]]

#: A process costs about a second to start; it is started when this much work (seconds, one core) is left.
WORTH_A_PROCESS = 3.0
#: Cells handed to each process ahead of time.
AHEAD = 2


def cores() -> int:
    """How many this process may use: of a machine, a container or a batch system that gives it some."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def alone(memory: Any = None) -> Iterator[Execute]:
    """Everything in this process."""

    def run(cells: Sequence[Cell]) -> Iterator[tuple[int, CellResult]]:
        for i, cell in enumerate(cells):
            yield i, execute(cell, memory)

    with one_thread():
        yield run


@contextmanager
def processes(count: int, *, at_once: bool = False) -> Iterator[Execute]:
    """This process and ``count - 1`` others. The others are started ``at_once``, or when the first cells have shown that it pays.

    On the way out (Ctrl-C included) the others are ended; cells that they had not finished are lost, finished ones were yielded.
    A process that dies (killed, out of memory, or a script without ``if __name__ == "__main__"``) leaves its cells to this one.
    """
    before = set(multiprocessing.active_children())
    pool: Any = None
    spent, finished = 0.0, 0

    def run(cells: Sequence[Cell]) -> Iterator[tuple[int, CellResult]]:
        nonlocal pool, spent, finished
        from concurrent.futures import FIRST_COMPLETED, Future, wait
        from concurrent.futures.process import BrokenProcessPool

        waiting = deque(range(len(cells)))
        running: dict[Future[CellResult], int] = {}
        broken = False
        while waiting or running:
            pays = at_once or (finished > 0 and spent / finished * len(waiting) > WORTH_A_PROCESS)
            if pool is None and pays and not broken and len(waiting) > 1:
                pool = begin(count - 1)
            while pool is not None and len(waiting) > 1 and len(running) < AHEAD * (count - 1):
                i = waiting.popleft()
                try:
                    running[pool.submit(execute, cells[i])] = i
                except BrokenProcessPool:
                    waiting.appendleft(i)
                    pool, broken = None, True
            if waiting:
                i, start = waiting.popleft(), time.perf_counter()
                yield i, execute(cells[i])
                spent, finished = spent + time.perf_counter() - start, finished + 1
            else:
                for future in list(running):  # nothing left here: take back what no process has begun
                    if future.cancel():
                        waiting.append(running.pop(future))
                if waiting:
                    continue
                wait(running, return_when=FIRST_COMPLETED)
            for future in [f for f in running if f.done()]:
                i = running.pop(future)
                try:
                    yield i, future.result()
                except BrokenProcessPool:
                    waiting.append(i)
                    pool, broken = None, True

    try:
        with one_thread():
            yield run
    finally:
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in set(multiprocessing.active_children()) - before:
                child.terminate()


def begin(count: int) -> Any:
    """``count`` processes, spawned, with one BLAS thread each."""
    from concurrent.futures import ProcessPoolExecutor

    context = multiprocessing.get_context("spawn")
    with _small_environment(), _deaf_to_ctrl_c():
        pool = ProcessPoolExecutor(count, mp_context=context, initializer=_begin)
        for _ in range(count):  # the processes start with the first tasks; let them inherit the environment of this moment
            pool.submit(_nothing)
    return pool


def _nothing() -> None:
    return None


@contextmanager
def _small_environment() -> Iterator[None]:
    """BLAS libraries read these as they are loaded; the threads they would start cost memory and time."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    old = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name, value in old.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """Processes inherit it, so that Ctrl-C, which a terminal sends to all of them, is the parent's alone to handle."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    old = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, old)


def _begin() -> None:
    """In a new process. Ctrl-C is the parent's to handle (also where the thread that starts us could not say so); when the parent is
    gone, even by kill -9, so is this process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def one_thread() -> Iterator[None]:
    with _libraries().limit(limits=1):
        yield


#: How many modules were imported when the BLAS libraries of this process were looked for, and what was found.
_FOUND: list[tuple[int, Any]] = []


def _libraries() -> Any:
    """They are looked for again only where modules were imported since: reading what a process has mapped takes over a millisecond, as long
    as half a small cell."""
    from threadpoolctl import ThreadpoolController

    if not _FOUND or _FOUND[0][0] != len(sys.modules):
        _FOUND[:] = [(len(sys.modules), ThreadpoolController())]
    return _FOUND[0][1]
