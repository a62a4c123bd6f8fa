"""Findings for machines: SARIF 2.1.0, GitHub annotations, JUnit XML."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

from dpspec.spec.diagnostics import Diagnostic, Span

Row = tuple[str, Sequence[Diagnostic]]
LEVEL = {"error": "error", "warning": "warning", "info": "note"}
ANNOTATION = {"error": "error", "warning": "warning", "info": "notice"}


def as_sarif(rows: Iterable[Row]) -> str:
    """One run, a stable ruleId a code, paths as given (relative paths stay relative), a fingerprint that survives line moves."""
    from dpspec.spec.codes import CODES
    from dpspec.version import __version__

    results: list[dict[str, Any]] = []
    used: dict[str, None] = {}
    for path, diagnostics in rows:
        for d in diagnostics:
            used[d.code] = None
            related = [
                {"id": i, "physicalLocation": _location(r.path, r.span), "message": {"text": r.message}} for i, r in enumerate(d.related, 1)
            ]
            text = d.message + (f"\n{d.help}" if d.help else "")
            results.append(
                {
                    "ruleId": d.code,
                    "level": LEVEL[d.severity],
                    "message": {"text": text},
                    "locations": [{"physicalLocation": _location(path, d.span)}],
                    **({"relatedLocations": related} if related else {}),
                    "partialFingerprints": {"dpspec/v1": hashlib.sha256(f"{path}:{d.code}:{d.message}".encode()).hexdigest()},
                }
            )
    rules = [
        {"id": code, "shortDescription": {"text": CODES[code].title}, "fullDescription": {"text": CODES[code].explanation}}
        for code in sorted(used)
    ]
    driver = {"name": "dpspec", "version": __version__, "rules": rules}
    return json.dumps(
        {
            "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
            "version": "2.1.0",
            "runs": [{"tool": {"driver": driver}, "results": results}],
        },
        indent=2,
    )


def _location(path: str, span: Span | None) -> dict[str, Any]:
    uri = quote(path.replace("\\", "/"), safe="/:")
    if span is None:
        return {"artifactLocation": {"uri": uri}}
    region = {"startLine": span.line, "startColumn": span.column, "endLine": span.end_line, "endColumn": span.end_column}
    return {"artifactLocation": {"uri": uri}, "region": region}


def as_github(rows: Iterable[Row]) -> str:
    """Workflow commands, one a finding: ``::error file=..,line=..,col=..,title=..::message``."""
    lines = []
    for path, diagnostics in rows:
        for d in diagnostics:
            where = f"file={_property(path)}"
            if d.span is not None:
                where += f",line={d.span.line},col={d.span.column},endLine={d.span.end_line},endColumn={d.span.end_column}"
            text = d.message + (f"\n{d.help}" if d.help else "")
            lines.append(f"::{ANNOTATION[d.severity]} {where},title={d.code}::{_data(text)}")
    return "\n".join(lines)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def as_junit(rows: Iterable[Row]) -> str:
    """One test case a file; an error-level diagnostic is a failure, the rest stands in system-out."""
    cases = list(rows)
    failures = sum(any(d.severity == "error" for d in ds) for _, ds in cases)
    suite = ElementTree.Element("testsuite", name="dpspec check", tests=str(len(cases)), failures=str(failures), errors="0", skipped="0")
    for path, diagnostics in cases:
        case = ElementTree.SubElement(suite, "testcase", classname="dpspec", name=path)
        errors = [d for d in diagnostics if d.severity == "error"]
        for d in errors:
            failure = ElementTree.SubElement(case, "failure", type=d.code, message=_xml(d.message))
            failure.text = _xml(_line(path, d))
        rest = [_line(path, d) for d in diagnostics if d.severity != "error"]
        if rest:
            ElementTree.SubElement(case, "system-out").text = _xml("\n".join(rest))
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True)


def _line(path: str, d: Diagnostic) -> str:
    where = f"{path}:{d.span.line}:{d.span.column}" if d.span is not None else path
    return f"{where}: {d.code} {d.severity}: {d.message} {d.help}".rstrip()


def _xml(text: str) -> str:
    """Without the control characters that XML 1.0 cannot hold."""
    return "".join(c for c in text if c in "\t\n\r" or ord(c) >= 32)
