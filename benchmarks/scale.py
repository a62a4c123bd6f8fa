"""What runs take: memory and CPU seconds of releases over files of growing size, of the commands from cold, and of secure noise.

    python -m benchmarks.scale make --folder DIR [--rows 1e5,1e6,1e7,5e7] [--d 20]
    python -m benchmarks.scale files [--rows 1e5,1e6,1e7] [--d 20] [--folder DIR]
    python -m benchmarks.scale cold
    python -m benchmarks.scale noise
    python -m benchmarks.scale cells [--cells 1e5]
    python -m benchmarks.scale local [--rows 1e6] [--d 20]

Every figure is of a process of its own (its peak resident memory, user and system time by ``getrusage``), the least of three for the
commands. ``files`` compares a release with the bare pass that computes the same sums: pyarrow's batches, a float64 matrix, ``x.T @ x``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SPEC = """analysis "scale"

data
  n = {n}, d = {d}
  from "{path}" columns [{columns}]
  private, unit person, neighbours replace-one
  x in ball(l2, 1) by scale

privacy central
  epsilon = 1, delta = 1e-12

release m
  {release}
"""
LABELLED = SPEC.replace("columns [{columns}]", 'target "y" columns [{columns}]').replace(
    "by scale\n", "by scale\n  y in {{-1, 1}} by map(-1 -> -1, 1 -> 1)\n", 1
)
RELEASES = {
    "second moment (sums)": (SPEC, "estimate second-moment(x)\n  by dp-covariance-gaussian"),
    "mean (sums)": (SPEC, "estimate mean(x)\n  by dp-mean"),
    "dp-gd, T = 10 (passes)": (LABELLED, "minimise logistic over ball(l2, 1)\n  by dp-gd with T = 10"),
}
BARE = """
import sys, numpy as np
from pathlib import Path
import pyarrow.parquet as pq
total = 0.0
for file in sorted(Path(sys.argv[1]).glob("*.parquet")):
    source = pq.ParquetFile(file, pre_buffer=False, buffer_size=1 << 20)
    for batch in source.iter_batches(65536, columns=sys.argv[2].split(","), use_threads=False):
        x = np.column_stack([c.to_numpy() for c in batch.columns])
        if len(sys.argv) > 3:  # and what enforcing the domain takes at least: are the numbers finite, a norm, a product
            assert np.isfinite(x.sum())
            x *= np.minimum(1.0, 1.0 / np.sqrt(np.einsum("ij,ij->i", x, x)))[:, None]
        total = total + x.T @ x
print(np.shape(total))
"""
WATCH = """
import json, os, resource, subprocess, sys
words = json.loads(sys.argv[1])
done = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
u = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps({"code": done.returncode, "cpu": u.ru_utime + u.ru_stime, "mb": u.ru_maxrss / 1024, "said": done.stderr[-300:]}))
"""


def measured(words: list[str], root: Path = ROOT) -> dict[str, Any]:
    env = os.environ | {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "COLUMNS": "120"}
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # as an installed package starts: compiled
    env["PYTHONPYCACHEPREFIX"] = str(Path(tempfile.gettempdir()) / "dpspec-scale")
    done = subprocess.run([sys.executable, "-c", WATCH, json.dumps(words)], capture_output=True, text=True, env=env, check=True, cwd=root)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def written(folder: Path, n: int, d: int, pieces: int = 8) -> Path:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    for i in range(pieces):
        rows = n // pieces + (n % pieces if i == 0 else 0)
        with pq.ParquetWriter(str(folder / f"{i}.parquet"), pa.schema([(c, pa.float64()) for c in [*names(d), "y", "unused"]])) as writer:
            for a in range(0, rows, 1 << 17):
                k = min(1 << 17, rows - a)
                x = rng.normal(size=(k, d + 2)).round(3)
                x[:, d] = np.sign(x[:, 0]) + (x[:, 0] == 0)
                writer.write_table(pa.table({c: x[:, j] for j, c in enumerate([*names(d), "y", "unused"])}))
    return folder


def names(d: int) -> list[str]:
    return [f"c{j}" for j in range(d)]


def made(folder: Path, n: int, d: int) -> Path:
    """The records of size n in a folder of their own, written where they are not there yet; beyond 1e7 the files of 1e7, several times."""
    data, most = folder / f"records-{n}-{d}", 10_000_000
    if not data.exists():
        part = folder / f"part-{n}-{d}"
        part.mkdir(parents=True)
        if n > most and n % most == 0:
            for k in range(n // most):
                for file in made(folder, most, d).iterdir():
                    os.link(file, part / f"{k}-{file.name}")
        else:
            written(part, n, d)
        part.rename(data)
    return data


def files(sizes: list[int], d: int, root: Path, folder: Path, only: str) -> None:
    print(f"d = {d}; peak MB, CPU s")
    for n in sizes:
        data = made(folder, n, d)
        bare = measured([sys.executable, "-c", BARE, str(data), ",".join(names(d))])
        print(f"| {n:.0e} | bare pass | {bare['mb']:.0f} | {bare['cpu']:.2f} |", flush=True)
        held = measured([sys.executable, "-c", BARE, str(data), ",".join(names(d)), "scaled"])
        print(f"| {n:.0e} | bare pass with norms | {held['mb']:.0f} | {held['cpu']:.2f} |", flush=True)
        for what, (text, release) in RELEASES.items():
            if only not in what:
                continue
            spec = folder / "spec.dps"
            columns = ", ".join(f'"{c}"' for c in names(d))
            spec.write_text(text.format(n=n, d=d, path=data.name, columns=columns, release=release))
            found = measured([sys.executable, "-m", "dpspec", "run", str(spec), "--quiet"], root)
            said = "" if found["code"] == 0 else f" exit {found['code']}: {found['said']}"
            print(f"| {n:.0e} | {what} | {found['mb']:.0f} | {found['cpu']:.2f} |{said}", flush=True)


COLD = {
    "bare imports: pydantic, flint, typer": ["-c", "import pydantic, flint, typer"],
    "--version": ["-m", "dpspec", "--version"],
    "--help": ["-m", "dpspec", "--help"],
    "check of one spec": ["-m", "dpspec", "check", str(ROOT / "specs/convex_erm/dp-gd.dps")],
    "plan of a tiny spec": ["-m", "dpspec", "plan", str(ROOT / "specs/convex_erm/breast-cancer.dps")],
    "run of a tiny spec, records from scikit-learn": ["-m", "dpspec", "run", str(ROOT / "specs/convex_erm/breast-cancer.dps")],
    "run of a tiny spec, records from a file": ["-m", "dpspec", "run", "TINY"],
}
TINY = """analysis "tiny"

