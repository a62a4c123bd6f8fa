"""Histograms with private keys, released from a threshold on."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dpspec.audit.component import Breach, Component, Context, Missing, assuming
from dpspec.audit.event import Event
from dpspec.audit.events._additive import laplace_losses, laplace_sensitivity, norm_of
from dpspec.audit.events._common import grouped


def thresholded(event: Event, context: Context, whole: Component, power: float) -> list[Component]:
    """A histogram of noisy counts of which those from a threshold on are released, keys and all.

    A key that one unit alone has is released with some probability, and never without that unit. ``keys``: how many such keys a unit
    (each of its ``contributions``) can have; left out, as many as the sensitivity allows: ``keys * first_count^power <= top^power``.
    ``first_count``: largest count of such a key; left out, 1, or what the sensitivity allows with the stated number of keys.
    """
    if event.number("threshold") is None:
        raise Missing("threshold")
    m = event.number("contributions") or 1.0
    if m > 1:
        whole = grouped(whole, m)
    if whole.breach is not None or whole.unknown:
        return [whole]
    word = "l1_sensitivity" if power == 1 else "l2_sensitivity"
    stated = event.number(word, "sensitivity")
    top = stated if stated is not None else norm_of(event) or 1.0
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
        return assuming([found], "no unit puts two records on one key (first_count)")
    return [found]


def key_tail(event: Event, context: Context, count: float, discrete: bool | None = None) -> float:
    """P(count + noise reaches the threshold). Integers reach it from the next whole number on, that number included."""
    from scipy.special import ndtr

    gap = (event.number("threshold") or 0.0) - count
    if discrete is None:
        discrete = event.kind.startswith("discrete") or event.fields.get("noise_on") == "integers"
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
    scale = (1.0 if known is None else laplace_sensitivity(event, context)) / epsilon
    if scale == 0:
        return 1.0 if gap <= 0 else 0.0
    if not discrete:
        return math.exp(-gap / scale) / 2 if gap >= 0 else 1 - math.exp(gap / scale) / 2
    z, ratio = math.ceil(gap), math.exp(-1 / scale)
    return ratio**z / (1 + ratio) if z >= 1 else 1 - ratio ** (1 - z) / (1 + ratio)
