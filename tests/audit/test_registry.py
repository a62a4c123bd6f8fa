"""The public registry: each form of an entry is read, fields decide and prose does not, one bad entry stops no other."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dpspec.audit import audit, audit_all
from dpspec.audit.registry import Row, entries, from_registry, is_entry, missing, rows_of, table_html, table_text
from dpspec.audit.yamlread import read_yaml
from dpspec.cli.app import build
from dpspec.spec.diagnostics import SpecError

FILE = Path(__file__).resolve().parents[2] / "docs" / "examples" / "audit" / "registry.yaml"
ENTRIES = read_yaml(FILE.read_text()).data


def entry(model: str = "Central", variant: str = "Pure DP", **parameters: Any) -> dict[str, Any]:
    return {
        "url_slug": "x",
        "deployment": {
            "basic": {"name": "X"},
            "dp_variant": {"variant_name": variant},
            "privacy_loss": {"privacy_unit": "user", "privacy_parameters": parameters},
            "deployment_model": {"model_name": model, "release_type": "One release", "actors": "local offices and shufflers"},
            "implementation": {"mechanisms": "Laplace"},
        },
    }


def rows(file: Path) -> list[Row]:
    found = audit_all(file)
    assert found is not None
    return [r for r in found if isinstance(r, Row)]


def test_the_table_of_a_file(tmp_path: Path) -> None:
    found = rows(FILE)
    assert [(r.slug, r.name, r.model, r.unit) for r in found] == [
        ("sql-queries", "SQL queries", "central", "Tuple-level"),
        ("url-shares", "Shares of addresses", "central", "User-level"),
        ("entry 3", "Emoji", "local", "Event-level"),
    ]
    assert "delta" in found[0].missing
    assert "how many releases one unit meets" in found[0].missing
    assert found[0].verdict == "cannot-verify"
    assert found[1].verdict != "holds"
    for r in found:
        assert r.slug in table_text(found)
        assert r.verdict in table_html(found)


@pytest.mark.parametrize(
    ("word", "model"), [("Central", "central"), ("Local", "local"), ("Shuffle model", "shuffle"), ("Federated", "federated")]
)
def test_the_model_is_that_of_its_field(word: str, model: str) -> None:
    """Prose that mentions another model decides nothing."""
    assert from_registry(entry(word, epsilon=1.0)).setting.model == model


def test_a_model_that_is_none_is_missing() -> None:
    data = entry("Varies", epsilon=1.0)
    assert "the model of trust" in missing(data, from_registry(data))
    assert any("varies" in n.message for n in from_registry(data).notes)


def test_numbers_against_the_variant() -> None:
    assert audit(entry(epsilon=1.0, delta=1e-7)).verdict == "inconsistent"  # pure, with a delta
    codes = {f.code for f in audit(entry(variant="Approximate DP", epsilon=2.0)).findings}
    assert "DP613" in codes
    assert {f.code for f in audit(entry(epsilon="about one")).findings} >= {"DP672"}
    assert audit(entry(variant="Zero-concentrated DP", rho=0.07, epsilon=2.47, delta=1e-10)).verdict == "holds-if"
    assert audit(entry(variant="Zero-concentrated DP", rho=0.07, epsilon=1.0, delta=1e-10)).verdict != "holds"


def test_lists_mappings_streams_and_folders_are_the_same_table(tmp_path: Path) -> None:
    data = [copy.deepcopy(e) | {"url_slug": f"e{i}"} for i, e in enumerate(ENTRIES)]
    forms = {
        "list.json": json.dumps(data),
        "named.json": json.dumps({e["url_slug"]: e for e in data}),
        "below.json": json.dumps({"deployments": data}),
        "stream.yaml": "\n---\n".join(json.dumps(e) for e in data),
    }
    tables = []
    for name, text in forms.items():
        (tmp_path / name).write_text(text)
        tables.append([(r.slug, r.verdict, r.missing) for r in rows(tmp_path / name)])
    folder = tmp_path / "deployments"
    folder.mkdir()
    for e in data:
        (folder / f"{e['url_slug']}.yaml").write_text(json.dumps(e))
    tables.append([(r.slug, r.verdict, r.missing) for r in rows(folder)])
    assert all(t == tables[0] for t in tables)
    assert len(tables[0]) == 3


def test_one_bad_entry_stops_no_other(tmp_path: Path) -> None:
    bad = entry(epsilon=-1.0)
    found = rows_of([ENTRIES[2], "no entry", bad, {"deployment": {"privacy_loss": {"privacy_parameters": "none"}}}, ENTRIES[1]])
    assert len(found) == 5
    assert found[0].verdict == rows_of([ENTRIES[2]])[0].verdict
    assert found[4].verdict == rows_of([ENTRIES[1]])[0].verdict
    assert all(r.verdict == "cannot-verify" for r in found[1:4])
    (tmp_path / "broken.yaml").write_text("a: [1\n")
    (tmp_path / "good.yaml").write_text(json.dumps(entry(epsilon=1.0)))
    assert [r.slug for r in rows(tmp_path)] == ["broken", "x"]


def test_what_is_no_registry() -> None:
    assert entries({"noise_multiplier": 1}) == []
    assert entries([]) == []
    assert entries([[1, 2], [3, 4]]) == []
    assert not is_entry({"audit": 1, "claim": {}})
    with pytest.raises(SpecError, match="several deployments"):
        audit({"deployments": ENTRIES})


def test_command(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    told = CliRunner().invoke(build("audit"), ["audit", str(FILE), "--html", str(page)])
    assert told.exit_code == 1
    assert "3 entries" in told.stdout
    html = page.read_text()
    assert html.count("<tr>") == 4
    assert "<script" not in html
    assert "http" not in html
    answer = CliRunner().invoke(build("audit"), ["audit", str(FILE), "--format", "json"])
    assert [r["entry"] for r in json.loads(answer.stdout)] == ["sql-queries", "url-shares", "entry 3"]


def test_html_escapes_what_entries_say() -> None:
    data = entry(epsilon=1.0)
    data["deployment"]["basic"]["name"] = "<script>alert(1)</script>"
    assert "<script>" not in table_html(rows_of([data]))


CASES = """
cases:
- id: good
  setting: {model: central, unit: person, neighbouring: add_remove}
  events: [{type: laplace, l1_sensitivity: 1, scale: 1}]
  claim: {epsilon: 1}
