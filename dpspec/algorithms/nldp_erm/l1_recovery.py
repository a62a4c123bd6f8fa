"""A vector of small l1 norm from u = G x + error, G a public (p, d) matrix of N(0, 1/p) entries.

* ``least_norm``: min |z|_1 subject to |G z - u|_1 <= sigma, a linear programme in z = a - b, a, b >= 0, and |G z - u| <= t, as printed.
  It needs a level sigma of the error, and 0 is returned where |u|_1 <= sigma.
* ``least_squares``: min |G z - u|_2 over the l1 ball of a radius, by accelerated projected gradient; no level. The gap to the least value
  of |G z - u|^2/2 after T steps is at most 2 |G|_op^2 (2 radius)^2/(T + 1)^2 (Beck and Teboulle 2009).

Both are post-processing of u. For |error|_1 <= sigma and x in K, |z - x|_2 is of the order (w(K) + sigma + log(1/zeta))/sqrt(p), w the
Gaussian width, Lambda sqrt(log d) for the l1 ball (Vershynin 2015, Theorem 6.2).

Source: 001, section 3.1, (1) and (4), Lemma 5.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from dpspec.algorithms.card import Bound, Card, Fault, Need, Source
from dpspec.algorithms.sets import Vector, project_l1

_EVIDENCE = "tests/algorithms/nldp_erm/test_l1_recovery.py::"

#: Steps of the least squares.
STEPS: Final = 300
#: Columns of the linear programme: it has 2 d + p unknowns.
MOST: Final = 20_000

CARD = Card(
    id="l1-recovery",
    title="Recovery of a vector of small l1 norm",
    family="nldp_erm",
    task="primitive",
    models=("central", "nldp", "sldp"),
    guarantees=(),
    sources=(Source("001", "3.1", "(1), (4)", ("Lemma 5",)),),
    summary="The least l1 norm within a residual, by a linear programme, or least squares over an l1 ball: post-processing.",
    needs=(
        Need("gaussian", "utility", "G has independent N(0, 1/p) entries"),
        Need("error", "utility", "|u - G x|_1 <= sigma"),
    ),
    bounds=(
        Bound(
            "l2-error",
            "order",
            "upper",
            "C*(Lambda*sqrt(log(d)) + sigma + log(1/zeta))/sqrt(p)",
            "claimed",
            "001 Lemma 5 (Vershynin 2015, Theorem 6.2)",
            probability="1 - zeta",
            conditions="|x|_1 <= Lambda",
            where={"Lambda": "l1 norm of the vector", "sigma": "noise of a measurement", "p": "measurements", "zeta": "chance of failure"},
        ),
    ),
    faults=(
        Fault(
            "001 (1): the constraint |z|_1 <= Lambda is left out",
            "Lambda is known, and a z of a larger norm is farther from x than its projection: least squares over the ball uses it",
            _EVIDENCE + "test_the_ball_never_hurts",
            "utility",
        ),
    ),
    role="primitive",
)


def least_norm(g: Vector, u: Vector, sigma: float) -> Vector:
    """The z of least |z|_1 with |G z - u|_1 <= sigma. Raises ValueError where no z is that near, and for d above :data:`MOST`."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, eye_array, hstack, vstack

    p, d = g.shape
    if d > MOST:
        raise ValueError(f"a linear programme in {d} columns; {MOST} are the most, least squares over the ball has no limit")
    sparse, unit = csr_array(g), eye_array(p)
    rows = vstack([hstack([sparse, -sparse, -unit]), hstack([-sparse, sparse, -unit])])
    total = csr_array(np.concatenate([np.zeros(2 * d), np.ones(p)])[None, :])
    found = linprog(
        np.concatenate([np.ones(2 * d), np.zeros(p)]),
        A_ub=vstack([rows, total]).tocsr(),
        b_ub=np.concatenate([u, -u, [sigma]]),
        bounds=(0, None),
        method="highs",
    )
    if not found.success:
        raise ValueError(f"no z has |G z - u|_1 <= {sigma:g}")
    return np.asarray(found.x[:d] - found.x[d : 2 * d])


def least_squares(g: Vector, u: Vector, radius: float, steps: int = STEPS) -> Vector:
    """The z of least |G z - u|_2 over the l1 ball, by accelerated projected gradient."""
    step = 1 / max(float(np.linalg.eigvalsh(g @ g.T)[-1]), 1e-300)
    z = ahead = np.zeros(g.shape[1])
    momentum = 1.0
    for _ in range(steps):
        new = project_l1(ahead - step * (g.T @ (g @ ahead - u)), radius)
        grown = (1 + math.sqrt(1 + 4 * momentum * momentum)) / 2
        ahead = new + (momentum - 1) / grown * (new - z)
        z, momentum = new, grown
    return np.asarray(z)
