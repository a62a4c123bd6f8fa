"""Finding algorithms. Nothing is registered by hand: a family is a folder, an algorithm is a file in it.

The file of ``ldp-iht`` is ``dpspec/algorithms/<family>/ldp_iht.py``. Looking one up by its id imports that file alone.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from types import ModuleType

from dpspec.algorithms.card import Card

_ROOT = Path(__file__).parent
_PACKAGE = __name__.rpartition(".")[0]


class UnknownAlgorithm(LookupError):
    """No algorithm has this id. ``help`` names the nearest ones."""

    def __init__(self, id: str, known: tuple[str, ...]) -> None:
        near = difflib.get_close_matches(id, known, n=3, cutoff=0.5)
        self.id = id
        self.help = f"did you mean {' or '.join(near)}?" if near else "`dpspec algorithms` lists them all"
        super().__init__(f"there is no algorithm {id!r}")


@lru_cache(maxsize=1)
def _index() -> dict[str, str]:
    """Module name by id, from file names alone; nothing is imported."""
    found: dict[str, str] = {}
    for family in pkgutil.iter_modules([str(_ROOT)]):
        if not family.ispkg:
            continue
        for module in pkgutil.iter_modules([str(_ROOT / family.name)]):
            if module.ispkg or module.name.startswith("_"):
                continue
            id = module.name.replace("_", "-")
            if id in found:
                raise RuntimeError(f"two algorithm files have the id {id}: {found[id]} and {family.name}.{module.name}")
            found[id] = f"{_PACKAGE}.{family.name}.{module.name}"
    return dict(sorted(found.items()))


def ids() -> tuple[str, ...]:
    """The ids of all algorithms, sorted; imports none."""
    return tuple(_index())


def get(id: str) -> ModuleType:
    """The module of one algorithm. Raises :class:`UnknownAlgorithm`."""
    name = _index().get(id)
    if name is None:
        raise UnknownAlgorithm(id, ids())
    module = importlib.import_module(name)
    if module.CARD.id != id:
        raise RuntimeError(f"{name} holds the card of {module.CARD.id}; its file name says {id}")
    return module


def all_modules() -> tuple[ModuleType, ...]:
    """Every algorithm's module, by id. Imports them all."""
    return tuple(get(id) for id in ids())


def cards() -> Iterator[Card]:
    """Every card, by id."""
    for module in all_modules():
        yield module.CARD
