"""The files that a spec names: found beside the spec, told apart from the private one before a record is read, and part of the plan.

A private row that gets into a release through a public file is covered by no draw; what was reviewed for one content must not run with
another; and a spec is data, so reading it reaches for nothing but files of this machine.
"""

from __future__ import annotations

import ast
import gzip
import hashlib
import json
import os
import pickle
import shutil
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpspec as dp
from dpspec.compiler.plan import digest as hashed
from dpspec.compiler.plan import meaning, release_json
from dpspec.data import files
from dpspec.data.files import numbers as vertices
from dpspec.data.sources import load
from dpspec.spec.diagnostics import SpecError
from dpspec.spec.model import CsvSource, Data
from tests.cli.call import call

N = 20
POLYTOPE = """analysis "over a polytope"

data
  n = 20, d = 2
  from "rows.csv" target "y"
  private, unit person, neighbours replace-one
  x in ball(l2, 1) by scale
  y in {-1, 1} by map(0 -> -1, 1 -> 1)

privacy central
  epsilon = 1, delta = 1e-6

release a
  minimise logistic over polytope("PUBLIC")
  by dp-frank-wolfe with T = 3
"""
RECORDS = """analysis "with public records"

data
  n = 20, d = 2
  from "rows.csv" target "y"
  private, unit person, neighbours replace-one

privacy nldp
  with public x (m = 20, path "PUBLIC")
  epsilon = 1, delta = 1e-4

assume
  sparse(1)
  sub-gaussian(1) of x
  sub-gaussian(1.2) of y

release a
  estimate theta in y = <theta, x> + noise
  by nldp-sparse-linear-regression-public
"""
SPECS = {"polytope": POLYTOPE, "public records": RECORDS}
CORNERS = "0,0\n1,0\n0,1\n"
#: What no message may hold: cells of the private file.
SECRET = "0.73731"
both = pytest.mark.parametrize("kind", SPECS)


def rows(shift: float = 0.0) -> str:
    return "a,b,y\n" + "".join(f"{i / N + shift},{SECRET if i == 3 else 1 - i / N},{i % 2}\n" for i in range(N))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rows.csv").write_text(rows())
    (tmp_path / "corners.csv").write_text(CORNERS)
    (tmp_path / "others.csv").write_text(rows(0.01).replace(SECRET, "0.5"))
    return tmp_path


def public(kind: str) -> str:
    return "corners.csv" if kind == "polytope" else "others.csv"


def written(folder: Path, kind: str, name: str, file: str = "spec.dps") -> Path:
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(SPECS[kind].replace("PUBLIC", name))
    return path


def refused(spec: Path, code: str, command: str = "run", *more: str) -> str:
    result = call(command, str(spec), *more)
    said = result.stdout + result.stderr
    assert result.code in (1, 2), said
    assert code in said
    assert SECRET not in said
    return said


# ------------------------------------------------------------------------------------------------- the private file itself


def link(f: Path) -> str:
    (f / "link.csv").symlink_to("rows.csv")
    return "link.csv"


def link_of_a_link(f: Path) -> str:
    link(f)
    (f / "again.csv").symlink_to(f / "link.csv")
    return "again.csv"


def linked_folder(f: Path) -> str:
    (f / "there").symlink_to(f, target_is_directory=True)
    return "there/rows.csv"


def hard(f: Path) -> str:
    os.link(f / "rows.csv", f / "hard.csv")
    return "hard.csv"


def copied(name: str) -> Any:
    def copy(f: Path) -> str:
        (f / name).parent.mkdir(exist_ok=True)
        shutil.copy(f / "rows.csv", f / name)
        return name

    return copy


WAYS = {
    "its name": lambda f: "rows.csv",
    "a longer way to it": lambda f: f"../{f.name}/./rows.csv",
    "its absolute path": lambda f: str(f / "rows.csv"),
    "a symbolic link": link,
    "a link of a link": link_of_a_link,
    "a linked folder": linked_folder,
    "a hard link": hard,
    "a copy": copied("copy.csv"),
    "a copy with another ending": copied("copy.txt"),
    "a copy without one": copied("copy"),
    "a copy in another folder": copied("more/others.csv"),
}


@both
@pytest.mark.parametrize("way", WAYS)
def test_the_private_file_is_no_public_one(folder: Path, kind: str, way: str) -> None:
    spec = written(folder, kind, WAYS[way](folder))
    for command in ("check", "plan", "run"):
        refused(spec, "DP518", command)


