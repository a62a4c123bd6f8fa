"""Mean gradients of records, as central algorithms of empirical risks release them: sensitivities, the noisy draw, distances."""

from __future__ import annotations

import math
from typing import Any, Final

from dpspec.algorithms import sums
from dpspec.algorithms.card import Problem
from dpspec.algorithms.formulas import STRENGTH
from dpspec.algorithms.objective import Objective
from dpspec.algorithms.sets import ConstraintSet, Vector, constraint_set
from dpspec.numeric import norms

#: Noise of density exp(-|z|/b) in d dimensions is as long as Gaussian noise of mu = epsilon/sqrt(d + 1): E|z|^2 = d(d + 1) b^2.
STRENGTH_ANY: Final = f"{STRENGTH} else epsilon/sqrt(d + 1)"
#: Unit roundoff; roundings of one slope and of the last sums, with room.
U: Final = 2.0**-53
OPERATIONS: Final = 64


def step_rounding(over: ConstraintSet, d: int, plain: bool) -> int:
    """Of a point and its prox, in u: sorted sums and roots of all coordinates are off by more than entries that are clipped or scaled."""
    return 8 if plain and over.kind in ("reals", "l2", "linf", "box") else 8 + 4 * d


def moved(p: Problem) -> float:
    """How many gradient norms L a sum of gradients moves between neighbours: 2 when a record is replaced, else 1."""
    return 2.0 if p.neighbours == "replace-one" else 1.0


def summed(p: Problem, count: int | None = None) -> float:
    """What a sensitivity of (1/count) sum grad phi_i is multiplied by because neighbours' sums are rounded differently: see
    :mod:`dpspec.algorithms.sums`."""
    return sums.rounding(p.n if count is None else count, moved(p), hidden=p.neighbours == "add-remove")


def mean_sensitivity(p: Problem, count: int | None = None) -> float:
    """l2 sensitivity of (1/count) sum grad phi_i, |grad phi_i| <= L, with the public divisor ``count`` (n when left out), rounded up."""
    assert p.loss is not None
    return math.nextafter(moved(p) * p.loss.lipschitz / (p.n if count is None else count) * summed(p, count), math.inf)


#: Sums of gradients stay below this: in the range of doubles with room for add-remove, and after a division by a share.
LARGEST: Final = 1e280

#: Of 2L (of L): rounding errors of a record's own gradient, with room; and the least share, so that they are never scaled up past that.
_SLACK: Final = 1e-9
_FLOOR: Final = 1e-6


def steepness(p: Problem, w: Vector) -> float:
    """What neighbours move the sum of gradients at ``w`` by, as a share of what they move any sum of gradients by (2L under replace-one,
    else L): by :mod:`dpspec.symbolic.local`, rounded up, at most 1.

    The rounding of sums is relative to the length l of gradients at ``w``. The plan allows for it as a part q of 2L (:func:`summed`), thus
    for the part q of 2 l wherever neighbours move the sum by 2 l; where they move it by s < 2 l, q (2 l - s) is missing and added.
    """
    assert p.loss is not None
    r = norm(w)
    here = length = p.loss.lipschitz_at(r)
    if p.neighbours == "replace-one":
        here = p.loss.spread_at(r)
        here += (2 * length - here) * (summed(p) - 1.0)
    return min(1.0, max(here / (moved(p) * p.loss.lipschitz) + _SLACK, _FLOOR))


def exact_gradient(records: Any, p: Problem, w: Vector, count: int | None = None) -> Vector:
    """(1/count) sum of the gradients of the data part at ``w``, each no longer than gradients there are (``Loss.lipschitz_at``): what
    :func:`steepness` takes for granted is made true of the doubles that are summed. Without noise: for the meter alone."""
    assert p.loss is not None
    f, n, here = p.objective, p.n if count is None else count, p.loss.lipschitz_at(norm(w))
    total: Vector = f.data_gradient(w, records, n, within=here) if here < p.loss.lipschitz else f.data_gradient(w, records, n)
    return total


def noisy_gradient(release: Any, records: Any, p: Problem, w: Vector) -> Vector:
    """The draw ``gradient`` of the mean gradient of the data part at ``w``, an iterate, so a function of earlier releases.

    Gradients at ``w`` may be shorter, and closer together, than those anywhere (a logistic loss: 1/2 long and 1 apart at w = 0, 1 and 2 in
    general). The mean is divided by the public share that neighbours can move it by, so that its sensitivity is that of the plan, 2L/n
    under replace-one, and the noisy one multiplied by it: adaptive composition at the planned noise multiplier.
    """
    share = steepness(p, w)
    noisy: Vector = release.draw("gradient", exact_gradient(records, p, w) / share, sensitivity=mean_sensitivity(p))
    return noisy * share


def is_pure(p: Problem) -> bool:
    """Whether the budget is epsilon alone."""
    return not ({"delta", "rho", "mu"} & p.facts.keys())


def prox(f: Objective, v: Vector, step: float) -> Vector:
    """argmin over u in the set of |u - v|^2/2 + step*(l2/2 |u|^2 + l1 |u|_1 + the group norm): the ridge only rescales point and step."""
    shrink = 1.0 + step * float(f.l2)
    return f.prox(v / shrink, step / shrink)


def distance(p: Problem) -> float:
    """D >= |w_0 - w*|, w_0 the point of the set nearest to 0: that of the set, or L/lam on R^d (lam |w*| = |mean gradient at w*|);
    infinite otherwise. An l1 or group term r changes neither: its subgradient s at w* has <s, w*> = r(w*) >= 0."""
    assert p.loss is not None
    if p.task.over.kind != "reals":
        return constraint_set(p.task.over, p.facts).distance_bound(p.d)
    if not p.loss.l2 > 0:
        return math.inf
    return p.loss.lipschitz / p.loss.l2


def start_gap(p: Problem) -> float:
    """A bound of F(w_0) - F*: the slope times the distance; log 2 for the logistic loss from 0."""
    assert p.loss is not None
    far = distance(p)
    slope = p.loss.lipschitz * far if math.isfinite(far) else math.inf
    if p.task.over.kind in ("simplex", "polytope"):  # elsewhere the point nearest to 0 has the least l1 and group norm, too
        slope += p.loss.penalty_slope(p.d) * far
    centred = p.task.over.kind in ("reals", "ball")
    return min(slope, p.loss.at_zero) if centred else slope


def norm(v: Vector) -> float:
    return norms.length(v)
