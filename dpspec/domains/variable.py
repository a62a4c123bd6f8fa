"""What is known of one variable of a record: what the spec says of it, and what the executor makes true of every record."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from dpspec.domains.domain import UNBOUNDED, Domain, Values, closed, domain_of_set, meet
from dpspec.spec import model
from dpspec.spec.expr import Num


@dataclass(frozen=True, slots=True)
class Variable:
    """The domain of x (a vector of d coordinates) or y (a number).

    ``said``: the set that the spec states. ``enforced``: what holds of every record after enforcement, whatever the record held;
    unbounded without a rule. Privacy may rest on ``enforced`` alone. ``by``: the rule.
    """

    said: Domain
    enforced: Domain
    by: model.Enforcement | None = None

    @property
    def known(self) -> Domain:
        """The enforced domain where there is a rule, else the stated one."""
        return self.said if self.by is None else self.enforced


NOTHING_SAID = Variable(UNBOUNDED, UNBOUNDED)


def from_line(stated: model.Domain, values: Values, *, dimension: int | None) -> Variable:
    """The domain of a variable from its line in the data section, ``x in SET [by RULE]``.

    ``values``: the public numbers its expressions name; ``dimension``: d for x, 1 for y, None when unknown. ``by scale``, ``clip`` and
    ``reject`` put a record into the stated set. ``by shrink(tau)`` cuts every coordinate to [-tau, tau]: all of that cube, and nothing
    else of the set, is left (the set must hold the cube, DP520). ``by map`` leaves the listed images. Raises Unbound, NotANumber and
    ValueError as :func:`~dpspec.domains.domain.domain_of_set` does.
    """
    said = domain_of_set(stated.set, values, dimension=dimension)
    return Variable(said, _enforced(said, stated.by, values, dimension), stated.by)


def _enforced(said: Domain, by: model.Enforcement | None, values: Values, dimension: int | None) -> Domain:
    if by is None:
        return replace(UNBOUNDED, dimension=dimension)
    if by.how == "shrink" and by.tau is not None:
        return meet(domain_of_set(model.Ball(norm="linf", radius=by.tau), values, dimension=dimension), said)
    if by.how == "map" and by.mapping:
        return meet(domain_of_set(model.Finite(values=tuple(image for _, image in by.mapping)), values, dimension=dimension), said)
    return said


def cube(tau: Fraction | int, dimension: int | None = None) -> Domain:
    """Vectors whose coordinates lie in [-tau, tau]."""
    return closed(domain_of_set(model.Ball(norm="linf", radius=Num(Fraction(tau))), dimension=dimension))