@both
def test_it_is_refused_when_it_is_not_there_yet(folder: Path, kind: str) -> None:
    (folder / "rows.csv").unlink()
    refused(written(folder, kind, "rows.csv"), "DP518", "check")


@both
def test_the_file_that_data_names_is_told_too(folder: Path, kind: str) -> None:
    """The plan is clean; the run is asked to read the public file as the private one, by a link and by a copy."""
    spec = written(folder, kind, public(kind))
    assert call("plan", str(spec), "-q").code == 0
    (folder / "link.csv").symlink_to(public(kind))
    shutil.copy(folder / public(kind), folder / "copy.csv")
    for name in (public(kind), "link.csv", "copy.csv"):
        refused(spec, "DP518", "run", "--data", str(folder / name))


@both
def test_a_public_file_that_becomes_the_private_one_after_the_plan(folder: Path, kind: str) -> None:
    plan = dp.plan(written(folder, kind, public(kind)))
    shutil.copy(folder / public(kind), folder / "rows.csv")
    with pytest.raises(SpecError, match="DP518"):
        plan.run()


@both
def test_public_data_may_be_public_twice(folder: Path, kind: str) -> None:
    text = SPECS[kind].replace("PUBLIC", "rows.csv").replace("private,", "public,")
    (folder / "spec.dps").write_text(text)
    assert "DP518" not in call("check", str(folder / "spec.dps")).stdout


def test_a_set_of_vertices_is_pointed_out_whatever_the_records_are(folder: Path) -> None:
    """The vertices may be a copy of private columns: that cannot be told without comparing records, so every plan says it."""
    spec = written(folder, "polytope", "corners.csv")
    assert "DP519" in call("check", str(spec)).stdout
    (folder / "corners.csv").write_text("\n".join(line.rpartition(",")[0] for line in rows().split("\n")[1:]))
    assert "DP519" in call("check", str(spec)).stdout
    ran = call("run", str(spec))
    assert ran.code == 0
    assert "DP519" in ran.stderr
    assert "DP519" not in call("run", str(spec), "-q").stderr


# ------------------------------------------------------------------------------------------------------ content in the plan


@both
def test_the_content_of_public_files_is_in_the_plan_and_of_private_ones_is_not(folder: Path, kind: str) -> None:
    spec = written(folder, kind, public(kind))
    raw = (folder / public(kind)).read_bytes()
    body = dp.plan(spec).to_json()
    role = "vertices" if kind == "polytope" else kind
    assert body["files"] == [
        {"role": "private data", "path": "rows.csv"},
        {"role": role, "path": public(kind), "sha256": hashlib.sha256(raw).hexdigest(), "bytes": len(raw)},
    ]
    (folder / "rows.csv").write_text(rows(0.25))  # other records: the same plan, to the last byte of it
    assert dp.plan(spec).to_json() == body
    (folder / "rows.csv").unlink()
    assert dp.plan(spec).to_json() == body


@both
def test_another_content_is_another_plan(folder: Path, kind: str) -> None:
    spec = written(folder, kind, public(kind))
    stored = folder / "plan.json"
    assert call("plan", str(spec), "--out", str(stored), "-q").code == 0
    assert call("plan", str(spec), "--against", str(stored), "-q").code == 0
    before = dp.plan(spec).sha256
    file = folder / public(kind)
    old = file.read_text()
    file.write_text(old.replace("0,1\n", "0,-1\n") if kind == "polytope" else old.replace("0.5,", "0.6,"))  # as many bytes, or nearly
    assert file.read_text() != old
    changed = call("plan", str(spec), "--against", str(stored), "-q")
    assert changed.code == 1
    assert "DP420" in changed.stderr
    assert dp.plan(spec).sha256 != before
    file.write_text(old)
    assert dp.plan(spec).sha256 == before


@both
def test_a_plan_does_not_run_with_another_content(folder: Path, kind: str) -> None:
    plan = dp.plan(written(folder, kind, public(kind)))
    file = folder / public(kind)
    stamp = file.stat()
    text = file.read_text()
    file.write_text(text[:-2] + ("2\n" if text[-2] != "2" else "3\n"))
    os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))  # same size, same time
    with pytest.raises(SpecError, match="DP524"):
        plan.run()
    file.unlink()
    with pytest.raises(SpecError, match="DP501"):
        plan.run()


def test_the_released_points_are_those_of_the_planned_vertices(folder: Path) -> None:
    """Far from each other, so that a mixture tells which ones it was made of."""
    (folder / "corners.csv").write_text("7,7\n8,7\n")
    theta = dp.plan(written(folder, "polytope", "corners.csv")).run().outputs["a"]["theta"]
    assert 7 <= theta[0] <= 8
    assert theta[1] == pytest.approx(7)


