"""Loading: from a declared source to numbers, :class:`Raw`.

Encodings are declared, never learned from the records; n and d must be what the spec declares. Refusals on private data name the
file and columns of the spec only.

Under add-remove how many private records there are is itself private: any number is read, none included, and no refusal depends on it;
n stays the public number that sums are divided by. Under replace-one and zero-out neighbours have equally many records, so n is how many.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dpspec.data import answers
from dpspec.data.files import local
from dpspec.data.frames import doubles, from_memory, gathered, read_file, read_sklearn, unmasked
from dpspec.data.problems import Values, fail, integer, nearest, number, problem
from dpspec.data.records import Matrix, Records, Vector, Words, is_sparse
from dpspec.data.tables import Frame, Wanted, require
from dpspec.numeric.norms import plainly_finite
from dpspec.spec.diagnostics import Diagnostic, SpecError
from dpspec.spec.model import CsvSource, Data, Domain, Encode, MemorySource, SklearnSource, Source, SqlSource
from dpspec.spec.ratio import ratio

_LARGEST = float(np.finfo(np.float64).max)


@dataclass(frozen=True, slots=True, eq=False)
class Raw:
    """Loaded and encoded records, before enforcement. ``columns``: one name an encoded column; ``where``: the origin, for reports."""

    records: Records
    columns: tuple[str, ...]
    where: str


def known_values(data: Data, values: Values | None = None) -> dict[str, Any]:
    """The declared constants, n and d as exact numbers, overridden by ``values``."""
    found: dict[str, Any] = dict(values or {})
    for name, e in (*data.constants, ("n", data.n), ("d", data.d)):
        if name not in found and e is not None:
            try:
                found[name] = number(e, found, name, "DP514")
            except SpecError:
                continue
    return found


def load(
    data: Data,
    *,
    data_file: str | Path | None = None,
    memory: Any = None,
    base_dir: str | Path = ".",
    values: Values | None = None,
    private: bool | None = None,
    missing: bool = False,
    beside: tuple[str, ...] = (),
    counted: bool = True,
) -> Raw:
    """Read, encode and check the records of ``data``.

    ``data_file`` overrides the path of the spec, ``memory`` every source (an array, a pair (X, y), a mapping, a pandas or polars
    frame, an Arrow table, a scipy sparse matrix). ``base_dir``: what relative paths are relative to. ``values``: numbers by name for
    expressions in the data block. ``private`` (default: the declared status) silences every message about cells and rows.
    ``missing``: a number of x may be missing (every question that is asked allows it); it is NaN in the records. ``beside``: columns of
    words that are no features, kept in ``Records.words``. ``counted``: whether it matters how many records there are.

    Raises SpecError with DP501...DP517, with every column that is at fault.
    """
    r = reading_of(data, values, private=private, missing=missing, beside=beside)
    frame = _frame(data, r.wanted, data_file, memory, Path(base_dir), frozenset(beside))
    if r.long:
        return _long(frame, r.encodings, r.size, r.width, r.private)
    if not r.uncounted and counted:
        counted_as(frame.n, r.size, frame.where)
    features = r.features(frame)
    found: list[Diagnostic] = []
    x, names, y, mapped = r.encoded(frame, features, found)
    said = {name: _words(_chunk(frame, name), f"column {name!r} of {frame.where}", found) for name in beside}
    if found:
        raise SpecError(found, path=frame.where)
    r.as_wide(names, features, frame.where)
    records: Records | None = None
    reason = ""
    try:
        records = Records(x, y, frame.public_x, frozenset({"y"}) if mapped else frozenset(), said)
    except (ValueError, TypeError) as error:
        reason = str(error)
    if records is None:
        fail("DP515", f"{frame.where}: {'the arrays do not fit together' if r.private else reason}", "lengths and widths must agree")
    if records.public_x is not None:
        public = records.public_x.data if is_sparse(records.public_x) else records.public_x
        if np.isnan(public).any():
            fail("DP504", f"{frame.where}: public x has a missing value", "fill in a constant before loading")
        if not np.isfinite(public).all():
            fail("DP506", f"{frame.where}: public x has an infinite value", "replace it before loading")
    return Raw(records, names, frame.where)


@dataclass(frozen=True, slots=True)
class Reading:
    """How the records of a data block are read: what is wanted of their source, and how a frame of rows becomes numbers. A frame may be
    all rows or some of them: what a row becomes depends on that row alone."""

    data: Data
    wanted: Wanted
    env: Mapping[str, Any]
    encodings: Mapping[str, Encode]
    labels: tuple[tuple[str, Any], ...] | None
    target: str | None
    columns: tuple[str, ...]
    beside: tuple[str, ...]
    width: int | None
    size: int | None
    private: bool
    uncounted: bool
    missing: bool
    long: bool

    def features(self, frame: Frame) -> tuple[str, ...]:
        """The names of the features, in order. Raises SpecError DP503 for one that an array has not."""
        features = tuple(n for n in (self.columns or frame.names) if n != self.target and n not in self.beside)
        if frame.table is None:  # the names of a table were compared when it was read
            for name in features:
                if name not in frame.names:
                    fail(
                        "DP503",
                        f"{frame.where} has no column {name!r}: the columns of its array have no names of their own",
                        "leave `columns` out, or give a table with named columns",
                        path=frame.where,
                    )
        return features

    def encoded(
        self, frame: Frame, features: tuple[str, ...], found: list[Diagnostic]
    ) -> tuple[Matrix | None, tuple[str, ...], Vector | None, bool]:
        """x, the names of its columns, y, and whether the map rule of y has been applied; what is wrong is added to ``found``, and then
        the numbers are not to be used."""
        encode = self.encodings.get(self.target or "")
        y, mapped = _target(frame, self.target, self.labels, encode, self.env, self.private, found)
        x, names = _features(frame, features, self.encodings, self.data.intercept, self.env, self.private, found, self.missing)
        return x, names, y, mapped

    def as_wide(self, names: tuple[str, ...], features: tuple[str, ...], where: str) -> None:
        """Refuse another number of encoded columns than the declared d (DP508)."""
        if self.width is None or len(names) == self.width:
            return
        intercept = self.data.intercept
        parts = f"{len(features)} columns" + (f" encoded as {len(names) - int(intercept)}" if self.encodings else "")
        parts += " plus the intercept" if intercept else ""
        fail(
            "DP508",
            f"the spec says d = {self.width}, the encoded records have {len(names)} ({parts})",
            "correct d, or the encodings",
            path=where,
        )


def reading_of(
    data: Data, values: Values | None = None, *, private: bool | None = None, missing: bool = False, beside: tuple[str, ...] = ()
) -> Reading:
    """What :func:`load` does with the declarations, before a source is opened; the arguments are its own."""
    private = data.status == "private" if private is None else private
    uncounted = private and data.neighbours == "add-remove"
    env = known_values(data, values)
    width = integer(data.d, env, "d", "DP514") if data.d is not None else None
    size = integer(data.n, env, "n", "DP514") if data.n is not None else None
    if private and size is None:
        fail("DP517", "private data without a declared n", "declare n in the data block")

    source = data.source
    long = missing and named_by(source) == (None, answers.COLUMNS)
    target, columns = named_by(source)
    encodings = _encodings(data, target, columns)
    labels = _labels(data)
    words = {e.column for e in data.encode if e.how == "levels"}
    if target is not None and labels is not None and not _numeric_keys(labels):
        words.add(target)
    words |= {*beside}
    wanted = Wanted(
        target=target,
        columns=columns,
        words=frozenset(words),
        levels=frozenset(w for e in data.encode for w in e.levels),
        sparse_width=None if width is None else width - int(data.intercept),
        private=private,
        extra=(*encodings, *beside),
        uncounted=uncounted or long,
    )
    return Reading(data, wanted, env, encodings, labels, target, columns, beside, width, size, private, uncounted, missing, long)


def named_by(source: Source | None) -> tuple[str | None, tuple[str, ...]]:
    """The target and the columns that a source names; none of scikit-learn's sets, which have their own."""
    return (source.target, source.columns) if isinstance(source, (CsvSource, MemorySource, SqlSource)) else (None, ())


