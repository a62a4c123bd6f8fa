"""The event tree: what an analysis releases, as data.

A schedule is a tree of draws. A *draw* names a mechanism and the sensitivity of exactly the object that is released, under the
neighbouring relation of the analysis; it carries no noise scale. Calibration (:mod:`dpspec.privacy.calibrate`) adds the level; the
meter (:mod:`dpspec.privacy.meter`) checks every draw of a run against the result; accountants read the same tree.

Composition is written where it happens:

* :class:`Sequence`: the parts see the same records (adaptive composition);
* :class:`Repeat`: one body, ``count`` times on the same records (adaptive composition);
* :class:`Disjoint`: ``count`` bodies on disjoint sets of records fixed before any record is read (parallel composition: under
  replace-one with a public assignment of records to parts, one record touches one part, so the guarantee is that of one body);
* :class:`Attributes`: ``count`` bodies, each on one attribute of every record. Where the unit is one attribute of one record, neighbours
  differ in what one of them reads: parallel composition as well. It stands in no schedule that protects whole records;
* :class:`Parallel`: the same with another body on each set, so the guarantee is the pointwise worst of the bodies' (:func:`worlds`);
* :class:`Sampled`: the body sees a random subset of the records, with the sampler that the executor really runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement, product
from typing import Literal, TypeAlias

from dpspec.privacy.mechanism import Family as Family
from dpspec.privacy.mechanism import Mechanism as Mechanism
from dpspec.privacy.mechanism import Norm as Norm


@dataclass(frozen=True, slots=True)
class Draw:
    """One release. ``per`` is ``run`` (a trusted curator draws once) or ``user`` (every user draws, on its own record).

    ``weight`` is the share of the common budget: levels are set so that draw i spends mu_i^2 (Gaussian) or epsilon_i (pure)
    proportional to its weight.
    """

    name: str
    mechanism: Mechanism
    per: Literal["run", "user"] = "run"
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Sequence:
    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    body: Tree
    count: int


@dataclass(frozen=True, slots=True)
class Disjoint:
    body: Tree
    count: int


@dataclass(frozen=True, slots=True)
class Attributes(Disjoint):
    """Accounted as :class:`Disjoint` in every accountant: one attribute lies in one part. Each user draws in all of them."""


@dataclass(frozen=True, slots=True)
class Parallel:
    """One body a set of records, the sets being disjoint and fixed before any record is read. Each use of a ``Parallel`` may cut the
    records anew (in public), so inside a ``Repeat`` a record may meet one body in one use and another one in the next."""

    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Sampled:
    """``poisson``: each record joins with probability ``rate``, independently, at every use. ``fixed``: a uniform subset of exactly
    ``rate * n`` records, drawn afresh at every use (replace-one). ``shuffle``: one random permutation cut into batches, an epoch:
    accounted as disjoint parts within an epoch."""

    body: Tree
    method: Literal["poisson", "fixed"]
    rate: float
    n: int


Tree: TypeAlias = Draw | Sequence | Repeat | Disjoint | Parallel | Sampled


@dataclass(frozen=True, slots=True)
class Leaf:
    """A draw of the tree with what stands above it: ``count`` times on one record's worst case, ``total`` times in all."""

    draw: Draw
    count: int
    total: int
    sampling: Sampled | None
    each: int = 1  # how often a user draws: ``count``, and as often for every attribute


def leaves(tree: Tree) -> Iterator[Leaf]:
    """Every draw, with how often one record meets it (``Disjoint`` counts once) and how often it happens in a run."""
    yield from _leaves(tree, 1, 1, None, 1)


def _leaves(tree: Tree, count: int, total: int, sampling: Sampled | None, attributes: int) -> Iterator[Leaf]:
    match tree:
        case Draw():
            yield Leaf(tree, count, total, sampling, count * attributes)
        case Sequence(parts=parts) | Parallel(parts=parts):
            for part in parts:
                yield from _leaves(part, count, total, sampling, attributes)
        case Repeat(body=body, count=k):
            yield from _leaves(body, count * k, total * k, sampling, attributes)
        case Disjoint(body=body, count=k):
            yield from _leaves(body, count, total * k, sampling, attributes * (k if isinstance(tree, Attributes) else 1))
        case Sampled(body=body):
            if sampling is not None:
                raise ValueError("sampling inside sampling has no accountant; flatten the schedule")
            yield from _leaves(body, count, total, tree, attributes)


def draws(tree: Tree) -> dict[str, Leaf]:
    """The draws by name. Names are unique in a schedule."""
    found: dict[str, Leaf] = {}
    for leaf in leaves(tree):
        if leaf.draw.name in found:
            raise ValueError(f"two draws are named {leaf.draw.name!r}")
        found[leaf.draw.name] = leaf
    return found


# ------------------------------------------------------------------------------------------------------------------- parts

#: More ways for one record to pass through the parts of a schedule than this have no accountant.
MOST_WORLDS = 128


class TooManyWorlds(ValueError):
    """A schedule whose parts can be met in more than :data:`MOST_WORLDS` ways."""


def has_attributes(tree: Tree) -> bool:
    """Whether an :class:`Attributes` stands in the tree."""
    match tree:
        case Draw():
            return False
        case Sequence(parts=parts) | Parallel(parts=parts):
            return any(has_attributes(part) for part in parts)
        case _:
            return isinstance(tree, Attributes) or has_attributes(tree.body)


def has_parts(tree: Tree) -> bool:
    """Whether a :class:`Parallel` stands in the tree."""
    match tree:
        case Draw():
            return False
        case Sequence(parts=parts):
            return any(has_parts(part) for part in parts)
        case Parallel():
            return True
        case _:
            return has_parts(tree.body)


def worlds(tree: Tree) -> tuple[Tree, ...]:
    """What one record may meet: the tree once for each way through its :class:`Parallel` nodes, none of which holds one.

    Neighbours under replace-one or zero-out differ in one record, and its part is public. The draws of all other parts read the same
    records in both worlds, so given what was released before they have the same law: the privacy profile of the whole is the pointwise
    greatest of the profiles of these trees (parallel composition, McSherry 2009, with a body of its own a part). A tree without parts
    is its only world, unchanged. Raises :class:`TooManyWorlds`.
    """
    if not has_parts(tree):
        return (tree,)
    match tree:
        case Sequence(parts=parts):
            inner = [worlds(part) for part in parts]
            size = 1
            for ways in inner:
                size *= len(ways)
            _few(size)
            return tuple(Sequence(choice) for choice in product(*inner))
        case Parallel(parts=parts):
            found = tuple(world for part in parts for world in worlds(part))
            _few(len(found))
            return found
        case Repeat(body=body, count=count):
            ways = worlds(body)
            if len(ways) == 1:
                return (Repeat(ways[0], count),)
            _few(_multisets(len(ways), count))
            mixes = combinations_with_replacement(range(len(ways)), count)
            return tuple(Sequence(tuple(Repeat(ways[i], mix.count(i)) for i in sorted(set(mix)))) for mix in mixes)
        case Disjoint(body=body):
            return worlds(body)  # one record lies in one of the equal parts
        case Sampled(body=body):
            return tuple(replace(tree, body=world) for world in worlds(body))
        case Draw():
            return (tree,)


def _few(ways: int) -> None:
    if ways > MOST_WORLDS:
        raise TooManyWorlds(f"one record can pass through the parts of this schedule in {ways} ways, more than {MOST_WORLDS}")


def _multisets(kinds: int, count: int) -> int:
    from math import comb

    return comb(kinds + count - 1, count)
