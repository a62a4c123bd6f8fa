"""Run the auditor over a file of catalogued cases: ``python -m tests.audit_cases FILE [--readings FILE] [--no-readings]``.

One JSON row a case and variant; exit 1 when a row is wrong, 2 when the file cannot be used. A row is right when the verdict is the
catalogue's and every number of its ``truth`` agrees within its tolerance.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dpspec.audit.cases import CaseRow, rows
from dpspec.audit.static import audit_static
from dpspec.audit.verdict import AuditResult, number
from dpspec.audit.yamlread import read_yaml
from dpspec.spec.diagnostics import SpecError


def answer_of(result: AuditResult) -> str:
    """The catalogue's word for a result."""
    if result.tool_fault:
        return "tool_fault"
    if result.verdict == "holds" and result.loose is not None:
        return "holds_conservative"
    return result.verdict.replace("-", "_")


def bounds_of(result: AuditResult, delta: float | None) -> tuple[float, float]:
    """(lower, upper) bound on epsilon, at another delta than the claimed one when asked for."""
    static, exact = result.static, result.exact
    if delta is not None and result.profile is not None and (static is None or not 0.99 * static.delta <= delta <= 1.01 * static.delta):
        found = result.profile(delta)
        return found.low, found.high
    if static is not None:
        return static.epsilon_lower, static.epsilon
    if exact is not None:
        return exact.epsilon, exact.epsilon
    return 0.0, math.inf


def near(a: float, b: float, tolerance: float) -> bool:
    if math.isinf(a) or math.isinf(b):
        return a == b
    return abs(a - b) <= tolerance * max(abs(b), 1e-12) + 1e-9


def wrong_numbers(result: AuditResult, truth: Mapping[str, Any]) -> list[str]:
    """What in ``truth`` the result contradicts or fails to show."""
    tolerance = float(truth.get("tolerance", 0.01))
    status = truth.get("status")
    delta = truth.get("delta")
    delta = float(delta) if isinstance(delta, (int, float)) and delta < 1 and status not in ("infinite", "unverifiable") else None
    bad: list[str] = []
    low, high = bounds_of(result, delta)
    alternatives = [value for _, value in (result.static.alternatives if result.static else ())]

    def want(ok: bool, what: str) -> None:
        if not ok:
            bad.append(what)

    epsilon = truth.get("epsilon")
    if epsilon is not None:
        exact = float(epsilon)
        want(near(high, exact, tolerance), f"upper {high:g} is not {exact:g}")
        want(near(low, exact, tolerance), f"lower {low:g} is not {exact:g}")
    if truth.get("epsilon_lower") is not None:
        bottom = float(truth["epsilon_lower"])
        want(high >= bottom * (1 - tolerance), f"upper {high:g} is below the proved {bottom:g}")
        if result.verdict == "violated":  # the lower bound is the evidence
            want(low >= bottom * (1 - tolerance) - 1e-9, f"lower {low:g} is below {bottom:g}")
    if truth.get("epsilon_upper") is not None:
        top = float(truth["epsilon_upper"])
        listed = any(near(a, top, tolerance) for a in alternatives)
        want(high <= top * (1 + tolerance) or listed, f"upper {high:g} is above {top:g}")
        want(low <= top * (1 + tolerance), f"lower {low:g} is above the proved {top:g}")
    static = result.static
    for key, value in (("rho", static and static.rho), ("rho_upper", static and static.rho)):
        if isinstance(truth.get(key), (int, float)):
            want(value is not None and near(float(value), float(truth[key]), tolerance), f"{key} {value} is not {truth[key]}")
    if truth.get("rho_lower") is not None:
        want(static is not None and (static.rho_lower or 0) >= truth["rho_lower"] * (1 - tolerance), "rho_lower")
    if truth.get("epsilon_one_report") is not None:
        one = result.exact.one_report if result.exact else None
        want(one is not None and near(one, float(truth["epsilon_one_report"]), tolerance), f"one report {one}")
    for key in ("sigma", "epsilon_spent"):
        if truth.get(key) is not None:
            want(near(result.recomputed.get(key, math.nan), float(truth[key]), tolerance), f"{key} {result.recomputed.get(key)}")
    if truth.get("delta_at_claim") is not None and result.verdict == "violated":
        at = static.delta_at_claim if static else None
        want(
            at is not None and near(at, float(truth["delta_at_claim"]), tolerance), f"delta at claim {at} is not {truth['delta_at_claim']}"
        )
    return bad


def judged(row: CaseRow) -> dict[str, Any]:
    """One row of output."""
    start = time.perf_counter()
    try:
        result = audit_static(row.deployment)
    except SpecError as error:
        return {
            "id": row.id,
            "variant": row.variant,
            "expected": row.answer,
            "verdict": "unusable",
            "ok": False,
            "why": str(error),
            "basis": row.basis,
        }
    answer = answer_of(result)
    wrong = wrong_numbers(result, row.truth)
    if answer != row.answer:
        wrong.insert(0, f"verdict {answer}, expected {row.answer}")
    low, high = bounds_of(result, None)
    return {
        "id": row.id,
        "variant": row.variant,
        "basis": row.basis,
        "expected": row.answer,
        "verdict": answer,
        "epsilon": number(high),
        "epsilon_lower": number(low),
        "codes": sorted({f.code for f in result.findings}),
        "ok": not wrong,
        "why": "; ".join(wrong),
        "seconds": round(time.perf_counter() - start, 2),
    }


def load_cases(path: Path) -> list[Mapping[str, Any]]:
    data = read_yaml(path.read_text(encoding="utf-8"), str(path)).data
    found = data.get("cases") if isinstance(data, Mapping) else data
    if not isinstance(found, list) or not all(isinstance(c, Mapping) for c in found):
        raise ValueError("no list of cases")
    return found


def load_readings(path: Path | None) -> dict[str, Mapping[str, Any]]:
    if path is None or not path.exists():
        return {}
    data = read_yaml(path.read_text(encoding="utf-8"), str(path)).data
    return {str(r["case"]): r for r in data["readings"]}


def case_rows(path: Path, readings: Path | None = None) -> Iterator[CaseRow]:
    told = load_readings(readings)
    for case in load_cases(path):
        yield from rows(case, told.get(str(case.get("id"))))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.audit_cases", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--readings", type=Path, default=None, help="translations of prose-only cases into deployment descriptions")
    parser.add_argument("--no-readings", action="store_true", help="structured fields of the cases only")
    args = parser.parse_args(argv)
    try:
        found = list(case_rows(args.file, None if args.no_readings else args.readings))
    except (OSError, ValueError, SpecError) as error:
        print(f"{args.file}: {error}", file=sys.stderr)
        return 2
    right = 0
    for row in found:
        out = judged(row)
        right += out["ok"]
        print(json.dumps(out), flush=True)
    print(f"{right} of {len(found)} rows right", file=sys.stderr)
    return 0 if right == len(found) else 1


if __name__ == "__main__":
    sys.exit(main())