def _asked(source: SqlSource, wanted: Wanted, base: Path) -> Frame:
    """The rows of a query as one table."""
    from dpspec.data.batches import whole
    from dpspec.data.sql import opened

    batches = opened(source, base, wanted)
    use = tuple(wanted.named()) if wanted.columns else batches.names
    table = whole(batches, use)
    return Frame(use, int(table.num_rows), batches.where, table=table)


def _long(frame: Frame, encodings: Mapping[str, Encode], size: int | None, width: int | None, private: bool) -> Raw:
    """The wide matrix of a long table of answers (:mod:`dpspec.data.answers`). How many answers there are is not compared with anything."""
    found: list[Diagnostic] = []

    def read(name: str, encode: Encode | None) -> Vector | None:
        column, what = _chunk(frame, name), f"column {name!r} of {frame.where}"
        if encode is None:
            return _numbers(column, what, private, found, f'declare {name!r} by levels("a", "b", ...)', name == answers.COLUMNS[2])
        if encode.how != "levels":
            fail("DP514", f"{encode.how} of {name!r}: a column of a long table is a number, or a word of levels(...)", "")
        coded = _codes(column, encode.levels, what, private, found)
        if coded is None:
            return None
        if (coded[0] < 0).any():
            found.append(problem("DP510", f"{what} holds a word that is not among its levels", "add it to levels(...), or mend the data"))
        return np.asarray(coded[0] + 1.0)

    n, d = answers.sizes(size, width)
    try:
        matrix = answers.gathered(read, encodings, n, d, frame.where)
    except SpecError as error:
        raise SpecError(found or error.diagnostics, path=frame.where) from None
    if found:
        raise SpecError(found, path=frame.where)
    return Raw(Records(matrix), tuple(str(j + 1) for j in range(d)), frame.where)


