"""The plan: what will be released and what it costs, as a reviewed artefact.

``plan`` runs the passes, then has the guarantee recomputed by a second accountant. The JSON is canonical: sorted keys, and a hash
over meaning alone (the path, the layout of the text, diagnostics and the last bits of floating-point numbers do not enter). The
content of public files is a part of the meaning; that of private data is in no plan.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dpspec.compiler.draft import Bounded, Draft, ReleaseDraft
from dpspec.compiler.influence import influence
from dpspec.compiler.passes import compiled
from dpspec.lang.source import Parsed
from dpspec.privacy.schedule import Sampled, Tree, leaves
from dpspec.spec.diagnostics import Diagnostic, SpecError
from dpspec.spec.model import Analysis

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class CheckedGuarantee:
    """The guarantee of the whole analysis, by the accountant that calibrated it and by another one."""

    model: str
    kind: str
    epsilon: float | None
    delta: float | None
    rho: float | None
    mu: float | None
    neighbours: str
    unit: str
    protects: str  # records, or what the model's modifiers leave of them: labels, attributes
    accountant: str
    checked_by: str
    checked_epsilon: float | None

    def to_json(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "kind": self.kind,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "rho": self.rho,
            "mu": self.mu,
            "neighbours": self.neighbours,
            "unit": self.unit,
            "protects": self.protects,
            "accountant": self.accountant,
            "checked_by": self.checked_by,
            "checked_epsilon": self.checked_epsilon,
        }


@dataclass(frozen=True)
class Plan:
    """A compiled analysis. ``draft`` holds the objects that the executor needs; everything a reader needs is in :meth:`to_json`."""

    draft: Draft
    guarantee: CheckedGuarantee
    risk: tuple[str, ...] = field(default=())

    def __reduce__(self) -> Any:
        """Written as its analysis and its hash: reading it plans again, so no number of a file is believed."""
        return _again, (type(self), self.draft.parsed, self.sha256)

    @property
    def analysis(self) -> Analysis:
        return self.draft.analysis

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        return self.draft.diagnostics

    @property
    def releases(self) -> tuple[ReleaseDraft, ...]:
        return self.draft.releases

    @property
    def sha256(self) -> str:
        return digest(self._body())

    @property
    def files(self) -> list[dict[str, Any]]:
        """Every file that the spec names: ``role`` and ``path``, and the content of the public ones as ``sha256`` and ``bytes``."""
        return [f.to_json() for f in self.draft.files]

    def _body(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "analysis": meaning(self.analysis),
            "guarantee": self.guarantee.to_json(),
            "releases": [release_json(r) for r in self.releases],
        }
        public = [f for f in self.files if "sha256" in f]
        return {**body, "files": public} if public else body  # the name of private data stands in the analysis

    def to_json(self) -> dict[str, Any]:
        from dpspec.version import __version__

        body = self._body()
        return {
            "format_version": FORMAT_VERSION,
            "dpspec": __version__,
            "spec": {"path": self.draft.parsed.path, "sha256": spec_sha256(self.analysis), "text": meaning(self.analysis)},
            "sha256": digest(body),
            "analysis": self.analysis.name,
            "status": self.analysis.data.status,
            "guarantee": body["guarantee"],
            "risk": list(self.risk),
            "releases": [_whole(r) for r in self.releases],
            "files": self.files,
            "schedule": schedule_json(self.draft),
            "influence": influence(self.draft),
            "diagnostics": [d.to_json() for d in self.diagnostics],
        }


def _again(kind: type[Plan], parsed: Parsed, sha256: str) -> Plan:
    """A plan that was written (pickled). Raises SpecError (DP524) where it is not what it was: other public files, another version."""
    made = make_plan(parsed)
    if made.sha256 != sha256:
        what = f"the plan that was written is {sha256[:12]}, its analysis gives {made.sha256[:12]} here"
        raise SpecError([Diagnostic("DP524", "error", what, "plan again, and review what changed")], path=parsed.path)
    return kind(draft=made.draft, guarantee=made.guarantee, risk=made.risk)


def meaning(analysis: Analysis) -> str:
    """Canonical text of an analysis: what it says, without its layout."""
    from dpspec.lang.printer import to_dps

    return to_dps(analysis)


def spec_sha256(analysis: Analysis) -> str:
    return hashlib.sha256(meaning(analysis).encode()).hexdigest()


def digest(body: Any) -> str:
    """SHA-256 of canonical JSON with floats at nine significant digits, so that math libraries' last bits do not change it."""
    return hashlib.sha256(json.dumps(_rounded(body), sort_keys=True, separators=(",", ":"), allow_nan=False).encode()).hexdigest()


