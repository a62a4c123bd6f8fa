"""Entries of the public registry of deployments: variant, model, privacy parameters and unit, in each of the registry's forms.

An entry holds no events, so the audit checks that the numbers agree with each other and with the variant, and says what is missing for
more. Only named fields are read; prose beside them decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dpspec.audit.deployment import Deployment, deployment_of, numeric
from dpspec.audit.verdict import AuditResult
from dpspec.spec.diagnostics import Diagnostic, SpecError

_SIGNS = ("dp_variant", "dp_flavor", "privacy_loss", "privacy_parameters", "deployment_model")
_LISTS = ("deployments", "entries", "registry")
#: Where each field stands, in the forms that the registry has had.
_VARIANT = ("dp_variant.variant_name", "dp_variant.name", "dp_variant", "dp_flavor.name", "dp_flavor", "variant")
_NAME = ("basic.name", "product.name", "name", "short_name", "title")
_MODEL = (
    "deployment_model.model_name",
    "model.model_name",
    "model.model_type",
    "deployment_model.name",
    "deployment_model",
    "model.name",
    "model",
)
_UNIT = ("privacy_loss.privacy_unit", "privacy_unit", "unit_of_privacy")
_PARAMETERS = ("privacy_loss.privacy_parameters", "privacy_parameters", "privacy_loss", "")
_RELATION = ("privacy_loss.neighbouring", "privacy_loss.neighboring", "neighbouring", "neighboring", "adjacency")
_MECHANISM = ("implementation.mechanisms", "mechanisms", "mechanism")
_RELEASES = ("deployment_model.release_type", "model.release_type", "release_type")
_MANY = ("deployment_model.is_many_release", "model.is_many_release")
_MODELS = {
    "local": "local",
    "shuffle": "shuffle",
    "shuffled": "shuffle",
    "federated": "federated",
    "central": "central",
    "global": "central",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One entry of the table: what is stated, the verdict, and what is missing for a stronger one."""

    slug: str
    name: str
    model: str
    unit: str
    stated: str
    verdict: str
    missing: tuple[str, ...]
    findings: tuple[Diagnostic, ...]

    def to_json(self) -> dict[str, object]:
        return {
            "entry": self.slug,
            "name": self.name,
            "model": self.model,
            "unit": self.unit,
            "stated": self.stated,
            "verdict": self.verdict,
            "missing": list(self.missing),
            "findings": [{"code": f.code, "severity": f.severity, "message": f.message} for f in self.findings],
        }


