"""Mean of records with two moments: the trimmed and clipped mean with noise at its smooth sensitivity (central model).

    coordinate j: f_j = the mean of x_1j..x_nj without the m least and the m largest, clipped to [low, high];   release f_j + S_j T/s,

T of Student's law with 3 degrees of freedom, S_j the exact smooth sensitivity of f_j (:mod:`dpspec.algorithms.heavy_tailed._trimmed`): at
least the local one, at most e^t times that of a neighbour, t = ``smoothing``. A draw spends 2 s/sqrt(3) + 3 t; d coordinates are d draws on
the same records.

Source: 000, section 3.2.4, Algorithm 3.2.6, Theorem 3.2.3 (Bun and Steinke 2019). Differences: the exact smooth sensitivity in the place of
max((x_(n) - x_(1))/(n - 2m), e^(-m t)(high - low)), which is not smooth; Student's law for sinh of a normal: pure, with 1.8 times less
noise; m grows with log(n (high - low)/sigma)/t, printed O(1) or 0.05 n; NaN and infinities are numbers before they are sorted. The range
of the mean follows from the declared moment, |E x_j| <= (E |x_j|^k)^(1/k).

The documents' bound on the mean squared error, O(sigma^2 log n/(n epsilon^2)), is in expectation and has no constants: claimed.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate, Published
from dpspec.algorithms.heavy_tailed import _trimmed as trimmed
from dpspec.algorithms.sets import constraint_set
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.mechanisms.smooth_sensitivity import SmoothStudent
from dpspec.privacy.schedule import Draw, Repeat, Tree

_EVIDENCE: Final = "tests/algorithms/heavy_tailed/test_dp_trimmed_mean.py::"
_ROOT: Final = "(sqrt(log(1/delta) + epsilon) - sqrt(log(1/delta)))"

SMOOTH_FAULTS: Final = (
    Fault(
        "000 Algorithm 3.2.6, step 1: the noise is scaled by max((x_(n) - x_(1))/(n - 2m), e^(-m t)(b - a))",
        "that bounds the smooth sensitivity and is not smooth: one record at 1e6 takes it from 0.044 to 1111, and outputs beyond 50 from "
        "probability 2e-10 to 0.99",
        _EVIDENCE + "test_the_printed_scale_is_not_smooth",
        "privacy",
    ),
    Fault(
        "000 Algorithm 3.2.6: numbers are sorted as they are",
        "of two infinities the range is NaN, and so is the output: an event of probability 1 under a record and 0 under its neighbour",
        _EVIDENCE + "test_two_infinite_numbers_make_the_printed_output_nan",
        "privacy",
    ),
    Fault(
        "000 Algorithm 3.2.6: m = O(1); section 3.2.5: m = 0.05 n",
        "with m constant e^(-m t)(b - a) and so the noise do not fall with n; with m a share of n nor does the bias of skewed laws",
        _EVIDENCE + "test_a_constant_number_of_trimmed_records_keeps_the_noise",
        "utility",
    ),
)

CARD = Card(
    id="dp-trimmed-mean",
    title="Trimmed mean with noise at its smooth sensitivity",
    family="heavy_tailed",
    task="mean",
    models=("central",),
    guarantees=("pure", "approx", "zcdp"),
    sources=(Source("000", "3.2.4", "Algorithm 3.2.6", ("Theorem 3.2.3", "Lemma 3.2.7", "Lemma 3.2.8")),),
    summary="Each coordinate without its extreme records, clipped to a public range; the noise follows the records, exactly and smoothly.",
    needs=(
        Need(
            "x",
            "privacy",
            "one record changes f by at most S, and S by at most e^t",
            enforced_by="trimming, and the range that f is clipped to",
        ),
        Need("moment", "utility", "the mean of a coordinate lies in [low, high] and its variance is at most tau"),
    ),
    tunables={
        "tau": Tunable(
            "moment_bound_x^(2/moment_order_x) else moment_bound^(2/moment_order) else x_linf^2",
            "second moment of a coordinate, from the declared moment of order 2 or more (Jensen)",
            minimum=1e-300,
        ),
        "high": Tunable("sqrt(tau)", "|E x_j| <= sqrt(E x_j^2)"),
        "low": Tunable("-high", "the other end of the range of the means; 000: a <= mu <= b known"),
        "each": Tunable(
            f"sqrt(2*rho/d) else max(epsilon/d, sqrt(2/d)*{_ROOT}) else epsilon/d",
            "epsilon of a coordinate, at most what the budget buys d times; tunes",
            minimum=1e-12,
        ),
        "smoothing": Tunable("each/6", "half of a coordinate's epsilon for the dilation; 000: epsilon^2/16", minimum=1e-300),
        "m": Tunable(
            "min(floor((n - 1)/3), ceil(log(n*(high - low)/sqrt(tau))/smoothing))",
            "e^(-m*t)*(high - low) at most sigma/n; 000: O(1)",
            integer=True,
            minimum=0,
        ),
    },
    bounds=(
        Bound(
            "l2-error",
            "order",
            "upper",
            "C*sqrt(tau*d*log(n)/n)*d/epsilon",
            "claimed",
            "000 Theorem 3.2.3, the root of the mean squared error, d coordinates that share a pure budget",
            conditions="the means lie in [low, high], n >= 2*m of the text",
            regime="C*d*log(n)/epsilon",
        ),
    ),
    faults=(
        *SMOOTH_FAULTS,
        Fault(
            "000 Theorem 3.2.3: n >= log((n (b - a)/sigma)/epsilon)",
            "1/epsilon stands outside of the logarithm (m of them are trimmed at either end), and 1/epsilon^2 with t = epsilon^2/16",
            _EVIDENCE + "test_the_records_that_are_trimmed_grow_with_the_inverse_budget",
            "text",
        ),
    ),
    cost={"gradients": "0", "rounds": "d", "memory_bytes": "8*n*(d + 4)"},
    spec="specs/heavy_tailed/dp-trimmed-mean.dps",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    if p.task.what != "mean":
        return f"it estimates mean(x), not {p.task.what}(x)"
    order = p.facts.get("moment_order_x", p.facts.get("moment_order", 2.0))
    if order < 2:
        return "its range and its error need a second moment, and the declared one is of a lower order"
    return refused(p, t)


def refused(p: Problem, t: Tunables) -> str | None:
    """What the exact smooth sensitivity and its noise need."""
    if p.neighbours == "add-remove":
        return "how many records are left after trimming has to be public (neighbours replace-one or zero-out)"
    if not (math.isfinite(t.low) and t.low < t.high < 1e100 and t.low > -1e100):
        return f"the range [{t.low:g}, {t.high:g}] of the means has to be an interval of moderate numbers"
    if p.n <= 2 * t.m:
        return f"m = {t.m} records are trimmed at either end, and there are n = {p.n}"
    if t.smoothing < trimmed.LEAST:
        return f"smoothing = {t.smoothing:g} is below 2^-16, where rounding would count (more budget, or fewer releases)"
    if t.m * t.smoothing > trimmed.FARTHEST:
        return f"e^(-m*smoothing) is beyond the range of doubles (m = {t.m}, smoothing = {t.smoothing:g})"
    return None


def mechanism(t: Tunables) -> SmoothStudent:
    """Outputs are multiples of 2^-30 of the range, rounded to a power of two."""
    return SmoothStudent(t.smoothing, 2.0 ** math.floor(math.log2(t.high - t.low) - 30))


def uncertain(p: Problem, t: Tunables, calibrated: Any) -> str | None:
    level = float(calibrated.levels["coordinate"])
    if 3 * t.smoothing >= level:
        return f"smoothing = {t.smoothing:g} spends all of a coordinate's epsilon {level:g} (at most a third of it)"
    return None


def schedule(p: Problem, t: Tunables) -> Tree:
    return Repeat(Draw("coordinate", mechanism(t)), p.d)


def run(records: Rows, p: Problem, t: Tunables, release: Door) -> Estimate:
    x = np.concatenate([b if isinstance(b, np.ndarray) else b.toarray() for b, _ in records.blocks()])
    return Estimate(constraint_set(p.task.over, p.facts).project(noisy(x, t, release)))


def noisy(x: Any, t: Tunables, release: Door) -> Any:
    """A draw for each column of ``x``."""
    means = [
        release.draw("coordinate", trimmed.released(x[:, j], t.m, t.smoothing, t.low, t.high), sensitivity=t.smoothing)
        for j in range(x.shape[1])
    ]
    return np.array([float(np.ravel(v)[0]) for v in means])


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """l2 error: the spread, a share of trimmed records' weight, and noise at sqrt(n tau)/n, which order statistics of two moments reach."""
    sigma = math.sqrt(t.tau)
    bound = max((t.high - t.low) * math.exp(-t.m * t.smoothing), 2 * sigma * math.sqrt(p.n / (t.m + 1)) / (p.n - 2 * t.m))
    noise = calibrated.scale("coordinate") * math.sqrt(3) * bound
    return math.sqrt(p.d) * math.sqrt(t.tau / p.n + t.tau * t.m / p.n / 4 + noise**2)