def counted_as(rows: int, size: int | None, where: str) -> None:
    """Refuse another number of records than the declared ``size``."""
    if rows == 0:
        fail("DP509", f"{where} has no record", "")
    if rows == 1:
        fail("DP509", f"{where} has a single record", "a private analysis needs at least two")
    if size is not None and rows != size:
        fail("DP507", f"the spec says n = {size}, {where} has {rows} rows", "correct n in the data block, or the data", path=where)


def load_public(
    path: str | Path,
    data: Data,
    *,
    columns: tuple[str, ...] = (),
    base_dir: str | Path = ".",
    values: Values | None = None,
    counted: bool = True,
) -> Matrix:
    """Public unlabelled records from a file, encoded as the private ones: an (m, d) matrix.

    ``columns``: the features of the private file, when the spec does not list them. A target column in the file is ignored.
    """
    source = data.source
    target, listed = named_by(source)
    named = columns or listed
    features = tuple(c for c in named if c != target)
    public = data.model_copy(update={"status": "public", "n": None, "source": CsvSource(path=str(path), columns=features)})
    if not features and target is not None:
        try:
            return load(
                public.model_copy(update={"source": CsvSource(path=str(path), target=target)}),
                base_dir=base_dir,
                values=values,
                counted=counted,
            ).records.x
        except SpecError as error:
            if {d.code for d in error.diagnostics} != {"DP503"}:
                raise
    return load(public, base_dir=base_dir, values=values, counted=counted).records.x


