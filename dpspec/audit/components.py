"""Mechanism models: what one event of a description proves, from above and from below.

A component carries an upper bound that holds for every function with the stated sensitivity, and a lower bound attained by one pair
of neighbours. Additive noise on queries of the stated sensitivities attains its bound jointly: the description fixes the sensitivities and
nothing else, so the worst case over what it describes is one record that moves every query by its sensitivity in the same direction.
Steps known only through their own guarantee (``pure``, ``approx``, ``zcdp``) have no lower bound, except when a tool that composes
such guarantees is audited: then every mechanism of the class counts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpspec.audit.deployment import Event
from dpspec.audit.numerics import (
    Array,
    Atoms,
    GaussianPair,
    Joined,
    LaplacePair,
    Pair,
    Reversed,
    Subsampled,
    SubsampledReplace,
    approximate,
    cells,
    laplace_cdf,
    quadrature,
    randomized_response,
    renyi,
)
from dpspec.audit.vocabulary import REPLACING


@dataclass(frozen=True, slots=True)
class Breach:
    """An event of probability ``delta`` under one data set and zero under a neighbour: no finite epsilon below that delta."""

    code: str
    delta: float
    why: str


@dataclass(frozen=True, slots=True)
class Component:
    """``pure``, ``rho``, ``slack``, ``mu`` and the pairs are those of one use; ``count`` uses compose.

    ``pure``: upper bound on epsilon at delta 0; ``pure_at_least``: a log-ratio that neighbours attain jointly with the other components.
    ``slack``: probability of failure to be added to delta. ``mu``: exactly a Gaussian release with that shift. ``over`` dominates both
    directions (the other one is its reverse); ``under`` is a real pair. ``unknown``: why no upper bound is known. ``assumes``: the
    condition that the upper bound rests on and the description leaves open.
    """

    what: str
    count: int = 1
    pure: float = math.inf
    pure_at_least: float = 0.0
    slack: float = 0.0
    rho: float = math.inf
    rho_at_least: float = 0.0
    mu: float | None = None
    over: Pair | None = None
    under: Pair | None = None
    breach: Breach | None = None
    unknown: str = ""
    assumes: str = ""
    how: str = ""


_NOTHING = Component("nothing", pure=0.0, rho=0.0)


@dataclass(frozen=True, slots=True)
class Context:
    neighbouring: str
    worst_case: bool = False  # the class of mechanisms counts (composition tools)

    @property
    def replacing(self) -> bool:
        return self.neighbouring in REPLACING


def components(event: Event, context: Context) -> list[Component]:
    """The components of one event, its ``count`` and contributions included."""
    draws = event.number("draws")
    if event.count == 0:
        return [_NOTHING]
    if draws is not None and draws < event.count:
        why = f"{event.count} uses are charged and {draws:g} noise drawn: composition needs fresh noise at every use"
        return [Component(event.what, unknown=why, how="DP633")]
    flaw = _flaw(event)
    if flaw is not None:
        return [flaw]
    model = _MODELS.get(event.kind)
    if model is None:
        return [
            Component(
                str(event.fields.get("type", event.kind)), unknown=f"no model for {event.fields.get('type', event.kind)!r}", how="DP673"
            )
        ]
    try:
        found = model(event, context)
    except _Missing as missing:
        return [Component(event.what, unknown=f"{event.what}: {missing} is not stated", how="DP605")]
    group = event.number("contributions")
    if event.fields.get("contributions") in ("unknown", "unbounded"):
        found = [replace(c, assumes="every unit contributes one record", how=c.how or "DP629") for c in found]
    elif group is not None and group > 1:
        found = [_grouped(c, group) for c in found]
    if event.kind == "noisy_max" and event.number("decay"):
        return found
    return [replace(c, count=c.count * event.count) for c in found]


class _Missing(Exception):
    pass


def _flaw(event: Event) -> Component | None:
    """Faults that void a noise event whatever its scale."""
    if event.fields.get("scale_from") in ("data", "from-data", "private"):
        why = f"{event.what}: the noise scale is computed from the protected records; constant records give scale 0 and a sure output"
        return Component(event.what, breach=Breach("DP621", 1.0, why))
    if event.fields.get("clip") in ("none", "copy", "missing"):
        why = f"{event.what}: records are not clipped, so one record moves the released value without bound"
        return Component(event.what, breach=Breach("DP622", 1.0, why))
    if event.fields.get("arithmetic") in ("float64", "double") and event.kind in ("laplace", "gaussian"):
        gaussian = event.kind == "gaussian"
        top = event.number("l2_sensitivity" if gaussian else "l1_sensitivity", "sensitivity", "clip_norm", "norm_bound") or 0.0
        delta = float64_gap(top, event.number("sigma" if gaussian else "scale") or 0.0, event.kind)
        if delta > 0:
            why = f"{event.what}: {event.kind} noise in IEEE doubles; outputs near 0 that are no multiple of the spacing at the sensitivity"
            return Component(event.what, breach=Breach("DP625", delta, why + " occur under one input and never under its neighbour"))
    return None


def float64_gap(sensitivity: float, scale: float, law: str = "laplace") -> float:
    """Probability that 0 + noise falls near 0 on a double that sensitivity + noise cannot give.

    D + noise lies near 0 only when the noise lies near -D, where doubles have a spacing u of about D 2^-52, so that the sum is a multiple
    of u. Noise in [2^m, 2^(m+1)) has spacing 2^(m-52); one double in u 2^(52-m) of them is a multiple of u.
    """
    if sensitivity <= 0 or scale <= 0 or not math.isfinite(sensitivity / scale):
        return 0.0
    mantissa, k = math.frexp(sensitivity)
    k -= 1  # 2^k <= D < 2^(k+1)
    power = mantissa == 0.5
    unit = k - 53 if power else k - 52
    reach = sensitivity / 4 if power else min(sensitivity / 4, sensitivity - 2.0**k, 2.0 ** (k + 1) - sensitivity)

    def within(x: float) -> float:  # P(|noise| < x)
        return math.erf(x / (scale * math.sqrt(2))) if law == "gaussian" else -math.expm1(-x / scale)

    total, m = 0.0, math.frexp(reach)[1] - 1
    for j in range(m, m - 60, -1):
        share = 1 - 2.0 ** (j - 52 - unit)
        if share > 0:
            total += (within(min(2.0 ** (j + 1), reach)) - within(min(2.0**j, reach))) * share
    return total


def _grouped(c: Component, m: float) -> Component:
    """The same component for a unit of ``m`` records."""
    if c.mu is not None:
        return _gaussian(c.what, c.mu * m, c.count)
    if isinstance(c.over, LaplacePair):
        return _laplace(c.what, c.over.epsilon * m, c.count)
    if math.isfinite(c.pure) and c.slack == 0:
        return Component(c.what, c.count, pure=c.pure * m, rho=c.rho * m * m, over=randomized_response(c.pure * m), how=c.how)
    return replace(
        c, unknown=f"{c.what}: group privacy for {m:g} records needs a pure or Gaussian step", over=None, pure=math.inf, rho=math.inf
    )


# ------------------------------------------------------------------------------------------------------------ additive noise


def _gaussian(what: str, mu: float, count: int = 1) -> Component:
    if mu == 0:
        return Component(what, count, pure=0.0, rho=0.0, mu=0.0)
    if math.isinf(mu):
        return Component(what, count, breach=Breach("DP620", 1.0, f"{what}: no noise for a positive sensitivity"))
    rho = mu * mu / 2
    return Component(what, count, pure_at_least=math.inf, rho=rho, rho_at_least=rho, mu=mu, over=GaussianPair(mu), under=GaussianPair(mu))


def _laplace(what: str, epsilon: float, count: int = 1) -> Component:
    if epsilon == 0:
        return Component(what, count, pure=0.0, rho=0.0)
    if math.isinf(epsilon):
        return Component(what, count, breach=Breach("DP620", 1.0, f"{what}: no noise for a positive sensitivity"))
    pair = LaplacePair(epsilon) if epsilon < 500 else None
    # KL of the pair is epsilon + exp(-epsilon) - 1, the order-1 value of D_a/a, hence a lower bound on rho
    low = epsilon + math.expm1(-epsilon)
    return Component(what, count, pure=epsilon, pure_at_least=epsilon, rho=epsilon**2 / 2, rho_at_least=low, over=pair, under=pair)


def _sum_sensitivity(event: Event, context: Context, *names: str) -> float:
    stated = event.number(*names)
    if stated is not None:
        return stated
    clip = event.number("clip_norm", "norm_bound")
    if clip is None:
        raise _Missing(f"{names[0]} (or clip_norm)")
    return 2 * clip if context.replacing else clip


def _laplace_sensitivity(event: Event, context: Context) -> float:
    return _sum_sensitivity(event, context, "l1_sensitivity", "sensitivity")


def gaussian_shift(event: Event, context: Context) -> float:
    """mu of one Gaussian event; infinite when it carries no noise."""
    mu, rho = event.number("mu"), event.number("rho")
    noise = event.number("sigma", "variance", "noise_multiplier")
    if noise is None and mu is not None:
        return mu
    if noise is None and rho is not None:
        return math.sqrt(2 * rho)
    multiplier = event.number("noise_multiplier")
    sigma, variance = event.number("sigma"), event.number("variance")
    if sigma is None and variance is not None:
        sigma = math.sqrt(variance)
    if sigma is None:
        if multiplier is None:
            raise _Missing("sigma")
        clip, stated = event.number("clip_norm", "norm_bound"), event.number("l2_sensitivity", "sensitivity")
        # the multiplier is noise over norm bound; without a norm bound it is noise over sensitivity
        if stated is not None and clip is not None:
            top = stated / clip
        elif stated is not None:
            top = stated
        else:
            top = 2.0 if context.replacing else 1.0
        return math.inf if multiplier == 0 and top > 0 else 0.0 if top == 0 else top / multiplier
    top = _sum_sensitivity(event, context, "l2_sensitivity", "sensitivity")
    if top == 0:
        return 0.0
    return math.inf if sigma == 0 or math.isinf(top) else top / sigma


def _model_gaussian(event: Event, context: Context) -> list[Component]:
    return [_gaussian(event.what, gaussian_shift(event, context))]


def _model_discrete_gaussian(event: Event, context: Context) -> list[Component]:
    mu = gaussian_shift(event, context)
    sigma, top = event.number("sigma"), event.number("l2_sensitivity", "sensitivity")
    whole = _gaussian(event.what, mu)
    if sigma is None or top is None or not 0 < sigma < 20 or top != int(top):
        # wide discrete Gaussians agree with the continuous one to exp(-2 pi^2 sigma^2)
        return [whole]
    half = math.ceil(sigma * 12 + top)
    x = np.arange(-half, half + 1, dtype=float)
    weight = np.exp(-(x**2) / (2 * sigma**2))
    weight /= weight.sum()
    p, q = np.zeros(x.size + int(top)), np.zeros(x.size + int(top))
    q[: x.size], p[int(top) :] = weight, weight
    keep = (p > 0) & (q > 0)
    pair = Atoms(tuple(p[keep]), tuple(q[keep]))
    return [Component(event.what, pure_at_least=math.inf, rho=mu * mu / 2, over=pair, under=pair)]


def _laplace_scale(event: Event, sensitivity: float) -> float:
    scale, epsilon, multiplier = event.number("scale"), event.number("epsilon"), event.number("noise_multiplier")
    if scale is not None:
        return scale
    if epsilon is not None:
        return math.inf if epsilon == 0 else sensitivity / epsilon
    if multiplier is not None:
        return multiplier * (event.number("clip_norm", "norm_bound") or 1.0)
    raise _Missing("scale")


def _ratio(sensitivity: float, scale: float) -> float:
    return 0.0 if sensitivity == 0 else math.inf if scale == 0 or math.isinf(sensitivity) else sensitivity / scale


def _model_laplace(event: Event, context: Context) -> list[Component]:
    if event.number("epsilon") is not None and event.number("l1_sensitivity", "sensitivity", "clip_norm", "norm_bound") is None:
        return [_laplace(event.what, event.number("epsilon") or 0.0)]
    top = _laplace_sensitivity(event, context)
    epsilon = _ratio(top, _laplace_scale(event, top))
    whole = _laplace(event.what, epsilon)
    vote = event.fields.get("vote")
    if isinstance(vote, Mapping) and math.isfinite(epsilon):
        low, high, threshold = (float(vote[k]) for k in ("low", "high", "threshold"))
        exact, pair = vote_loss(low, high, top, _laplace_scale(event, top), threshold)
        return [
            replace(whole, pure=exact, pure_at_least=exact, rho=exact**2 / 2, rho_at_least=0.0, over=randomized_response(exact), under=pair)
        ]
    if event.fields.get("folded") and math.isfinite(epsilon):
        # |f + Lap(b)| near 0: both branches meet, and the densities for f = 0 and f = Delta differ by exp(Delta/b) exactly
        return [replace(whole, under=None, rho_at_least=0.0, how="folding is post-processing and loses nothing at output 0")]
    return [whole]


def vote_loss(low: float, high: float, sensitivity: float, scale: float, threshold: float) -> tuple[float, Atoms]:
    """Exact epsilon of the bit [x + Lap(scale) > threshold] for counts x in [low, high] that neighbours move by up to ``sensitivity``."""
    gap = min(sensitivity, high - low)

    def log_tail(z: float) -> float:  # ln P(Lap(1) > z)
        return -z - math.log(2) if z >= 0 else math.log1p(-math.exp(z) / 2)

    best, pair = 0.0, Atoms((0.5, 0.5), (0.5, 0.5))
    starts = {low, high - gap, *(min(max(threshold - s * gap, low), high - gap) for s in (0.0, 0.25, 0.5, 0.75, 1.0))}
    starts |= set(np.linspace(low, high - gap, 65).tolist())
    for x in sorted(starts):
        a, b = (threshold - x) / scale, (threshold - x - gap) / scale
        up, down = log_tail(b) - log_tail(a), log_tail(-a) - log_tail(-b)
        if max(up, down) > best:
            best = max(up, down)
            pair = Atoms((math.exp(log_tail(b)), math.exp(log_tail(-b))), (math.exp(log_tail(a)), math.exp(log_tail(-a))))
    return best, pair


def _model_discrete_laplace(event: Event, context: Context) -> list[Component]:
    """Two-sided geometric noise, P(x) ~ exp(-|x|/scale) on integers: the largest loss has more mass than under continuous noise."""
    (whole,) = _model_laplace(event, context)
    if whole.breach is not None or whole.pure == 0:
        return [whole]
    stated = event.number("l1_sensitivity", "sensitivity", "clip_norm", "norm_bound")
    top = 0.0 if stated is None else _laplace_sensitivity(event, context)
    if top != int(top) or not 1 <= top <= 10_000 or whole.pure > 500:
        return [replace(whole, over=randomized_response(whole.pure) if whole.pure < 500 else None, under=None)]
    ratio = math.exp(-whole.pure / top)
    at_zero = (1 - ratio) / (1 + ratio)
    inside = at_zero * ratio ** np.arange(1, int(top))  # between the two centres, from the nearer one
    end, far = 1 / (1 + ratio), ratio ** int(top) / (1 + ratio)  # at or beyond the own centre; at or beyond the other one
    q = (end, *inside.tolist(), far)
    pair = Atoms(q[::-1], q)
    return [replace(whole, over=pair, under=pair)]


def _model_laplace_threshold(event: Event, context: Context) -> list[Component]:
    top = _laplace_sensitivity(event, context)
    scale = _laplace_scale(event, top)
    first = event.number("first_count") or 1.0  # the largest noiseless count of a key that only one unit has
    gap = ((event.number("threshold") or 0.0) - first) / scale if scale > 0 else math.inf
    appears = math.exp(-gap) / 2 if gap >= 0 else 1 - math.exp(gap) / 2
    keys = event.number("keys") or 1.0
    appears = -math.expm1(keys * math.log1p(-appears)) if appears < 1 else 1.0
    return [_with_key(_laplace(event.what, _ratio(top, scale)), appears)]


def _model_gaussian_threshold(event: Event, context: Context) -> list[Component]:
    from scipy.special import ndtr

    top, sigma = _sum_sensitivity(event, context, "l2_sensitivity", "sensitivity"), event.number("sigma") or 0.0
    first = event.number("first_count") or 1.0
    appears = float(ndtr(-((event.number("threshold") or 0.0) - first) / sigma)) if sigma > 0 else 0.0
    keys = event.number("keys") or 1.0
    appears = -math.expm1(keys * math.log1p(-appears)) if appears < 1 else 1.0
    whole = _gaussian(event.what, _ratio(top, sigma))
    return [replace(_with_key(whole, appears), mu=None)]


def _with_key(whole: Component, appears: float) -> Component:
    if whole.breach is not None:
        return whole
    why = f"{whole.what}: a key that only one unit has is published with probability {appears:.4g} and never without that unit"
    return replace(whole, slack=appears, breach=Breach("DP644", appears, why))


def _model_laplace_mean(event: Event, context: Context) -> list[Component]:
    n, width = event.number("n") or 0.0, event.number("range") or 0.0
    scale = event.number("scale")
    if scale is None:
        scale = width / (n * (event.number("epsilon") or math.nan))
    private = event.fields.get("n_public") is False and not context.replacing and context.neighbouring != "zero_out"
    if not private:
        return [_laplace(event.what, _ratio(width / n, scale))]
    # n zeros against n zeros and one record at the bound: centre and scale both move
    other_scale, other = scale * n / (n + 1), width / (n + 1)
    span = 60 * scale

    def p_cdf(x: Array) -> Array:
        return laplace_cdf(x, scale)

    def q_cdf(x: Array) -> Array:
        return laplace_cdf(x - other, other_scale)

    pair = cells(p_cdf, q_cdf, -span, span, 40001)
    why = f"{event.what}: the scale itself depends on the private number of records; the log-ratio grows linearly in the output"
    # delta 0: no finite epsilon. At delta > 0 the pair itself decides (delta_at)
    return [Component(event.what, pure_at_least=math.inf, under=pair, breach=Breach("DP623", 0.0, why))]


# --------------------------------------------------------------------------------------------------------------- selections


def _score(event: Event) -> float:
    value = event.number("linf_sensitivity", "score_sensitivity", "sensitivity")
    if value is None:
        raise _Missing("linf_sensitivity")
    return value


def _model_exponential(event: Event, context: Context) -> list[Component]:
    exponent = event.number("exponent")
    if exponent is not None:
        factor = 1.0 if event.fields.get("monotone") is True else 2.0
        epsilon = factor * exponent * _score(event)
    else:
        epsilon = event.number("epsilon") or 0.0
    if math.isinf(epsilon):
        return [Component(event.what, breach=Breach("DP620", 1.0, f"{event.what}: the choice is deterministic"))]
    # two groups of candidates of equal size, one moved up and one down
    return [
        Component(
            event.what,
            pure=epsilon,
            rho=epsilon**2 / 8,
            over=randomized_response(epsilon) if epsilon > 0 else None,
            under=randomized_response(epsilon / 2) if 0 < epsilon < 500 and event.number("candidates") != 1 else None,
            how="exponential mechanism: epsilon-DP and epsilon^2/8-zCDP (bounded range)",
        )
    ]


def half_win(candidates: int, gap: float, noise: str) -> float:
    """P(the largest noisy score lies in the raised half) when half of ``candidates`` scores are ``gap`` noise units above the rest."""
    half = max(candidates // 2, 1)
    if noise == "gumbel":
        return 1 / (1 + math.exp(-gap))
    if noise != "laplace":
        raise _Missing("a noise law that is modelled (laplace or gumbel)")

    def density(x: Array) -> Array:  # of the best of the raised half, times P(all others are below)
        log_cdf = np.where(x < 0, x - math.log(2), np.log1p(-np.exp(-np.abs(x)) / 2))
        y = x + gap
        log_other = np.where(y < 0, y - math.log(2), np.log1p(-np.exp(-np.abs(y)) / 2))
        return np.asarray(half * np.exp(-np.abs(x)) / 2 * np.exp((half - 1) * log_cdf + half * log_other), dtype=float)

    top = math.log(half) + 45.0
    knots = sorted({-45.0, -gap, 0.0, *np.linspace(-45.0, top, 60).tolist()})
    return quadrature(density, knots, 24)


def _model_noisy_max(event: Event, context: Context) -> list[Component]:
    top, scale = _score(event), event.number("scale") or 0.0
    if scale == 0:
        return [Component(event.what, breach=Breach("DP620", 1.0, f"{event.what}: no noise on the scores"))] if top > 0 else [_NOTHING]
    noise = str(event.fields.get("noise", "laplace"))
    candidates = event.number("candidates")
    factor = 1.0 if event.fields.get("monotone") is True else 2.0
    releases = event.fields.get("releases", "index")
    if releases in ("value", "both"):
        if noise != "laplace" or candidates is None:
            raise _Missing("candidates (and Laplace noise)")
        n = int(candidates)
        # left tail of the maximum: density ~ exp(n x/b); a shift of all queries by Delta gives exp(n Delta/b), the bound of n releases
        epsilon = n * top / scale
        return [
            Component(
                event.what,
                pure=epsilon,
                pure_at_least=epsilon,
                rho=epsilon**2 / 2,
                over=randomized_response(epsilon) if epsilon < 500 else None,
                under=_value_of_max(n, top / scale),
                how="the value of the largest noisy answer costs as much as all answers",
            )
        ]
    if candidates == 1:
        return [Component(event.what, pure=0.0, rho=0.0)]
    if noise not in ("laplace", "gumbel", "exponential"):
        raise _Missing("a noise law that is modelled (laplace, gumbel, exponential)")
    found = []
    for most, least, uses in _decaying(top, event.number("decay"), event.count):
        epsilon = factor * most / scale
        pair = None
        if noise in ("laplace", "gumbel"):
            # the raised half leads by half of the relative move under one data set and trails by it under the other
            # (a smaller move is allowed too; it keeps the losing probability far above the error of the quadrature)
            win = half_win(int(candidates or 2), min(factor / 2 * least / scale, 12.0), noise)
            pair = Atoms((win, 1 - win), (1 - win, win))
        found.append(
            Component(
                event.what,
                uses,
                pure=epsilon,
                pure_at_least=0.0 if pair is None else math.log(pair.p[0] / pair.p[1]),
                rho=epsilon**2 / 8 if noise == "gumbel" else epsilon**2 / 2,
                over=randomized_response(epsilon) if 0 < epsilon < 500 else None,
                under=pair,
            )
        )
    return found


def _decaying(top: float, decay: float | None, count: int) -> list[tuple[float, float, int]]:
    """(largest, smallest sensitivity, uses) of runs of a schedule top*(1-decay)^j, j < count; one run of one use without decay."""
    if not decay:
        return [(top, top, 1)]
    length = max(count // 100, 1)
    runs = []
    for start in range(0, count, length):
        stop = min(start + length, count)
        runs.append((top * (1 - decay) ** start, top * (1 - decay) ** (stop - 1), stop - start))
    return runs


def _value_of_max(n: int, gap: float) -> Atoms:
    """The largest of n Laplace variables against all of them moved by ``gap`` noise units."""

    def cdf(x: Array) -> Array:
        return laplace_cdf(x, 1.0) ** n

    return cells(lambda x: cdf(x - gap), cdf, -40.0, 45.0 + gap, 20001)


def permute_and_flip(scores: Sequence[float], exponent: float) -> Array:
    """Exact selection probabilities (McKenna and Sheldon 2020): candidates in random order, each accepted with exp(exponent*(q - q*))."""
    q = np.asarray(scores, dtype=float)
    accept = np.exp(exponent * (q - q.max()))
    total = np.zeros(q.size)
    orders = list(itertools.permutations(range(q.size)))
    for order in orders:
        left = 1.0
        for i in order:
            total[i] += left * accept[i]
            left *= 1 - accept[i]
    return total / len(orders)


def _model_permute_and_flip(event: Event, context: Context) -> list[Component]:
    top, scale, epsilon = _score(event), event.number("scale"), event.number("epsilon")
    if epsilon is None:
        epsilon = math.inf if not scale else 2 * top / scale
    if math.isinf(epsilon):
        return [Component(event.what, breach=Breach("DP620", 1.0, f"{event.what}: the choice is deterministic"))]
    exponent = min(epsilon / 2, 300.0)  # on scores in units of the sensitivity; beyond, the weaker instance still is one
    best_rho, best_pure = 0.0, 0.0
    under: Pair | None = None
    candidates = event.number("candidates")
    orders = np.concatenate([np.linspace(1.0, 4.0, 61), np.geomspace(4.2, 60.0, 30)])
    for m in range(2, 5):
        if candidates is not None and m > candidates:
            break
        for up in range(1, m):
            p = permute_and_flip([0.0] * m, exponent)
            q = permute_and_flip([1.0] * up + [-1.0] * (m - up), exponent)
            for a, b in ((p, q), (q, p)):
                rho = max(renyi(a, b, float(order)) / float(order) for order in orders)
                if rho > best_rho:
                    best_rho, under = rho, Atoms(tuple(a), tuple(b))
                with np.errstate(divide="ignore"):
                    best_pure = max(best_pure, min(float(np.max(np.log(a) - np.log(b))), epsilon))
    return [
        Component(
            event.what,
            pure=epsilon,
            pure_at_least=best_pure,
            rho=epsilon**2 / 2,
            rho_at_least=best_rho,
            over=randomized_response(epsilon) if epsilon > 0 else None,
            under=under,
            how="permute-and-flip is epsilon-DP but not bounded range: epsilon^2/2-zCDP",
        )
    ]


def _model_svt(event: Event, context: Context) -> list[Component]:
    top = event.number("sensitivity") or 1.0
    b1, b2 = event.number("threshold_scale") or 0.0, event.number("query_scale") or 0.0
    queries, cutoff = event.number("queries"), event.number("cutoff")
    bounded = cutoff is not None
    if b2 == 0:
        gap = -math.expm1(-top / b1) / 2 if b1 > 0 else 1.0
        why = f"{event.what}: the queries carry no noise, so (below, above) on queries 0 and {top:g} is impossible for the swapped answers"
        return [Component(event.what, breach=Breach("DP634", gap, why))]
    if b1 == 0 and queries is None:
        raise _Missing("queries")
    most = min(x for x in (queries, cutoff, math.inf) if x is not None)
    factor = 1.0 if event.fields.get("monotone") is True else 2.0
    upper = _ratio(top, b1) + factor * most * top / b2
    if queries is not None:
        upper = min(upper, queries * top / b2)  # the threshold noise ignored: a post-processing of noisy answers
    if event.fields.get("releases") == "value":
        upper = min(upper + most * top / b2, queries * top / b2 if queries is not None else math.inf)
    lower = 0.0
    if b1 > 0:
        n = int(min(queries if queries is not None else 2 * (cutoff or 50), 400))
        above_most = int(min(cutoff, n) if cutoff is not None else n)
        for above in {min(max(n // 2, 1), above_most), above_most, 1}:
            for below in {n - above, min(above, n - above)}:
                if below >= 0 and (not bounded or above <= (cutoff or 0)):
                    lower = max(lower, svt_split(b1, b2, top, below, above))
    unknown = "" if math.isfinite(upper) else "no cut-off and no number of queries: the loss grows linearly with the positives"
    over = randomized_response(upper) if 0 < upper < 500 else None
    return [Component(event.what, pure=upper, pure_at_least=lower, rho=upper**2 / 2, over=over, unknown=unknown, how="DP634")]


def svt_split(b1: float, b2: float, top: float, below: int, above: int) -> float:
    """ln of the ratio of P(``below`` times below, then ``above`` times above) for queries (0.., top..) against (top.., 0..)."""

    def chance(first: float, second: float) -> float:
        def f(t: Array) -> Array:
            under_first = laplace_cdf(t - first, b2)
            over_second = laplace_cdf(second - t, b2)
            return np.exp(-np.abs(t - top / 2) / b1) / (2 * b1) * under_first**below * over_second**above

        span = 40 * b1 + top
        knots = sorted({*np.linspace(-span, span + top, 120).tolist(), 0.0, top / 2, top})
        return quadrature(f, knots, 32)

    p, q = chance(0.0, top), chance(top, 0.0)
    return math.log(p / q) if q > 0 and p > 0 else 0.0


# ------------------------------------------------------------------------------------------------------ steps known by guarantee


def _model_pure(event: Event, context: Context) -> list[Component]:
    epsilon = event.number("epsilon") or 0.0
    pair = randomized_response(epsilon) if 0 < epsilon < 500 else None
    return [
        Component(
            event.what,
            pure=epsilon,
            pure_at_least=epsilon if context.worst_case else 0.0,
            rho=epsilon**2 / 2,
            over=pair,
            under=pair if context.worst_case else None,
        )
    ]


def _model_randomized_response(event: Event, context: Context) -> list[Component]:
    k, keep, epsilon = int(event.number("categories") or 2), event.number("keep"), event.number("epsilon")
    if keep is not None:
        other = (1 - keep) / (k - 1)
        if min(keep, other) <= 0:
            return [Component(event.what, breach=Breach("DP642", max(keep, other), f"{event.what}: an output of probability 0"))]
        epsilon = abs(math.log(keep / other))
    assert epsilon is not None
    keep = math.exp(epsilon) / (math.exp(epsilon) + k - 1)
    other = (1 - keep) / (k - 1)
    pair = Atoms((keep, other, *([1 - keep - other] if k > 2 else [])), (other, keep, *([1 - keep - other] if k > 2 else [])))
    return [Component(event.what, pure=epsilon, pure_at_least=epsilon, rho=epsilon**2 / 2, over=pair, under=pair)]


def _model_approx(event: Event, context: Context) -> list[Component]:
    epsilon, delta = event.number("epsilon") or 0.0, event.number("delta") or 0.0
    if delta == 0:
        return _model_pure(event, context)
    pair = approximate(epsilon, delta)
    under = pair if context.worst_case else None
    return [Component(event.what, pure=epsilon, slack=delta, over=pair, under=under)]


def _model_zcdp(event: Event, context: Context) -> list[Component]:
    return [Component(event.what, rho=event.number("rho") or 0.0)]


def _model_gdp(event: Event, context: Context) -> list[Component]:
    mu = event.number("mu") or 0.0
    c = _gaussian(event.what, mu)
    return [c if context.worst_case else replace(c, under=None, pure_at_least=0.0, rho_at_least=0.0)]


def _model_wishart(event: Event, context: Context) -> list[Component]:
    from scipy.stats import chi2

    c, d = event.number("scale") or 0.0, event.number("dimension") or 1.0
    degrees = (event.number("degrees") or d) - d + 1
    # 1/(x^T W^-1 x) is c times chi-square with degrees - d + 1 degrees of freedom for every unit x
    delta = float(chi2.cdf((event.number("sensitivity") or 0.0) / c, degrees)) if c > 0 else 1.0
    event_set = f"outputs with W - x x^T not positive definite (probability {delta:.4g})"
    why = f"{event.what}: W is positive definite, so {event_set} are impossible for the neighbour"
    return [Component(event.what, breach=Breach("DP627", delta, why))]


def _model_truncated_laplace(event: Event, context: Context) -> list[Component]:
    top = _laplace_sensitivity(event, context)
    scale, bound = _laplace_scale(event, top), event.number("bound") or 0.0
    if scale <= 0:
        return [_laplace(event.what, _ratio(top, scale))]
    # outputs within top of one end are impossible for the neighbour
    whole = -math.expm1(-bound / scale)
    gap = 1.0 if top >= 2 * bound else (math.exp(-max(bound - top, 0.0) / scale) - math.exp(-bound / scale)) / (2 * whole)
    why = f"{event.what}: noise is cut off at {bound:g}, so outputs beyond the cut of a neighbour show which data set it was"
    epsilon = top / scale
    return [
        Component(
            event.what, pure=epsilon, slack=gap, over=approximate(epsilon, gap) if gap < 1 else None, breach=Breach("DP620", gap, why)
        )
    ]


def _model_uniform(event: Event, context: Context) -> list[Component]:
    top, width = _laplace_sensitivity(event, context), event.number("width") or 0.0
    gap = 1.0 if width <= 0 else min(top / width, 1.0)
    why = f"{event.what}: uniform noise has an edge; outputs beyond a neighbour's edge show which data set it was"
    return [Component(event.what, pure=0.0, slack=gap, over=approximate(0.0, gap) if gap < 1 else None, breach=Breach("DP620", gap, why))]


def _model_exact(event: Event, context: Context) -> list[Component]:
    condition = str(event.fields.get("condition") or "")
    why = f"{event.what}: a statistic of the protected records is published without noise"
    return [Component(event.what, breach=Breach("DP620", 1.0, why + (f" ({condition})" if condition else "")))]


# ----------------------------------------------------------------------------------------------------------------- structure


def _inner(event: Event, context: Context) -> list[Component]:
    if not event.inner:
        raise _Missing("the event inside")
    return [c for e in event.inner for c in components(e, context)]


def _model_sequence(event: Event, context: Context) -> list[Component]:
    return _inner(event, context)


def _model_parallel(event: Event, context: Context) -> list[Component]:
    parts = event.number("parts_per_unit")
    found = _inner(event, context)
    if event.fields.get("parts_per_unit") == "unbounded" or parts is None:
        condition = f"every unit contributes to at most one part of {event.what}"
        return [replace(c, assumes=condition, how="DP629") for c in found]
    return [replace(c, count=c.count * math.ceil(parts)) for c in found]


def _model_select_until(event: Event, context: Context) -> list[Component]:
    found = _inner(event, context)
    bad = next((c for c in found if c.breach or c.unknown or not math.isfinite(c.pure) or c.slack), None)
    if bad is not None:
        if bad.breach:
            return found
        return [Component(event.what, unknown=f"{event.what}: private selection is modelled for pure steps only")]
    if event.number("limit") is not None:
        return [Component(event.what, unknown=f"{event.what}: a limit on the attempts with a fallback output needs its own argument")]
    epsilon = 2 * sum(c.pure * c.count for c in found)
    # P(out = y) = Q(y, pass)/Q(pass): the ratio moves by exp(eps) in the numerator and by exp(eps) in the denominator
    return [
        Component(
            event.what, pure=epsilon, rho=epsilon**2 / 2, over=randomized_response(epsilon), how="repetition until success: 2 epsilon"
        )
    ]


@dataclass(frozen=True, slots=True)
class _Body:
    """The inside of a sampler as one mechanism: a Gaussian shift, one Laplace release, or (epsilon, delta)."""

    mu: float | None
    laplace: float | None
    pure: float
    slack: float
    gaussian_below: bool


def _body(event: Event, context: Context) -> _Body | list[Component]:
    found = _inner(event, context)
    for c in found:
        if (c.breach is not None and c.breach.delta > 0) or c.unknown:
            return found
    if all(c.mu is not None for c in found):
        mu = math.sqrt(sum((c.mu or 0.0) ** 2 * c.count for c in found))
        return _Body(mu, None, math.inf, 0.0, all(c.under is not None for c in found))
    one = found[0] if len(found) == 1 and found[0].count == 1 else None
    laplace = one.over.epsilon if one is not None and isinstance(one.over, LaplacePair) and one.slack == 0 else None
    return _Body(None, laplace, sum(c.pure * c.count for c in found), sum(c.slack * c.count for c in found), False)


def _amplified(what: str, body: _Body, rate: float) -> Component:
    if not math.isfinite(body.pure):
        return Component(what, unknown=f"{what}: amplification of a mixed step without an (epsilon, delta) form is not modelled")
    epsilon = math.log1p(rate * math.expm1(body.pure)) if body.pure < 700 else body.pure + math.log(rate)
    slack = rate * body.slack
    over = approximate(epsilon, slack) if slack else randomized_response(epsilon)
    return Component(what, pure=epsilon, slack=slack, rho=epsilon**2 / 2 if slack == 0 else math.inf, over=over)


def _rate(event: Event) -> float:
    rate = event.number("rate")
    if rate is None:
        size, n = event.number("size"), event.number("n")
        if size is None or n is None:
            raise _Missing("rate (or size and n)")
        rate = size / n
    if not 0 <= rate <= 1:
        raise _Missing("a rate between 0 and 1")
    return rate


def _model_poisson(event: Event, context: Context) -> list[Component]:
    body, rate = _body(event, context), _rate(event)
    if isinstance(body, list):
        return body
    if rate == 0:
        return [_NOTHING]
    if rate == 1:
        return _inner(event, context)
    if body.mu is not None:
        if body.mu == 0:
            return [_NOTHING]
        pair: Pair = SubsampledReplace(body.mu / 2, rate) if context.replacing else Subsampled(GaussianPair(body.mu), rate)
        return [Component(event.what, pure_at_least=math.inf, rho_at_least=0.0, over=pair, under=pair if body.gaussian_below else None)]
    if body.laplace is not None and not context.replacing and body.laplace < 500:
        pair = Subsampled(LaplacePair(body.laplace), rate)
        top = math.log1p(rate * math.expm1(body.laplace))
        return [Component(event.what, pure=top, pure_at_least=top, rho=top**2 / 2, over=pair, under=pair)]
    return [_amplified(event.what, body, rate)]


def _without_replacement(mu: float, rate: float) -> Joined:
    one = Subsampled(GaussianPair(mu), rate)
    return Joined(one, Reversed(one))


def _model_fixed(event: Event, context: Context) -> list[Component]:
    body, rate = _body(event, context), _rate(event)
    if isinstance(body, list):
        return body
    if rate == 1:
        return _inner(event, context)
    if context.neighbouring == "add_remove":
        return [
            Component(
                event.what, unknown=f"{event.what}: a subset of fixed size reveals the number of records; state replace_one or zero_out"
            )
        ]
    if body.mu is not None:
        if body.mu == 0:
            return [_NOTHING]
        if context.replacing:
            # Zhu, Dong, Wang 2022: (1-q) Q + q P against Q dominates, P and Q being replace-one neighbours
            over: Pair = _without_replacement(body.mu, rate)
            under: Pair = SubsampledReplace(body.mu / 2, rate)
        else:
            # a subset without the record holds another one in its place: replacing distance 2C above; below, all others at -C
            over = _without_replacement(2 * body.mu, rate)
            mu, q = body.mu, rate

            def mixed(shift: float) -> Any:
                from scipy.special import ndtr

                return lambda x: (1 - q) * ndtr(x) + q * ndtr(x - shift)

            under = cells(mixed(2 * mu), mixed(mu), -12.0, 12.0 + 2 * mu)
        return [Component(event.what, pure_at_least=0.0, over=over, under=under if body.gaussian_below else None)]
    return [_amplified(event.what, body, rate)]


def shuffle_event(shift: float, rest: float, batches: int, cut: float) -> tuple[float, float]:
    """P(largest batch sum > cut) when one of ``batches`` unit Gaussians is shifted by ``shift``, and by ``rest``."""
    from scipy.special import log_ndtr

    def chance(s: float) -> float:
        return -math.expm1((batches - 1) * float(log_ndtr(cut)) + float(log_ndtr(cut - s)))

    return chance(shift), chance(rest)


def _model_shuffled(event: Event, context: Context) -> list[Component]:
    body = _body(event, context)
    if isinstance(body, list):
        return body
    batches, epochs = int(event.number("batches") or 1), int(event.number("epochs") or 1)
    if body.mu is None:
        found = _inner(event, context)
        return [
            replace(c, count=c.count * epochs, under=None, pure_at_least=0.0, how="every record meets one batch an epoch") for c in found
        ]
    # above: every record lies in one batch an epoch, so an epoch is one Gaussian release for it. Below: all other gradients at -C;
    # the special batch is shifted by mu_plus under one data set and by mu_rest under its neighbour; the event is max > cut
    if context.replacing:
        plus, rest = body.mu, 0.0
    else:
        plus, rest = 2 * body.mu, body.mu
    cuts = np.linspace(0.0, plus + 9.0, 181)
    pairs = [
        Atoms((p, 1 - p), (q, 1 - q)) for p, q in (shuffle_event(plus, rest, batches, float(c)) for c in cuts) if 0 < q < 1 and 0 < p < 1
    ]
    over = GaussianPair(body.mu)
    return [Component(event.what, epochs, rho=body.mu**2 / 2, over=over, under=_Family(tuple(pairs)), how="DP615")]


@dataclass(frozen=True, slots=True)
class _Family:
    """Several real pairs of which the best is used; resolved against delta by :func:`dpspec.audit.bounds.lower_pair`."""

    members: tuple[Atoms, ...]

    def tails(self, loss: Array) -> tuple[Array, Array, Array, Array]:
        return self.members[0].tails(loss)

    def reach(self, tail: float) -> tuple[float, float]:
        return self.members[0].reach(tail)


def _model_subset(event: Event, context: Context) -> list[Component]:
    """No theorem for this selection: its releases are accounted without amplification."""
    return [replace(c, under=None, pure_at_least=0.0, rho_at_least=0.0, how="DP643") for c in _inner(event, context)]


_MODELS = {
    "gaussian": _model_gaussian,
    "discrete_gaussian": _model_discrete_gaussian,
    "laplace": _model_laplace,
    "discrete_laplace": _model_discrete_laplace,
    "laplace_threshold": _model_laplace_threshold,
    "gaussian_threshold": _model_gaussian_threshold,
    "laplace_mean": _model_laplace_mean,
    "exponential": _model_exponential,
    "noisy_max": _model_noisy_max,
    "permute_and_flip": _model_permute_and_flip,
    "svt": _model_svt,
    "randomized_response": _model_randomized_response,
    "pure": _model_pure,
    "approx": _model_approx,
    "zcdp": _model_zcdp,
    "gdp": _model_gdp,
    "wishart": _model_wishart,
    "truncated_laplace": _model_truncated_laplace,
    "uniform": _model_uniform,
    "exact": _model_exact,
    "sequence": _model_sequence,
    "parallel": _model_parallel,
    "select_until": _model_select_until,
    "poisson_sampled": _model_poisson,
    "fixed_sampled": _model_fixed,
    "shuffled": _model_shuffled,
    "subset": _model_subset,
}
