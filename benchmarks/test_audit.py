"""The empirical auditor against the plain reference: Clopper-Pearson on a learned event, same runs, same pair of inputs.

As a test: time of one audit (pytest-benchmark). As a script: detection and false-alarm rates of both over the reference's own mechanisms,

    python benchmarks/test_audit.py --reference DIR --trials 100 40

DIR holds the reference (``audit.py`` with MECH and clopper_pearson). One JSON line a mechanism and size. The reference works at a nominal
level of 0.05; ours at 0.01 unless --confidence says otherwise."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from dpspec.audit.empirical import audit_pair


def svt(thresholds, queries):
    def f(q, n, rng):
        z = q + rng.laplace(0, queries, (n, len(q)))
        above = (z >= 0.5 + rng.laplace(0, thresholds, (n, 1))).astype(float)
        above[np.cumsum(above, 1) - above >= 1] = 2
        return above

    return f


@pytest.mark.parametrize("runs", [10_000, 100_000])
@pytest.mark.parametrize("kind", ["laplace", "sparse vector"])
def test_audit_pair(benchmark, kind, runs):
    rng = np.random.default_rng(0)
    if kind == "laplace":
        a, b = rng.laplace(0, 1, (runs, 1)), rng.laplace(1, 1, (runs, 1))
    else:
        f = svt(2.0, 4.0)
        a, b = f(np.array([0.0, 0, 0, 0, 1]), runs, rng), f(np.array([1.0, 1, 1, 1, 0]), runs, rng)
    found = benchmark.pedantic(lambda: audit_pair(a, b, claim=1.0), rounds=3)
    assert found.verdict == "not-certified"


def main() -> None:
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--reference", type=Path, required=True)
    ap.add_argument("--trials", type=int, nargs=2, default=(100, 40), help="at the two sizes")
    ap.add_argument("--sizes", type=int, nargs=2, default=(10_000, 100_000))
    ap.add_argument("--confidence", type=float, default=0.99)
    ap.add_argument("--mech")
    ap.add_argument("--seed", type=int, default=1, help="the choice of events was tuned on seed 0")
    args = ap.parse_args()
    sys.path.insert(0, str(args.reference))
    reference = importlib.import_module("audit")
    totals: dict[tuple[int, bool], list[tuple[float, float]]] = {}
    for name, (f, x, y, broken, kind, _) in reference.MECH.items():
        if args.mech and args.mech != name:
            continue
        for n, trials in zip(args.sizes, args.trials, strict=True):
            ours, theirs, seconds, bounds = 0, 0, [], []
            for s in range(trials):
                rng = np.random.default_rng([args.seed, s, n])
                a, b = f(x, n, rng), f(y, n, rng)
                start = time.perf_counter()
                found = audit_pair(a, b, claim=reference.EPS, confidence=args.confidence)
                seconds.append(time.perf_counter() - start)
                bounds.append(found.epsilon_lower)
                ours += found.verdict == "violated"
                theirs += bool(reference.clopper_pearson(a, b, kind)[0])
            totals.setdefault((n, broken), []).append((ours / trials, theirs / trials))
            line = {
                "mechanism": name,
                "broken": broken,
                "runs": n,
                "trials": trials,
                "ours": ours / trials,
                "clopper_pearson": theirs / trials,
            }
            print(
                json.dumps(line | {"median_bound": round(float(np.median(bounds)), 3), "seconds": round(float(np.median(seconds)), 3)}),
                flush=True,
            )
    for (n, broken), rates in sorted(totals.items()):
        what = "detection, mean over the broken" if broken else "false alarms, mean over the correct"
        print(f"{what}, {n} runs: ours {np.mean([r[0] for r in rates]):.3f}, clopper_pearson {np.mean([r[1] for r in rates]):.3f}")


if __name__ == "__main__":
    main()