def _frame(
    data: Data, wanted: Wanted, data_file: str | Path | None, memory: Any, base: Path, beside: frozenset[str] = frozenset()
) -> Frame:
    if memory is not None:
        if isinstance(memory, Records):
            memory = {"x": memory.x, "y": memory.y, "public_x": memory.public_x}
        memory = gathered(memory, wanted)
        width = len(wanted.columns) or wanted.sparse_width if wanted.uncounted else None
        frame = from_memory(memory, width=width, words=beside)
        if frame.matrix is not None and len(wanted.columns) == len(frame.names):  # an array has no names: the spec's, in order
            frame = replace(frame, names=wanted.columns)
    elif data_file is not None:
        return read_file(local(data_file), wanted)
    else:
        match data.source:
            case CsvSource(path=path):
                return read_file(local(path, base), wanted)
            case SqlSource():
                return _asked(data.source, wanted, base)
            case SklearnSource(name=name):
                frame = read_sklearn(name)
            case MemorySource():
                fail("DP513", "the spec takes its records from memory and none were handed over", "plan.run(X, y), or --data FILE")
            case _:
                fail("DP513", "the spec names no data", 'from "file.csv" target "column", or --data FILE')
    if frame.y is not None and wanted.target is not None and wanted.target not in frame.names:
        wanted = Wanted(columns=wanted.columns, extra=wanted.extra, private=wanted.private)
    require(wanted, frame.names, frame.where, True)
    return frame


# ----------------------------------------------------------------------------------------------------------- declarations


def _encodings(data: Data, target: str | None, columns: tuple[str, ...]) -> dict[str, Encode]:
    found: dict[str, Encode] = {}
    wrong: list[Diagnostic] = []
    for e in data.encode:
        span = e.args[0].span if e.args else None
        if e.column in found:
            wrong.append(problem("DP514", f"column {e.column!r} has two encodings", "keep one", span))
        if columns and e.column not in columns and e.column != target:
            near = nearest(e.column, columns)
            wrong.append(
                problem(
                    "DP503",
                    f"the encoded column {e.column!r} is not listed in columns",
                    f"did you mean {near!r}?" if near else "list it",
                    span,
                )
            )
        if e.column == target and e.how in ("one-hot", "levels"):
            wrong.append(problem("DP514", f"the target {e.column!r} is one number a record", "use a map rule on the domain of y", span))
        if e.how == "levels" and (not e.levels or len(set(e.levels)) != len(e.levels)):
            wrong.append(problem("DP514", f"the levels of {e.column!r} must be distinct words, at least one", "", span))
        if e.how != "levels" and len(e.args) != {"one-hot": 1, "auto": 0}.get(e.how, 2):
            wrong.append(
                problem("DP514", f"{e.how} of {e.column!r} has {len(e.args)} arguments", "one-hot(k), range(a, b), standard(m, s)", span)
            )
        found[e.column] = e
    if wrong:
        raise SpecError(wrong)
    return found


def _labels(data: Data) -> tuple[tuple[str, Any], ...] | None:
    """The map rule on y, if any."""
    for domain in data.domains:
        match domain:
            case Domain(variable="y", by=rule) if rule is not None and rule.how == "map":
                return rule.mapping
    return None


def as_number(word: str) -> float | None:
    """The number that a key of a map rule spells, or None."""
    try:
        return float(ratio(word))
    except (ValueError, OverflowError):
        return None


def _numeric_keys(mapping: tuple[tuple[str, Any], ...]) -> bool:
    return any(as_number(key) is not None for key, _ in mapping)


# ------------------------------------------------------------------------------------------------------------------ cells


def _place(private: bool, bad: Any, cells: Any = None) -> str:
    """Where the first bad row is, for public data."""
    if private:
        return ""
    row = int(np.flatnonzero(bad)[0])
    shown = "" if cells is None else f": {str(cells[row])[:40]!r}"
    return f" (row {row + 1}{shown})"


def _check(v: Vector, what: str, private: bool, found: list[Diagnostic], allowed: bool = False) -> bool:
    """Missing (unless ``allowed``) and infinite values of a column of numbers. True when it is clean."""
    if np.isfinite(v).all():
        return True
    missing = np.isnan(v)
    if allowed and not np.isinf(v).any():
        return True
    if missing.any() and not allowed:
        found.append(
            problem(
                "DP504", f"{what} has a missing value{_place(private, missing)}", "fill in a constant before loading, or drop the column"
            )
        )
    else:
        found.append(problem("DP506", f"{what} has an infinite value{_place(private, np.isinf(v))}", "replace it before loading"))
    return False


