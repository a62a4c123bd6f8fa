"""The one loss of several margins, recognised in a normal form; its certificate is in :mod:`dpspec.symbolic.multinomial`."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dpspec.symbolic.losses import drop_free
from dpspec.symbolic.normal import Fn, Mono, NoNormalForm, Poly, Pow

NAME = "multinomial"


@dataclass(frozen=True, slots=True)
class Multinomial:
    """``factor`` times the loss of ``classes`` classes."""

    classes: int
    factor: Fraction = Fraction(1)


def recognise(data: Poly) -> Multinomial | None:
    """The data part of a loss as a multinomial loss; None when that does not occur in it. Raises NoNormalForm when it occurs in any other
    way than multiplied by a positive number."""
    form = drop_free(data)
    if not any(_mentions(m) for m, _ in form.terms):
        return None
    if len(form.terms) == 1:
        mono, factor = form.terms[0]
        if len(mono) == 1 and mono[0][1] == 1 and isinstance(mono[0][0], Fn) and mono[0][0].name == NAME and factor > 0:
            return Multinomial(int(mono[0][0].params[0]), factor)
    raise NoNormalForm("multinomial(K) may only be multiplied by a positive number and have terms in w alone added")


def _mentions(m: Mono) -> bool:
    for atom, _ in m:
        inner = atom.args if isinstance(atom, Fn) else (atom.base,) if isinstance(atom, Pow) else ()
        if (isinstance(atom, Fn) and atom.name == NAME) or any(_mentions(n) for p in inner for n, _ in p.terms):
            return True
    return False
