"""Catalogued cases read through their structured fields: no verdict is wrong, no alarm on controls, nothing keyed on a case. What is told
in prose is described by the files of ``deployments/`` (test_deployments.py)."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from dpspec.audit.cases import rows
from dpspec.audit.static import audit_static
from dpspec.audit.yamlread import read_yaml
from dpspec.spec.diagnostics import SpecError
from tests.audit_cases import answer_of, case_rows, judged, load_cases, main, wrong_numbers

CASES = next((p / "shared/cases/public-cases.yaml" for p in Path(__file__).resolve().parents if (p / "shared/cases").is_dir()), None)
needs_cases = pytest.mark.skipif(CASES is None, reason="the catalogue of public cases is not beside this checkout")
ALARMS = {"violated", "inconsistent", "tool_fault", "not_certified"}


@needs_cases
def test_controls_raise_no_alarm_even_without_readings() -> None:
    assert CASES is not None
    controls = {c["id"] for c in load_cases(CASES) if c.get("control")}
    assert controls
    for row in case_rows(CASES):
        if row.id in controls and row.answer not in ALARMS:
            assert answer_of(audit_static(row.deployment)) not in ALARMS, row.id


@needs_cases
def test_without_readings_no_verdict_is_wrong_only_withheld() -> None:
    """Where the catalogue is structured the answer is right; where it is prose the auditor says so and claims nothing."""
    assert CASES is not None
    structured = 0
    for row in case_rows(CASES):
        answer = answer_of(audit_static(row.deployment))
        if row.basis == "case":
            structured += 1
            assert answer == row.answer, (row.id, row.variant)
        else:
            assert answer in (row.answer, "cannot_verify", "holds_if"), (row.id, row.variant, answer)
    assert structured >= 40


@needs_cases
def test_names_and_prose_of_a_case_change_nothing() -> None:
    assert CASES is not None
    for case in load_cases(CASES):
        if "events" not in case and "channel" not in case:
            continue
        disguised = copy.deepcopy(dict(case))
        disguised |= {"id": "x", "title": "", "kind": "", "mechanism": "", "control": None, "source": {}, "trap": "", "severity": ""}
        for key in ("verdict", "truth"):
            disguised.pop(key, None)
        before, after = next(iter(rows(case))).deployment, next(iter(rows(disguised))).deployment
        assert (before.setting, before.claim, before.events, before.channel) == (after.setting, after.claim, after.events, after.channel)


def _case(**changes: Any) -> dict[str, Any]:
    return {
        "id": "made-up",
        "setting": {"model": "central", "unit": "record", "neighbouring": "replace_one"},
        "events": [{"type": "gaussian", "l2_sensitivity": 2.0, "clip_norm": 1.0, "sigma": 4.0, "count": 1}],
        "claim": {"epsilon": 1.9931, "delta": 1e-5},
        "truth": {"status": "exact", "epsilon": 1.99309, "tolerance": 1e-3},
        "verdict": {"answer": "holds"},
        **changes,
    }


def test_variants_inherit_and_restate() -> None:
    variants = [
        {"name": "T=4", "claim": {"epsilon": 1}, "truth": {}, "answer": ""},
        {"name": "sigma halved", "params": {"sigma": 2.0}, "truth": {}, "answer": ""},
        {"name": "other relation", "setting": {"neighbouring": "add_remove"}, "truth": {}, "answer": ""},
        {"name": "told in words", "claim": {"epsilon": 3}, "truth": {}, "answer": ""},
        {"name": "own events", "events": [{"type": "laplace", "l1_sensitivity": 1, "scale": 1}], "truth": {}, "answer": ""},
    ]
    base, four, half, other, words, own = rows(_case(variants=variants))
    assert judged(base)["ok"]
    assert four.deployment.events[0].count == 4
    assert four.deployment.claim.delta == 1e-5
    assert half.deployment.events[0].fields["sigma"] == 2.0
    assert half.deployment.claim.epsilon == 1.9931
    assert other.deployment.events[0].fields["l2_sensitivity"] == 1.0
    assert words.deployment.events == ()
    assert words.basis == "claim only"
    assert own.deployment.events[0].kind == "laplace"


def test_wrong_answers_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = tmp_path / "good.yaml"
    good.write_text(json.dumps({"cases": [_case()]}))
    assert main([str(good)]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["id"] == "made-up"
    assert row["expected"] == row["verdict"] == "holds"
    assert row["ok"] is True
    assert row["epsilon"] == pytest.approx(1.99309, rel=1e-5)
    for change in ({"verdict": {"answer": "violated"}}, {"truth": {"status": "exact", "epsilon": 2.1, "tolerance": 1e-3}}):
        bad = tmp_path / "bad.yaml"
        bad.write_text(json.dumps({"cases": [_case(**change)]}))
        assert main([str(bad)]) == 1
        assert json.loads(capsys.readouterr().out)["ok"] is False
    assert main([str(tmp_path / "absent.yaml")]) == 2


def test_unusable_case_is_a_wrong_row_not_a_crash(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "odd.yaml"
    odd = _case(events=None, channel={"type": "matrix", "rows": [[0.5, 0.6], [0.5, 0.5]]})
    unknown = _case(events=[{"type": "quantum_noise", "power": 3}], verdict={"answer": "cannot_verify"}, truth={"status": "unverifiable"})
    file.write_text(json.dumps({"cases": [odd, unknown]}))
    assert main([str(file)]) == 1
    first, second = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert first["verdict"] == "unusable"
    assert not first["ok"]
    assert second["verdict"] == "cannot_verify"
    assert second["ok"]


def test_truth_comparison_fails_in_both_directions() -> None:
    (row,) = rows(_case())
    result = audit_static(row.deployment)
    assert not wrong_numbers(result, {"status": "interval", "epsilon_lower": 1.9, "epsilon_upper": 2.0})
    assert wrong_numbers(result, {"status": "interval", "epsilon_lower": 2.2, "epsilon_upper": 2.5})
    assert wrong_numbers(result, {"status": "upper_bound", "epsilon_upper": 1.5})
    assert wrong_numbers(result, {"status": "infinite", "epsilon": float("inf")})


@pytest.mark.skipif(
    CASES is None or not CASES.with_name("public-cases-2.yaml").exists(), reason="public-cases-2.yaml is not beside this checkout"
)
def test_every_input_of_the_second_catalogue_is_a_deployment_file() -> None:
    """What a report's deployer would write is audited as it stands by test_deployments.py: the same document, not a translation."""
    assert CASES is not None
    folder = Path(__file__).parent / "deployments"
    files = [read_yaml(f.read_text(encoding="utf-8"), f.name).data for f in folder.glob("*.yaml") if not f.name.startswith("expected")]
    found = 0
    for case in load_cases(CASES.with_name("public-cases-2.yaml")):
        for variant in case["variants"]:
            try:
                document = read_yaml(variant["input"], case["id"]).data
            except SpecError:
                continue  # shortened in the report, or prose
            if isinstance(document, dict) and "spec" not in document:
                found += 1
                assert document in files, (case["id"], variant["input"])
    assert found >= 40
