"""The configuration file and the environment: what is taken, in which order, and what is refused by name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dpspec.config import VARIABLES, charged, load
from dpspec.spec.diagnostics import SpecError

ROOT = Path(__file__).parents[2]
SPEC = ROOT / "specs/convex_erm/dp-gd.dps"


def run(folder: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """The command as a process: the configuration is read before the command is built."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("DPSPEC_")}
    return subprocess.run(
        [sys.executable, "-m", "dpspec", *words],
        cwd=folder,
        env={**kept, "PYTHONPATH": str(ROOT), **environ},
        capture_output=True,
        text=True,
        check=False,
    )


def test_defaults_come_from_the_file_and_the_command_line_wins(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "dpspec.toml").write_text('no-color = true\n[command.check]\nformat = "json"\n', encoding="utf-8")
    inner = tmp_path / "deep" / "er"
    inner.mkdir(parents=True)
    done = run(inner, "check", str(SPEC))
    assert (done.returncode, json.loads(done.stdout)["summary"]) == (0, {"errors": 0, "warnings": 0})
    assert run(inner, "check", str(SPEC), "--format", "text").stdout == "1 spec: 0 errors, 0 warnings\n"
    assert run(inner, "check", str(SPEC), DPSPEC_CONFIG="").stdout == "1 spec: 0 errors, 0 warnings\n"


def test_a_relative_file_counts_from_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.dpspec]\nledger = "team.db"\n', encoding="utf-8")
    inner = tmp_path / "deep"
    inner.mkdir()
    assert run(inner, "ledger", "init").returncode == 0
    assert (tmp_path / "team.db").is_file()
    shown = json.loads(run(inner, "config", "--format", "json").stdout)
    assert shown["options"]["run --ledger"] == str(tmp_path / "team.db")
    other = run(inner, "ledger", "status", DPSPEC_LEDGER=str(tmp_path / "none.db"))
    assert (other.returncode, "none.db" in other.stderr) == (2, True)  # a variable goes before the file


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('legder = "a.db"', "unknown key legder"),
        ('[command.stuy]\ntrials = "3"', "there is no command stuy"),
        ("[command.config]\ntrials = 3", "config has no option trials"),
        ("[command]\nstudy = 3", "command.study is no table"),
        ("[command.config]\nquiet = 3", "quiet of config is 3"),
        ('[command.config]\nformat = "xml"', "format of config: "),
        ("[command.config]\nformat = [1]", "format of config is [1]"),
        ("ledger = ", "it is not TOML"),
    ],
)
def test_what_is_not_understood_is_refused(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "dpspec.toml").write_text(text, encoding="utf-8")
    done = run(tmp_path, "config")
    assert (done.returncode, done.stdout) == (2, "")
    assert "DP417" in done.stderr
    assert says in done.stderr
    body = json.loads(run(tmp_path, "config", "--format", "json").stdout)
    assert [d["code"] for d in body["diagnostics"]] == ["DP417"]


def test_a_misspelt_variable_is_refused() -> None:
    with pytest.raises(SpecError, match="DPSPEC_LEGDER means nothing") as caught:
        load({"DPSPEC_LEGDER": "a.db"})
    assert caught.value.diagnostics[0].help == "did you mean DPSPEC_LEDGER?"
    assert load(dict.fromkeys(VARIABLES, "")).path is None


def test_two_configurations_side_by_side_are_refused(tmp_path: Path) -> None:
    (tmp_path / "dpspec.toml").write_text("", encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text("[tool.dpspec]\n", encoding="utf-8")
    with pytest.raises(SpecError, match="two configurations"):
        load({}, tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool.other]\n", encoding="utf-8")
    assert load({}, tmp_path).path == tmp_path / "dpspec.toml"


def test_somebody_elses_broken_pyproject_is_not_ours(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "pyproject.toml").write_text("[[[", encoding="utf-8")
    assert load({}, tmp_path).path is None


def test_an_estimator_is_charged_as_the_configuration_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dpspec.toml").write_text('ledger = "team.db"\naccount = "survey"\n', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert charged(None, None) == (str(tmp_path / "team.db"), "survey")
    assert charged("other.db", "mine") == ("other.db", "mine")
    monkeypatch.setenv("DPSPEC_LEDGER", "sqlite:///x.db")
    assert charged(None, None) == ("sqlite:///x.db", "survey")
    monkeypatch.setenv("DPSPEC_CONFIG", "")
    monkeypatch.delenv("DPSPEC_LEDGER")
    assert charged(None, None) == (None, None)


@pytest.mark.parametrize(
    ("words", "at", "offered"),
    [
        ("dpspec st", 1, {"study"}),
        ("dpspec check --fo", 2, {"--format"}),
        ("dpspec check --format s", 3, {"sarif"}),
        ("dpspec ledger st", 2, {"status"}),
    ],
)
def test_the_shell_completes(tmp_path: Path, words: str, at: int, offered: set[str]) -> None:
    done = run(tmp_path, _DPSPEC_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=str(at))
    assert set(done.stdout.split()) == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell"])
def test_every_shell_has_a_script(tmp_path: Path, shell: str) -> None:
    done = run(tmp_path, "completion", shell)
    assert done.returncode == 0
    assert "_DPSPEC_COMPLETE" in done.stdout
    if shell == "bash":
        assert subprocess.run(["bash", "-n"], input=done.stdout, text=True, check=False).returncode == 0


def test_an_unknown_shell_is_refused(tmp_path: Path) -> None:
    assert run(tmp_path, "completion", "tcsh").returncode == 2
