"""Writes one Markdown page a diagnostic, and their index, from the registry: ``python docs/gen_diagnostics.py [FOLDER]``."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GROUPS = {
    "DP1": "Language",
    "DP2": "Assumptions",
    "DP3": "Privacy",
    "DP4": "Algorithms and accuracy",
    "DP5": "Data",
    "DP6": "Audit",
    "DP7": "Ledgers",
}


def page(code: str) -> str:
    """The page of one diagnostic."""
    from dpspec.spec.codes import CODES

    entry = CODES[code]
    out = [f"# {code}: {entry.title}", "", entry.explanation, ""]
    for title, text in (("For example", entry.bad), ("Instead", entry.good)):
        if text:
            out += [f"## {title}", "", "```", text, "```", ""]
    if entry.references:
        out += ["## References", ""] + [f"- {r}" for r in entry.references] + [""]
    return "\n".join(out)


def index() -> str:
    from dpspec.spec.codes import CODES

    out = ["# Diagnostics", "", "`dpspec explain CODE` prints the same text.", ""]
    for prefix, title in GROUPS.items():
        out += [f"## {title}", ""]
        out += [f"- [{code}]({code}.md): {entry.title}" for code, entry in CODES.all().items() if code.startswith(prefix)] + [""]
    return "\n".join(out)


def main(folder: Path) -> None:
    from dpspec.spec.codes import CODES

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "index.md").write_text(index(), encoding="utf-8")
    for code in CODES.all():
        (folder / f"{code}.md").write_text(page(code), encoding="utf-8")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "diagnostics")
