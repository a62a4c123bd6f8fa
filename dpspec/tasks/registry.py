"""Finding the task of a release. Nothing is registered by hand: a kind of question is a file of this folder that exports ``TASK``, and a
file of ``dpspec/measures/`` may add measures to tasks by name (``FOR``)."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from dpspec import measures
from dpspec.tasks.protocol import Task

_PACKAGE = __name__.rpartition(".")[0]
_OTHERS = ("protocol", "registry", "measure")


@lru_cache(maxsize=1)
def tasks() -> tuple[Task, ...]:
    """Every task, by name."""
    found = []
    further = list(_modules(measures.__name__, Path(measures.__file__).parent))
    for name, module in _modules(_PACKAGE, Path(__file__).parent):
        task: Task = module.TASK
        if task.name.replace("-", "_") != name:
            raise RuntimeError(f"dpspec/tasks/{name}.py holds the task {task.name}")
        added = tuple(m for _, other in further for m in getattr(other, "FOR", {}).get(task.name, ()))
        found.append(replace(task, measures=(*task.measures, *added)) if added else task)
    return tuple(found)


def _modules(package: str, folder: Path) -> Iterator[tuple[str, ModuleType]]:
    for found in pkgutil.iter_modules([str(folder)]):
        if not found.name.startswith("_") and found.name not in _OTHERS:
            yield found.name, importlib.import_module(f"{package}.{found.name}")


def of(node: Any) -> Task:
    """The task of a node of the language; one that nothing can measure where no file serves it."""
    serving = [task for task in tasks() if task.serves(node)]
    if len(serving) > 1:
        raise RuntimeError(f"{' and '.join(t.name for t in serving)} both serve {node.kind}")
    return serving[0] if serving else _unserved(node.kind)


@lru_cache(maxsize=16)
def _unserved(kind: str) -> Task:
    return Task(name=kind, serves=lambda node: False, words=(kind,), trivial=lambda problem: None)