def _chunk(frame: Frame, name: str) -> Any:
    """The column as one pyarrow array (tables) or numpy array (matrices)."""
    if frame.table is None:
        assert frame.matrix is not None
        column = frame.matrix[:, [frame.names.index(name)]]
        return np.asarray(column.todense() if is_sparse(column) else column, dtype=np.float64).reshape(frame.n)
    import pyarrow as pa

    column = frame.table.column(frame.names.index(name)).combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _is_text(column: Any) -> bool:
    if isinstance(column, np.ndarray):
        return False
    import pyarrow.types as t

    return bool(t.is_string(column.type) or t.is_large_string(column.type) or t.is_string_view(column.type))


def _numbers(column: Any, what: str, private: bool, found: list[Diagnostic], fix: str, allowed: bool = False) -> Vector | None:
    if isinstance(column, np.ndarray):
        v: Vector = column
        return v if _check(v, what, private, found, allowed) else None
    import pyarrow as pa
    import pyarrow.types as t

    if t.is_null(column.type) and not len(column):  # no record, so no type either
        return np.empty(0)
    if column.null_count and not allowed:
        bad = None if private else column.is_null().to_numpy(zero_copy_only=False)
        found.append(
            problem("DP504", f"{what} has a missing value{_place(private, bad)}", "fill in a constant before loading, or drop the column")
        )
        return None
    if not (t.is_integer(column.type) or t.is_floating(column.type) or t.is_boolean(column.type) or t.is_decimal(column.type)):
        kind = "words" if _is_text(column) else f"values of type {column.type}"
        found.append(problem("DP505", f"{what} holds {kind}, not numbers", fix))
        return None
    if t.is_boolean(column.type):
        column = column.cast(pa.int8())
    out: Vector = _held(column.cast(pa.float64(), safe=False), np.dtype(np.float64))
    return out if _check(out, what, private, found, allowed) else None


def _held(column: Any, dtype: np.dtype[Any]) -> Any:
    """The values of an Arrow column of doubles or of indices as an array, missing doubles NaN; without a copy where they lie together.

    By its buffers: ``to_numpy`` of Arrow imports pandas wherever that is installed, which takes longer than a small run.
    """
    parts = []
    for part in column.chunks if hasattr(column, "chunks") else [column]:
        whole = part.fill_null(np.nan) if part.null_count else part
        if len(whole):
            parts.append(np.frombuffer(whole.buffers()[1], dtype=dtype, count=len(whole), offset=whole.offset * dtype.itemsize))
    return parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else np.empty(0, dtype=dtype)


def _codes(column: Any, levels: tuple[str, ...], what: str, private: bool, found: list[Diagnostic]) -> tuple[Any, Any] | None:
    """Index of each cell among ``levels`` (-1: none of them), and the distinct words with it; None when cells are missing."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as t

    if isinstance(column, np.ndarray):
        column = pa.array(column)
    if t.is_null(column.type) and not len(column):
        return np.empty(0, dtype=np.int64), ([], np.empty(0, dtype=np.int64))
    if t.is_floating(column.type):  # cell by cell: the spelling of one must not depend on the others
        whole = pc.equal(pc.floor(column), column)
        column = pc.if_else(whole, column.cast(pa.int64(), safe=False).cast(pa.large_string()), column.cast(pa.large_string()))
    if column.null_count:
        bad = None if private else pc.is_null(column).to_numpy(zero_copy_only=False)
        found.append(problem("DP504", f"{what} has a missing value{_place(private, bad)}", "replace it by a declared level before loading"))
        return None
    if not (_is_text(column) or t.is_integer(column.type) or t.is_floating(column.type) or t.is_boolean(column.type)):
        found.append(problem("DP505", f"{what} holds values of type {column.type}, not words", "convert the column before loading"))
        return None
    coded = pc.utf8_trim_whitespace(column.cast(pa.large_string())).dictionary_encode()
    index = {w.strip(): i for i, w in enumerate(levels)}
    words = coded.dictionary.to_pylist()
    lookup = np.array([index.get(w, -1) for w in words], dtype=np.int64)
    cells = _held(coded.indices, np.dtype(np.int32))
    return lookup[cells], (words, cells)


def _words(column: Any, what: str, found: list[Diagnostic]) -> Words:
    """The word of each cell, whatever it is: numbers as they are written, none where the cell is empty. The spelling of one cell depends
    on no other."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as t

    array = pa.array(column, from_pandas=True) if isinstance(column, np.ndarray) else column
    if t.is_floating(array.type):  # beyond 2^53 another spelling: what does not fit 64 bits would share one
        array = pc.if_else(pc.is_nan(array), pa.scalar(None, array.type), array)  # a word of their own would make one of all who have none
        whole = pc.and_(pc.equal(pc.floor(array), array), pc.less(pc.abs(array), 2.0**53))
        array = pc.if_else(whole, array.cast(pa.int64(), safe=False).cast(pa.large_string()), array.cast(pa.large_string()))
    elif t.is_nested(array.type) or t.is_binary(array.type) or t.is_large_binary(array.type):
        found.append(problem("DP505", f"{what} holds values of type {array.type}, not words", "convert the column before loading"))
        return np.full(len(array), -1, dtype=np.int64), ()
    coded = pc.utf8_trim_whitespace(array.cast(pa.large_string())).dictionary_encode()
    said = [str(word) for word in coded.dictionary.to_pylist()]
    codes = _held(coded.indices.fill_null(-1), np.dtype(np.int32)).astype(np.int64)
    if "" in said:
        codes[codes == said.index("")] = -1
    return codes, tuple(said)


