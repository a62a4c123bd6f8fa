"""Default settings against the best of a stated grid that sees the truth: `docs/defaults.md`.

    python -m benchmarks.defaults sparse em          measure the cells of two families that are not in benchmarks/results/defaults yet
    python -m benchmarks.defaults em --only dp-em    the cells of one algorithm; --again measures anew
    python -m benchmarks.defaults --write            the page from the results alone; --check fails where the page is not what they give

A family is a file ``benchmarks/defaults/FAMILY.py`` with ``cells() -> Iterable[Cell]`` and, where a cell misses, ``REASONS``: a sentence by
(algorithm, law). Laws are drawn by seed and are neither the gallery's nor the real data sets that docs/benchmarks.md reports on.

What is measured, at the spec's own n and budget:

- *tuned*: every point of the grid on the trials of one seed; the best is then measured on the trials of another seed beside the default
  (same records, paired), so that it is not the luckiest of many that counts. It pays nothing for having looked.
- *trivial* and *without privacy*: what the study says of the zero vector and of the reference.
- *bound*: the explicit bound of the plan over the mean error of the default.
- *predicted*: what ``by auto`` expects of the default over what is measured, where the algorithm predicts.
- *slopes* in n and epsilon, with the study's own 95% interval and verdict, where the cell states values to run through.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import itertools
import json
import math
import pkgutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parent
RESULTS: Final = HERE.parent / "results" / "defaults"
PAGE: Final = HERE.parent.parent / "docs" / "defaults.md"
#: A cell is good within this factor of the tuned error; no default may be worse than the trivial answer where tuning is this much better.
GOOD, USEFUL = 2.0, 1 / 3


@dataclass(frozen=True)
class Times:
    """A value of a grid as a multiple of the default's own value (whole numbers stay whole, at least 1)."""

    factor: float


def times(*factors: float) -> tuple[Times, ...]:
    return tuple(Times(f) for f in factors)


@dataclass(frozen=True)
class Cell:
    """One algorithm on one law.

    ``spec``: a .dps analysis with one release and ``{by}`` where the algorithm and its options go (``by {by}``), a `simulate` block and no
    `study` block. ``grid``: by option, words or numbers of the language, or :func:`times`; the whole product is tried, points that the
    compiler refuses are counted. ``n``, ``epsilon``: values of the slopes (three or more), none where empty. ``options``: what every run
    states, default and tuned (public facts, no tuning).
    """

    algorithm: str
    law: str
    spec: str
    grid: Mapping[str, Sequence[Times | float | str]]
    trials: int = 5
    n: Sequence[int] = ()
    epsilon: Sequence[float] = ()
    options: str = ""

    def key(self) -> str:
        said = (
            self.algorithm,
            self.law,
            self.spec,
            {k: [repr(v) for v in vs] for k, vs in self.grid.items()},
            self.trials,
            *self.n,
            *self.epsilon,
            self.options,
        )
        return hashlib.sha256(repr(said).encode()).hexdigest()[:16]

    def text(self, options: str = "", *, trials: int, seed: int, vary: str = "") -> str:
        words = ", ".join(w for w in (self.options, options) if w)
        by = self.algorithm + (f" with {words}" if words else "")
        block = "".join(f"\n  {line}" for line in ([f"vary {vary}"] if vary else []) + [f"trials {trials}, seed {seed}"])
        return self.spec.replace("{by}", by).rstrip() + f"\n\nstudy{block}\n"


def _study(text: str) -> dict[str, Any]:
    from dpspec.executor.study import study
    from dpspec.lang.source import parse_text

    result: dict[str, Any] = study(parse_text(text, surface="dps"), workers=1).to_json()
    return result


def _defaults(cell: Cell) -> tuple[Mapping[str, Any], float | None]:
    """The default's own values of the tunables, and the error that the planner predicts (None: no prediction)."""
    from dpspec.compiler.passes import compile_draft
    from dpspec.lang.source import parse_text

    draft = compile_draft(parse_text(cell.text(trials=2, seed=1), surface="dps"))
    (release,) = draft.releases
    said = [c.predicted_error for c in release.candidates if c.id == cell.algorithm and c.predicted_error is not None]
    return dict(release.tunables), (float(said[0]) if said and math.isfinite(said[0]) else None)


def _points(cell: Cell, own: Mapping[str, Any]) -> Iterator[str]:
    for values in itertools.product(*cell.grid.values()):
        words = []
        for name, value in zip(cell.grid, values, strict=True):
            if isinstance(value, Times):
                base = own[name]
                value = max(1, round(base * value.factor)) if isinstance(base, int) else float(f"{float(base) * value.factor:.6g}")
            words.append(f"{name} = {value}")
        yield ", ".join(words)


