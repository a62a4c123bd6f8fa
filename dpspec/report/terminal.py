"""Plans, records and studies as text for a terminal. Input is their JSON form, so a stored file renders like a fresh one."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

WIDTH = 100
LABEL = 12


def plan_text(plan: Mapping[str, Any], *, color: bool = False, verbose: bool = False) -> str:
    """The plan as a person reads it: what is released, how private it is, what it rests on, what it costs."""
    return "\n".join(_plan(plan, color, verbose))


def _plan(plan: Mapping[str, Any], color: bool, verbose: bool) -> Iterator[str]:
    g = plan["guarantee"]
    yield bold(plan["analysis"], color) + f"   {g['model']} · {g['neighbours']} · unit {g['unit']}{only(g)} · {plan['spec']['path']}"
    yield f"plan {plan['sha256'][:12]}"
    yield ""
    yield from block("privacy", [guarantee_line(g), *plan["risk"]], color)
    hashed = [f for f in plan.get("files", ()) if f.get("sha256")]
    yield from block("public", [f"{f['role']} {f['path']}, sha256 {f['sha256'][:12]}" for f in hashed], color)
    for release in plan["releases"]:
        yield ""
        yield f"{bold('release ' + release['name'], color)}   {release['task']}"
        yield from _release(release, color, verbose)
        hostile = [row for row in plan.get("influence", ()) if row["release"] == release["name"]]
        yield from block("hostile", [influence_line(row) for row in hostile], color)


def _release(r: Mapping[str, Any], color: bool, verbose: bool) -> Iterator[str]:
    yield from block("rests on", _assumptions([a for a in r["assumptions"] if a["role"] == "privacy"]), color)
    yield from block("algorithm", _algorithm(r, verbose), color)
    if r.get("origin"):
        yield from block("", [f"of another package: {r['origin']}"], color)
    yield from block("noise", [noise_line(row) for row in r["noise"]], color)
    if r["published"]:
        yield from block("published", [published_line(p) for p in r["published"]["all"]], color)
    yield from block("bound", list(_bounds(r)), color)
    wants = [a for a in r["assumptions"] if a["role"] == "utility"]
    yield from block("bounds need", _assumptions(wants), color)
    yield from block("cost", [cost_line(r["cost"])], color)


def _assumptions(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    lines: list[str] = []
    for a in rows:
        head = f"{a['name']:<16} {a['status']:<9} "
        lines += textwrap.wrap(a["evidence"], WIDTH - LABEL, initial_indent=head, subsequent_indent=" " * len(head))
    return lines


def only(g: Mapping[str, Any]) -> str:
    """What of a record is protected, where it is not all of it."""
    return "" if g.get("protects", "records") == "records" else f" · protects {g['protects']} only"


def guarantee_line(g: Mapping[str, Any]) -> str:
    parts = []
    if g["epsilon"] is not None:
        parts.append(f"epsilon {g['epsilon']:.6g}")
    if g["delta"]:
        parts.append(f"delta {g['delta']:.3g}")
    if g["rho"] is not None:
        parts.append(f"rho {g['rho']:.6g}")
    if g["mu"] is not None:
        parts.append(f"mu {g['mu']:.4g} (Gaussian DP)")
    checked = ""
    if g["checked_epsilon"] is not None:
        checked = f"; recomputed by {g['checked_by']}: {g['checked_epsilon']:.6g}"
    return f"{', '.join(parts)}   {g['kind']}, by {g['accountant']}{checked}"


def _algorithm(r: Mapping[str, Any], verbose: bool) -> list[str]:
    refused = [c for c in r["candidates"] if not c["eligible"]]
    able = [c for c in r["candidates"] if c["eligible"]]
    head = r["algorithm"]
    if len(r["candidates"]) > 1:
        head += f"   best of {len(able)} eligible by predicted error" if len(able) > 1 else "   the only one that can serve"
    lines = [head]
    others = [c for c in able if c["id"] != r["algorithm"]]
    for c in others:
        predicted = "no prediction" if c["predicted_error"] is None else f"predicted error {c['predicted_error']:.3g}"
        lines.append(f"  also eligible: {c['id']} ({predicted})")
    shown = refused if verbose else [c for c in refused if not c["reasons"][0].startswith("it serves the task")]
    lines += [f"  refused: {c['id']}: {c['reasons'][0]}" for c in shown]
    settings = [
        f"{name} {show(s['value'])} ({'set in the spec' if s['source'] == 'the spec' else s['formula']})"
        for name, s in r["tunables"].items()
    ]
    lines += textwrap.wrap(" · ".join(settings), WIDTH - LABEL) if settings else []
    return lines


def noise_line(row: Mapping[str, Any]) -> str:
    if row["per"] == "user":
        each = row.get("each", row["per_record"])
        count = "one by each user" if each == 1 else f"{each:,} by each user"
    elif row["count"] > 1:
        count = f"x {row['count']:,}"
    else:
        count = "once"
    text = f"{row['name']}: {row['mechanism']} {count}, scale {row['scale']:.4g}"
    if row["sensitivity"] is not None:
        text += f", sensitivity {row['sensitivity']:.4g} ({row['norm']})"
    if row["sampling"]:
        text += f", {row['sampling']['method']} sampling at rate {row['sampling']['rate']:.3g}"
    return text


def published_line(p: Mapping[str, Any]) -> str:
    spent = p["epsilon_if_used"]
    spends = "has no finite guarantee" if spent is None else f"would spend epsilon {spent:.4g}"
    source = f"{p['source']} would add" if p.get("source") else f"{p['noise_formula']}:"
    return f"{source} {show(p['scale'])} and {spends.replace('would spend', 'spend')}" + (f" ({p['remark']})" if p.get("remark") else "")


#: What the symbols of order bounds are; ``dpspec algorithms ID`` says it bound by bound.
LEGEND = (
    "C: an unspecified constant; L, B, lam: the Lipschitz, smoothness and ridge constants of the loss; D: the distance to cover;",
    "[claimed]: printed in the source, not re-derived here; 000: the thesis, 001 to 004: the papers",
)


def _bounds(r: Mapping[str, Any]) -> Iterator[str]:
    shown = [b for b in r["bounds"] if (b["kind"] != "explicit" or b["value"] is not None) and not b.get("outside")]  # others do not apply
    for b in shown:
        sign = "<=" if b["type"] == "upper" else ">="
        value = f"{b['value']:.4g}" if b["value"] is not None else b["expression"]
        chance = (
            f", probability {b['probability']:.4g}"
            if b["probability"] is not None
            else ", in expectation"
            if b["kind"] == "explicit"
            else ""
        )
        refuted = "" if b["status"] == "proved" else f" [{b['status']}]"
        if b.get("vacuous") is not None:  # true, and no guarantee
            yield f"{b['measure']}: {b['theorem']} is vacuous, {value} where every answer, or the one without data, has {b['vacuous']:.4g}"
            continue
        yield f"{b['measure']} {sign} {value}   {b['kind']}{chance}{refuted}, {b['theorem']}{begins(b)}"
    for b in r["bounds"]:
        if b["status"] != "refuted" and any(not text.startswith("it is of") for text in b.get("outside", ())):  # not another setting's
            yield f"{b['measure']}: {b['theorem']} says nothing here, {'; '.join(b['outside'])}"
    if any(b["value"] is None for b in shown):
        yield from LEGEND
    t = r["target"]
    if t:
        verdict = {True: "met", False: "MISSED", "unknown": "not decided by a proved explicit bound"}[t["met"]]
        chance = f" with probability {t['probability']:g}" if t["probability"] is not None else ""
        yield f"target {t['measure']} <= {t['at_most']:g}{chance}: {verdict}"
        least = []
        if t["least_n"] is not None:
            least.append(f"least n {t['least_n']:,}")
        if t["least_epsilon"] is not None:
            least.append(f"least epsilon {t['least_epsilon']:.3g}")
        if least:
            yield " · ".join(least)


def begins(b: Mapping[str, Any]) -> str:
    """From which n on a bound says something, where its card states it."""
    if b.get("least_n") is None:
        return ""
    order = "of the order of " if "C" in b["regime"] else ""
    return f", from n {order}{b['least_n']:,.0f}"


def influence_line(row: Mapping[str, Any]) -> str:
    who = "one user moves" if row["malicious"] == 1 else f"{row['malicious']:,} users move"
    return f"{who} the mean of {row['draw']} by at most {row['moves']:.3g} (l2), whatever is sent"


def cost_line(c: Mapping[str, Any]) -> str:
    parts = []
    if c.get("gradients") is not None:
        parts.append(f"{c['gradients']:.3g} record gradients")
    if c.get("noise_draws") is not None:
        parts.append(f"{c['noise_draws']:.3g} noise draws")
    if c.get("rounds") is not None:
        parts.append(f"{c['rounds']:g} round{'s' if c['rounds'] != 1 else ''}")
    if c.get("bits_per_user") is not None:
        parts.append(f"{c['bits_per_user']:.3g} bits a user")
    if c.get("memory_bytes") is not None:
        parts.append(f"{c['memory_bytes'] / 1e6:.3g} MB")
    if (c.get("records_bytes") or 0) >= 2**27:  # fewer stay in memory, which is no news
        disk = f" and {c['disk_bytes'] / 1e6:.3g} MB of disk" if c.get("disk_bytes") and c["disk_bytes"] > c["records_bytes"] else ""
        parts.append(f"records in {c['records_bytes'] / 1e6:.3g} MB{disk}")
    return " · ".join(parts)


def record_text(record: Mapping[str, Any], *, color: bool = False) -> str:
    """A release record: what was drawn and what came out. It knows no error, so none is shown."""
    lines = [bold(f"released under plan {record['plan_sha256'][:12]}", color), ""]
    lines += list(block("guarantee", [guarantee_line(record["guarantee"])], color))
    drawn = [f"{e['name']}: {e['mechanism']} x {e['count']:,}, scale {e['scale']:.4g}" for e in record["events"]]
    lines += list(block("drawn", drawn, color))
    outputs = []
    for name, out in record["outputs"].items():
        if "file" in out:
            outputs.append(f"{name}: {', '.join(f'{k} {tuple(v)}' for k, v in out['shapes'].items())} in {out['file']}")
        elif "name" not in out["values"]:
            for key, values in out["values"].items():
                outputs.append(f"{name}.{key} = {vector(values)}")
    lines += list(block("outputs", outputs, color))
    if rows := [row for name, out in record["outputs"].items() for row in statistics_rows(name, out.get("values", {}))]:
        lines += ["", *table(("release", "what", "value", "standard error", "95% interval of the noise"), rows), ""]
    if entry := record.get("ledger"):
        late = "" if entry["committed"] else "; its commit could not be written, so it stays open"
        lines += list(block("ledger", [f"entry {entry['entry']} of account {entry['account']}{late}"], color))
    lines += list(block("not shown", ["the error, residuals and statistics of the data: they would be further releases"], color))
    return "\n".join(lines)


def statistics_rows(release: str, values: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """A row for each named number of a release: its value, the standard error of its noise, and the interval that it is known to lie in;
    of a quantile, by what share of the records its rank may be off."""
    for i, name in enumerate(values.get("name", ())):
        error = f"{values['standard_error'][i]:.4g}" if "standard_error" in values else "-"
        around = f"[{values['low'][i]:.6g}, {values['high'][i]:.6g}]" if "low" in values else "-"
        if "rank_error" in values:
            near = values["rank_within"][i] if "rank_within" in values else 0.0
            around = (f"within {near:.4g} of it a " if near else "") + f"rank off by {values['rank_error'][i]:.2%} at most"
        yield release, str(name), f"{values['value'][i]:,.6g}", error, around


def ratio_text(c: Mapping[str, Any]) -> tuple[str, str, str]:
    return times(c["ratio"]), f"{times(c['ci95'][0])} to {times(c['ci95'][1])}", c["error"]


def times(value: float) -> str:
    return f"{value:,.0f}" if 100 <= value < 1e9 else f"{value:.3g}"


def expected_text(r: Mapping[str, Any]) -> str:
    """The bound's exponent, with its slope over the points of the study where logarithms make it another one."""
    here, text = r.get("expected_here"), f"{r['expected']:.3g}"
    return text if here is None or abs(here - r["expected"]) < 0.005 else f"{text} ({here:.3g} over these points)"