def body_of(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """What an entry says of its deployment; the newer forms keep it under ``deployment``, beside the entry's own state."""
    inner = data.get("deployment")
    return inner if isinstance(inner, Mapping) else data


def is_entry(data: Any) -> bool:
    return isinstance(data, Mapping) and any(k in body_of(data) for k in _SIGNS)


def entries(data: Any) -> list[tuple[str, Mapping[str, Any]]]:
    """The entries of a registry with their names: a list, a mapping from name to entry, or either under ``deployments``; else empty."""
    if isinstance(data, Mapping):
        for word in _LISTS:
            if isinstance(data.get(word), (list, Mapping)) and not is_entry(data):
                return entries(data[word])
        if len(data) > 0 and all(is_entry(v) for v in data.values()):
            return [(str(k), v) for k, v in data.items()]
        return []
    if isinstance(data, list) and any(is_entry(v) for v in data):
        return [(_slug(v, i), v if isinstance(v, Mapping) else {}) for i, v in enumerate(data)]
    return []


def _slug(entry: Any, i: int) -> str:
    if isinstance(entry, Mapping):
        for word in ("url_slug", "slug", "id"):
            if isinstance(entry.get(word), str):
                return str(entry[word])
    return f"entry {i + 1}"


def _at(data: Mapping[str, Any], paths: Sequence[str]) -> Any:
    """The first of these places that holds something."""
    for path in paths:
        node: Any = data
        for key in path.split(".") if path else ():
            node = node.get(key) if isinstance(node, Mapping) else None
        if node not in (None, ""):
            return node
    return None


def _word(value: Any) -> str:
    if isinstance(value, Mapping):
        value = value.get("name") or value.get("unit") or next((v for v in value.values() if isinstance(v, str)), "")
    return "" if value is None or isinstance(value, (list, Mapping)) else str(value).strip()


def _numbers(parameters: Mapping[str, Any], notes: list[Diagnostic]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for word, names in (("epsilon", ("epsilon", "epsilon_value")), ("delta", ("delta", "delta_value")), ("rho", ("rho",)), ("mu", ("mu",))):
        raw = next((parameters[n] for n in names if parameters.get(n) is not None), None)
        value = numeric(_first_number(raw))
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            low_enough = word != "delta" or 0 <= value <= 1
            if value >= 0 and low_enough:
                found[word] = value
            else:
                notes.append(_note("DP672", f"{word} {value:g} is out of its range", "state a number in its range"))
        elif value not in (None, "", "N/A", "n/a"):
            notes.append(_note("DP672", f"{word} is given as text: {str(value)[:60]!r}", "state a number"))
    return found


def _first_number(value: Any) -> Any:
    if isinstance(value, Mapping):
        return value.get("value", value.get("amount"))
    if isinstance(value, Sequence) and not isinstance(value, str):
        good = [v for v in (numeric(v) for v in value) if isinstance(v, (int, float)) and not isinstance(v, bool)]
        return max(good) if good else None
    return value


def _note(code: str, message: str, help: str = "") -> Diagnostic:
    return Diagnostic(code, "warning", message, help)


def from_registry(data: Mapping[str, Any]) -> Deployment:
    """An entry as a deployment without events."""
    body = body_of(data)
    notes: list[Diagnostic] = []
    found = _at(body, _PARAMETERS)
    numbers = _numbers(found if isinstance(found, Mapping) else body, notes)
    variant = _word(_at(body, _VARIANT))
    if not variant:
        notes.append(_note("DP605", "the variant of differential privacy is not stated"))
    if not numbers:
        notes.append(_note("DP605", "no privacy parameter is stated"))
    word = _word(_at(body, _MODEL)).lower()
    model = _model(word)
    if word and not model:
        notes.append(_note("DP605", f"the model of trust is given as {word!r}", "central, local, shuffle or federated"))
    model = model or "central"
    relation = _word(_at(body, _RELATION)) or ("local_replace" if model == "local" else "")
    description = {
        "subject": _word(_at(body, _NAME)) or "registry entry",
        "setting": {"model": model, "unit": _word(_at(body, _UNIT)), "neighbouring": relation},
        "claim": {**numbers, "variant": variant},
        "events": body.get("events"),
    }
    whole = deployment_of(description, strict=False)
    return replace(whole, notes=(*whole.notes, *notes))


def _model(word: str) -> str:
    """The model by the first word of its name; empty where that is none of the known."""
    return _MODELS.get(word.replace("-", " ").replace(",", " ").split()[0], "") if word.strip() else ""


def missing(data: Mapping[str, Any], deployment: Deployment) -> tuple[str, ...]:
    """What an entry would have to say for its number to be recomputed."""
    body, claim = body_of(data), deployment.claim
    found = []
    if not _word(_at(body, _VARIANT)):
        found.append("the variant")
    if claim.empty:
        found.append("epsilon, rho or mu")
    elif claim.variant in ("approx", "") and claim.epsilon is not None and claim.delta is None and claim.rho is None and claim.mu is None:
        found.append("delta")
    if not deployment.setting.unit:
        found.append("the unit of privacy")
    if not _model(_word(_at(body, _MODEL)).lower()):
        found.append("the model of trust")
    if not deployment.setting.relation:
        found.append("the neighbouring relation")
    if not _word(_at(body, _MECHANISM)):
        found.append("the mechanisms")
    if not deployment.events:
        found.append("noise scales, sensitivities and number of uses")
    if _word(_at(body, _RELEASES)).lower().startswith("many") or _at(body, _MANY) is True:
        found.append("how many releases one unit meets")
    return tuple(found)


def row_of(slug: str, data: Mapping[str, Any]) -> Row:
    """The verdict on one entry; one that cannot be read says so and stops no other."""
    from dpspec.audit.static import audit_static

    if not is_entry(data):
        return Row(slug, "", "", "", "", "cannot-verify", ("an entry of the registry",), ())
    try:
        deployment = from_registry(data)
        result: AuditResult = audit_static(deployment)
    except SpecError as error:
        return Row(
            slug, _word(_at(body_of(data), _NAME)), "", "", "", "cannot-verify", ("an entry that can be read",), tuple(error.diagnostics)
        )
    claim = deployment.claim
    parts = [(n, getattr(claim, n)) for n in ("epsilon", "delta", "rho", "mu")]
    stated = ", ".join(f"{n} {v:g}" for n, v in parts if v is not None)
    variant = _word(_at(body_of(data), _VARIANT))
    told = f"{stated or 'no number'}{f' ({variant})' if variant else ''}"
    gaps = missing(data, deployment)
    return Row(slug, deployment.subject, deployment.setting.model, deployment.setting.unit, told, result.verdict, gaps, result.findings)


def rows_of(data: Any) -> list[Row]:
    return [row_of(slug, entry) for slug, entry in entries(data)]


def folder(path: Path) -> list[Row]:
    """The entries of a folder, one file each (or several), in the order of their names."""
    from dpspec.audit.yamlread import read_yaml_all

    found: list[Row] = []
    for file in sorted(p for p in path.rglob("*") if p.suffix.lower() in (".yaml", ".yml", ".json") and p.is_file()):
        try:
            documents = [d for d in read_yaml_all(file.read_text(encoding="utf-8"), str(file)) if d is not None]
        except SpecError as error:
            found.append(Row(file.stem, "", "", "", "", "cannot-verify", ("a file that can be read",), tuple(error.diagnostics)))
            continue
        except (OSError, UnicodeDecodeError) as error:
            found.append(Row(file.stem, "", "", "", "", "cannot-verify", ("a file that can be read",), (_note("DP670", str(error)),)))
            continue
        for document in documents:
            if is_entry(document):
                slug = _slug(document, 0)
                found.append(row_of(file.stem if slug == "entry 1" else slug, document))
            else:
                found += rows_of(document)
    if not found:
        raise SpecError([Diagnostic("DP677", "error", f"{path} holds no entry of the registry")], path=str(path))
    return found


def table_text(rows: Sequence[Row]) -> str:
    """The table for a terminal: one line an entry, what is missing below it, and the count of each verdict."""
    lines = []
    wide = max((len(r.slug) for r in rows), default=0)
    for r in rows:
        lines.append(f"{r.slug:<{wide}}  {r.verdict:<14} {r.model:<10} {r.stated}; unit {r.unit or 'not stated'}")
        lines += [f"{'':<{wide}}  {f.severity} {f.code} {f.message}" for f in r.findings if f.severity in ("error", "warning")]
        lines.append(f"{'':<{wide}}  missing: {', '.join(r.missing) or 'nothing'}")
    lines.append(f"{len(rows)} entries: {counts(rows)}")
    return "\n".join(lines)


def counts(rows: Sequence[Row]) -> str:
    found: dict[str, int] = {}
    for r in rows:
        found[r.verdict] = found.get(r.verdict, 0) + 1
    return ", ".join(f"{n} {verdict}" for verdict, n in sorted(found.items(), key=lambda x: -x[1]))


_STYLE = """body{font:15px/1.45 sans-serif;margin:2em auto;max-width:75em;padding:0 1em;color:#222}
table{border-collapse:collapse;width:100%}th,td{text-align:left;vertical-align:top;padding:.35em .6em;border-bottom:1px solid #ddd}
small{color:#555}.violated,.inconsistent{color:#a00}.holds{color:#060}"""


def page(body: str, title: str) -> str:
    """One page that needs nothing else."""
    from html import escape

    style = f"<style>{_STYLE}</style>"
    head = f"<!doctype html>\n<html lang=en><meta charset=utf-8><title>{escape(title)}</title>{style}"
    return f"{head}\n<h1>{escape(title)}</h1>\n{body}\n</html>\n"


def table_html(rows: Sequence[Row]) -> str:
    """The table as the body of a page."""
    from html import escape

    def findings(r: Row) -> str:
        told = "".join(f"<br><small>{f.code} {escape(f.message)}</small>" for f in r.findings if f.severity in ("error", "warning"))
        return f"<td class={r.verdict}>{r.verdict}{told}</td>"

    body = "\n".join(
        f"<tr><td>{escape(r.name or r.slug)}<br><small>{escape(r.slug)}</small></td><td>{escape(r.model)}</td><td>{escape(r.unit)}</td>"
        f"<td>{escape(r.stated)}</td>{findings(r)}<td>{escape(', '.join(r.missing))}</td></tr>"
        for r in rows
    )
    head = "<tr><th>deployment</th><th>model</th><th>unit</th><th>stated</th><th>verdict</th><th>missing</th></tr>"
    return f"<p>{len(rows)} entries: {counts(rows)}</p>\n<table>\n{head}\n{body}\n</table>"
