"""Laws and grids of the crowds: abilities from a Beta law, few who know among spammers, adversaries, and three labels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from benchmarks.defaults.harness import Cell, times

_SPEC: Final = """
analysis "defaults: the truth from a crowd"
data
  n = 200, d = 500
  from memory
  private, unit worker, neighbours replace-one
  x in {domain}
privacy nldp, attribute
  epsilon = 1
release labels
  infer truth from labels
  by {by}
simulate
  {laws}
"""
_TWO: Final = "{-1, 0, 1} by map(0 -> 0, -1 -> -1, 1 -> 1)"
_THREE: Final = "{0, 1, 2, 3} by map(0 -> 0, 1 -> 1, 2 -> 2, 3 -> 3)"
LAWS: Final = {
    "beta": (_TWO, "truth ~ rademacher\n  x ~ one-coin(truth, beta(4, 2), 0.9)"),
    "experts among spammers": (_TWO, "truth ~ rademacher\n  x ~ one-coin(truth, mixture(0.15, 0.95, 0.85, 0.51))"),
    "adversaries": (_TWO, "truth ~ rademacher\n  x ~ one-coin(truth, mixture(0.7, beta(6, 2), 0.2, 0.5, 0.1, 0.1), 0.8)"),
    "three labels": (
        _THREE,
        "label ~ categorical-logistic(0, 0, 0)\n  truth = label + 1\n  x ~ one-coin(truth, mixture(0.8, beta(8, 2), 0.2, 0.3333), 0.8, 3)",
    ),
}
ABSTAIN: Final = ("coin", "symbol")


def cells() -> Iterator[Cell]:
    for name, (domain, laws) in LAWS.items():
        spec = _SPEC.replace("{domain}", domain).replace("{laws}", laws)
        sweeps = (50, 100, 200, 400) if name == "beta" else ()
        yield Cell("private-majority-voting", name, spec, {"abstain": ABSTAIN, "ties": ("coin", "first")}, n=sweeps)
        yield Cell("private-dawid-skene", name, spec, {"abstain": ABSTAIN, "T": times(0.25, 1, 2), "lam": ("0.02", "1/8")}, n=sweeps)
