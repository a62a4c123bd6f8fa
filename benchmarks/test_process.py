"""`dpspec check` as a whole process: one clean spec, and two hundred in one call."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SPECS = sorted(ROOT.glob("specs/**/*.dps"))


def wall(*command: str) -> float:
    start = time.perf_counter()
    subprocess.run(command, capture_output=True, check=False)
    return time.perf_counter() - start


@pytest.mark.benchmark(group="check")
@pytest.mark.parametrize("spec", ["specs/convex_erm/dp-gd.dps", "specs/sparse/ldp-iht.dps", "specs/convex_erm/dp-gd.dpspec.yaml"])
def test_check_one_spec(benchmark, spec: str) -> None:
    """Under 0.45 s median on the reference machine, and under 6 starts of a Python that imports NumPy anywhere."""
    command = (sys.executable, "-m", "dpspec", "check", str(ROOT / spec))
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    benchmark.pedantic(lambda: wall(*command), rounds=11, warmup_rounds=2)
    floor = statistics.median(wall(sys.executable, "-c", "import numpy") for _ in range(11))
    ratio = statistics.median(benchmark.stats.stats.data) / floor
    print(f"\n{spec}: median {statistics.median(benchmark.stats.stats.data):.3f} s, {ratio:.1f} x `import numpy`")
    assert ratio < 6


@pytest.mark.benchmark(group="check")
def test_check_two_hundred_specs(benchmark, tmp_path: Path) -> None:
    """Under 4 s in one call."""
    for i in range(200):
        source = SPECS[i % len(SPECS)]
        (tmp_path / f"{i:03}-{source.name}").write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    command = (sys.executable, "-m", "dpspec", "check", str(tmp_path), "-q")
    benchmark.pedantic(lambda: wall(*command), rounds=3, warmup_rounds=1)
    floor = statistics.median(wall(sys.executable, "-c", "import numpy") for _ in range(11))
    print(f"\n200 specs: median {statistics.median(benchmark.stats.stats.data):.2f} s")
    assert statistics.median(benchmark.stats.stats.data) / floor < 50
