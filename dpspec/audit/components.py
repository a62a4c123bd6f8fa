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
from collections.abc import Iterable, Mapping, Sequence
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
    Seen,
    Subsampled,
    SubsampledReplace,
    approximate,
    cells,
    laplace_cdf,
    quadrature,
    randomized_response,
    renyi,
)
from dpspec.audit.vocabulary import NEIGHBOURS, REPLACING


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
    """``neighbouring``: a relation, or other text, with which nothing that depends on the relation has a model."""

    neighbouring: str
    worst_case: bool = False  # the class of mechanisms counts (composition tools)
    sampled: bool = False  # inside a sampler

    @property
    def replacing(self) -> bool:
        if self.neighbouring not in NEIGHBOURS:
            raise _Missing("the neighbouring relation")
        return self.neighbouring in REPLACING


_FLOATS: Mapping[str, int] = {"float64": 53, "double": 53, "float32": 24, "single": 24}
_OWN_GROUPS = ("laplace_threshold", "gaussian_threshold", "discrete_laplace_threshold", "discrete_gaussian_threshold")
_SAMPLERS = ("poisson_sampled", "fixed_sampled", "shuffled")
_OPEN_ENDED = ("unknown", "unbounded")


def components(event: Event, context: Context) -> list[Component]:
    """The components of one event, its ``count`` and contributions included."""
    draws = event.number("draws")
    if event.unread:
        why = f"{event.what}: {', '.join(event.unread)} is not understood"
        return [Component(event.what, unknown=why, how="DP673")]
    if draws is not None and draws < event.count:
        why = f"{event.count} uses are charged and {draws:g} noise drawn: composition needs fresh noise at every use"
        return [Component(event.what, unknown=why, how="DP633")]
    flaw = _flaw(event, context)
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
    if event.kind in ("gaussian", "laplace") and event.fields.get("arithmetic") in _FLOATS:
        # alone the lattice of the outputs tells the inputs apart (_flaw); inside a sampler no such pair is known
        found = _assuming(found, f"the noise of {event.what} has its ideal law and not that of {event.fields['arithmetic']} numbers")
    group = event.number("contributions")
    if event.fields.get("contributions") in _OPEN_ENDED:
        found = [replace(c, how=c.how or "DP629") for c in _assuming(found, "every unit contributes one record")]
    elif group is not None and group > 1 and event.kind not in _OWN_GROUPS:
        found = [_grouped(c, group) for c in found]
    if event.kind == "noisy_max" and event.number("decay") and event.fields.get("releases", "index") == "index":
        return found  # its runs carry the count
    if event.kind == "poisson_sampled" and event.fields.get("once") is True:
        return found
    return [replace(c, count=c.count * event.count) for c in found]


def depends_on_relation(events: Sequence[Event]) -> bool:
    """Whether the neighbouring relation decides about a sensitivity or an amplification of these events."""

    def alone(e: Event) -> bool:
        if e.kind in (*_SAMPLERS, "parallel"):
            return True
        stated = e.number("l1_sensitivity", "l2_sensitivity", "sensitivity") is not None
        by_norm = e.number("clip_norm", "norm_bound") is not None or (e.kind == "gaussian" and e.number("noise_multiplier") is not None)
        return (by_norm and not stated) or (e.kind == "laplace_mean" and e.fields.get("n_public") is False)

    return any(alone(e) or depends_on_relation(e.inner) for e in events)


def _assuming(found: Sequence[Component], *conditions: str) -> list[Component]:
    """The same components, which hold under further conditions."""
    new = [c for c in dict.fromkeys(conditions) if c]

    def joined(old: str) -> str:
        return "; and ".join([*([old] if old else []), *(c for c in new if c not in old)])

    return [replace(c, assumes=joined(c.assumes)) for c in found] if new else list(found)


class _Missing(Exception):
    pass


def _flaw(event: Event, context: Context) -> Component | None:
    """Faults that void a noise event whatever its scale."""
    if event.fields.get("scale_from") in ("data", "from-data", "private"):
        why = f"{event.what}: the noise scale is computed from the protected records; constant records give scale 0 and a sure output"
        return Component(event.what, breach=Breach("DP621", 1.0, why))
    if event.fields.get("clip") in ("none", "copy", "missing"):
        why = f"{event.what}: records are not clipped, so one record moves the released value without bound"
        return Component(event.what, breach=Breach("DP622", 1.0, why))
    bits = _FLOATS.get(str(event.fields.get("arithmetic")), 0)
    if bits and event.kind in ("laplace", "gaussian") and not context.sampled:
        gaussian = event.kind == "gaussian"
        top = event.number("l2_sensitivity" if gaussian else "l1_sensitivity", "sensitivity", "clip_norm", "norm_bound") or 0.0
        delta = float64_gap(top, event.number("sigma" if gaussian else "scale") or 0.0, event.kind, bits)
        if delta > 0:
            why = f"{event.what}: {event.kind} noise in IEEE floats of {bits} bits; outputs near 0 that are no multiple of the spacing"
            why += " at the sensitivity"
            return Component(event.what, breach=Breach("DP625", delta, why + " occur under one input and never under its neighbour"))
    return None


