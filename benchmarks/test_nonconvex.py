"""Iterations of the methods for losses that are not convex against their bare gradient or Hessian in NumPy, products with vectors, memory.

Run: ``pytest benchmarks/test_nonconvex.py -o addopts="" -s`` on a quiet machine with one BLAS thread.

The bare gradient of the sigmoid loss is two products and the derivative of the loss between them, and a second-order iteration is a bare
gradient and a bare Hessian x^T diag(phi'') x, both over all records at once. A third of the former is saved by hand-written blocks
that stay in the cache, which is printed beside it.
"""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from benchmarks.test_convex import best_of
from dpspec.algorithms import second_order
from dpspec.compiler.passes import compile_draft
from dpspec.data.records import Records
from dpspec.executor.bind import bound_problem
from dpspec.lang.source import parse_text
from dpspec.privacy.meter import Release
from dpspec.privacy.noise import PublicRandomness, StudyNoise

N, D = 100_000, 50
SPEC = """analysis "speed"

data
  n = {n}, d = {d}
  from memory
  private, unit person, neighbours replace-one
  x in ball(l2, 1) by scale
  y in {{-1, 1}} by map(-1 -> -1, 1 -> 1)

privacy central
  epsilon = 1, delta = 1e-6

release weights
  minimise {loss} over {over}
  by {by}
"""
SIGMOID = "1/(1 + exp(y*<w, x>))"
#: Options and set of methods whose iteration is a gradient, and of those whose iteration is a gradient and a Hessian.
FIRST = {
    "dp-pgd-nonconvex": ("T = {T}", "R^d"),
    "dp-gld": ("T = {T}", "R^d"),
    "dp-pmd-nonconvex": ("T = {T}", "ball(l1, 5)"),
    "dp-fw-l2": ("T = {T}", "ball(l2, 5)"),
    "dp-fw-l1": ("T = {T}", "ball(l1, 5)"),
    "dp-gd-sosp": ("T = {T}, K = 1", "R^d"),
}
SECOND = {"dp-tr": ("T = {T}", "R^d"), "dp-gd-so": ("T = {T}", "ball(l2, 5)")}


def records(n: int = N, d: int = D) -> Records:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, d))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return Records(x, np.sign(rng.standard_normal(n)))


def fitted(by: str, options: str, over: str, T: int, n: int = N, d: int = D, loss: str = SIGMOID):
    text = SPEC.format(n=n, d=d, over=over, loss=loss, by=f"{by} with {options.format(T=T)}")
    draft = compile_draft(parse_text(text, surface="dps"))
    assert not draft.failed, draft.diagnostics
    (release,) = draft.releases
    bound = bound_problem(draft, release)

    def fit(data: Records):
        meter = Release(release.calibrated, StudyNoise(0), mode="study", public=PublicRandomness(0))
        w = release.module.run(data, bound, release.tunables, meter).theta
        meter.close()
        return w

    return fit, bound


def bare_gradient(x, y, w):
    e = np.exp(-np.abs(x @ w))
    return x.T @ (-y * e / (1 + e) ** 2) / len(y)


def bare_hessian(x, y, w):
    z = y * (x @ w)
    e = np.exp(-np.abs(z))
    return x.T @ (x * (e / (1 + e) ** 2 * np.tanh(z / 2))[:, None]) / len(y)


ROWS = 1 << 11


def blocked_gradient(x, y, w):
    g = np.zeros(len(w))
    for a in range(0, len(y), ROWS):
        g += bare_gradient(x[a : a + ROWS], y[a : a + ROWS], w) * len(y[a : a + ROWS])
    return g / len(y)


@pytest.mark.parametrize("by", FIRST)
def test_an_iteration_costs_little_more_than_a_gradient(by):
    T, data = 20, records()
    fit, _ = fitted(by, *FIRST[by], T)
    w = np.random.default_rng(1).standard_normal(D) / 10

    def bare():
        for _ in range(T):
            bare_gradient(data.x, data.y, w)
        if by == "dp-gd-sosp":  # what the choice reads of its one candidate
            bare_gradient(data.x, data.y, w)
            bare_hessian(data.x, data.y, w)

    def blocked():
        for _ in range(T):
            blocked_gradient(data.x, data.y, w)

    one, other, ours = best_of(bare, blocked, lambda: fit(data), repeats=9)
    blocks = f"({other / T * 1e3:.2f} in blocks)"
    print(f"{by}: gradient {one / T * 1e3:.2f} ms {blocks}, iteration {ours / T * 1e3:.2f} ms, ratio {ours / one:.2f}")
    assert ours <= 1.3 * one


@pytest.mark.parametrize("by", SECOND)
def test_an_iteration_costs_little_more_than_a_gradient_and_a_hessian(by):
    T, data = 5, records()
    fit, _ = fitted(by, *SECOND[by], T)
    w = np.random.default_rng(1).standard_normal(D) / 10

    def bare():
        for _ in range(T):
            bare_gradient(data.x, data.y, w)
            bare_hessian(data.x, data.y, w)

    one, ours = best_of(bare, lambda: fit(data), repeats=7)
    print(f"{by}: gradient and Hessian {one / T * 1e3:.2f} ms, iteration {ours / T * 1e3:.2f} ms, ratio {ours / one:.2f}")
    assert ours <= 1.3 * one


