"""Records read in chunks: every kind of source gives the blocks, rounds and rows of the same records in memory, bit for bit."""

import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pytest
from pyarrow import feather, orc
from pyarrow import parquet as pq

from dpspec.data import stream
from dpspec.data.enforce import enforce
from dpspec.data.sources import load, reading_of
from dpspec.data.stream import OnePass, Streamed, of_file, of_memory, stored
from dpspec.spec.diagnostics import SpecError
from dpspec.spec.expr import num
from dpspec.spec.model import Ball, CsvSource, Data, Domain, Enforcement, Finite, MemorySource

N, D = 5_003, 3
LABELS = Domain(
    variable="y",
    set=Finite(values=(num(-1), num(1))),
    by=Enforcement(how="map", mapping=(("no", num(-1)), ("yes", num(1)))),
)
BALL = Domain(variable="x", set=Ball(norm="l2", radius=num(1)), by=Enforcement(how="scale"))
COLUMNS = tuple(f"c{j}" for j in range(D))


def table(n=N):
    rng = np.random.default_rng(0)
    columns = {name: rng.normal(size=n) for name in COLUMNS}
    return pa.table({**columns, "unused": np.arange(n), "label": rng.choice(["no", "yes"], n)})


def parts(folder):
    t = table()
    for i, (a, b) in enumerate([(0, 10), (10, 2_000), (2_000, 2_000), (2_000, N)]):
        at = folder / "t" / f"year={2020 + i}"
        at.mkdir(parents=True)
        pq.write_table(t.slice(a, b - a), str(at / "p.parquet"), row_group_size=777)
    (folder / "t" / "_SUCCESS").write_text("")
    return "t"


def pattern(folder):
    t = table()
    for i, (a, b) in enumerate([(0, 2_000), (2_000, N)]):
        pq.write_table(t.slice(a, b - a), str(folder / f"p{i}.parquet"))
    return "p*.parquet"


def compressed(folder):
    pyarrow.csv.write_csv(table(), str(folder / "t.csv"))
    (folder / "t.csv.gz").write_bytes(gzip.compress((folder / "t.csv").read_bytes()))
    return "t.csv.gz"


def lines(folder):
    (folder / "t.jsonl").write_text("\n".join(json.dumps(row) for row in table().to_pylist()) + "\n")
    return "t.jsonl"


def streamed(folder):
    t = table()
    with pa.OSFile(str(folder / "t.arrows"), "wb") as f, pa.ipc.new_stream(f, t.schema) as writer:
        writer.write_table(t, 999)
    return "t.arrows"


def written(write, name):
    def make(folder):
        write(table(), str(folder / name))
        return name

    return make


FILES = {
    "partitioned folder": parts,
    "pattern": pattern,
    "parquet": written(pq.write_table, "t.parquet"),
    "csv": written(pyarrow.csv.write_csv, "t.csv"),
    "compressed csv": compressed,
    "feather": written(lambda t, name: feather.write_feather(t, name, chunksize=700), "t.feather"),
    "arrow stream": streamed,
    "orc": written(orc.write_table, "t.orc"),
    "json lines": lines,
}


def words(source, n=N, **more):
    more.setdefault("neighbours", "replace-one")
    return Data(n=num(n), d=num(D + 1), source=source, domains=(BALL, LABELS), intercept=True, **more)


def ruled(data):
    return lambda records, fresh: enforce(records, data, fresh=fresh)[0]


def same(source, reference, monkeypatch, once=False):
    monkeypatch.setattr(stream, "chunk_rows", lambda d: 1024)
    kept = stored(source)
    for records in (kept,) if once else (kept, Streamed(source)):
        for size in (1_000, 1_024, 10 * N):
            for (x, y), (u, v) in zip(reference.blocks(size), records.blocks(size), strict=True):
                assert u.flags.c_contiguous
                assert x.tobytes() == u.tobytes()
                assert (y is None and v is None) or y.tobytes() == v.tobytes()
    index = np.random.default_rng(1).integers(-N, N, 400)
    assert kept.take(index).x.tobytes() == reference.take(index).x.tobytes()
    mask = np.arange(N) % 3 == 0
    assert kept.take(mask).x.tobytes() == reference.take(mask).x.tobytes()
    for (x, _), (u, _) in zip(reference.rounds(7), kept.rounds(7), strict=True):
        assert x.tobytes() == u.tobytes()
    assert kept.slice(100, 3_000).slice(5, 10).x.tobytes() == reference.x[105:110].tobytes()
    assert kept.n == reference.n
    assert kept.x.tobytes() == reference.x.tobytes()
    with pytest.raises(IndexError):
        kept.take([N])


@pytest.mark.parametrize("kind", FILES)
def test_chunks_of_a_file_are_the_records_in_memory(tmp_path, kind, monkeypatch):
    name = FILES[kind](tmp_path)
    data = words(CsvSource(path=name, target="label", columns=COLUMNS))
    reference, _ = enforce(load(data, base_dir=tmp_path).records, data)
    expected, _ = enforce(load(words(MemorySource(target="label", columns=COLUMNS)), memory=table()).records, data)
    assert reference.x.tobytes() == expected.x.tobytes()
    same(of_file(tmp_path / name, reading_of(data), ruled(data)), reference, monkeypatch)


MEMORY = {
    "data set": (lambda folder: pyarrow.dataset.dataset(table()), False),
    "reader": (lambda folder: table().to_reader(max_chunksize=500), True),
    "arrow stream": (lambda folder: Offered(table()), True),
}


