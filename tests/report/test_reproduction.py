"""The page of repeated experiments: its verdicts follow from numbers, and every experiment is on it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ruamel.yaml import YAML

from dpspec.compiler.passes import compile_draft
from dpspec.lang.source import parse_file

ROOT = Path(__file__).resolve().parents[2]
SPECS = sorted((ROOT / "specs" / "reproduce").glob("*.dps"))


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    found = importlib.util.spec_from_file_location("gen_reproduction", ROOT / "docs" / "gen_reproduction.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def point(mean: float, algorithm: str = "a", **at: float) -> dict[str, Any]:
    return {"release": "r", "algorithm": algorithm, "at": at, "error": {"mean": mean, "ci95": [0.9 * mean, 1.1 * mean]}}


def test_verdicts_follow_from_the_intervals(generator: ModuleType) -> None:
    falling = [point(1.0, n=10, e=1), point(0.5, n=20, e=1), point(2.0, n=10, e=2), point(1.0, n=20, e=2)]
    assert generator.check({"falls": "n"}, falling)[1] is True
    assert generator.check({"rises": "n"}, falling)[1] is False
    assert generator.check({"rises": "e"}, falling)[1] is True
    assert generator.check({"falls": "n"}, [point(1.0, n=1), {**point(0.99, n=2), "error": {"mean": 0.99, "ci95": [0.98, 1.0]}}])[1] is None
    tight = [{**point(1.0, n=n), "error": {"mean": m, "ci95": [m - 0.001, m + 0.001]}} for n, m in ((1, 1.0), (2, 0.989))]
    assert generator.check({"falls": "n"}, tight)[1] is True  # a document's own table falls by 1.1 %: no change is too small to count
    level = [{**point(1.0, n=n), "error": {"mean": 1.0, "ci95": [1.0, 1.0]}} for n in (1, 2, 3)]
    assert generator.check({"falls": "n"}, level)[1] is False  # the zero matrix at every point
    mixed = [*falling[:3], point(1.7, n=20, e=2)]
    assert generator.check({"falls": "n"}, mixed)[1] is None  # one series overlaps
    assert generator.check({"falls": "n"}, [*falling[:3], point(4.0, n=20, e=2)])[1] is False
    assert generator.check({"flat": {"in": "n", "factor": 2}}, falling)[1] is True
    assert generator.check({"flat": {"in": "n", "factor": 1.9}}, falling)[1] is False
    pair = [point(1.0, "a", n=1), point(3.0, "b", n=1)]
    assert generator.check({"below": ["a", "b"]}, pair)[1] is True
    assert generator.check({"below": ["b", "a"]}, pair)[1] is False
    near = [point(1.0, "a", n=1), point(2.0, "b", n=1)]
    assert generator.check({"below": ["a", "b"]}, near)[1] is None  # within the reach of a default step length
    assert generator.check({"below": ["b", "a"]}, near)[1] is None
    assert generator.check({"below": ["a", "c"]}, pair)[1] is None
    turning = [point(m, k=k, d=d) for k, d, m in ((1, 1, 2.0), (9, 1, 0.5), (1, 4, 1.0), (9, 4, 3.0))]
    assert generator.check({"turns": {"of": "k", "at": "d"}}, turning)[1] is True
    assert generator.check({"turns": {"of": "k", "at": "d"}}, [*turning[:3], point(0.5, k=9, d=4)])[1] is None
    assert generator.check({"turns": {"of": "k", "at": "d"}}, [*turning[:3], point(1.05, k=9, d=4)])[1] is None
    numbers = [point(0.3, n=200), point(0.5, n=600)]
    assert generator.check({"printed": {"in": "n", "values": {200: 0.2, 600: 0.4}, "factor": 1.6}}, numbers)[1] is True
    text, told = generator.check({"printed": {"in": "n", "values": {200: 0.1}, "factor": 2, "above": {600: 0.4}}}, numbers)
    assert told is False
    assert text == "within a factor of 2 of 0.1 at n = 200 (measured 0.3), more than 0.4 at n = 600 (measured 0.5)"
    assert generator.check({"printed": {"in": "n", "above": {600: 0.4}}}, numbers) == ("more than 0.4 at n = 600 (measured 0.5)", True)
    assert generator.verdict([True, True]) == "trend only"
    assert generator.verdict([True, None]) == "not decided"
    assert generator.verdict([None, False]) == "does not reproduce"


def test_a_section_is_judged_anew_from_its_own_table(generator: ModuleType) -> None:
    text = (
        "## x\n\nWhat was done.\n\n**Verdict: trend only.** As before.\n\n| the document says | measured |\n|---|---|\n| old | yes |\n\n"
        "| algorithm | n | trials | mean l2-error | 95% interval | non-private | zero vector |\n|---|---|---|---|---|---|---|\n"
        "| a | 1,000 | 3 | 0.5 | 0.45 to 0.55 | - | 1 |\n| b | 1,000 | 3 | 0.6 | 0.58 to 0.62 | - | 1 |\n\n`dpspec study x`\n"
    )
    word, page = generator.judged_anew({"checks": [{"below": ["a", "b"]}], "why": "Why."}, "trend only", text)
    assert word == "not decided"
    assert "**Verdict: not decided.** Why." in page
    assert "(measured 0.83 of it) | not decided" in page
    assert page.count("| algorithm |") == 1
    assert "`dpspec study x`" in page


def test_the_comparison_of_3_1_is_with_the_documents_own_comparators_and_labels(generator: ModuleType) -> None:
    """What the document calls DP-GD is output perturbation, and its labels are sign(<theta, x>). At 7 to 9 % of the comparator's error
    DP-SVRG is below it; between algorithms within a factor of two of one another nothing is called."""
    from dpspec.data.laws import Simulation

    parsed = parse_file(ROOT / "specs" / "reproduce" / "convex-3.1-comparison.dps")
    assert parsed.analysis.study is not None
    assert {"output-perturbation", "dp-gd", "dp-sgd", "dp-svrg", "dp-katyusha"} == set(parsed.analysis.study.compare)
    records, truth = Simulation(parsed.analysis.simulate, {"n": 4000, "d": 50}).trial(1, 0)
    agree = sum(int(((x @ truth["theta"] > 0) == (y > 0)).sum()) for x, y in records.blocks())
    assert agree == 4000
    claims = YAML(typ="safe").load((ROOT / "docs" / "reproduction-claims.yaml").read_text(encoding="utf-8"))
    checks = claims["convex-3.1-comparison"]["checks"]
    assert {"below": ["dp-svrg", "output-perturbation"]} in checks
    means = {"output-perturbation": 1.0, "dp-gd": 0.07, "dp-sgd": 0.1, "dp-svrg": 0.08, "dp-katyusha": 0.09}
    points = [point(m, a, epsilon=1) for a, m in means.items()]
    called = {tuple(c["below"]): generator.check(c, points)[1] for c in checks if "below" in c}
    assert called["dp-svrg", "output-perturbation"] is called["dp-katyusha", "output-perturbation"] is True
    assert called["dp-svrg", "dp-sgd"] is called["dp-katyusha", "dp-sgd"] is None


def test_in_small_dp_svrg_is_below_the_documents_comparator(generator: ModuleType) -> None:
    """The study itself at n = 5,000 and d = 5: the verdict that was "does not reproduce" while dp-gd stood for output perturbation."""
    from dpspec.executor.study import study
    from dpspec.lang.source import parse_text

    text = (ROOT / "specs" / "reproduce" / "convex-3.1-comparison.dps").read_text(encoding="utf-8")
    text = text.replace("n = 100_000, d = 50", "n = 5000, d = 5").replace("epsilon in [0.2, 1]", "epsilon in [1]")
    text = text.replace("dp-gd, dp-sgd, dp-svrg, dp-katyusha", "dp-svrg")
    points = study(parse_text(text, surface="dps"), trials=6, seed=1, workers=1).to_json()["points"]
    assert generator.check({"below": ["dp-svrg", "output-perturbation"]}, points)[1] is True


def test_verdicts_stand_on_one_page() -> None:
    assert "Verdict" not in (ROOT / "docs" / "reproduction-matrix.md").read_text(encoding="utf-8")


def test_every_claim_belongs_to_a_spec() -> None:
    claims = YAML(typ="safe").load((ROOT / "docs" / "reproduction-claims.yaml").read_text(encoding="utf-8"))
    assert set(claims) <= {s.stem for s in SPECS}
    assert all(c["why"] and c["checks"] for c in claims.values())


def test_every_experiment_that_was_run_is_on_the_page() -> None:
    text = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    claims = YAML(typ="safe").load((ROOT / "docs" / "reproduction-claims.yaml").read_text(encoding="utf-8"))
    for name in claims:
        assert f"## {name}\n" in text


@pytest.mark.parametrize("spec", SPECS, ids=[s.stem for s in SPECS])
def test_experiments_compile_and_state_their_source_and_scale(spec: Path) -> None:
    draft = compile_draft(parse_file(spec))
    assert [d for d in draft.diagnostics if d.severity == "error" and d.code != "DP402"] == []
    assert spec.read_text(encoding="utf-8").startswith("# ")
