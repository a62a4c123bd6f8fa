"""Additive noise: sensitivities from what is stated or from a norm bound, and the loss by each word that states the noise."""

from __future__ import annotations

import math

from dpspec.audit.component import Context, Missing
from dpspec.audit.event import Event


def ratio(sensitivity: float, scale: float) -> float:
    return 0.0 if sensitivity == 0 else math.inf if scale == 0 or math.isinf(sensitivity) else sensitivity / scale


def sum_sensitivity(event: Event, context: Context, *names: str) -> float:
    """The largest of the sensitivities that are stated and of the one that a norm bound gives."""
    found = [x for x in (event.number(name) for name in names) if x is not None]
    clip = norm_of(event)
    if clip is not None:
        found.append(2 * clip if context.replacing else clip)
    if not found:
        raise Missing(f"{names[0]} (or clip_norm)")
    return max(found)


def norm_of(event: Event) -> float | None:
    bounds = [x for x in (event.number("clip_norm"), event.number("norm_bound")) if x is not None]
    return max(bounds) if bounds else None


def laplace_sensitivity(event: Event, context: Context) -> float:
    return sum_sensitivity(event, context, "l1_sensitivity", "sensitivity")


def gaussian_shifts(event: Event, context: Context) -> dict[str, float]:
    """mu of one Gaussian event by each word that states its noise; infinite without noise. Consistent words give the same."""
    found: dict[str, float] = {}
    for word in ("sigma", "variance"):
        noise = event.number(word)
        if noise is not None:
            top = sum_sensitivity(event, context, "l2_sensitivity", "sensitivity")
            found[word] = ratio(top, noise if word == "sigma" else math.sqrt(noise))
    multiplier = event.number("noise_multiplier")
    if multiplier is not None:
        clip, stated = norm_of(event), event.number("l2_sensitivity", "sensitivity")
        # the multiplier is noise over norm bound; without a norm bound it is noise over sensitivity
        if clip is not None:
            top = sum_sensitivity(event, context, "l2_sensitivity", "sensitivity")
            found["noise_multiplier"] = ratio(top, multiplier * clip) if clip > 0 else math.inf if top > 0 else 0.0
        else:
            top = 1.0 if stated is not None and stated > 0 else 0.0 if stated is not None else 2.0 if context.replacing else 1.0
            found["noise_multiplier"] = ratio(top, multiplier)
    rho, mu = event.number("rho"), event.number("mu")
    if rho is not None:
        found["rho"] = math.sqrt(2 * rho)
    if mu is not None:
        found["mu"] = mu
    if not found:
        raise Missing("sigma")
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
        found["scale"] = ratio(laplace_sensitivity(event, context), scale)
    if multiplier is not None:
        top = laplace_sensitivity(event, context)
        found["noise_multiplier"] = ratio(top, multiplier * (norm_of(event) or top))
    if not found:
        raise Missing("scale")
    return found


def norm_bounded(event: Event) -> bool:
    """Whether sensitivities come from norm bounds alone, so that a record may turn a vector into its opposite and no farther."""
    if event.kind in ("sequence", "poisson_sampled", "fixed_sampled", "shuffled"):
        return bool(event.inner) and all(norm_bounded(e) for e in event.inner)
    other = ("l1_sensitivity", "l2_sensitivity", "sensitivity", "rho", "mu", "epsilon")
    if event.kind not in ("gaussian", "laplace") or event.number(*other) is not None:
        return False
    return norm_of(event) is not None or event.number("noise_multiplier") is not None
