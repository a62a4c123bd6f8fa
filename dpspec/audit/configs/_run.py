"""A private training run in the field's own terms, and the events of it: what every tool's configuration is translated into."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dpspec.audit.configs._keys import refuse

MOST_SEGMENTS = 200


@dataclass(frozen=True, slots=True)
class Segment:
    """``steps`` steps with one multiplier (noise over clip) and one sampling rate."""

    steps: int
    multiplier: float
    rate: float


@dataclass(frozen=True, slots=True)
class Run:
    """``sampler``: poisson, fixed, shuffled or full. ``norm``: the bound on what one record adds, in the units in which the multiplier is
    noise over ``clip``. ``shift``: how often a record can move the sum by that bound. ``count_noise``: standard deviation on the count of
    clipped records that adaptive clipping releases at each step, beside the sum. ``records``: of one unit.
    ``subset``: how many of how many a fixed subset has. ``unclipped``: nothing enforces the bound. ``scale``: what the
    noise on the sum is multiplied by after all (a mean over another number than the noise is for)."""

    segments: tuple[Segment, ...]
    sampler: str
    clip: float = 1.0
    norm: float | None = None
    shift: float = 1.0
    count_noise: float | None = None
    records: int = 1
    subset: tuple[int, int] | None = None
    unclipped: bool = False
    scale: float = 1.0

    @property
    def steps(self) -> int:
        return sum(s.steps for s in self.segments)


def merged(segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """Equal multipliers and rates counted together: composition does not look at the order."""
    found: dict[tuple[float, float], int] = {}
    for s in segments:
        if s.steps > 0:
            found[(s.multiplier, s.rate)] = found.get((s.multiplier, s.rate), 0) + s.steps
    if len(found) > MOST_SEGMENTS:
        raise refuse("DP672", f"the schedule has {len(found)} different levels; more than {MOST_SEGMENTS} are not composed")
    return tuple(Segment(steps, z, q) for (z, q), steps in found.items())


def noise_events(run: Run, multiplier: float) -> list[dict[str, Any]]:
    """One noisy sum, and the noisy count beside it where the clip adapts. The stated multiplier is that of both together, as the tools
    have it (Andrew, Thakkar, McMahan, Ramaswamy 2021, Theorem 1: z^-2 = z_sum^-2 + (2 b)^-2)."""
    alone, more = multiplier, list[dict[str, Any]]()
    if run.count_noise is not None:
        if run.count_noise == 0:
            more = [{"type": "exact", "what": "count of clipped updates"}]
        else:
            share = multiplier / (2 * run.count_noise)
            if share >= 1:
                raise refuse(
                    "DP672",
                    f"the noise {run.count_noise:g} on the count alone is below what the multiplier {multiplier:g} allows (half of it)",
                )
            alone = multiplier / math.sqrt(1 - share * share)
            more = [{"type": "gaussian", "what": "count of clipped updates", "clip_norm": 0.5, "sigma": run.count_noise}]
    sum_: dict[str, Any] = {"type": "gaussian", "what": "clipped gradient sum", "sigma": alone * run.scale * run.clip}
    norm = run.clip if run.norm is None else run.norm
    sum_ |= {"clip_norm": norm} if run.shift == 1.0 else {"l2_sensitivity": run.shift * norm}
    if run.unclipped:
        sum_["clip"] = "none"
    events = [sum_, *more]
    return [{**e, "contributions": run.records} for e in events] if run.records > 1 else events


def events_of(run: Run) -> list[dict[str, Any]]:
    """The run as events of a description."""
    found: list[dict[str, Any]] = []
    for s in run.segments:
        inner = noise_events(run, s.multiplier)
        if run.sampler == "poisson" and s.rate < 1:
            found.append({"type": "poisson_sampled", "rate": s.rate, "count": s.steps, "events": inner})
        elif run.sampler == "fixed" and s.rate < 1:
            size = {"size": run.subset[0], "n": run.subset[1]} if run.subset is not None else {"rate": s.rate}
            found.append({"type": "fixed_sampled", **size, "count": s.steps, "events": inner})
        elif run.sampler == "shuffled" and s.rate < 1:
            batches = max(math.floor(1 / s.rate + 1e-9), 1)
            found.append({"type": "shuffled", "batches": batches, "epochs": max(math.ceil(s.steps / batches), 1), "events": inner})
        else:
            found += [{**e, "count": s.steps} for e in inner]
    return found
