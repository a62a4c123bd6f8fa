"""The zeroed record of the relation zero-out, in code.

A **zeroed record** is a row of the data whose cells are all zero, features and target. It is read, encoded and enforced like every other
row. Zero-out is accounted for on the ground that what comes out has x = 0: then its gradient phi'(<w, x>, y) x, its second moment x x^T
and its truncated coordinates are zero whatever its y is, so it is absent from every sum that reaches the meter, and a neighbour moves a
sum by one record's term and not by two. Whether x = 0 comes out is asked of the very functions that encode and enforce. Where it does
not, a row of zeros is a record like any other, and the compiler plans for replace-one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dpspec.data.enforce import rules_of
from dpspec.data.problems import Number
from dpspec.data.sources import known_values, scaled
from dpspec.numeric.norms import Entries
from dpspec.spec.model import Data


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a row of zeros is not a record with x = 0: in words, and where in the data block."""

    what: str
    path: tuple[str | int, ...]


def obstacle(data: Data, values: Mapping[str, Number]) -> Obstacle | None:
    """The first declaration that turns a row of zeros into a record with x other than 0; None when there is none.

    ``values``: numbers by name for the expressions in the data block, n and d among them. Raises SpecError where an encoding or a
    domain has no value.
    """
    env = known_values(data, values)
    if data.intercept:
        return Obstacle("the intercept makes it a record with a 1", ("intercept",))
    target = getattr(data.source, "target", None)
    for i, e in enumerate(data.encode):
        if e.column == target:
            continue
        if e.how in ("one-hot", "levels"):
            return Obstacle(f"{e.how} of {e.column!r} gives every row a 1", ("encode", i))
        image = float(scaled(np.zeros(1), e, env)[0])
        if image != 0:
            return Obstacle(f"{e.how} of {e.column!r} makes {image:g} of 0", ("encode", i))
    rules = rules_of(data, "x", int(env["d"]), env).rules if "d" in env else ()
    v = np.zeros((1, 1))
    for rule in rules:
        v, _ = rule(Entries(v))
    if v.any():
        i = next(i for i, domain in enumerate(data.domains) if domain.variable == "x" and domain.by is not None)
        return Obstacle(f"enforcing the domain of x makes {float(v[0, 0]):g} of 0", ("domains", i))
    return None
