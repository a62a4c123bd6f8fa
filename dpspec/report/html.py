"""One self-contained HTML page of a plan, a record or a study: no network, no script, light and dark, printable."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from html import escape
from typing import Any

from dpspec.report.terminal import (
    HELD_OUT,
    begins,
    expected_text,
    guarantee_line,
    held_out_rows,
    influence_line,
    noise_line,
    only,
    plan_text,
    published_line,
    ratio_text,
    record_text,
    show,
    study_text,
    times,
)

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
.answer{font-size:1.08rem;margin:.9rem 0}.answer li{margin:.25rem 0}
.scroll{overflow-x:auto}
.grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(19rem,100%),1fr));gap:.4rem 1.4rem}
.grid figure{margin:.4rem 0}
table{border-collapse:collapse;font-size:.92rem;min-width:min(28rem,100%)}
.nowrap td,.nowrap th{white-space:nowrap}
td.holds{color:var(--good);font-weight:600}td.violated,td.worse{color:var(--bad);font-weight:600}
td.consistent,td.better{color:var(--good);font-weight:600}td.undecided{color:var(--warn);font-weight:600}
th,td{text-align:left;padding:.3rem 1.1rem .3rem 0;border-bottom:1px solid var(--line);vertical-align:top}
td.num,th.num{text-align:right;font-variant-numeric:tabular-nums}
pre{background:var(--card);padding:.8rem;border-radius:4px;overflow-x:auto;font-size:.85rem;line-height:1.45}
code{font-size:.88em;overflow-wrap:anywhere}
p,li{overflow-wrap:anywhere}
figure{margin:1rem 0;max-width:34rem}figure svg{width:100%;height:auto}
figure.wide{max-width:46rem;overflow-x:auto}figure.wide svg{min-width:34rem}
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
        origin = f" of another package, {escape(r['origin'])}" if r.get("origin") else ""
        yield f"<h2>Release {escape(r['name'])}</h2><p><code>{escape(r['task'])}</code> by <b>{escape(str(r['algorithm']))}</b>{origin}</p>"
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
                    "says nothing here" if b.get("outside") else "vacuous" if b.get("vacuous") is not None else b["status"],
                    b["theorem"] + begins(b),
                )
                for b in r["bounds"]
            ],
        )
        yield from _buys(next((t for t in plan.get("trade_off", ()) if t["release"] == r["name"]), None), r["target"])
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
        if hostile := [row for row in plan.get("influence", ()) if row["release"] == r["name"]]:
            yield "<h3>Hostile users</h3><ul>" + "".join(f"<li>{escape(influence_line(row))}</li>" for row in hostile) + "</ul>"


def _buys(t: Mapping[str, Any] | None, target: Mapping[str, Any] | None) -> Iterator[str]:
    """What a budget buys: the promised error over budgets and numbers of records, as a table and a figure."""
    if t is None:
        return
    yield "<h3>What a budget buys</h3>"
    if t["kind"] is None:
        yield f"<p class='dim'>No proved explicit bound of {escape(t['algorithm'])} applies here; a study fits a constant and predicts.</p>"
        return
    fitted = any(f for fits in t["fitted"] for f in fits)
    by = (
        f"the proved bound of {t['algorithm']} promises" if t["kind"] == "explicit" else "the order bound predicts with its fitted constant"
    )
    mark = " A number after ~ is predicted with the fitted constant of the order bound." if fitted and t["kind"] == "explicit" else ""
    goal = target["at_most"] if target and target["measure"] == t["measure"] else None
    met = f" Bold: the target, at most {show(goal)}, is met." if goal is not None else ""
    where = f"({escape(t['theorem'])}); a dash where no plan or bound exists."
    yield f"<p class='dim'>{escape(t['measure'])} that {escape(by)} {where}{mark}{met}</p>"
    head = "".join(f'<th scope="col" class="num">n = {show(float(n))}</th>' for n in t["columns"])
    rows = []
    for budget, values, fits in zip(t["rows"], t["values"], t["fitted"], strict=True):
        cells = []
        for v, f in zip(values, fits, strict=True):
            text = "-" if v is None else f"{'~' if f else ''}{v:.3g}"
            cells.append(f'<td class="num">{f"<b>{text}</b>" if v is not None and goal is not None and v <= goal else text}</td>')
        rows.append(f'<tr><th scope="row">{escape(t["budget"])} = {show(budget)}</th>{"".join(cells)}</tr>')
    yield (
        f'<div class="scroll" tabindex="0"><table class=nowrap><thead><tr><td></td>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )
    yield _buys_figure(t, goal)


def _buys_figure(t: Mapping[str, Any], goal: float | None) -> str:
    """A line a budget, over the number of records; nothing where no line has two points."""
    from dpspec.report.plots import BOUND, Figure, Line, line_figure

    lines = []
    for budget, values in zip(t["rows"], t["values"], strict=True):
        points = [(float(n), v) for n, v in zip(t["columns"], values, strict=True) if v is not None and v > 0]
        if len(points) > 1:
            lines.append(Line(f"{t['budget']} = {show(budget)}", [n for n, _ in points], [v for _, v in points]))
    if not lines:
        return ""
    if goal is not None:
        ends = (float(min(t["columns"])), float(max(t["columns"])))
        lines.append(Line("target", ends, (goal, goal), style=":", color=BOUND, marker=""))
    alt = f"{t['measure']} over n: " + "; ".join(
        f"{line.label} from {line.y[0]:.3g} at n = {show(line.x[0])} to {line.y[-1]:.3g} at n = {show(line.x[-1])}" for line in lines
    )
    return line_figure(Figure("What a budget buys", "n", t["measure"], f"{alt}.", tuple(lines), ticks=True, caption=False))


def _at_most(probability: float) -> str:
    """Three decimals, rounded up: an upper bound is never printed below itself."""
    return f"{min(1.0, math.ceil(probability * 1000) / 1000):.3f}"


def trade_off(g: Mapping[str, Any]) -> str:
    """The best attacker's detection rate against its false alarms, from the strongest statement of the guarantee."""
    from dpspec.report.plots import Figure, Line, line_figure
    from dpspec.theory.attackers import detections, read

    rates = [10 ** (-4 + 4 * i / 120) for i in range(121)]
    try:
        values = detections(read(g), rates)
    except ValueError:
        return ""
    at = dict(zip((0.01, 0.1), detections(read(g), (0.01, 0.1)), strict=True))
    alt = (
        f"At one false alarm in a hundred the best attacker detects a member with probability at most {_at_most(at[0.01])}; at one in ten, "
        f"{_at_most(at[0.1])}. The dotted diagonal is a blind guess."
    )
    lines = (Line("best attacker", rates, values, marker=""), Line("blind guess", rates, rates, style=":", color="#7f8c8d", marker=""))
    return line_figure(Figure("Detections against false alarms", "false alarm rate", "detection rate", alt, lines))


