"""Rates of the private algorithms without convexity: ``python -m benchmarks.nonconvex_rates [ALGORITHM ...] [--write]``.

Sigmoid loss on labels of a logistic law, defaults alone, three values of n, epsilon and d, the others at n = 4,000 (2,000 for the net),
epsilon 1 and d = 4 (2). The exponent of the mean error and its 95% interval are the study's own (:mod:`dpspec.executor.study`), as is
the exponent that the plan's bound has over the same points. Results: benchmarks/results/nonconvex_rates.json, from which ``--write``
makes the table of docs/algorithms/nonconvex.md.
"""

from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.defaults.harness import _study
from dpspec.spec.diagnostics import SpecError

ROOT: Final = Path(__file__).resolve().parents[1]
RESULTS: Final = ROOT / "benchmarks" / "results" / "nonconvex_rates.json"
PAGE: Final = ROOT / "docs" / "algorithms" / "nonconvex.md"
TRIALS: Final = 4

SPEC: Final = """analysis "rates without convexity"

data
  n = {n}, d = {d}
  from memory
  private, unit person, neighbours replace-one
  x in ball(l2, 1) by scale
  y in {{-1, 1}} by map(0 -> -1, 1 -> 1)

privacy central
  epsilon = 1, delta = {delta}

release weights
  minimise {loss} over {over}
  by {by}
  expect {measure} <= 100

simulate
  theta = dense unit l2
  x ~ uniform-sphere
  y ~ bernoulli-logistic(6*<theta, x>)

study
  vary {vary}
  trials {trials}, seed 12
"""
SIGMOID: Final = "1/(1 + exp(y*<w, x>))"
#: Algorithm: set and measure.
ROWS: Final = {
    "dp-pgd-nonconvex": ("R^d", "gradient-norm"),
    "rrpsgd": ("R^d", "gradient-norm"),
    "dp-gld": ("R^d", "gradient-norm"),
    "dp-pmd-nonconvex": ("ball(l1, 2)", "mirror-mapping-norm"),
    "dp-fw-l2": ("ball(l2, 2)", "frank-wolfe-gap"),
    "dp-fw-l1": ("ball(l1, 2)", "frank-wolfe-gap"),
    "exponential-mechanism-net": ("ball(l2, 1)", "excess-empirical-risk"),
    "dp-gd-sosp": ("R^d", "second-order-stationarity"),
    "dp-tr": ("R^d", "second-order-stationarity"),
    "dp-str": ("R^d", "second-order-stationarity"),
    "dp-gd-so": ("ball(l2, 2)", "frank-wolfe-gap"),
}


def measured(algorithm: str) -> list[dict[str, Any]]:
    """One row a variable."""
    over, measure = ROWS[algorithm]
    net = algorithm == "exponential-mechanism-net"
    n, d = (2000, 2) if net else (4000, 4)
    found = []
    for name, values in (("n", [n // 2, n, 2 * n]), ("epsilon", [0.5, 1, 2]), ("d", [1, 2, 3] if net else [2, 4, 8])):
        text = SPEC.format(
            n=n, d=d, delta="0" if net else "1e-6", loss=SIGMOID, over=over, by=algorithm, measure=measure, trials=TRIALS,
            vary=f"{name} in {values}",
        )  # fmt: skip
        body = _study(text.replace(", delta = 0", ""))
        means = [float(p["error"]["mean"]) for p in body["points"]]
        rate = next((r for r in body["rates"] if r["variable"] == name), None) or _slope(name, body["points"])
        kept = {k: rate.get(k) for k in ("measured", "ci95", "expected", "expected_here", "verdict")}
        bounds = [None if p["bound"] is None else p["bound"].get("value") for p in body["points"]]
        found.append(
            {"algorithm": algorithm, "measure": measure, "variable": name, "values": values, "means": means, "bounds": bounds, **kept}
        )
    return found


def _slope(name: str, points: list[dict[str, Any]]) -> dict[str, Any]:
    """Where the bound is no power of the variable: the slope, beside that of the bound's numbers between the ends."""
    from dpspec.executor.summary import rate

    x = [float(p["at"][name]) for p in points]
    shape = [None if p["bound"] is None else p["bound"].get("value") for p in points]
    ends = math.log(shape[-1] / shape[0]) / math.log(x[-1] / x[0]) if shape[0] and shape[-1] else 0.0
    found = rate(name, x, [p["error"]["values"] for p in points], ends, shape)
    return found if ends else {**found, "expected": None, "expected_here": None}


def table(rows: list[dict[str, Any]]) -> str:
    out = ["| algorithm | measure | n | epsilon | d | bound over measured |", "|---|---|---|---|---|---|"]
    for algorithm in ROWS:
        own = {r["variable"]: r for r in rows if r["algorithm"] == algorithm}
        if not own:
            continue
        ratios = [b / m for r in own.values() for b, m in zip(r["bounds"], r["means"], strict=True) if b is not None and m > 0]
        span = f"{min(ratios):.2g} to {max(ratios):.2g}" if ratios else "-"
        cells = [_cell(own.get(v)) for v in ("n", "epsilon", "d")]
        out.append(f"| `{algorithm}` | `{next(iter(own.values()))['measure']}` | {' | '.join(cells)} | {span} |")
    return "\n".join(out)


def _cell(r: dict[str, Any] | None) -> str:
    if r is None:
        return "-"
    if r["measured"] is None:
        slope = np.polyfit(np.log(r["values"]), np.log(r["means"]), 1)[0]
        ends = r["bounds"]
        expected = np.polyfit(np.log(r["values"]), np.log(ends), 1)[0] if all(b is not None for b in ends) else None
        return f"{slope:.2f} ({'-' if expected is None else f'{expected:.2f}'})"
    low, high = r["ci95"]
    expected = r["expected_here"] if r["expected_here"] is not None else r["expected"]
    return f"{r['measured']:.2f} ({low:.2f} to {high:.2f}; {'-' if expected is None else f'{expected:.2f}'})"


def main(said: list[str]) -> None:
    rows = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    wanted = [a for a in said if a != "--write"] or ([] if "--write" in said else list(ROWS))
    for algorithm in wanted:
        try:
            rows = [r for r in rows if r["algorithm"] != algorithm] + measured(algorithm)
        except SpecError as error:
            print(f"{algorithm}: {error}", flush=True)
            continue
        RESULTS.write_text(json.dumps(rows, indent=1, allow_nan=False, default=float) + "\n")
        print(algorithm, flush=True)
    if "--write" in said:
        page = PAGE.read_text()
        block = f"<!-- rates: python -m benchmarks.nonconvex_rates --write -->\n\n{table(rows)}\n\n<!-- end of rates -->"
        PAGE.write_text(re.sub(r"<!-- rates: .*?<!-- end of rates -->", lambda _: block, page, flags=re.DOTALL))


if __name__ == "__main__":
    main(sys.argv[1:])
