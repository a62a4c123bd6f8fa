"""``--format json``: stdout is one JSON document, whatever else is asked for, when a command succeeds and when it fails."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

from dpspec.cli.app import COMMANDS, build
from dpspec.cli.common import emit_json
from dpspec.compiler.plan import make_plan
from tests.cli.call import Result, call
from tests.compiler.specs import CLASSIFY

#: For each command: its words, and the options that write, print or leave out something.
COMMAND_WORDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "init": ("{tmp}/new", ("--task local", "--surface yaml")),
    "check": ("{spec}", ("--policy {rules}",)),
    "plan": ("{spec}", ("--out {tmp}/p.json", "--against {lock}", "--trade-off --vary epsilon=1,2", "--constant-from {study}")),
    "diff": ("{spec} {spec}", ()),
    "run": ("{spec} --data {csv}", ("--out {tmp}/released",)),
    "client": ("{local}", ("--out {tmp}/client.json",)),
    "collect": (
        "{local} {folder} --store {tmp}/reports.db",
        ("--out {tmp}/released", "--tokens {tokens}"),
    ),
    "ledger": ("status --ledger {book} --delta 1e-6", ()),
    "study": ("{spec} --trials 2 --workers 1", ("--out {tmp}/out", "--quick", "--vary epsilon=1,2", "--until 0.5 --progress json")),
    "audit": ("{lock}", ("--template opacus", "--html {tmp}/p.html")),
    "report": ("{record}", ("--html {tmp}/p.html", "--table {tmp}/t.csv")),
    "predict": ("{record} {csv}", ("--out {tmp}/p.csv", "--release weights")),
    "algorithms": ("dp-gd", ("--faults",)),
    "explain": ("DP201", ()),
    "fmt": ("{ugly}", ("--check", "--diff")),
    "convert": ("{spec} --to yaml", ()),
    "schema": ("", ("--out {tmp}/schema.json", "--policy")),
    "config": ("", ()),
}
#: They write a script, or speak a protocol.
OTHERWISE = {"completion", "lsp"}
#: Options that change what is computed, not what is printed.
OTHER = {"--seed", "--compare", "--workers", "--engine", "--scheduler", "--trials", "--data", "--to", "--help", "--format", "--as"}
OTHER |= {"--ledger", "--account", "--fit", "--policy", "--delta", "--measures", "--holdout"}
OTHER |= {"--store", "--rounds", "--partial", "--serve", "--malicious"}
COMMON = ("--quiet", "--verbose", "--no-color")


def subsets(options: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [chosen for k in range(len(options) + 1) for chosen in itertools.combinations(options, k)]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("json")
    text = CLASSIFY.replace("n = 10_000", "n = 200").replace("delta = 1e-6", "delta = 1e-5")
    (folder / "a.dps").write_text(text)
    (folder / "ugly.dps").write_text(text.replace("epsilon = 1,", "epsilon   =   1,"))
    (folder / "broken.dps").write_text("analysis\n")
    (folder / "rules.yaml").write_text("policy: 1\nrules: [{name: r, unit: person}]\n")
    (folder / "notes.txt").write_text("words")
    (folder / "zeros.json").write_text("{}")
    x = np.random.default_rng(0).normal(size=(200, 5))
    np.savetxt(folder / "r.csv", np.column_stack([x, x[:, 0] > 0]), delimiter=",", header="a,b,c,d,e,y", comments="")
    (folder / "run.dps").write_text(text.replace("  private,", f'  from "{folder}/r.csv" target "y"\n  private,'))
    (folder / "missed.dps").write_text(text.replace("T = 50", "T = 50\n  expect excess-empirical-risk <= 1e-9"))
    (folder / "private.dps").write_text(text[: text.index("simulate")])
    assert call("plan", str(folder / "run.dps"), "--out", str(folder / "lock.json"), "-q").code == 0
    assert call("study", str(folder / "a.dps"), "--trials", "2", "--workers", "1", "--out", str(folder / "kept"), "-q").code == 0
    assert call("ledger", "init", "--ledger", str(folder / "book.db"), *["--account", "a", "--data", "d", "--epsilon", "1"]).code == 0
    assert call("run", str(folder / "run.dps"), "--out", str(folder / "released"), "-q").code == 0
    local_reports(folder)
    names = {
        "record": "released/record.json",
        "local": "local.dps",
        "folder": "inbox",
        "tokens": "tokens.txt",
        "spec": "run.dps",
        "plain": "a.dps",
        "ugly": "ugly.dps",
        "broken": "broken.dps",
        "rules": "rules.yaml",
        "notes": "notes.txt",
        "csv": "r.csv",
    }
    names |= {
        "lock": "lock.json",
        "study": "kept/study.json",
        "missed": "missed.dps",
        "private": "private.dps",
        "empty": "zeros.json",
        "book": "book.db",
    }
    return {k: str(folder / v) for k, v in names.items()}


def local_reports(folder: Path) -> None:
    """A plan of the local model, and the reports of all its users, who have tokens."""
    from dpspec import client
    from dpspec.collector.export import device_of
    from dpspec.lang.source import parse_file

    text = """analysis "local"
