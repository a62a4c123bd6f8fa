"""Laws and grids of the latent family: two opposite components with normal and heavy-tailed noise, regressions with and without missing
entries, and three clusters that are equal, unequal or heavy-tailed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from benchmarks.defaults.harness import Cell, times

_SPEC: Final = """
analysis "defaults: latent variables"
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
  {laws}
"""
_NOISY: Final = "y = rademacher*<x, theta> + normal(0, 0.25)"
#: Model and laws, of d = 5, noise level 0.5 and |theta| = 1.5.
OPPOSITE: Final = {
    "gmm(2), normal": ("gmm(2)", "x ~ gmm(theta, 0.25)"),
    "gmm(2), t(3) noise": ("gmm(2)", "x ~ mixture(0.5, theta + 0.29*student-t(3), 0.5, -1*theta + 0.29*student-t(3))"),
    "mixture-of-regressions(2)": ("mixture-of-regressions(2)", f"x ~ normal(0, I)\n  {_NOISY}"),
}
#: Three clusters of d = 3, none wider than 1, at theta1, -theta1 and 0.
SEVERAL: Final = {
    "gmm(3), normal": ("normal(0, 0.5)", "normal(0, 0.25)", "normal(0, 0.25)"),
    "gmm(3), unequal": ("normal(0, 1)", "normal(0, 0.04)", "normal(0, 0.25)"),
    "gmm(3), t(3)": ("0.4*student-t(3)",) * 3,
}
SCALES: Final = {
    "dp-gradient-em-full": "s",
    "dp-gradient-em-clipped": "G",
    "dp-gradient-em-split": "s",
    "ldp-gradient-em": "s",
    "dp-em": "s",
}
ROUNDS: Final = times(0.5, 1, 2)


def _cell(algorithm: str, law: str) -> Cell:
    local = algorithm.startswith("ldp")
    words = {
        "n": "200_000" if local else "20_000",
        "privacy": "sldp\n  epsilon = 2" if local else "central\n  epsilon = 1, delta = 1/n^1.1",
        "by": "{by}",
    }
    if law in OPPOSITE:
        model, laws = OPPOSITE[law]
        words |= {"model": model, "data": "d = 5\n  sigma = 0.5", "domain": "", "assume": "assume\n  signal-to-noise(3)"}
        words["laws"] = f"direction = dense unit l2\n  theta = 1.5*direction\n  {laws}"
        grid = {SCALES[algorithm]: times(0.25, 0.5, 1, 2), "T": ROUNDS}
    else:
        words |= {"model": "gmm(3)", "data": "d = 3\n  sigma = 1", "domain": "\n  x in ball(l2, 7) by scale", "assume": ""}
        parts = ", ".join(f"{w}, theta{j + 1} + {noise}" for j, (w, noise) in enumerate(zip((0.5, 0.3, 0.2), SEVERAL[law], strict=True)))
        means = "theta1 = 4*direction\n  theta2 = -4*direction\n  theta3 = 0*direction"
        words["laws"] = f"direction = dense unit l2\n  {means}\n  x ~ mixture({parts})"
        grid = {"C": times(0.25, 0.5, 1, 2), "G": times(0.5, 1), "T": ROUNDS}
    sweeps = law in ("gmm(2), normal", "gmm(3), normal")
    n = (50_000, 200_000, 800_000) if local else (5_000, 20_000, 80_000)
    return Cell(algorithm, law, _SPEC.format(**words), grid, n=n if sweeps else (), epsilon=(0.5, 1.0, 2.0) if sweeps else ())


def cells() -> Iterator[Cell]:
    yield from (_cell("dp-em", law) for law in SEVERAL)
    yield from (_cell(algorithm, law) for algorithm in SCALES for law in OPPOSITE)
