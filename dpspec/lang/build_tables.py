"""Turn ``grammar.lark`` into ``tables.py``: ``python -m dpspec.lang.build_tables``.

Lark computes the LALR(1) tables here, once, by the developer. At run time :mod:`dpspec.lang.engine` drives them, so that parsing a
spec neither imports lark nor computes a table. A test rebuilds the text and compares.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
HEADER = '"""Generated from grammar.lark by build_tables.py. Do not edit."""\n\n# ruff: noqa\n# fmt: off\nfrom typing import Any\n\n'


class _Conflicts(logging.Handler):
    """Lark resolves shift/reduce conflicts silently; here they are errors."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if "conflict" in record.getMessage().lower():
            self.seen.append(record.getMessage())


def _order(table: Any) -> dict[Any, int]:
    """Number the states breadth first, so that the same grammar always gives the same text."""
    from lark.parsers.lalr_analysis import Shift

    order: dict[Any, int] = {}
    queue = [table.start_states[name] for name in sorted(table.start_states)]
    while queue:
        state = queue.pop(0)
        if state in order:
            continue
        order[state] = len(order)
        queue.extend(argument for _, (action, argument) in sorted(table.states[state].items(), key=lambda p: str(p[0])) if action is Shift)
    return order


def build() -> str:
    """The text of ``tables.py``. Raises lark's GrammarError when the grammar is not LALR(1)."""
    import lark
    from lark.parsers.lalr_analysis import Shift

    grammar = (HERE / "grammar.lark").read_text(encoding="utf-8")
    starts = sorted({line.split(":")[0] for line in grammar.splitlines() if line.startswith("start_")})
    conflicts = _Conflicts()
    lark.logger.addHandler(conflicts)
    lark.logger.setLevel(logging.DEBUG)
    try:
        parser: Any = lark.Lark(grammar, parser="lalr", lexer="basic", start=starts, maybe_placeholders=False, debug=True)
    finally:
        lark.logger.removeHandler(conflicts)
        lark.logger.setLevel(logging.CRITICAL)
    if conflicts.seen:
        raise ValueError("the grammar is ambiguous: " + "; ".join(conflicts.seen))
    table = parser.parser.parser._parse_table
    order = _order(table)
    literals = {t.pattern.value: t.name for t in parser.terminals if type(t.pattern).__name__ == "PatternStr"}
    patterns = {t.name: t.pattern.value for t in parser.terminals if type(t.pattern).__name__ == "PatternRE" and t.pattern.value != ""}
    rules: list[tuple[str, int, str, tuple[int, ...]]] = []
    index: dict[Any, int] = {}
    states = {}
    for state in order:
        row = {}
        for symbol, (action, argument) in sorted(table.states[state].items(), key=lambda p: str(p[0])):
            if action is Shift:
                row[symbol] = order[argument]
            else:
                if argument not in index:
                    index[argument] = len(rules)
                    keep = tuple(i for i, s in enumerate(argument.expansion) if not (s.is_term and s.filter_out))
                    rules.append((str(argument.origin.name), len(argument.expansion), str(argument.alias or ""), keep))
                row[symbol] = -1 - index[argument]
        states[order[state]] = row
    wanted = {k: v for k, v in patterns.items() if k in {"NUMBER", "NAME", "STRING", "SUPERSCRIPT"}}
    out = [HEADER]
    out.append(f"LITERALS: dict[str, str] = {dict(sorted(literals.items()))!r}\n")
    out.append(f"PATTERNS: dict[str, str] = {dict(sorted(wanted.items()))!r}\n")
    out.append(f"STARTS: dict[str, int] = { {k: order[v] for k, v in sorted(table.start_states.items())}!r}\n")
    out.append(f"ENDS: dict[str, int] = { {k: order[v] for k, v in sorted(table.end_states.items())}!r}\n")
    out.append("# (rule, length, action, kept children)\nRULES: list[tuple[str, int, str, tuple[int, ...]]] = [\n")
    out.extend(f"    {rule!r},\n" for rule in rules)
    out.append("]\n# state -> symbol -> next state, or -1 - rule to reduce by\nSTATES: list[dict[str, int]] = [\n")
    out.extend(f"    {dict(sorted(states[i].items()))!r},\n" for i in range(len(states)))
    out.append("]\n")
    return "".join(out).replace("from typing import Any\n\n", "")


if __name__ == "__main__":
    (HERE / "tables.py").write_text(build(), encoding="utf-8")
    sys.stdout.write("wrote tables.py\n")
