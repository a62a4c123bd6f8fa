"""Every bound of the gallery, its number and what is measured: ``python -m benchmarks.bounds [--values] [--again] [FAMILY or SPEC ...]``.

Each gallery spec is compiled at its own numbers; the value that its plan shows (from the printed expression) stands beside that of the
algorithm's code. Then three trials at that point measure the error in every measure that a bound speaks of and a study knows: the ratio
is mean error over bound, for an order bound over its expression at C = 1. Trials that take more than ``SECONDS`` of CPU are tried again
with ``FEWER`` times fewer records, and the row keeps the n it was measured at, its bound the value there. Specs of real data that are
not at hand, and measures that take too long at every n tried, have no ratio and say why.

The results are kept measure by measure, so a run that was stopped goes on where it was: what was measured at the same numbers is not
measured again, unless ``--again``. ``--values``: no trials at all. Results: benchmarks/results/bounds.json, from which
docs/gen_bounds.py writes docs/bounds.md.
"""

from __future__ import annotations

import fcntl
import json
import signal
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from dpspec.compiler.bound import bound_terms, environment
from dpspec.compiler.draft import Bounded
from dpspec.compiler.passes import compile_draft
from dpspec.lang.source import Parsed, parse_file
from dpspec.spec.diagnostics import SpecError
from dpspec.spec.expr import Num, evaluate, names
from dpspec.spec.model import Expect
from dpspec.tasks.registry import of
from dpspec.theory import formulas

Row = dict[str, Any]
ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "bounds.json"
TRIALS, SEED, SECONDS = 3, 1, 3
#: Shares of the gallery's n, in the order they are tried.
FEWER = (1, 16, 128)
LEAST_N = 50


def gallery(wanted: tuple[str, ...] = ()) -> Iterator[Path]:
    """The gallery's specs, of these families or of these names only."""
    for path in sorted((ROOT / "specs").glob("*/*.dps")):
        if path.parent.name not in ("reproduce", "showcase", "team") and (not wanted or {path.parent.name, path.stem} & set(wanted)):
            yield path


def tied(release: Bounded) -> Iterator[dict[str, Any]]:
    """The explicit bounds that apply: the expression's number and the code's. Both are computed here, neither from the other."""
    module = release.module
    if not hasattr(module, "explicit_bounds") or (
        hasattr(module, "bounds_apply") and not module.bounds_apply(release.problem, release.tunables)
    ):
        code: dict[str, float] = {}
    else:
        code = dict(module.explicit_bounds(release.problem, release.tunables, release.calibrated))
    terms, known = bound_terms(release), environment(release)
    for b in module.CARD.bounds:
        if b.kind == "explicit" and (b.theorem in code or not hasattr(module, "explicit_bounds")):
            value = formulas.value(b.expression, {**known, **terms.get(b.theorem, {})})
            yield {"theorem": b.theorem, "value": value, "code": code.get(b.theorem, value)}


