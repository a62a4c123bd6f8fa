"""Release mode: execute a plan on private data, once, with cryptographic randomness.

No seed, no error, no statistic beyond the plan. The record is written after the run; a run that drew less than its plan, or tried to
draw more, leaves no record. The folder for it is claimed before the first draw.

Once records are read, what a run does is the same for all neighbours but for the noise: the record of private data says when the run
started and not how long it took, libraries' warnings stay unsaid, and a failure, which no algorithm should have, says nothing about its
cause (DP327).
"""

from __future__ import annotations

import datetime as dt
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dpspec.compiler.draft import Draft
from dpspec.compiler.files import base_dir
from dpspec.compiler.plan import Plan, schedule_json
from dpspec.executor.bind import bound_problem, in_groups, part_of
from dpspec.executor.design import refuse
from dpspec.executor.record import NotWritten, Record, environment
from dpspec.lang.printer import to_dps
from dpspec.spec.diagnostics import SpecError

if TYPE_CHECKING:
    from dpspec.executor.booking import Booking

Progress = Callable[[str, int, int], None]
#: The help of an error that no run should have.
REPORT = "the card of the algorithm says that it reads before it draws: report it to whoever wrote it"
T = TypeVar("T")


def run(
    plan: Plan,
    x: Any = None,
    y: Any = None,
    *,
    data_file: Path | None = None,
    out: Path | None = None,
    progress: Progress | None = None,
    ledger: str | None = None,
    account: str | None = None,
    engine: str = "local",
    scheduler: str | None = None,
    workers: int | None = None,
) -> Record:
    """Execute ``plan``.

    ``x`` (with ``y``): records in memory, (n, d) and (n,), or a frame; otherwise ``data_file``, otherwise the spec's own source.
    ``out``: a folder for ``record.json`` and the arrays. ``progress(draw, done, total)`` is called after each draw.
    ``ledger``: the URL or file of a ledger, whose ``account`` is charged before the first draw (:mod:`dpspec.executor.booking`).
    ``engine``: ``local``, or ``dask``: sums over the records are computed by workers (:mod:`dpspec.executor.spread`), those of the
    ``scheduler`` at this address, or of a cluster of ``workers`` processes.

    Raises :class:`~dpspec.spec.diagnostics.SpecError` when the data contradict the plan (DP5xx) or ``out`` cannot take a release (DP416),
    before any noise is drawn, :class:`~dpspec.privacy.meter.PrivacyError` when an algorithm leaves its plan, or fails on private data
    (DP327), and :class:`~dpspec.executor.record.NotWritten`, which holds the record, when the disk fails after the draws.
    """
    from dpspec.data.problems import fail
    from dpspec.executor.folder import claimed

    if x is None and y is not None:
        fail("DP515", "y comes without x", "plan.run(x, y)")
    if x is not None and data_file is not None:
        fail("DP515", f"the records come twice: in memory, and from {data_file}", "leave one of them out")
    if engine not in ("local", "dask"):
        refuse(f"there is no engine {engine!r}", "local, or dask")
    if engine == "local" and (scheduler is not None or workers is not None):
        refuse("a scheduler and workers are for the engine dask", "engine dask, or leave them out")
    booking = None
    if ledger is not None or account is not None:
        from dpspec.executor.booking import booked

        booking = booked(plan, ledger, account, data_file=data_file, memory=x is not None)
    with claimed(out, tuple(r.release.name for r in plan.draft.releases)):
        try:
            record = _released(plan, x, y, data_file, progress, booking, Engine(engine, scheduler, workers))
        except BaseException as error:
            if booking is not None:
                booking.broken(error)
            raise
        if out is not None:
            try:
                record.write(out)
            except OSError as error:
                raise NotWritten(record, error) from error
    return record


@dataclass(frozen=True, slots=True)
class Engine:
    """Who computes sums over the records."""

    name: str = "local"
    scheduler: str | None = None
    workers: int | None = None


