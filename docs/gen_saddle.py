"""Runs specs/nonconvex_erm/saddle-escape.dps at several numbers of steps and draws docs/algorithms/saddle-escape.svg:
``python docs/gen_saddle.py [TRIALS]``.

A run has escaped where the least eigenvalue of the Hessian on its records is at least -EIGENVALUE (at w = 0 it is about -3). Gradient
steps without noise are beside the private methods; numbers go to docs/algorithms/saddle-escape.json, from which the page's test reads.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from dpspec.compiler.passes import compile_draft
from dpspec.data.laws import Simulation
from dpspec.executor.bind import bound_problem, enforced
from dpspec.lang.source import parse_text
from dpspec.measures.second_order import negative_curvature
from dpspec.privacy.meter import Release
from dpspec.privacy.noise import PublicRandomness, StudyNoise

ROOT: Final = Path(__file__).resolve().parents[1]
SPEC: Final = ROOT / "specs" / "nonconvex_erm" / "saddle-escape.dps"
OUT: Final = ROOT / "docs" / "algorithms" / "saddle-escape"
STEPS: Final = (5, 10, 20, 40, 80)
EIGENVALUE: Final = 0.1
METHODS: Final = {
    "dp-tr": "dp-tr with T = {T}",
    "dp-gd-sosp": "dp-gd-sosp with T = {T}, K = 5",
    "dp-pgd-nonconvex, last": "dp-pgd-nonconvex with T = {T}, output = last, fall = 1",
}


def records(draft: Any, trial: int) -> Any:
    drawn, _ = Simulation(draft.analysis.simulate, draft.facts).trial(1, trial)
    return enforced(draft, drawn)[0]


def shares(trials: int) -> dict[str, list[float]]:
    """By method the share of runs that escaped, for each number of steps."""
    text = SPEC.read_text(encoding="utf-8")
    found: dict[str, list[float]] = {"gradient steps without noise": [], **{name: [] for name in METHODS}}
    for T in STEPS:
        for name, by in METHODS.items():
            draft = compile_draft(parse_text(text.replace("dp-tr with T = 10", by.format(T=T)), surface="dps"))
            (release,) = draft.releases
            problem, away = bound_problem(draft, release), 0
            for trial in range(trials):
                data = records(draft, trial)
                meter = Release(release.calibrated, StudyNoise(trial), mode="study", public=PublicRandomness(trial))
                w = release.module.run(data, problem, release.tunables, meter).theta
                meter.close()
                away += negative_curvature(w, SimpleNamespace(problem=problem, records=data)) <= EIGENVALUE  # type: ignore[arg-type]
            found[name].append(away / trials)
        assert problem.loss is not None
        w, data = np.zeros(problem.d), records(draft, 0)
        for _ in range(T):
            w = w - problem.objective.gradient(w, data) / problem.loss.smooth
        gone = negative_curvature(w, SimpleNamespace(problem=problem, records=data)) <= EIGENVALUE  # type: ignore[arg-type]
        found["gradient steps without noise"].append(float(gone))
    return found


def draw(found: dict[str, list[float]], trials: int) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "saddle"
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(5.5, 3.0))
    for (name, values), marker in zip(found.items(), "xsov", strict=True):
        axes.plot(STEPS, values, marker=marker, label=name, linestyle=":" if "without" in name else "-")
    axes.set_xscale("log", base=2)
    axes.set_xticks(STEPS, [str(T) for T in STEPS])
    axes.set_xlabel("steps T, at the same budget")
    axes.set_ylabel(f"share of {trials} runs")
    axes.set_title("runs that end beyond the saddle point", fontsize=10)
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(OUT.with_suffix(".svg"), metadata={"Date": None})


def main(words: list[str]) -> None:
    trials = int(words[0]) if words else 10
    found = shares(trials)
    body = {"spec": SPEC.name, "trials": trials, "steps": list(STEPS), "eigenvalue": EIGENVALUE, "shares": found}
    OUT.with_suffix(".json").write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")
    draw(found, trials)


if __name__ == "__main__":
    main(sys.argv[1:])