data
  n = 100, d = 2
  from "tiny.csv" target "y"
  private, unit person, neighbours replace-one
  x in ball(l2, 1) by scale
  y in {-1, 1} by map(-1 -> -1, 1 -> 1)

privacy central
  epsilon = 1, delta = 1e-6

release w
  minimise logistic over ball(l2, 1)
  by dp-gd
"""


def cold(root: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tiny = Path(folder) / "tiny.dps"
        tiny.write_text(TINY, encoding="utf-8")
        (Path(folder) / "tiny.csv").write_text("a,b,y\n" + "0.1,0.2,1\n0.3,-0.2,-1\n" * 50, encoding="utf-8")
        _cold(root, tiny)


def _cold(root: Path, tiny: Path) -> None:
    for what, named in COLD.items():
        words = [str(tiny) if word == "TINY" else word for word in named]
        measured([sys.executable, *words], root)
        found = min((measured([sys.executable, *words], root) for _ in range(9)), key=lambda f: f["cpu"])
        print(f"| {what} | {found['cpu']:.2f} | {found['mb']:.0f} |", flush=True)


NOISE = """
import time
import numpy as np
from dpspec.privacy.noise import SecureNoise
from dpspec.privacy.entropy import random_bytes
s = SecureNoise()
def best(work, count):
    work(); found = []
    for _ in range(5):
        t = time.process_time(); work(); found.append((time.process_time() - t) / count)
    return min(found)
print(f"| random bytes | {1e-6 / best(lambda: random_bytes(1 << 24), 1 << 24):.0f} MB/s |")
for kind in ("laplace", "gaussian"):
    draw = getattr(s, f"add_{kind}")
    big, small = np.zeros(1_000_000), np.zeros(100)
    print(f"| {kind}, a million | {best(lambda: draw(big, 1.0, sensitivity=1.0, dim=1), 10**6) * 1e9:.0f} ns a sample |")
    calls = lambda: [draw(small, 1.0, sensitivity=1.0, dim=1) for _ in range(1000)]
    print(f"| {kind}, a call of 100 | {best(calls, 1000) * 1e6:.1f} us a call |")
"""


CELLS = """analysis "cells"

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
CLUSTER = """
import time
from distributed import LocalCluster
if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        print(cluster.scheduler_address, flush=True)
        time.sleep(100000)
"""


LOCAL = """analysis "local"

data
  n = {n}, d = {d}
  rank = 2
  gap = 0.15
  from "{path}"
  private, unit person, neighbours replace-one

privacy nldp
  epsilon = 2, delta = 1e-6

assume
  eigenvalues in [0.01, 0.21] of x

release components
  estimate subspace(x, rank)
  by ldp-pca-gaussian
"""