def float64_gap(sensitivity: float, scale: float, law: str = "laplace", bits: int = 53) -> float:
    """Probability that 0 + noise falls near 0 on a double that sensitivity + noise cannot give.

    D + noise lies near 0 only when the noise lies near -D, where doubles have a spacing u of about D 2^-52, so that the sum is a multiple
    of u. Noise in [2^m, 2^(m+1)) has spacing 2^(m-52); one double in u 2^(52-m) of them is a multiple of u. ``bits``: of the
    significand, 53 in doubles.
    """
    if sensitivity <= 0 or scale <= 0 or not math.isfinite(sensitivity / scale):
        return 0.0
    mantissa, k = math.frexp(sensitivity)
    k -= 1  # 2^k <= D < 2^(k+1)
    power = mantissa == 0.5
    unit = k - bits if power else k - (bits - 1)
    reach = sensitivity / 4 if power else min(sensitivity / 4, sensitivity - 2.0**k, 2.0 ** (k + 1) - sensitivity)

    def within(x: float) -> float:  # P(|noise| < x)
        return math.erf(x / (scale * math.sqrt(2))) if law == "gaussian" else -math.expm1(-x / scale)

    total, m = 0.0, math.frexp(reach)[1] - 1
    for j in range(m, m - 60, -1):
        share = 1 - 2.0 ** (j - (bits - 1) - unit)
        if share > 0:
            total += (within(min(2.0 ** (j + 1), reach)) - within(min(2.0**j, reach))) * share
    return total


def _grouped(c: Component, m: float) -> Component:
    """The same component for a unit of ``m`` records."""
    if c.unknown:
        return c
    if c.breach is not None or c.slack > 0:  # what a further record adds to a failure is the model's own business
        why = f"{c.what}: group privacy for {m:g} records needs a step without a failure probability"
        return replace(c, unknown=why, over=None, mu=None, pure=math.inf, rho=math.inf)
    if c.mu is not None:
        return replace(_gaussian(c.what, c.mu * m, c.count), assumes=c.assumes, how=c.how)
    if isinstance(c.over, LaplacePair):
        return replace(_laplace(c.what, c.over.epsilon * m, c.count), assumes=c.assumes, how=c.how)
    if math.isfinite(c.pure):
        over = randomized_response(c.pure * m) if 0 < c.pure * m < 500 else None
        return Component(c.what, c.count, pure=c.pure * m, rho=c.rho * m * m, over=over, assumes=c.assumes, how=c.how)
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
    """The largest of the sensitivities that are stated and of the one that a norm bound gives."""
    found = [x for x in (event.number(name) for name in names) if x is not None]
    clip = _norm(event)
    if clip is not None:
        found.append(2 * clip if context.replacing else clip)
    if not found:
        raise _Missing(f"{names[0]} (or clip_norm)")
    return max(found)


def _norm(event: Event) -> float | None:
    bounds = [x for x in (event.number("clip_norm"), event.number("norm_bound")) if x is not None]
    return max(bounds) if bounds else None


def _laplace_sensitivity(event: Event, context: Context) -> float:
    return _sum_sensitivity(event, context, "l1_sensitivity", "sensitivity")


def gaussian_shifts(event: Event, context: Context) -> dict[str, float]:
    """mu of one Gaussian event by each word that states its noise; infinite without noise. Consistent words give the same."""
    found: dict[str, float] = {}
    for word in ("sigma", "variance"):
        noise = event.number(word)
        if noise is not None:
            top = _sum_sensitivity(event, context, "l2_sensitivity", "sensitivity")
            found[word] = _ratio(top, noise if word == "sigma" else math.sqrt(noise))
    multiplier = event.number("noise_multiplier")
    if multiplier is not None:
        clip, stated = _norm(event), event.number("l2_sensitivity", "sensitivity")
        # the multiplier is noise over norm bound; without a norm bound it is noise over sensitivity
        if clip is not None:
            top = _sum_sensitivity(event, context, "l2_sensitivity", "sensitivity")
            found["noise_multiplier"] = _ratio(top, multiplier * clip) if clip > 0 else math.inf if top > 0 else 0.0
        else:
            top = 1.0 if stated is not None and stated > 0 else 0.0 if stated is not None else 2.0 if context.replacing else 1.0
            found["noise_multiplier"] = _ratio(top, multiplier)
    rho, mu = event.number("rho"), event.number("mu")
    if rho is not None:
        found["rho"] = math.sqrt(2 * rho)
    if mu is not None:
        found["mu"] = mu
    if not found:
        raise _Missing("sigma")
    return found


def gaussian_shift(event: Event, context: Context) -> float:
    """mu of one Gaussian event; infinite when it carries no noise."""
    return max(gaussian_shifts(event, context).values())


def laplace_losses(event: Event, context: Context) -> dict[str, float]:
    """epsilon of one Laplace event by each word that states its noise."""
    found: dict[str, float] = {}
    epsilon, scale, multiplier = event.number("epsilon"), event.number("scale"), event.number("noise_multiplier")
    if epsilon is not None:
        found["epsilon"] = epsilon
    if scale is not None:
        found["scale"] = _ratio(_laplace_sensitivity(event, context), scale)
    if multiplier is not None:
        top = _laplace_sensitivity(event, context)
        found["noise_multiplier"] = _ratio(top, multiplier * (_norm(event) or top))
    if not found:
        raise _Missing("scale")
    return found


