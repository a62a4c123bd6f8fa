"""Groups of coordinates of w, and the norms over them: sum_g c_g |w_g|_2 over consecutive groups g.

``group(w, 5)`` and ``group(w, 3, 2, 5)`` mean what they say, c_g = 1. The named ``group-lasso(a, ...)`` is the penalty of Yuan and Lin
(Model selection and estimation in regression with grouped variables, JRSS B 2006): a times c_g = sqrt(size of g). In a normal form
such a sum is one atom, whose name holds the sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

_PLAIN: Final = "|w|_group("
_ROOTED: Final = "|w|_group-lasso("


@dataclass(frozen=True, slots=True)
class Groups:
    """``sizes``: of consecutive groups in order; a single one repeats until w ends, and the last group takes what is left.
    ``rooted``: a group counts sqrt(its size) times."""

    sizes: tuple[int, ...]
    rooted: bool = False

    def blocks(self, d: int) -> tuple[int, ...]:
        """The sizes of all groups of d coordinates, each at least 1. Raises ValueError when they do not add up to d."""
        if len(self.sizes) == 1:
            whole, rest = divmod(d, self.sizes[0])
            return (self.sizes[0],) * whole + ((rest,) if rest else ())
        if sum(self.sizes) != d:
            raise ValueError(f"the sizes of the groups add up to {sum(self.sizes)}, and w has d = {d} coordinates")
        return self.sizes

    def weights(self, d: int) -> tuple[float, ...]:
        """c_g of every group."""
        return tuple(float(size) ** 0.5 if self.rooted else 1.0 for size in self.blocks(d))

    @property
    def name(self) -> str:
        """Of the atom in a normal form."""
        return f"{_ROOTED if self.rooted else _PLAIN}{', '.join(map(str, self.sizes))})"


@dataclass(frozen=True, slots=True)
class GroupTerm:
    """The regulariser weight * sum_g c_g |w_g|_2."""

    weight: float
    groups: Groups


def groups(sizes: Sequence[Fraction], rooted: bool, d: int | None) -> Groups:
    """Checked, and in one spelling: equal sizes with a last one no larger become a single size. Raises ValueError with the reason."""
    if not sizes:
        raise ValueError("the sizes of the groups are missing")
    if any(s.denominator != 1 or s < 1 for s in sizes):
        raise ValueError("the size of a group is a whole number of at least 1")
    found = Groups(tuple(int(s) for s in sizes), rooted)
    if d is None:
        return found
    first, *others = found.blocks(d)
    even = all(s == first for s in others[:-1]) and (not others or others[-1] <= first)
    return Groups((first,), rooted) if even else found


def named(name: str) -> Groups | None:
    """The groups of an atom's name; None when it is no group norm."""
    start = next((s for s in (_ROOTED, _PLAIN) if name.startswith(s)), None)
    if start is None:
        return None
    return Groups(tuple(int(s) for s in name.removeprefix(start).removesuffix(")").split(", ")), start == _ROOTED)
