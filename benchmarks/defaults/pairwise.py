"""Laws and grids of the pairwise family: bipartite ranking with balanced labels, with one label in ten, and with a nearly separable
rule on an ill-conditioned design. A pass is n^2/2 pairs, so the cells are small."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from benchmarks.defaults.harness import Cell, times

SPEC: Final = """
analysis "defaults: bipartite ranking"

data
  n = {n}, d = 5
  from memory
  private, unit person, neighbours replace-one
  x in ball(l2, 1) by scale
  y in {-1, 1} by map(0 -> -1, 1 -> 1)

privacy central{online}
  epsilon = 1, delta = 1/n^1.1

release ranking
  minimise pairwise log(1 + exp(-(y1 - y2)*<w, x1 - x2>)){ridge} over ball(l2, {radius})
  by {by}

simulate
  theta = dense unit l2
{law}
"""
LAWS: Final = {
    "balanced": "  x ~ uniform-ball\n  y ~ bernoulli-logistic(5*<theta, x>)",
    "one in ten": "  x ~ uniform-ball\n  y ~ bernoulli-logistic(5*<theta, x> - 3)",
    "ill-conditioned": "  x ~ normal(0, 0.1*toeplitz(0.8))\n  y ~ bernoulli-logistic(20*<theta, x>)",
}


def _spec(law: str, *, n: str, online: bool, ridge: bool) -> str:
    words = {
        "n": n,
        "online": ", online" if online else "",
        "ridge": " + 0.1/2*|w|^2" if ridge else "",
        "radius": "2" if ridge else "1",
        "law": LAWS[law],
    }
    text = SPEC
    for name, word in words.items():
        text = text.replace("{" + name + "}", word)
    return text


def cells() -> Iterator[Cell]:
    for law in LAWS:
        sweep = law == "balanced"
        epsilon = (0.5, 1.0, 2.0) if sweep else ()
        for algorithm, ridge in (("off-pair-c", False), ("off-pair-str-c", True)):
            yield Cell(
                algorithm,
                law,
                _spec(law, n="4000", online=False, ridge=ridge),
                {**({} if ridge else {"alpha": times(0.25, 0.5, 1, 2, 4)}), "tail": (0.1, 0.25, 0.5)},
                n=(1000, 2000, 4000) if sweep else (),
                epsilon=epsilon,
            )
        for algorithm, ridge in (("on-pair-c", False), ("on-pair-str-c", True), ("fb-on-pair-c", False), ("fb-on-pair-str-c", True)):
            yield Cell(
                algorithm,
                law,
                _spec(law, n="2000", online=True, ridge=ridge),
                {"every": times(0.5, 1, 2), "shift": times(0.25, 1)},
                trials=3,
                n=(500, 1000, 2000) if sweep and algorithm == "on-pair-c" else (),
            )
        yield Cell(
            "off-pair-online-to-batch",
            law,
            _spec(law, n="2000", online=False, ridge=False),
            {"every": times(0.5, 1, 2), "shift": times(0.25, 1)},
            trials=3,
        )