def test_a_plan_without_public_files_hashes_as_before(folder: Path) -> None:
    text = POLYTOPE.replace('polytope("PUBLIC")', "ball(l1, 1)")
    for source in ('from "rows.csv" target "y"', 'from memory target "y"', "k = 1"):
        plan = dp.plan(dp.loads(text.replace('from "rows.csv" target "y"', source), path=str(folder / "spec.dps")))
        parts = {
            "analysis": meaning(plan.analysis),
            "guarantee": plan.guarantee.to_json(),
            "releases": [release_json(r) for r in plan.releases],
        }
        assert plan.sha256 == hashed(parts)


def test_public_data_are_hashed_where_they_are(folder: Path) -> None:
    text = POLYTOPE.replace('polytope("PUBLIC")', "ball(l1, 1)").replace("private,", "public,")
    (folder / "spec.dps").write_text(text)
    one = dp.plan(folder / "spec.dps")
    assert one.to_json()["files"][0]["sha256"] == hashlib.sha256((folder / "rows.csv").read_bytes()).hexdigest()
    (folder / "rows.csv").write_text(rows(0.3))
    assert dp.plan(folder / "spec.dps").sha256 != one.sha256
    (folder / "rows.csv").unlink()
    assert dp.plan(folder / "spec.dps").to_json()["files"] == [{"role": "public data", "path": "rows.csv", "sha256": None, "bytes": None}]


def test_a_study_does_not_take_the_cells_of_other_vertices(folder: Path) -> None:
    text = POLYTOPE.replace("PUBLIC", "corners.csv") + "\nsimulate\n  x ~ normal(0, I), y ~ rademacher\n\nstudy\n  trials 2, seed 1\n"
    (folder / "spec.dps").write_text(text)
    first = dp.study(folder / "spec.dps", out=folder / "out", workers=1)
    again = dp.study(folder / "spec.dps", out=folder / "out", workers=1)
    assert len(list((folder / "out" / "cells").iterdir())) == 1
    (folder / "corners.csv").write_text("5,5\n6,5\n")
    other = dp.study(folder / "spec.dps", out=folder / "out", workers=1)
    assert len(list((folder / "out" / "cells").iterdir())) == 2
    errors = [s.body["points"][0]["error"]["mean"] for s in (first, again, other)]
    assert errors[0] == errors[1] != errors[2]


# --------------------------------------------------------------------------------------------------- where files are sought


@both
def test_names_are_relative_to_the_folder_of_the_spec(folder: Path, kind: str, monkeypatch: Any, tmp_path_factory: Any) -> None:
    spec = written(folder, kind, f"deep/{public(kind)}", "specs/spec.dps")
    (folder / "specs" / "deep").mkdir()
    shutil.copy(folder / public(kind), folder / "specs" / "deep" / public(kind))
    shutil.copy(folder / "rows.csv", folder / "specs" / "rows.csv")
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "deep").mkdir()
    (elsewhere / "deep" / public(kind)).write_text("words\n")  # a decoy
    monkeypatch.chdir(elsewhere)
    assert call("run", str(spec)).code == 0
    (folder / "specs" / "deep" / public(kind)).unlink()
    refused(spec, "DP501")


ADDRESSES = (
    "http://127.0.0.1:9/v.csv", "https://host/v.csv", "ftp://host/v.csv", "s3://bucket/v.csv", "gs://bucket/v.csv", "file:///etc/hostname",
    "hdfs://host/v.csv", "HTTP://host/v.csv", "zip://v.zip/v.csv", r"\\\\host\\share\\v.csv", "//host/share/v.csv",
)  # fmt: skip


