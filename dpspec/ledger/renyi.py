"""The Renyi divergence of one order that a schedule spends, rounded up, sampling included.

A dominating pair has the larger hockey-stick divergence at every threshold, so it has the larger Renyi divergence of every order > 1
(both are mixtures of the former). Without sampling the divergences are closed forms. With it, the moment of order a - 1 of the loss is
summed over a distribution on a grid that dominates the pair (:mod:`dpspec.privacy.pld`), and what lies above the grid is bounded:

* a Gaussian pair N(mu, 1), N(0, 1) sampled at rate q has likelihood ratio at most e^l where l >= 0 is the unsampled loss, so the part above
  x gives at most the integral of N(0, 1) e^(a l) there, e^(a(a - 1)mu^2/2) Phi(a mu - x);
* contributions on opposite sides: with m = mu*reach the ratio is at most e^l/(1 - q), so the same with m, times (1 - q)^-a;
* all other pairs have bounded losses, and the grid holds them.

Poisson sampling has two directions. All our pairs are symmetric (an involution exchanges the two laws), and then the direction with the
record against without it has the larger divergence of every order (Mironov, Talwar, Zhang 2019, Theorem 5), so the other is not computed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

from dpspec.privacy.gaussian import float_up
from dpspec.privacy.guarantees import Pure, pure_to_renyi
from dpspec.privacy.pairs import Pair
from dpspec.privacy.pld import Use
from dpspec.privacy.samplers import Neighbours
from dpspec.privacy.schedule import Tree, draws

_POINTS = 200_000
_UP = 1 + 1e-9


def divergence(tree: Tree, levels: Mapping[str, float], neighbours: Neighbours, order: float) -> float:
    """An upper bound on the Renyi divergence of ``order`` > 1 of a schedule without parts and without ``approx`` draws; maybe infinite."""
    from dpspec.privacy.spent import uses

    found = draws(tree)
    first = uses(tree, found, levels, neighbours)[0]
    each = [(use.count, of_use(use, order)) for use in first]
    if not all(math.isfinite(value) for _, value in each):
        return math.inf
    return float_up(sum((count * Fraction(value) for count, value in each), Fraction(0)))


def of_use(use: Use, order: float) -> float:
    """The divergence of one of the uses, rounded up."""
    return _plain(use.pair, order) if use.how == "all" or use.rate >= 1 else min(_sampled(use, order), _plain(use.pair, order))


def _plain(pair: Pair, order: float) -> float:
    parameter = pair.parameter
    if pair.kind == "gaussian":
        return order * parameter**2 / 2 * _UP
    pure = pure_to_renyi(Pure(parameter), order).epsilon
    if pair.kind == "bounded-range":  # epsilon^2/8-zCDP: Cesar, Rogers 2021, Lemma 3.2
        return min(pure, order * parameter**2 / 8 * _UP)
    if pair.kind == "laplace":  # Mironov 2017, Proposition 6; of the largest exponent taken out
        up, down = math.log(order / (2 * order - 1)) + (order - 1) * parameter, math.log((order - 1) / (2 * order - 1)) - order * parameter
        return min(pure, (up + math.log1p(math.exp(down - up))) / (order - 1) * _UP + 1e-14)
    return pure


def _sampled(use: Use, order: float) -> float:
    import numpy as np

    from dpspec.privacy import pld

    if use.pair.kind == "gaussian":
        mu = use.pair.parameter * (use.reach if use.how == "opposite" else 1.0)
        growth = order * (order - 1) * mu**2 / 2
        end = order * mu + math.sqrt(2 * (40 + growth)) + 1.0  # Phi(-z) <= e^(-z^2/2): what lies above is below e^-40
        if growth > 600:
            return math.inf
        tail = max(math.erfc((end - mu) / math.sqrt(2)) / 2, 1e-290)
        above = math.exp(growth) * math.erfc((end - order * mu) / math.sqrt(2)) / 2 * _UP
        if use.how == "opposite":
            above *= (1 - use.rate) ** -order
            top = (end + 1) * mu
        else:
            top = mu * end
        spread = use.rate * math.sqrt(math.expm1(min(mu * mu, 4.0)))
    else:
        tail, above, top = 1e-290, 0.0, use.pair.parameter
        spread = use.rate * top
    reach = math.log1p(use.rate * math.expm1(min(top, 600.0))) if top < 600 else top
    step = max(0.02 * spread, 2 * reach / _POINTS)
    try:
        law = pld.law(Use(use.pair, 1, "remove" if use.how == "add" else use.how, use.rate, use.reach), step, tail)
    except MemoryError:
        return math.inf
    exponent = (order - 1) * law.losses
    if float(exponent.max()) > 600:
        return math.inf
    if use.pair.kind != "gaussian":
        above = law.infinite * math.exp(min(order * (reach + step), 600.0))
    missing = max(0.0, 1.0 - float(law.mass.sum()) - law.infinite)
    moment = float((law.mass * np.expm1(exponent)).sum()) - law.infinite + above + missing
    return max(0.0, math.log1p(moment + 1e-13 + 1e-12 * abs(moment)) / (order - 1)) * _UP