# ------------------------------------------------------------------------------------------------------- target, features


def _target(
    frame: Frame,
    target: str | None,
    labels: tuple[tuple[str, Any], ...] | None,
    encode: Encode | None,
    env: Mapping[str, Any],
    private: bool,
    found: list[Diagnostic],
) -> tuple[Vector | None, bool]:
    """The target as numbers, and whether its map rule has been applied (to words)."""
    if target is not None and target in frame.names and frame.y is None:
        column, what = _chunk(frame, target), f"the target {target!r} of {frame.where}"
    elif frame.y is not None:
        values, what = unmasked(frame.y), f"the target of {frame.where}"
        if hasattr(values, "to_numpy"):
            values = values.to_numpy()
        with suppress(ValueError):  # rows of different lengths: shown as no one number a record
            values = np.asarray(values)
        values = values if isinstance(values, np.ndarray) else np.empty((frame.n, 0))
        values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
        if values.shape != (frame.n,):
            shown = "" if private else f": shape {values.shape} for {frame.n} records"
            fail("DP515", f"{what} is not one number a record{shown}", "hand over y with one entry a record")
        if values.dtype.kind in "fiub":
            column = values.astype(np.float64)
        else:
            import pyarrow as pa

            column = None
            with suppress(pa.ArrowException, TypeError, ValueError, OverflowError):
                column = pa.array(values, from_pandas=True)
            if column is None and values.dtype.kind == "O":
                column = doubles(values)
            if column is None:
                fail("DP505", f"{what} holds values of mixed types", "make them numbers or words")
    else:
        return None, False
    fix = 'map the labels: y in {-1, 1} by map("yes" -> 1, "no" -> -1)'
    if labels is None or _numeric_keys(labels) or not labels:
        if labels and _is_text(column):
            return _map_words(column, labels, what, env, private, found), True
        y = _numbers(column, what, private, found, fix)
        if y is not None and encode is not None:
            y = scaled(y, encode, env)
            _check(y, what, private, found)
        if labels and y is not None and not private:
            unknown = ~np.isin(y, np.array([as_number(key) for key, _ in labels]))
            if unknown.any():
                found.append(_unlisted(what, unknown, y, labels))
        return y, False
    if isinstance(column, np.ndarray) and not len(column):  # no record: the type of an empty array says nothing
        return np.empty(0), True
    if isinstance(column, np.ndarray):
        found.append(problem("DP505", f"the map rule of y lists words, {what} holds numbers", "list the numbers: map(0 -> -1, 1 -> 1)"))
        return None, False
    return _map_words(column, labels, what, env, private, found), True