def _released(
    plan: Plan, x: Any, y: Any, data_file: Path | None, progress: Progress | None, booking: Booking | None, engine: Engine
) -> Record:
    draft = plan.draft
    private = draft.analysis.data.status == "private"
    memory = None if x is None else x if y is None else (x, y)
    started = now()
    check_files(draft, memory, data_file)
    events, outputs = unsaid(private, lambda: _drawn(draft, data_file, memory, progress, booking, engine))
    body = {
        "plan_sha256": plan.sha256,
        "mode": "release",
        "started": started,
        "finished": None if private else now(),
        "environment": environment(),
        "events": events,
        "guarantee": plan.guarantee.to_json(),
        "schedule": schedule_json(draft),
        "spec": {"text": to_dps(draft.analysis)},
        "ledger": None if booking is None else booking.committed(),
    }
    return Record(body=body, outputs=outputs)


def _drawn(
    draft: Any, data_file: Path | None, memory: Any, progress: Progress | None, booking: Booking | None, engine: Engine
) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
    """The events and the released arrays of every release."""
    from dpspec.privacy.meter import PrivacyError, Release
    from dpspec.privacy.noise import PublicRandomness, SecureNoise
    from dpspec.tasks.registry import of

    sound = False

    def checked() -> None:
        """The records were read and contradict nothing; nothing is drawn before."""
        nonlocal sound
        if booking is not None:
            booking.reserve()
        sound = True

    def drew(name: str, done: int, total: int) -> None:
        if not sound:
            raise PrivacyError("DP327", f"{name} was drawn before the records had been read to their end; nothing is released", REPORT)
        if progress is not None:
            progress(name, done, total)

    events: list[dict[str, Any]] = []
    outputs: dict[str, dict[str, Any]] = {}
    with _records(draft, data_file, memory, engine, checked) as records:
        for release in draft.releases:
            problem = bound_problem(draft, release)
            meter = Release(release.calibrated, SecureNoise(), mode="release", public=PublicRandomness(0), on_draw=drew)
            mine = in_groups(draft, release, problem, part_of(draft, release, records), SecureNoise())
            estimate = release.module.run(mine, problem, release.tunables, meter)
            events += [{"release": release.release.name, **event} for event in meter.close()]
            outputs[release.release.name] = of(release.release.task).arrays(estimate, problem)
    return events, outputs


@contextmanager
def _records(draft: Any, data_file: Path | None, memory: Any, engine: Engine, checked: Callable[[], None]) -> Iterator[Any]:
    if engine.name == "dask":
        from dpspec.executor.spread import spread

        with spread(draft, data_file, memory, engine.scheduler, engine.workers, checked) as found:
            yield found.records
        return
    from dpspec.executor.reading import read

    yield read(draft, data_file, memory, checked=checked).records


def unsaid(private: bool, work: Callable[[], T]) -> T:
    """What ``work`` on the records returns. With private ones no warning of a library is shown, and an exception that is neither a
    finding about spec or data, nor the meter's, nor a file's that cannot be read, gives way to one without its words, which may hold a
    record's. That memory ran out follows the size of the data, like the time, and is said, without words."""
    import numpy as np

    from dpspec.privacy.meter import PrivacyError

    if not private:
        return work()
    full = False
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return work()
        except (SpecError, PrivacyError, OSError):
            raise
        except MemoryError:
            full = True
        except Exception:
            if os.environ.get("DPSPEC_TRACEBACK"):  # asked for by whoever may see the data
                raise
    if full:
        raise MemoryError
    raise PrivacyError(
        "DP327",
        "the run failed after it had read the records; nothing is released, and why is not said, since that may tell about a record",
        "repeat it on simulated records (dpspec study), which says why",
    )


def check_files(draft: Draft, memory: Any, data_file: str | Path | None) -> None:
    """Before a record is read: the public files are what the plan holds (DP524), and none of them is the private one (DP518)."""
    from dpspec.data.files import CONTENT, REMEDY, digest, local, private_one
    from dpspec.data.problems import fail

    base, source = base_dir(draft.parsed.path), draft.analysis.data.source
    private: Path | None = None
    if draft.analysis.data.status == "private" and memory is None:
        path = getattr(source, "path", None)
        private = local(data_file) if data_file is not None else None if path is None else local(path, base)
    for file in draft.files:
        if file.role not in CONTENT:
            continue
        if private is not None and (wrong := private_one(file, private)):
            fail("DP518", wrong, REMEDY)
        if digest(file.where, fresh=True)[0] != file.sha256:
            fail("DP524", f"{file.path} ({file.role}) is not the file that the plan was made with", "plan again, and review what changed")


def now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