def event_tree(r: Mapping[str, Any]) -> str:
    """A picture of the draws: how often, by whom, with which mechanism."""
    rows = r["noise"]
    height = 46 * len(rows) + 14
    parts = [f'<rect x="6" y="{height / 2 - 17:.0f}" width="150" height="34" rx="5"/>']
    parts.append(f'<text x="81" y="{height / 2 + 5:.0f}" text-anchor="middle">{escape(str(r["algorithm"]))[:22]}</text>')
    for i, n in enumerate(rows):
        y = 7 + 46 * i
        who = (
            f"each user, x {n.get('each', n['per_record']):,}"
            if n["per"] == "user" and n.get("each", n["per_record"]) > 1
            else "each user, once"
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
    return f'<figure class="wide">{svg}</figure>'


# ----------------------------------------------------------------------------------------------------------------- study


def _study(body: Mapping[str, Any]) -> Iterator[str]:
    plan = body.get("plan")
    name = plan["analysis"] if plan else "study"
    yield f"<h1>{escape(name)}</h1><p class='dim'>study, seed {body['seed']}, plan {body['plan_sha256'][:16]}</p>"
    yield verdicts([*(_guarantee_verdicts(plan) if plan else ()), *_bound_verdicts(body)])
    yield '<ul class="answer">' + "".join(f"<li>{escape(line)}</li>" for line in answers(body)) + "</ul>"
    yield "<h2>Measured error</h2>" + _points_table(body["points"])
    if held := held_out_rows(body["points"]):
        yield "<h3>On records that were held out</h3>" + table(HELD_OUT, held, nowrap=True)
    yield from _curves(body)
    yield from _comparisons(body)
    yield "<h2>Rates against theory</h2>" + _rates_table(body)
    yield from _distributions(body)
    if body.get("notes"):
        yield "<h2>Notes, and what the bounds rest on</h2><ul>" + "".join(f"<li>{escape(n)}</li>" for n in body["notes"]) + "</ul>"
    if plan:
        if body.get("varied"):
            yield (
                f"<p class='dim'>The plan below is that of the first point ({escape(_at(body['points'][0]))}).</p>"
                if body["points"]
                else ""
            )
        yield from _plan(plan)
        yield _spec(plan.get("text", ""))
    if body.get("environment"):
        yield "<h2>Environment</h2>" + table(("package", "version"), list(body["environment"].items()))


def _at(point: Mapping[str, Any]) -> str:
    return ", ".join(f"{k} = {show(v)}" for k, v in point["at"].items()) or "as written"


def answers(body: Mapping[str, Any]) -> Iterator[str]:
    """What a reader in a hurry wants to know, a sentence each: is it private, does the bound hold, does the theory fit, what does
    privacy cost."""
    plan, points = body.get("plan"), body["points"]
    if plan:
        g = plan["guarantee"]
        again = f"; a second accountant finds {show(g['checked_epsilon'])}" if g["checked_epsilon"] is not None else ""
        budget = ", ".join(f"{k} {show(g[k])}" for k in ("epsilon", "delta", "rho", "mu") if g.get(k))
        first = f" (first point: {_at(points[0])})" if body.get("varied") and points else ""
        what = "" if g.get("protects", "records") == "records" else f"'s {g['protects']} only"
        yield f"Privacy: {budget} for one {g['unit']}{what}, {g['neighbours']}, {g['model']} model{first}, by {g['accountant']}{again}."
    if not points:
        yield "No point has finished yet."
        return
    judged = _judged(points)
    if judged:
        bad = [p for p in judged if p["bound"]["holds"] is False]
        within = sum(p["bound"].get("within") or 0 for p in judged)
        trials = sum(p["trials"] for p in judged)
        slack = sorted(p["bound"]["value"] / p["error"]["mean"] for p in judged if p["error"]["mean"] > 0)
        words = f"{within} of {trials} trials lie below the proved explicit bound"
        if bad:
            words += f"; it is violated at {len(bad)} of {len(judged)} points, first at {_at(bad[0])}"
        elif slack:
            words += (
                f", which is {times(slack[0])} to {times(slack[-1])} times the mean error"
                if len(slack) > 1
                else f", {times(slack[0])} times the mean"
            )
        yield f"Bound: {words}."
    else:
        yield "Bound: no proved explicit bound applies here; order bounds are compared by their exponents below."
    for r in body.get("regimes", []):
        yield f"Regime: {r['algorithm']}: {r['text']}."
    idle = [p for p in points if p.get("trivial_error") and p["error"]["mean"] >= 0.9 * p["trivial_error"]]
    if idle:
        yield f"At {len(idle)} of {len(points)} points the estimate is no better than the zero vector: n or epsilon is too small there."
    costs = [p["cost_of_privacy"]["ratio"] for p in points if p.get("cost_of_privacy")]
    if costs:
        low, high = min(costs), max(costs)
        yield (
            f"Cost of privacy: the error is {times(low)} to {times(high)} times the non-private one."
            if len(costs) > 1
            else f"Cost of privacy: the error is {times(low)} times the non-private one."
        )


def _judged(points: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [p for p in points if p["bound"] and p["bound"]["kind"] == "explicit" and p["bound"]["value"] is not None]


def _guarantee_verdicts(plan: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    g = plan["guarantee"]
    if g["checked_epsilon"] is not None:
        yield (
            "good",
            "Guarantee",
            "two accountants agree: " + ", ".join(f"{k} {show(g[k])}" for k in ("epsilon", "delta") if g.get(k)) + only(g),
        )
    else:
        yield "good", "Guarantee", guarantee_line(g)


def _bound_verdicts(body: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    judged = _judged(body["points"])
    if judged:
        bad = [p for p in judged if p["bound"]["holds"] is False]
        empty = [p for p in judged if p["bound"]["holds"] is True and p["bound"].get("vacuous")]
        held = [p for p in judged if p["bound"]["holds"] is True and p not in empty]
        kind = "bad" if bad else "good" if len(held) == len(judged) else "open"
        none = len(body["points"]) - len(judged)
        text = f"holds at {len(held)} of {len(judged)} points" + (f", violated at {len(bad)}" if bad else "")
        text += f", vacuous (above the error without data) at {len(empty)}" if empty else ""
        yield kind, "Explicit bound", text + (f"; {none} {'points have' if none > 1 else 'point has'} none" if none else "")
    elif body["points"]:
        yield "open", "Explicit bound", "none: only order bounds, compared by exponents"
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for r in body["rates"]:
        groups.setdefault((r["variable"], r["algorithm"]), []).append(r)
    several = len({a for _, a in groups}) > 1
    for (variable, algorithm), rows in groups.items():
        words = [r["verdict"] for r in rows]
        kind = "bad" if "worse" in words else "good" if set(words) <= {"consistent", "better"} else "open"
        title = f"Rate in {variable}" + (f", {algorithm}" if several else "")
        if len(rows) == 1:
            text = f"{words[0]}: measured {rows[0]['measured']:.3g}, the bound says {expected_text(rows[0])}"
        else:
            text = ", ".join(f"{w} in {words.count(w)}" for w in dict.fromkeys(words)) + f" of {len(rows)} series"
        yield kind, title, text


def _points_table(points: Sequence[Mapping[str, Any]]) -> str:
    """Columns that say the same in every row, or nothing, are left out."""
    if not points:
        return "<p class='dim'>no finished point</p>"
    columns: list[tuple[str, list[str]]] = []
    for name in ("release", "algorithm"):
        values = [str(p[name]) for p in points]
        if len(set(values)) > 1:
            columns.append((name, values))
    if len({p["error"]["measure"] for p in points}) > 1:
        columns.append(("measure", [p["error"]["measure"] for p in points]))
    columns += [(name, [show(p["at"].get(name)) for p in points]) for name in points[0]["at"]]
    if any(_word(p) != "-" for p in points):
        columns.append(("verdict", [_word(p) for p in points]))
    columns.append(("mean error", [f"{p['error']['mean']:.4g}" for p in points]))
    rest = [
        ("bound", [f"{p['bound']['value']:.4g}" if p["bound"] and p["bound"]["value"] is not None else "-" for p in points]),
        ("within", [_within(p) for p in points]),
        ("trials", [str(p["trials"]) for p in points]),
        ("95% interval", [f"{p['error']['ci95'][0]:.3g} to {p['error']['ci95'][1]:.3g}" for p in points]),
        ("non-private", [f"{p['reference_error']['mean']:.4g}" if p.get("reference_error") else "-" for p in points]),
        ("cost of privacy", [f"x {times(p['cost_of_privacy']['ratio'])}" if p.get("cost_of_privacy") else "-" for p in points]),
    ]
    others = dict.fromkeys(name for p in points for name in p.get("beside", {}))
    rest += [(f"{o}, not private", [f"{p['beside'][o]['mean']:.4g}" if o in p.get("beside", {}) else "-" for p in points]) for o in others]
    columns += [(name, values) for name, values in rest if set(values) - {"-", "0"}]
    rows = list(zip(*(values for _, values in columns), strict=True))
    measures = " / ".join(dict.fromkeys(p["error"]["measure"] for p in points))
    caption = f"<p class='dim'>Error: {escape(measures)}. Interval of the mean error over trials.</p>"
    return caption + table(tuple(name for name, _ in columns), rows, nowrap=True)


def _within(p: Mapping[str, Any]) -> str:
    b = p["bound"]
    if not b or b.get("within") is None:
        return "-"
    return f"{b['within']} of {p['trials']}" + (f" (stated {b['probability']:.3g})" if b["probability"] is not None else "")


def _word(p: Mapping[str, Any]) -> str:
    b = p["bound"]
    if not b or b["kind"] != "explicit" or b["value"] is None:
        return "-"
    if b["holds"] is True and b.get("vacuous"):
        return "vacuous"
    return {True: "holds", False: "violated", None: "undecided"}[b["holds"]]


def _curves(body: Mapping[str, Any]) -> Iterator[str]:
    """Error against each varied variable: a panel for each combination of the others, a line for each algorithm, with the bound, the
    lower bound and the non-private error beside it. All panels of a variable have one scale."""
    from dpspec.report.plots import Figure, line_figure

    for variable in body.get("varied", []):
        panels: dict[tuple[Any, ...], dict[str, list[Mapping[str, Any]]]] = {}
        for p in sorted(body["points"], key=lambda p: float(p["at"][variable])):
            rest = tuple((k, v) for k, v in p["at"].items() if k != variable)
            panels.setdefault((p["release"], rest), {}).setdefault(p["algorithm"], []).append(p)
        made = []
        for (release, rest), algorithms in panels.items():
            lines = _lines(body, variable, algorithms)
            if not lines:
                continue
            measure = next(iter(algorithms.values()))[0]["error"]["measure"]
            where = ", ".join(f"{k} = {show(v)}" for k, v in rest)
            title = (
                ", ".join(w for w in (f"{release}" if len({k[0] for k in panels}) > 1 else "", where) if w)
                or f"{measure} against {variable}"
            )
            made.append(Figure(title, variable, measure, _alt(lines, variable, measure, where), lines, ticks=True, caption=False))
        values = [v for f in made for line in f.lines for v in (*line.y, *line.low, *line.high) if 0 < v < math.inf]
        if not values:
            continue
        logarithmic = all(v > 0 for f in made for line in f.lines for v in line.y)  # an error of 0 has no place there
        span = (min(values) / 1.3 if logarithmic else 0.0, max(values) * 1.3)
        shown = [line_figure(replace(f, ylim=span, logy=logarithmic)) for f in made[:12]]
        yield f"<h3>Against {escape(variable)}</h3>" + '<div class="grid">' + "".join(shown) + "</div>"
        if len(made) > 12:
            yield f"<p class='dim'>{len(made) - 12} more panels are left out; the table has their numbers.</p>"


def _lines(body: Mapping[str, Any], variable: str, algorithms: Mapping[str, Sequence[Mapping[str, Any]]]) -> tuple[Any, ...]:
    from dpspec.report.plots import BOUND, LOWER, REFERENCE, SERIES, Line

    lines = []
    fitted = {(c["release"], c["algorithm"]): c["value"] for c in body.get("constants", [])}
    for i, (algorithm, group) in enumerate(algorithms.items()):
        if len(group) < 2:
            continue
        x = [p["at"][variable] for p in group]
        mean = [p["error"]["mean"] for p in group]
        low = [max(p["error"]["ci95"][0], m * 1e-3) for p, m in zip(group, mean, strict=True)]
        several, color = len(algorithms) > 1, SERIES[i % len(SERIES)]
        label = algorithm if several else "measured"
        lines.append(Line(label, x, mean, low, [p["error"]["ci95"][1] for p in group], color=color))
        ours, of = (color, f", {algorithm}") if several else (BOUND, "")
        if all(p["bound"] and p["bound"]["value"] is not None for p in group):
            lines.append(Line(f"proved bound{of}", x, [p["bound"]["value"] for p in group], style="--", color=ours, marker=""))
        c = fitted.get((group[0]["release"], algorithm))
        if c is not None and all(p.get("order_shape") for p in group):
            style = (0, (5, 2, 1, 2))
            lines.append(Line(f"order bound, fitted C{of}", x, [c * p["order_shape"] for p in group], style=style, color=ours, marker=""))
    if lines:
        group = next(g for g in algorithms.values() if len(g) > 1)
        x = [p["at"][variable] for p in group]
        if all(p.get("lower_shape") for p in group):
            lines.append(Line("lower bound, C = 1", x, [p["lower_shape"] for p in group], style=":", color=LOWER, marker=""))
        if all(p.get("reference_error") and p["reference_error"]["mean"] > 0 for p in group):
            lines.append(Line("non-private", x, [p["reference_error"]["mean"] for p in group], style="-.", color=REFERENCE, marker=""))
        for other in dict.fromkeys(name for p in group for name in p.get("beside", {})):
            y = [p["beside"][other]["mean"] for p in group if other in p.get("beside", {})]
            if len(y) == len(group) and min(y) > 0:
                lines.append(Line(f"{other}, not private", x, y, style=(0, (1, 1)), color=REFERENCE, marker=""))
    return tuple(lines)


def _alt(lines: Sequence[Any], variable: str, measure: str, where: str) -> str:
    parts = [
        f"{line.label} from {line.y[0]:.3g} at {variable} = {show(line.x[0])} to {line.y[-1]:.3g} at {show(line.x[-1])}" for line in lines
    ]
    return f"{measure}" + (f" at {where}" if where else "") + ": " + "; ".join(parts) + "."


def _comparisons(body: Mapping[str, Any]) -> Iterator[str]:
    rows = [
        (c["algorithm"], c["against"], ", ".join(f"{k} = {show(v)}" for k, v in c["at"].items()) or "-", *ratio_text(c))
        for c in body.get("comparisons", [])
    ]
    if rows:
        yield "<h2>Algorithms compared</h2><p class='dim'>Ratio of mean errors on the same records, trials paired.</p>"
        yield table(("algorithm", "against", "at", "ratio", "95% interval", "error"), rows, nowrap=True)


def _rates_table(body: Mapping[str, Any]) -> str:
    parts = []
    if body["rates"]:
        rows = [
            (
                r["variable"],
                r["algorithm"],
                ", ".join(f"{k} = {show(v)}" for k, v in r.get("at", {}).items()) or "-",
                f"{r['measured']:.3g}",
                f"{r['ci95'][0]:.3g} to {r['ci95'][1]:.3g}",
                expected_text(r),
                r["verdict"],
            )
            for r in body["rates"]
        ]
        parts.append(
            "<p class='dim'>Slope of log error against the log of the variable. Consistent: the 99% interval meets the bound's exponent "
            "(its limit, or its slope over these points with logarithms). Better: faster than the bound promises, which it allows.</p>"
        )
        parts.append(table(("in", "algorithm", "at", "measured", "95% interval", "bound's exponent", "verdict"), rows, nowrap=True))
        left = sum(r.get("left_out", 0) for r in body["rates"])
        if left:
            why = "the estimate is no better than the zero vector there, or the bound's conditions fail"
            parts.append(f"<p class='dim'>{left} points are left out: {why}.</p>")
    else:
        parts.append("<p class='dim'>A rate needs a variable with at least three values and a bound that depends on it.</p>")
    parts += [
        f"<p>Constant of the order bound of {escape(c['algorithm'])}, <code>{escape(str(c.get('expression')))}</code>: C = "
        f"{c['value']:.4g}, 95% interval {c['ci95'][0]:.4g} to {c['ci95'][1]:.4g}, from {c['points']} points.</p>"
        for c in body.get("constants", [])
    ]
    return "".join(parts)


def _distributions(body: Mapping[str, Any]) -> Iterator[str]:
    from dpspec.report.plots import short, strips

    groups = {}
    several = len({q["algorithm"] for q in body["points"]}) > 1
    for p in body["points"][:24]:
        at = ", ".join(f"{k} {short(float(v))}" for k, v in p["at"].items()) or p["algorithm"]
        groups[f"{p['algorithm']}: {at}" if several and p["at"] else at] = p["error"]["values"]
    if groups and max(len(v) for v in groups.values()) > 1:
        measure = body["points"][0]["error"]["measure"]
        yield "<h2>Every trial</h2>"
        alt = "Each dot is a trial, each dash a median: " + "; ".join(
            f"{name}: {sorted(v)[len(v) // 2]:.3g} ({min(v):.3g} to {max(v):.3g})" for name, v in groups.items()
        )
        yield strips("Trials", groups, measure, alt + ".")


# ---------------------------------------------------------------------------------------------------------------- record


def _record(body: Mapping[str, Any]) -> Iterator[str]:
    when = escape(body["started"]) + (f" to {escape(body['finished'])}" if body["finished"] else "")
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


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, nowrap: bool = False) -> str:
    top = "" if not any(head) else "<thead><tr>" + "".join(f'<th scope="col">{escape(h)}</th>' for h in head) + "</tr></thead>"
    body = "".join("<tr>" + "".join(_cell(str(v)) for v in row) + "</tr>" for row in rows)
    return f'<div class="scroll" tabindex="0"><table{" class=nowrap" if nowrap else ""}>{top}<tbody>{body}</tbody></table></div>'


def _cell(text: str) -> str:
    word = f' class="{text}"' if text in ("holds", "violated", "undecided", "consistent", "better", "worse") else ""
    return f"<td{word}>{escape(text)}</td>"


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
