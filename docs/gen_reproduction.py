"""Runs the specs of specs/reproduce and writes docs/reproduction.md: ``python docs/gen_reproduction.py RESULTS [--no-run]``.

RESULTS is a folder for the studies; finished ones are not run again, interrupted ones go on. ``--no-run``: write the page from what is
there; an experiment without results keeps the section that the page has. Setting and scale come from each spec's opening comment, the
claims from docs/reproduction-claims.yaml, the numbers from the studies; the verdict is computed from both.
"""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[1]
SPECS = ROOT / "specs" / "reproduce"
CLAIMS = ROOT / "docs" / "reproduction-claims.yaml"
PAGE = ROOT / "docs" / "reproduction.md"

Body = Mapping[str, Any]


def comment(spec: Path) -> str:
    """The opening comment of a spec: what the document did and what is done here."""
    lines = itertools.takewhile(lambda x: x.startswith("#"), spec.read_text(encoding="utf-8").splitlines())
    return " ".join(line.lstrip("# ").strip() for line in lines)


def series(points: Sequence[Body], variable: str) -> Iterator[list[Body]]:
    """Points that differ in ``variable`` alone, ascending."""
    groups: dict[Any, list[Body]] = {}
    for p in points:
        rest = tuple((k, v) for k, v in p["at"].items() if k != variable)
        groups.setdefault((p["release"], p["algorithm"], rest), []).append(p)
    for group in groups.values():
        yield sorted(group, key=lambda p: float(p["at"][variable]))


def lower(a: Body, b: Body, by: float = 1.0) -> bool:
    """Is the mean of ``a`` below that of ``b`` beyond both 95% intervals, and by a factor ``by``?"""
    return bool(a["error"]["ci95"][1] * by < b["error"]["ci95"][0])


def constant(group: Sequence[Body]) -> bool:
    """Whether the error is the same to the last digit at every point of a series: there is no trend in it."""
    return len({(p["error"]["mean"], *p["error"]["ci95"]) for p in group}) == 1


#: What defaults of settings (step lengths, degrees, shares of a budget) leave between two algorithms: docs/defaults.md finds them within
#: this factor of tuned ones. An order of two algorithms is called beyond it only.
DEFAULTS = 2.0


def together(found: Sequence[bool | None]) -> bool | None:
    return False if False in found else None if None in found or not found else True


def check(claim: Body, points: Sequence[Body]) -> tuple[str, bool | None]:
    """The claim in words, and whether the measured means bear it out (None: the intervals do not decide)."""
    if "falls" in claim or "rises" in claim:
        word = "falls" if "falls" in claim else "rises"
        variable = claim[word]
        found: list[bool | None] = []
        for group in series(points, variable):
            first, last = (group[0], group[-1]) if word == "falls" else (group[-1], group[0])
            found.append(True if lower(last, first) else False if lower(first, last) or constant(group) else None)
        return f"error {word} with {variable}", together(found)
    if "flat" in claim:
        flat = claim["flat"]
        if flat["in"] == "algorithm":
            means: dict[str, list[float]] = {}
            for p in points:
                if p["algorithm"] in flat["of"]:
                    means.setdefault(str(p["at"]), []).append(p["error"]["mean"])
            ratio = max(max(m) / min(m) for m in means.values())
            return f"{' and '.join(flat['of'])} within a factor of {flat['factor']} (measured {ratio:.2g})", ratio <= flat["factor"]
        ratios = [max(m) / min(m) for m in ([p["error"]["mean"] for p in g] for g in series(points, flat["in"]))]
        return f"error within a factor of {flat['factor']} over {flat['in']} (measured {max(ratios):.2g})", max(ratios) <= flat["factor"]
    if "turns" in claim:
        of, at = claim["turns"]["of"], claim["turns"]["at"]
        ends = [group for group in (sorted(g, key=lambda p: float(p["at"][of])) for g in series(points, of)) if group]
        ends.sort(key=lambda g: float(g[0]["at"][at]))
        near, far = ends[0], ends[-1]
        turned = any(lower(near[j], near[i]) and lower(far[i], far[j]) for i, j in itertools.combinations(range(len(near)), 2))
        least = [show(min(g, key=lambda p: p["error"]["mean"])["at"][of]) for g in ends]
        text = f"of two values of {of} the larger has the lower error at the least {at} and the smaller at the greatest"
        return f"{text} (least error at {' / '.join(least)})", True if turned else None
    if "below" in claim:
        a, b = claim["below"]
        pairs = [(p, q) for p in points for q in points if (p["algorithm"], q["algorithm"]) == (a, b) and p["at"] == q["at"]]
        calls = [True if lower(p, q, DEFAULTS) else False if lower(q, p, DEFAULTS) else None for p, q in pairs]
        shares = [p["error"]["mean"] / q["error"]["mean"] for p, q in pairs if q["error"]["mean"] > 0]
        measured = f" (measured {span(shares)} of it)" if shares else ""
        return f"{a} has a lower error than {b}{measured}", together(calls)
    if "cheaper" in claim:
        a, b = claim["cheaper"]
        pairs = [(p, q) for p in points for q in points if (p["algorithm"], q["algorithm"]) == (a, b) and p["at"] == q["at"]]
        shares = [p["gradients"] / q["gradients"] for p, q in pairs]
        return f"{a} evaluates fewer gradients than {b} (measured {span(shares)} of them)", max(shares) < 1
    if "printed" in claim:
        return printed(claim["printed"], points)
    raise ValueError(f"unknown claim {claim}")


