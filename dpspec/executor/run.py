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

from dpspec.compiler.draft import Draft
from dpspec.compiler.files import base_dir
from dpspec.compiler.plan import Plan
from dpspec.executor.bind import arrays, bound_problem, part_of, values
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
    check_files(draft, memory, data_file)
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
        "ledger": None,
    }
    record = Record(body=body, outputs=outputs)
    if out is not None:
        record.write(out)
    return record


def check_files(draft: Draft, memory: Any, data_file: str | Path | None) -> None:
    """Before a record is read: the public files are what the plan holds (DP524), and none of them is the private one (DP518)."""
    from dpspec.data.files import REMEDY, digest, local, private_one
    from dpspec.data.problems import fail

    base, source = base_dir(draft.parsed.path), draft.analysis.data.source
    private: Path | None = None
    if draft.analysis.data.status == "private" and memory is None:
        path = getattr(source, "path", None)
        private = local(data_file) if data_file is not None else None if path is None else local(path, base)
    for file in draft.files:
        if file.role not in ("public records", "vertices"):
            continue
        if private is not None and (wrong := private_one(file, private)):
            fail("DP518", wrong, REMEDY)
        if digest(file.where, fresh=True)[0] != file.sha256:
            fail("DP524", f"{file.path} ({file.role}) is not the file that the plan was made with", "plan again, and review what changed")


def public_records(draft: Any, raw: Any, base: Path) -> Any:
    """The loaded records, with the public file of ``with public x (path ...)`` beside them."""
    public = draft.analysis.privacy.public
    if public is None or public.path is None:
        return raw.records
    from dpspec.data.problems import fail
    from dpspec.data.records import Records
    from dpspec.data.sources import load_public

    if raw.records.public_x is not None:
        fail("DP515", f"public x comes twice: from {public.path}, and beside the records as public_x", "leave one of them out")
    rows = load_public(public.path, draft.analysis.data, base_dir=base, values=values(draft))
    return Records(raw.records.x, raw.records.y, rows, raw.records.mapped)


def uncounted(data: Data) -> bool:
    """Whether how many records there are is private."""
    return data.status == "private" and data.neighbours == "add-remove"


def now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
