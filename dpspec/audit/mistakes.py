"""Naming the mistake: wrong computations that reproduce the stated number.

Each hypothesis computes what an accountant that makes one particular mistake would answer for the described events. When that is the
stated number (to one percent) and the stated number is not the right one, the mistake is named. No verdict rests on this.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpspec.audit.bounds import Range, gaussian_only
from dpspec.audit.component import Component, Context
from dpspec.audit.deployment import Claim, Deployment
from dpspec.audit.event import Event, nodes
from dpspec.audit.events import components
from dpspec.audit.losses import bracket
from dpspec.audit.words import REPLACING
from dpspec.spec.diagnostics import Diagnostic

_CLOSE = 1e-2


def _near(a: float, b: float) -> bool:
    return math.isfinite(a) and math.isfinite(b) and abs(a - b) <= _CLOSE * max(abs(a), abs(b))


def explain(deployment: Deployment, parts: Sequence[Component], found: Range) -> list[Diagnostic]:
    """Remarks on how the stated epsilon may have come about. ``found``: the bounds at the stated delta."""
    claim = deployment.claim
    if claim.epsilon is None or not deployment.events:
        return []
    remarks: list[Diagnostic] = []
    delta = claim.delta or 0.0
    wrong = found.low > claim.epsilon * (1 + 1e-3)
    replacing = deployment.setting.neighbouring in REPLACING

    def say(code: str, message: str, help: str = "") -> None:
        remarks.append(Diagnostic(code, "warning", message, help))

    mu = gaussian_only(parts)
    if mu is not None and mu > 0 and delta == 0 and claim.variant != "zcdp":
        say("DP612", "Gaussian noise has no finite epsilon at delta 0", "state a delta, rho or mu")
    if mu is not None and 0 < mu < 1e5 and 0 < delta < 1:
        textbook = math.sqrt(2 * math.log(1.25 / delta)) * mu
        if _near(textbook, claim.epsilon) and claim.epsilon >= 1:
            say(
                "DP611",
                f"the scale is the textbook one for epsilon {claim.epsilon:g}, covered below 1 only; the profile gives {found.high:.5g}",
            )
        if wrong:
            from dpspec.audit.conversions import zcdp_epsilon
            from dpspec.privacy.gaussian import epsilon_of

            if replacing and (_near(epsilon_of(mu / 2, delta), claim.epsilon) or _near(zcdp_epsilon(mu * mu / 8, delta), claim.epsilon)):
                say("DP610", "the stated number is that of half the shift: replace-one doubles the sensitivity of a clipped sum")
            counts = [c.count for c in parts]
            if len(parts) == 1 and counts[0] > 1 and _near(epsilon_of((parts[0].mu or 0.0), delta), claim.epsilon):
                say("DP628", f"the stated number is that of one release; there are {counts[0]}")
            for factor in range(2, 65):
                if not replacing and _near(epsilon_of(mu / math.sqrt(factor), delta), claim.epsilon):
                    say(
                        "DP622",
                        f"the stated number is that of a sensitivity smaller by sqrt({factor}): is each of {factor} pieces clipped alone?",
                    )
                    break
    if wrong and delta == 0 and all(math.isfinite(c.pure) for c in parts):
        single = max(c.pure for c in parts)
        if (len(parts) > 1 or parts[0].count > 1) and _near(single, claim.epsilon):
            total = math.fsum(c.pure * c.count for c in parts)
            say("DP628", f"the stated number is that of one release; all releases on the same record cost {total:.6g}")
        for event in nodes(deployment.events):
            top, scale = event.number("l1_sensitivity", "sensitivity"), event.number("scale")
            if event.kind == "laplace" and top and scale and _near(top * scale, claim.epsilon) and not _near(top / scale, top * scale):
                say("DP637", f"the scale {scale:g} is epsilon/sensitivity; sensitivity/epsilon = {top / claim.epsilon:.6g} was meant")
    remarks += _sampling(deployment, claim, delta, wrong)
    return remarks


def _sampling(deployment: Deployment, claim: Claim, delta: float, wrong: bool) -> list[Diagnostic]:
    assert claim.epsilon is not None
    remarks: list[Diagnostic] = []
    context = Context(deployment.setting.neighbouring)
    for event in deployment.events:
        if event.kind == "subset":
            inner = [c for e in event.inner for c in components(e, context)]
            total = math.fsum(c.pure * c.count for c in inner)
            rate = event.number("rate")
            message = "no amplification theorem is known for this selection; the unsampled cost applies"
            if rate is not None and _near(rate * total, claim.epsilon):
                remarks.append(
                    Diagnostic(
                        "DP617",
                        "warning",
                        f"the stated number is {rate:g} times {total:g}",
                        "use ln(1 + q (exp(eps) - 1)), for a uniform secret sample only",
                    )
                )
            remarks.append(Diagnostic("DP643", "warning", message))
        if event.kind == "poisson_sampled" and len(event.inner) == 1 and event.inner[0].kind == "gaussian" and delta > 0:
            remarks += _sampled_gaussian(event, context, claim.epsilon, delta, wrong)
        if event.kind == "shuffled" and wrong and len(event.inner) == 1 and event.inner[0].kind == "gaussian" and delta > 0:
            batches, epochs = int(event.number("batches") or 1), int(event.number("epochs") or 1)
            poisson = Event("poisson_sampled", {"rate": 1 / batches}, batches * epochs, event.inner)
            pairs = [(c.over, c.count) for c in components(poisson, context) if c.over is not None]
            if _near(bracket(pairs, [], delta, precision=4e-3)[1], claim.epsilon):
                remarks.append(
                    Diagnostic(
                        "DP615",
                        "warning",
                        f"the stated number is that of Poisson batches at rate 1/{batches}; the batches were cut from a permutation",
                    )
                )
    return remarks


def _sampled_gaussian(event: Event, context: Context, epsilon: float, delta: float, wrong: bool) -> list[Diagnostic]:
    from dpspec.privacy.gaussian import epsilon_of

    inner = gaussian_only(components(event.inner[0], context))
    rate, mu = event.number("rate") or 0.0, inner or 0.0
    if not (0 < rate <= 1 and 0 < mu < 15):
        return []
    steps = event.count
    clt = rate * math.sqrt(steps * math.expm1(mu * mu))
    if 0 < clt < 50 and _near(epsilon_of(clt, delta), epsilon) and wrong:
        return [
            Diagnostic(
                "DP618",
                "warning",
                f"the stated number is the Gaussian limit mu = {clt:.5g}, which lies below the true loss of {steps} steps",
            )
        ]
    group = max(event.number("contributions") or 1.0, event.inner[0].number("contributions") or 1.0)
    if wrong and steps == 1 and group == 1:
        return [
            Diagnostic(
                "DP616",
                "warning",
                "one draw of the subset serves all releases on it: they compose before the amplification",
                f"for a record known to be in the subset epsilon is {epsilon_of(mu, delta):.5g}",
            )
        ]
    return []
