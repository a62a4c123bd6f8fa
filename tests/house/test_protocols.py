"""Every algorithm is what :class:`dpspec.algorithms.card.Algorithm` says, its types included."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from types import ModuleType

import pytest

from dpspec.algorithms.registry import all_modules

ROOT = Path(__file__).parents[2]
PROTOCOLS = {"algorithm": "Algorithm", "reference": "Reference"}
CHECKED = [(m, PROTOCOLS[m.CARD.role]) for m in all_modules() if m.CARD.role in PROTOCOLS]


@pytest.mark.parametrize("module", [m for m, _ in CHECKED], ids=[m.CARD.id for m, _ in CHECKED])
def test_a_run_names_the_types_of_what_it_is_handed(module: ModuleType) -> None:
    """Rows, a problem with its oracle, tunables, a door to noise: with ``Any`` mypy would check nothing inside."""
    records, problem, tunables, release = (p.annotation for p in inspect.signature(module.run).parameters.values())
    assert records == "Rows"
    assert problem.partition("[")[0] == "Problem"
    assert tunables == "Tunables"
    assert release == ("Door" if module.CARD.role == "algorithm" else "Door | None")
    assert inspect.signature(module.accepts).return_annotation == "str | None"


@pytest.mark.slow
def test_mypy_finds_the_protocol_in_every_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    api = pytest.importorskip("mypy.api", reason="mypy is a tool of development")
    monkeypatch.chdir(ROOT)
    lines = ["from dpspec.algorithms.card import Algorithm, Reference"]
    for module, protocol in CHECKED:
        package, _, name = module.__name__.rpartition(".")
        lines += [f"from {package} import {name} as module_{name}", f"checked_{name}: {protocol} = module_{name}"]
    right, wrong = tmp_path / "right.py", tmp_path / "wrong.py"
    right.write_text("\n".join(lines) + "\n")
    wrong.write_text("from dpspec.algorithms import sums\nfrom dpspec.algorithms.card import Algorithm\nx: Algorithm = sums\n")
    options = ["--strict", "--python-executable", sys.executable, "--cache-dir", str(ROOT / ".mypy_cache")]
    assert api.run([*options, str(right)])[::2] == ("Success: no issues found in 1 source file\n", 0)
    assert "Incompatible types" in api.run([*options, str(wrong)])[0]