class Offered:
    """What offers the Arrow C stream and is of no library that is known by name."""

    def __init__(self, t):
        self._table = t

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("kind", MEMORY)
def test_chunks_of_a_stream_are_the_records_in_memory(tmp_path, kind, monkeypatch):
    data = words(MemorySource(target="label", columns=COLUMNS))
    reference, _ = enforce(load(data, memory=table()).records, data)
    make, once = MEMORY[kind]
    same(of_memory(make(tmp_path), reading_of(data), ruled(data)), reference, monkeypatch, once)


def test_chunks_of_an_array_on_disk_are_the_records_in_memory(tmp_path, monkeypatch):
    x = np.random.default_rng(0).normal(size=(N, D))
    np.save(tmp_path / "x.npy", x)
    data = Data(n=num(N), d=num(D), source=CsvSource(path="x.npy"), domains=(BALL,), neighbours="replace-one")
    reference, _ = enforce(load(data, base_dir=tmp_path).records, data)
    same(of_file(tmp_path / "x.npy", reading_of(data), ruled(data)), reference, monkeypatch)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    memory = Data(n=num(N), d=num(D), source=MemorySource(), domains=(BALL,), neighbours="replace-one")
    same(of_memory(mapped, reading_of(memory), ruled(memory)), reference, monkeypatch)


def test_a_pass_of_sums_gives_nothing_but_blocks(tmp_path):
    name = FILES["csv"](tmp_path)
    data = words(CsvSource(path=name, target="label", columns=COLUMNS), neighbours="add-remove")
    records = Streamed(of_file(tmp_path / name, reading_of(data), ruled(data)))
    for ask in (lambda: records.x, lambda: records.y, lambda: records.take([0]), lambda: records.rounds(2), lambda: records.n):
        with pytest.raises(OnePass):
            ask()


def test_what_is_wrong_shows_at_the_end_of_the_pass_as_it_does_in_memory(tmp_path, monkeypatch):
    """Of public data with the row, counted from the first of the whole."""
    monkeypatch.setattr(stream, "chunk_rows", lambda d: 1024)
    t = table()
    c0, c2 = (t.column(name).to_numpy().copy() for name in ("c0", "c2"))
    c0[4_000], c2[2_000], c2[3_000] = np.nan, np.inf, np.inf
    pq.write_table(t.set_column(0, "c0", pa.array(c0)).set_column(2, "c2", pa.array(c2)), str(tmp_path / "t.parquet"))
    for status in ("private", "public"):
        data = words(CsvSource(path="t.parquet", target="label", columns=COLUMNS), status=status)
        with pytest.raises(SpecError) as inside:
            load(data, base_dir=tmp_path)
        with pytest.raises(SpecError) as outside:
            stored(of_file(tmp_path / "t.parquet", reading_of(data), ruled(data)))
        said = {d.message for d in inside.value.diagnostics}
        assert {d.message for d in outside.value.diagnostics} == said
        assert any("row 4001" in message for message in said) == (status == "public")


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda f: None, "DP501"),
        (lambda f: (f / "t").mkdir(), "DP501"),
        (lambda f: ((f / "t").mkdir(), (f / "t" / "a.csv").write_text("a\n"), (f / "t" / "b.parquet").write_text("x")), "DP502"),
        (
            lambda f: ((f / "t").mkdir(), (f / "t" / "a.csv").write_text("c0,label\n"), (f / "t" / "b.csv").write_text("c1,label\n")),
            "DP503",
        ),
        (lambda f: ((f / "t").mkdir(), (f / "t" / "a.parquet").write_text("no table")), "DP502"),
    ],
)
def test_folders_that_are_no_table_are_refused(tmp_path, make, code):
    make(tmp_path)
    data = Data(n=num(3), source=CsvSource(path="t", target="label"), domains=(BALL, LABELS), neighbours="replace-one")
    with pytest.raises(SpecError) as refused:
        load(data, base_dir=tmp_path)
    assert [d.code for d in refused.value.diagnostics] == [code]


def test_only_the_named_columns_of_parquet_are_read(tmp_path):
    name = FILES["parquet"](tmp_path)
    from dpspec.data.frames import read_file

    frame = read_file(tmp_path / name, reading_of(words(CsvSource(path=name, target="label", columns=COLUMNS))).wanted)
    assert set(frame.table.column_names) == {*COLUMNS, "label"}


def test_the_file_of_the_enforced_records_has_no_name(tmp_path):
    name = FILES["parquet"](tmp_path)
    data = words(CsvSource(path=name, target="label", columns=COLUMNS))
    before = set(tmp_path.iterdir())
    kept = stored(of_file(tmp_path / name, reading_of(data), ruled(data)), str(tmp_path))
    assert set(tmp_path.iterdir()) == before
    assert kept.n == N


def test_what_comes_in_batches_is_read_whole_too() -> None:
    """Small records, algorithms that ask for all of them, and studies, which digest them first: a stream can be read once."""
    from dpspec.executor.study import study
    from dpspec.lang.source import parse_text

    rows = pa.table({"a": [0.1, 0.2, 0.3, 0.4] * 10, "b": [0.4, 0.1, 0.2, 0.3] * 10, "w": ["x", "y"] * 20})
    spec = (
        'analysis "s"\n\ndata\n  n = 40, d = 2\n  from memory columns [a, b]\n  public, unit person, neighbours replace-one\n'
        "  x in ball(l2, 1) by scale\n\nprivacy central\n  epsilon = 1, delta = 1e-6\n\nrelease m\n  estimate mean(x)\n  by dp-mean\n"
    )
    parsed = parse_text(spec, surface="dps")
    found = [
        study(parsed, trials=2, seed=1, memory=memory).to_json()["points"]
        for memory in (rows, rows.to_reader(), pyarrow.dataset.dataset(rows), rows.to_pandas())
    ]
    assert all(points == found[0] for points in found)
