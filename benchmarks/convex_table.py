"""The tables of the accuracy benchmark, from result files alone: nothing is measured here.

    python -m benchmarks.convex_table RESULTS_DIR [--page docs/benchmarks.md] [--check]

Reads every *.jsonl of RESULTS_DIR (benchmarks/convex_accuracy.py and benchmarks/peers/logistic.py write them) and replaces what
stands between the two markers of the page. ``--check`` changes nothing and fails if the page is not what the files give.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import Any

from benchmarks.convex_data import key, read

BEGIN = "<!-- accuracy: begin; written by benchmarks/convex_table.py, do not edit -->"
END = "<!-- accuracy: end -->"
AUTO = "dpspec, by auto"
Cells = dict[tuple[str, str, float], dict[str, Any]]


def load(folder: Path) -> Cells:
    """The cells of every result file by data set, method and epsilon; of a cell that stands twice, the later."""
    files = sorted(folder.glob("*.jsonl"))
    if not files:
        raise ValueError(f"{folder}: no result files (*.jsonl)")
    return {key(cell): cell for file in files for cell in read(file)}


def best_peer(cells: Cells, data: str, epsilon: float, *, clipping: bool = True) -> dict[str, Any] | None:
    """The tuned peer of least mean error with our neighbouring relation; without those that tune a clipping norm if not ``clipping``."""
    rivals = [
        cell
        for (name, _, eps), cell in cells.items()
        if (name, eps) == (data, epsilon) and cell["side"] == "peer" and cell["tuned"] and cell["relation"] == "replace-one"
        if clipping or not cell.get("clipping")
    ]
    return min(rivals, key=lambda cell: cell["excess_mean"], default=None)


def ratio(ours: dict[str, Any], theirs: dict[str, Any]) -> tuple[float, float, float]:
    """Ratio of the mean errors with a normal 95 % interval on its logarithm (delta method; the runs of the two are independent).

    The interval takes the better peer as given. As that is the least of several noisy means, the ratio leans against us.
    """
    value = ours["excess_mean"] / theirs["excess_mean"]
    spread = math.hypot(*(cell["excess_sd"] / (cell["excess_mean"] * math.sqrt(cell["runs"])) for cell in (ours, theirs)))
    return value, value * math.exp(-1.96 * spread), value * math.exp(1.96 * spread)


def number(value: float) -> str:
    return f"{value:.3g}" if value >= 1e-3 else f"{value:.2e}".replace("e-0", "e-")


def table(cells: Cells, data: str) -> list[str]:
    epsilons = sorted({eps for name, _, eps in cells if name == data})
    order = {"dpspec": 0, "peer": 1}
    methods = sorted({(order[c["side"]], c["relation"] != "replace-one", m) for (name, m, _), c in cells.items() if name == data})

    def line(title: str, entries: list[str], last: str = "") -> str:
        return f"| {title} | " + " | ".join([*entries, last]) + " |"

    def against(clipping: bool) -> tuple[list[str], list[str]]:
        ratios, names = [], []
        for eps in epsilons:
            ours, theirs = cells.get((data, AUTO, eps)), best_peer(cells, data, eps, clipping=clipping)
            names.append("-" if theirs is None else theirs["method"])
            if ours is None or theirs is None:
                ratios.append("-")
            else:
                value, low, high = ratio(ours, theirs)
                ratios.append(f"{value:.2f} [{low:.2f}, {high:.2f}]")
        return ratios, names

    head = [
        line("method", [f"eps {eps:g}" for eps in epsilons], "CPU s a run"),
        "|---|" + "---:|" * (len(epsilons) + 1),
    ]
    chosen = line("its choice", [cells[data, AUTO, eps]["chosen"] if (data, AUTO, eps) in cells else "-" for eps in epsilons])
    every, names = against(True)
    unclipped, _ = against(False)
    summary = [
        chosen,
        line("over the best tuned peer", every),
        line("that peer", names),
        line("over the best tuned peer that does not tune a clipping norm", unclipped),
    ]
    body = []
    for _, other, method in methods:
        row = [cells.get((data, method, eps)) for eps in epsilons]
        common = max(c["runs"] for c in cells.values())
        entries = ["-" if c is None else number(c["excess_mean"]) + ("" if c["runs"] == common else f" *({c['runs']} runs)*") for c in row]
        times = sorted(c["seconds"] for c in row if c is not None)
        title = f"**{method}**" if method == AUTO else f"{method} (*add/remove: weaker, not compared*)" if other else method
        body.append(line(title, entries, f"{times[len(times) // 2]:.2g}"))
        if method == AUTO:
            body += summary
    return head + body


def verdict(cells: Cells) -> str:
    """How many cells ``by auto`` wins, with and without the peers that tune a clipping norm."""

    def count(clipping: bool) -> str:
        found = []
        for (data, method, eps), ours in cells.items():
            theirs = best_peer(cells, data, eps, clipping=clipping) if method == AUTO else None
            if theirs is not None:
                found.append(ratio(ours, theirs))
        if not found:
            return "no cell is measured on both sides"
        no_worse = sum(value <= 1 for value, _, _ in found)
        below, above = sum(high < 1 for _, _, high in found), sum(low > 1 for _, low, _ in found)
        worst = max(value for value, _, _ in found)
        return (
            f"no worse in {no_worse} of {len(found)} cells (better beyond the interval in {below}, worse beyond it in {above}; "
            f"largest ratio {worst:.2f})"
        )

    return f"`by auto` over the best tuned peer: {count(True)}. Without the peers that tune a clipping norm: {count(False)}."


def provenance(cells: Cells) -> list[str]:
    lines = []
    for side, name in (("dpspec", "Ours"), ("peer", "Peers")):
        some = [c for c in cells.values() if c["side"] == side]
        if some:
            versions = sorted({f"{k} {v}" for c in some for k, v in c["versions"].items()})
            machines = sorted({f"{c['machine']['cpu']}, {c['machine']['cores']} core(s), {c['machine']['system']}" for c in some})
            dates = sorted({c["date"] for c in some})
            lines.append(
                f"- {name}: measured {' to '.join(dict.fromkeys((dates[0], dates[-1])))} on {'; '.join(machines)}; {', '.join(versions)}."
            )
    return lines


def tables(cells: Cells) -> str:
    parts = [verdict(cells), "", *provenance(cells)]
    for data in sorted({name for name, _, _ in cells}, reverse=True):
        (n, d) = next((c["n"], c["d"]) for (name, _, _), c in cells.items() if name == data)
        parts += ["", f"### {data} (n = {n:,}, d = {d})", "", *table(cells, data)]
    return "\n".join(parts)


def replaced(page: str, text: str) -> str:
    """``page`` with ``text`` between the markers."""
    if page.count(BEGIN) != 1 or page.count(END) != 1 or page.index(BEGIN) > page.index(END):
        raise ValueError(f"the page needs the two lines {BEGIN!r} and {END!r}, once each and in this order")
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.split(END)[1]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--page", type=Path, default=Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    try:
        page = args.page.read_text(encoding="utf-8")
        new = replaced(page, tables(load(args.results)))
    except (OSError, ValueError) as error:
        print(f"convex_table: {error}", file=sys.stderr)
        return 2
    if args.check:
        if new != page:
            print(f"convex_table: {args.page} is not what {args.results} gives; run it without --check", file=sys.stderr)
        return int(new != page)
    args.page.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
