"""Writes docs/tables-convex.md: Tables 3.1 to 3.3 of document 000 beside the cards. Usage: python docs/gen_tables.py [OUT]

Printed entries are typed from the document (log(1/delta) is left out there), corrected ones follow from the cards' explicit bounds,
formulas come from the cards, and counts from runs of the gallery specs whose loss counts the records that it is asked a gradient of.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]


class Row(NamedTuple):
    """One row of a printed table. ``holds``: what stands here; empty where the printed excess risk is taken over as a claim."""

    method: str
    card: str
    risk: str
    gradients: str
    holds: str = ""
    cost: str = ""


CLASSIC = "not re-derived"
TABLES = (
    (
        "Table 3.1: strongly convex risks",
        (
            Row(
                "objective perturbation (CMS11)", "objective-perturbation", "p/(n^2 eps^2)", "N/A", "**generalised linear losses only**", ""
            ),
            Row(
                "objective perturbation (KST12)",
                "objective-perturbation",
                "p/(n^2 eps^2) + lam norm(x*)^2/(n eps)",
                "N/A",
                "**generalised linear losses only**; explicit bound below",
            ),
            Row("gradient perturbation (BST14)", "dp-sgd", "p log(n)^2/(n^2 eps^2)", "n^2", CLASSIC, "n mu sqrt(T), by batches"),
            Row(
                "output perturbation (Zhang17)", "output-perturbation", "p/(n^2 eps^2)", "n kappa log(n eps/kappa)", "explicit bound below"
            ),
            Row(
                "output perturbation (Iyengar19)",
                "approximate-minima-perturbation",
                "p/(n^2 eps^2)",
                "N/A",
                "explicit bound below",
                "a solver's",
            ),
            Row(
                "DP-SVRG (Theorem 3.1.2)",
                "dp-svrg",
                "p log(n)/(n^2 eps^2)",
                "(n + kappa) log(n eps/sqrt(p))",
                "**printed noise is not private; with batches the same rate**, d T L^2/(lam n^2 mu^2), T of order log(n)",
                "**n log(n) + n mu sqrt(kappa log(n))**",
            ),
            Row(
                "DP-Katyusha (Theorem 3.1.3)",
                "dp-katyusha",
                "p log(n)^2/(n^2 eps^2)",
                "(n + sqrt(kappa n)) log(n eps/sqrt(p))",
                "**printed steps add no noise; with batches one log(n) less**, d T L^2/(lam n^2 mu^2)",
                "**n log(n) + n mu sqrt(kappa log(n))**",
            ),
            Row("lower bound", "", "min(1, p/(n^2 eps^2))", "", CLASSIC),
        ),
        ("dp-gd", "dp-sgd", "dp-svrg", "dp-katyusha", "output-perturbation", "approximate-minima-perturbation", "objective-perturbation"),
    ),
    (
        "Table 3.2: convex risks",
        (
            Row(
                "objective perturbation (KST12)",
                "objective-perturbation",
                "sqrt(p)/(n eps)",
                "N/A",
                "**generalised linear losses only**; explicit bound below",
            ),
            Row("gradient perturbation (BST14)", "dp-sgd", "sqrt(p) log(n)^(3/2)/(n eps)", "n^2", CLASSIC, "n mu sqrt(T), by batches"),
            Row(
                "output perturbation (Zhang17)",
                "output-perturbation",
                "(sqrt(p)/(n eps))^(2/3)",
                "n (n eps/p)^(2/3)",
                "explicit bound below",
            ),
            Row(
                "DP-SVRG++ (Theorem 3.1.5)",
                "dp-svrg-pp",
                "sqrt(p)/(n eps)",
                "n eps/sqrt(p) + n log(n eps/p)",
                "**no data set meets the theorem's range; with batches the same rate**, D L sqrt(d)/(n mu)",
                "**n log(n mu) + n mu sqrt(K)**, K of order n mu/sqrt(d)",
            ),
            Row("lower bound", "", "min(1, sqrt(p)/(n eps))", "", CLASSIC),
        ),
        ("dp-gd", "dp-sgd", "dp-svrg-pp", "output-perturbation", "objective-perturbation"),
    ),
    (
        "Table 3.3: sets of small Gaussian width",
        (
            Row(
                "mirror descent (TTZ14)",
                "dp-mirror-descent",
                "sqrt(W) log(n)/(n eps)",
                "n^3 eps^2/(W log(n)^2)",
                "explicit bound below",
            ),
            Row(
                "objective perturbation (TTZ14)",
                "objective-perturbation",
                "(G_C + lam norm(C)^2)/(n eps)",
                "N/A",
                "**generalised linear losses only**",
            ),
            Row(
                "Frank-Wolfe (TTZ15)",
                "dp-frank-wolfe",
                "G_C^(2/3) log(n)^2/(n eps)^(2/3)",
                "(n eps)^(2/3)/G_C^(2/3)",
                "explicit bound below",
                "**n times the printed**, which counts iterations",
            ),
            Row(
                "DP-AccMD (Theorem 3.1.7)",
                "dp-accmd",
                "sqrt(W)/(n eps)",
                "n^(3/2) sqrt(eps)/W^(1/4)",
                "**printed output carries no noise; with one noisy gradient a step, times sqrt(V)**",
                "as printed, times V^(1/4)",
            ),
        ),
        ("dp-accmd", "dp-mirror-descent", "dp-frank-wolfe", "objective-perturbation"),
    ),
)
MARK = {"proved": "proved here", "claimed": "printed, not re-derived", "refuted": "**corrected**: the printed statement does not hold"}


class Counted:
    """A loss's slope that counts the records it is asked for."""

    def __init__(self, slope: Any) -> None:
        self.slope, self.records = slope, 0

    def __call__(self, u: Any, y: Any) -> Any:
        self.records += y.size
        return self.slope(u, y)


