"""What every event type shares: faults that void a noise event, units of several records, the events inside."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from dpspec.audit.component import Breach, Component, Context, assuming, gaussian_release, laplace_release, unattained, void
from dpspec.audit.event import Event
from dpspec.audit.kinds import OPEN_ENDED, Kind
from dpspec.audit.pairs import LaplacePair, approximate, randomized_response

FLOATS: Mapping[str, int] = {"float64": 53, "double": 53, "float32": 24, "single": 24}


def flaw(event: Event, kind: Kind, context: Context) -> Component | None:
    """What breaks a noise event whatever its scale: neighbours can be shown that are told apart for sure, or with probability delta."""
    if event.fields.get("scale_from") == "data-range":
        why = f"{event.what}: the noise is in proportion to the range of the records; equal records give scale 0 and a sure output"
        return Component(event.what, breach=Breach("DP621", 1.0, why))
    if event.fields.get("clip") == "unbounded":
        why = f"{event.what}: records of any size are not clipped, so one record moves the released value without bound"
        return Component(event.what, breach=Breach("DP622", 1.0, why))
    bits = FLOATS.get(str(event.fields.get("arithmetic")), 0)
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


def voided(event: Event) -> tuple[str, str]:
    """(code, why) of a word that takes away the proof of the upper bound, without a pair of neighbours that shows a breach."""
    if event.fields.get("scale_from") in ("data", "from-data", "private"):
        return "DP621", f"{event.what}: the noise scale is computed from the protected records"
    if event.fields.get("clip") in ("none", "copy", "missing"):
        return "DP622", f"{event.what}: records are not clipped, so no sensitivity is enforced"
    return "", ""


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
    """The same component for a unit of ``m`` records. What one record shows a unit shows too, since it may differ in one record only."""
    if c.unknown:
        return c
    if c.mu is not None and c.breach is None:
        found = gaussian_release(c.what, c.mu * m, c.count)
        return replace(found if c.under is not None else unattained(found), assumes=c.assumes, how=c.how)
    if isinstance(c.over, LaplacePair) and c.slack == 0 and c.breach is None:
        found = laplace_release(c.what, c.over.epsilon * m, c.count)
        return replace(found if c.under is not None else unattained(found), assumes=c.assumes, how=c.how)
    top = c.pure * m
    if c.slack > 0 and math.isfinite(top):
        # (m epsilon, delta (1 + e^epsilon + ... + e^((m-1) epsilon)))
        sum_of = m if c.pure == 0 else math.expm1(min(top, 700.0)) / math.expm1(c.pure)
        if c.slack * sum_of < 1:
            over = approximate(top, c.slack * sum_of) if top < 500 else None
            return replace(c, pure=top, slack=c.slack * sum_of, rho=math.inf, over=over, mu=None)
    elif c.breach is None and (math.isfinite(top) or math.isfinite(c.rho)):
        over = randomized_response(top) if 0 < top < 500 else None
        return replace(c, pure=top, rho=c.rho * m * m, over=over, mu=None)
    why = f"{c.what}: group privacy for {m:g} records needs a pure, zCDP or Gaussian step"
    return replace(c, unknown=why, over=None, mu=None, pure=math.inf, rho=math.inf)


def shared(found: Sequence[Component], event: Event, kind: Kind) -> list[Component]:
    """The components with what the common fields add: units of several records, conditions, and what is stated without being attained."""
    told = event.fields
    result = list(found)
    if told.get("arithmetic") in FLOATS and not event.inner:
        # alone the lattice of the outputs tells the inputs apart (flaw); inside a sampler, and for other laws, no such pair is known
        law = "ideal law" if kind.guarantee is None else "stated guarantee"
        result = assuming(result, f"the noise of {event.what} has its {law} and not that of {told['arithmetic']} numbers")
    code, why = voided(event)
    if why:
        result = [void(c, why, code) for c in result]
        if told.get("scale_from") not in (None, "public", "fixed"):
            result = [unattained(c) for c in result]
    if told.get("attained") is False:
        result = [unattained(c) for c in result]
    group = event.number("contributions")
    if told.get("contributions") in OPEN_ENDED:
        return [replace(c, how=c.how or "DP629") for c in assuming(result, "every unit contributes one record")]
    if group is not None and group > 1 and not kind.contributions:
        return [grouped(c, group) for c in result]
    return result