def measured(cell: Cell, seed: int = 5) -> dict[str, Any]:
    """The row of one cell. Raises SpecError where the default itself has no plan: a default that is refused is a failure to be seen."""
    from dpspec.spec.diagnostics import SpecError

    own, predicted = _defaults(cell)
    found: dict[str, float] = {}
    refused = 0
    for options in dict.fromkeys(_points(cell, own)):
        try:
            (point,) = _study(cell.text(options, trials=cell.trials, seed=seed))["points"]
        except SpecError:
            refused += 1
            continue
        found[options] = float(point["error"]["mean"])
    (point,) = _study(cell.text(trials=2 * cell.trials, seed=seed + 1))["points"]
    error = float(point["error"]["mean"])
    ranked = sorted((e, o) for o, e in found.items() if math.isfinite(e))
    best, tuned = "", error
    if ranked:
        best = ranked[0][1]
        (again,) = _study(cell.text(best, trials=2 * cell.trials, seed=seed + 1))["points"]
        tuned = float(again["error"]["mean"])
        if not tuned < error:  # the default is a setting like others
            best, tuned = "", error
    if predicted is not None and point["error"]["measure"] == "squared-l2-error":  # planners predict distances
        predicted *= predicted
    bound = point["bound"]
    explicit = bound is not None and bound.get("kind") == "explicit" and bound.get("value") is not None
    reference = point["reference_error"]
    row: dict[str, Any] = {
        "algorithm": cell.algorithm,
        "law": cell.law,
        "key": cell.key(),
        "measure": point["error"]["measure"],
        "trials": 2 * cell.trials,
        "tried": len(found),
        "refused": refused,
        "default": {"error": error, "ci95": point["error"]["ci95"]},
        "tuned": {"error": tuned, "options": best},
        "trivial": point["trivial_error"],
        "without_privacy": None if reference is None else reference["mean"],
        "bound_over_measured": bound["value"] / error if explicit and error > 0 else None,
        "predicted_over_measured": predicted / error if predicted is not None and error > 0 else None,
        "slopes": {},
    }
    for name, values in (("n", cell.n), ("epsilon", cell.epsilon)):
        if not values:
            continue
        rates = _study(cell.text(trials=cell.trials, seed=seed + 2, vary=f"{name} in {list(values)}"))["rates"]
        for rate in rates:
            row["slopes"][rate["variable"]] = {k: rate[k] for k in ("measured", "ci95", "expected", "expected_here", "verdict")}
    return row


# ---------------------------------------------------------------------------------------------------------------- results


def families() -> list[str]:
    return sorted(m.name for m in pkgutil.iter_modules([str(HERE)]) if m.name not in ("harness", "__main__"))


def _cells(family: str) -> list[Cell]:
    return list(importlib.import_module(f"benchmarks.defaults.{family}").cells())


def _kept(family: str) -> list[dict[str, Any]]:
    file = RESULTS / f"{family}.json"
    return list(json.loads(file.read_text())) if file.exists() else []


def measure(family: str, only: Sequence[str], again: bool) -> None:
    cells = [c for c in _cells(family) if not only or c.algorithm in only]
    for cell in cells:
        rows = {(r["algorithm"], r["law"]): r for r in _kept(family)}
        old = rows.get((cell.algorithm, cell.law))
        if old is not None and old["key"] == cell.key() and not again:
            continue
        row = measured(cell)
        rows[cell.algorithm, cell.law] = row
        RESULTS.mkdir(parents=True, exist_ok=True)
        body = json.dumps([rows[k] for k in sorted(rows)], indent=1, allow_nan=False, default=float)
        (RESULTS / f"{family}.json").write_text(body + "\n")
        print(
            f"{family}: {cell.algorithm} on {cell.law}: {_number(row['default']['error'])}, tuned {_number(row['tuned']['error'])}",
            flush=True,
        )


# ------------------------------------------------------------------------------------------------------------------- page

HEAD: Final = """# Defaults

Written by `python -m benchmarks.defaults --write` from `benchmarks/results/defaults`; how it is measured stands in
`benchmarks/defaults/harness.py`, laws and grids in one file a family beside it. *Tuned*: the best of a grid that knows the true error and
pays nothing for looking, measured on trials that it was not chosen on. *Trivial*: the zero vector (or what the task takes for it).
*Bound* and *predicted*: the plan's explicit bound, and the planner's expectation, over the measured error of the default. Slopes are
exponents of the error with their 95% interval; the theory's exponent over the same points stands after the bar.
"""


