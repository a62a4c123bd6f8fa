"""Every bound of the gallery, its number and what is measured: ``python -m benchmarks.bounds [--values] [FAMILY ...]``.

Each gallery spec is compiled at its own numbers; the value that its plan shows (from the printed expression) stands beside that of the
algorithm's code. Then three trials at that point measure the error in every measure that a bound speaks of and a study knows: the ratio
is mean error over bound, for an order bound over its expression at C = 1. Specs of real data that are not at hand, and measures whose
trials take more than ``SECONDS`` of CPU, have no ratio and say why. ``--values``: no trials, measurements of before are kept. Results:
benchmarks/results/bounds.json, from which docs/gen_bounds.py writes docs/bounds.md.
"""

from __future__ import annotations

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
from dpspec.privacy.meter import PrivacyError
from dpspec.spec.diagnostics import SpecError
from dpspec.spec.expr import Num
from dpspec.spec.model import Expect
from dpspec.tasks.registry import of
from dpspec.theory import formulas

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "bounds.json"
TRIALS, SEED, SECONDS = 3, 1, 8


def gallery(families: tuple[str, ...] = ()) -> Iterator[Path]:
    for path in sorted((ROOT / "specs").glob("*/*.dps")):
        if path.parent.name not in ("reproduce", "showcase", "team") and (not families or path.parent.name in families):
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


def measured(parsed: Parsed, draft: Any, release: Bounded) -> Iterator[dict[str, Any]]:
    from dpspec.executor.study import study

    known = of(release.release.task).measurable
    for measure in dict.fromkeys(b.measure for b in release.bounds):
        if measure not in known:
            yield {"measure": measure, "why": "no study measures it"}
            continue
        releases = tuple(
            r.model_copy(update={"expect": Expect(measure=measure, at_most=Num(Fraction(1)))}) if r.name == release.release.name else r
            for r in parsed.analysis.releases
        )
        alone = parsed.analysis.model_copy(update={"study": None, "releases": releases})
        signal.signal(signal.SIGPROF, _late)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            result = study(replace(parsed, analysis=alone), trials=TRIALS, seed=SEED, workers=1)
        except (SpecError, TimeoutError, OSError, PrivacyError) as error:  # an alarm inside of a draw is a PrivacyError
            data = isinstance(error, (SpecError, OSError)) and not isinstance(error, TimeoutError)
            yield {"measure": measure, "why": "its data are not at hand" if data else "takes too long"}
            continue
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        point = next(p for p in result.body["points"] if p["release"] == release.release.name)
        yield {"measure": measure, "mean": point["error"]["mean"], "trivial": point["trivial_error"]}


def _late(*_: object) -> None:
    raise TimeoutError


def rows(path: Path, known: Mapping[tuple[str, str], Mapping[str, Any]] | None = None) -> Iterator[dict[str, Any]]:
    """One row a bound of the releases of a spec. ``known``: measurements by spec and measure, in the place of trials."""
    from dpspec.executor.study import bound_shape

    parsed = parse_file(path)
    draft = compile_draft(parsed)
    for release in draft.releases:
        if not isinstance(release, Bounded):
            continue
        numbers = {row["theorem"]: row for row in tied(release)}
        spec = str(path.relative_to(ROOT))
        if known is None:
            found = {row["measure"]: row for row in measured(parsed, draft, release)}
        else:
            found = {b.measure: dict(known.get((spec, b.measure), {"why": "not measured"})) for b in release.bounds}
        for b in release.bounds:
            seen = found.get(b.measure, {})
            number = b.value if b.kind == "explicit" else bound_shape(b, release)
            row = {"card": release.module.CARD.id, "spec": spec, "theorem": b.theorem, "measure": b.measure}
            row |= {"expression": b.expression, "number": number, "outside": list(b.outside), "mean": seen.get("mean")}
            row |= {"trivial": seen.get("trivial"), "why": seen.get("why")}
            yield {**row, "code": numbers.get(b.theorem, {}).get("code") if b.kind == "explicit" else None}


def main(families: tuple[str, ...], *, values: bool = False) -> None:
    before = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.is_file() else []
    known = {(row["spec"], row["measure"]): row for row in before}
    fresh: list[dict[str, Any]] = []
    for path in gallery(families):
        try:
            fresh += rows(path, known if values else None)
        except SpecError as error:
            print(f"{path.name}: {error}", file=sys.stderr)
        print(path.name, file=sys.stderr, flush=True)
        again = {row["spec"] for row in fresh}
        kept = [row for row in before if row["spec"] not in again]
        lines = [json.dumps(row) for row in sorted([*kept, *fresh], key=lambda r: (r["card"], r["spec"]))]
        RESULTS.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main(tuple(word for word in sys.argv[1:] if not word.startswith("-")), values="--values" in sys.argv)