def vector(values: Any, limit: int = 8) -> str:
    if not isinstance(values, list):
        return show(values)
    flat = values
    while flat and isinstance(flat[0], list):
        flat = [v for row in flat for v in row]
    head = ", ".join(f"{v:.4g}" for v in flat[:limit])
    return f"[{head}{', ...' if len(flat) > limit else ''}] ({len(flat)} numbers)"


def study_text(study: Mapping[str, Any], *, color: bool = False) -> str:
    """A study: measured error at each point, with the bound beside it, then rates and the fitted constant."""
    lines = [bold(f"study of plan {study['plan_sha256'][:12]}", color) + f"   seed {study['seed']}", ""]
    rows = []
    several = len({p["error"]["measure"] for p in study["points"]}) > 1
    for p in study["points"]:
        e, b, ref = p["error"], p["bound"], p.get("reference_error")
        at = ", ".join(f"{k} = {show(v)}" for k, v in p["at"].items())
        bound = "-" if b is None or b["value"] is None else f"{b['value']:.4g}"
        holds = {True: "holds", False: "VIOLATED", None: "-"}[None if b is None else b["holds"]]
        holds = "vacuous" if holds == "holds" and b.get("vacuous") else holds
        rows.append(
            [
                p["release"],
                p["algorithm"],
                at or "as written",
                str(p["trials"]),
                f"{e['mean']:.4g}" + (f" {e['measure']}" if several else ""),
                f"[{e['ci95'][0]:.4g}, {e['ci95'][1]:.4g}]",
                "-" if not ref else f"{ref['mean']:.4g}",
                "-" if not p.get("cost_of_privacy") else f"x {times(p['cost_of_privacy']['ratio'])}",
                bound,
                holds,
            ]
        )
    measure = study["points"][0]["error"]["measure"] if study["points"] and not several else "error"
    head = ["release", "algorithm", "at", "trials", f"mean {measure}", "95% interval", "non-private", "cost", "bound", "verdict"]
    lines += table(head, rows)
    for p in study["points"]:
        if (t := p.get("target")) is not None:
            at = ", ".join(f"{k} = {show(v)}" for k, v in p["at"].items())
            chance = "" if t["probability"] is None else f" with probability {t['probability']:g}"
            word = {"met": "met", "missed": "MISSED", "undecided": "undecided by these trials"}[t["verdict"]]
            ends = ["-" if v is None else f"{v:.4g}" for v in t["interval"]]
            word += f"; 95% interval of the {'mean' if t['probability'] is None else 'share of trials within'} [{', '.join(ends)}]"
            where = f"{p['release']}, {p['algorithm']}" + (f", {at}" if at else "")
            lines += ["", f"target of {where}: {t['measure']} <= {t['at_most']:g}{chance}: {word}"]
    for p in study["points"]:
        for name, found in p.get("beside", {}).items():
            at = ", ".join(f"{k} = {show(v)}" for k, v in p["at"].items())
            interval = f"[{found['ci95'][0]:.4g}, {found['ci95'][1]:.4g}]"
            where = f"{p['release']}, {p['algorithm']}" + (f", {at}" if at else "")
            lines += ["", f"beside {where}: {name}, not private, has {found['mean']:.4g} {interval}"]
    if held := held_out_rows(study["points"]):
        lines += ["", "on records that were held out:", *table(HELD_OUT, held)]
    for note in study.get("notes", []):
        lines.append("")
        lines += textwrap.wrap(note, WIDTH)
    for r in study.get("regimes", []):
        lines += ["", f"{r['algorithm']}: {r['text']}"]
    without = [p["trivial_error"] for p in study["points"] if p.get("trivial_error") is not None]
    if without:
        low, high = f"{min(without):.4g}", f"{max(without):.4g}"
        lines += ["", f"an answer without data, the zero vector or its like, has {low}" + ("" if low == high else f" to {high}")]
    idle = [p for p in study["points"] if p.get("trivial_error") and p["error"]["mean"] >= 0.9 * p["trivial_error"]]
    if idle:
        lines += ["", f"at {len(idle)} of {len(study['points'])} points the estimate is no better than the zero vector"]
    if study["rates"]:
        lines.append("")
        lines += table(
            ["rate in", "algorithm", "at", "expected", "measured", "95% interval", "verdict"],
            [
                [
                    r["variable"],
                    r["algorithm"],
                    ", ".join(f"{k} = {show(v)}" for k, v in r["at"].items()) or "-",
                    expected_text(r),
                    f"{r['measured']:.3g}",
                    f"[{r['ci95'][0]:.3g}, {r['ci95'][1]:.3g}]",
                    r["verdict"],
                ]
                for r in study["rates"]
            ],
        )
    if study.get("comparisons"):
        rows = [
            [c["algorithm"], c["against"], ", ".join(f"{k} = {show(v)}" for k, v in c["at"].items()) or "-", *ratio_text(c)]
            for c in study["comparisons"]
        ]
        lines += ["", *table(["algorithm", "against", "at", "ratio of errors", "95% interval", "error"], rows)]
    for c in study["constants"]:
        fit = f"{c['value']:.4g}, 95% interval [{c['ci95'][0]:.4g}, {c['ci95'][1]:.4g}]"
        lines += ["", f"constant of the order bound of {c['algorithm']}, {c['expression']}: {fit}"]
    return "\n".join(lines)


