"""Federated averaging with clipped, noised updates: clients per round, rounds, noise on the sum or the mean, local noise."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from dpspec.audit.configs._keys import Keys, refuse
from dpspec.audit.configs._run import Run, Segment, merged
from dpspec.audit.configs._tool import Configured, Tool
from dpspec.audit.configs._training import (
    Choice,
    Noise,
    _told,
    claim_of,
    configured,
    facts_of,
    noises,
    on_mean,
    relation,
    sampler_of,
    segments,
    steered,
    switched_on,
)
from dpspec.audit.deployment import Deployment, deployment_of


def participants(keys: Keys) -> tuple[float, float]:
    """(clients in a round, clients in total)."""
    total, per, fraction = keys.number("clients", 1), keys.number("per_round", 1), keys.number("fraction", 0.0, 1.0, above=True)
    rate = keys.number("rate", 0.0, 1.0, above=True)
    if fraction is None:
        fraction = rate
    if total is None and per is not None and fraction is not None:
        total = per / fraction
    if total is None:
        raise refuse("DP674", "missing: the number of clients in total", "num_clients, beside clients_per_round or fraction_fit")
    if fraction is not None:
        drawn = min(max(math.floor(fraction * total + 1e-9), 1, keys.whole("least") or 1), total)
        if per is not None and not math.isclose(per, drawn, rel_tol=1e-2):
            keys.said(f"{keys.name('per_round')} is {per:g}, and {fraction:g} of {total:g} clients take part: {drawn:g}")
        return drawn, total
    if per is None:
        raise refuse("DP674", "missing: clients_per_round, or fraction_fit")
    least = keys.whole("least")
    if least is not None and least > per:
        raise refuse("DP672", f"{keys.name('least')} = {least}, and {keys.name('per_round')} = {per:g}: which of them take part?")
    if per > total:
        raise refuse("DP672", f"{keys.name('per_round')} = {per:g} of {total:g} clients")
    return per, total


def local_training(keys: Keys) -> None:
    """What happens on a client before its update is clipped."""
    mine = [keys.name(m) for m in ("local_epochs", "local_batch", "epochs", "batch", "steps", "n") if keys.raw(m) is not None]
    if mine:
        keys.said(f"{', '.join(mine)}: training on a client, before its update is clipped; no effect on what protects a client")


def weights(keys: Keys, averages: bool) -> list[Choice]:
    """Whether the clip bounds what a client adds: it does where all clients weigh the same."""
    word = keys.word("weighting")
    if word:
        equal = word in ("uniform", "equal", "none", "false", "unweighted", "no")
        if not equal:
            keys.said(f"{keys.name('weighting')} {word}: a client's weight is its own, and the clip does not bound what it adds", "DP622")
        return [Choice(equal)]
    return [Choice(True, "all clients weigh the same in the average" if averages else "")]


def federated(keys: Keys, tool: Tool, averages: bool = False, count_default: float | None = None) -> Deployment:
    """Noise on clipped client updates at the server. ``averages``: the noise is added to the mean, divided by the number of clients that
    the configuration names; ``count_default``: the tool's share of them as noise on the count of an adaptive clip."""
    switched_on(keys)
    named = keys.number("per_round", 1)
    drawn, total = participants(keys)
    noisy = keys.has("multiplier", "noise_std", "sigma")
    claim, wanted = claim_of(keys, tool, total, noisy)
    if not noisy and not wanted:
        raise refuse("DP674", "missing: noise_multiplier, or a target epsilon", "with a target alone the answer is the noise that it needs")
    rounds = keys.whole("rounds")
    if rounds is None:
        raise refuse("DP674", "missing: rounds")
    local_training(keys)
    facts, style = facts_of(keys, tool), keys.word("style")
    counted = keys.number("count_noise")
    adaptive = keys.flag("adaptive") or "adapt" in style or "adapt" in keys.word("strategy") or counted is not None or steered(keys)
    if adaptive and counted is None:
        if count_default is None:
            raise refuse("DP674", "missing: count_noise_std, the noise on the count of clipped updates")
        counted = count_default * (named or drawn)
        keys.said(f"the noise on the count of clipped updates is not stated; {tool.title} takes {counted:g}")
    scale = 1.0
    if averages and named is not None and named != drawn:
        scale = drawn / named
        keys.said(f"the noise is that of a mean over {named:g}, and {drawn:g} take part: {scale:.4g} times the noise on the sum")
    mean = on_mean(keys)
    runs = []
    for noise in noises(keys, tool):
        for sampler in sampler_of(keys, tool):
            for equal in weights(keys, averages):
                rate = 1.0 if drawn >= total else drawn / total
                at = _on_sum(noise.value, drawn if mean else 1.0)
                cut = [Segment(rounds, 1.0, rate)] if wanted else segments(keys, at, rate, rounds)
                kind = "full" if rate == 1.0 or sampler.value == "order" else sampler.value
                subset = (math.ceil(drawn), int(total)) if total == int(total) else None
                run = Run(merged(cut), kind, at.clip, at.norm, count_noise=counted, subset=subset, unclipped=not equal.value, scale=scale)
                conditions = "; ".join(c for c in (noise.condition, sampler.condition, equal.condition) if c)
                runs.append((conditions, run, relation(keys, "fixed" if kind == "full" else kind)))
    unit = str(keys.raw("unit") or "client")
    told = _told(keys, tool, runs)
    keys.finish()
    return configured(tool, runs, claim, unit, total, facts, tuple(dict.fromkeys((*keys.notes, *told))), wanted)


