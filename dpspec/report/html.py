"""One self-contained HTML page of a plan, a record or a study: no network, no script, light and dark, printable."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from dpspec.report.terminal import guarantee_line, noise_line, plan_text, published_line, record_text, show, study_text

STYLE = """
:root{color-scheme:light dark;--bg:#fdfdfc;--fg:#1c1e21;--dim:#5d636b;--line:#d9dcdf;--card:#f4f5f4;
--good:#1d7a46;--bad:#b3261e;--warn:#8a5a00}
@media(prefers-color-scheme:dark){:root{--bg:#15171a;--fg:#e6e7e8;--dim:#a0a6ad;--line:#33383e;--card:#1d2024;
--good:#5fcf8f;--bad:#ff8a80;--warn:#f0b84d}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--fg);font:16px/1.55 system-ui,sans-serif}
main{max-width:70rem;margin:0 auto;padding:1.2rem}
h1{font-size:1.6rem;margin:.2rem 0}h2{font-size:1.2rem;margin:2.2rem 0 .6rem;border-bottom:1px solid var(--line);padding-bottom:.2rem}
h3{font-size:1rem;margin:1.2rem 0 .4rem}
p.dim,figcaption,.dim{color:var(--dim);font-size:.9rem}
.verdicts{display:grid;grid-template-columns:repeat(auto-fit,minmax(15rem,1fr));gap:.8rem;margin:1rem 0}
.verdict{background:var(--card);border-left:5px solid var(--dim);padding:.7rem .9rem;border-radius:4px}
.verdict b{display:block;font-size:1.05rem}.good{border-color:var(--good)}.bad{border-color:var(--bad)}.open{border-color:var(--warn)}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:.92rem}
th,td{text-align:left;padding:.3rem .7rem .3rem 0;border-bottom:1px solid var(--line);vertical-align:top}
td.num,th.num{text-align:right;font-variant-numeric:tabular-nums}
pre{background:var(--card);padding:.8rem;border-radius:4px;overflow-x:auto;font-size:.85rem;line-height:1.45}
code{font-size:.88em;overflow-wrap:anywhere}
figure{margin:1rem 0;max-width:46rem}figure svg{width:100%;height:auto}
.tree rect{fill:var(--card);stroke:currentColor}.tree text{fill:currentColor;font:13px system-ui,sans-serif}
@media print{body{background:#fff;color:#000}h2{break-after:avoid}figure,table{break-inside:avoid}}
"""


def page(body: Mapping[str, Any]) -> str:
    """The page of a plan, record or study, by its fields. Raises ValueError for anything else."""
    if body.get("mode") == "study":
        title, parts = "study", list(_study(body))
    elif body.get("mode") == "release":
        title, parts = "record", list(_record(body))
    elif "guarantee" in body and "releases" in body:
        title, parts = "plan", list(_plan_page(body))
    else:
        raise ValueError("neither a plan, nor a record, nor a study")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>dpspec {title}</title><style>{STYLE}</style></head><body><main>\n" + "\n".join(parts) + "\n</main></body></html>\n"
    )


# ------------------------------------------------------------------------------------------------------------------ plan


def _plan_page(plan: Mapping[str, Any]) -> Iterator[str]:
    yield f"<h1>{escape(plan['analysis'])}</h1><p class='dim'>plan {plan['sha256'][:16]} of {escape(plan['spec']['path'])}</p>"
    yield verdicts([*_plan_verdicts(plan)])
    yield from _plan(plan)
    yield _spec(plan.get("text", ""))


def _plan_verdicts(plan: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    yield "good", "Guarantee", guarantee_line(plan["guarantee"])
    for r in plan["releases"]:
        t = r["target"]
        if t:
            kind = {True: "good", False: "bad", "unknown": "open"}[t["met"]]
            word = {True: "met", False: "missed", "unknown": "not decided by a proved explicit bound"}[t["met"]]
            yield kind, f"Target of {r['name']}", f"{t['measure']} at most {show(t['at_most'])}: {word}"


def _plan(plan: Mapping[str, Any]) -> Iterator[str]:
    g = plan["guarantee"]
    yield "<h2>Privacy</h2>"
    rows = [(k, show(g[k])) for k in ("kind", "epsilon", "delta", "rho", "mu", "neighbours", "unit", "model") if g.get(k) is not None]
    rows += [
        ("computed by", g["accountant"]),
        ("recomputed by", f"{g['checked_by']}: {show(g['checked_epsilon'])}" if g["checked_by"] else "-"),
    ]
    yield table(("", ""), rows)
    for sentence in plan["risk"]:
        yield f"<p>{escape(sentence[0].upper() + sentence[1:])}.</p>"
    curve = trade_off(g)
    if curve:
        yield curve
    for r in plan["releases"]:
        yield f"<h2>Release {escape(r['name'])}</h2><p><code>{escape(r['task'])}</code> by <b>{escape(str(r['algorithm']))}</b></p>"
        yield "<h3>What is drawn</h3>" + event_tree(r)
        yield table(("draw", "what"), [(n["name"], noise_line(n)) for n in r["noise"]])
        yield "<h3>What it rests on</h3>" + table(
            ("assumption", "for", "status", "evidence"), [(a["name"], a["role"], a["status"], a["evidence"]) for a in r["assumptions"]]
        )
        if r["published"]:
            yield "<h3>What the printed formulas would do</h3><ul>"
            yield "".join(f"<li>{escape(published_line(p))}</li>" for p in r["published"]["all"]) + "</ul>"
        yield "<h3>Bounds</h3>" + table(
            ("measure", "type", "kind", "value or expression", "status", "from"),
            [
                (
                    b["measure"],
                    b["type"],
                    b["kind"],
                    show(b["value"]) if b["value"] is not None else b["expression"],
                    b["status"],
                    b["theorem"],
                )
                for b in r["bounds"]
            ],
        )
        settings = [(k, show(s["value"]), s["formula"], s["source"]) for k, s in r["tunables"].items()]
        yield "<h3>Settings</h3>" + table(("name", "value", "formula", "from"), settings)
        if len(r["candidates"]) > 1:
            yield "<h3>Algorithms asked</h3>" + table(
                ("id", "eligible", "predicted error", "reason"),
                [
                    (
                        c["id"],
                        "yes" if c["eligible"] else "no",
                        show(c["predicted_error"]) if c["predicted_error"] is not None else "-",
                        "; ".join(c["reasons"]),
                    )
                    for c in r["candidates"]
                ],
            )
        yield "<h3>Cost</h3>" + table(("", ""), [(k, show(v)) for k, v in r["cost"].items() if v is not None])


def trade_off(g: Mapping[str, Any]) -> str:
    """The best attacker's detection rate against its false alarms, from the strongest statement of the guarantee."""
    from dpspec.report.plots import Figure, Line, line_figure

    rates = [10 ** (-4 + 4 * i / 120) for i in range(121)]
    found = [detection(g, a) for a in rates]
    if any(v is None for v in found):
        return ""
    values = [float(v) for v in found if v is not None]
    at = {share: detection(g, share) or 0.0 for share in (0.01, 0.1)}
    alt = (
        f"At one false alarm in a hundred the best attacker detects a member with probability at most {at[0.01]:.3f}; at one in ten, "
        f"{at[0.1]:.3f}. The dotted diagonal is a blind guess."
    )
    lines = (Line("best attacker", rates, values, marker=""), Line("blind guess", rates, rates, style=":", color="#7f8c8d", marker=""))
    return line_figure(Figure("Detections against false alarms", "false alarm rate", "detection rate", alt, lines))


def detection(g: Mapping[str, Any], alpha: float) -> float | None:
    """1 - f(alpha): Gaussian DP exactly where mu is known (Dong, Roth, Su 2022), else the curve of (epsilon, delta)."""
    if g.get("mu"):
        from statistics import NormalDist

        n = NormalDist()
        return n.cdf(n.inv_cdf(min(max(alpha, 1e-12), 1 - 1e-12)) + float(g["mu"])) if alpha < 1 else 1.0
    if g.get("epsilon") is None:
        return None
    e, d = math.exp(min(float(g["epsilon"]), 700.0)), float(g.get("delta") or 0.0)
    return min(1.0, d + e * alpha, 1 - (1 - d - alpha) / e)


def event_tree(r: Mapping[str, Any]) -> str:
    """A picture of the draws: how often, by whom, with which mechanism."""
    rows = r["noise"]
    height = 46 * len(rows) + 14
    parts = [f'<rect x="6" y="{height / 2 - 17:.0f}" width="150" height="34" rx="5"/>']
    parts.append(f'<text x="81" y="{height / 2 + 5:.0f}" text-anchor="middle">{escape(str(r["algorithm"]))[:22]}</text>')
    for i, n in enumerate(rows):
        y = 7 + 46 * i
        who = (
            "each user, once"
            if n["per"] == "user" and n["count"] == 1
            else f"users, {n['count']} rounds"
            if n["per"] == "user"
            else f"x {n['count']:,}"
        )
        parts.append(f'<path d="M156 {height / 2:.0f} H190 V{y + 17} H224" fill="none" stroke="currentColor"/>')
        parts.append(f'<rect x="224" y="{y}" width="400" height="34" rx="5"/>')
        text = f"{n['name']}: {n['mechanism']}, {who}, scale {n['scale']:.3g}"
        parts.append(f'<text x="236" y="{y + 22}">{escape(text)}</text>')
    alt = "; ".join(noise_line(n) for n in rows)
    svg = f'<svg class="tree" role="img" aria-label="{escape(alt, quote=True)}" viewBox="0 0 640 {height}">{"".join(parts)}</svg>'
    return f"<figure>{svg}</figure>"


# ----------------------------------------------------------------------------------------------------------------- study


def _study(body: Mapping[str, Any]) -> Iterator[str]:
    plan = body.get("plan")
    name = plan["analysis"] if plan else "study"
    yield f"<h1>{escape(name)}</h1><p class='dim'>study, seed {body['seed']}, plan {body['plan_sha256'][:16]}</p>"
    cards: list[tuple[str, str, str]] = []
    if plan:
        cards += list(_plan_verdicts(plan))
    cards += list(_bound_verdicts(body))
    yield verdicts(cards)
    yield "<h2>Measured error</h2>" + _points_table(body["points"])
    yield from _curves(body)
    yield "<h2>Rates against theory</h2>" + _rates_table(body)
    yield from _distributions(body)
    if body.get("notes"):
        yield "<h2>Conditions</h2><ul>" + "".join(f"<li>{escape(n)}</li>" for n in body["notes"]) + "</ul>"
    if plan:
        yield from _plan(plan)
        yield _spec(plan.get("text", ""))
    if body.get("environment"):
        yield "<h2>Environment</h2>" + table(("package", "version"), list(body["environment"].items()))


def _bound_verdicts(body: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    judged = [p for p in body["points"] if p["bound"] and p["bound"]["kind"] == "explicit" and p["bound"]["value"] is not None]
    if judged:
        bad = [p for p in judged if p["bound"]["holds"] is False]
        held = [p for p in judged if p["bound"]["holds"] is True]
        kind = "bad" if bad else "good" if len(held) == len(judged) else "open"
        yield kind, "Explicit bound", f"holds at {len(held)} of {len(judged)} points" + (f", violated at {len(bad)}" if bad else "")
    elif body["points"]:
        yield "open", "Explicit bound", "none: only order bounds, compared by exponents"
    for r in body["rates"]:
        kind = {"consistent": "good", "better": "good", "worse": "bad"}.get(r["verdict"], "open")
        yield kind, f"Rate in {r['variable']}", f"{r['verdict']}: measured {r['measured']:.3g}, expected {r['expected']:.3g}"


def _points_table(points: Sequence[Mapping[str, Any]]) -> str:
    rows = []
    for p in points:
        e, b, ref = p["error"], p["bound"], p.get("reference_error")
        cost = f"{e['mean'] / ref['mean']:.3g}" if ref and ref["mean"] > 0 else "-"
        rows.append(
            (
                p["release"],
                p["algorithm"],
                ", ".join(f"{k} = {show(v)}" for k, v in p["at"].items()) or "as written",
                str(p["trials"]),
                f"{e['mean']:.4g}",
                f"[{e['ci95'][0]:.4g}, {e['ci95'][1]:.4g}]",
                f"{ref['mean']:.4g}" if ref else "-",
                cost,
                f"{b['value']:.4g}" if b and b["value"] is not None else "-",
                {True: "holds", False: "violated", None: "-"}[b["holds"] if b else None],
            )
        )
    measure = points[0]["error"]["measure"] if points else "error"
    head = ("release", "algorithm", "at", "trials", f"mean {measure}", "95% interval", "non-private", "ratio", "bound", "verdict")
    return table(head, rows)


def _curves(body: Mapping[str, Any]) -> Iterator[str]:
    from dpspec.report.plots import BOUND, LOWER, REFERENCE, Figure, Line, line_figure

    for variable in body.get("varied", []):
        lines: list[Line] = []
        groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
        for p in body["points"]:
            rest = tuple((k, v) for k, v in p["at"].items() if k != variable)
            groups.setdefault((p["release"], p["algorithm"], rest), []).append(p)
        groups = {k: sorted(v, key=lambda p: p["at"][variable]) for k, v in groups.items() if len(v) > 1}
        for (release, algorithm, rest), group in groups.items():
            x = [p["at"][variable] for p in group]
            label = algorithm if len({k[0] for k in groups}) == 1 else f"{release}: {algorithm}"
            label += "".join(f", {k} = {show(v)}" for k, v in rest)
            mean = [max(p["error"]["mean"], 1e-300) for p in group]
            low = [max(p["error"]["ci95"][0], m * 1e-3) for p, m in zip(group, mean, strict=True)]
            lines.append(Line(label, x, mean, low, [p["error"]["ci95"][1] for p in group]))
        if not lines:
            continue
        if len(groups) == 1:
            (group,) = groups.values()
            x = [p["at"][variable] for p in group]
            if all(p["bound"] and p["bound"]["value"] is not None for p in group):
                lines.append(Line("explicit bound", x, [p["bound"]["value"] for p in group], style="--", color=BOUND, marker=""))
            elif body["constant"] and all(p.get("order_shape") for p in group):
                c = body["constant"]["value"]
                lines.append(
                    Line("order bound, fitted constant", x, [c * p["order_shape"] for p in group], style="--", color=BOUND, marker="")
                )
            if all(p.get("lower_shape") for p in group):
                lines.append(Line("lower bound, constant 1", x, [p["lower_shape"] for p in group], style=":", color=LOWER, marker=""))
            if all(p.get("reference_error") and p["reference_error"]["mean"] > 0 for p in group):
                lines.append(Line("non-private", x, [p["reference_error"]["mean"] for p in group], style="-.", color=REFERENCE, marker=""))
        measure = body["points"][0]["error"]["measure"]
        first, last = lines[0].y[0], lines[0].y[-1]
        ends = f"from {first:.3g} at {variable} = {show(lines[0].x[0])} to {last:.3g} at {show(lines[0].x[-1])}"
        alt = f"{measure} of {lines[0].label} goes {ends}."
        yield line_figure(Figure(f"{measure} against {variable}", variable, measure, alt, tuple(lines)))


def _rates_table(body: Mapping[str, Any]) -> str:
    parts = []
    if body["rates"]:
        parts.append(
            table(
                ("variable", "algorithm", "expected exponent", "measured", "95% interval", "verdict"),
                [
                    (
                        r["variable"],
                        r["algorithm"],
                        f"{r['expected']:.3g}",
                        f"{r['measured']:.3g}",
                        f"[{r['ci95'][0]:.3g}, {r['ci95'][1]:.3g}]",
                        r["verdict"],
                    )
                    for r in body["rates"]
                ],
            )
        )
    else:
        parts.append("<p class='dim'>A rate needs a variable with at least three values and a bound that depends on it.</p>")
    c = body["constant"]
    if c:
        parts.append(f"<p>Constant of the order bound: {c['value']:.4g}, 95% interval [{c['ci95'][0]:.4g}, {c['ci95'][1]:.4g}].</p>")
    return "".join(parts)


def _distributions(body: Mapping[str, Any]) -> Iterator[str]:
    from dpspec.report.plots import strips

    groups = {}
    for p in body["points"][:24]:
        at = ", ".join(f"{k} = {show(v)}" for k, v in p["at"].items()) or p["algorithm"]
        groups[f"{p['algorithm']}: {at}" if len({q["algorithm"] for q in body["points"]}) > 1 else at] = p["error"]["values"]
    if groups and max(len(v) for v in groups.values()) > 1:
        measure = body["points"][0]["error"]["measure"]
        yield "<h2>Trials</h2>"
        yield strips(f"{measure} of every trial", groups, measure, f"{len(groups)} points; the table above has their means and intervals.")


# ---------------------------------------------------------------------------------------------------------------- record


def _record(body: Mapping[str, Any]) -> Iterator[str]:
    when = f"{escape(body['started'])} to {escape(body['finished'])}"
    yield f"<h1>Release</h1><p class='dim'>under plan {body['plan_sha256'][:16]}, {when}</p>"
    yield verdicts([("good", "Guarantee", guarantee_line(body["guarantee"]))])
    yield "<h2>Drawn</h2>" + table(
        ("release", "draw", "mechanism", "count", "scale"),
        [(e["release"], e["name"], e["mechanism"], show(e["count"]), f"{e['scale']:.4g}") for e in body["events"]],
    )
    yield f"<h2>Outputs</h2><pre>{escape(record_text(body))}</pre>"
    yield "<p>The error, residuals and statistics of the data are not shown: they would be further releases.</p>"
    curve = trade_off(body["guarantee"])
    if curve:
        yield curve
    yield "<h2>Environment</h2>" + table(("package", "version"), list(body["environment"].items()))


# ---------------------------------------------------------------------------------------------------------------- pieces


def verdicts(cards: Sequence[tuple[str, str, str]]) -> str:
    return (
        '<div class="verdicts">' + "".join(f'<div class="verdict {k}"><b>{escape(t)}</b>{escape(x)}</div>' for k, t, x in cards) + "</div>"
    )


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    top = "" if not any(head) else "<thead><tr>" + "".join(f"<th>{escape(h)}</th>" for h in head) + "</tr></thead>"
    body = "".join("<tr>" + "".join(f"<td>{escape(str(v))}</td>" for v in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table>{top}<tbody>{body}</tbody></table></div>'


def _spec(text: str) -> str:
    return f"<h2>Spec</h2><pre>{escape(text)}</pre>" if text else ""


# ------------------------------------------------------------------------------------------------------------- notebooks


def plan_html(plan: Mapping[str, Any]) -> str:
    return _pre(plan_text(plan))


def record_html(record: Mapping[str, Any]) -> str:
    return _pre(record_text(record))


def study_html(study: Mapping[str, Any]) -> str:
    return _pre(study_text(study))


def _pre(text: str) -> str:
    return f'<pre style="line-height:1.4;overflow-x:auto">{escape(text)}</pre>'
