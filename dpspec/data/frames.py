"""Readers: files, scikit-learn's bundled sets and arrays in memory, all to one shape, :class:`Frame`.

Libraries get open files, never names, which some of them read as addresses or decompress by their ending.

Nothing here encodes or checks cells. A reader that fails on private data reports the file and, at most, a column of the spec: library
messages quote cells, so they are dropped (the exception is left before ours is raised, and never chained).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from numbers import Real
from pathlib import Path
from typing import Any, Final

import numpy as np

from dpspec.data.files import is_pattern, regular
from dpspec.data.problems import fail, nearest
from dpspec.data.records import is_sparse
from dpspec.data.tables import Frame, Wanted, header_row, not_a_number, require, text_options, unreadable

SKLEARN: Final = ("breast_cancer", "diabetes", "digits", "iris", "wine")
_DOWNLOADS: Final = frozenset(
    {"california_housing", "covtype", "kddcup99", "lfw_pairs", "lfw_people", "20newsgroups", "20newsgroups_vectorized", "rcv1"}
    | {"olivetti_faces", "species_distributions", "openml"}
)
LIBSVM: Final = (".svm", ".libsvm", ".svmlight", ".txt")
ENDINGS: Final = (
    ".csv, .tsv, .parquet, .pq, .arrow, .feather, .ipc, .npy, .npz, .svm, .libsvm, .svmlight, .txt, .arrows, .orc, .jsonl, .ndjson, .csv.gz"
)


# --------------------------------------------------------------------------------------------------------------- files


def read_file(path: Path, wanted: Wanted) -> Frame:
    from dpspec.data.batches import kind_of

    where = path.name
    kind, packed = kind_of(path)
    if path.is_dir() or is_pattern(path) or (packed and kind) or kind in ("orc", "json") or path.suffix.lower() == ".arrows":
        return _read_batches(path, wanted)
    regular(path)
    reason = ""
    try:
        with path.open("rb") as f:
            head = f.read(4096)
    except OSError as error:
        reason = error.strerror or "it cannot be opened"
    if reason:
        fail("DP501", f"{path} cannot be read: {reason}", "check its permissions", path=str(path))
    libsvm = path.suffix.lower() in LIBSVM
    if wanted.uncounted and path.suffix.lower() not in ENDINGS.split(", "):  # its first record would tell, and may not be there
        fail("DP502", f"{where}: the ending does not say what kind of file this is", f"known endings: {ENDINGS}", path=str(path))
    if not head and not (libsvm and wanted.uncounted):  # libsvm text has no header row: an empty file is a data set of no record
        fail("DP509", f"{where} is empty", "", path=str(path))
    match path.suffix.lower():
        case ".csv":
            return _read_text(path, ",", wanted)
        case ".tsv":
            return _read_text(path, "\t", wanted)
        case ".parquet" | ".pq":
            return _read_arrow(path, wanted, parquet=True)
        case ".arrow" | ".feather" | ".ipc":
            return _read_arrow(path, wanted, parquet=False)
        case ".npy" | ".npz":
            return _read_numpy(path)
        case _ if libsvm:
            return _read_libsvm(path, wanted)
        case _:
            first = head.split(b"\n", 1)[0].strip()
            if re.fullmatch(rb"[-+.\deE]+(\s+\d+:[-+.\deE]+)+", first):  # the usual libsvm files have no ending: a9a, a9a.t
                return _read_libsvm(path, wanted)
            fail("DP502", f"{where}: files of this kind are not known", f"known endings: {ENDINGS}", path=str(path))


def _read_text(path: Path, delimiter: str, wanted: Wanted) -> Frame:
    from pyarrow import ArrowException, OSFile, Table, float64, schema, string
    from pyarrow.csv import read_csv

    where, kind = path.name, "tab-separated text" if delimiter == "\t" else "comma-separated text"
    reason = ""
    with path.open(encoding="utf-8-sig", newline="") as lines:
        names, header, alone = header_row(path, delimiter, wanted, lines)
    use = list(wanted.named()) if wanted.columns else names
    read, parse, convert = text_options(names, use, delimiter, wanted, 1 << 20)
    # no `empty_table()`: that would import pandas
    typed = schema([(n, string() if n in wanted.words else float64()) for n in use])
    table: Any = Table.from_batches([], schema=typed) if alone else None
    try:
        if table is None:
            with OSFile(str(path)) as source:
                table = read_csv(source, read_options=read, parse_options=parse, convert_options=convert)
    except MemoryError:  # the library's own is an ArrowException as well; it says nothing about the file
        raise
    except ArrowException as error:
        reason = str(error) or "unreadable"
    if table is None:
        column = re.search(r"In CSV column #(\d+): (?:.*)conversion error", reason)
        if column:
            not_a_number(path, delimiter, names[int(column[1])], names, wanted)
        unreadable(path, kind, reason, wanted)
    return Frame(tuple(use), int(table.num_rows), where, table=table, header=header)


def _read_arrow(path: Path, wanted: Wanted, *, parquet: bool) -> Frame:
    from pyarrow import ArrowException, OSFile, feather
    from pyarrow import parquet as pq

    kind = "Parquet" if parquet else "Arrow"
    table: Any = None
    reason = ""
    names: tuple[str, ...] = ()
    try:
        with OSFile(str(path)) as source:
            if parquet:
                file = pq.ParquetFile(source)
                names = tuple(str(n) for n in file.schema_arrow.names)
                table = file.read(columns=_used(wanted, names), use_threads=False)
            else:
                table = feather.read_table(source, use_threads=False, memory_map=False)
                names = tuple(str(n) for n in table.column_names)
    except MemoryError:
        raise
    except (ArrowException, OSError, ValueError, KeyError, TypeError) as error:
        reason = str(error) or "unreadable"
    if table is None:
        unreadable(path, kind, reason, wanted)
    require(wanted, names, path.name, True)
    return Frame(tuple(str(n) for n in table.column_names), int(table.num_rows), path.name, table=table)


def _used(wanted: Wanted, names: Sequence[str]) -> list[str] | None:
    """The columns that are read: all that the spec names where it lists the features, else all there are. None: all, since a name is
    missing or comes twice, which is refused afterwards."""
    named = wanted.named()
    return list(named) if wanted.columns and set(named) <= set(names) and len(set(names)) == len(names) else None


def _read_batches(path: Path, wanted: Wanted) -> Frame:
    """A folder, a pattern, or a kind of file that is read in batches alone, as one table."""
    from dpspec.data.batches import opened, whole

    source = opened(path, wanted)
    if source is None:
        fail("DP502", f"{path.name}: files of this kind are not known", f"known endings: {ENDINGS}", path=str(path))
    use = _used(wanted, source.names) or list(source.names)
    table = whole(source, use)
    return Frame(tuple(use), int(table.num_rows), source.where, table=table, header=source.header)


def _read_numpy(path: Path) -> Frame:
    loaded: Any = None
    try:
        with path.open("rb") as source:
            found = np.load(source, allow_pickle=False)
            loaded = found if isinstance(found, np.ndarray) else {k: found[k] for k in found.files}
    except MemoryError:
        raise
    except Exception:  # a broken archive makes the readers of NumPy and of zip files raise nearly anything
        loaded = None
    if loaded is None:
        fail(
            "DP502", f"{path.name} cannot be read as a NumPy file of numbers", "save plain arrays, without pickled objects", path=str(path)
        )
    return from_memory(loaded, path.name)


def _read_libsvm(path: Path, wanted: Wanted) -> Frame:
    from sklearn.datasets import load_svmlight_file

    width = wanted.sparse_width
    if width is None:
        fail("DP508", f"{path.name}: a libsvm file does not say how many features there are", "declare d in the data block", path=str(path))
    loaded: Any = None
    reason = ""
    try:
        with path.open("rb") as source:
            loaded = load_svmlight_file(source, n_features=width, zero_based=False)
    except MemoryError:
        raise
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        reason = str(error)
    if loaded is None:
        if "n_features was set to" in reason:
            fail("DP508", f"{path.name} has feature indices above the {width} features that d leaves", "correct d", path=str(path))
        if "Invalid index 0" in reason:
            fail("DP502", f"{path.name} has a feature index 0; libsvm indices start at 1", "", path=str(path))
        unreadable(path, "libsvm text", "", wanted)
    x, y = loaded
    return Frame(tuple(str(j + 1) for j in range(width)), int(x.shape[0]), path.name, matrix=x, y=y)


# ---------------------------------------------------------------------------------------------------- scikit-learn, memory


def read_sklearn(name: str) -> Frame:
    """A bundled data set; the target as numbers (class indices 0, 1, ... or the regression target)."""
    word = name.removeprefix("load_").removeprefix("fetch_")
    if word not in SKLEARN:
        if word in _DOWNLOADS:
            fail("DP512", f"scikit-learn would download {word!r}", "save it to a file and load that; bundled sets: " + ", ".join(SKLEARN))
        near = nearest(word, SKLEARN)
        help_ = f"did you mean {near!r}?" if near else "bundled sets: " + ", ".join(SKLEARN)
        fail("DP512", f"scikit-learn has no bundled data set {name!r}", help_)
    from sklearn import datasets

    bunch = getattr(datasets, f"load_{word}")()
    names = tuple(str(f) for f in bunch.feature_names)
    return Frame(names, int(bunch.data.shape[0]), f"sklearn {word}", matrix=bunch.data, y=bunch.target)


def gathered(memory: Any, wanted: Wanted) -> Any:
    """What hands out its rows in batches (a data set, a reader, a relation) as one table of the wanted columns; anything else as it is."""
    if isinstance(memory, (tuple, list, Mapping, np.ndarray)) or is_sparse(memory):
        return memory
    from dpspec.data.batches import streamed, whole

    source = streamed(memory, wanted)
    return memory if source is None else whole(source, _used(wanted, source.names) or list(source.names))


def from_memory(memory: Any, where: str = "the data in memory", width: int | None = None, words: frozenset[str] = frozenset()) -> Frame:
    """Arrays, frames and tables by what they can do; no library is imported that the caller has not imported.

    ``width``: how many columns a list has that holds no row. ``words``: the columns whose cells are spelled, not counted with
    (:func:`spelled`).
    """
    if isinstance(memory, tuple) and len(memory) in (2, 3):
        x, y, *rest = memory
        return _beside(from_memory(x, where, width, words), where, y, rest[0] if rest else None)
    if is_sparse(memory):
        return _from_sparse(memory, where)
    if isinstance(memory, Mapping):
        lower = {str(k).lower(): v for k, v in memory.items()}
        if len(lower) < len(memory) and set(lower) <= {"x", "y", "public_x"}:
            fail("DP515", f"{where}: x, y or public_x comes twice, in upper and lower case", "leave one of them out")
        rows = "x" in lower and (np.ndim(lower["x"]) != 1 or (isinstance(lower["x"], list) and not lower["x"] and width is not None))
        if rows and set(lower) <= {"x", "y", "public_x"}:
            return _beside(from_memory(lower["x"], where, width, words), where, lower.get("y"), lower.get("public_x"))
        from pyarrow import ArrowException, table

        built = None
        memory = {str(k): spelled(v) if str(k) in words else v for k, v in memory.items()}
        for read in (lambda column: np.asarray(unmasked(column)), _numeric):
            try:
                built = table({k: read(v) for k, v in memory.items()})
                break
            except MemoryError:  # the library's own is an ArrowException as well
                raise
            except (ArrowException, ValueError, TypeError, OverflowError):
                continue
        if built is None:
            fail("DP515", f"{where}: the columns do not form a table", "give columns of one length, of numbers or words")
        return Frame(tuple(built.column_names), int(built.num_rows), where, table=built)
    root = type(memory).__module__.partition(".")[0]
    if root == "pyarrow" and type(memory).__name__ == "RecordBatch":
        from pyarrow import Table

        memory = Table.from_batches([memory])
    if root == "pyarrow" and hasattr(memory, "column_names"):
        return Frame(tuple(memory.column_names), int(memory.num_rows), where, table=memory)
    if root == "polars" and type(memory).__name__ == "LazyFrame":
        memory = memory.collect()
    if root == "polars" and hasattr(memory, "to_arrow"):
        if hasattr(memory, "to_frame"):  # a Series
            memory = memory.to_frame()
        from pyarrow import ArrowException

        built = None
        with suppress(ArrowException):
            built = memory.to_arrow()
        if built is None:  # Int128, for one: decided by the types, not by the values
            fail("DP515", f"{where}: the frame has a column of a type that Arrow does not know", "cast it to Float64")
        return Frame(tuple(built.column_names), int(built.num_rows), where, table=built)
    if root == "pandas":
        from pyarrow import ArrowException, Table

        if hasattr(memory, "to_frame"):
            memory = memory.to_frame()
        names = tuple(str(c) for c in memory.columns)
        if len(set(names)) != len(names):
            fail("DP516", f"{where} has two columns of one name", "rename one of them")
        memory = memory.set_axis(list(names), axis=1)
        memory = memory.assign(**{name: spelled(memory[name]) for name in names if name in words and memory[name].dtype.kind == "O"})
        built = None
        with suppress(ArrowException, ValueError, TypeError, OverflowError):
            built = Table.from_pandas(memory, preserve_index=False)
        if built is None:  # numbers that Arrow has no one type for
            mixed = {name: _numeric(memory[name]) for name in names if memory[name].dtype.kind == "O"}
            with suppress(ArrowException, ValueError, TypeError, OverflowError):
                built = Table.from_pandas(memory.assign(**mixed), preserve_index=False)
        if built is None:
            fail("DP515", f"{where}: the frame has a column of mixed types", "make every column numbers or words")
        return Frame(names, int(built.num_rows), where, table=built)
    if isinstance(memory, list) and not memory and width is not None:
        memory = np.empty((0, width))
    if isinstance(memory, (np.ndarray, list)):
        return _from_array(memory, where, words)
    fail("DP515", f"{where}: objects of type {type(memory).__name__} cannot be read", "hand over an array, a pair (X, y), or a frame")


def _beside(frame: Frame, where: str, y: Any, public_x: Any) -> Frame:
    """``frame`` with the target and the public records that came beside it; each may come once."""
    for name, one, other in (("y", frame.y, y), ("public_x", frame.public_x, public_x)):
        if one is not None and other is not None:
            fail("DP515", f"{where}: {name} comes twice", "leave one of them out")
    return Frame(
        frame.names,
        frame.n,
        where,
        frame.table,
        frame.matrix,
        y if frame.y is None else frame.y,
        unmasked(public_x) if frame.public_x is None else frame.public_x,
    )


def _from_sparse(memory: Any, where: str) -> Frame:
    """A scipy sparse container whose indices lie in its shape: its own methods write out of bounds where they do not."""
    if len(memory.shape) != 2:
        fail("DP515", f"{where}: x must have two dimensions", "")
    if memory.dtype.kind not in "fiub":
        fail("DP505", f"{where}: x holds something that is not a number", "hand over a sparse matrix of real numbers")
    sound = True
    try:
        if hasattr(memory, "check_format"):
            memory.check_format(full_check=True)
        elif hasattr(memory, "coords"):
            sound = all(not c.size or (c.min() >= 0 and c.max() < s) for c, s in zip(memory.coords, memory.shape, strict=True))
    except ValueError:
        sound = False
    if not sound:
        fail("DP515", f"{where}: the indices of the sparse matrix do not fit its shape", "build it again from its entries")
    return Frame(tuple(str(j + 1) for j in range(memory.shape[1])), int(memory.shape[0]), where, matrix=memory)


def unmasked(a: Any) -> Any:
    """A masked array with NaN (None where it holds no numbers) under its mask: what is masked is missing, not the number below it."""
    if not isinstance(a, np.ma.MaskedArray) or a.dtype.names:
        return a
    if a.dtype.kind in "fiub":
        return np.ma.filled(a.astype(np.promote_types(a.dtype, np.float64)), np.nan)
    return _nothing_masked(a)


def _nothing_masked(a: Any) -> Any:
    """A masked array as objects, None under its mask (to fill with None means to fill with the array's own default)."""
    found = np.array(np.ma.getdata(a), dtype=object)
    found[np.ma.getmaskarray(a)] = None
    return found


def doubles(a: Any) -> Any:
    """The numbers of an array of objects as doubles, infinite where they are beyond them and NaN where one is missing, in the array's
    shape; None when something else than numbers is among them. How an integer or a fraction is stored must not decide how a run ends."""
    found = np.empty(a.size)
    for i, v in enumerate(a.ravel().tolist()):
        if v is None or type(v).__name__ in ("NAType", "NaTType"):
            found[i] = np.nan
        elif isinstance(v, (Real, Decimal, np.bool_)):
            try:
                found[i] = float(v)
            except OverflowError:
                found[i] = np.inf if v > 0 else -np.inf  # type: ignore[operator]
            except ValueError:  # a signalling NaN
                found[i] = np.nan
        else:
            return None
    return found.reshape(a.shape)


def spelled(column: Any) -> Any:
    """A list, a masked array or an array of objects as the words of its cells, None where one is missing: equal numbers alike, whatever
    their types, and different ones apart, however long they are. Read as numbers, an identifier of twenty digits would be rounded to
    that of somebody else, and how one cell is written would decide how all others are read. Other columns, and those with cells that are
    neither words, numbers nor dates, as they are."""
    import datetime

    plain = isinstance(column, (list, tuple, np.ma.MaskedArray)) or getattr(column, "dtype", None) == np.dtype(object)
    if not plain or np.ndim(column) != 1:
        return column
    cells = _nothing_masked(column) if isinstance(column, np.ma.MaskedArray) else column
    found = np.empty(len(cells), dtype=object)
    for i, v in enumerate(cells):
        if v is None or type(v).__name__ in ("NAType", "NaTType"):
            found[i] = None
        elif isinstance(v, (bool, np.bool_)):
            found[i] = str(bool(v)).lower()
        elif isinstance(v, (Real, Decimal)):
            found[i] = _digits(v)
        elif isinstance(v, (str, datetime.date)):
            found[i] = str(v)
        else:
            return column
    return found


def _digits(v: Any) -> str | None:
    """A number in digits, a whole one without a point whatever its type; None for a NaN."""
    if v.is_nan() if isinstance(v, Decimal) else v != v:
        return None
    try:
        return str(int(v)) if v == int(v) else str(v)
    except (OverflowError, ValueError):  # an infinity; more digits than Python writes
        return hex(v) if isinstance(v, int) else str(v)


def _numeric(column: Any) -> Any:
    """A column as it is, or as doubles where it is an array of objects that are all numbers, or of wider ones."""
    a = np.asarray(unmasked(column))
    if a.dtype.kind == "f":  # wider than a double, which Arrow does not know
        return a.astype(np.float64)
    made = doubles(a) if a.dtype.kind == "O" else None
    return a if made is None else made


def _from_array(memory: Any, where: str, words: frozenset[str] = frozenset()) -> Frame:
    a: Any = None
    with suppress(ValueError):
        a = np.asarray(unmasked(memory))
    if a is not None and a.dtype.names:
        return from_memory({name: a[name] for name in a.dtype.names}, where, words=words)
    if a is not None and a.ndim == 1:
        a = a[:, None]
    if a is None or a.ndim != 2:
        fail("DP515", f"{where}: x must be a table of records (two dimensions)", "")
    if a.dtype.kind not in "fiub":
        converted: Any = doubles(a) if a.dtype.kind == "O" else None
        with suppress(ValueError, TypeError, OverflowError):
            converted = a.astype(np.float64) if a.dtype.kind == "O" and converted is None else converted
        if converted is None:
            fail("DP505", f"{where}: x holds something that is not a number", "hand over a frame and declare encodings of its columns")
        a = converted
    return Frame(tuple(str(j + 1) for j in range(a.shape[1])), int(a.shape[0]), where, matrix=a)
