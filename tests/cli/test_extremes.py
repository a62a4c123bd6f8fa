"""Commands at the ends of what files and numbers can be: a message and exit 0, 1 or 2."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.cli.call import call

SPEC = """analysis "extreme"

data
  n = 6, d = 2
  from "FILE" COLUMNS target "y"
  private, unit person, neighbours replace-one
  x in ball(l2, 1) by scale
  y in {-1, 1} by map(0 -> -1, 1 -> 1)

privacy central
  epsilon = 1, delta = 1e-6

release a
  minimise logistic over ball(l2, 1)
  by dp-gd with T = 2
"""


def spec(folder: Path, file: str, columns: str = "") -> str:
    path = folder / "a.dps"
    path.write_text(SPEC.replace("FILE", file).replace("COLUMNS", columns))
    return str(path)


@pytest.mark.parametrize("columns", ["columns [a, b]", "columns [x0, b]", "columns [1, 0]"])
def test_arrays_have_no_named_columns(columns: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "r.npz", x=np.eye(6, 2), y=np.arange(6) % 2)
    result = call("run", spec(tmp_path, "r.npz", columns))
    assert (result.code, "DP503" in result.stderr or "DP1" in result.stderr) == (2, True)
    assert "internal error" not in result.stderr


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".parquet", ".arrow", ".npy", ".npz", ".svm"])
@pytest.mark.parametrize(
    "content", [b"", b"\x00" * 50, b"PK\x03\x04" + b"\xff" * 80, b"PAR1" + b"\x01" * 80 + b"PAR1", b"\x93NUMPY\x01\x00v\x00"]
)
def test_broken_data_files(ending: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / f"r{ending}").write_bytes(content)
    result = call("run", spec(tmp_path, f"r{ending}"))
    assert result.code == 2
    assert "error[DP5" in result.stderr


@pytest.mark.parametrize(
    ("ending", "place"),
    [
        (".csv", "pyarrow.csv.read_csv"),
        (".parquet", "pyarrow.parquet.ParquetFile"),
        (".arrow", "pyarrow.ipc.open_stream"),
        (".npy", "numpy.load"),
    ],
)
def test_memory_that_ran_out_is_not_a_broken_file(ending: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyarrow.lib import ArrowMemoryError

    def full(*_: object, **__: object) -> None:
        raise MemoryError if ending == ".npy" else ArrowMemoryError("malloc of size 99 for the cell 'secret' failed")

    (tmp_path / f"r{ending}").write_text("a,b,y\n1,2,0\n")
    monkeypatch.setattr(place, full)
    for words in ((), ("--format", "json")):
        result = call("run", spec(tmp_path, f"r{ending}"), *words)
        assert result.code == 2
        assert "not enough memory" in result.stderr
        assert "secret" not in result.stderr
        assert "cannot be read as" not in result.stderr
        if words:
            assert json.loads(result.stdout)["diagnostics"][0]["code"] == "DP416"


def test_an_unforeseen_exception_on_private_data_keeps_its_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dpspec.data import sources

    def fault(*_: object, **__: object) -> None:
        raise KeyError("Jane Doe, 1980")

    (tmp_path / "r.csv").write_text("a,b,y\n" + "1,2,0\n" * 6)
    monkeypatch.setattr(sources, "_features", fault)
    result = call("run", spec(tmp_path, "r.csv"))
    assert result.code == 1
    assert "DP327" in result.stderr
    assert "KeyError" not in result.stderr  # which fault it was may tell about a record, too
    assert "Jane" not in result.stderr + result.stdout


@pytest.mark.parametrize("mu", [1e4, 1e6, 1e9, 1e200])
def test_audit_of_noise_far_too_small(mu: float, tmp_path: Path) -> None:
    """epsilon is mu^2/2 + 4.753*mu at delta 1e-6, up to a logarithm."""
    file = tmp_path / "a.yaml"
    file.write_text(
        "audit: 1\nsubject: s\nsetting: {model: central, unit: u, neighbouring: add_remove}\nclaim: {epsilon: 1, delta: 1.0e-6}\n"
        f"events:\n- {{type: gaussian, l2_sensitivity: {mu!r}, sigma: 1}}\n"
    )
    result = call("audit", str(file), "--format", "json")
    body = json.loads(result.stdout)
    assert (result.code, body["verdict"]) == (1, "violated")
    if mu < 1e150:
        found = next(v for v in _numbers(body) if v > 1000 and v != mu)
        assert found == pytest.approx(mu**2 / 2 + 4.753 * mu, rel=1e-3)


def _numbers(body: object) -> list[float]:
    if isinstance(body, dict):
        return [n for v in body.values() for n in _numbers(v)]
    if isinstance(body, list):
        return [n for v in body for n in _numbers(v)]
    return [float(body)] if isinstance(body, (int, float)) else []


@pytest.mark.parametrize("name", ["eps", "nonsense", "T"])
def test_vary_refuses_what_nobody_reads(name: str, tmp_path: Path) -> None:
    text = SPEC.replace('from "FILE" COLUMNS target "y"', "from memory").replace("private, unit person, neighbours replace-one", "public")
    text = (
        text.replace("  by dp-gd with T = 2\n", "")
        + "\nsimulate\n  theta = dense unit l2\n  x ~ sphere(1)\n  y ~ bernoulli-logistic(2*<theta, x>)\n"
    )
    file = tmp_path / "a.dps"
    file.write_text(text)
    result = call("study", str(file), "--vary", f"{name}=1,2", "--trials", "2")
    assert (result.code, "cannot be varied" in result.stderr) == (2, True)
    if name == "eps":
        assert "epsilon" in result.stderr


def test_sarif_paths_are_uris(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "my specs"
    folder.mkdir()
    (folder / "a #1%.dps").write_text('analysis "p"\n\ndata\n  n = 10\n')
    monkeypatch.chdir(tmp_path)
    body = json.loads(call("check", "my specs/a #1%.dps", "--format", "sarif").stdout)
    uris = {r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in body["runs"][0]["results"]}
    assert uris == {"my%20specs/a%20%231%25.dps"}
