"""A trial of nldp-sparse-linear-regression at n = 1e6, d = 20 against its limit: drawing the data and forming the clipped moments.

Both sides run in this process on one thread, in turn; the assertion is on the ratio of medians. Memory is the peak of a fresh process.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

import numpy as np
import pytest

from dpspec.compiler.passes import compile_draft
from dpspec.executor.design import design
from dpspec.executor.trial import Cell, execute
from dpspec.lang.source import Parsed, parse_text

N, D, R, TAU = 1_000_000, 20, 8.0, 5.0

SPEC = """\
analysis "throughput"

data
  n = 1_000_000, d = 20
  private, unit person, neighbours replace-one

privacy nldp
  epsilon = 1, delta = 1e-6

assume
  sparse(2)
  sub-gaussian(1) of x
  sub-gaussian(1) of y

release theta
  estimate theta in y = <theta, x> + noise
  by nldp-sparse-linear-regression with r = 8, tau2 = 5

simulate
  theta = sparse(2) unit l2
  x ~ normal(0, I)
  y = <theta, x> + normal(0, 0.25)
"""


def limit(seed: int) -> np.ndarray:
    """Bare NumPy: draw x and y in cache-sized blocks, clip, accumulate both moments."""
    rng = np.random.Generator(np.random.PCG64DXSM(seed))
    theta = np.zeros(D)
    theta[:2] = 0.5**0.5
    moment, cross = np.zeros((D, D)), np.zeros(D)
    rows = 8192
    x = np.empty((rows, D))
    for start in range(0, N, rows):
        block = x[: min(rows, N - start)]
        rng.standard_normal(out=block)
        y = block @ theta + 0.5 * rng.standard_normal(len(block))
        factor = np.minimum(1.0, R / np.sqrt(np.einsum("ij,ij->i", block, block)))
        block *= factor[:, None]
        np.clip(y, -TAU, TAU, out=y)
        moment += block.T @ block
        cross += y @ block
    return np.linalg.solve(moment / N, cross / N)


def cell() -> Cell:
    parsed: Parsed = parse_text(SPEC, surface="dps")
    assert not [d for d in compile_draft(parsed).diagnostics if d.severity == "error"]
    point = design(parsed, trials=1, seed=3, vary={}, compare=(), quick=False).points[0]
    return Cell(point, 3, 0, 1)


@pytest.mark.benchmark(group="local study")
def test_throughput(benchmark) -> None:
    from dpspec.executor import trial

    c = cell()
    execute(c)
    keep = trial._reference
    trial._reference = lambda *_: (None, None)  # the limit fits no reference either
    try:
        ours, theirs = [], []
        for seed in range(5):
            start = time.perf_counter()
            limit(seed)
            theirs.append(time.perf_counter() - start)
            start = time.perf_counter()
            execute(c)
            ours.append(time.perf_counter() - start)
        benchmark.pedantic(lambda: execute(c), rounds=1)
    finally:
        trial._reference = keep
    ratio = statistics.median(theirs) / statistics.median(ours)
    print(f"\nthroughput {ratio:.2f} of the limit ({statistics.median(ours):.2f} s a trial, limit {statistics.median(theirs):.2f} s)")
    assert ratio >= 0.75


def test_peak_memory() -> None:
    code = (
        "import resource\n"
        "from benchmarks.test_local_study import cell\n"
        "from dpspec.executor.trial import execute\n"
        "execute(cell())\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    peak = int(out.stdout) / 1024
    print(f"\npeak memory {peak:.0f} MiB")
    assert peak < 1000
