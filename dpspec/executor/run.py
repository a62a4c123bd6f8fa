"""Release mode: execute a plan on private data, once, with cryptographic randomness.

No seed, no error, no statistic beyond the plan. The record is written after the run; a run that drew less than its plan, or tried to
draw more, leaves no record. Under add-remove how many records there are is private: the record then says when the run started, not how long
it took.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dpspec.compiler.plan import Plan, schedule_json
from dpspec.executor.bind import arrays, base_dir, bound_problem, part_of, values
from dpspec.executor.record import Record, environment
from dpspec.spec.model import Data

Progress = Callable[[str, int, int], None]


def run(
    plan: Plan,
    x: Any = None,
    y: Any = None,
    *,
    data_file: Path | None = None,
    out: Path | None = None,
    progress: Progress | None = None,
) -> Record:
    """Execute ``plan``.

    ``x`` (with ``y``): records in memory, (n, d) and (n,), or a frame; otherwise ``data_file``, otherwise the spec's own source.
    ``out``: a folder for ``record.json`` and the arrays. ``progress(draw, done, total)`` is called after each draw.

    Raises :class:`~dpspec.spec.diagnostics.SpecError` (DP5xx) when the data contradict the plan, before any noise is drawn, and
    :class:`~dpspec.privacy.meter.PrivacyError` when an algorithm leaves its plan.
    """
    from dpspec.data.enforce import enforce
    from dpspec.data.sources import load
    from dpspec.privacy.meter import Release
    from dpspec.privacy.noise import PublicRandomness, SecureNoise

    draft = plan.draft
    memory = None if x is None else x if y is None else (x, y)
    started = now()
    raw = load(
        draft.analysis.data,
        data_file=data_file,
        memory=memory,
        base_dir=base_dir(draft.parsed.path),
        values=values(draft),
    )
    records = public_records(draft, raw, base_dir(draft.parsed.path))
    records, _ = enforce(records, draft.analysis.data, values(draft))
    events: list[dict[str, Any]] = []
    outputs: dict[str, dict[str, Any]] = {}
    for release in draft.releases:
        problem = bound_problem(draft, release)
        meter = Release(release.calibrated, SecureNoise(), mode="release", public=PublicRandomness(0), on_draw=progress)
        estimate = release.module.run(part_of(draft, release, records), problem, release.tunables, meter)
        events += [{"release": release.release.name, **event} for event in meter.close()]
        outputs[release.release.name] = arrays(estimate, problem)
    body = {
        "plan_sha256": plan.sha256,
        "mode": "release",
        "started": started,
        "finished": None if uncounted(draft.analysis.data) else now(),
        "environment": environment(),
        "events": events,
        "guarantee": plan.guarantee.to_json(),
        "schedule": schedule_json(draft),
        "ledger": None,
    }
    record = Record(body=body, outputs=outputs)
    if out is not None:
        record.write(out)
    return record


def public_records(draft: Any, raw: Any, base: Path) -> Any:
    """The loaded records, with the public file of ``with public x (path ...)`` beside them."""
    public = draft.analysis.privacy.public
    if public is None or public.path is None or raw.records.public_x is not None:
        return raw.records
    from dpspec.data.records import Records
    from dpspec.data.sources import load_public

    rows = load_public(public.path, draft.analysis.data, base_dir=base, values=values(draft))
    return Records(raw.records.x, raw.records.y, rows, raw.records.mapped)


def uncounted(data: Data) -> bool:
    """Whether how many records there are is private."""
    return data.status == "private" and data.neighbours == "add-remove"


def now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
