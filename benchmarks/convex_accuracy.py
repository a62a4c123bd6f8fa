"""Excess empirical risk of our private logistic regression, in the protocol of benchmarks/convex_data.py; the peers: benchmarks/peers.

    python -m benchmarks.convex_accuracy DATA_DIR [ALGORITHM...] [--out FILE]

``auto`` is what ``by auto`` chooses. Nothing is tuned: every default follows from public numbers. One JSON line a cell; cells that
FILE holds are skipped, so delete the file after a change of an algorithm.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks import convex_data
from benchmarks.convex_data import DELTA, LAM, Problem, Results


def spec(p: Problem, epsilon: float, algorithm: str) -> str:
    return f"""analysis "benchmark"

data
  n = {p.n}, d = {p.d}
  from memory
  private, unit person, neighbours replace-one
  x in ball(l2, 1) by scale
  y in {{-1, 1}} by map(0 -> -1, 1 -> 1)

privacy central
  epsilon = {epsilon}, delta = {DELTA:.6f}

release weights
  minimise log(1 + exp(-y*<w, x>)) + {LAM}/2*|w|^2
  by {algorithm}
"""


def measured(p: Problem, method: str, epsilon: float, algorithm: str, runs: int) -> dict[str, Any]:
    """One cell: ``runs`` seeded study runs of the plan."""
    from dpspec.compiler.passes import compile_draft
    from dpspec.data.records import Records
    from dpspec.executor.bind import bound_problem
    from dpspec.lang.source import parse_text
    from dpspec.privacy.meter import Release
    from dpspec.privacy.noise import StudyNoise

    started = time.process_time()
    draft = compile_draft(parse_text(spec(p, epsilon, algorithm), surface="dps"))
    planned = time.process_time() - started
    (release,) = draft.releases
    problem, records = bound_problem(draft, release), Records(p.x, p.y)
    errors, seconds = [], []
    for seed in range(runs):
        meter = Release(release.calibrated, StudyNoise(seed), mode="study")
        started = time.process_time()
        w = release.module.run(records, problem, release.tunables, meter).theta
        seconds.append(time.process_time() - started)
        meter.close()
        errors.append(float(p.excess(w)))
    return convex_data.row(
        p,
        method,
        epsilon,
        errors,
        seconds,
        side="dpspec",
        relation="replace-one",
        guarantee=f"(eps, {DELTA:g})",
        tuned=False,
        chosen=release.module.CARD.id,
        plan_seconds=planned,
        versions=convex_data.versions("dpspec", "numpy", "scipy"),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder with adult.csv and a9a")
    parser.add_argument("algorithms", nargs="*", default=["auto", "dp-gd", "objective-perturbation"])
    parser.add_argument("--out", type=Path, help="file of JSON lines to append to; without it, standard output")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--data", nargs="+", choices=sorted(convex_data.LOADERS), default=sorted(convex_data.LOADERS, reverse=True))
    parser.add_argument("--eps", nargs="+", type=float, default=list(convex_data.EPSILONS))
    args = parser.parse_args()
    results = Results(args.out)
    problems = {name: convex_data.problem(name, args.folder) for name in args.data}
    for algorithm in args.algorithms:
        method = "dpspec, by auto" if algorithm == "auto" else f"dpspec, {algorithm}"
        for name, p in problems.items():
            for epsilon in args.eps:
                if not results.has(name, method, epsilon):
                    cell = measured(p, method, epsilon, algorithm, args.runs)
                    results.add(cell)
                    print(
                        f"{name}  eps {epsilon:g}  {method} ({cell['chosen']}): {cell['excess_mean']:.3g}  {cell['seconds']:.3g} s a run",
                        file=sys.stderr,
                        flush=True,
                    )


if __name__ == "__main__":
    main()
