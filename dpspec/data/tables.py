"""Columns by name, what a spec wants of them, and the header row of text: what readers of files have in common."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NoReturn

from dpspec.data.problems import fail, nearest, problem
from dpspec.data.records import Matrix
from dpspec.spec.diagnostics import Diagnostic, SpecError

MISSING: Final = ("", "NA", "N/A", "NaN", "nan", "null", "NULL")


@dataclass(frozen=True, slots=True)
class Frame:
    """Columns by name. Either ``table`` (a pyarrow Table) or ``matrix`` ((n, len(names)), dense or CSR) is set; ``y`` only beside a
    matrix. ``where`` names the origin in messages. ``header``: the names may be shown (they are not cells of a first record)."""

    names: tuple[str, ...]
    n: int
    where: str
    table: Any = None
    matrix: Matrix | None = None
    y: Any = None
    public_x: Any = None
    header: bool = True


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the spec needs of a table: so that text columns are typed by the spec and not guessed from the first records."""

    target: str | None = None
    columns: tuple[str, ...] = ()
    words: frozenset[str] = frozenset()  # columns read as text
    levels: frozenset[str] = frozenset()  # declared levels, never taken for a missing value
    sparse_width: int | None = None  # features of a libsvm file
    private: bool = True
    extra: tuple[str, ...] = field(default=())  # further columns the spec names (encodings)
    uncounted: bool = False  # how many records there are is private: nothing may depend on it, none included

    def named(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.columns, *self.extra, *((self.target,) if self.target else ()))))


def require(wanted: Wanted, names: Sequence[str], where: str, header: bool) -> None:
    """Refuse duplicate names and names of the spec that the data lacks."""
    if len(set(names)) != len(names):
        twice = sorted({n for n in names if list(names).count(n) > 1})
        shown = f": {', '.join(twice)}" if header and not wanted.private else ""
        fail("DP516", f"{where} has two columns of one name{shown}", "rename one of them", path=where)
    missing = [n for n in wanted.named() if n not in names]
    if not missing:
        return
    found: list[Diagnostic] = []
    for name in missing:
        near = nearest(name, names, 0.8 if wanted.private else 0.6) if header else None
        help_ = f"did you mean {near!r}?" if near else "compare the spec with the header row of the data"
        if not wanted.private and near is None and header:
            shown = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
            help_ = f"its columns are: {shown}"
        found.append(problem("DP503", f"{where} has no column {name!r}", help_))
    raise SpecError(found, path=where)


def unreadable(path: Path, kind: str, reason: str, wanted: Wanted) -> NoReturn:
    shown = "" if wanted.private or not reason else f": {reason.splitlines()[0]}"
    fail("DP502", f"{path.name} cannot be read as {kind}{shown}", "check the file, or its ending", path=str(path))


def _looks_like_header(names: Sequence[str]) -> bool:
    def numeric(cell: str) -> bool:
        try:
            float(cell)
        except ValueError:
            return False
        return True

    return bool(names) and len(set(names)) == len(names) and all(n and not numeric(n) for n in names)


def header_row(path: Path, delimiter: str, wanted: Wanted, lines: Any) -> tuple[list[str], bool, bool]:
    """The names in the first row of open text, whether they may be shown, and whether nothing follows them."""
    where, kind = path.name, "tab-separated text" if delimiter == "\t" else "comma-separated text"
    reason = ""
    names: list[str] = []
    alone = False  # nothing follows the header row, which then need not end in a newline; the CSV library refuses it without one
    try:
        names = [c.strip() for c in next(csv.reader(lines, delimiter=delimiter), [])]
        alone = next(lines, None) is None
    except (UnicodeDecodeError, csv.Error) as error:
        reason = "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else "its first row is not closed"
    except (OSError, EOFError):  # of what decompresses
        reason = "it cannot be decompressed"
    if reason:
        fail("DP502", f"{where} cannot be read as {kind}: {reason}", "save it as UTF-8", path=str(path))
    if len(names) == 1:
        other = next((c for c in (";", "\t", "|", ",") if c != delimiter and c in names[0]), None)
        if other:
            word = {"\t": "tabs", ",": "commas"}.get(other, repr(other))
            fail(
                "DP511", f"{where} is one column as {kind}; its first row contains {word}", "separate the columns by commas", path=str(path)
            )
    header = _looks_like_header(names)
    if not header and any(n not in names for n in wanted.named()):
        fail(
            "DP511", f"the first row of {where} does not look like a header row", "add a row with the names of the columns", path=str(path)
        )
    require(wanted, names, where, header)
    return names, header, alone


def text_options(names: Sequence[str], use: Sequence[str], delimiter: str, wanted: Wanted, piece: int) -> tuple[Any, Any, Any]:
    """How the CSV library reads text whose header row has ``names``: the columns ``use``, typed by the spec, ``piece`` bytes at a time."""
    from pyarrow import float64, string
    from pyarrow.csv import ConvertOptions, ParseOptions, ReadOptions

    options = ConvertOptions(
        column_types={n: string() if n in wanted.words else float64() for n in use},
        include_columns=list(use),
        null_values=[v for v in MISSING if v not in wanted.levels],
        strings_can_be_null=True,
        true_values=[],
        false_values=[],
    )
    read = ReadOptions(column_names=list(names), skip_rows=1, use_threads=False, block_size=piece)
    return read, ParseOptions(delimiter=delimiter), options


def not_a_number(path: Path, delimiter: str, column: str, names: Sequence[str], wanted: Wanted, *, packed: bool = False) -> NoReturn:
    """A column of numbers holds something else. Public data: say where."""
    message, where = f"column {column!r} of {path.name} holds a cell that is not a number", ""
    if not wanted.private and not packed:
        j = names.index(column)
        with path.open(encoding="utf-8-sig", newline="") as f:
            for i, row in enumerate(csv.reader(f, delimiter=delimiter)):
                if i == 0 or len(row) != len(names) or row[j].strip() in MISSING:
                    continue
                try:
                    float(row[j])
                except ValueError:
                    where = f" (row {i}: {row[j].strip()[:40]!r})"
                    break
    fix = f'declare an encoding of {column!r}, such as levels("a", "b")'
    if column == wanted.target:
        fix = 'map the labels: y in {-1, 1} by map("yes" -> 1, "no" -> -1)'
    fail("DP505", message + where, fix, path=str(path))