data
  n = 20, d = 1
  from memory columns [age]
  private, unit person, neighbours replace-one
  x in box(0, 100) by clip
privacy nldp
  epsilon = 1
release old
  estimate count where age >= 50
"""
    (folder / "local.dps").write_text(text)
    device = device_of(make_plan(parse_file(folder / "local.dps")))
    tokens = [bytes([i]) * 16 for i in range(20)]
    (folder / "tokens.txt").write_text("\n".join(t.hex() for t in tokens))
    (folder / "inbox").mkdir()
    for token in tokens:
        (folder / "inbox" / token.hex()).write_bytes(client.report(device, [30.0], token=token))


def run_json(command: str, words: str, values: dict[str, str]) -> tuple[Result, Any]:
    result = call(command, *(w.format(**values) for w in words.split()), "--format", "json")
    document = json.loads(result.stdout, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    return result, document


def test_measures_are_listed_by_task() -> None:
    listed = json.loads(call("algorithms", "--measures", "--format", "json").stdout)
    measures = {m["name"] for task in listed if task["task"] == "quantile" for m in task["measures"]}
    assert measures == {"rank-error", "absolute-error"}
    assert call("algorithms", "dp-gd", "--measures").code == 2  # of tasks, not of an algorithm


def test_every_command_and_option_is_tried() -> None:
    assert set(COMMAND_WORDS) == set(COMMANDS) - OTHERWISE
    for name in COMMAND_WORDS:
        (command,) = typer.main.get_command(build(name)).commands.values()  # type: ignore[attr-defined]
        options = {o for p in command.params for o in p.opts if o.startswith("--")}
        tried = {w for option in COMMAND_WORDS[name][1] for w in option.split() if w.startswith("--")}
        assert options <= tried | OTHER | set(COMMON), name


@pytest.mark.parametrize("command", sorted(COMMAND_WORDS))
def test_one_document_whatever_else_is_asked_for(command: str, files: dict[str, str], tmp_path: Path) -> None:
    words, options = COMMAND_WORDS[command]
    if command == "study":
        words = words.replace("{spec}", "{plain}")
    for i, chosen in enumerate(subsets(options)):
        for loud in ((), COMMON):
            values = {**files, "tmp": str(tmp_path / f"{i}{len(loud)}")}
            Path(values["tmp"]).mkdir()
            ugly = Path(files["ugly"]).read_text()
            result, document = run_json(command, " ".join((words, *chosen, *loud)), values)
            changes = command == "fmt" and chosen
            assert result.code == (1 if changes else 0), (chosen, result.stderr)
            assert document not in ({}, [], None)
            Path(files["ugly"]).write_text(ugly)


@pytest.mark.parametrize(
    ("command", "words", "code", "found"),
    [
        ("init", "{here}", 2, "DP416"),
        ("check", "{tmp}", 2, "DP416"),
        ("check", "{broken}", 2, None),
        ("check", "{missed}", 1, None),
        ("check", "{plain} --nonsense", 2, "DP416"),
        ("plan", "{broken}", 2, "DP108"),
        ("plan", "{tmp}/absent.dps --out {tmp}/p.json", 2, "DP100"),
        ("plan", "{plain} --out {tmp}/no/where.json", 2, "DP416"),
        ("plan", "{missed} --trade-off", 1, "DP402"),
        ("plan", "{plain} --against {notes}", 2, "DP416"),
        ("plan", "{plain} --against {empty}", 2, "DP416"),
        ("plan", "{plain} --vary n=1", 2, "DP416"),
        ("plan", "{plain} --constant-from {lock}", 2, "DP416"),
        ("diff", "{plain} {notes}", 2, "DP416"),
        ("diff", "{tmp}/absent.dps {plain}", 2, "DP100"),
        ("run", "{missed} --out {tmp}/o", 1, "DP402"),
        ("run", "{plain}", 2, "DP513"),
        ("run", "{spec} --data {notes}", 2, None),
        ("run", "{spec} --ledger {book}", 2, "DP702"),
        ("run", "{spec} --ledger {book} --account b", 2, "DP702"),
        ("run", "{spec} --ledger {book} --account a", 1, "DP709"),
        ("plan", "{spec} --fit a", 2, "DP705"),
        ("ledger", "status --ledger {tmp}/none.db", 2, "DP705"),
        ("ledger", "status --ledger {notes}", 2, "DP705"),
        ("ledger", "status b --ledger {book}", 2, "DP702"),
        ("ledger", "init --ledger {book} --account a --data d --epsilon 1", 2, "DP710"),
        ("ledger", "init --ledger {book} --account c --data d --epsilon 1 --rho 1", 2, "DP710"),
        ("ledger", "resolve 1 --spent --reason r --by b --ledger {book}", 2, "DP712"),
        ("ledger", "verify {lock} --ledger {book}", 1, "DP706"),
        ("ledger", "show 9 --ledger {book}", 2, "DP702"),
        ("ledger", "init --ledger {book} --account c --data d --rho 1 --relation replace", 2, "DP710"),
        ("ledger", "init --ledger {book} --account c --data d --rho 1 --model centre", 2, "DP710"),
        ("study", "{private}", 1, "DP410"),
        ("study", "{plain} --vary n", 2, "DP416"),
        ("study", "{plain} --engine spark", 2, "DP416"),
        ("study", "{plain} --trials none", 2, "DP416"),
        ("audit", "{notes}", 2, None),
        ("audit", "{tmp}/absent.yaml", 2, "DP670"),
        ("report", "{notes} --html {tmp}/x.html", 2, "DP416"),
        ("report", "{empty}", 2, "DP416"),
        ("report", "{lock} {study} --html {tmp}/x.html", 2, "DP416"),
        ("report", "{lock} --html {tmp}/no/where.html", 2, "DP416"),
        ("algorithms", "dp-gdd --faults", 2, "DP416"),
        ("explain", "DP999", 2, "DP416"),
        ("fmt", "{broken}", 2, "DP108"),
        ("fmt", "{broken} {ugly} --diff", 2, "DP108"),
        ("convert", "{plain}", 2, "DP416"),
        ("convert", "{broken} --to yaml", 2, "DP108"),
        ("schema", "--out {tmp}/no/where.json", 2, "DP416"),
        ("nonsense", "", 2, "DP416"),
    ],
)
def test_a_failure_is_one_document_too(
    command: str, words: str, code: int, found: str | None, files: dict[str, str], tmp_path: Path
) -> None:
    if command == "init":
        (tmp_path / "classify.dps").write_text("mine")
    result, document = run_json(command, words, {**files, "tmp": str(tmp_path), "here": str(tmp_path)})
    assert result.code == code, result.stderr
    if found is not None:
        assert found in [d["code"] for d in document["diagnostics"]]
        assert all(d["message"] for d in document["diagnostics"])
    text = call(command, *(w.format(**files, tmp=tmp_path, here=tmp_path) for w in words.split()))
    assert text.code == code, "the exit code does not depend on the format"


def test_a_stale_plan_says_what_changed(files: dict[str, str]) -> None:
    result, document = run_json("plan", "{spec} --against {lock}", files)
    assert result.code == 0
    assert document["against"]["matches"] is True
    text = Path(files["spec"]).read_text()
    other = Path(files["spec"]).with_name("other.dps")
    other.write_text(text.replace("epsilon = 1,", "epsilon = 2,"))
    result, document = run_json("plan", "{other} --against {lock}", {**files, "other": str(other)})
    assert result.code == 1
    assert document["against"]["matches"] is False
    assert any("epsilon" in c["what"] for c in document["against"]["changes"])


def test_an_interrupt_and_a_fault_of_ours_leave_one_document(files: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    import dpspec.compiler.plan as plan

    def raising(error: BaseException) -> Callable[..., None]:
        def make_plan(*_: object, **__: object) -> None:
            raise error

        return make_plan

    monkeypatch.setattr(plan, "make_plan", raising(KeyboardInterrupt()))
    result, document = run_json("plan", "{plain}", files)
    assert (result.code, document["interrupted"]) == (130, True)
    monkeypatch.setattr(plan, "make_plan", raising(ZeroDivisionError("secret 42")))
    from typer.testing import CliRunner

    crashed = CliRunner().invoke(build("plan"), ["plan", files["plain"], "--format", "json"])
    assert crashed.exit_code == 1
    assert "internal error: ZeroDivisionError at " in crashed.stderr
    assert "secret" not in crashed.stderr
    assert "Traceback" not in crashed.stderr
    assert json.loads(crashed.stdout) == {"path": "", "diagnostics": [], "internal_error": "ZeroDivisionError"}


def test_numbers_that_json_lacks_become_null(capsys: pytest.CaptureFixture[str]) -> None:
    from dpspec.cli import common

    common._document.written = False
    emit_json({"a": float("inf"), "b": [float("nan"), 1.5], "c": {"d": (float("-inf"),)}})
    assert json.loads(capsys.readouterr().out) == {"a": None, "b": [None, 1.5], "c": {"d": [None]}}
    with pytest.raises(RuntimeError):
        emit_json({})
    common._document.written = False


@pytest.mark.skipif(os.name == "nt", reason="a closed pipe")
def test_the_process_itself(files: dict[str, str]) -> None:
    import subprocess
    import sys

    for words, code in ((("check", files["plain"]), 0), (("check", "--nonsense"), 2), (("plan", files["missed"]), 1)):
        done = subprocess.run([sys.executable, "-m", "dpspec", *words, "--format=json"], capture_output=True, text=True, check=False)
        assert done.returncode == code
        assert isinstance(json.loads(done.stdout), dict)