def printed(claim: Body, points: Sequence[Body]) -> tuple[str, bool | None]:
    """Numbers that the document prints, by the value of a variable: within ``factor`` of ``values``, and at least ``above``."""
    variable, factor = claim["in"], claim.get("factor", 1.0)
    found, said = [], []
    for p in points:
        mean, at = p["error"]["mean"], float(p["at"][variable])
        for key, number in claim.get("values", {}).items():
            if float(key) == at:
                found.append(max(mean / number, number / mean) <= factor)
                said.append(f"{number:g} at {variable} = {show(at)} (measured {mean:.3g})")
        for key, number in claim.get("above", {}).items():
            if float(key) == at:
                found.append(mean >= number)
                said.append(f"more than {number:g} at {variable} = {show(at)} (measured {mean:.3g})")
    return ("within a factor of " + f"{factor:g} of " if "values" in claim else "") + ", ".join(said), together(found)


def span(values: Sequence[float]) -> str:
    low, high = f"{min(values):.2g}", f"{max(values):.2g}"
    return low if low == high else f"{low} to {high}"


def gradients(spec: Path) -> dict[tuple[str, str], float]:
    """Gradients of single records that a run evaluates, by algorithm and point, where the cards state them."""
    from dpspec.compiler.draft import Bounded
    from dpspec.compiler.passes import compile_draft
    from dpspec.executor.design import design
    from dpspec.lang.source import parse_file

    found = {}
    for point in design(parse_file(spec), trials=None, seed=None, vary={}, compare=(), quick=False).points:
        for release in compile_draft(point.parsed).releases:
            if isinstance(release, Bounded) and (count := release.cost.get("gradients")) is not None:
                found[release.module.CARD.id, str(dict(point.at))] = float(count)
    return found


def verdict(results: Sequence[bool | None]) -> str:
    """The documents' figures have no numbers, so agreement is a trend and never more."""
    return {True: "trend only", False: "does not reproduce", None: "not decided"}[together(results)]


