"""What a calibrated schedule spends, by the auditor's own means: costs of draws, ways of one record through the parts, composition.

The tree is taken apart here (:func:`ways`: one list of draws for each way of one record through the parts) and composed by
:mod:`dpspec.audit.bounds`; nothing of the planner's accounting is used. Reading a plan or record is in :mod:`dpspec.audit.plans`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dpspec.audit.component import Breach, Component, gaussian_release, laplace_release
from dpspec.audit.pairs import (
    BoundedRangePair,
    GaussianPair,
    Joined,
    LaplacePair,
    Pair,
    Reversed,
    Subsampled,
    SubsampledReplace,
    approximate,
    randomized_response,
)
from dpspec.privacy.schedule import Disjoint, Draw, Parallel, Repeat, Sampled, Tree
from dpspec.privacy.schedule import Sequence as Steps

MOST_WAYS = 256
_LARGEST = 500.0  # epsilon above which no pair of laws is formed


@dataclass(frozen=True, slots=True)
class Step:
    """One entry of a way: ``count`` uses of a draw, or of the draws ``inside`` that read one sample together."""

    draw: Draw | None
    count: int
    sampling: Sampled | None = None
    inside: tuple[Step, ...] = ()


# ----------------------------------------------------------------------------------------------------------------- costs


@dataclass(frozen=True, slots=True)
class Cost:
    """What one use of a draw costs: mu of a Gaussian one, epsilon of any other. ``sure``: see ``sure`` of the mechanisms of family
    ``approx``. ``unknown``: why there is no number."""

    family: str
    value: float
    delta: float = 0.0
    sure: float | None = None
    unknown: str = ""


# ------------------------------------------------------------------------------------------------------------- composition


class TooManyWays(Exception):
    """A schedule whose parts can be met in more than :data:`MOST_WAYS` ways, or whose cuts no theorem covers."""


def ways(tree: Tree) -> list[tuple[Step, ...]]:
    """Every way of one record through the tree: in ``Parallel`` and ``Disjoint`` it meets one part only, and each use of them may cut
    the records anew."""
    match tree:
        case Draw():
            return [(Step(tree, 1),)]
        case Steps(parts=parts):
            found: list[tuple[Step, ...]] = [()]
            for part in parts:
                found = [(*before, *after) for before in found for after in _few(ways(part), len(found))]
            return found
        case Parallel(parts=parts):
            return _few([way for part in parts for way in ways(part)])
        case Disjoint(body=body):
            return ways(body)
        case Repeat(body=body, count=count):
            once = ways(body)
            if math.comb(len(once) + min(count, 10**6) - 1, len(once) - 1) > MOST_WAYS:
                raise TooManyWays("one record can pass through the parts in too many ways")
            return [
                tuple(dataclasses.replace(step, count=step.count * k) for k, way in zip(share, once, strict=True) if k for step in way)
                for share in _divided(count, len(once))
            ]
        case Sampled(body=body, rate=rate):
            if rate >= 1:
                return ways(body)
            if cut(body):
                raise TooManyWays("a sample is cut into parts, which no theorem here covers")
            (inside,) = ways(body)
            return [(Step(None, 1, tree, inside),)]
    raise TypeError(tree)


def cut(tree: Tree) -> bool:
    """Whether the records are cut anywhere."""
    match tree:
        case Draw():
            return False
        case Steps(parts=parts):
            return any(cut(part) for part in parts)
        case Parallel():
            return True
        case Disjoint(body=body, count=count):
            return count > 1 or cut(body)
        case _:
            return cut(tree.body)


def _few(ways: list[tuple[Step, ...]], times: int = 1) -> list[tuple[Step, ...]]:
    if len(ways) * times > MOST_WAYS:
        raise TooManyWays("one record can pass through the parts in too many ways")
    return ways


def _divided(count: int, kinds: int) -> list[tuple[int, ...]]:
    if kinds == 1:
        return [(count,)]
    return [(k, *rest) for k in range(count + 1) for rest in _divided(count - k, kinds - 1)]


def _single(name: str, cost: Cost, count: int) -> Component:
    """An unsampled draw, used ``count`` times."""
    if cost.unknown:
        return Component(name, count, unknown=cost.unknown, how="DP605")
    value = cost.value
    match cost.family:
        case "gaussian":
            return gaussian_release(name, value, count)
        case "laplace":
            return laplace_release(name, value, count)
        case "bounded-range":
            under = randomized_response(value / 2) if 0 < value < _LARGEST else None
            return Component(name, count, pure=value, rho=value**2 / 8, over=_pair(cost), under=under)
        case "pure":
            return Component(name, count, pure=value, rho=value**2 / 2, over=_pair(cost))
    why = f"{name}: outputs of probability {cost.sure:.4g} are impossible under a neighbour" if cost.sure else ""
    breach = Breach("DP627", cost.sure, why) if cost.sure else None
    over = approximate(value, cost.delta) if value < _LARGEST else None
    low = math.inf if cost.sure is not None else 0.0
    return Component(name, count, pure=value, pure_at_least=low, slack=cost.delta, over=over, breach=breach)


def _pair(cost: Cost) -> Pair | None:
    if not 0 < cost.value < _LARGEST:
        return None
    match cost.family:
        case "gaussian":
            return GaussianPair(cost.value)
        case "laplace":
            return LaplacePair(cost.value)
        case "bounded-range":
            return BoundedRangePair(cost.value)
    return randomized_response(cost.value)


def components(way: Sequence[Step], costs: Mapping[str, Cost], relation: str) -> list[Component]:
    return [_single(s.draw.name, costs[s.draw.name], s.count) if s.draw is not None else _sampled(s, costs, relation) for s in way]


def _sampled(step: Step, costs: Mapping[str, Cost], relation: str) -> Component:
    """Draws that read one random sample of the records together.

    Poisson, and a record that is there or not (or zeroed): (1 - q)Q + qP against Q. A subset of fixed size, and a record that is
    replaced: the same above and its mirror image below (Zhu, Dong, Wang 2022). No other pair of sampler and relation is covered: under
    replace-one a sampled record may also be left out, and how far that moves a release is not in its sensitivity.
    """
    assert step.sampling is not None
    method, rate = step.sampling.method, step.sampling.rate
    names = [s.draw.name for s in step.inside if s.draw is not None]
    what = f"{', '.join(names)} on a sample"
    mine = [(costs[s.draw.name], s.count) for s in step.inside if s.draw is not None]
    if len(mine) != len(step.inside):
        return Component(what, unknown=f"{what}: sampling inside sampling", how="DP605")
    bad = next((cost for cost, _ in mine if cost.unknown or cost.family == "approx"), None)
    if bad is not None:
        return Component(what, unknown=bad.unknown or f"{what}: a draw known by one (epsilon, delta)", how="DP605")
    if (method == "fixed") != (relation == "replace-one"):
        return Component(what, unknown=f"{what}: amplification by {method} sampling is not covered under {relation}", how="DP605")
    families = {cost.family for cost, _ in mine}
    total = math.fsum(cost.value * count for cost, count in mine)
    square = math.fsum(count * _mu_of(cost) ** 2 for cost, count in mine)
    rho = math.fsum(count * _rho_of(cost) for cost, count in mine)
    base: Pair | None
    under: Pair | None = None
    if "gaussian" in families:
        mu = math.sqrt(square)
        base = GaussianPair(mu) if 0 < mu < 1e6 else None
        if families == {"gaussian"} and base is not None and mu < 60:  # the law of that pair holds exp(-mu^2/8)
            under = SubsampledReplace(mu / 2, rate) if relation == "replace-one" else Subsampled(base, rate)
        pure = math.inf
    else:
        base = _pair(mine[0][0]) if len(mine) == 1 and mine[0][1] == 1 else _pair(Cost("pure", total))
        pure = math.log1p(rate * math.expm1(total)) if total < 700 else total
    if base is None:
        return Component(what, step.count, unknown=f"{what}: no law of the loss can be formed", how="DP605")
    one = Subsampled(base, rate)
    over: Pair = one if method == "poisson" else Joined(one, Reversed(one))
    low = math.inf if under is not None else 0.0
    return Component(what, step.count, pure=pure, pure_at_least=low, rho=rho, over=over, under=under)


def _mu_of(cost: Cost) -> float:
    """The mu that one use implies: 2 Phi^-1(e^epsilon/(1 + e^epsilon)) of epsilon-DP (its curve has one corner)."""
    from scipy.special import ndtri

    if cost.family == "gaussian":
        return cost.value
    if cost.unknown or cost.family == "approx" or cost.value > _LARGEST:
        return math.inf
    return -2 * float(ndtri(1 / (1 + math.exp(cost.value))))


def _rho_of(cost: Cost) -> float:
    if cost.unknown or cost.family == "approx":
        return math.inf
    return cost.value**2 / (8 if cost.family == "bounded-range" else 2)


def _over(costs: Mapping[str, Cost], step: Step, one: Callable[[Cost], float]) -> float:
    """The sum of ``one`` over the uses of a step; sampling is ignored, which is safe."""
    if step.draw is not None:
        return step.count * one(costs[step.draw.name])
    return step.count * math.fsum(_over(costs, inner, one) for inner in step.inside)


def rho_of(costs: Mapping[str, Cost], step: Step) -> float:
    return _over(costs, step, _rho_of)


def mu_squared(costs: Mapping[str, Cost], step: Step) -> float:
    return _over(costs, step, lambda cost: _mu_of(cost) ** 2)