def published(p: Problem, t: Tunables, budget: Any) -> tuple[Published, ...]:
    """Algorithm 3.2.6's noise at this m, each coordinate at its share of the budget."""
    whole = printed_budget(budget)
    return () if whole is None else (unsmooth("000 Algorithm 3.2.6", t, whole / math.sqrt(p.d), "epsilon"),)


def printed_budget(budget: Any) -> float | None:
    """epsilon~ of epsilon~^2/2-zCDP: of a budget with a delta by 000, Lemma 3.2.6 (the radical over both terms). None: nothing is
    printed."""
    if budget.kind == "zcdp":
        return math.sqrt(2 * float(budget.rho))
    if budget.kind != "approx":
        return None
    log = 2 * math.log(1 / float(budget.delta_exact))
    return math.sqrt(log + 2 * float(budget.epsilon_exact)) - math.sqrt(log)


def scale_of_equal_records(t: Tunables, each: float) -> float:
    """Standard deviation of S sinh(N(0, 1))/s at t = each^2/16, s = each/4, where all numbers are equal: S = e^(-m t) (high - low)."""
    return float((t.high - t.low) * math.exp(-t.m * each**2 / 16) * 4 / each * math.sqrt((math.e**2 - 1) / 2))


def unsmooth(source: str, t: Tunables, each: float, name: str) -> Published:
    """The printed noise of one draw at ``each``, its share of the budget in zCDP. One record at a distance R makes the scale R/n while the
    released number stands where it was: outputs beyond any point go from a probability below any delta to one near 1."""
    return Published(
        source,
        "coordinate",
        f"4*S*sinh(N(0, 1))/{name}, S = max((x_(n) - x_(1))/(n - 2*m), e^(-m*{name}^2/16)*(high - low))",
        scale_of_equal_records(t, each),
        math.inf,
        "shown where all records are equal; one record far away multiplies it without a bound",
    )