def counted(module: Any, **sizes: int) -> tuple[float, int]:
    """(gradients by the card's formula, gradients evaluated) of one seeded run of the gallery spec on made-up records."""
    import numpy as np

    from dpspec.compiler.bound import environment
    from dpspec.compiler.passes import compile_draft
    from dpspec.data.records import Records
    from dpspec.executor.bind import bound_problem
    from dpspec.executor.design import substitute
    from dpspec.lang.source import parse_expr, parse_file
    from dpspec.privacy.meter import Release
    from dpspec.privacy.noise import PublicRandomness, StudyNoise
    from dpspec.spec.expr import Num, evaluate

    parsed = parse_file(ROOT / module.CARD.spec)
    analysis = parsed.analysis
    for name, value in sizes.items():
        analysis = substitute(analysis, name, Num(value))
    draft = compile_draft(replace(parsed, analysis=analysis))
    release = draft.releases[0]
    problem = bound_problem(draft, release)
    rng = np.random.default_rng(3)
    x = rng.standard_normal((problem.n, problem.d))
    x /= np.maximum(1.0, np.linalg.norm(x, axis=1))[:, None]
    records = Records(x, np.sign(x[:, 0] + 0.3 * rng.standard_normal(problem.n)))
    slope = Counted(problem.objective.slope)
    problem = replace(problem, oracle=replace(problem.objective, slope=slope))
    meter = Release(release.calibrated, StudyNoise(1), mode="study", public=PublicRandomness(0))
    module.run(records, problem, release.tunables, meter)
    meter.close()
    return float(evaluate(parse_expr(module.CARD.cost["gradients"]), environment(release))), slope.records


def printed(table: tuple[Row, ...], counts: dict[str, str]) -> list[str]:
    from dpspec.algorithms.registry import get

    out = [
        "| method | printed excess risk | what holds | printed gradients | what holds | the card | counted |",
        "|---|---|---|---|---|---|---|",
    ]
    for r in table:
        formula = f"`{get(r.card).CARD.cost['gradients']}` (`{r.card}`)" if r.card else ""
        out.append(
            f"| {r.method} | {r.risk} | {r.holds} | {r.gradients} | {r.cost or ('as printed' if r.gradients not in ('', 'N/A') else '')} "
            f"| {formula} | {counts.get(r.card, '')} |"
        )
    return out


def rows(card: Any) -> list[str]:
    """One line a bound: what the card states, and whether the printed entry stands."""
    out = []
    for b in card.bounds:
        if b.probability:
            continue
        gradients = card.cost.get("gradients", "")
        out.append(f"| {card.id} | {b.kind} {b.type} | `{b.expression}` | {b.theorem} | {MARK[b.status]} | `{gradients}` |")
    return out


def main(out: Path) -> None:
    from dpspec.algorithms.registry import get

    ids = dict.fromkeys(id for _, _, cards in TABLES for id in cards)
    counts = {}
    for id in ids:
        stated, measured = counted(get(id))
        counts[id] = f"{measured:,}" if measured == stated else f"{measured:,} of at most {stated:,.0f}"
    lines = [
        "# Tables 3.1 to 3.3 from the cards",
        "",
        "Generated by `docs/gen_tables.py`. Excess empirical risk; printed entries leave log(1/delta) and the losses' constants out (unit",
        "Lipschitz and smoothness constants), C is an unspecified constant, mu the Gaussian-DP parameter that the budget buys (of order",
        "epsilon/sqrt(log(1/delta))), kappa = B/lam, W = G_C^2 + |C|^2 with G_C the Gaussian width, V the range of the mirror map.",
        "",
        "Gradients are evaluations of one record's gradient. The printed complexities of DP-SVRG, DP-Katyusha and DP-SVRG++ belong to",
        "batches of one record, at which the printed noise is not private; with batches at which sampling amplifies (b of order",
        "n mu/sqrt(K), K steps) they become those marked in bold. *the card*: the formula of the implementation; *counted*: one run of the",
        "gallery spec with a loss that counts. Where one number stands it is both; solvers stop when a certificate holds, below their",
        "ceiling. `tests/algorithms/convex/test_gradient_counts.py` repeats the count at other sizes.",
        "",
    ]
    for title, table, cards in TABLES:
        lines += [f"## {title}", "", *printed(table, counts), "", "Every bound of the cards:", ""]
        lines += ["| algorithm | bound | excess risk | source | status | gradients |", "|---|---|---|---|---|---|"]
        faults = []
        for id in cards:
            card = get(id).CARD
            lines += rows(card)
            faults += [f"- {id}: {f.claim}. {f.truth[0].upper()}{f.truth[1:]}." for f in card.faults if f.severity == "privacy"]
        lines += ["", "Corrected for privacy:", "", *dict.fromkeys(faults), ""]
    out.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("tables-convex.md"))
