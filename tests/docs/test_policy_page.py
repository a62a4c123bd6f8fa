"""The worked example of docs/policy.md does what it says. ``python -m tests.docs.test_policy_page`` writes what it prints now."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import tempfile
from pathlib import Path

from tests.cli.call import call

ROOT = Path(__file__).parents[2]
PAGE, TEAM = ROOT / "docs" / "policy.md", ROOT / "specs" / "team"


def played(text: str, folder: Path) -> str:
    """The page with the demonstration's policy, and what its commands print in a copy where the breach is a spec."""
    shutil.copytree(TEAM, folder, dirs_exist_ok=True)
    (folder / "visits.dps.breach").rename(folder / "visits.dps")
    policy = (TEAM / "policy.yaml").read_text(encoding="utf-8")
    text = re.sub(r"```yaml\n(.*?)```", lambda _: f"```yaml\n{policy}```", text, count=1, flags=re.DOTALL)

    def block(match: re.Match[str]) -> str:
        (command,) = [line for line in match[1].splitlines() if line.startswith("$ ")]
        done = call(*shlex.split(command)[2:])
        assert done.code == 1
        return f"```console\n{command}\n" + "".join(f"{line}\n" for line in (*done.stdout.splitlines(), *done.stderr.splitlines())) + "```"

    before = Path.cwd()
    os.chdir(folder)
    try:
        return re.sub(r"```console\n(.*?)```", block, text, flags=re.DOTALL)
    finally:
        os.chdir(before)


def test_the_worked_example(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert played(text, tmp_path) == text


def test_the_demonstration_is_clean() -> None:
    done = call("check", str(TEAM), "--verbose")
    assert done.code == 0
    assert "DP761" in done.stdout


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        PAGE.write_text(played(PAGE.read_text(encoding="utf-8"), Path(made)), encoding="utf-8")