TITLES: Final = (
    *("algorithm", "law", "measure", "default", "tuned", "ratio", "at", "trivial", "without privacy", "bound", "predicted"),
    *("slope in n", "slope in epsilon"),
)


def _number(v: float | None) -> str:
    return "-" if v is None else f"{v:.3g}"


def _slope(s: Mapping[str, Any] | None) -> str:
    if s is None:
        return "-"
    low, high = s["ci95"]
    expected = s["expected_here"] if s["expected_here"] is not None else s["expected"]
    return f"{s['measured']:.2f} [{low:.2f}, {high:.2f}] \\| {'-' if expected is None else f'{expected:.2f}'}"


def ratio(row: Mapping[str, Any]) -> float:
    tuned = row["tuned"]["error"]
    return float(row["default"]["error"] / tuned) if tuned > 0 else math.inf if row["default"]["error"] > 0 else 1.0


def failures(rows: Iterable[Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], str]]:
    """Rows that miss, and what they miss: more than twice the tuned error, or worse than the trivial answer where tuning is useful."""
    found = []
    for row in rows:
        trivial = row["trivial"]
        if trivial is not None and row["tuned"]["error"] < USEFUL * trivial and row["default"]["error"] > trivial:
            found.append((row, "worse than the trivial answer"))
        elif ratio(row) > GOOD:
            found.append((row, f"{ratio(row):.2f} times the tuned error"))
    return found


def page() -> str:
    parts = [HEAD]
    everything: list[dict[str, Any]] = []
    body: list[str] = []
    for family in families():
        rows = sorted(_kept(family), key=lambda r: (r["algorithm"], r["law"]))
        if not rows:
            continue
        everything += rows
        reasons = getattr(importlib.import_module(f"benchmarks.defaults.{family}"), "REASONS", {})
        body.append(f"\n## {family}\n")
        body.append("| " + " | ".join(TITLES) + " |")
        body.append("|---|---|---|---:|---:|---:|---|---:|---:|---:|---:|---|---|")
        for r in rows:
            cells = (
                f"`{r['algorithm']}`",
                r["law"],
                r["measure"],
                _number(r["default"]["error"]),
                _number(r["tuned"]["error"]),
                f"{ratio(r):.2f}",
                f"`{r['tuned']['options']}`" if r["tuned"]["options"] else "default",
                _number(r["trivial"]),
                _number(r["without_privacy"]),
                _number(r["bound_over_measured"]),
                _number(r["predicted_over_measured"]),
                _slope(r["slopes"].get("n")),
                _slope(r["slopes"].get("epsilon")),
            )
            body.append("| " + " | ".join(cells) + " |")
        missed = failures(rows)
        if missed:
            body.append("\nMissed:\n")
            for r, what in missed:
                why = reasons.get((r["algorithm"], r["law"]), reasons.get((r["algorithm"], ""), "no reason is known."))
                body.append(f"- `{r['algorithm']}` on {r['law']}: {what}. {why}")
    good = sum(ratio(r) <= GOOD for r in everything)
    worse = sum(what.startswith("worse") for _, what in failures(everything))
    if everything:
        share = f"{good} of {len(everything)} cells ({100 * good / len(everything):.0f} %) are within {GOOD:g} times the tuned error"
        parts.append(f"\n{share}; {worse} are worse than the trivial answer where the tuned error is below a third of it.\n")
    return "".join(parts) + "\n".join(body) + "\n"


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.defaults", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("family", nargs="*", help="families to measure: " + ", ".join(families()))
    parser.add_argument("--only", action="append", default=[], metavar="ALGORITHM")
    parser.add_argument("--again", action="store_true", help="measure cells that have a result too")
    parser.add_argument("--write", action="store_true", help="write docs/defaults.md")
    parser.add_argument("--check", action="store_true", help="exit 1 where docs/defaults.md is not what the results give")
    said = parser.parse_args(argv)
    if unknown := [f for f in said.family if f not in families()]:
        parser.error(f"no family {', '.join(unknown)}; there are {', '.join(families())}")
    for family in said.family:
        measure(family, said.only, said.again)
    if said.write:
        PAGE.write_text(page())
    if said.check and PAGE.read_text() != page():
        sys.exit("docs/defaults.md is not what the results give: python -m benchmarks.defaults --write")
