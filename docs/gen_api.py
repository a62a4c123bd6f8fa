"""Writes docs/api.md, the Python interface, from signatures and docstrings. Usage: python docs/gen_api.py [OUT]

What is public is listed here, section by section; the rest of the page is the code's. Annotations stand as they are written.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
HEAD = """# The Python interface

Generated from signatures and docstrings by `docs/gen_api.py`. What is not here is internal and may change; what is here is as the command
line has it ([commands](commands.md)), and raises `SpecError` where that ends with exit code 2.

`import dpspec` loads nothing else: names are imported where they are first used. [Statistics](statistics.md) has a worked job.
"""
#: A title, what leads into it, and where its names are: a module, and what of it.
SECTIONS: tuple[tuple[str, str, tuple[tuple[str, tuple[str, ...]], ...]], ...] = (
    (
        "dpspec",
        "`import dpspec`.",
        (("dpspec.api", ("load", "loads", "check", "plan", "run", "study", "audit")), ("dpspec", ("SpecError", "PrivacyError"))),
    ),
    (
        "What they return",
        "Objects that the functions above make; nobody builds them.",
        (
            ("dpspec.lang.source", ("Parsed",)),
            ("dpspec.spec.diagnostics", ("Diagnostic", "Span")),
            ("dpspec.api", ("Plan",)),
            ("dpspec.compiler.plan", ("CheckedGuarantee",)),
            ("dpspec.executor.record", ("Record", "StudyResult", "NotWritten")),
            ("dpspec.audit.verdict", ("AuditResult",)),
        ),
    ),
    (
        "Estimators",
        "`dpspec.sklearn`, with scikit-learn's interface.",
        (("dpspec.sklearn", ("PrivateLogisticRegression", "PrivateLinearRegression", "spent", "BudgetWarning")),),
    ),
    (
        "On a user's device",
        "`dpspec.client`, which needs NumPy alone: [local deployments](local-deployments.md).",
        (("dpspec.client", ("load", "report", "Client", "Device", "read_state", "RoundState", "ClientError")),),
    ),
    (
        "Budgets over many runs",
        "`dpspec.ledger.book`: [the ledger](ledger.md).",
        (("dpspec.ledger.book", ("create", "Ledger", "Account", "Reservation", "Refused")),),
    ),
    (
        "Audits of anybody's mechanism",
        "`dpspec.audit.empirical`: [empirical auditing](empirical-audit.md).",
        (("dpspec.audit.empirical", ("audit_callable", "numbers")),),
    ),
)
#: Classes that a caller builds: their constructor is shown.
BUILT = ("PrivateLogisticRegression", "PrivateLinearRegression", "Client", "Ledger")


def plain(text: str) -> str:
    """A docstring as Markdown."""
    text = re.sub(r":\w+:`~?(?:[\w.]*\.)?(\w+)`", r"`\1`", text)
    return re.sub(r"``([^`]*)``", r"`\1`", text)


def signature(name: str, of: Callable[..., Any], indent: str = "") -> str:
    """``name(arguments) -> result``, one argument a line where it is long."""
    found = inspect.signature(of)
    said = [p for p in found.parameters.values() if p.name != "self"]
    # annotations are text already, since every module postpones them
    parts = [str(p).replace("'", "") if p.default is inspect.Parameter.empty else str(p) for p in said]
    if any(p.kind is inspect.Parameter.KEYWORD_ONLY for p in said):
        first = next(i for i, p in enumerate(said) if p.kind is inspect.Parameter.KEYWORD_ONLY)
        if not any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in said):
            parts.insert(first, "*")
    parts = [re.sub(r": '([^']*)'", r": \1", part) for part in parts]
    result = found.return_annotation
    after = "" if result is inspect.Signature.empty else f" -> {str(result).strip(chr(39))}"
    one = f"{name}({', '.join(parts)}){after}"
    return one if len(one) <= 100 else f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){after}"


def doc(of: Any) -> str:
    return plain(inspect.cleandoc(of.__doc__ or ""))


def members(kind: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties that it or a class of ours that it comes from defines, in the order of the source."""
    seen: set[str] = set()
    for base in kind.__mro__:
        if not base.__module__.startswith("dpspec"):
            continue
        for name, value in vars(base).items():
            held = value.__func__ if isinstance(value, staticmethod) else value
            if name.startswith("_") or name in seen or not (inspect.isfunction(held) or isinstance(held, property)):
                continue
            seen.add(name)
            yield name, held


def code(text: str) -> list[str]:
    return ["```python", text, "```", ""]


def of_class(name: str, kind: type) -> list[str]:
    out = [f"### {name}", ""]
    if name in BUILT:
        out += code(signature(name, kind.__init__))
    for base in kind.__mro__:
        if base.__module__.startswith("dpspec") and base.__doc__:
            out += [doc(base), ""]
    if is_dataclass(kind):
        out += ["| field | type |", "|---|---|"]
        out += [f"| `{f.name}` | `{str(f.type).replace('|', chr(92) + '|')}` |" for f in fields(kind) if not f.name.startswith("_")] + [""]
    for word, value in members(kind):
        if isinstance(value, property):
            assert value.fget is not None
            result = inspect.signature(value.fget).return_annotation
            out += [*code(f"{name}.{word}: {str(result).strip(chr(39))}"), doc(value), ""]
        else:
            out += [*code(signature(f"{name}.{word}", value)), doc(value), ""]
    return out


def document() -> str:
    out = [HEAD]
    for title, lead, places in SECTIONS:
        out += [f"## {title}", "", lead, ""]
        for module, names in places:
            for name in names:
                found = getattr(importlib.import_module(module), name)
                if isinstance(found, type):
                    out += of_class(name, found)
                else:
                    out += [f"### {name}", "", *code(signature(name, found)), doc(found), ""]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)).rstrip() + "\n"


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "api.md"
    target.write_text(document(), encoding="utf-8")
