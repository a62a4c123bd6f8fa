"""Pairwise algorithms against a bare NumPy loop of the same steps, and the area under the curve of many records.

Both sides run in this process on one thread, in turn; times are of the processor, assertions on ratios of medians and growth in n.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dpspec.algorithms.pairwise import fb_on_pair_c, off_pair_c
from dpspec.compiler.passes import compile_draft
from dpspec.data.records import Records
from dpspec.executor.bind import bound_problem
from dpspec.executor.study import study
from dpspec.lang.source import parse_text
from dpspec.privacy.meter import Release
from dpspec.privacy.noise import PublicRandomness, StudyNoise
from dpspec.tasks.minimise_pairwise import auc_error

SPEC = """analysis "ranking"
data
  n = {n}, d = {d}
  from memory
  private, unit person, neighbours replace-one
  x in ball(l2, 1) by scale
  y in {{-1, 1}} by map(0 -> -1, 1 -> 1)
privacy central{online}
  epsilon = 1, delta = 1/n^1.1
release ranking
  minimise pairwise auc over ball(l2, 1)
  by {by}
"""


def seconds(run: Callable[[], Any], times: int = 3) -> float:
    found = []
    for _ in range(times):
        start = time.process_time()
        run()
        found.append(time.process_time() - start)
    return statistics.median(found)


def job(by: str, n: int, d: int, online: str = "") -> tuple[Any, Any, Any, Records]:
    draft = compile_draft(parse_text(SPEC.format(n=n, d=d, by=by, online=online), surface="dps"))
    release = draft.releases[0]
    g = np.random.default_rng(0)
    x = g.standard_normal((n, d))
    x /= np.maximum(1.0, np.linalg.norm(x, axis=1))[:, None]
    y = np.where(g.random(n) < 1 / (1 + np.exp(-5 * x[:, 0])), 1.0, -1.0)
    return bound_problem(draft, release), release.tunables, release.calibrated, Records(x, y)


def ran(module: Any, p: Any, t: Any, c: Any, records: Records) -> Any:
    meter = Release(c, StudyNoise(0), mode="study", public=PublicRandomness(0))
    estimate = module.run(records, p, t, meter)
    meter.close()
    return estimate


def plain(x: np.ndarray, y: np.ndarray, c: Any, order: np.ndarray, alpha: float) -> np.ndarray:
    """The pass of off-pair-c, all earlier records at a time."""
    x, y = x[order], y[order]
    w, total = np.zeros(x.shape[1]), np.zeros(x.shape[1])
    for k in range(c.begin, len(y)):
        z = (y[k] - y[:k]) * (x[k] @ w - x[:k] @ w)
        s = -(y[k] - y[:k]) / (1 + np.exp(z))
        eta = c.step[k - c.begin]
        w = w - eta * ((x[k] * s.sum() - x[:k].T @ s) / k + alpha * w)
        w *= min(1.0, 1.0 / max(float(np.linalg.norm(w)), 1e-300))
        total += c.weight[k - c.begin] * w
    return total


def test_a_pass_costs_no_more_than_a_bare_loop() -> None:
    """The same iterates, at n = 6,000 and d = 10."""
    p, t, c, records = job("off-pair-c", 6_000, 10)
    order = PublicRandomness(0).generator("order").permutation(6_000)
    steps = off_pair_c.chain(p, t)
    found: Any = SimpleNamespace(public=PublicRandomness(0), draw=lambda name, value, *, sensitivity: value)
    assert np.allclose(off_pair_c.run(records, p, t, found).theta, plain(records.x, records.y, steps, order, float(t.alpha)), atol=1e-9)
    ours = seconds(lambda: ran(off_pair_c, p, t, c, records))
    theirs = seconds(lambda: plain(records.x, records.y, steps, order, float(t.alpha)))
    print(f"off-pair-c {ours:.2f} s, a bare loop {theirs:.2f} s")
    assert ours < 1.5 * theirs


def test_a_buffer_reads_many_records_in_seconds() -> None:
    p, t, c, records = job("fb-on-pair-c", 100_000, 10, ", online")
    taken = seconds(lambda: ran(fb_on_pair_c, p, t, c, records), 1)
    print(f"fb-on-pair-c, 100,000 records: {taken:.1f} s")
    assert taken < 30


@pytest.mark.parametrize("n", [100_000])
def test_the_area_under_the_curve_is_sorted(n: int) -> None:
    """Ten times the records cost at most twenty times as much, and at most twice the textbook's sum of ranks: no pairs are run
    through."""
    g, w = np.random.default_rng(1), np.ones(5)

    def trial(n: int) -> Any:
        return SimpleNamespace(records=Records(g.standard_normal((n, 5)), g.choice([-1.0, 1.0], n)))

    small, large = trial(n), trial(10 * n)
    few, many = seconds(lambda: auc_error(w, small), 5), seconds(lambda: auc_error(w, large), 5)

    def ranks() -> float:
        m, above = large.records.x @ w, large.records.y > 0
        rank, many = np.empty(len(m)), int(above.sum())
        rank[np.argsort(m)] = np.arange(1.0, len(m) + 1)
        return 1 - float(rank[above].sum() - many * (many + 1) / 2) / (many * (len(m) - many))

    assert auc_error(w, large) == pytest.approx(ranks(), abs=1e-9)  # without ties
    bare = seconds(ranks, 5)
    print(f"auc of {n} records {few:.3f} s, of {10 * n} {many:.3f} s, by ranks {bare:.3f} s")
    assert many < 20 * few
    assert many < 2 * bare


def test_errors_beside_the_comparators() -> None:
    """Mean excess risk over all pairs, 10 samples of 4,000 records, epsilon 1: the offline methods are below half of an answer without
    data, and the one pass without noise is below them."""
    law = "simulate\n  theta = dense unit l2\n  x ~ uniform-ball\n  y ~ bernoulli-logistic(5*<theta, x>)\n"
    found: dict[str, float] = {}
    for by in ("off-pair-c", "off-pair-online-to-batch"):
        text = SPEC.format(n=4_000, d=5, by=by, online="") + "\n" + law + f"\nstudy\n  compare {by}, pairwise-giga\n  trials 10, seed 1\n"
        (point,) = study(parse_text(text, surface="dps"), workers=1).to_json()["points"]
        found |= {by: point["error"]["mean"], "pairwise-giga": point["beside"]["pairwise-giga"]["mean"], "zero": point["trivial_error"]}
    print({name: f"{value:.3g}" for name, value in found.items()})
    assert found["pairwise-giga"] < min(found["off-pair-c"], found["off-pair-online-to-batch"])
    assert max(found["off-pair-c"], found["off-pair-online-to-batch"]) < found["zero"] / 10
    assert 2 * found["off-pair-c"] < found["zero"]
