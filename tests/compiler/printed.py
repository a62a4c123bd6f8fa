"""A draft in text, one section a stage: what the fixtures of ``tests/compiler/fixtures`` compare with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dpspec.compiler.draft import Bounded, Calibrated, Certified, Chosen, Draft, Resolved
from dpspec.privacy.schedule import leaves


def number(value: Any) -> str:
    if isinstance(value, str) or value is None:
        return str(value)
    return f"{float(value):.6g}"


def row(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{k} = {number(v)}" for k, v in sorted(values.items()))


def findings(draft: Draft[Resolved]) -> Iterator[str]:
    for d in draft.diagnostics:
        yield f"! {d.code} {d.severity}: {d.message}"


def resolved(draft: Draft[Resolved]) -> Iterator[str]:
    yield f"facts: {row(draft.facts)}"
    for name, variable in draft.domains.items():
        bounds = {norm: getattr(variable.enforced, norm) for norm in ("l1", "l2", "linf")}
        yield f"{name} enforced: {row({k: v for k, v in bounds.items() if v is not None}) or 'nothing'}"
    yield f"neighbours: {draft.neighbours}"


def certified(r: Certified) -> Iterator[str]:
    c = r.certificate
    if c is not None:
        yield f"loss: {row({'L': c.lipschitz, 'B': c.smooth, 'm': c.strongly_convex, 'convex': str(c.convex)})}"
    yield f"facts: {row({k: v for k, v in r.problem.facts.items() if k[:2] in ('w_', 'L', 'B', 'ra')})}"


def chosen(r: Chosen) -> Iterator[str]:
    yield f"by {r.module.CARD.id} of {sum(c.eligible for c in r.candidates)} that can"
    yield f"settings: {row({k: s.value for k, s in r.settings.items()})}"
    for leaf in leaves(r.tree):
        m = leaf.draw.mechanism
        yield f"draw {leaf.draw.name}: {m.kind}, {m.norm} sensitivity {number(m.sensitivity)}, {leaf.count} a record"
    for a in r.assumptions:
        yield f"{a.name} ({a.role}): {a.status}"


def calibrated(r: Calibrated) -> Iterator[str]:
    for leaf in leaves(r.tree):
        yield f"draw {leaf.draw.name}: scale {number(leaf.draw.mechanism.scale(r.calibrated.levels[leaf.draw.name]))}"
    for p in r.published:
        yield f"printed {p.source}: scale {number(p.scale)}"


def bounded(r: Bounded) -> Iterator[str]:
    for b in r.bounds:
        yield f"{b.type} {b.kind} {b.measure}: {number(b.value)}, {b.status}"
    if r.target is not None:
        t = r.target
        yield f"target: at most {number(t.at_most)}, met {t.met}, n {t.least_n}, epsilon {number(t.least_epsilon)}"


def cost(r: Bounded) -> Iterator[str]:
    yield row({k: v for k, v in r.cost.items() if v is not None})


STAGES: Mapping[str, tuple[type[Resolved], Callable[[Any], Iterator[str]]]] = {
    "certify": (Certified, certified),
    "select": (Chosen, chosen),
    "calibrate": (Calibrated, calibrated),
    "bound": (Bounded, bounded),
    "cost": (Bounded, cost),
}


def printed(draft: Draft[Resolved], name: str, before: Draft[Resolved] | None) -> str:
    """The lines of one pass: what it found of each release, and the findings that it added."""
    lines: list[str] = list(resolved(draft)) if name == "resolve" else []
    if name != "resolve":
        stage, show = STAGES[name]
        for r in draft.releases:
            head = f"{r.release.name}: " if len(draft.releases) > 1 else ""
            lines += [head + line for line in show(r)] if isinstance(r, stage) else [f"{head}stays {type(r).__name__}"]
    old = set() if before is None else set(findings(before))
    return "\n".join(lines + [line for line in findings(draft) if line not in old])
