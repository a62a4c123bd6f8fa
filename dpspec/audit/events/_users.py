"""Several records of one unit under Poisson sampling: each is drawn by a coin of its own, so J of k take part, J binomial.

A record moves the sum by at most the bound, J records by at most J of them, so against a data set without the unit the outputs are
sum_j P(J = j) N(j mu, 1) against N(0, 1) when all point one way, and no other directions show more (Choquette-Choo, Ganesh, Steinke,
Thakurta 2024, Lemma 4.5, for vectors and adaptive choices; user level: Charles et al. 2024, section 3). A unit that is replaced draws the
same coins for its other records: by joint convexity the pair that also shows J dominates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dpspec.audit.component import Component, Context
from dpspec.audit.event import Event, nodes
from dpspec.audit.events._common import grouped
from dpspec.audit.pairs import Array, GaussianPair, _ndtr, _reach_by_bisection

MOST_RECORDS = 10_000
_FAINT = 1e-25


@dataclass(frozen=True, slots=True)
class Coins:
    """The law of J by its values and probabilities. Values whose tail weighs less than 1e-25 stand at ``records`` (above) or at the last
    kept one (below)."""

    values: tuple[int, ...]
    chances: tuple[float, ...]

    def arrays(self) -> tuple[Array, Array]:
        return np.asarray(self.values, dtype=float), np.asarray(self.chances, dtype=float)


def coins(records: int, rate: float, above: bool = True) -> Coins:
    from scipy.stats import binom

    j = np.arange(records + 1)
    p = np.asarray(binom.pmf(j, records, rate), dtype=float)
    tail = np.asarray(binom.sf(j, records, rate), dtype=float)
    last = int(np.argmax(tail < _FAINT)) if (tail < _FAINT).any() else records
    values, chances = [int(v) for v in j[: last + 1]], [float(c) for c in p[: last + 1]]
    rest = float(tail[last])
    if rest > 0 and above:
        values.append(records)
        chances.append(rest)
    elif rest > 0:
        chances[-1] += rest
    kept = [(v, c) for v, c in zip(values, chances, strict=True) if c > 0]
    return Coins(tuple(v for v, _ in kept), tuple(c for _, c in kept))


@dataclass(frozen=True, slots=True)
class MixturePair:
    """sum_j p_j N(j mu, 1) against N(0, 1), or against its mirror image sum_j p_j N(-j mu, 1) (``opposed``). The loss grows
    with the output."""

    mu: float
    law: Coins
    opposed: bool = False

    def loss(self, x: Array) -> Array:
        """ln(dP/dQ) at the outputs x."""
        up = self._moments(x)[0]
        return up - self._moments(-x)[0] if self.opposed else up

    def _moments(self, x: Array) -> tuple[Array, Array]:
        """ln sum_j p_j exp(j mu x - (j mu)^2/2) and its slope."""
        j, p = self.law.arrays()
        total, first = np.full(x.shape, -np.inf), np.zeros(x.shape)
        for value, chance in zip(j, p, strict=True):
            a = value * self.mu
            term = math.log(chance) + a * x - a * a / 2
            both = np.logaddexp(total, term)
            weight = np.exp(term - both)
            first = first * (1 - weight) + a * weight
            total = both
        return np.asarray(total, dtype=float), first

    def _at(self, loss: Array) -> Array:
        """The output at which the loss is this; -inf where no output has so small a one. A table gives the cell, Newton's steps the
        rest."""
        j, p = self.law.arrays()
        lead = float(j[-1]) * self.mu
        top = float(np.max(loss, initial=0.0))
        high = max(60.0 + lead, (top - math.log(p[-1])) / lead + lead / 2 + 1.0)  # the largest j leads there
        low = -high if self.opposed else -60.0
        table = np.linspace(low, high, 4097)
        known = self.loss(table)
        cell = np.clip(np.searchsorted(known, loss) - 1, 0, table.size - 2)
        left, right = table[cell], table[cell + 1]
        x = np.clip(np.interp(loss, known, table), left, right)
        for _ in range(5):
            up, slope = self._moments(x)
            if self.opposed:
                down, other = self._moments(-x)
                up, slope = up - down, slope + other
            x = np.clip(x - (up - loss) / np.maximum(slope, 1e-300), left, right)
        x = np.where(loss <= known[0], low, np.where(loss >= known[-1], high, x))
        floor = -math.inf if self.opposed or j[0] > 0 else math.log(p[0])
        return np.where(loss <= floor, -np.inf, x)

    def tails(self, loss: Array) -> tuple[Array, Array, Array, Array]:
        x = self._at(np.asarray(loss, dtype=float))
        p_up, p_down = self._chances(x, 1.0)
        q_up, q_down = self._chances(x, -1.0) if self.opposed else (_ndtr(-x), _ndtr(x))
        return p_up, q_up, p_down, q_down

    def _chances(self, x: Array, sign: float) -> tuple[Array, Array]:
        up, down = np.zeros(x.shape), np.zeros(x.shape)
        for value, chance in zip(*self.law.arrays(), strict=True):
            up = up + chance * _ndtr(sign * value * self.mu - x)
            down = down + chance * _ndtr(x - sign * value * self.mu)
        return up, down

    def reach(self, tail: float) -> tuple[float, float]:
        a, b = self._quantiles(1.0, tail)
        shown = self.loss(np.array([a, b]))
        return float(shown[0]), float(shown[1])

    def turned(self, tail: float) -> tuple[float, float]:
        """:meth:`reach` of the pair the other way round."""
        if self.opposed:
            a, b = self._quantiles(-1.0, tail)
        else:
            from scipy.special import ndtri

            b = -float(ndtri(tail))
            a = -b
        shown = self.loss(np.array([a, b]))
        return -float(shown[1]), -float(shown[0])

    def _quantiles(self, sign: float, tail: float) -> tuple[float, float]:
        """Outputs a, b with P(X <= a) <= tail and P(X > b) <= tail, of the first law or (sign -1) of its mirror image."""
        edge = 60.0 + self.law.values[-1] * self.mu

        def crossing(which: int) -> float:
            low, high = -edge, edge
            for _ in range(60):
                middle = (low + high) / 2
                small = float(self._chances(np.array([middle]), sign)[which][0]) <= tail
                if which == 0:
                    low, high = (low, middle) if small else (middle, high)
                else:
                    low, high = (middle, high) if small else (low, middle)
            return high if which == 0 else low

        return crossing(1), crossing(0)


@dataclass(frozen=True, slots=True)
class ShownPair:
    """J is shown beside the output: N(j mu, 1) against N(0, 1) with probability p_j."""

    mu: float
    law: Coins

    def tails(self, loss: Array) -> tuple[Array, Array, Array, Array]:
        loss = np.asarray(loss, dtype=float)
        total = [np.zeros(np.shape(loss)) for _ in range(4)]
        for value, chance in zip(self.law.values, self.law.chances, strict=True):
            if value == 0:
                up = np.asarray(loss < 0, dtype=float)
                one: tuple[Array, ...] = (up, up, 1 - up, 1 - up)
            else:
                one = GaussianPair(value * self.mu).tails(loss)
            total = [t + chance * o for t, o in zip(total, one, strict=True)]
        return total[0], total[1], total[2], total[3]

    def reach(self, tail: float) -> tuple[float, float]:
        return _reach_by_bisection(self, tail)


def records_of(event: Event) -> tuple[float, Event] | str:
    """Records of one unit and the sampled event of one record; a text where the description gives no single number."""
    outer = event.number("contributions") or 1.0
    leaves = {e.number("contributions") or 1.0 for e in nodes(event.inner) if not e.inner}
    if any((e.number("contributions") or 1.0) > 1 for e in nodes(event.inner) if e.inner):
        return f"{event.what}: state contributions at the sampler or at the releases inside it"
    if len(leaves) > 1:
        return f"{event.what}: the releases on one sample count different numbers of records of a unit"
    mine = leaves.pop() if leaves else 1.0
    if outer > 1 and mine > 1 and outer != mine:
        return f"{event.what}: {outer:g} and {mine:g} records of a unit are stated"
    return max(outer, mine), _stripped(event)


def _stripped(event: Event) -> Event:
    """Without its number of records; a word in its place (unknown) stays, for the condition that it makes."""
    fields = {k: v for k, v in event.fields.items() if k != "contributions" or isinstance(v, str)}
    return replace(event, fields=fields, inner=tuple(_stripped(e) for e in event.inner))


def of_users(one: Component, mu: float | None, records: float, rate: float, context: Context, opposite: bool, below: bool) -> Component:
    """The component of ``records`` records of one unit. ``one``: that of a single record, ``mu``: the shift of an unsampled Gaussian step.
    ``opposite``: a record may turn into its opposite and no farther; ``below``: neighbours are known that show the shift."""
    if mu is None or mu == 0 or one.unknown or records > MOST_RECORDS:
        return grouped(one, records)
    law, shown = coins(int(records), rate), coins(int(records), rate, above=False)
    if context.replacing:
        under = MixturePair(mu / 2, shown, opposed=True) if opposite else MixturePair(mu, shown)
        over: MixturePair | ShownPair = ShownPair(mu, law)
    else:
        over, under = MixturePair(mu, law), MixturePair(mu, shown)
    return replace(one, over=over, under=under if below else None, rho=(records * mu) ** 2 / 2, mu=None)