def _map_words(
    column: Any, labels: tuple[tuple[str, Any], ...], what: str, env: Mapping[str, Any], private: bool, found: list[Diagnostic]
) -> Vector | None:
    coded = _codes(column, tuple(k for k, _ in labels), what, private, found)
    if coded is None:
        return None
    if not private and (coded[0] < 0).any():
        found.append(_unlisted(what, coded[0] < 0, [coded[1][0][i] for i in coded[1][1]], labels))
    images = [float(number(e, env, "an image of the map rule", "DP520")) for _, e in labels]
    return np.asarray(np.array([*images, images[0]])[coded[0]])  # index -1, anything else, picks the last entry: the first listed image


def _unlisted(what: str, bad: Any, cells: Any, labels: tuple[tuple[str, Any], ...]) -> Diagnostic:
    """A label of public data that the map does not name: of private data it becomes the first image, as nothing may tell of a record."""
    known = ", ".join(repr(key) if as_number(key) is None else key for key, _ in labels)
    shown = [f"{c:g}" for c in cells] if isinstance(cells, np.ndarray) else cells
    message = f"{what} has a label that its map does not name{_place(False, bad, shown)}"
    return problem("DP510", message, f"the map names {known} (words are compared letter by letter): add the label, or mend the data")


def scaled(v: Vector, e: Encode, env: Mapping[str, Any]) -> Vector:
    """The values of a column under ``range`` or ``standard``; as they are where its bounds are found later."""
    if e.how == "auto":
        return v
    a, b = (number(arg, env, f"the {e.how} of {e.column!r}", "DP514") for arg in e.args)
    if e.how == "range":
        if not a < b:
            fail("DP514", f"range of {e.column!r} needs a < b, it has {float(a):g} and {float(b):g}", "", e.args[0].span)
        low, high = float(a), float(b)
        return np.asarray(np.clip((np.clip(v, low, high) - low) / (high - low), 0.0, 1.0))
    if not b > 0:
        fail("DP514", f"standard of {e.column!r} needs a positive scale, it has {float(b):g}", "", e.args[1].span)
    with np.errstate(over="ignore"):  # a finite number stays one: beyond the doubles it is the largest of them
        return np.asarray(np.clip((v - float(a)) / float(b), -_LARGEST, _LARGEST))


def _features(
    frame: Frame,
    features: tuple[str, ...],
    encodings: Mapping[str, Encode],
    intercept: bool,
    env: Mapping[str, Any],
    private: bool,
    found: list[Diagnostic],
    missing: bool = False,
) -> tuple[Matrix | None, tuple[str, ...]]:
    """The encoded matrix and the names of its columns; diagnostics are appended, and then the matrix is not to be used."""
    last = ("intercept",) if intercept else ()
    if frame.matrix is not None and not any(f in encodings and encodings[f].how != "auto" for f in features):
        return _plain(frame, features, intercept, private, found, missing), features + last
    if frame.matrix is not None and is_sparse(frame.matrix):
        fail("DP515", f"{frame.where}: encodings need dense columns", "encode before handing over a sparse matrix")

    if frame.table is not None and not any(f in encodings for f in features):
        made = _doubles(frame, features, intercept)
        if made is not None:
            return made, features + last
    widths = [_width(encodings.get(f), env) for f in features]
    x = np.zeros((frame.n, sum(widths) + int(intercept)))
    names: list[str] = []
    rows = np.arange(frame.n)
    start = 0
    for name, width in zip(features, widths, strict=True):
        e, what = encodings.get(name), f"column {name!r} of {frame.where}"
        column = _chunk(frame, name)
        fix = f'declare an encoding of {name!r}, such as levels("a", "b")'
        if e is not None and e.how == "levels":
            coded = _codes(column, e.levels, what, private, found)
            names += [f"{name}={w}" for w in e.levels]
            if coded is not None:
                codes, (words, cells) = coded
                outside = codes < 0
                if outside.any():
                    row = int(np.flatnonzero(outside)[0])
                    shown = "" if private else f" (row {row + 1}: {words[cells[row]][:40]!r})"
                    found.append(problem("DP510", f"{what} has a category outside its declared levels{shown}", "declare a level for it"))
                else:
                    x[rows, start + codes] = 1.0
        else:
            v = _numbers(column, what, private, found, fix, missing and (e is None or e.how != "one-hot"))
            if e is not None and e.how == "one-hot":
                names += [f"{name}={j}" for j in range(width)]
                if v is not None:
                    outside = (v < 0) | (v >= width) | (v != np.floor(v))
                    if outside.any():
                        message = f"{what} has a category outside 0, ..., {width - 1}{_place(private, outside, v)}"
                        found.append(
                            problem("DP510", message, f"one-hot(k) takes the integers 0 to k-1; levels(...) takes words; k is {width} here")
                        )
                    else:
                        x[rows, start + v.astype(np.int64)] = 1.0
            else:
                names.append(name)
                if v is not None:
                    x[:, start] = v if e is None else scaled(v, e, env)
                    if e is not None:
                        _check(x[:, start], what, private, found, missing)
        start += width
    if intercept:
        x[:, -1] = 1.0
    return x, tuple(names) + last