def measured(parsed: Parsed, name: str, measure: str) -> dict[str, Any]:
    """Mean error of the release ``name`` over the trials, at the largest n that is tried and cheap."""
    from dpspec.executor.design import substitute

    n = int(evaluate(parsed.analysis.data.n)) if parsed.analysis.simulate and parsed.analysis.data.n is not None else None
    why = "takes too long"
    for share in FEWER if n is not None else FEWER[:1]:
        if n is not None and share > 1 and n // share < LEAST_N:
            break
        small = parsed.analysis if n is None or share == 1 else substitute(parsed.analysis, "n", Num(Fraction(n // share)))
        found = _trials(replace(parsed, analysis=small), name, measure)
        if "why" not in found:
            return {**found, "n": None if n is None else n // share}
        if found["why"] != "takes too long":
            return found if share == 1 else {"why": why}
        why = f"takes too long from n = {n // share:,} on" if n is not None else why
    return {"why": why}


def _trials(parsed: Parsed, name: str, measure: str) -> dict[str, Any]:
    from dpspec.executor.study import study

    releases = tuple(
        r.model_copy(update={"expect": Expect(measure=measure, at_most=Num(Fraction(1)))}) if r.name == name else r
        for r in parsed.analysis.releases
    )
    alone = parsed.analysis.model_copy(update={"study": None, "releases": releases})
    LATE.clear()
    signal.signal(signal.SIGPROF, _late)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        result = study(replace(parsed, analysis=alone), trials=TRIALS, seed=SEED, workers=1)
    except Exception as error:  # an alarm inside of a draw is a PrivacyError, inside of an import whatever the import makes of it
        if LATE:
            return {"why": "takes too long"}
        if not isinstance(error, (SpecError, OSError)):
            raise
        if isinstance(error, SpecError) and parsed.analysis.simulate:
            return {"why": error.diagnostics[0].message}
        return {"why": "its data are not at hand"}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    point = next(p for p in result.body["points"] if p["release"] == name)
    return {"mean": point["error"]["mean"], "trivial": point["trivial_error"]}


#: Not empty once the alarm has rung.
LATE: list[bool] = []


def _late(*_: object) -> None:
    LATE.append(True)
    raise TimeoutError


def rows(path: Path, before: Mapping[tuple[str, str], Row], *, values: bool = False, again: bool = False) -> Iterator[Row]:
    """One row a bound of the releases of a spec, measurements of ``before`` where they are of the same numbers."""
    parsed = parse_file(path)
    spec = str(path.relative_to(ROOT))
    known = of_releases(parsed)
    for release in known:
        seen: dict[str, Row] = {}
        for measure in dict.fromkeys(b.measure for b in release.bounds):
            old = before.get((spec, measure), {})
            if measure not in of(release.release.task).measurable:
                seen[measure] = {"why": "no study measures it"}
            elif values or (not again and old.get("mean") is not None):
                seen[measure] = {key: old.get(key) for key in ("mean", "trivial", "why", "n")} if old else {"why": "not measured"}
            else:
                seen[measure] = measured(parsed, release.release.name, measure)
        for b in release.bounds:
            at = seen[b.measure]
            yield row(spec, b, release, at, _there(parsed, release, b, at.get("n")))


def of_releases(parsed: Parsed) -> list[Bounded]:
    return [r for r in compile_draft(parsed).releases if isinstance(r, Bounded)]


def _there(parsed: Parsed, release: Bounded, b: Any, n: int | None) -> tuple[Bounded, Any]:
    """The release and its bound at the n that was measured, which is the gallery's unless that took too long."""
    from dpspec.executor.design import substitute

    if n is None or parsed.analysis.data.n is None or int(evaluate(parsed.analysis.data.n)) == n:
        return release, b
    small = replace(parsed, analysis=substitute(parsed.analysis, "n", Num(Fraction(n))))
    there = next(r for r in of_releases(small) if r.release.name == release.release.name)
    return there, next(o for o in there.bounds if (o.theorem, o.measure, o.expression) == (b.theorem, b.measure, b.expression))


def row(spec: str, b: Any, release: Bounded, seen: Row, there: tuple[Bounded, Any]) -> Row:
    from dpspec.executor.study import bound_shape

    at, bound = there
    code = {r["theorem"]: r["code"] for r in tied(at)}
    number = bound.value if bound.kind == "explicit" else bound_shape(bound, at)
    found: Row = {"card": release.module.CARD.id, "spec": spec, "theorem": b.theorem, "measure": b.measure}
    found |= {"expression": b.expression, "number": number, "outside": list(bound.outside), "mean": seen.get("mean")}
    found |= {"trivial": seen.get("trivial"), "why": seen.get("why"), "n": seen.get("n"), "n_of_spec": int(release.problem.facts["n"])}
    if number is None:
        found["unknown"] = unknown(bound, at)
    return {**found, "code": code.get(b.theorem) if b.kind == "explicit" else None}


def unknown(bound: Any, release: Bounded) -> list[str]:
    """The names of an expression that have no value here."""
    from dpspec.executor.study import shape_names

    return sorted(names(formulas.choose(bound.expression, {})[0]) - shape_names(bound, release).keys() - {"pi"})


def main(wanted: tuple[str, ...], *, values: bool = False, again: bool = False) -> None:
    before = read()
    known = {(r["spec"], r["measure"]): r for r in before}
    for path in gallery(wanted):
        try:
            fresh = list(rows(path, known, values=values, again=again))
        except SpecError as error:
            print(f"{path.name}: {error}", file=sys.stderr)
            continue
        print(path.name, file=sys.stderr, flush=True)
        spec = str(path.relative_to(ROOT))
        with open(RESULTS, "r+", encoding="utf-8") as file:  # two families may run beside each other
            fcntl.flock(file, fcntl.LOCK_EX)
            kept = [r for r in json.load(file) if r["spec"] != spec]
            lines = [json.dumps(r) for r in sorted([*kept, *fresh], key=lambda r: (r["card"], r["spec"]))]
            file.seek(0)
            file.write("[\n" + ",\n".join(lines) + "\n]\n")
            file.truncate()


def read() -> list[Row]:
    return list(json.loads(RESULTS.read_text(encoding="utf-8"))) if RESULTS.is_file() else []


if __name__ == "__main__":
    words = tuple(word for word in sys.argv[1:] if not word.startswith("-"))
    main(words, values="--values" in sys.argv, again="--again" in sys.argv)
