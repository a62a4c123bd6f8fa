"""The worked example of docs/local-deployments.md does what it says. ``python -m tests.docs.test_local_page`` writes what it prints now."""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from pathlib import Path

import pytest

from dpspec.collector.export import supported
from tests.cli.call import call

PAGE = Path(__file__).parents[2] / "docs" / "local-deployments.md"
BLOCK = re.compile(r"```(console|python)\n(.*?)```", re.DOTALL)


def printed(words: list[str]) -> str:
    done = call(*words)
    assert done.code == 0, done.stderr
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())


def played(text: str, folder: Path) -> str:
    """The page with what its commands print in ``folder``, its Python run between them."""
    (folder / "survey.dps").write_text(re.search(r"```dps\n(.*?)```", text, re.DOTALL)[1], encoding="utf-8")  # type: ignore[index]

    def block(match: re.Match[str]) -> str:
        if match[1] == "python":
            exec(compile(match[2], str(PAGE), "exec"), {})
            return match[0]
        commands = [line for line in match[2].splitlines() if line.startswith("$ ")]
        return "```console\n" + "".join(f"{line}\n{printed(shlex.split(line)[2:])}" for line in commands) + "```"

    before = Path.cwd()
    os.chdir(folder)
    try:
        return BLOCK.sub(block, text)
    finally:
        os.chdir(before)


def usual(text: str) -> str:
    """Without what is random, and the hash of the plan."""
    text = re.sub(r"\b[0-9a-f]{12,64}\b", "HASH", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT\S*", "TIME", text)
    text = re.sub(r"\[[-\d., ]+\]|-?\d+\.\d+", "NUMBER", text)
    return re.sub(r"-{4,}| {2,}", " ", text)  # columns are as wide as their numbers


def test_the_worked_example(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert usual(played(text, tmp_path)) == usual(text)


@pytest.mark.parametrize("id", supported())
def test_the_page_lists_every_algorithm_with_a_client(id: str) -> None:
    assert f"`{id}`" in PAGE.read_text(encoding="utf-8").partition("## Which plans have clients")[2]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        PAGE.write_text(played(PAGE.read_text(encoding="utf-8"), Path(made)), encoding="utf-8")