def _model_gaussian(event: Event, context: Context) -> list[Component]:
    return [_gaussian(event.what, gaussian_shift(event, context))]


def _model_discrete_gaussian(event: Event, context: Context) -> list[Component]:
    """Noise P(x) ~ exp(-x^2/(2 sigma^2)) on integers. The zCDP cost is that of the continuous law for every integer shift (Canonne,
    Kamath, Steinke 2020, Theorem 4); the profile is not, and that of a vector may lie above that of one number moved as far."""
    mu = gaussian_shift(event, context)
    whole = _gaussian(event.what, mu)
    if whole.breach is not None or mu == 0:
        return [whole]
    if event.number("sigma", "variance", "noise_multiplier") is None:
        return [whole]  # known by its cost alone: many wide draws, the Gaussian limit (DP619 says so)
    by_norm = (
        event.number("noise_multiplier") is not None and _norm(event) is None and event.number("l2_sensitivity", "sensitivity") is None
    )
    top = 1.0 if by_norm else _sum_sensitivity(event, context, "l2_sensitivity", "sensitivity")
    sigma, step = top / mu, math.floor(top)
    rho = mu * mu / 2
    # a whole shift of one number is a real pair, and at a whole order its Renyi divergence is the continuous one
    low = (step / sigma) ** 2 / 2
    if step < 1 or not sigma <= 20_000:
        return [Component(event.what, pure_at_least=math.inf if step >= 1 else 0.0, rho=rho, rho_at_least=low)]
    pair = _discrete_gaussian_pair(sigma, step)
    return [Component(event.what, pure_at_least=math.inf, rho=rho, rho_at_least=low, over=pair if top == 1 else None, under=pair)]


def _discrete_gaussian_pair(sigma: float, top: int) -> Atoms:
    """The law moved by ``top`` against the law at 0, cut where less than 1e-32 lies beyond."""
    half = math.ceil(sigma * 12 + top)
    x = np.arange(-half, half + 1, dtype=float)
    with np.errstate(under="ignore"):
        weight = np.exp(-((x / sigma) ** 2) / 2)
    weight /= weight.sum()
    p, q = np.zeros(x.size + int(top)), np.zeros(x.size + int(top))
    q[: x.size], p[int(top) :] = weight, weight
    keep = (p > 0) & (q > 0)
    return Atoms(tuple(p[keep]), tuple(q[keep]))


def _ratio(sensitivity: float, scale: float) -> float:
    return 0.0 if sensitivity == 0 else math.inf if scale == 0 or math.isinf(sensitivity) else sensitivity / scale


def _model_laplace(event: Event, context: Context) -> list[Component]:
    epsilon = max(laplace_losses(event, context).values())
    whole = _laplace(event.what, epsilon)
    vote = event.fields.get("vote")
    if isinstance(vote, Mapping) and 0 < epsilon < math.inf:
        low, high, threshold = (float(vote[k]) for k in ("low", "high", "threshold"))
        top = _laplace_sensitivity(event, context)
        exact, pair = vote_loss(low, high, top, top / epsilon, threshold)
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
    return _thresholded(event, context, _model_laplace(event, context)[0], 1.0)


def _model_discrete_laplace_threshold(event: Event, context: Context) -> list[Component]:
    return _thresholded(event, context, _model_discrete_laplace(event, context)[0], 1.0)


def _model_gaussian_threshold(event: Event, context: Context) -> list[Component]:
    return _thresholded(event, context, _gaussian(event.what, gaussian_shift(event, context)), 2.0)


def _model_discrete_gaussian_threshold(event: Event, context: Context) -> list[Component]:
    return _thresholded(event, context, _model_discrete_gaussian(event, context)[0], 2.0)


def _thresholded(event: Event, context: Context, whole: Component, power: float) -> list[Component]:
    """A histogram of noisy counts of which those from a threshold on are released, keys and all.

    A key that one unit alone has is released with some probability, and never without that unit. ``keys``: how many such keys a unit
    (each of its ``contributions``) can have; left out, as many as the sensitivity allows: ``keys * first_count^power <= top^power``.
    ``first_count``: largest count of such a key; left out, 1, or what the sensitivity allows with the stated number of keys.
    """
    m = event.number("contributions") or 1.0
    if m > 1:
        whole = _grouped(whole, m)
    if whole.breach is not None or whole.unknown:
        return [whole]
    word = "l1_sensitivity" if power == 1 else "l2_sensitivity"
    stated = event.number(word, "sensitivity")
    top = stated if stated is not None else _norm(event) or 1.0
    keys, first = event.number("keys"), event.number("first_count")
    cases: list[tuple[float, float]] = []
    if keys is not None:
        cases.append((keys * m, max(1.0, top / keys ** (1 / power)) if first is None else first))
    else:
        cases.append((max(math.ceil((top / (first or 1.0)) ** power - 1e-9), 1) * m, first or 1.0))
        if first is None and top > 1:
            cases.append((m, top))
    appears = max(-math.expm1(k * math.log1p(-t)) if t < 1 else 1.0 for k, t in ((k, key_tail(event, context, f)) for k, f in cases))
    why = f"{whole.what}: a key that only one unit has is published with probability {appears:.4g} and never without that unit"
    found = replace(whole, slack=appears, breach=Breach("DP644", appears, why), mu=None)
    if m > 1 and first is None:
        return _assuming([found], "no unit puts two records on one key (first_count)")
    return [found]