def _doubles(frame: Frame, features: tuple[str, ...], intercept: bool) -> Vector | None:
    """The matrix of a table whose features are columns of finite doubles; None for every other, which is looked at column by column."""
    import pyarrow as pa

    columns = [frame.table.column(frame.names.index(f)) for f in features]
    if any(c.type != pa.float64() or c.null_count for c in columns):
        return None
    cuts = [[len(part) for part in c.chunks] for c in columns]
    if not columns or any(cut != cuts[0] for cut in cuts):
        return None
    x = np.empty((frame.n, len(columns) + int(intercept)))
    near, at = max(256, 2**16 // len(columns)), 0  # rows that stay in the cache while they are written column by column, and looked at
    if intercept:
        x[:, -1] = 1.0
    for k, size in enumerate(cuts[0]):
        parts = [_held(c.chunk(k), np.dtype(np.float64)) for c in columns]
        for a in range(0, size, near):
            rows = x[at + a : at + min(a + near, size)]
            for j, part in enumerate(parts):
                rows[:, j] = part[a : a + near]
            if not plainly_finite(rows):
                return None
        at += size
    return x


def _width(e: Encode | None, env: Mapping[str, Any]) -> int:
    if e is None or e.how in ("range", "standard", "auto"):
        return 1
    if e.how == "levels":
        return len(e.levels)
    k = integer(e.args[0], env, f"one-hot of {e.column!r}", "DP514")
    if k < 1:
        fail("DP514", f"one-hot of {e.column!r} needs at least one level, it has {k}", "", e.args[0].span)
    return k


def _plain(
    frame: Frame, features: tuple[str, ...], intercept: bool, private: bool, found: list[Diagnostic], allowed: bool = False
) -> Matrix:
    """A matrix as it is: choose columns, check cells, add the constant column."""
    x = frame.matrix
    assert x is not None
    if features != frame.names:
        place = {n: j for j, n in enumerate(frame.names)}
        x = x[:, [place[f] for f in features]]
    if is_sparse(x):
        from scipy.sparse import csr_array, hstack

        x = csr_array(x, dtype=np.float64)
        _check(x.data, f"x of {frame.where}", True, found, allowed)  # positions among stored entries are not rows
        return csr_array(hstack([x, np.ones((frame.n, 1))], format="csr")) if intercept else x
    x = np.asarray(x, dtype=np.float64)
    if not np.isfinite(x).all():
        missing, infinite = np.isnan(x).any(axis=0) & (not allowed), np.isinf(x).any(axis=0)
        bad = missing if missing.any() else infinite  # missing ones are named before infinite ones, as in a sparse matrix
        for j in np.flatnonzero(bad)[:1]:
            _check(x[:, j], f"column {features[j]!r} of {frame.where}", private, found, allowed)
    return np.hstack([x, np.ones((frame.n, 1))]) if intercept else x
