"""Options that are public files of numbers: in the language, in the plan and its hash, and before the algorithm."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from dpspec.algorithms import registry
from dpspec.algorithms.convex_erm import dp_gd
from dpspec.compiler.passes import compile_draft
from dpspec.compiler.plan import make_plan
from dpspec.executor.run import check_files
from dpspec.lang.printer import to_dps, to_yaml
from dpspec.lang.source import parse_file, parse_text
from dpspec.spec.diagnostics import SpecError

SPEC = """analysis "a"

data
  n = 40, d = 2
  from "rows.csv" target "y"
  private, unit person, neighbours replace-one
  x in ball(l2, 1) by scale
  y in {-1, 1} by map(0 -> -1, 1 -> 1)

privacy central
  epsilon = 1, delta = 1e-4

release r
  minimise logistic over ball(l2, 1)
  by dp-gd with T = 3, start = "w0.csv"
"""


@pytest.fixture
def reads_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """dp-gd as if its card had a file ``start``."""
    module = SimpleNamespace(**{**vars(dp_gd), "CARD": replace(dp_gd.CARD, vectors={"start": "the first iterate, one row"})})
    monkeypatch.setattr(registry, "get", lambda id: module)


def written(folder: Path, text: str = SPEC, rows: str | None = "0.5, -0.25\n"):
    (folder / "rows.csv").write_text("a,b,y\n1,2,0\n")
    if rows is not None:
        (folder / "w0.csv").write_text(rows)
    (folder / "a.dps").write_text(text)
    return parse_file(folder / "a.dps")


def errors(draft) -> list[tuple[str, str]]:
    return [(d.code, d.message) for d in draft.diagnostics if d.severity == "error"]


def test_both_surfaces_say_it_and_print_it() -> None:
    a = parse_text(SPEC, surface="dps").analysis
    by = a.releases[0].by
    assert by.files == (("start", "w0.csv"),)
    assert [name for name, _ in by.options] == ["T"]
    assert parse_text(to_dps(a), surface="dps").analysis == a
    assert parse_text(to_yaml(a), surface="yaml").analysis == a
    odd = SPEC.replace('"w0.csv"', r'"a \"b\".csv"')
    made = parse_text(odd, surface="dps").analysis
    assert parse_text(to_dps(made), surface="dps").analysis == made
    assert parse_text(to_yaml(made), surface="yaml").analysis == made


def test_an_option_given_twice_is_one_mistake() -> None:
    with pytest.raises(SpecError):
        parse_text(SPEC.replace('start = "w0.csv"', 'start = "w0.csv", start = 3'), surface="dps")


def test_the_rows_reach_the_algorithm_and_their_content_the_hash(tmp_path: Path, reads_a_start: None) -> None:
    plan = make_plan(written(tmp_path), check=False)
    (release,) = plan.draft.releases
    assert release.problem.public == {"start": ((0.5, -0.25),)}
    assert release.settings["start"].value == "w0.csv"
    assert {f["role"]: f.get("sha256") is not None for f in plan.to_json()["files"]} == {"private data": False, "vectors": True}
    same = make_plan(written(tmp_path, rows="0.5, -0.25\n"), check=False)
    other = make_plan(written(tmp_path, rows="0.5, 0.25\n"), check=False)
    assert plan.sha256 == same.sha256 != other.sha256
    with pytest.raises(SpecError, match="DP524"):  # changed between plan and run
        check_files(plan.draft, None, None)
    check_files(other.draft, None, None)


@pytest.mark.parametrize(
    ("rows", "code"), [(None, "DP501"), ("", "DP509"), ("1,2,3\n", "DP508"), ("1,nan\n", "DP502"), ("a,b,y\n1,2,0\n", "DP518")]
)
def test_a_file_that_cannot_serve_is_refused_where_it_stands(tmp_path: Path, reads_a_start: None, rows: str | None, code: str) -> None:
    """The last is the private file, byte for byte."""
    parsed = written(tmp_path, rows=rows)
    draft = compile_draft(parsed)
    found = [d for d in draft.diagnostics if d.code == code]
    assert len(found) == 1, draft.diagnostics
    span = found[0].span
    assert span is not None
    assert 'start = "w0.csv"' in parsed.text.splitlines()[span.line - 1]


def test_who_reads_no_file_says_so(tmp_path: Path) -> None:
    (found,) = errors(compile_draft(written(tmp_path)))
    assert found[0] == "DP405"
    assert "start" in found[1]


def test_a_number_in_the_place_of_a_file_is_refused(tmp_path: Path, reads_a_start: None) -> None:
    (found,) = errors(compile_draft(written(tmp_path, SPEC.replace('"w0.csv"', "0.5"))))
    assert found[0] == "DP406"
    assert "the first iterate" in found[1]


def test_auto_takes_no_file(tmp_path: Path) -> None:
    found = errors(compile_draft(written(tmp_path, SPEC.replace("dp-gd with T = 3, ", "auto with "))))
    assert found
    assert {code for code, _ in found} <= {"DP405", "DP401"}
