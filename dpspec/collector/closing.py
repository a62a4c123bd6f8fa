"""From sums of reports to the record of the release: the algorithm runs as in ``dpspec run``, and where it would ask its users it is handed
what they sent. Aggregation is one piece of code (:class:`dpspec.privacy.wire.Tally`), so the record of the same reports is the same."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpspec.client.device import ROUND_FORMAT, VERSION, Device
from dpspec.compiler.plan import Plan, schedule_json
from dpspec.executor.bind import bound_problem
from dpspec.executor.record import Record, environment
from dpspec.executor.run import unsaid
from dpspec.privacy.wire import Tally

#: The tallies of one round by (draw of the device, report of the user).
Tallies = Mapping[tuple[int, int], Tally]


class Awaiting(BaseException):
    """The algorithm asks the users of a round that is not over: ``told`` is what they are told. No error of an algorithm, which may catch
    exceptions."""

    def __init__(self, round: int, told: Mapping[str, Any]) -> None:
        super().__init__(round)
        self.round, self.told = round, told


class Absent:
    """Records that nobody sees: as many as answered, none of which can be read."""

    public_x = None

    def __init__(self, n: int, d: int, labelled: bool) -> None:
        self.n, self.d, self.has_y = n, d, labelled

    @property
    def x(self) -> Any:
        raise RuntimeError("a collector has reports and no records")

    @property
    def y(self) -> Any:
        raise RuntimeError("a collector has reports and no records")

    def blocks(self, size: int = 0) -> Iterator[Any]:
        return iter(())

    def slice(self, start: int, stop: int) -> Absent:
        return self

    def rounds(self, T: int) -> Iterator[Any]:
        for _ in range(T):
            yield np.empty((0, self.d)), np.empty(0)


@dataclass(frozen=True)
class Collected:
    """The reports of a plan, round after round; ``rounds[t]`` the tallies of round t + 1."""

    plan: Plan
    device: Device
    rounds: tuple[Tallies, ...]

    def users(self, round: int) -> int:
        """Whose reports of a round (from 1) were taken."""
        return self.rounds[round - 1][0, 0].users if round <= len(self.rounds) else 0


def batch_sizes(plan: Plan, device: Device) -> tuple[int, ...]:
    """How many users each round has: those of :func:`dpspec.data.records.round_bounds`."""
    from dpspec.data.records import round_bounds

    n = int(plan.draft.facts["n"])
    return tuple(stop - start for start, stop in round_bounds(n, device.rounds)) if device.rounds > 1 else (n,)


def state_of(collected: Collected, round: int) -> dict[str, Any]:
    """What the users of ``round`` are told, from the reports of the rounds before it."""
    told: Mapping[str, Any] = {}
    if collected.device.rounds > 1:
        try:
            _outcome(collected, round - 1)
        except Awaiting as waiting:
            told = waiting.told
    return {
        "format": ROUND_FORMAT,
        "version": VERSION,
        "plan": collected.plan.sha256,
        "round": round,
        "told": {name: [float(v) for v in np.ravel(value)] for name, value in told.items()},
    }


def record_of(collected: Collected, started: str, *, partial: bool = False) -> Record:
    """The record of the release. ``partial``: some users did not answer; the public n that estimates scale by is then the number of those
    who did. Raises :class:`~dpspec.spec.diagnostics.SpecError` (DP419) where a round is not over, and
    :class:`~dpspec.privacy.meter.PrivacyError` where the reports are not those of the plan."""
    from dpspec.collector.store import refuse

    plan, device = collected.plan, collected.device
    wanted = batch_sizes(plan, device)
    for at, size in enumerate(wanted, start=1):
        users = collected.users(at)
        over = at < len(collected.rounds)  # it ended with those who had answered
        if users == 0 or (users < size and not partial and not over):
            which = f"round {at} of {len(wanted)}" if len(wanted) > 1 else "the plan"
            refuse(f"{which} has {users:,} of its {size:,} reports", "collect the others, or take the result of fewer with --partial")
    private = plan.draft.analysis.data.status == "private"
    events, outputs = unsaid(private, lambda: _outcome(collected, device.rounds))
    return Record(
        body={
            "plan_sha256": plan.sha256,
            "mode": "release",
            "started": started,
            "finished": None,
            "environment": environment(),
            "events": events,
            "guarantee": plan.guarantee.to_json(),
            "schedule": schedule_json(plan.draft),
            "ledger": None,
        },
        outputs=outputs,
    )


def _outcome(collected: Collected, rounds: int) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
    """Events and outputs, from the reports of the first ``rounds`` rounds. Raises :class:`Awaiting` at the first draw beyond."""
    from dpspec.privacy.meter import Release
    from dpspec.privacy.noise import PublicRandomness, SecureNoise
    from dpspec.tasks.registry import of

    draft, device = collected.plan.draft, collected.device
    users = sum(tallies[0, 0].users for tallies in collected.rounds)
    planned = int(draft.facts["n"])
    events: list[dict[str, Any]] = []
    outputs: dict[str, dict[str, Any]] = {}
    several = len(draft.releases) > 1
    places = {draw.name: i for i, draw in enumerate(device.draws)}
    for release in draft.releases:
        problem = bound_problem(draft, release)
        if rounds == device.rounds and users != planned:
            problem = dataclasses.replace(problem, facts={**problem.facts, "n": users})

        def tally(name: str, done: int, blocks: Any, prefix: str = release.release.name) -> Tally:
            i = places[f"{prefix}.{name}" if several else name]
            at, k = divmod(done, device.draws[i].count)
            if at >= rounds:
                raise Awaiting(at + 1, getattr(blocks, "told", {}))
            return collected.rounds[at][i, k]

        meter = Release(release.calibrated, SecureNoise(), mode="release", public=PublicRandomness(0), collected=tally)
        absent: Any = Absent(problem.n, device.d, device.has_y)
        estimate = release.module.run(absent, problem, release.tunables, meter)
        events += [{"release": release.release.name, **event} for event in meter.close()]
        outputs[release.release.name] = of(release.release.task).arrays(estimate, problem)
    return events, outputs
