"""Each pass alone: a spec goes in, the passes before it run, and what the pass adds is printed.

A fixture is a spec, then sections ``==== pass`` with the lines that must come out. Its comments say where the numbers come from: they were
worked out by hand, so a fixture is no copy of what the compiler printed; ``*`` stands for what has no short derivation.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from dpspec.compiler.bound import bound
from dpspec.compiler.calibrate import calibrate
from dpspec.compiler.certify import certify
from dpspec.compiler.cost import cost
from dpspec.compiler.draft import Bounded, Calibrated, Chosen, Draft
from dpspec.compiler.resolve import resolve
from dpspec.compiler.select import select
from dpspec.lang.source import parse_text
from tests.compiler.printed import printed

FOLDER = Path(__file__).parent / "fixtures"
#: A pass, and the stage that every release must have reached before it.
PASSES = {
    "resolve": (resolve, None),
    "certify": (certify, None),
    "select": (select, None),
    "calibrate": (calibrate, Chosen),
    "bound": (bound, Calibrated),
    "cost": (cost, Bounded),
}


def sections(text: str) -> tuple[str, dict[str, list[str]]]:
    spec, *rest = text.split("\n==== ")
    return spec, {name: body.split("\n") for name, _, body in (section.strip().partition("\n") for section in rest)}


def same(lines: list[str], patterns: list[str]) -> bool:
    return len(lines) == len(patterns) and all(fnmatchcase(line, pattern) for line, pattern in zip(lines, patterns, strict=True))


@pytest.mark.parametrize("name", sorted(p.stem for p in FOLDER.glob("*.txt")))
def test_each_pass_adds_what_its_fixture_says(name: str) -> None:
    spec, expected = sections((FOLDER / f"{name}.txt").read_text(encoding="utf-8"))
    draft: Draft = Draft(parsed=parse_text(spec, surface="dps"))
    before = None
    for step, (run, stage) in PASSES.items():
        ready = draft if stage is None else draft.reached(stage)
        if ready is None:
            assert step not in expected, f"{step} never runs"
            break
        frozen = repr(ready)
        draft = run(ready)
        assert repr(ready) == frozen, "a pass is a pure function: what it takes stays as it was"
        if step in expected:
            found = printed(draft, step, before).split("\n")
            assert same(found, expected[step]), f"{step}:\n" + "\n".join(found)
        before = draft


def test_every_pass_has_fixtures_and_at_least_one_that_stops():
    found = [sections(p.read_text(encoding="utf-8"))[1] for p in FOLDER.glob("*.txt")]
    for step in PASSES:
        assert sum(step in f for f in found) >= 3, step
    assert any("stays Certified" in lines for f in found for lines in f.values())


def test_passes_run_twice_give_the_same():
    spec, _ = sections((FOLDER / "pure-output.txt").read_text(encoding="utf-8"))
    once, twice = (select(certify(resolve(Draft(parsed=parse_text(spec, surface="dps"))))) for _ in range(2))
    assert printed(once, "select", None) == printed(twice, "select", None)
