"""The Python interface: load, check, plan, run, study, audit.

Every function takes a path or what an earlier one returned, and raises :class:`~dpspec.spec.diagnostics.SpecError` (all findings at
once) on a spec that cannot be used.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from dpspec.compiler.plan import Plan as CompiledPlan
from dpspec.compiler.plan import make_plan
from dpspec.lang.source import Parsed, parse_file, parse_text
from dpspec.spec.diagnostics import Diagnostic

if TYPE_CHECKING:
    from dpspec.executor.record import Record, StudyResult

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

    def run(self, x: Any = None, y: Any = None, **options: Any) -> Record:
        """Release mode. ``x``: (n, d) array, CSR matrix, Arrow table, pandas or polars frame, or None for the spec's own source."""
        from dpspec.executor.run import run as execute

        return execute(self, x, y, **options)

    def study(self, **options: Any) -> StudyResult:
        """Study mode: repeated, seeded, measured against the bounds. See :func:`dpspec.executor.study.study`."""
        from dpspec.executor.study import study as execute

        return execute(self.draft.parsed, **options)

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


def run(spec: SpecLike | Plan, x: Any = None, y: Any = None, **options: Any) -> Record:
    """Plan and execute in release mode; see :meth:`Plan.run`."""
    return (spec if isinstance(spec, Plan) else plan(spec)).run(x, y, **options)


def study(spec: SpecLike | Plan, **options: Any) -> StudyResult:
    """Study mode of a spec; see :meth:`Plan.study`."""
    from dpspec.executor.study import study as execute

    return execute(spec.draft.parsed if isinstance(spec, Plan) else _parsed(spec), **options)


def audit(subject: Any, **options: Any) -> Any:
    """Audit a deployment description, a plan, a record or a channel matrix against its stated guarantee."""
    from dpspec.audit import audit as examine

    return examine(subject, **options)