def key_tail(event: Event, context: Context, count: float, discrete: bool | None = None) -> float:
    """P(count + noise reaches the threshold). Integers reach it from the next whole number on, that number included."""
    from scipy.special import ndtr

    gap = (event.number("threshold") or 0.0) - count
    if discrete is None:
        discrete = event.kind.startswith("discrete")
    if "gaussian" in event.kind:
        sigma = event.number("sigma") or 0.0
        if sigma == 0:
            return 1.0 if gap <= 0 else 0.0
        if not discrete:
            return float(ndtr(-gap / sigma))
        z = math.ceil(gap)
        if sigma > 1e5:
            return float(ndtr(-(z - 1) / sigma))  # the sum from z lies below the integral from z - 1
        if abs(z) > 40 * sigma + 1:
            return 0.0 if z > 0 else 1.0
        x = np.arange(-math.ceil(40 * sigma) - 1, math.ceil(40 * sigma) + 2, dtype=float)
        with np.errstate(under="ignore"):
            weight = np.exp(-((x / sigma) ** 2) / 2)
        return min(float(weight[x >= z].sum() / weight.sum()), 1.0)
    epsilon = max(laplace_losses(event, context).values())
    if epsilon == 0:
        return 0.5
    known = event.number("l1_sensitivity", "sensitivity", "clip_norm", "norm_bound")
    scale = (1.0 if known is None else _laplace_sensitivity(event, context)) / epsilon
    if scale == 0:
        return 1.0 if gap <= 0 else 0.0
    if not discrete:
        return math.exp(-gap / scale) / 2 if gap >= 0 else 1 - math.exp(gap / scale) / 2
    z, ratio = math.ceil(gap), math.exp(-1 / scale)
    return ratio**z / (1 + ratio) if z >= 1 else 1 - ratio ** (1 - z) / (1 + ratio)


def _model_laplace_mean(event: Event, context: Context) -> list[Component]:
    n, width = event.number("n") or 0.0, event.number("range") or 0.0
    losses = mean_losses(event)
    private = event.fields.get("n_public") is False and not context.replacing and context.neighbouring != "zero_out"
    if not private:
        return [_laplace(event.what, max(losses.values()))]
    loss = max(losses.values())
    if loss == 0 or math.isinf(loss):
        return [_laplace(event.what, loss)]
    scale = width / n / loss
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


def mean_losses(event: Event) -> dict[str, float]:
    """epsilon of a mean over a public number of records by each word that states its noise."""
    n, width = event.number("n"), event.number("range") or 0.0
    if n is None or n < 1:
        raise _Missing("n")
    scale, epsilon = event.number("scale"), event.number("epsilon")
    found = {} if epsilon is None else {"epsilon": epsilon}
    if scale is not None:
        found["scale"] = _ratio(width / n, scale)
    if not found:
        raise _Missing("scale")
    return found


# --------------------------------------------------------------------------------------------------------------- selections


def _score(event: Event) -> float:
    value = event.number("linf_sensitivity", "score_sensitivity", "sensitivity")
    if value is None:
        raise _Missing("linf_sensitivity")
    return value


def exponential_losses(event: Event) -> dict[str, float]:
    """epsilon of the exponential mechanism by each word that states it."""
    exponent, epsilon = event.number("exponent"), event.number("epsilon")
    found = {} if epsilon is None else {"epsilon": epsilon}
    if exponent is not None:
        found["exponent"] = (1.0 if event.fields.get("monotone") is True else 2.0) * exponent * _score(event)
    if not found:
        raise _Missing("epsilon (or exponent)")
    return found


def _model_exponential(event: Event, context: Context) -> list[Component]:
    epsilon = max(exponential_losses(event).values())
    if math.isinf(epsilon):
        return [Component(event.what, breach=Breach("DP620", 1.0, f"{event.what}: the choice is deterministic"))]
    single = event.number("candidates") == 1
    if single:
        return [_NOTHING]
    # one candidate far behind the others moves up while they move down (or, monotone, stay): its log-probability moves by nearly epsilon
    return [
        Component(
            event.what,
            pure=epsilon,
            pure_at_least=epsilon,
            rho=epsilon**2 / 8,
            over=randomized_response(epsilon) if epsilon > 0 else None,
            under=_bounded_range(epsilon) if 0 < epsilon < 500 else None,
            how="exponential mechanism: epsilon-DP and epsilon^2/8-zCDP (bounded range)",
        )
    ]


def _bounded_range(epsilon: float) -> _Family:
    """Two candidates whose log-odds move by ``epsilon`` in all, from many starting points (Dong, Durfee, Rogers 2020)."""
    pairs = []
    for start in np.linspace(-epsilon - 30.0, 30.0, 241):
        p, q = 1 / (1 + math.exp(-start - epsilon)), 1 / (1 + math.exp(-start))
        pairs.append(Atoms((p, 1 / (1 + math.exp(start + epsilon))), (q, 1 / (1 + math.exp(start)))))
    return _Family(tuple(pairs))


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
        return [_NOTHING]
    if noise not in ("laplace", "gumbel", "exponential"):
        raise _Missing("a noise law that is modelled (laplace, gumbel, exponential)")
    found = []
    decay = event.number("decay")
    for most, least, uses in _decaying(top, decay, event.count):
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


