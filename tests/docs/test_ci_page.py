"""What docs/ci.md and the files of a team's CI run does what they say. ``python -m tests.docs.test_ci_page`` writes what it prints now."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from dpspec.config import VARIABLES, load
from tests.cli.call import call

ROOT = Path(__file__).parents[2]
PAGE, TEAM = ROOT / "docs" / "ci.md", ROOT / "specs" / "team"
HOOKS: list[dict[str, Any]] = YAML(typ="safe").load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
ACTION: dict[str, Any] = YAML(typ="safe").load((ROOT / "action.yml").read_text(encoding="utf-8"))
AUTHOR = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}


def environ(**more: str) -> dict[str, str]:
    """Of a runner on which ``dpspec`` is this tree."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("DPSPEC_", "GIT_"))}
    return {**kept, **AUTHOR, "PYTHONPATH": str(ROOT), "COLUMNS": "120", "NO_COLOR": "1", **more}


def repository(folder: Path) -> Path:
    """The demonstration as a repository: one commit, then a pull request that doubles a budget and adds the breach."""
    shutil.copytree(TEAM, folder, dirs_exist_ok=True)
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "base"]):
        subprocess.run(["git", *words], cwd=folder, check=True, env=environ())
    (folder / "visits.dps.breach").rename(folder / "visits.dps")
    spec = folder / "income.dps"
    text = spec.read_text(encoding="utf-8")
    spec.write_text(re.sub(r"epsilon = [\d.]+", "epsilon = 2", text), encoding="utf-8")
    assert spec.read_text(encoding="utf-8") != text
    return folder


def played(text: str, folder: Path) -> str:
    """The page with what its commands print."""
    repository(folder)

    def block(match: re.Match[str]) -> str:
        out = []
        for command in [line for line in match[1].splitlines() if line.startswith("$ ")]:
            words, _, script = command[2:].partition(" | ")
            done = call(*shlex.split(words)[1:])
            said = done.stdout + done.stderr
            if script:
                said = subprocess.run(["bash", "-c", script], input=done.stdout, capture_output=True, text=True, check=True).stdout
            out += [command, *said.splitlines()]
        return "```console\n" + "".join(f"{line}\n" for line in out) + "```"

    before = Path.cwd()
    os.chdir(folder)
    try:
        return re.sub(r"```console\n(.*?)```", block, text, flags=re.DOTALL)
    finally:
        os.chdir(before)


needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@needs_git
@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
def test_the_page_shows_what_is_printed(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert played(text, tmp_path) == text


def test_the_configuration_of_the_page_is_read(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    (block,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    (tmp_path / "dpspec.toml").write_text(block, encoding="utf-8")
    found = subprocess.run(
        [sys.executable, "-m", "dpspec", "config"], cwd=tmp_path, env=environ(), capture_output=True, text=True, check=True
    )
    assert "check --format = github" in found.stdout
    assert load({}, tmp_path).tables["ledger"] == {"status.delta": "1e-6"}
    assert all(f"`{name}`" in text for name in VARIABLES)


@pytest.mark.parametrize("hook", HOOKS, ids=lambda h: str(h["id"]))
def test_a_hook_runs_on_the_files_that_it_names(tmp_path: Path, hook: dict[str, Any]) -> None:
    """As pre-commit calls it: the entry with the files of the commit that its pattern matches."""
    shutil.copytree(TEAM, tmp_path, dirs_exist_ok=True)
    files = sorted(p.name for p in tmp_path.iterdir() if re.search(hook["files"], p.name))
    assert files == ["commute.dps", "income.dps"]
    program, *words = shlex.split(hook["entry"])
    assert program == "dpspec"
    run = [sys.executable, "-m", program, *words, *files]
    done = subprocess.run(run, cwd=tmp_path, env=environ(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    text = (tmp_path / "income.dps").read_text(encoding="utf-8")
    (tmp_path / "income.dps").write_text(text.replace("  epsilon", "  epsilom"), encoding="utf-8")
    assert subprocess.run(run, cwd=tmp_path, env=environ(), capture_output=True, check=False).returncode == 2


def step(name: str) -> dict[str, Any]:
    return next(s for s in ACTION["runs"]["steps"] if s["name"] == name)


def action(folder: Path, name: str, path: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """One step of the action, as a runner starts it."""
    given = {k: str(v.get("default", "")) for k, v in ACTION["inputs"].items()} | inputs
    values = {k: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda m: given[m[1]], v) for k, v in step(name)["env"].items()}
    there = environ(PATH=f"{path}{os.pathsep}{os.environ['PATH']}", **values)
    script = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step(name)["run"]]
    return subprocess.run(script, cwd=folder, env=there, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bin")
    (folder / "dpspec").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m dpspec "$@"\n', encoding="utf-8")
    (folder / "dpspec").chmod(0o755)
    return folder


@needs_git
def test_the_action_fails_on_a_breach_and_on_a_weaker_plan(tmp_path: Path, program: Path) -> None:
    folder = repository(tmp_path / "a folder")
    done = action(folder, "check", program, sarif="out.sarif")
    assert done.returncode == 1
    assert "::error file=visits.dps" in done.stdout
    assert '"relatedLocations"' in (folder / "out.sarif").read_text(encoding="utf-8")
    done = action(folder, "compare", program, base="HEAD")
    assert done.returncode == 1
    assert "income.dps against HEAD" in done.stdout
    assert "privacy: weaker" in done.stdout
    assert "visits.dps against" not in done.stdout  # it was not there
    subprocess.run(["git", "checkout", "-q", "income.dps"], cwd=folder, check=True, env=environ())
    (folder / "visits.dps").unlink()
    assert action(folder, "check", program).returncode == 0
    assert action(folder, "check", program, paths="income.dps\ncommute.dps").returncode == 0
    assert action(folder, "compare", program, base="HEAD").returncode == 0


def test_every_input_of_the_action_is_read() -> None:
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    assert set(re.findall(r"inputs\.([\w-]+)", text)) == set(ACTION["inputs"])


@needs_git
def test_the_gitlab_job(tmp_path: Path, program: Path) -> None:
    (block,) = [b for b in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL) if "image:" in b]
    script = [line for line in YAML(typ="safe").load(block)["privacy"]["script"] if not line.startswith("pip ")]
    shutil.copytree(TEAM, tmp_path / "specs")
    there = environ(PATH=f"{program}{os.pathsep}{os.environ['PATH']}")
    for line in script:
        subprocess.run(["bash", "-ec", line], cwd=tmp_path, env=there, check=True, capture_output=True)
    assert (tmp_path / "dpspec.xml").read_text(encoding="utf-8").count("<testcase") == 2


def test_the_grammar_of_the_extension_is_the_languages() -> None:
    import runpy

    made = runpy.run_path(str(ROOT / "docs" / "gen_editors.py"))
    assert made["TARGET"].read_text(encoding="utf-8") == made["text"](), "the language has new words: python docs/gen_editors.py"


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_the_extension_is_read_by_node() -> None:
    folder = ROOT / "editors" / "vscode"
    subprocess.run(["node", "--check", str(folder / "extension.js")], check=True)
    import json

    manifest = json.loads((folder / "package.json").read_text(encoding="utf-8"))
    for entry in (manifest["main"], *(g["path"] for g in manifest["contributes"]["grammars"])):
        assert (folder / entry).is_file()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        PAGE.write_text(played(PAGE.read_text(encoding="utf-8"), Path(made)), encoding="utf-8")
