"""Defaults of the latent family against the best of a grid that knows the truth, three laws each: `python -m benchmarks.latent_defaults`.

The grid takes each algorithm's scale (s or G) by factors of 1/4 to 4 and its rounds T by factors of 1/2 and 2; the best mean error of the
grid is what tuning by hand could reach, without paying for it. Errors are up to sign, or up to the order of components.
"""

from __future__ import annotations

import itertools
import sys
from typing import Final

import numpy as np

from dpspec.executor.study import study
from dpspec.lang.source import parse_text

OPPOSITE: Final = {
    "gmm(2), normal": ("gmm(2)", "x ~ gmm(theta, 0.25)"),
    "mixture-of-regressions(2)": ("mixture-of-regressions(2)", "x ~ normal(0, I)\n  y = rademacher*<x, theta> + normal(0, 0.25)"),
    "gmm(2), t(3) noise": ("gmm(2)", "x ~ mixture(0.5, theta + 0.29*student-t(3), 0.5, -1*theta + 0.29*student-t(3))"),
}
SEVERAL: Final = {
    "gmm(3), normal": (3, ["theta1 + normal(0, 0.5)", "theta2 + normal(0, 0.25)", "theta3 + normal(0, 0.25)"]),
    "gmm(3), unequal": (3, ["theta1 + normal(0, 1)", "theta2 + normal(0, 0.04)", "theta3 + normal(0, 0.25)"]),
    "gmm(3), t(3)": (3, ["theta1 + 0.4*student-t(3)", "theta2 + 0.4*student-t(3)", "theta3 + 0.4*student-t(3)"]),
}
SCALES: Final = {
    "dp-gradient-em-full": "s",
    "dp-gradient-em-clipped": "G",
    "dp-gradient-em-split": "s",
    "ldp-gradient-em": "s",
    "dp-em": "s",
}


def spec(algorithm: str, law: str, options: str, trials: int) -> str:
    local = algorithm.startswith("ldp")
    n = 200_000 if local else 20_000
    by = f"{algorithm}{' with ' + options if options else ''}"
    privacy = "sldp\n  epsilon = 2" if local else "central\n  epsilon = 1, delta = 1/n^1.1"
    if law in OPPOSITE:
        model, laws = OPPOSITE[law]
        data, assume, truth = "d = 5\n  sigma = 0.5", "assume\n  signal-to-noise(3)", "theta = 1.5*direction"
    else:
        k, parts = SEVERAL[law]
        model, weights = f"gmm({k})", [0.5, 0.3, 0.2]
        data, assume = "d = 3\n  sigma = 1", ""
        truth = "theta1 = 4*direction\n  theta2 = -4*direction\n  theta3 = 0*direction"
        laws = "x ~ mixture(" + ", ".join(f"{w}, {part}" for w, part in zip(weights, parts, strict=True)) + ")"
    domain = "" if law in OPPOSITE else "\n  x in ball(l2, 7) by scale"
    return f"""
analysis "defaults"
data
  n = {n}, {data}
  from memory
  private, unit person, neighbours replace-one{domain}
privacy {privacy}
{assume}
release centre
  fit {model}
  by {by}
simulate
  direction = dense unit l2
  {truth}
  {laws}
study
  trials {trials}, seed 5
"""


def error(algorithm: str, law: str, options: str, trials: int) -> float:
    (point,) = study(parse_text(spec(algorithm, law, options, trials), surface="dps")).to_json()["points"]
    return float(point["error"]["mean"])


def values(algorithm: str, law: str) -> tuple[float, int]:
    from dpspec.compiler.passes import compile_draft

    (release,) = compile_draft(parse_text(spec(algorithm, law, "", 2), surface="dps")).releases
    return float(release.tunables[scale_of(algorithm, law)]), int(release.tunables["T"])


def scale_of(algorithm: str, law: str) -> str:
    return "G" if law in SEVERAL else SCALES[algorithm]


def main(trials: int = 5) -> None:
    print("| algorithm | law | default | best of the grid | ratio | at |")
    print("|---|---|---:|---:|---:|---|")
    cases = [(a, law) for a in SCALES for law in OPPOSITE] + [("dp-em", law) for law in SEVERAL]
    for algorithm, law in cases:
        scale, rounds = values(algorithm, law)
        name = scale_of(algorithm, law)
        found = {}
        for f, g in itertools.product((0.25, 0.5, 1.0, 2.0, 4.0), (0.5, 1.0, 2.0)):
            options = f"T = {max(1, round(rounds * g))}, {name} = {scale * f:.6g}"
            found[options] = error(algorithm, law, options, trials)
        own, best = error(algorithm, law, "", trials), min(found, key=lambda o: found[o])
        print(
            f"| `{algorithm}` | {law} | {own:.4f} | {found[best]:.4f} | {own / found[best]:.2f} | {best} (default T = {rounds}, {scale:.3g}) |"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    np.seterr(all="ignore")
    main(*map(int, sys.argv[1:]))