def local(sizes: list[int], d: int, root: Path) -> None:
    """A release of ldp-pca: one report of d(d + 1)/2 noisy numbers a user."""
    import numpy as np

    with tempfile.TemporaryDirectory() as folder:
        for n in sizes:
            x = np.random.default_rng(0).normal(size=(n, d)) * 0.1
            x[:, :2] *= 4.5
            np.save(Path(folder) / "x.npy", x)
            spec = Path(folder) / "local.dps"
            spec.write_text(LOCAL.format(n=n, d=d, path="x.npy"), encoding="utf-8")
            found = measured([sys.executable, "-m", "dpspec", "run", str(spec), "--quiet"], root)
            said = "" if found["code"] == 0 else f" exit {found['code']}: {found['said']}"
            print(f"| ldp-pca-gaussian, n = {n:.0e}, d = {d} | {found['mb']:.0f} MB | {found['cpu']:.1f} s |{said}", flush=True)


def _held(process: int) -> tuple[float, float]:
    """The peak of resident memory of a process in MB, and its CPU seconds."""
    lines = Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines()
    peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    used = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return peak / 1024, sum(int(used[k]) for k in (11, 12)) / os.sysconf("SC_CLK_TCK")


#: The command line with cells of one trial, the smallest that there are.
ONE_TRIAL = "import dpspec.executor.study as s; s.TRIALS_A_CELL = 1; from dpspec.cli.main import main; main()"


def cells(count: int, root: Path) -> None:
    """A study of so many cells of one trial on twenty records, kept in a folder as they finish, on a scheduler in a process of its own with
    two worker processes; against the same cells without a scheduler."""
    env = os.environ | {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        spec, cluster = Path(folder) / "cells.dps", Path(folder) / "cluster.py"
        spec.write_text(CELLS, encoding="utf-8")
        cluster.write_text(CLUSTER, encoding="utf-8")

        def words(trials: int, *more: str) -> list[str]:
            kept = str(Path(folder) / f"{trials}-{len(more)}")
            start = [sys.executable, "-c", ONE_TRIAL, "study", str(spec), "--seed", "1", "--trials", str(trials), "--quiet", "--out", kept]
            return [*start, *more]

        with subprocess.Popen([sys.executable, str(cluster)], stdout=subprocess.PIPE, text=True, env=env) as scheduler:
            assert scheduler.stdout is not None
            address = scheduler.stdout.readline().strip()
            before, began = _held(scheduler.pid), time.monotonic()
            workers = _children(scheduler.pid)
            client = measured(words(count, "--engine", "dask", "--scheduler", address), root)
            after, took = _held(scheduler.pid), time.monotonic() - began
            computed = [_held(child) for child in workers if Path(f"/proc/{child}").exists()]
            scheduler.terminate()
        few = min(count, 500)
        alone = measured(words(few, "--workers", "1"), root)
        start = measured(words(1, "--workers", "1"), root)
    print(f"{count:.0e} cells: exit {client['code']} {client['said']}; {took:.0f} s")
    print(
        f"scheduler: {before[0]:.0f} MB at its start, {after[0]:.0f} MB at most; {(after[1] - before[1]) / count * 1e3:.2f} ms CPU a cell"
    )
    print(f"client: {client['mb']:.0f} MB at most, {(client['cpu'] - start['cpu']) / count * 1e3:.2f} ms CPU a cell")
    for mb, used in computed:
        print(f"a process below the scheduler: {mb:.0f} MB at most, {used / count * 1e3:.2f} ms CPU a cell of all")
    print(f"without a scheduler: {(alone['cpu'] - start['cpu']) / max(1, few - 1) * 1e3:.2f} ms CPU a cell")


def _children(process: int) -> list[int]:
    """What its threads have started."""
    lists = (task / "children" for task in Path(f"/proc/{process}/task").iterdir())
    return [int(child) for found in lists for child in found.read_text(encoding="utf-8").split()]


def noise(root: Path) -> None:
    env = os.environ | {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    print(subprocess.run([sys.executable, "-c", NOISE], capture_output=True, text=True, env=env, check=True).stdout)


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    ask.add_argument("what", choices=("make", "files", "cold", "noise", "cells", "local"))
    ask.add_argument("--rows", default="1e5,1e6")
    ask.add_argument("--d", type=int, default=20)
    ask.add_argument("--root", type=Path, default=ROOT, help="another checkout, to compare with")
    ask.add_argument("--folder", type=Path, help="where the records are kept; a temporary folder by default")
    ask.add_argument("--cells", default="1e5")
    ask.add_argument("--only", default="", help="only releases with this in their name")
    found = ask.parse_args()
    sizes = [int(float(v)) for v in found.rows.split(",")]
    if found.what == "make":
        for n in sizes:
            made(found.folder, n, found.d)
    elif found.what == "files":
        with tempfile.TemporaryDirectory() as folder:
            files(sizes, found.d, found.root, found.folder or Path(folder), found.only)
    elif found.what == "local":
        local(sizes, found.d, found.root)
    elif found.what == "cells":
        cells(int(float(found.cells)), found.root)
    else:
        {"cold": cold, "noise": noise}[found.what](found.root)


if __name__ == "__main__":
    main()