def _rounded(value: Any) -> Any:
    if isinstance(value, bool):
        return value
    if isinstance(value, float):
        return f"{value:.9g}"
    if isinstance(value, Mapping):
        return {str(k): _rounded(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(v) for v in value]
    return value


def finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def release_json(r: ReleaseDraft) -> dict[str, Any]:
    from dpspec.algorithms.registry import origin

    other = origin(r.module)  # another package's code is another mechanism; dpspec's own is said by its version
    return {
        **({"origin": other} if other else {}),
        "name": r.release.name,
        "task": task_text(r),
        "algorithm": r.module.CARD.id,
        "candidates": [c.to_json() for c in r.candidates],
        "tunables": {name: s.to_json() for name, s in r.settings.items()},
        "noise": noise_json(r),
        "published": None if not r.published else published_json(r),
        "assumptions": [s.to_json() for s in r.assumptions],
        "bounds": [b.to_json() for b in r.bounds],
        "target": None if r.target is None else r.target.to_json(),
        "cost": {k: finite(v) for k, v in r.cost.items() if k not in _PHYSICAL},
    }


#: Of the machine that runs a plan and not of what is released: the same analysis is the same plan, however its records are read.
_PHYSICAL = ("records_bytes", "disk_bytes")


def _whole(r: ReleaseDraft) -> dict[str, Any]:
    """A release with what the hash leaves out."""
    return {**release_json(r), "reads": r.module.CARD.reads, "cost": {k: finite(v) for k, v in r.cost.items()}}


def published_json(r: ReleaseDraft) -> dict[str, Any]:
    """The first printed formula in the fields of the shape, every one under ``all``."""
    rows = [
        {
            "source": p.source,
            "draw": p.draw,
            "noise_formula": p.formula,
            "scale": finite(p.scale),
            "epsilon_if_used": finite(p.epsilon),
            "remark": p.remark,
        }
        for p in r.published
    ]
    return {**rows[0], "all": rows}


def task_text(r: ReleaseDraft) -> str:
    """The task as it is planned: a covariance of which nobody says that the mean is 0 is a second moment."""
    from dpspec.lang.printer import task_text as text
    from dpspec.tasks.registry import of

    node = r.release.task
    planned = r.problem.task
    renamed = of(node).centred(node) and not of(planned).centred(planned)
    return text(of(node).uncentred(node) if renamed else node)


def noise_json(r: ReleaseDraft) -> list[dict[str, Any]]:
    return noise_rows(r.tree, r.calibrated.levels)


def noise_rows(tree: Tree, levels: Mapping[str, float]) -> list[dict[str, Any]]:
    """The table of noise: one row a draw."""
    rows = []
    for leaf in leaves(tree):
        draw, level = leaf.draw, levels[leaf.draw.name]
        sampling: Any = None
        if isinstance(leaf.sampling, Sampled):
            sampling = {"method": leaf.sampling.method, "rate": leaf.sampling.rate}
        rows.append(
            {
                "name": draw.name,
                "mechanism": draw.mechanism.kind,
                "sensitivity": finite(draw.mechanism.sensitivity),
                "norm": draw.mechanism.norm,
                "scale": float(draw.mechanism.scale(level)),
                "level": float(level),
                "count": leaf.total,
                "per_record": leaf.count,
                "size": draw.mechanism.size,
                "sampling": sampling,
                "per": draw.per,
                "reference": draw.mechanism.reference,
                **({} if leaf.each == leaf.count else {"each": leaf.each}),
            }
        )
    return rows


#: Of the form of ``schedule`` in plans and records.
SCHEDULE_VERSION = 1


def schedule_json(draft: Draft) -> dict[str, Any]:
    """The calibrated schedule of the whole analysis without loss, for a reader who rebuilds the guarantee from it. Draws are named
    ``release.draw``. ``relation``: under which the sensitivities are stated (in a local model, the replacement of a user's record);
    ``parts``: the rows [first, end) of each release that reads a part. ``budget``: what the spec allows."""
    from dpspec.compiler.calibrate import qualify, relation
    from dpspec.compiler.resolve import part_rows
    from dpspec.privacy.forms import to_json
    from dpspec.privacy.gaussian import exact, float_up

    calibrated, releases = draft.whole, draft.releases
    asked = {word: getattr(draft.budget, word) for word in ("epsilon", "delta", "rho", "mu")}
    tree, levels = calibrated.tree, dict(calibrated.levels)
    parts = {r.release.name: list(part_rows(draft, r.index)) for r in releases if r.release.part is not None}
    if len(releases) == 1 and not parts:
        name = releases[0].release.name
        tree, levels = qualify(tree, name, 1.0), {f"{name}.{draw}": level for draw, level in levels.items()}
    a = draft.analysis
    return {
        "version": SCHEDULE_VERSION,
        "model": a.privacy.model,
        "unit": unit(a),
        "protects": protected(a),
        "relation": relation(draft),
        "n": int(draft.facts["n"]),
        "budget": {word: None if value is None else float_up(exact(value)) for word, value in asked.items()},
        "parts": parts or None,
        "tree": to_json(tree, levels),
    }


def unit(a: Analysis) -> str:
    """Whose participation is hidden: by the author's word alone where a record is one unit, and otherwise with the column by which the
    executor tells units apart. Two analyses with one word and other columns, or none, promise something to other people: they are
    compared, added up in a ledger and asked for by a policy as two units."""
    return f"{a.data.unit} identified by {a.data.identified}" if a.data.identified else a.data.unit


def protected(a: Analysis) -> str:
    """What a neighbour may differ in."""
    return "labels" if a.privacy.labels_only else "attributes" if a.privacy.attribute else "records"


def make_plan(parsed: Parsed, *, check: bool = True) -> Plan:
    """Compile a parsed spec to a plan.

    Raises :class:`~dpspec.spec.diagnostics.SpecError` with every finding when the spec has an error other than a missed target, and
    ``AccountingMismatch`` when the second accountant disagrees with the first (an internal error, never a warning).
    """
    draft = compiled(parsed)
    return Plan(draft=draft, guarantee=_guarantee(draft, check), risk=_risk(draft))


def of_draft(draft: Draft[Any]) -> Plan | None:
    """The plan of a draft that was compiled already, without the second accountant; None where it has none."""
    releases = [r for r in draft.releases if isinstance(r, Bounded)]
    if draft.blocking or draft.calibrated is None or len(releases) < len(draft.releases):
        return None
    whole = draft.at(releases)
    return Plan(draft=whole, guarantee=_guarantee(whole, False))


def _guarantee(draft: Draft, check: bool) -> CheckedGuarantee:
    g = draft.whole.guarantee
    checked_by, checked_epsilon = "", None
    if check:
        from dpspec.privacy.second import recheck

        again = recheck(draft.whole)
        checked_by, checked_epsilon = again.accountant, again.epsilon
    a = draft.analysis
    return CheckedGuarantee(
        model=a.privacy.model,
        kind=g.kind,
        epsilon=finite(g.epsilon),
        delta=finite(g.delta),
        rho=finite(g.rho),
        mu=finite(g.mu),
        neighbours=draft.neighbours,
        unit=unit(a),
        protects=protected(a),
        accountant=draft.whole.accountant,
        checked_by=checked_by,
        checked_epsilon=checked_epsilon,
    )


def _risk(draft: Draft) -> tuple[str, ...]:
    from dpspec.theory.attackers import sentences

    a = draft.analysis
    return sentences(draft.whole.guarantee, model=a.privacy.model, protects=protected(a), unit=unit(a))


def write(plan: Plan, file: Path) -> None:
    """The lock file, written whole or not at all."""
    temporary = file.with_suffix(file.suffix + ".partial")
    temporary.write_text(json.dumps(plan.to_json(), indent=2, sort_keys=True) + "\n", encoding="utf-8")
    temporary.replace(file)