def test_an_iteration_on_batches_costs_little_more_than_their_gradients():
    T, data = 20, records()
    fit, _ = fitted("rrpsgd", "T = {T}, b = 20000", "R^d", T)
    rng, w = np.random.default_rng(1), np.random.default_rng(1).standard_normal(D) / 10

    def bare():
        for _ in range(T):
            batch = rng.choice(N, 20_000, replace=False, shuffle=False)
            bare_gradient(data.x[batch], data.y[batch], w)

    one, ours = best_of(bare, lambda: fit(data), repeats=5)
    print(f"rrpsgd: batch and gradient {one / T * 1e3:.2f} ms, iteration {ours / T * 1e3:.2f} ms, ratio {ours / one:.2f}")
    assert ours <= 1.3 * one


def test_an_iteration_on_batches_costs_little_more_than_their_gradients_and_hessians():
    T, data = 5, records()
    fit, _ = fitted("dp-str", "T = {T}, b = 20000", "R^d", T)
    rng, w = np.random.default_rng(1), np.random.default_rng(1).standard_normal(D) / 10

    def bare():
        for _ in range(T):
            for bare_one in (bare_gradient, bare_hessian):  # each draws a batch of its own
                batch = rng.choice(N, 20_000, replace=False, shuffle=False)
                bare_one(data.x[batch], data.y[batch], w)

    one, ours = best_of(bare, lambda: fit(data), repeats=5)
    print(f"dp-str: batches, gradient and Hessian {one / T * 1e3:.2f} ms, iteration {ours / T * 1e3:.2f} ms, ratio {ours / one:.2f}")
    assert ours <= 1.3 * one


NETWORK = "(v1/(1 + exp(-<w1, x>)) + v2/(1 + exp(-<w2, x>)) - y)^2/2"


def bare_network(x, y, w):
    W, v = w.reshape(2, -1)[:, :-1], w.reshape(2, -1)[:, -1]
    a = 1 / (1 + np.exp(-(W @ x.T)))
    r = v @ a - y
    return np.hstack([(r * v[:, None] * a * (1 - a)) @ x, (a @ r)[:, None]]).ravel() / len(y)


def test_an_iteration_of_a_network_costs_little_more_than_its_gradient():
    T, data = 10, records()
    fit, _ = fitted("dp-pgd-nonconvex", "T = {T}", "ball(l2, 2)", T, loss=NETWORK)
    w = np.random.default_rng(1).standard_normal(2 * (D + 1)) / 10

    def bare():
        for _ in range(T):
            bare_network(data.x, data.y, w)

    one, ours = best_of(bare, lambda: fit(data), repeats=7)
    print(f"network: gradient {one / T * 1e3:.2f} ms, iteration {ours / T * 1e3:.2f} ms, ratio {ours / one:.2f}")
    assert ours <= 1.3 * one


def test_a_net_is_scored_at_the_price_of_its_losses():
    """Two hundred points of a net in two dimensions against margins and losses of all records, point by point, in NumPy."""
    from dpspec.algorithms.nonconvex_erm.exponential_mechanism_net import risks

    data = records(N, 2)
    _, p = fitted("dp-pgd-nonconvex", "T = {T}", "ball(l2, 1)", 1, d=2)
    points = np.random.default_rng(1).standard_normal((200, 2)) / 3

    def bare():
        for w in points:
            float((1 / (1 + np.exp(data.y * (data.x @ w)))).sum())

    one, ours = best_of(bare, lambda: risks(data, p.objective, points, np.zeros(2), 1.0, 1.0, N), repeats=3)
    print(f"net: {one / len(points) * 1e3:.2f} ms a point in NumPy, {ours / len(points) * 1e3:.2f} ms here, ratio {ours / one:.2f}")
    assert ours <= 1.3 * one


BATCHES = {"rrpsgd": ("T = {T}, b = 20000", "R^d"), "dp-str": ("T = {T}, b = 20000", "R^d")}


@pytest.mark.parametrize("by", [*FIRST, *SECOND, *BATCHES, "network"])
def test_a_run_needs_little_more_memory_than_the_data(by):
    data = records()
    if by == "network":
        fit, _ = fitted("dp-pgd-nonconvex", "T = {T}", "ball(l2, 2)", 3, loss=NETWORK)
    else:
        fit, _ = fitted(by, *{**FIRST, **SECOND, **BATCHES}[by], 3)
    fit(data)  # what is imported and kept once is not of the run
    tracemalloc.start()
    fit(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    size = data.x.nbytes + data.y.nbytes
    print(f"{by}: data {size / 2**20:.1f} MiB, a run adds {peak / 2**20:.1f} MiB")
    assert size + peak <= 2 * size


def test_products_with_the_hessian_form_no_matrix():
    """d = 3,000 is beyond the limit for matrices: 72 MB; the least eigenvalue comes from products within the memory of the data."""
    n, d = 2000, 3000
    data = records(n, d)
    draft = compile_draft(parse_text(SPEC.format(n=n, d=d, over="R^d", loss=SIGMOID, by="dp-pgd-nonconvex"), surface="dps"))
    p = bound_problem(draft, draft.releases[0])
    w = np.random.default_rng(1).standard_normal(d) / 10
    second_order.least_eigenvalue(data, p, w)  # what is imported once is not of the products
    tracemalloc.start()
    found = second_order.least_eigenvalue(data, p, w)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    one, ours = best_of(lambda: data.x.T @ (data.x @ w), lambda: second_order.product(data, p, w, w), repeats=30)
    matrix = f"a matrix: {8 * d * d / 2**20:.0f}"
    print(f"least eigenvalue {found:.2e} with {peak / 2**20:.1f} MiB ({matrix}); a product {ours / one:.2f} of two bare ones")
    assert peak < 8 * d * d / 10
