"""The commands: what they print, their exit codes, and that bad input loses nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dpspec.cli.app import COMMANDS
from dpspec.lang.source import parse_file
from tests.cli.call import call
from tests.compiler.specs import CLASSIFY, LOCAL


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    file = tmp_path / "classify.dps"
    file.write_text(CLASSIFY, encoding="utf-8")
    return file


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_has_an_example(name: str) -> None:
    result = call(name, "--help")
    assert result.code == 0
    assert f"dpspec {name}" in result.stdout


def test_no_spec_found_is_unusable(tmp_path: Path) -> None:
    result = call("check", str(tmp_path))
    assert result.code == 2
    assert "no spec" in result.stderr


@pytest.mark.parametrize("command", ["check", "plan", "run", "study", "fmt"])
def test_a_missing_file_is_unusable(command: str, tmp_path: Path) -> None:
    result = call(command, str(tmp_path / "absent.dps"))
    assert result.code == 2
    assert "absent.dps" in result.stdout + result.stderr


def test_check_clean(spec: Path) -> None:
    result = call("check", str(spec), "--format", "json")
    assert result.code == 0
    assert json.loads(result.stdout)["summary"] == {"errors": 0, "warnings": 0}


def test_check_a_folder_and_formats(spec: Path) -> None:
    (spec.parent / "bad.dps").write_text(CLASSIFY.replace("by dp-gd", "by dp-gdd"), encoding="utf-8")
    sarif = json.loads(call("check", str(spec.parent), "--format", "sarif").stdout)
    (finding,) = sarif["runs"][0]["results"]
    assert finding["ruleId"] == "DP404"
    assert finding["locations"][0]["physicalLocation"]["region"]["startLine"] == 14
    assert sarif["runs"][0]["tool"]["driver"]["rules"][0]["id"] == "DP404"
    github = call("check", str(spec.parent), "--format", "github")
    assert github.stdout.startswith("::error file=")
    assert "line=14,col=6" in github.stdout
    assert github.code == 1
    from xml.etree import ElementTree

    suite = ElementTree.fromstring(call("check", str(spec.parent), "--format", "junit").stdout)
    assert suite.attrib["tests"] == "2"
    assert suite.attrib["failures"] == "1"


def test_plan_text_and_json(spec: Path) -> None:
    text = call("plan", str(spec)).stdout
    for word in ("epsilon", "rests on", "lipschitz", "proved", "dp-gd", "published", "sensitivity"):
        assert word in text
    body = json.loads(call("plan", str(spec), "--format", "json").stdout)
    assert body["guarantee"]["checked_epsilon"] == pytest.approx(body["guarantee"]["epsilon"], rel=1e-3)
    assert {"name", "task", "algorithm", "candidates", "tunables", "noise", "published", "assumptions", "bounds", "target", "cost"} <= body[
        "releases"
    ][0].keys()


def test_plan_out_against(spec: Path) -> None:
    lock = spec.parent / "plan.json"
    assert call("plan", str(spec), "--out", str(lock), "-q").code == 0
    assert call("plan", str(spec), "--against", str(lock), "-q").code == 0
    spec.write_text("# reviewed\n" + CLASSIFY, encoding="utf-8")
    assert call("plan", str(spec), "--against", str(lock), "-q").code == 0, "a comment is not a change"
    spec.write_text(CLASSIFY.replace("epsilon = 1,", "epsilon = 2,"), encoding="utf-8")
    stale = call("plan", str(spec), "--against", str(lock), "-q")
    assert stale.code == 1
    assert "DP420" in stale.stderr
    assert "epsilon: 1 -> 2" in stale.stderr, "six figures, as in diff"
    lock.write_text("{}", encoding="utf-8")
    assert call("plan", str(spec), "--against", str(lock), "-q").code == 2


def test_diff(spec: Path) -> None:
    other = spec.parent / "other.dps"
    other.write_text(CLASSIFY.replace("epsilon = 1,", "epsilon = 2,"), encoding="utf-8")
    weaker = call("diff", str(spec), str(other))
    assert weaker.code == 1
    assert "weaker" in weaker.stdout
    assert call("diff", str(other), str(spec)).code == 0
    assert "the same plan" in call("diff", str(spec), str(spec)).stdout


def test_fmt_and_convert(spec: Path) -> None:
    spec.write_text(CLASSIFY.replace("epsilon = 1,", "epsilon   =   1,") + "\n\n# the end\n", encoding="utf-8")
    meaning = parse_file(spec).analysis
    assert call("fmt", "--check", str(spec)).code == 1
    assert call("fmt", str(spec)).code == 0
    assert call("fmt", "--check", str(spec)).code == 0
    assert "# the end" in spec.read_text()
    assert parse_file(spec).analysis == meaning
    yaml = spec.parent / "same.dpspec.yaml"
    yaml.write_text(call("convert", str(spec), "--to", "yaml").stdout, encoding="utf-8")
    assert parse_file(yaml).analysis == meaning


def test_fmt_leaves_a_broken_file_alone(tmp_path: Path) -> None:
    file = tmp_path / "broken.dps"
    file.write_text("analysis\n", encoding="utf-8")
    assert call("fmt", str(file)).code == 2
    assert file.read_text() == "analysis\n"


@pytest.mark.parametrize("task", ["classify", "regress", "local"])
@pytest.mark.parametrize("surface", ["dps", "yaml"])
def test_init_writes_a_spec_that_checks(tmp_path: Path, task: str, surface: str) -> None:
    assert call("init", str(tmp_path), "--task", task, "--surface", surface).code == 0
    (file,) = [p for p in tmp_path.iterdir() if p.name.startswith(task)]
    assert call("check", str(file)).code == 0
    before = file.read_text()
    assert call("init", str(tmp_path), "--task", task, "--surface", surface).code == 2
    assert file.read_text() == before
    if surface == "yaml":
        assert before.startswith("# yaml-language-server: $schema=")
        import jsonschema

        schema = json.loads((tmp_path / "dpspec.schema.json").read_text())
        from ruamel.yaml import YAML

        jsonschema.validate(YAML(typ="safe").load(before), schema)


def test_explain() -> None:
    assert "DP210" in call("explain", "dp210").stdout
    assert call("explain", "DP999").code == 2
    table = call("explain").stdout
    from dpspec.spec.codes import CODES

    for code, entry in CODES.all().items():
        assert code in table
        assert len(entry.explanation) > 40


def test_algorithms() -> None:
    rows = json.loads(call("algorithms", "--format", "json").stdout)
    ids = {r["id"] for r in rows}
    assert {"dp-gd", "nldp-sparse-linear-regression", "nldp-sparse-linear-regression-public", "ldp-iht"} <= ids
    keys = {"id", "title", "role", "family", "task", "privacy", "sources", "assumptions", "bounds", "faults", "spec"}
    assert all(keys <= r.keys() for r in rows)
    assert "dp-gd" in call("algorithms").stdout
    assert "Lemma 2.1.9" in call("algorithms", "dp-gd", "--faults").stdout
    assert call("algorithms", "dp-gdd").code == 2


def test_study_quick(spec: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = call("study", str(spec), "--trials", "3", "--vary", "epsilon=0.5,4", "--out", str(out), "--workers", "1", "--format", "json")
    body = json.loads(result.stdout)
    assert [p["at"] for p in body["points"]] == [{"epsilon": 0.5}, {"epsilon": 4.0}]
    assert json.loads((out / "study.json").read_text()) == body
    assert call("study", str(spec), "--vary", "epsilon").code == 2
    assert call("study", str(spec), "--vary", "rho=1").code == 2
    assert call("study", str(spec), "--vary", "n=abc").code == 2


def test_study_refuses_private_data(spec: Path) -> None:
    text = CLASSIFY[: CLASSIFY.index("simulate")].replace("private,", 'from "records.csv" target "label"\n  private,')
    spec.write_text(text, encoding="utf-8")
    result = call("study", str(spec))
    assert result.code == 1
    assert "DP410" in result.stderr


def test_run_writes_a_record(spec: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    data = tmp_path / "records.csv"
    x = rng.normal(size=(400, 5))
    y = (x[:, 0] > 0).astype(int)
    header = "a,b,c,d,e,label"
    np.savetxt(data, np.column_stack([x, y]), delimiter=",", header=header, comments="")
    text = CLASSIFY.replace("n = 10_000", "n = 400").replace("private,", f'from "{data.name}" target "label"\n  private,')
    spec.write_text(text, encoding="utf-8")
    out = tmp_path / "released"
    result = call("run", str(spec), "--out", str(out))
    assert result.code == 0, result.stderr
    record = json.loads((out / "record.json").read_text())
    assert record["mode"] == "release"
    with np.load(out / "weights.npz") as arrays:
        assert arrays["theta"].shape == (5,)
    spec.write_text(text.replace("n = 400", "n = 401"), encoding="utf-8")
    refused = call("run", str(spec), "--out", str(tmp_path / "none"))
    assert refused.code == 2
    assert "DP507" in refused.stderr
    assert not (tmp_path / "none").exists()


def test_a_missed_target_is_planned_but_not_run(spec: Path) -> None:
    spec.write_text(CLASSIFY.replace("T = 50", "momentum = 0\n  expect excess-empirical-risk <= 1e-9"), encoding="utf-8")
    assert call("plan", str(spec)).code == 1
    result = call("run", str(spec))
    assert result.code == 1
    assert "DP402" in result.stderr


def test_the_process_itself(spec: Path) -> None:
    def dpspec(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "dpspec", *words], capture_output=True, text=True, check=False)

    assert dpspec("--version").stdout.startswith("dpspec ")
    assert dpspec("check", str(spec)).returncode == 0
    assert dpspec("nonsense").returncode == 2
    assert dpspec("check", str(spec), "--nonsense").returncode == 2
    assert dpspec().returncode in (0, 2)


@pytest.mark.parametrize("words", [["--help"], ["-h"], []])
def test_the_list_of_commands_imports_none_of_them(words: list[str]) -> None:
    """It is the page that the whole application prints."""
    code = (
        f"import sys; sys.argv = ['dpspec', *{words}]\n"
        "from dpspec.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print('imported:', str([m for m in sys.modules if m.startswith('dpspec.') and m not in "
        "('dpspec.version', 'dpspec.cli', 'dpspec.cli.main', 'dpspec.cli.app', 'dpspec.cli.common', 'dpspec.spec', "
        "'dpspec.spec.diagnostics')]))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    page, _, imported = (out.stderr + out.stdout).partition("imported: ")
    assert imported.strip() == "[]"
    assert page.split() == call("--help").stdout.replace("root", "dpspec", 1).split()


def test_check_imports_nothing_heavy(spec: Path) -> None:
    code = (
        "import sys; sys.argv = ['dpspec', 'check', sys.argv[1]]\n"
        "from dpspec.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "slow = ('sympy', 'scipy.stats', 'dp_accounting', 'opendp', 'sklearn', 'pandas', 'pyarrow', 'rich', 'sqlalchemy')\n"
        "heavy = [m for m in slow if m in sys.modules]\n"
        "print('heavy:', heavy)"
    )
    out = subprocess.run([sys.executable, "-c", code, str(spec)], capture_output=True, text=True, check=True)
    assert "heavy: []" in out.stdout
    local = spec.parent / "local.dps"
    local.write_text(LOCAL, encoding="utf-8")
    out = subprocess.run([sys.executable, "-c", code, str(local)], capture_output=True, text=True, check=True)
    assert "heavy: []" in out.stdout


def test_the_gallery_is_clean() -> None:
    """What the first command of the README's project shows to a newcomer, and CI runs: no spec has an error, no target is missed."""
    done = call("check", str(Path(__file__).parents[2] / "specs"), "--quiet")
    assert done.code == 0, done.stdout


MEAN = """analysis "mean"

data
  n = 20, d = 1
  private, unit person, neighbours replace-one
  x in [-1, 1] by clip

privacy central
  epsilon = 1

release m
  estimate mean(x)
  by dp-mean

simulate
  x = uniform(-1, 1)
"""


def test_progress_as_json_lines(tmp_path: Path) -> None:
    """Piped, as a scheduler of jobs would read it; a study that is resumed counts what it keeps."""
    spec = tmp_path / "mean.dps"
    spec.write_text(MEAN, encoding="utf-8")
    words = ["study", str(spec), "--seed", "1", "--quiet", "--workers", "1", "--out", str(tmp_path / "o")]
    first = call(*words, "--trials", "20", "--progress", "json")
    lines = [json.loads(line) for line in first.stderr.splitlines()]
    assert lines[-1]["done"] == lines[-1]["total"] == 2
    assert lines[-1]["seconds_left"] == 0
    more = [json.loads(line) for line in call(*words, "--trials", "30", "--progress", "json").stderr.splitlines()]
    assert [(line["done"], line["total"]) for line in more] == [(3, 3)]
    assert call(*words, "--trials", "30").stderr == ""
    assert call(*words, "--progress", "dots").code == 2