- id: prose
  setting: {model: central, unit: person, neighbouring: add_remove}
  events: [{type: laplace, l1_sensitivity: 1, scale: 1}]
  claim: {epsilon: about one}
  variants:
  - {name: scale=2, claim: {epsilon: 0.5}}
- no case
- id: bad
  setting: {model: central, unit: person, neighbouring: add_remove}
  events: [{type: laplace, l1_sensitivity: 1, scale: 2}]
  claim: {epsilon: 0.4}
"""


def test_a_catalogue_with_an_unreadable_row_gives_the_others(tmp_path: Path) -> None:
    file = tmp_path / "cases.yaml"
    file.write_text(CASES)
    found = audit_all(file)
    assert found is not None
    assert [(r.id, r.variant, r.verdict) for r in found] == [  # type: ignore[union-attr]
        ("good", None, "holds"),
        ("prose", None, "cannot-verify"),
        ("prose", "scale=2", "holds"),
        ("case 3", None, "cannot-verify"),
        ("bad", None, "violated"),
    ]
    told = CliRunner().invoke(build("audit"), ["audit", str(file)])
    assert told.exit_code == 1
    assert "about one" in told.stdout
    assert told.stdout.count("verdict") == 5


def test_one_unusable_file_leaves_the_others_their_verdicts(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(
        "audit: 1\nsetting: {neighbouring: add_remove}\nclaim: {epsilon: 1}\nevents: [{type: laplace, l1_sensitivity: 1, scale: 1}]\n"
    )
    bad.write_text("audit: 1\nclaim: {epsilon: much}\n")
    told = CliRunner().invoke(build("audit"), ["audit", str(bad), str(good)])
    assert told.exit_code == 2
    assert "verdict     holds" in told.stdout
    answer = CliRunner().invoke(build("audit"), ["audit", str(bad), str(good), "--format", "json"])
    first, second = json.loads(answer.stdout)
    assert first["diagnostics"]
    assert second["verdict"] == "holds"


def test_template_command() -> None:
    listed = CliRunner().invoke(build("audit"), ["audit", "--template", "list"])
    assert listed.exit_code == 0
    assert {"description", "opacus", "flower", "registry"} <= set(listed.stdout.split())
    one = CliRunner().invoke(build("audit"), ["audit", "--template", "opacus"])
    assert one.exit_code == 0
    assert read_yaml(one.stdout).data["noise_multiplier"] == 1.1
    wrong = CliRunner().invoke(build("audit"), ["audit", "--template", "opacos"])
    assert wrong.exit_code == 2
    assert CliRunner().invoke(build("audit"), ["audit"]).exit_code == 2


def test_the_tool_may_be_named(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("noise_multiplier: 1\nclip_norm: 1\nsample_rate: 1\nsteps: 1\nepsilon: 4.4\ndelta: 1e-5\n")
    assert "Opacus" in CliRunner().invoke(build("audit"), ["audit", str(file), "--as", "opacus"]).stdout
    assert CliRunner().invoke(build("audit"), ["audit", str(file), "--as", "abacus"]).exit_code == 2


def test_entries_in_the_shape_of_the_public_file(tmp_path: Path) -> None:
    sample = Path(__file__).parent / "registry-sample.yaml"
    found = {r.slug: r for r in rows(sample)}
    assert {slug: (r.model, r.verdict) for slug, r in found.items()} == {
        "page-counts-2023": ("central", "cannot-verify"),
        "elastic-queries-2018": ("central", "cannot-verify"),
        "classifier-2024": ("central", "cannot-verify"),
        "entry 4": ("central", "cannot-verify"),
        "telemetry-2017": ("local", "cannot-verify"),
        "scenes-2023": ("local", "inconsistent"),  # pure, with a delta
        "broken-entry": ("", "cannot-verify"),
        "trips-2021": ("central", "cannot-verify"),
    }
    assert "how many releases one unit meets" in found["page-counts-2023"].missing
    assert "delta" in found["elastic-queries-2018"].missing
    assert {"the variant", "the model of trust"} <= set(found["entry 4"].missing)
    page = tmp_path / "page.html"
    told = CliRunner().invoke(build("audit"), ["audit", str(sample), "--html", str(page)])
    assert told.exit_code == 1
    assert "8 entries: 7 cannot-verify, 1 inconsistent" in told.stdout
    assert page.read_text().count("<tr>") == 9
