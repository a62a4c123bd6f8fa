"""What given levels spend: exact sums of pure, zCDP and Gaussian DP costs over the draws of a tree.

Every sum is of exact rationals (levels are doubles, read exactly); a transcendental function enters as a certified bound on the safe
side. The search over levels that budgets with a delta need is in :mod:`dpspec.privacy.search`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from dpspec.privacy import gaussian
from dpspec.privacy.gaussian import exact, float_down, float_up, sqrt_down, sqrt_up
from dpspec.privacy.schedule import Disjoint, Draw, Leaf, Parallel, Repeat, Sampled, Sequence, Tree


def draw_epsilon(leaf: Leaf, level: float) -> Fraction:
    """The pure epsilon of one use on the records it reads, before amplification."""
    return 1 / Fraction(level) if leaf.draw.mechanism.family == "laplace" else Fraction(level)


def is_sampled(leaf: Leaf) -> bool:
    return leaf.sampling is not None and leaf.sampling.rate < 1


# -------------------------------------------------------------------------------------------------------------- blocks


@dataclass(frozen=True, slots=True)
class Block:
    """Draws that read one sample together. ``count`` samples are taken in all; from each, draw ``name`` is released ``times[name]``
    times. Without sampling a block is one draw. (A leaf's count is ``count * times[name]``; it does not tell
    ``Repeat(Sampled(draw))``, fresh samples, from ``Sampled(Repeat(draw))``, one sample read again, which costs more.)"""

    sampling: Sampled | None
    count: int
    times: Mapping[str, int]


def blocks(tree: Tree) -> tuple[Block, ...]:
    """The tree as independent uses of fresh samples. Under ``Disjoint`` one record meets one part, so it counts once."""
    return tuple(_blocks(tree, 1))


def _blocks(tree: Tree, count: int) -> Iterator[Block]:
    match tree:
        case Draw(name=name):
            yield Block(None, count, {name: 1})
        case Sequence(parts=parts):
            for part in parts:
                yield from _blocks(part, count)
        case Repeat(body=body, count=k):
            yield from _blocks(body, count * k)
        case Disjoint(body=body):
            yield from _blocks(body, count)
        case Parallel():
            raise ValueError("parts with different bodies are accounted one by one: take the worlds of the schedule")
        case Sampled(body=body, rate=rate):
            inner = tuple(_blocks(body, 1))
            if any(b.sampling is not None for b in inner):
                raise ValueError("sampling inside sampling has no accountant; flatten the schedule")
            if rate >= 1:
                for b in inner:
                    yield Block(None, count * b.count, b.times)
            else:
                yield Block(tree, count, {name: b.count * t for b in inner for name, t in b.times.items()})


# ------------------------------------------------------------------------------------------------------------ pure sum


def amplified(epsilon: Fraction, rate: Fraction) -> Fraction:
    """log(1 + rate*(e^epsilon - 1)), rounded up: an epsilon-DP mechanism on a random share of the records (Balle, Barthe, Gaboardi
    2018, Theorems 8 and 9)."""
    with gaussian._precision(128) as flint:
        value = (gaussian._ball(flint, rate) * gaussian._ball(flint, epsilon).expm1()).log1p()
        return Fraction(gaussian._upper(flint, value))


def base_epsilon(epsilon: Fraction, rate: Fraction) -> Fraction:
    """The largest epsilon, rounded down, whose amplified value is at most ``epsilon``: log(1 + (e^epsilon - 1)/rate)."""
    with gaussian._precision(128) as flint:
        value = (gaussian._ball(flint, epsilon).expm1() / gaussian._ball(flint, rate)).log1p()
        return Fraction(gaussian._lower(flint, value))


def pure_sum(tree: Tree, found: Mapping[str, Leaf], levels: Mapping[str, float]) -> Fraction:
    """Basic composition: the sum of the (amplified) epsilons of every use, rounded up where an exponential enters."""
    total = Fraction(0)
    for block in blocks(tree):
        each = sum((k * draw_epsilon(found[name], levels[name]) for name, k in block.times.items()), Fraction(0))
        if block.sampling is not None:
            each = amplified(each, exact(block.sampling.rate))
        total += block.count * each
    return total


def pure_levels(tree: Tree, found: Mapping[str, Leaf], epsilon: Fraction, share: Mapping[str, Fraction]) -> dict[str, float]:
    """Levels that split ``epsilon`` by ``share`` and spend at most it."""
    levels = {}
    for block in blocks(tree):
        part = sum((share[name] for name in block.times), Fraction(0))
        each = epsilon * part / block.count
        if block.sampling is not None:
            each = base_epsilon(each, exact(block.sampling.rate))
        for name, k in block.times.items():
            own = each * share[name] / part / k
            levels[name] = float_up(1 / own) if found[name].draw.mechanism.family == "laplace" else float_down(own)
    return levels


# ---------------------------------------------------------------------------------------------------------------- zCDP

#: rho of one use at a level: epsilon^2/2, or epsilon^2/8 for a bounded-range mechanism (see :mod:`dpspec.privacy.guarantees`).
_RHO_DIVISOR = {"gaussian": 2, "laplace": 2, "pure": 2, "bounded-range": 8}


def level_for_rho(leaf: Leaf, rho: Fraction) -> float:
    """The level at which one use costs at most ``rho``, rounded to the safe side."""
    family = leaf.draw.mechanism.family
    epsilon_squared = _RHO_DIVISOR[family] * rho
    return sqrt_up(1 / epsilon_squared) if family in ("gaussian", "laplace") else sqrt_down(epsilon_squared)


def draw_rho(leaf: Leaf, level: float) -> Fraction:
    family = leaf.draw.mechanism.family
    epsilon = 1 / Fraction(level) if family in ("gaussian", "laplace") else Fraction(level)
    return epsilon**2 / _RHO_DIVISOR[family]


def zcdp_sum(found: Mapping[str, Leaf], levels: Mapping[str, float]) -> Fraction:
    """The rho of the whole schedule. Sampling is ignored, which is safe (a mixture over what was sampled costs at most the worst
    sample) and, for zCDP, all there is: the Renyi divergence of a sampled Gaussian is not linear in the order."""
    return sum((leaf.count * draw_rho(leaf, levels[name]) for name, leaf in found.items()), Fraction(0))


# --------------------------------------------------------------------------------------------------------- Gaussian DP


def pure_mu(epsilon: Fraction) -> Fraction:
    """The least mu, rounded up, with epsilon-DP implying mu-GDP: 2 Phi^-1(e^epsilon/(1 + e^epsilon)).

    The trade-off curve of epsilon-DP has one corner, at (a, a) with a = 1/(1 + e^epsilon), joined to the ends by lines; the convex
    curve of mu-GDP lies below it everywhere when it does so at the corner.
    """
    with gaussian._precision(192) as flint:
        value = 2 * flint.arb(2).sqrt() * (gaussian._ball(flint, epsilon) / 2).tanh().erfinv()
        return Fraction(gaussian._upper(flint, value))


def mu_pure(mu: Fraction) -> Fraction:
    """The largest epsilon, rounded down, for which epsilon-DP implies ``mu``-GDP: log(Phi(mu/2)/Phi(-mu/2))."""
    with gaussian._precision(192) as flint:
        half = gaussian._ball(flint, mu) / 2 / flint.arb(2).sqrt()
        return Fraction(gaussian._lower(flint, ((-half).erfc() / half.erfc()).log()))


def level_for_mu_squared(leaf: Leaf, mu_squared: Fraction) -> float:
    """The level at which one use is at most sqrt(``mu_squared``)-GDP, rounded to the safe side."""
    family = leaf.draw.mechanism.family
    if family == "gaussian":
        return sqrt_up(1 / mu_squared)
    epsilon = mu_pure(Fraction(sqrt_down(mu_squared)))
    return float_up(1 / epsilon) if family == "laplace" else float_down(epsilon)


def gdp_sum(found: Mapping[str, Leaf], levels: Mapping[str, float]) -> Fraction:
    """The sum of mu^2 over every use; sampling is ignored, which is safe."""
    total = Fraction(0)
    for name, leaf in found.items():
        if leaf.draw.mechanism.family == "gaussian":
            total += leaf.count / Fraction(levels[name]) ** 2
        else:
            total += leaf.count * pure_mu(draw_epsilon(leaf, levels[name])) ** 2
    return total
