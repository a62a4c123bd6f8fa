"""Projected stochastic gradient descent with one private gradient a user (sequentially interactive local model).

Users come in T disjoint batches of b = n/T and answer once each; user i of batch t sends its gradient through an unbiased channel,

    w_{t+1} = P(w_t - eta*(mean of reports of phi'(<w_t, x_i>, y_i) x_i + lam w_t)),

the average of w_2, ..., w_{T+1} where the loss is B-smooth and eta <= 1/(2 B), else of w_1, ..., w_T.

``channel``: ``priv-unit`` or ``hemisphere`` (d >= 2), ``one-bit`` (d = 1), ``gaussian`` (with a delta); ``auto``: that of least variance.

Privacy: the channel scales whatever gradient a client holds into the l2 ball of radius ``length``, so a report is within the budget for any
record, any w that the server sends and any loss; users answer once, in batches that are fixed before a record is read. The certified
Lipschitz constant is the radius by default, and then nothing is clipped; a shorter one costs unbiasedness alone.

Error. Users of batch t are independent of w_t, so the mean report is unbiased for the gradient of the *population* risk F, with second
moment at most G^2 + V/b: G = L + lam*Q the slope of F, Q no less than any |w|, V that of one report (B^2 for reports of length B,
d s^2 + L^2 for Gaussian ones). Projected descent over T steps (Zinkevich 2003; averages by Jensen), D the distance to cover:

    E F(average) - F* <= D^2/(2 eta T) + eta (G^2 + V/b)/2 = D sqrt(G^2/T + V/n)  at  eta = D/sqrt(T (G^2 + V/b)).

The noise term does not depend on T; T = n epsilon^2/d rounds make the other one as small. For a B-smooth F (lam counts in B) and
eta <= 1/(2 B) the gradient itself costs nothing (Lan 2012): with xi the error of a mean report, E|xi|^2 <= V/b, and v the step's end,

    F(v) - F* <= <g, v - w*> + <xi, v - w*> + (B/2) |v - w|^2 <= (|w - w*|^2 - |v - w*|^2)/(2 eta) + <xi, w - w*> + eta |xi|^2,

by the projection's inequality and |xi| |v - w| <= (1/(2 eta) - B/2) |v - w|^2 + eta |xi|^2, as 1/(2 eta) - B/2 >= 1/(4 eta). So

    E F(average) - F* <= D^2/(2 eta T) + eta V/b = D sqrt(2 V/n)  at  eta = D/sqrt(2 T V/b),  or  D^2 B/T + V/(2 B b)  at  1/(2 B):

steps are longer by G/sqrt(V/b), and T = 1000 rounds are enough for every n.

Source: 000, section 5.1, cites the method (Duchi, Jordan and Wainwright 2018) by its rate and gives no step; the one above is ours.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.gradients import norm
from dpspec.algorithms.nldp_erm import ldp_mean as reports
from dpspec.algorithms.objective import Objective
from dpspec.algorithms.sets import Vector, constraint_set
from dpspec.models.door import Door, Told
from dpspec.models.features import Feature
from dpspec.models.round_features import MarginGradient
from dpspec.models.rows import Rows
from dpspec.numeric.slopes import SLOPES
from dpspec.privacy.channels.protocol import Channel
from dpspec.privacy.schedule import Disjoint, Draw, Tree
from dpspec.symbolic.losses import Named, recognise
from dpspec.symbolic.margin import MarginLoss

_EVIDENCE = "tests/algorithms/nldp_erm/test_interactive_ldp_sgd.py::"

POPULATION = "projected descent on fresh users, D sqrt(G^2/T + V/n)"
SMOOTH = "projected descent on a smooth loss, D^2/(2 eta T) + eta V T/n"

#: V T/n, about: (pi/2) d L^2 coth(epsilon/2)^2 T/n of the hemisphere.
_NOISE = "d*length^2*1.6*(1 + 2/epsilon)^2*T/n"
_STEPS = (
    f"min(1/(2*(B + lam)), reach/sqrt(2*T*({_NOISE})))",
    f"min(1/(2*B), reach/sqrt(2*T*({_NOISE})))",
    f"reach/sqrt(T*(length^2 + {_NOISE}))",
)

CARD = Card(
    id="interactive-ldp-sgd",
    title="Stochastic gradient descent with one private gradient a user",
    family="nldp_erm",
    task="minimise",
    models=("sldp",),
    guarantees=("pure", "approx", "zcdp", "gdp"),
    sources=(Source("000", "5.1", "sequentially interactive LDP SGD (cited)", ("line on n = O(d/(epsilon^2 alpha^2))",)),),
    summary="Disjoint batches of users, each sending its gradient once through an unbiased channel; projected steps, averaged.",
    needs=(
        Need(
            "x",
            "privacy",
            "the gradient has l2 norm at most `length`",
            enforced_by="each client scales its gradient into the channel's ball",
        ),
        Need(
            "y",
            "privacy",
            "the gradient has l2 norm at most `length`",
            enforced_by="each client scales its gradient into the channel's ball",
        ),
        Need("lipschitz", "utility", "gradients are no longer than `length`"),
        Need("convex", "utility", "the loss is convex in w"),
    ),
    options={"channel": ("auto", "one-bit", "priv-unit", "hemisphere", "gaussian")},
    tunables={
        "length": Tunable(
            "L else 1", "the certified Lipschitz constant; 1 as in 000 where there is none, and clients clip", minimum=1e-250, maximum=1e150
        ),
        "reach": Tunable("w_radius else 2*L/B else 1", "D, the distance to cover: the set's radius, else twice the scale L/B of a weight"),
        "T": Tunable("min(n, 1000, max(10, ceil(n*min(epsilon, 1)^2/d)))", "makes G^2/T as small as V/n; more rounds cost time", True, 1),
        "eta": Tunable(
            " else ".join(_STEPS),
            "D/sqrt(2 T V/b), at most 1/(2 B), of a smooth loss; else D/sqrt(T (G^2 + V/b)); V of the hemisphere, about",
            minimum=0.0,
        ),
    },
    bounds=(
        Bound(
            "excess-population-risk",
            "explicit",
            "upper",
            "reach^2/(2*eta*T) + eta*(slope^2 + variance/m)/2",
            "proved",
            POPULATION,
            conditions="in expectation; independent records of one law; slope = L + lam*Q, variance of a report; reach covers the distance",
            where={"slope": "L + lam*Q, Q the largest |w|", "variance": "second moment of a report", "m": "users of a step, floor(n/T)"},
        ),
        Bound(
            "excess-population-risk",
            "explicit",
            "upper",
            "reach^2/(2*eta*T) + eta*variance/m",
            "proved",
            SMOOTH,
            conditions="in expectation; independent records of one law; eta <= 1/(2*B), B with the ridge; reach covers the distance",
            where={"variance": "second moment of a report", "m": "users of a step, floor(n/T)"},
        ),
        Bound(
            "excess-population-risk",
            "order",
            "upper",
            "C*reach*length*(sqrt(d)/(epsilon*sqrt(n)) + 1/sqrt(T))",
            "proved",
            "the same at its step, epsilon <= 1",
            when=("epsilon <= 1",),
        ),
        Bound(
            "excess-empirical-risk",
            "order",
            "upper",
            "C*reach*length*(sqrt(d)/(epsilon*sqrt(n)) + 1/sqrt(T) + sqrt(d/n))",
            "proved",
            "the same and uniform convergence of a Lipschitz loss over the set",
            conditions="in expectation; independent records of one law, epsilon <= 1",
            when=("epsilon <= 1",),
        ),
        Bound(
            "excess-population-risk",
            "order",
            "lower",
            "C*reach*length*sqrt(d)/(epsilon*sqrt(n))",
            "claimed",
            "000 section 5.1 (Duchi, Jordan and Wainwright 2018): n = O(d/(epsilon^2 alpha^2)) is optimal for one answer a user",
        ),
    ),
    faults=(
        Fault(
            "000 section 5.1: the rate of the method, for 1-Lipschitz losses",
            "no client clips in the text: a record whose gradient is longer would break the channel; every client scales into the ball",
            _EVIDENCE + "test_a_gradient_of_any_length_stays_within_the_channel",
            "privacy",
        ),
    ),
    cost={"gradients": "n", "rounds": "T", "bits_per_user": "64*d", "memory_bytes": "8*8192*features"},
    reads="parts",
    spec="specs/nldp_erm/interactive-ldp-sgd.dps",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    if p.loss is None:
        return "the loss has no certificate"
    if not p.loss.smooth_penalty:
        return "its steps know a ridge term, and no l1 or group term"
    if p.n < t.T:
        return f"T = {t.T} batches need at least as many users"
    if t.channel == "auto" or t.channel in offered(p, t):
        return None
    return f"channel = {t.channel} does not go with this budget and d = {p.d}; {' or '.join(offered(p, t))} do"


def offered(p: Problem, t: Tunables) -> tuple[str, ...]:
    """The channels of ldp-mean for vectors of an l2 ball, and for numbers."""
    return tuple(word for word in reports.offered(p, t) if word in ("one-bit", "priv-unit", "hemisphere", "gaussian"))


def channel_of(p: Problem, t: Tunables) -> Channel:
    """The channel of the option, of least second moment where it is open."""
    ball = Tunables({**t, "r": t.length, "half": t.length})
    words = offered(p, t) if t.channel == "auto" else (str(t.channel),)
    made = [(reports.channel_of(word, p, ball), reports.level_of(word, p)) for word in words]
    return min(made, key=lambda pair: reports.second_moment(pair[0], pair[1], ball))[0] if len(made) > 1 else made[0][0]


def schedule(p: Problem, t: Tunables) -> Tree:
    return Disjoint(Draw("gradient", channel_of(p, t), per="user"), t.T)


def run(records: Rows, p: Problem[Objective], t: Tunables, release: Door) -> Estimate:
    assert p.loss is not None
    over = constraint_set(p.task.over, p.facts)
    w, later = over.start(p.d), long_steps(p, t)
    total = np.zeros(p.d)
    for x, y in records.rounds(t.T):  # disjoint users
        g = np.ravel(release.mean_blocks("gradient", Told(gradients(x, y, w, p.objective), {"w": w})))
        new = over.project(w - t.eta * (g + p.loss.l2 * w))
        total += new if later else w
        w = new
    return Estimate(over.project(total / t.T))


def long_steps(p: Problem, t: Tunables) -> bool:
    """Whether the bound of smooth losses holds: it is about the ends of the steps, the other one about their starts."""
    assert p.loss is not None
    return bool(p.loss.convex and 2 * t.eta * (p.loss.smooth + p.loss.l2) <= 1 + 1e-12)


def gradients(x: Any, y: Vector, w: Vector, objective: Objective, rows: int = 8192) -> Iterator[Vector]:
    """What the clients of one batch hold before the channel, in blocks (users, d). Each row looks at one record only."""
    for start in range(0, x.shape[0], rows):
        block = x[start : start + rows]
        dense = np.asarray(block if isinstance(block, np.ndarray) else block.toarray())
        with np.errstate(all="ignore"):  # what leaves the doubles is the gradient 0 to the channel
            slope = objective.slope(dense @ w, y[start : start + rows])
            yield dense * slope[:, None]


def client(p: Problem[Objective], t: Tunables) -> dict[str, Feature]:
    """Of a named loss; of any other there is none, since a device has no expressions."""
    named = named_of(p.objective)
    if named is None:
        return {}
    return {"gradient": MarginGradient(named.name, tuple(map(float, named.params)), named.family, float(named.factor))}


def named_of(objective: Objective) -> Named | None:
    """The named loss whose slope the objective evaluates by its direct formula, which a device has too."""
    loss = getattr(objective.slope, "__self__", None)
    found = recognise(loss.form) if isinstance(loss, MarginLoss) and loss.direct[1] is not None else None
    return found if found is not None and found.name in SLOPES else None


# --------------------------------------------------------------------------------------------------- what is known beforehand


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    """The bound in expectation, where nothing is clipped and the set is bounded or the reach stated."""
    assert p.loss is not None
    over = constraint_set(p.task.over, p.facts)
    covered = over.distance_bound(p.d)
    if not (p.loss.convex and over.convex and math.isfinite(covered) and t.reach >= covered * (1 - 1e-12)):
        return {}
    if not t.length >= p.loss.lipschitz * (1 - 1e-12):
        return {}
    if long_steps(p, t):
        return {SMOOTH: _bound(p, t, calibrated, 0.0)}
    far = max(over.diameter(p.d), norm(over.start(p.d)) + covered)  # no w of the set is longer, wherever it lies
    return {POPULATION: _bound(p, t, calibrated, p.loss.lipschitz + p.loss.l2 * far)}


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    assert p.loss is not None
    over = constraint_set(p.task.over, p.facts)
    far = max(over.diameter(p.d), norm(over.start(p.d)) + over.distance_bound(p.d))
    ball = Tunables({**t, "r": t.length, "half": t.length})
    variance = reports.second_moment(calibrated.tree.body.mechanism, calibrated.levels["gradient"], ball)
    names = {"variance": variance, "m": p.n // t.T}
    return {SMOOTH: names, POPULATION: {**names, "slope": p.loss.lipschitz + p.loss.l2 * far}}


def _bound(p: Problem, t: Tunables, calibrated: Any, slope: float) -> float:
    ball = Tunables({**t, "r": t.length, "half": t.length})
    variance = reports.second_moment(calibrated.tree.body.mechanism, calibrated.levels["gradient"], ball) / (p.n // t.T)
    return float(t.reach**2 / (2 * t.eta * t.T) + t.eta * (variance if long_steps(p, t) else (slope**2 + variance) / 2))


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """A quarter of the bound: gradients shrink on the way."""
    return _bound(p, t, calibrated, t.length) / 4
