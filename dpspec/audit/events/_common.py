"""What every event type shares: faults that void a noise event, units of several records, the events inside."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from dpspec.audit.component import Breach, Component, Context, assuming, gaussian_release, laplace_release
from dpspec.audit.event import Event
from dpspec.audit.kinds import OPEN_ENDED, Kind
from dpspec.audit.pairs import LaplacePair, randomized_response

_FLOATS: Mapping[str, int] = {"float64": 53, "double": 53, "float32": 24, "single": 24}


def flaw(event: Event, kind: Kind, context: Context) -> Component | None:
    """Faults that void a noise event whatever its scale."""
    if event.fields.get("scale_from") in ("data", "from-data", "private"):
        why = f"{event.what}: the noise scale is computed from the protected records; constant records give scale 0 and a sure output"
        return Component(event.what, breach=Breach("DP621", 1.0, why))
    if event.fields.get("clip") in ("none", "copy", "missing"):
        why = f"{event.what}: records are not clipped, so one record moves the released value without bound"
        return Component(event.what, breach=Breach("DP622", 1.0, why))
    bits = _FLOATS.get(str(event.fields.get("arithmetic")), 0)
    law = kind.noise
    if bits and law and not context.sampled:
        gaussian = law == "gaussian"
        top = event.number("l2_sensitivity" if gaussian else "l1_sensitivity", "sensitivity", "clip_norm", "norm_bound") or 0.0
        delta = float64_gap(top, event.number("sigma" if gaussian else "scale") or 0.0, law, bits)
        if delta > 0:
            why = f"{event.what}: {law} noise in IEEE floats of {bits} bits; outputs near 0 that are no multiple of the spacing"
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


def grouped(c: Component, m: float) -> Component:
    """The same component for a unit of ``m`` records."""
    if c.unknown:
        return c
    if c.breach is not None or c.slack > 0:  # what a further record adds to a failure is the model's own business
        why = f"{c.what}: group privacy for {m:g} records needs a step without a failure probability"
        return replace(c, unknown=why, over=None, mu=None, pure=math.inf, rho=math.inf)
    if c.mu is not None:
        return replace(gaussian_release(c.what, c.mu * m, c.count), assumes=c.assumes, how=c.how)
    if isinstance(c.over, LaplacePair):
        return replace(laplace_release(c.what, c.over.epsilon * m, c.count), assumes=c.assumes, how=c.how)
    if math.isfinite(c.pure):
        over = randomized_response(c.pure * m) if 0 < c.pure * m < 500 else None
        return Component(c.what, c.count, pure=c.pure * m, rho=c.rho * m * m, over=over, assumes=c.assumes, how=c.how)
    return replace(
        c, unknown=f"{c.what}: group privacy for {m:g} records needs a pure or Gaussian step", over=None, pure=math.inf, rho=math.inf
    )


def shared(found: Sequence[Component], event: Event, kind: Kind) -> list[Component]:
    """The components with what the common fields add: the arithmetic as a condition, and units of several records."""
    told = event.fields
    result = list(found)
    if kind.noise and told.get("arithmetic") in _FLOATS:
        # alone the lattice of the outputs tells the inputs apart (flaw); inside a sampler no such pair is known
        result = assuming(result, f"the noise of {event.what} has its ideal law and not that of {told['arithmetic']} numbers")
    group = event.number("contributions")
    if told.get("contributions") in OPEN_ENDED:
        return [replace(c, how=c.how or "DP629") for c in assuming(result, "every unit contributes one record")]
    if group is not None and group > 1 and not kind.contributions:
        return [grouped(c, group) for c in result]
    return result
