"""The Python interface: load, check, plan, run, study, audit.

Every function takes a path or what an earlier one returned, and raises :class:`~dpspec.spec.diagnostics.SpecError` (all findings at
once) on a spec that cannot be used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from dpspec.compiler.plan import Plan as CompiledPlan
from dpspec.compiler.plan import make_plan
from dpspec.lang.source import Parsed, parse_file, parse_text
from dpspec.spec.diagnostics import Diagnostic

if TYPE_CHECKING:
    from dpspec.audit.verdict import AuditResult
    from dpspec.executor.record import Record, StudyResult

#: Called after each draw of a run, or each cell of a study, with (what, done, total).
Progress: TypeAlias = Callable[[str, int, int], None]
Engine: TypeAlias = Literal["local", "dask"]
SpecLike: TypeAlias = "str | Path | Parsed"


def load(path: str | Path) -> Parsed:
    """Parse a spec file (``*.dps`` or ``*.dpspec.yaml``)."""
    return parse_file(Path(path))


def loads(text: str, *, surface: str | None = None, path: str = "<text>") -> Parsed:
    """Parse spec text. ``surface``: ``dps`` or ``yaml``; guessed from the text when left out."""
    return parse_text(text, path=path, surface=surface)


def _parsed(spec: SpecLike) -> Parsed:
    return spec if isinstance(spec, Parsed) else load(spec)


def check(spec: SpecLike) -> tuple[Diagnostic, ...]:
    """Every finding about a spec: language, assumptions, privacy, targets. Empty when clean. Raises only when it does not parse."""
    from dpspec.compiler.passes import compile_draft

    return compile_draft(_parsed(spec)).diagnostics


class Plan(CompiledPlan):
    """A checked plan that can be executed: :meth:`run` on private data, :meth:`study` on a simulated law or public data."""

    def run(
        self,
        x: Any = None,
        y: Any = None,
        *,
        data_file: Path | None = None,
        out: Path | None = None,
        progress: Progress | None = None,
        ledger: str | None = None,
        account: str | None = None,
        engine: Engine = "local",
        scheduler: str | None = None,
        workers: int | None = None,
    ) -> Record:
        """Release mode, with secure noise.

        ``x``: (n, d) array, CSR matrix, Arrow table, pandas or polars frame, what offers an Arrow stream; ``y``: (n,). Left out:
        ``data_file``, or the spec's own source. ``out``: a folder for ``record.json`` and the arrays. ``progress(draw, done, total)`` is
        called after each draw. ``ledger``: the URL or file of a ledger, whose ``account`` is charged before the first draw. ``engine``:
        ``local``, or ``dask``: the ``scheduler`` at this address, or a cluster of ``workers`` processes, computes sums over the records.

        Raises :class:`~dpspec.spec.diagnostics.SpecError` when the data contradict the plan (DP5xx) or ``out`` cannot take a release,
        before any noise is drawn; :class:`~dpspec.privacy.meter.PrivacyError` when an algorithm leaves its plan or fails on private
        data; :class:`~dpspec.executor.record.NotWritten`, which holds the record, when the disk fails after the draws."""
        from dpspec.executor.run import run as execute

        return execute(
            *(self, x, y),
            data_file=data_file,
            out=out,
            progress=progress,
            ledger=ledger,
            account=account,
            engine=engine,
            scheduler=scheduler,
            workers=workers,
        )

    def study(
        self,
        *,
        trials: int | None = None,
        seed: int | None = None,
        vary: Mapping[str, Sequence[Any]] | None = None,
        compare: Sequence[str] = (),
        quick: bool = False,
        until: float | None = None,
        out: Path | str | None = None,
        workers: int | None = None,
        engine: Engine = "local",
        scheduler: str | None = None,
        memory: Any = None,
        data: Path | str | None = None,
        holdout: float | None = None,
        progress: Progress | None = None,
    ) -> StudyResult:
        """Study mode: repeated, seeded, measured against the bounds, on a simulated law or on public data.

        ``trials``, ``seed``, ``vary`` (numbers or expression text by name) and ``compare`` (algorithms) override the spec's ``study``
        block; ``quick``: the two ends of each sweep, few trials. ``until``: go on at each point until half the 95 % interval of its mean
        error is at most this share of the mean, for 20 trials at least and ``trials`` (1,000) at most. ``out``: where finished cells are
        kept. ``memory``: (x, y) for a spec ``from memory``. ``data``: a file of public records of the same form, in the place of the
        spec's data and of its ``simulate`` block; each trial trains on as many as the plan says. ``holdout``: the share of real records, in
        (0, 1), that no trial trains on and that errors are measured on too. ``engine``, ``scheduler``, ``workers``: where trials run.
        ``progress(what, done, total)`` is called after each cell.

        Raises :class:`~dpspec.spec.diagnostics.SpecError` when a point has no plan, or the data are private (DP410)."""
        from dpspec.executor.study import study as execute

        return execute(
            self.draft.parsed,
            trials=trials,
            seed=seed,
            vary=vary,
            compare=compare,
            quick=quick,
            until=until,
            out=out,
            workers=workers,
            engine=engine,
            scheduler=scheduler,
            memory=memory,
            data=data,
            holdout=holdout,
            progress=progress,
        )

    def _repr_html_(self) -> str:
        from dpspec.report.html import plan_html

        return plan_html(self.to_json())

    def __repr__(self) -> str:
        from dpspec.report.terminal import plan_text

        return plan_text(self.to_json())


def plan(spec: SpecLike) -> Plan:
    """The checked plan of a spec, its guarantee recomputed by a second accountant."""
    made = make_plan(_parsed(spec))
    return Plan(draft=made.draft, guarantee=made.guarantee, risk=made.risk)


def run(
    spec: SpecLike | Plan,
    x: Any = None,
    y: Any = None,
    *,
    data_file: Path | None = None,
    out: Path | None = None,
    progress: Progress | None = None,
    ledger: str | None = None,
    account: str | None = None,
    engine: Engine = "local",
    scheduler: str | None = None,
    workers: int | None = None,
) -> Record:
    """Plan and execute in release mode; the arguments and errors are those of :meth:`Plan.run`."""
    return (spec if isinstance(spec, Plan) else plan(spec)).run(
        *(x, y),
        data_file=data_file,
        out=out,
        progress=progress,
        ledger=ledger,
        account=account,
        engine=engine,
        scheduler=scheduler,
        workers=workers,
    )


def study(
    spec: SpecLike | Plan,
    *,
    trials: int | None = None,
    seed: int | None = None,
    vary: Mapping[str, Sequence[Any]] | None = None,
    compare: Sequence[str] = (),
    quick: bool = False,
    until: float | None = None,
    out: Path | str | None = None,
    workers: int | None = None,
    engine: Engine = "local",
    scheduler: str | None = None,
    memory: Any = None,
    data: Path | str | None = None,
    holdout: float | None = None,
    progress: Progress | None = None,
) -> StudyResult:
    """Study mode of a spec; the arguments and errors are those of :meth:`Plan.study`."""
    from dpspec.executor.study import study as execute

    return execute(
        spec.draft.parsed if isinstance(spec, Plan) else _parsed(spec),
        trials=trials,
        seed=seed,
        vary=vary,
        compare=compare,
        quick=quick,
        until=until,
        out=out,
        workers=workers,
        engine=engine,
        scheduler=scheduler,
        memory=memory,
        data=data,
        holdout=holdout,
        progress=progress,
    )


def audit(subject: Any, tool: str = "") -> AuditResult:
    """Audit a deployment description, a plan, a record or a channel matrix against its stated guarantee. ``tool``: the tool whose
    configuration it is, where its words do not tell."""
    from dpspec.audit import audit as examine

    return examine(subject, tool)
