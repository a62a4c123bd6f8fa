"""The worked example of docs/ledger.md does what it says. ``python -m tests.docs.test_ledger_page`` writes what it prints now."""

from __future__ import annotations

import json
import os
import re
import shlex
import tempfile
from pathlib import Path

import numpy as np
import pytest

from tests.cli.call import call

PAGE = Path(__file__).parents[2] / "docs" / "ledger.md"
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)


def printed(words: list[str]) -> str:
    done = call(*words)
    if "--fit" in words:  # the plan is long: what the page shows of it
        body = json.loads(done.stdout)
        guarantee = {k: body["guarantee"][k] for k in ("epsilon", "delta", "mu")}
        return json.dumps({"...": "...", "guarantee": guarantee, "fit": body["fit"]}) + "\n"
    lines = [*done.stdout.splitlines(), *(line for line in done.stderr.splitlines() if line.strip())]
    return "".join(f"{line}\n" for line in lines)


def played(text: str, folder: Path) -> str:
    """The page with what its commands print in ``folder``."""
    (folder / "income.dps").write_text(re.search(r"```dps\n(.*?)```", text, re.DOTALL)[1], encoding="utf-8")  # type: ignore[index]
    x = np.random.default_rng(0).normal(size=(200, 2))
    np.savetxt(folder / "survey.csv", np.column_stack([x, x[:, 0] > 0]), delimiter=",", header="a,b,y", comments="")

    def block(match: re.Match[str]) -> str:
        commands = [line for line in match[1].splitlines() if line.startswith("$ ")]
        return "```console\n" + "".join(f"{line}\n{printed(shlex.split(line)[2:])}" for line in commands) + "```"

    before = Path.cwd()
    os.chdir(folder)
    try:
        return BLOCK.sub(block, text)
    finally:
        os.chdir(before)


def usual(text: str) -> str:
    """Without names, hashes and times, which are of their day."""
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}", "NAME", text)
    text = re.sub(r"\b[0-9a-f]{64}\b", "HASH", text)
    text = re.sub(r"\b[0-9a-f]{12}\b", "PLAN", text)
    return re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME", text)


def test_the_worked_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DPSPEC_LEDGER", raising=False)
    text = PAGE.read_text(encoding="utf-8")
    assert usual(played(text, tmp_path)) == usual(text)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        PAGE.write_text(played(PAGE.read_text(encoding="utf-8"), Path(made)), encoding="utf-8")
