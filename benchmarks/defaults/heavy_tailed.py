"""Laws and grids of the heavy-tailed family: a symmetric law with three moments, a skewed one with all, a skewed one with two and a half.

Each declared moment is the law's own, rounded up. For (<w, x> - y)^2/2 with x of variance 1 and fourth moment k, v = w - theta, it is
v_j^2 (k - 1) + |v|^2 plus the variance of the noise, at the point of the set where that is largest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from benchmarks.defaults.harness import Cell, times

#: Noise, and its variance rounded up.
LAWS: Final = {
    "t(3)": ("student-t(3)", 3),
    "lognormal": ("centred(lognormal(0, 1))", 5),
    "pareto(2.5)": ("centred(pareto(2.5))", 3),
}
MEAN: Final = """
analysis "defaults: means of heavy-tailed records"

data
  n = {n}, d = 3
  from memory
  private, unit person, neighbours replace-one

privacy {privacy}

assume
  moment(order 2, bound {moment}) of x

release centre
  estimate mean(x)
  by {by}

simulate
  theta = dense unit l2
  x = theta + {noise}
"""
RISK: Final = """
analysis "defaults: least squares with heavy-tailed noise"

data
  n = {n}, d = {d}
  from memory
  private, unit person, neighbours replace-one

privacy central
  epsilon = {epsilon}{delta}

assume
  {assume}

release weights
  minimise 1/2*(<w, x> - y)^2 over {over}
  by {by}

simulate
  theta = {theta}
  x ~ {x}
  y = <theta, x> + {noise}