def _on_sum(noise: Noise, size: float) -> Noise:
    return noise if noise.deviation is None else replace(noise, deviation=noise.deviation * size)


def local_noise(keys: Keys, tool: Tool, gaussian: bool = True) -> Deployment:
    """Noise that each client adds to its own update, calibrated from epsilon, delta and a sensitivity by the textbook formula
    sqrt(2 ln(1.25/delta)) sensitivity/epsilon (Laplace: sensitivity/epsilon), once a round."""
    switched_on(keys)
    epsilon, delta = keys.number("epsilon", above=True), keys.number("delta", 0.0, 1.0)
    sensitivity = keys.number("sensitivity", above=True)
    clip = keys.number("clip", above=True) if keys.has("clip") else None
    rounds = keys.whole("rounds") or 1
    if epsilon is None or sensitivity is None or (gaussian and not delta):
        raise refuse("DP674", "missing: epsilon, sensitivity" + (" and delta" if gaussian else ""))
    local_training(keys)
    for aside in ("clients", "per_round", "fraction"):
        keys.raw(aside)  # a client is protected from everybody: how many there are changes nothing
    event: dict[str, Any] = {"what": "update of a client", "clip": "none"} if clip is None else {"what": "update of a client"}
    if gaussian:
        assert delta is not None
        sigma = math.sqrt(2 * math.log(1.25 / delta)) * sensitivity / epsilon
        event |= {"type": "gaussian", "sigma": sigma, **({"l2_sensitivity": sensitivity} if clip is None else {"clip_norm": clip})}
        keys.said(
            f"read as {tool.title}: noise {sigma:.6g} = sqrt(2 ln(1.25/delta)) x {sensitivity:g}/{epsilon:g} on an update, {rounds} rounds"
        )
    else:
        scale = sensitivity / epsilon
        event |= {"type": "laplace", "scale": scale, **({"l1_sensitivity": sensitivity} if clip is None else {"clip_norm": clip})}
        keys.said(f"read as {tool.title}: Laplace noise of scale {scale:.6g} = {sensitivity:g}/{epsilon:g} on each update, {rounds} rounds")
    if clip is not None:
        keys.said(f"two updates clipped to {clip:g} are up to {2 * clip:g} apart; the noise is for a sensitivity of {sensitivity:g}")
    else:
        keys.said(f"no clip is stated: nothing enforces the sensitivity {sensitivity:g}", "DP622")
    setting = {"model": "local", "unit": str(keys.raw("unit") or "client"), "neighbouring": "local_replace"}
    if rounds > 1:
        setting |= {"events_unit": "round", "repeats": rounds}  # type: ignore[dict-item]
    facts = facts_of(keys, tool)
    keys.finish()
    claim = {"epsilon": epsilon, "delta": delta or 0.0}
    data = {"subject": f"{tool.title} run", "setting": setting, "claim": claim, "events": [event], "facts": facts}
    found = deployment_of(data, strict=False)
    found = replace(found, notes=(*found.notes, *keys.notes))
    return Configured(
        found.subject, found.setting, found.claim, found.events, facts=found.facts, notes=found.notes, readings=(("", found),)
    )
