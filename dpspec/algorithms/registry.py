"""Finding algorithms. Nothing is registered by hand: a family is a folder, an algorithm is a file in it.

The file of ``ldp-iht`` is ``dpspec/algorithms/<family>/ldp_iht.py``. Looking one up by its id imports that file alone.

Other packages bring algorithms by entry points of the group ``dpspec.algorithms``: the name is the id, the value a module as those here.
They are code that sees the records, so a spec has to name them: ``by auto`` chooses among dpspec's own, none takes the id of one of those,
and a plan states their :func:`origin`.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import NoReturn

from dpspec.algorithms.card import Card
from dpspec.spec.diagnostics import Diagnostic, SpecError

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


#: The group of entry points.
GROUP = "dpspec.algorithms"
#: What a module of another package has to hold.
NEEDED = ("CARD", "accepts", "schedule", "run")


@dataclass(frozen=True, slots=True)
class Other:
    """An algorithm of another package: its id, its module, and the package with its version."""

    id: str
    module: str
    origin: str


@lru_cache(maxsize=1)
def others() -> dict[str, Other]:
    """The algorithms that other packages bring, by id; nothing of theirs is imported. Raises SpecError (DP421) where an id is taken."""
    from importlib.metadata import entry_points

    found: dict[str, Other] = {}
    for point in entry_points(group=GROUP):
        origin = f"{point.dist.name} {point.dist.version}" if point.dist is not None else point.value
        taken = "dpspec" if point.name in _index() else found[point.name].origin if point.name in found else ""
        if taken == origin:  # one distribution that stands twice on the path
            continue
        if taken:
            _unusable(point.name, origin, f"{taken} has an algorithm of this id", "uninstall one of the packages")
        found[point.name] = Other(point.name, point.value, origin)
    return dict(sorted(found.items()))


def _unusable(id: str, origin: str, why: str, help: str) -> NoReturn:
    raise SpecError([Diagnostic("DP421", "error", f"the algorithm {id!r} of {origin} cannot be used: {why}", help)])


def _of_another(other: Other) -> ModuleType:
    module, why = None, ""
    try:
        module = importlib.import_module(other.module)
    except Exception as error:  # whatever the package does as it is imported
        why = f"its module does not import ({type(error).__name__}: {error})"
    if module is not None:
        missing = [name for name in NEEDED if not hasattr(module, name)]
        card = getattr(module, "CARD", None)
        if missing:
            why = f"its module lacks {', '.join(missing)}"
        elif not isinstance(card, Card):
            why = "its CARD is no dpspec.algorithms.card.Card"
        elif card.id != other.id:
            why = f"its card says {card.id!r}"
        elif card.role != "algorithm":
            why = f"its card has the role {card.role}"
    if module is None or why:
        _unusable(other.id, other.origin, why, "ask whoever wrote the package, or uninstall it")
    return module


def origin(module: ModuleType) -> str:
    """The package and version that an algorithm is of; empty for dpspec's own."""
    if module.__name__.startswith(f"{_PACKAGE}."):
        return ""
    return next((o.origin for o in others().values() if o.module == module.__name__), module.__name__)


def ids() -> tuple[str, ...]:
    """The ids of all algorithms, those of other packages included, sorted; imports none."""
    return tuple(sorted({*_index(), *others()}))


def get(id: str) -> ModuleType:
    """The module of one algorithm. Raises :class:`UnknownAlgorithm`, and SpecError (DP421) for one of another package that is none."""
    name = _index().get(id)
    if name is None:
        other = others().get(id)
        if other is None:
            raise UnknownAlgorithm(id, ids())
        return _of_another(other)
    module = importlib.import_module(name)
    if module.CARD.id != id:
        raise RuntimeError(f"{name} holds the card of {module.CARD.id}; its file name says {id}")
    return module


def all_modules() -> tuple[ModuleType, ...]:
    """Every module of dpspec's own, by id. Imports them all."""
    return tuple(get(id) for id in _index())


def other_modules() -> tuple[ModuleType, ...]:
    """Every module of another package, by id. Imports them all."""
    return tuple(get(id) for id in others())


def cards() -> Iterator[Card]:
    """Every card, dpspec's own before those of other packages, by id."""
    for module in (*all_modules(), *other_modules()):
        yield module.CARD