HELD_OUT = ("release", "algorithm", "at", "mean error", "95% interval", "non-private", "without data")


def held_out_rows(points: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """A row for each point that was measured on held-out records too."""
    rows: list[tuple[str, ...]] = []
    for p in points:
        if (h := p.get("held_out")) is None:
            continue
        e, ref, none = h["error"], h["reference_error"], h["trivial_error"]
        at = ", ".join(f"{k} = {show(v)}" for k, v in p["at"].items()) or "as written"
        around = f"[{e['ci95'][0]:.4g}, {e['ci95'][1]:.4g}]"
        others = ("-" if ref is None else f"{ref['mean']:.4g}", "-" if none is None else f"{none:.4g}")
        rows.append((p["release"], p["algorithm"], at, f"{e['mean']:.4g} {e['measure']}", around, *others))
    return rows


def theory_text(theory: Mapping[str, Any], *, color: bool = False) -> str:
    """What the bounds promise over a grid, and what a fitted constant predicts."""
    lines: list[str] = []
    for t in theory.get("trade_off", []):
        if t["kind"] is None:
            lines += [
                bold(f"trade-off of {t['release']}", color),
                f"no proved explicit bound of {t['algorithm']} applies; fit a constant",
                "",
            ]
            continue
        kind = "promised by the proved bound" if t["kind"] == "explicit" else "predicted with the fitted constant of the order bound"
        lines.append(bold(f"trade-off of {t['release']}", color) + f"   {t['measure']} {kind} of {t['algorithm']}, {t['theorem']}")
        head = [f"{t['budget']} \\ n", *(show(float(c)) for c in t["columns"])]
        rows = []
        for r, values, fits in zip(t["rows"], t["values"], t["fitted"], strict=True):
            rows.append([show(r), *("-" if v is None else f"{'~' if f else ''}{v:.4g}" for v, f in zip(values, fits, strict=True))])
        lines += [*table(head, rows)]
        if t["kind"] == "explicit" and any(f for fits in t["fitted"] for f in fits):
            lines.append("~ predicted with the fitted constant of the order bound where no proved explicit bound applies")
        lines.append("")
    for p in theory.get("predictions", []):
        lines.append(bold(f"prediction for {p['release']}", color) + f"   constant of {p['algorithm']} from {p['study']}")
        c = f"C = {p['constant']:.4g} [{p['ci95'][0]:.4g}, {p['ci95'][1]:.4g}] (study of plan {p['study_plan_sha256'][:12]})"
        lines.append(f"{p['measure']} about {p['predicted']:.4g} [{p['predicted95'][0]:.4g}, {p['predicted95'][1]:.4g}], {c}")
        if p["extrapolates"]:
            lines.append("this n lies outside the study's; the prediction extrapolates")
        if p["target"] is not None:
            safe_n, safe_budget = _about(p["least_n_safe"]), _about(p["least_budget_safe"])
            lines.append(
                f"for {p['measure']} <= {p['target']:g}: least n about {_about(p['least_n'])} ({safe_n} with the upper end of C), least "
                f"{p['budget']} about {_about(p['least_budget'])} ({safe_budget}); predictions, not promises"
            )
        lines.append("")
    return "\n".join(lines).rstrip()


def _about(value: float | None) -> str:
    return "none in range" if value is None else f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(head[i]), *(len(r[i]) for r in rows)) if rows else len(head[i]) for i in range(len(head))]
    out = ["  ".join(h.ljust(w) for h, w in zip(head, widths, strict=True)).rstrip()]
    out.append("  ".join("-" * w for w in widths))
    out += ["  ".join(v.ljust(w) for v, w in zip(r, widths, strict=True)).rstrip() for r in rows]
    return out


def block(label: str, lines: Sequence[str], color: bool) -> Iterator[str]:
    for i, line in enumerate(x for x in lines if x):
        yield f"{bold(label.ljust(LABEL), color) if i == 0 else ' ' * LABEL}{line}"


def bold(text: str, color: bool) -> str:
    return f"\033[1m{text}\033[0m" if color else text


def show(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{int(value):,}" if value == int(value) and abs(value) < 1e15 else f"{value:.4g}"
    return str(value)