def show(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else f"{value:g}"


def section(spec: Path, claim: Body | None, body: Body | None) -> tuple[str, str]:
    """(verdict, Markdown) of one experiment."""
    out = [f"## {spec.stem}", "", comment(spec), ""]
    if body is None:
        return "not run", "\n".join([*out, "Not run yet.", ""])
    counts = gradients(spec) if "minimise" in spec.read_text(encoding="utf-8") else {}
    points = [{**p, "gradients": counts.get((p["algorithm"], str(p["at"])))} for p in body["points"]]
    counted = any(p["gradients"] for p in points)
    word = "not judged"
    if claim is not None:
        word, lines = _judged(claim, points)
        out += lines
    names = list(points[0]["at"])
    bounds = any(p["bound"] and p["bound"]["value"] is not None for p in points)
    others = list(dict.fromkeys(name for p in points for name in p.get("beside", {})))
    head = ["algorithm", *names, "trials", f"mean {points[0]['error']['measure']}", "95% interval", "non-private"]
    head += [*(f"{name} (not private)" for name in others), "zero vector"]
    head += ["proved bound"] if bounds else []
    head += ["gradients a run"] if counted else []
    out += ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for p in points:
        e = p["error"]
        row = [p["algorithm"], *(show(p["at"][n]) for n in names), str(p["trials"]), f"{e['mean']:.4g}"]
        row += [f"{e['ci95'][0]:.3g} to {e['ci95'][1]:.3g}"]
        row += [f"{p['reference_error']['mean']:.3g}" if p["reference_error"] else "-"]
        row += [f"{p['beside'][name]['mean']:.3g}" if name in p.get("beside", {}) else "-" for name in others]
        row += [f"{p['trivial_error']:.3g}" if p.get("trivial_error") is not None else "-"]
        row += [f"{p['bound']['value']:.3g}" if p["bound"] and p["bound"]["value"] is not None else "-"] if bounds else []
        row += [f"{p['gradients']:.3g}" if p["gradients"] else "-"] if counted else []
        out.append("| " + " | ".join(row) + " |")
    if body["rates"]:
        out += ["", "| rate in | algorithm | at | bound's exponent | measured | 95% interval | verdict |", "|---|---|---|---|---|---|---|"]
        for r in body["rates"]:
            at = ", ".join(f"{k} = {show(v)}" for k, v in r["at"].items()) or "-"
            interval = f"{r['ci95'][0]:.2f} to {r['ci95'][1]:.2f}"
            out.append(
                f"| {r['variable']} | {r['algorithm']} | {at} | {r['expected']:g} | {r['measured']:.2f} | {interval} | {r['verdict']} |"
            )
    command = f"dpspec study specs/reproduce/{spec.name} --out {spec.stem}"
    return word, "\n".join([*out, "", f"`{command}` (seed {body['seed']})", ""])


def points_of(text: str) -> list[Body]:
    """The points of a section, as far as its table of measurements tells them: for claims that are judged anew."""
    rows = [[c.strip() for c in line.strip("|").split(" | ")] for line in text.splitlines() if line.startswith("| ")]
    heads = [i for i, row in enumerate(rows) if row and row[0] == "algorithm" and "trials" in row]
    if not heads:
        return []
    head = rows[heads[0]]
    found: list[Body] = []
    names = head[1 : head.index("trials")]
    where = head.index("95% interval")
    for row in itertools.takewhile(lambda r: len(r) == len(head) and re.match(r"[-0-9.e+]+ to ", r[where]), rows[heads[0] + 1 :]):
        cells = dict(zip(head, row, strict=True))
        low, high = (float(v) for v in cells["95% interval"].split(" to "))
        mean = next(float(v) for k, v in cells.items() if k.startswith("mean "))
        at = {name: float(cells[name].replace(",", "")) for name in names}
        count = cells.get("gradients a run", "-")
        error = {"mean": mean, "ci95": [low, high]}
        found.append({"release": "", "algorithm": row[0], "at": at, "error": error, "gradients": None if count == "-" else float(count)})
    return found


def judged_anew(claim: Body | None, verdict_then: str, text: str) -> tuple[str, str]:
    """A section that was written before, with the claims judged by the rules of today on the numbers that it shows."""
    points = points_of(text)
    if claim is None or not points:
        return verdict_then, text
    word, lines = _judged(claim, points)
    head, _, rest = text.partition("**Verdict: ")
    table = rest.find("\n| algorithm |")
    if not rest or table < 0:
        return verdict_then, text
    return word, head + "\n".join(lines) + rest[table:]


def _judged(claim: Body, points: Sequence[Body]) -> tuple[str, list[str]]:
    results = [check(c, points) for c in claim["checks"]]
    word, marks = verdict([r for _, r in results]), {True: "yes", False: "**no**", None: "not decided"}
    lines = [f"**Verdict: {word}.** {claim['why'].strip()}", ""]
    return word, [*lines, "| the document says | measured |", "|---|---|", *(f"| {text} | {marks[r]} |" for text, r in results), ""]


def sections_of(page: str) -> dict[str, tuple[str, str]]:
    """(verdict, Markdown) of the experiments of a page that was written before."""
    verdicts = dict(re.findall(r"^\| \[([^\]]+)\]\([^)]*\) \| ([^|]+) \|$", page, re.MULTILINE))
    parts = re.split(r"^(?=## )", page, flags=re.MULTILINE)[1:]
    found = {part.partition("\n")[0].removeprefix("## ").strip(): part.rstrip("\n") + "\n" for part in parts}
    return {name: (verdicts.get(name, "not run"), part) for name, part in found.items()}


def main(words: Sequence[str]) -> None:
    results = Path(words[0])
    before = sections_of(PAGE.read_text(encoding="utf-8")) if PAGE.is_file() else {}
    claims = YAML(typ="safe").load(CLAIMS.read_text(encoding="utf-8"))
    rows, sections, versions = [], [], ""
    for spec in sorted(SPECS.glob("*.dps")):
        file = results / spec.stem / "study.json"
        if not file.is_file() and "--no-run" not in words:
            subprocess.run(
                [sys.executable, "-m", "dpspec", "study", str(spec), "--out", str(file.parent), "--quiet"], cwd=ROOT, check=False
            )
        body = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None
        if body is None and spec.stem in before:
            word, text = judged_anew(claims.get(spec.stem), *before[spec.stem])
        else:
            word, text = section(spec, claims.get(spec.stem), body)
        rows.append(f"| [{spec.stem}](#{spec.stem.replace('.', '')}) | {word} |")
        sections.append(text)
        versions = versions or ", ".join(f"{k} {v}" for k, v in (body or {}).get("environment", {}).items())
    kept = re.search(r"^Environment: (.+)\.$", PAGE.read_text(encoding="utf-8") if PAGE.is_file() else "", re.MULTILINE)
    versions = versions or (kept[1] if kept else "")
    head = [
        "# Experiments of the documents, repeated",
        "",
        "Written by `python docs/gen_reproduction.py RESULTS` from studies that were run; nothing on this page was adjusted to agree. The",
        "documents' experiments show figures, mostly without numbers, so the most that a comparison can find is the same trend.",
        "",
        "- *trend only*: every statement of the document that can be tested holds beyond the 95% intervals",
        "- *does not reproduce*: one is contradicted beyond them, or an error that should change is the same at every point",
        f"- *not decided*: the intervals overlap, or two algorithms lie within a factor of {DEFAULTS:g}, which defaults decide",
        "",
        "Each experiment has one verdict, and the sentences after it name its cause.",
        "",
        "Chapter 6 is discussed at more length in [reproduction-matrix.md](reproduction-matrix.md).",
        "",
        f"Environment: {versions}.",
        "",
        "| experiment | verdict |",
        "|---|---|",
    ]
    PAGE.write_text("\n".join([*head, *rows, "", *sections]), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