def flip_losses(event: Event) -> dict[str, float]:
    """epsilon of permute-and-flip by each word that states it."""
    scale, epsilon = event.number("scale"), event.number("epsilon")
    found = {} if epsilon is None else {"epsilon": epsilon}
    if scale is not None:
        found["scale"] = _ratio(2 * _score(event), scale)
    if not found:
        raise _Missing("scale")
    return found


def _model_permute_and_flip(event: Event, context: Context) -> list[Component]:
    if event.number("candidates") == 1:
        return [_NOTHING]
    epsilon = max(flip_losses(event).values())
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
    top = event.number("sensitivity")
    if top is None:
        raise _Missing("sensitivity")
    if top == 0:
        return [_NOTHING]
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
    moves = ("first", "others") if event.fields.get("monotone") is True else ("apart",)
    lower = 0.0
    if event.fields.get("releases") == "value":
        # the noisy answer that was compared: a value far below 0 shows that the threshold lay lower still, and then every earlier answer
        # and the value itself move by top/b2. All noisy answers together cost no more; the threshold is noise of its own
        upper = queries * top / b2 if queries is not None else math.inf
        lower = upper
    elif b1 > 0:
        n = int(min(queries if queries is not None else 2 * (cutoff or 50), 400))
        above_most = int(min(cutoff, n) if cutoff is not None else n)
        for above in {min(max(n // 2, 1), above_most), above_most, 1}:
            for below in {n - above, min(above, n - above)}:
                if below >= 0 and (not bounded or above <= (cutoff or 0)):
                    lower = max(lower, *(svt_split(b1, b2, top, below, above, move) for move in moves))
        lower = min(lower - 1e-9, upper)  # the error of the quadrature
    unknown = "" if math.isfinite(upper) else "no cut-off and no number of queries: the loss grows linearly with the positives"
    over = randomized_response(upper) if 0 < upper < 500 else None
    return [Component(event.what, pure=upper, pure_at_least=max(lower, 0.0), rho=upper**2 / 2, over=over, unknown=unknown, how="DP634")]


def svt_split(b1: float, b2: float, top: float, below: int, above: int, move: str = "apart") -> float:
    """ln of the ratio of P(``below`` times below, then ``above`` times above) under two data sets.

    ``move``: ``apart``, the first queries rise by ``top`` and the others fall by it; ``first`` or ``others``, only those move, as
    monotone queries do.
    """
    falling, rising = {"apart": ((0.0, top), (top, 0.0)), "first": ((0.0, 0.0), (top, 0.0)), "others": ((0.0, top), (0.0, 0.0))}[move]
    # beyond these the threshold's density or a power of the distribution function decides alone
    high = 60 * b1 + b2 * (math.log(max(below, 1)) + 45) + top
    low = -(60 * b1 + b2 * (math.log(max(above, 1)) + 45) + top)
    near = [c + b * x for b in (b1, b2) for x in np.linspace(-50, 50, 201).tolist() for c in (0.0, top)]
    knots = sorted(x for x in {*np.linspace(low, high, 400).tolist(), *near, 0.0, top / 2, top} if low <= x <= high)
    x, w = np.polynomial.legendre.leggauss(16)
    left, right = np.array(knots[:-1]), np.array(knots[1:])
    half = (right - left) / 2
    t = ((left + right) / 2)[:, None] + half[:, None] * x
    log_weight = np.log(half[:, None] * w)

    def log_chance(first: float, second: float) -> float:
        f = log_weight - np.abs(t - top / 2) / b1 - math.log(2 * b1)
        f = f + below * _log_laplace_cdf((t - first) / b2) + above * _log_laplace_cdf((second - t) / b2)
        peak = float(f.max())
        return peak + math.log(float(np.exp(f - peak).sum()))

    return log_chance(*falling) - log_chance(*rising)


def _log_laplace_cdf(z: Array) -> Array:
    with np.errstate(under="ignore"):
        return np.where(z < 0, z - math.log(2), np.log1p(-np.exp(-np.abs(z)) / 2))


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
    k, keep = int(event.number("categories") or 2), event.number("keep")
    if keep is not None:
        other = (1 - keep) / (k - 1)
        if min(keep, other) <= 0:
            return [Component(event.what, breach=Breach("DP642", max(keep, other), f"{event.what}: an output of probability 0"))]
    epsilon = max(response_losses(event).values())
    if epsilon == 0:
        return [_NOTHING]
    if epsilon > 500:
        return [Component(event.what, pure=epsilon, pure_at_least=epsilon, rho=epsilon**2 / 2)]
    keep = math.exp(epsilon) / (math.exp(epsilon) + k - 1)
    other = (1 - keep) / (k - 1)
    rest = [max(1 - keep - other, 0.0)] if k > 2 else []
    pair = Atoms((keep, other, *rest), (other, keep, *rest))
    return [Component(event.what, pure=epsilon, pure_at_least=epsilon, rho=epsilon**2 / 2, over=pair, under=pair)]


def response_losses(event: Event) -> dict[str, float]:
    """epsilon of randomized response by each word that states it."""
    keep, epsilon = event.number("keep"), event.number("epsilon")
    found = {} if epsilon is None else {"epsilon": epsilon}
    if keep is not None:
        other = (1 - keep) / ((event.number("categories") or 2) - 1)
        found["keep"] = abs(math.log(keep / other)) if min(keep, other) > 0 else math.inf
    return found


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
    top, epsilon, bound = _laplace_sensitivity(event, context), max(laplace_losses(event, context).values()), event.number("bound") or 0.0
    if epsilon == 0 or math.isinf(epsilon) or top == 0:
        return [_laplace(event.what, 0.0 if top == 0 else epsilon)]
    if bound == 0:
        return [_laplace(event.what, math.inf)]
    scale = top / epsilon
    # outputs within top of one end are impossible for the neighbour
    whole = -math.expm1(-bound / scale)
    gap = 1.0 if top >= 2 * bound else (math.exp(-max(bound - top, 0.0) / scale) - math.exp(-bound / scale)) / (2 * whole)
    why = f"{event.what}: noise is cut off at {bound:g}, so outputs beyond the cut of a neighbour show which data set it was"
    return [
        Component(
            event.what, pure=epsilon, slack=gap, over=approximate(epsilon, gap) if gap < 1 else None, breach=Breach("DP620", gap, why)
        )
    ]


def _model_uniform(event: Event, context: Context) -> list[Component]:
    top, width = _laplace_sensitivity(event, context), event.number("width") or 0.0
    if top == 0:
        return [_NOTHING]
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
    """Releases on disjoint parts. A unit that is replaced leaves its parts and enters others: twice as many parts change, unless one
    part's worst change, that of a vector at the norm bound turned into its opposite, already counts for both. ``parts_by: position``: the
    parts were fixed before a record was read, so that a replaced unit stays where it was."""
    per_unit, parts = event.number("parts_per_unit"), event.number("parts")
    replacing = context.replacing and event.fields.get("parts_by") != "position"
    found = _inner(event, context)
    touched = 1.0 if per_unit is None else per_unit
    if parts is not None:
        touched = min(touched, parts)
    twice = touched * 2 if parts is None else min(2 * touched, parts)
    if replacing and twice > touched:
        found = [
            x
            for c, additive in zip(found, _additive(event, context, len(found)), strict=True)
            for x in _in_two_parts(c, additive, touched, twice)
        ]
    else:
        found = [replace(c, count=c.count * math.ceil(touched)) for c in found]
    if per_unit is None:
        condition = f"every unit contributes to at most one part of {event.what}"
        return [replace(c, how="DP629") for c in _assuming(found, condition)]
    return found


def _additive(event: Event, context: Context, size: int) -> list[bool | None]:
    """For each component of the parts: True, additive noise on a sum of clipped vectors; None, clipped but sampled; False, other."""
    found: list[bool | None] = []
    for e in event.inner:
        bounded = _norm_bounded(e)
        kind = bounded if e.kind in ("gaussian", "laplace") or not bounded else None
        found += [kind] * len(components(e, context))
    return found if len(found) == size else [False] * size


def _in_two_parts(c: Component, additive: bool | None, touched: float, twice: float) -> list[Component]:
    if additive:
        # C in each of two parts: mu*sqrt(2)/2, or the same l1 distance spread out; 2C in one part is no less
        return [replace(c, count=c.count * math.ceil(touched))]
    if additive is None:  # above: as if both parts saw a replacement; below: one does
        above = replace(c, count=c.count * math.ceil(twice), under=None, pure_at_least=0.0, rho_at_least=0.0, mu=None)
        below = Component(c.what, c.count * math.ceil(touched), pure=0.0, rho=0.0, under=c.under)
        return [above, below]
    return [replace(c, count=c.count * math.ceil(twice))]


def _norm_bounded(event: Event) -> bool:
    """Whether sensitivities come from norm bounds alone, so that a record may turn a vector into its opposite and no farther."""
    if event.kind in ("sequence", *_SAMPLERS):
        return bool(event.inner) and all(_norm_bounded(e) for e in event.inner)
    other = ("l1_sensitivity", "l2_sensitivity", "sensitivity", "rho", "mu", "epsilon")
    if event.kind not in ("gaussian", "laplace") or event.number(*other) is not None:
        return False
    return _norm(event) is not None or event.number("noise_multiplier") is not None


def _model_select_until(event: Event, context: Context) -> list[Component]:
    found = _inner(event, context)
    bad = next((c for c in found if c.breach or c.unknown or not math.isfinite(c.pure) or c.slack), None)
    if bad is not None:
        if bad.breach:
            return found
        return [Component(event.what, unknown=bad.unknown or f"{event.what}: private selection is modelled for pure steps only")]
    if event.number("limit") is not None:
        return [Component(event.what, unknown=f"{event.what}: a limit on the attempts with a fallback output needs its own argument")]
    epsilon = 2 * sum(c.pure * c.count for c in found)
    over = randomized_response(epsilon) if 0 < epsilon < 500 else None
    # P(out = y) = Q(y, pass)/Q(pass): the ratio moves by exp(eps) in the numerator and by exp(eps) in the denominator
    chosen = Component(event.what, pure=epsilon, rho=epsilon**2 / 2, over=over, how="repetition until success: 2 epsilon")
    return _assuming([chosen], *(c.assumes for c in found))


@dataclass(frozen=True, slots=True)
class _Body:
    """The inside of a sampler as one mechanism: a Gaussian shift, one Laplace release, or (epsilon, delta)."""

    mu: float | None
    laplace: float | None
    pure: float
    slack: float
    gaussian_below: bool
    assumes: tuple[str, ...] = ()
    breach: Breach | None = None


def _body(event: Event, context: Context, times: int = 1) -> _Body | list[Component]:
    """``times``: uses of one subset."""
    found = [replace(c, count=c.count * times) for c in _inner(event, replace(context, sampled=True))]
    if any(c.unknown for c in found):
        return [replace(c, under=None, pure_at_least=0.0, rho_at_least=0.0, breach=None, mu=None) for c in found]
    if any(c.breach is not None and c.breach.delta == 0 for c in found):
        return [Component(event.what, unknown=f"{event.what}: amplification of a step that is not private at any epsilon is not modelled")]
    for e in _nodes(event.inner):
        if (e.number("contributions") or 1.0) > 1:
            why = f"{event.what}: the records of one unit are drawn one by one, so a unit is sampled more often than a record"
            return [Component(event.what, unknown=why, how="DP629")]
    assumes = tuple(dict.fromkeys(c.assumes for c in found if c.assumes))
    breach = max((c.breach for c in found if c.breach is not None), key=lambda b: b.delta, default=None)
    if breach is None and all(c.mu is not None for c in found):
        mu = math.sqrt(sum((c.mu or 0.0) ** 2 * c.count for c in found))
        return _Body(mu, None, math.inf, 0.0, all(c.under is not None for c in found), assumes)
    one = found[0] if len(found) == 1 and found[0].count == 1 else None
    laplace = one.over.epsilon if one is not None and isinstance(one.over, LaplacePair) and one.slack == 0 else None
    laplace = laplace if breach is None else None
    return _Body(None, laplace, sum(c.pure * c.count for c in found), sum(c.slack * c.count for c in found), False, assumes, breach)


def _sampled(found: Component, body: _Body, rate: float) -> list[Component]:
    """What is impossible without the record happens as often as the record is drawn."""
    breach = None if body.breach is None or rate == 0 else replace(body.breach, delta=rate * body.breach.delta)
    return _assuming([replace(found, breach=breach)], *body.assumes)


def _nodes(events: Sequence[Event]) -> list[Event]:
    return [x for e in events for x in (e, *_nodes(e.inner))]


def _log_mean_exp(epsilon: float, rate: float) -> float:
    """ln(1 + rate (exp(epsilon) - 1))."""
    return math.log1p(rate * math.expm1(epsilon)) if epsilon < 700 else epsilon + math.log(rate)


def _amplified(what: str, body: _Body, rate: float, epsilon: float | None = None) -> Component:
    """A sampled step by its guarantee alone; ``epsilon``: what amplification leaves of it, ln(1 + q (exp(eps) - 1)) unless given."""
    if not math.isfinite(body.pure):
        return Component(what, unknown=f"{what}: amplification of a mixed step without an (epsilon, delta) form is not modelled")
    epsilon = _log_mean_exp(body.pure, rate) if epsilon is None else epsilon
    slack = rate * body.slack
    over = approximate(epsilon, slack) if slack else randomized_response(epsilon)
    return Component(what, pure=epsilon, slack=slack, rho=epsilon**2 / 2 if slack == 0 else math.inf, over=over if epsilon < 500 else None)


def rates(event: Event) -> dict[str, float]:
    """The sampling rate by each way that it is stated."""
    rate, size, n = event.number("rate"), event.number("size"), event.number("n")
    found = {} if rate is None else {"rate": rate}
    if size is not None and n is not None:
        found["size/n"] = size / n
    elif size is not None or (n is not None and rate is None):
        raise _Missing("n" if n is None else "rate (or size)")
    if not found:
        raise _Missing("rate (or size and n)")
    return found


def _rate(event: Event) -> float:
    rate = max(rates(event).values())
    if not 0 <= rate <= 1:
        raise _Missing("a rate between 0 and 1")
    return rate


def _model_poisson(event: Event, context: Context) -> list[Component]:
    rate, times = _rate(event), event.count if event.fields.get("once") is True else 1
    if rate == 1:
        return [replace(c, count=c.count * times) for c in _inner(event, context)]
    body = _body(event, context, times)
    if isinstance(body, list):
        return body
    return _sampled(_poisson(event, context, body, rate), body, rate)


def _poisson(event: Event, context: Context, body: _Body, rate: float) -> Component:
    if rate == 0 or body.mu == 0 or body.pure == body.slack == 0:
        return _NOTHING
    what, replacing = event.what, context.replacing
    opposite = replacing and all(_norm_bounded(e) for e in event.inner)
    if body.mu is not None:
        over: Pair
        if replacing and not opposite:
            # a record adds x or x', any two values the sensitivity apart: far from 0 its presence shows, and amplification is lost. Below:
            # one that adds nothing against one that adds the sensitivity
            over, below = Seen(GaussianPair(body.mu), rate), Subsampled(GaussianPair(body.mu), rate)
            return Component(what, pure_at_least=math.inf, rho=body.mu**2 / 2, over=over, under=below if body.gaussian_below else None)
        over = SubsampledReplace(body.mu / 2, rate) if replacing else Subsampled(GaussianPair(body.mu), rate)
        return Component(what, pure_at_least=math.inf, rho_at_least=0.0, over=over, under=over if body.gaussian_below else None)
    if not replacing:
        if body.laplace is not None and body.laplace < 500:
            pair = Subsampled(LaplacePair(body.laplace), rate)
            top = _log_mean_exp(body.laplace, rate)
            return Component(what, pure=top, pure_at_least=top, rho=top**2 / 2, over=pair, under=pair)
        return _amplified(what, body, rate)
    if opposite and body.slack == 0 and body.pure < 1400:
        # without the record the step is half as far away as the other record's is
        half = body.pure / 2
        return _amplified(what, body, rate, math.log1p(rate * math.expm1(half)) - math.log1p(rate * math.expm1(-half)))
    found = _amplified(what, body, rate, body.pure)
    if body.laplace is not None and body.laplace < 500:
        over, below = Seen(LaplacePair(body.laplace), rate), Subsampled(LaplacePair(body.laplace), rate)
        return replace(found, over=over, under=below, pure_at_least=_log_mean_exp(body.laplace, rate))
    if body.slack == 0 and body.pure < 500 and math.isfinite(body.pure):
        return replace(found, over=Seen(randomized_response(body.pure), rate))
    return found


def _without_replacement(mu: float, rate: float) -> Joined:
    one = Subsampled(GaussianPair(mu), rate)
    return Joined(one, Reversed(one))


def _model_fixed(event: Event, context: Context) -> list[Component]:
    rate = _rate(event)
    if rate == 1:
        return _inner(event, context)
    body = _body(event, context)
    if isinstance(body, list):
        return body
    return _sampled(_fixed(event, context, body, rate), body, rate)


def _fixed(event: Event, context: Context, body: _Body, rate: float) -> Component:
    what, replacing = event.what, context.replacing
    if context.neighbouring == "add_remove":
        return Component(what, unknown=f"{what}: a subset of fixed size reveals the number of records; state replace_one or zero_out")
    if rate == 0 or body.mu == 0 or body.pure == body.slack == 0:
        return _NOTHING
    if body.mu is not None:
        if replacing:
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
        return Component(what, pure_at_least=0.0, over=over, under=under if body.gaussian_below else None)
    if replacing or body.slack > 0:
        if not replacing:
            return Component(what, unknown=f"{what}: a subset that leaves a record out holds another; state replace_one, or a pure step")
        return _amplified(what, body, rate)
    # zero-out: the step that takes another record in its place lies within exp(eps) of that of the zeroed one, hence at least exp(-eps)
    top = body.pure + math.log1p((1 - rate) / rate * math.exp(-2 * body.pure)) - math.log1p((1 - rate) / rate * math.exp(-body.pure))
    return _amplified(what, body, rate, min(top, body.pure))


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
    if context.neighbouring == "add_remove":
        return [_shuffled_without(event, body, batches, epochs)]
    if body.mu is None:
        found = _inner(event, replace(context, sampled=True))
        return [
            replace(c, count=c.count * epochs, under=None, pure_at_least=0.0, how="every record meets one batch an epoch") for c in found
        ]
    if body.mu == 0:
        return [_NOTHING]
    # above: every record lies in one batch an epoch, so an epoch is one Gaussian release for it. Below: all other gradients at -C;
    # the special batch is shifted by mu_plus under one data set and by mu_rest under its neighbour; the event is max > cut
    if context.replacing:
        plus, rest = body.mu, 0.0
    else:
        plus, rest = 2 * body.mu, body.mu
    cuts = np.linspace(0.0, plus + 9.0, 181)
    pairs = _event_pairs(shuffle_event(plus, rest, batches, float(c)) for c in cuts)
    over = GaussianPair(body.mu)
    found = [Component(event.what, epochs, rho=body.mu**2 / 2, over=over, under=_Family(pairs), how="DP615")]
    return _assuming(found, *body.assumes)


def _event_pairs(chances: Iterable[tuple[float, float]]) -> tuple[Atoms, ...]:
    return tuple(Atoms((p, 1 - p), (q, 1 - q)) for p, q in chances if 0 < q < 1 and 0 < p < 1)


def _shuffled_without(event: Event, body: _Body, batches: int, epochs: int) -> Component:
    """A record removed: the batches behind it fill up from one another, and the last one is shorter. No bound is known from above.

    Below, all other gradients at -C and the record at C: unless it lies in the last batch, that of the record is 2C above all others.
    The event is that one of the other batches exceeds a cut. With one batch the record is simply missing from it.
    """
    why = f"{event.what}: without a record all later batches of a permutation shift; state replace_one or zero_out"
    found = Component(event.what, epochs, unknown=why, how="DP615")
    if body.mu is None or body.mu == 0 or not body.gaussian_below:
        return found
    if batches == 1:
        return replace(found, under=GaussianPair(body.mu))
    share, plus = 1 - 1 / batches, 2 * body.mu

    def chance(cut: float) -> tuple[float, float]:
        with_it, without = shuffle_event(plus, 0.0, batches - 1, cut)
        return share * with_it + (1 - share) * without, without

    return replace(found, under=_Family(_event_pairs(chance(float(c)) for c in np.linspace(0.0, plus + 9.0, 181))))


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
    "discrete_laplace_threshold": _model_discrete_laplace_threshold,
    "discrete_gaussian_threshold": _model_discrete_gaussian_threshold,
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