@pytest.mark.parametrize("name", ADDRESSES)
def test_an_address_is_no_path(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = offline(monkeypatch)
    monkeypatch.chdir(folder)
    for kind in SPECS:
        for command in ("check", "plan", "run"):
            assert "nothing is fetched" in refused(written(folder, kind, name), "DP501", command)
    spec = folder / "source.dps"
    spec.write_text(POLYTOPE.replace("PUBLIC", "corners.csv").replace("rows.csv", name))
    refused(spec, "DP501", "plan")
    refused(written(folder, "polytope", "corners.csv"), "DP501", "run", "--data", name.replace("\\\\", "\\"))
    assert asked == []


def offline(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every try to reach another machine is kept, and fails."""
    asked: list[Any] = []

    def refuse(*args: Any, **options: Any) -> Any:
        asked.append(args)
        raise OSError("no network")

    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse, raising=False)
    for name in ("getaddrinfo", "gethostbyname", "create_connection"):
        monkeypatch.setattr(socket, name, refuse)
    return asked


GALLERY = Path(__file__).resolve().parents[2] / "specs"


SOME = ("dp-gd", "dp-frank-wolfe", "breast-cancer", "nldp-sparse-linear-regression-public", "dp-covariance-gaussian")


@pytest.mark.parametrize("name", SOME)
def test_nothing_of_the_gallery_reaches_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (spec,) = GALLERY.rglob(f"{name}.dps")
    asked = offline(monkeypatch)
    assert call("check", str(spec)).code == 0
    assert call("plan", str(spec), "-q").code == 0
    assert asked == []


@both
def test_nothing_of_a_run_reaches_out(folder: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = offline(monkeypatch)
    assert call("run", str(written(folder, kind, public(kind)))).code == 0
    assert asked == []


def test_a_folder_that_reads_like_a_scheme_is_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that was given "s3:/rows.parquet" would ask a cloud for it; ours gives it the open file."""
    import pyarrow as pa
    from pyarrow import feather
    from pyarrow import parquet as pq

    asked = offline(monkeypatch)
    base = tmp_path / "s3:"
    base.mkdir()
    table = pa.table({"a": [1.0, 2.0], "y": [0.0, 1.0]})
    pq.write_table(table, str(base / "rows.parquet"), filesystem=pa.fs.LocalFileSystem())
    with (base / "rows.arrow").open("wb") as f:
        feather.write_feather(table, f)
    np.save(base / "rows.npy", np.eye(2))
    (base / "rows.csv").write_text("a,y\n1,0\n2,1\n")
    monkeypatch.chdir(tmp_path)
    for name, target in (("rows.parquet", "y"), ("rows.arrow", "y"), ("rows.csv", "y"), ("rows.npy", "2")):
        data = Data(source=CsvSource(path=name, target=target), status="public")
        assert load(data, base_dir="s3:").records.n == 2
    assert asked == []


def test_libsvm_text_is_not_decompressed_by_its_name(tmp_path: Path) -> None:
    """A file whose name ends like an archive is read as what it says, or refused."""
    text, d = b"1 1:0.5\n-1 2:1\n", dp.loads(POLYTOPE).analysis.data.d
    (tmp_path / "a.svm").write_bytes(text)
    assert load(Data(source=CsvSource(path="a.svm"), status="public", d=d), base_dir=tmp_path).records.n == 2
    for name, raw in (("b.gz", gzip.compress(text)), ("c.svm", gzip.compress(text))):
        (tmp_path / name).write_bytes(raw)
        data = Data(source=CsvSource(path=name), status="public", d=d)
        with pytest.raises(SpecError, match="DP502"):
            load(data, base_dir=tmp_path)
    (tmp_path / "d.gz").write_bytes(text)  # what is inside counts, as for a9a
    data = Data(source=CsvSource(path="d.gz"), status="public", d=d)
    assert load(data, base_dir=tmp_path).records.n == 2


class Bomb:
    def __reduce__(self) -> Any:
        return os.mkdir, ("pickled",)


def test_nothing_is_unpickled(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    np.save(folder / "rows.npy", np.array([Bomb(), 1], dtype=object), allow_pickle=True)
    np.savez(folder / "rows.npz", x=np.array([Bomb(), 1], dtype=object))
    (folder / "plain.npy").write_bytes(pickle.dumps(Bomb()))
    for name in ("rows.npy", "rows.npz", "plain.npy"):
        with pytest.raises(SpecError, match="DP502"):
            load(Data(source=CsvSource(path=name), status="public"))
        assert call("check", str(written(folder, "polytope", name))).code == 1
    assert not (folder / "pickled").exists()


def test_public_records_that_come_twice_are_refused(folder: Path) -> None:
    """The plan holds the content of the named file; an array beside the records would run in its place."""
    plan = dp.plan(written(folder, "public records", "others.csv"))
    x, y, own = np.ones((N, 2)), np.zeros(N), np.eye(2)
    with pytest.raises(SpecError, match="DP515"):
        plan.run({"x": x, "y": y, "public_x": own})
    np.savez(folder / "rows.npz", x=x, y=y, public_x=own)
    with pytest.raises(SpecError, match="DP515"):
        plan.run(data_file=folder / "rows.npz")
    assert plan.run({"x": x, "y": y}).outputs["a"]["theta"].shape == (2,)


@both
def test_a_file_of_the_kernel_that_says_it_is_empty_is_not_read(folder: Path, kind: str) -> None:
    (folder / "none.csv").write_text("")
    for name in ("none.csv", *(["/proc/version"] if Path("/proc/version").exists() else [])):
        refused(written(folder, kind, name), "DP509", "check")


def test_a_long_cell_is_refused_at_once(folder: Path) -> None:
    (folder / "corners.csv").write_text("1" * 2_000_000 + "x,0\n")
    refused(written(folder, "polytope", "corners.csv"), "DP502", "check")


@both
def test_a_pipe_or_a_device_is_not_waited_for(folder: Path, kind: str) -> None:
    os.mkfifo(folder / "pipe.csv")
    for name in ("pipe.csv", "/dev/zero", "."):
        refused(written(folder, kind, name), "DP501", "check")
    refused(written(folder, kind, public(kind)), "DP501", "run", "--data", str(folder / "pipe.csv"))


FORBIDDEN = {"loadtxt", "genfromtxt", "fromregex", "fromfile", "DataSource", "urlopen", "urlretrieve", "fetch_openml", "read_sql"}
SOURCE = Path(files.__file__).resolve().parents[1]


def test_no_reader_that_fetches_unpacks_or_unpickles_is_called() -> None:
    """np.loadtxt, genfromtxt and fromregex open addresses and archives; a name that is given to pyarrow or scikit-learn may be one."""
    found = []
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in FORBIDDEN:
                found.append(f"{path.name}: {name}")
            if name in ("read_csv", "read_table", "load_svmlight_file") and isinstance(node.args[0], ast.Call):
                found.append(f"{path.name}: {name} of a name")
            if name == "load" and ast.unparse(node.func) == "np.load":
                assert any(k.arg == "allow_pickle" and ast.unparse(k.value) == "False" for k in node.keywords), path
    assert found == []


# ------------------------------------------------------------------------------------------------------------- the vertices


def test_vertices_are_read_as_numbers(tmp_path: Path) -> None:
    path = tmp_path / "v.csv"
    path.write_bytes("\ufeff# corners\r\n\r\n 1, -2.5e-1 \r\n+.5,3. # the last\r\n".encode())
    assert vertices(path)[0] == ((1.0, -0.25), (0.5, 3.0))
    assert vertices(path, 2)[1] == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (f"a,b\n{SECRET},0\n", "DP502"),
        (f"0,0\n{SECRET},no\n", "DP502"),
        (f"0,{SECRET},nan\n", "DP502"),
        ("inf,0\n", "DP502"),
        ("1e999,0\n", "DP502"),
        ("1_0,0\n", "DP502"),
        ("0x1,0\n", "DP502"),
        ("١,0\n", "DP502"),
        (f"{SECRET},0\n1\n", "DP508"),
        (f"{SECRET},0,0\n", "DP508"),
        (f"{SECRET} 0\n", "DP502"),
        ("", "DP509"),
        ("# nothing\n", "DP509"),
    ],
)
def test_what_is_no_list_of_vertices_is_refused_without_a_cell(folder: Path, text: str, code: str) -> None:
    (folder / "corners.csv").write_text(text)
    for command in ("check", "plan", "run"):
        refused(written(folder, "polytope", "corners.csv"), code, command)


def test_bytes_that_are_no_text_and_files_without_end(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = written(folder, "polytope", "corners.csv")
    (folder / "corners.csv").write_bytes(gzip.compress(CORNERS.encode()))
    refused(spec, "DP502", "check")
    (folder / "corners.csv").write_text(CORNERS)
    monkeypatch.setattr(files, "MOST_BYTES", 8)
    assert "MiB" in refused(spec, "DP502", "check")


def test_a_set_of_records_may_be_a_polytope_too(folder: Path) -> None:
    """It is only declared, but its file is one that the spec names."""
    text = POLYTOPE.replace('polytope("PUBLIC")', "ball(l1, 1)").replace("x in ball(l2, 1) by scale", 'x in polytope("rows.csv")')
    (folder / "spec.dps").write_text(text)
    refused(folder / "spec.dps", "DP518", "check")


def test_a_spec_is_planned_at_other_sizes_with_the_same_files(folder: Path) -> None:
    """The search for the least n compiles again and again."""
    text = POLYTOPE.replace("PUBLIC", "corners.csv") + "  expect excess-empirical-risk <= 0.9\n"
    (folder / "spec.dps").write_text(text)
    (found,) = json.loads(call("check", str(folder / "spec.dps"), "--format", "json").stdout)["files"]
    assert {"DP402", "DP519"} >= {d["code"] for d in found["diagnostics"] if d["severity"] != "info"}