"""
DELTA: Final = ", delta = 1/n^1.1"


def _filled(text: str, **words: object) -> str:
    for name, word in words.items():
        text = text.replace("{" + name + "}", str(word))
    return text


def cells() -> Iterator[Cell]:
    for law, (noise, var) in LAWS.items():
        sweep = law == "t(3)"
        epsilon = (0.5, 1.0, 2.0) if sweep else ()
        mean = _filled(MEAN, moment=var + 1, noise=noise)
        central = _filled(mean, n="20_000", privacy="central\n  epsilon = 1" + DELTA)
        yield Cell(
            "dp-catoni-mean",
            law,
            central,
            {"s": times(0.125, 0.25, 0.5, 1, 2)},
            trials=10,
            n=(5000, 20_000, 80_000) if sweep else (),
            epsilon=epsilon,
        )
        yield Cell(
            "dp-clipped-mean",
            law,
            central,
            {"C": times(0.125, 0.25, 0.5, 1, 2)},
            trials=10,
            n=(5000, 20_000, 80_000) if sweep else (),
            epsilon=epsilon,
        )
        yield Cell(
            "dp-trimmed-mean",
            law,
            _filled(mean, n="20_000", privacy="central\n  epsilon = 2"),
            {"m": times(0.25, 0.5, 1, 2), "smoothing": times(0.5, 1)},
            n=(20_000, 40_000, 80_000) if sweep else (),
            epsilon=(1.0, 2.0, 4.0) if sweep else (),
        )
        yield Cell(
            "ldp-heavy-tailed-mean",
            law,
            _filled(mean, n="100_000", privacy="nldp\n  epsilon = 1"),
            {"s": times(0.125, 0.25, 0.5, 1, 2)},
            trials=10,
            n=(25_000, 100_000, 400_000) if sweep else (),
            epsilon=epsilon,
        )
        # |v|^2 <= 2.25 over the unit ball around a theta of norm 1/2; x normal: k = 3
        gradient = f"moment(order 2, bound {7 + var}) of gradient\n  eigenvalues in [1, 1] of x"
        normal = {"x": "normal(0, I)", "noise": noise}
        yield Cell(
            "heavy-tailed-dp-gd-catoni",
            law,
            _filled(
                RISK, n="20_000", d=5, epsilon=1, delta=DELTA, assume=gradient, over="ball(l2, 1)", theta="0.5*dense unit l2", **normal
            ),
            {"s": times(0.25, 0.5, 1, 2), "T": times(0.5, 1, 2)},
            trials=4,
            n=(5000, 10_000, 20_000) if sweep else (),
            epsilon=epsilon,
        )
        yield Cell(
            "heavy-tailed-dp-gd-clipped",
            law,
            _filled(
                RISK, n="20_000", d=5, epsilon=1, delta=DELTA, assume=gradient, over="ball(l2, 1)", theta="0.5*dense unit l2", **normal
            ),
            {"C": times(0.25, 0.5, 1, 2), "T": times(0.5, 1, 2)},
            trials=4,
            n=(5000, 10_000, 20_000) if sweep else (),
            epsilon=epsilon,
        )
        small = f"moment(order 2, bound {1 + var}) of gradient\n  eigenvalues in [1, 1] of x"
        yield Cell(
            "heavy-tailed-dp-gd-trimmed",
            law,
            _filled(RISK, n="40_000", d=2, epsilon=2, delta="", assume=small, over="ball(l2, 1/4)", theta="constant(0.15)", **normal),
            {"T": (2, 4, 8), "m": times(0.5, 1)},
            trials=4,
            n=(20_000, 40_000, 80_000) if sweep else (),
        )
        yield Cell(
            "sample-and-aggregate",
            law,
            _filled(RISK, n="40_000", d=2, epsilon=2, delta="", assume=gradient, over="ball(l2, 1)", theta="constant(0.5)", **normal),
            {"m": times(0.25, 0.5, 1, 2), "smoothing": times(0.5, 1)},
            trials=4,
            n=(20_000, 40_000, 80_000) if sweep else (),
            epsilon=(1.0, 2.0, 4.0) if sweep else (),
        )
        # x Laplace of variance 2: E x^4 = 24; |v|_1 <= 1.9 around 0.9 of a vertex: 1.9^2*24 and the noise
        heavy = {"x": "laplace(1)", "theta": "0.9*sparse(1)", "over": "ball(l1, 1)", "noise": noise, "n": "20_000", "d": 20}
        yield Cell(
            "dp-fw-heavy-tailed",
            law,
            _filled(
                RISK,
                **heavy,
                epsilon=1,
                delta="",
                assume=f"moment(order 2, bound {87 + 2 * var}) of gradient\n  moment(order 2, bound 2) of x",
            ),
            {"s": times(0.25, 0.5, 1, 2), "T": times(0.5, 1, 2)},
            trials=4,
            n=(5000, 10_000, 20_000) if sweep else (),
            epsilon=epsilon,
        )
    for law, noise, fourth in (
        ("t(5)", "student-t(5)", 60),  # E y^4 = 0.9^4*24 + 6*0.81*2*5/3 + 25
        ("lognormal", "centred(lognormal(0, 0.5))", 28),  # noise of variance 0.37 and fourth moment 1.2
        ("pareto(5)", "centred(pareto(5))", 25),  # variance 0.1, fourth moment 0.76
    ):
        heavy = {"x": "laplace(1)", "theta": "0.9*sparse(1)", "over": "ball(l1, 1)", "noise": noise, "n": "20_000", "d": 20}
        assume = f"moment(order 4, bound 24) of x\n  moment(order 4, bound {fourth}) of y"
        yield Cell(
            "dp-lasso-shrinkage",
            law,
            _filled(RISK, **heavy, epsilon=1, delta=DELTA, assume=assume),
            {"K": times(0.5, 1, 2), "T": times(0.5, 1, 2)},
            trials=4,
            n=(5000, 10_000, 20_000) if law == "t(5)" else (),
            epsilon=(0.5, 1.0, 2.0) if law == "t(5)" else (),
        )


_LATTICE: Final = (
    "Steps of 2/(t + 2) between vertices end on a lattice that T decides. The truth is 0.9 of a vertex, from which the first step jumps to the "
    "whole one; some T come near 0.9 again and others do not, and a default cannot know (docs/algorithms/heavy-tailed.md, scales)."
)
REASONS: Final = {
    ("dp-lasso-shrinkage", "lognormal"): _LATTICE,
    ("dp-lasso-shrinkage", "pareto(5)"): _LATTICE,
    ("dp-fw-heavy-tailed", "t(3)"): _LATTICE,
}
