"""Quantiles by one bit a user, in rounds (local model, sequentially interactive).

The users of a round answer whether their number is at most a threshold t, by randomised response
(:class:`dpspec.privacy.channels.one_bit.OneBitMean` at an end of its interval), and the mean of b answers gives F_hat(t), F the share of
the population at or below t. The interval of a quantile is halved: the threshold is its middle, and the upper half is kept where F_hat(t)
is below p. Rounds go to the quantiles in turn; nobody answers twice. Public coins say who answers in which round, so that an order of the
records, by the very column, does no harm.

Error. Let e be the largest |F_hat(t) - F(t)| over the rounds of a quantile. Where F(t) >= p + e the lower half is kept and where F(t) <
p - e the upper one, so that always F(lower end) < p + e and F(upper end) >= p - e, apart from the ends of the declared interval, where
they hold for e = 0. So some number of the last interval, (high - low)/2^rounds long, is a p'-quantile with |p' - p| <= e: how far from the
answer it may be is ``rank_within``. With one value of the records in that interval (``step``: the largest multiple of it there, or below)
the answer is that number, and ``rank_within`` 0. Answers are B times a bit, so by Hoeffding (whose bound holds for samples without
replacement) e <= B sqrt(log(2 rounds/0.05)/(2 b)) with probability 0.95: ``rank_error``, sampling of the users included.

Source: noisy bisection, ours; the channel as for counts. Rounds are as many as halve the interval to a share of about the noise, were the
numbers spread evenly.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from dpspec.algorithms.card import Card, Problem, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.statistics import _local as local
from dpspec.models.columns import Column, Quantiles
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.channels.one_bit import OneBitMean
from dpspec.privacy.schedule import Disjoint, Draw, Tree

CARD = Card(
    id="ldp-quantile",
    title="Quantiles by one bit a user, in rounds",
    family="statistics",
    task="quantile",
    models=("sldp",),
    guarantees=("pure", "approx"),
    sources=(local.ONE_BIT,),
    summary="Each round's users answer by randomised response whether they lie above the middle of an interval, which is halved.",
    needs=(local.OWN,),
    tunables={
        "step": Tunable("0", "what the numbers are multiples of, 1 for integers; 0: of nothing", minimum=0.0, maximum=1e100),
        "T": Tunable(
            "min(n, shares*min(30, max(4, ceil(log(sqrt(n)*min(epsilon, 1))/log(2)), "
            "ceil(log(1 + (value_high - value_low)*step/max(step^2, 10^(-300)))/log(2)))))",
            "rounds, in turn for the quantiles: the interval is then as short as the noise, and as a step",
            True,
            1,
        ),
    },
    no_bound="every release states the rank error of its answers",
    cost={"gradients": "0", "rounds": "T", "bits_per_user": "1", "memory_bytes": "8*8192"},
    reads="rows",
    spec="specs/statistics/ldp-quantile.dps",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    if p.n < t.T:
        return f"T = {t.T} rounds need at least as many users"
    if p.facts["shares"] > t.T:
        return f"T = {t.T} rounds do not go round {p.facts['shares']:g} quantiles"
    return None


def schedule(p: Problem, t: Tunables) -> Tree:
    return Disjoint(Draw("answer", OneBitMean(1.0), per="user"), t.T)


def answers(users: Rows, column: Column, threshold: float) -> Iterator[Any]:
    """1 of each user at or below the threshold (an entry), -1 of the others, (rows, 1)."""
    for x, y in users.blocks(local.ROWS):
        yield np.where(column.entries(x, y) <= threshold, 1.0, -1.0)[:, None]


def run(records: Rows, p: Problem[Quantiles], t: Tunables, release: Door) -> Estimate:
    column, shares = p.oracle.column, p.oracle.shares
    ends = [[column.value_low, column.value_high] for _ in shares]
    order = release.public.generator("order").permutation(records.n)
    for number in range(t.T):
        users = records.take(np.sort(order[number :: t.T]))  # disjoint
        i = number % len(shares)
        low, high = ends[i]
        middle = low + (high - low) / 2
        told = float(np.ravel(release.mean_blocks("answer", answers(users, column, column.entry(middle))))[0])
        ends[i] = [low, middle] if (1 + told) / 2 >= shares[i] else [middle, high]
    value = np.array([_answer(low, high, float(t.step), column.value_low) for low, high in ends])
    said = {"rank_error": rank_error(p, t, release.scale("answer")), "rank_within": within(p, t)}
    return Estimate(np.maximum.accumulate(value), {word: np.full(len(shares), v) for word, v in said.items()})


def _answer(low: float, high: float, step: float, lowest: float) -> float:
    if step == 0:
        return low + (high - low) / 2
    return max(math.floor(high / step) * step, lowest)


def rank_error(p: Problem, t: Tunables, length: float) -> float:
    """The share e of the module's text, with probability 0.95."""
    rounds = math.ceil(t.T / int(p.facts["shares"]))
    return min(1.0, length * math.sqrt(math.log(2 * rounds / 0.05) / (2 * (p.n // t.T))))


def within(p: Problem, t: Tunables) -> float:
    """How far from the answer a number of that rank error is at most: what the last interval leaves open."""
    length = (p.facts["value_high"] - p.facts["value_low"]) / 2.0 ** (t.T // int(p.facts["shares"]))
    if t.step:
        return 0.0 if length <= t.step else float(length)
    return float(length / 2)


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """About the mean rank error: a standard error of one round, and half a last interval of evenly spread numbers."""
    rounds = t.T / p.facts["shares"]
    return float(min(0.5, 0.4 * calibrated.scale("answer") / math.sqrt(p.n / t.T) + 2.0 ** (-rounds - 1)))
