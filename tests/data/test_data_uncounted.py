"""Under add-remove how many private records there are is private: any number is read from any kind of source, and no refusal, no width and
no name depends on it. The expected arrays are written down here, not read off the loader."""

import pickle
import warnings

import numpy as np
import pytest
from scipy import sparse

from dpspec.data.enforce import enforce
from dpspec.data.records import Records
from dpspec.data.sources import load
from dpspec.spec.diagnostics import SpecError
from dpspec.spec.expr import num
from dpspec.spec.model import Ball, Box, CsvSource, Data, Domain, Encode, Enforcement, Finite, MemorySource

N = 3  # what the spec declares
SIZES = (0, 1, N - 1, N, N + 1, 40)
COLOUR = Encode(column="colour", how="levels", levels=("red", "green"))
LABELS = Domain(
    variable="y",
    set=Finite(values=(num(-1), num(1))),
    by=Enforcement(how="map", mapping=(("no", num(-1)), ("yes", num(1)))),
)
BALL = Domain(variable="x", set=Ball(norm="l2", radius=num(1)), by=Enforcement(how="scale"))


def words(source, d=4, **more):
    more.setdefault("neighbours", "add-remove")
    more.setdefault("encode", (COLOUR,))
    return Data(n=num(N), d=num(d), source=source, domains=(BALL, LABELS), intercept=True, **more)


def table(m):
    """m rows of a number, a word and a label, and what they are as numbers, the intercept last."""
    ages = [float(i) for i in range(m)]
    colours = [("red", "green")[i % 2] for i in range(m)]
    labels = [("no", "yes", "yes")[i % 3] for i in range(m)]
    x = np.array([[i, i % 2 == 0, i % 2 == 1, 1] for i in range(m)], dtype=float).reshape(m, 4)
    y = np.array([(-1.0, 1.0, 1.0)[i % 3] for i in range(m)])
    return {"age": ages, "colour": colours, "label": labels}, x, y


def csv(folder, m, delimiter=",", name="t.csv", end="\n"):
    columns, _, _ = table(m)
    rows = [delimiter.join(columns), *(delimiter.join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    (folder / name).write_text("\n".join(rows) + end, encoding="utf-8")
    return name


def parquet(folder, m, name="t.parquet"):
    import pyarrow as pa
    from pyarrow import feather
    from pyarrow import parquet as pq

    columns, _, _ = table(m)
    found = pa.table(columns, schema=pa.schema([("age", pa.float64()), ("colour", pa.string()), ("label", pa.string())]))
    if name.endswith(".parquet"):
        pq.write_table(found, str(folder / name))
    else:
        feather.write_feather(found, str(folder / name))
    return name


FILES = {
    "csv": csv,
    "csv without a last newline": lambda folder, m: csv(folder, m, end=""),
    "tsv": lambda folder, m: csv(folder, m, "\t", "t.tsv"),
    "parquet": parquet,
    "feather": lambda folder, m: parquet(folder, m, "t.feather"),
}


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("m", SIZES)
def test_a_file_of_words_and_numbers_has_any_number_of_rows(tmp_path, kind, m):
    raw = load(words(CsvSource(path=FILES[kind](tmp_path, m), target="label")), base_dir=tmp_path)
    _, x, y = table(m)
    assert raw.records.x.tolist() == x.tolist()
    assert raw.records.x.shape == (m, 4)
    assert raw.records.y.tolist() == y.tolist()
    assert raw.columns == ("age", "colour=red", "colour=green", "intercept")
    enforced, _ = enforce(raw.records, words(CsvSource(path="t.csv")))
    assert enforced.x.shape == (m, 4)
    assert enforced.y.tolist() == y.tolist()


def pandas(m):
    import pandas as pd

    return pd.DataFrame(table(m)[0])  # without rows every column is of type object


def polars(m):
    pl = pytest.importorskip("polars")
    return pl.DataFrame(table(m)[0])


def arrow(m):
    import pyarrow as pa

    return pa.table(table(m)[0])  # without rows every column is of type null


MEMORY = {"mapping": lambda m: table(m)[0], "pandas": pandas, "polars": polars, "arrow": arrow}


@pytest.mark.parametrize("kind", MEMORY)
@pytest.mark.parametrize("m", SIZES)
def test_a_frame_in_memory_has_any_number_of_rows(kind, m):
    raw = load(words(MemorySource(target="label")), memory=MEMORY[kind](m))
    _, x, y = table(m)
    assert raw.records.x.tolist() == x.tolist()
    assert raw.records.y.tolist() == y.tolist()
    assert raw.columns == ("age", "colour=red", "colour=green", "intercept")


def numbers(d=2, **more):
    return Data(n=num(N), d=num(d), source=MemorySource(), neighbours="add-remove", domains=(BALL,), **more)


def square(m):
    return np.arange(2.0 * m).reshape(m, 2), np.arange(float(m))


ARRAYS = {
    "arrays": lambda x, y: (x, y),
    "lists": lambda x, y: (x.tolist(), y.tolist()),
    "sparse": lambda x, y: (sparse.csr_matrix(x), y),
    "named": lambda x, y: {"x": x, "y": y},
    "named lists": lambda x, y: {"x": x.tolist(), "y": y.tolist()},
    "single precision": lambda x, y: (x.astype(np.float32), y.astype(int)),
    "objects": lambda x, y: (x.astype(object), y),
    "frame and series": lambda x, y: (__import__("pandas").DataFrame(x), __import__("pandas").Series(y)),
}


@pytest.mark.parametrize("kind", ARRAYS)
@pytest.mark.parametrize("m", SIZES)
def test_arrays_have_any_number_of_rows(kind, m):
    x, y = square(m)
    raw = load(numbers(), memory=ARRAYS[kind](x, y))
    found = raw.records.x.toarray() if raw.records.sparse else raw.records.x
    assert found.tolist() == x.tolist()
    assert found.shape == (m, 2)
    assert raw.records.y.tolist() == y.tolist()
    enforced, _ = enforce(raw.records, numbers())
    assert enforced.n == m


@pytest.mark.parametrize("m", SIZES)
def test_numpy_and_libsvm_files_have_any_number_of_rows(tmp_path, m):
    x, y = square(m)
    np.save(tmp_path / "t.npy", x)
    np.savez(tmp_path / "t.npz", x=x, y=y)
    lines = [f"{b:g} 1:{a[0]:g} 2:{a[1]:g}" for a, b in zip(x, y, strict=True)]
    (tmp_path / "t.svm").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    for name in ("t.npy", "t.npz", "t.svm"):
        raw = load(numbers().model_copy(update={"source": CsvSource(path=name)}), base_dir=tmp_path)
        found = raw.records.x.toarray() if raw.records.sparse else raw.records.x
        assert found.tolist() == x.tolist()
        assert name == "t.npy" or raw.records.y.tolist() == y.tolist()


@pytest.mark.parametrize("y", [np.array([]), [], np.array([], dtype=object), np.array([], dtype=str)])
def test_labels_that_are_words_may_be_none(y):
    data = Data(n=num(N), d=num(2), source=MemorySource(), neighbours="add-remove", domains=(BALL, LABELS))
    assert load(data, memory=(np.empty((0, 2)), y)).records.y.tolist() == []


def test_the_kind_of_a_file_is_not_guessed_from_a_first_record_that_may_not_be_there(tmp_path):
    """`a9a` has no ending. With one record it would be taken for libsvm text, without any it is nothing."""
    found = []
    for text in ("", "1 1:2 2:3\n", "1 1:2 2:3\n-1 2:1\n"):
        (tmp_path / "a9a").write_text(text, encoding="utf-8")
        with pytest.raises(SpecError) as error:
            load(numbers().model_copy(update={"source": CsvSource(path="a9a")}), base_dir=tmp_path)
        found.append([(d.code, d.message, d.help) for d in error.value.diagnostics])
    assert found[0] == found[1] == found[2]
    assert found[0][0][0] == "DP502"


def refusal(data, **options):
    with pytest.raises(SpecError) as error:
        load(data, **options)
    return [(d.code, d.message, d.help) for d in error.value.diagnostics]


@pytest.mark.parametrize("d", [1, 3])
def test_a_refusal_that_is_not_about_the_records_is_the_same_for_any_number_of_them(tmp_path, d):
    """A spec that does not fit the columns is refused in the same words whatever the file holds."""
    found = []
    for m in SIZES:
        csv(tmp_path, m)
        found.append(refusal(words(CsvSource(path="t.csv", target="label"), d=d), base_dir=tmp_path))
        found[-1] += refusal(words(CsvSource(path="t.csv", target="lable")), base_dir=tmp_path)
        found[-1] += refusal(numbers(d), memory=square(m))
        found[-1] += refusal(numbers(d), memory=(sparse.csr_matrix(square(m)[0]), square(m)[1]))
    assert all(f == found[0] for f in found)
    assert [code for code, _, _ in found[0]] == ["DP508", "DP503", "DP508", "DP508"]


def test_loading_warns_of_nothing(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for m in SIZES:
            for kind, write in FILES.items():
                load(words(CsvSource(path=write(tmp_path, m), target="label")), base_dir=tmp_path)
                assert kind
            for make in ARRAYS.values():
                enforce(load(numbers(), memory=make(*square(m))).records, numbers())
            for make in (MEMORY["mapping"], pandas, arrow):
                load(words(MemorySource(target="label")), memory=make(m))


@pytest.mark.parametrize("data", [numbers(status="public"), numbers().model_copy(update={"neighbours": "zero-out"})])
def test_everywhere_else_n_is_how_many_there_are(data):
    """Public data hide nothing, and neighbours of the other relations have equally many records."""
    for m, code in ((0, "DP509"), (1, "DP509"), (N - 1, "DP507"), (N + 1, "DP507")):
        assert [found[0] for found in refusal(data, memory=square(m))] == [code]
    assert load(data, memory=square(N)).records.n == N


def test_damage_in_the_records_is_refused_without_a_count(tmp_path):
    """A missing value is a statement about a record, as under any relation; it does not tell how many others there are."""
    found = []
    for m in (1, 2, N, 30):
        x, y = square(m)
        x[0, 0] = np.nan
        found.append(refusal(numbers(), memory=(x, y)))
        found[-1] += refusal(numbers(), memory=(square(m)[0], y[:-1] if m > 1 else np.zeros(2)))
    assert all(f == found[0] for f in found)


def test_records_of_any_number_can_be_shipped_to_another_process():
    for m in SIZES:
        records = load(numbers(), memory=square(m)).records
        assert pickle.loads(pickle.dumps(records)).n == m


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("rule", ["scale", "reject", "shrink", "clip"])
def test_what_a_record_becomes_does_not_depend_on_the_others_to_the_last_bit(kind, rule):
    """Records of many scales, with and without one that is wide, huge, subnormal or not a number among them. A rounding margin of the
    widest row would move all of them."""
    rng = np.random.default_rng(5)
    d, m = 300, 400
    x = rng.normal(size=(m, d)) * 10.0 ** rng.integers(-3, 4, size=(m, 1)) * (rng.random((m, d)) < 0.02)
    box = Box(low=num(-1), high=num(1)) if rule == "clip" else Ball(norm="l2", radius=num(20 if rule == "shrink" else 1))
    by = Enforcement(how=rule, tau=num(1)) if rule == "shrink" else Enforcement(how=rule)
    data = numbers(d).model_copy(update={"domains": (Domain(variable="x", set=box, by=by),)})

    def found(rows):
        records = enforce(Records(sparse.csr_matrix(rows) if kind == "sparse" else rows), data)[0]
        return records.x.toarray() if records.sparse else np.asarray(records.x)

    alone = found(x)
    for odd in (np.ones(d), np.full(d, 1e300), np.full(d, 5e-324), np.full(d, np.nan), np.zeros(d)):
        for place in (0, m // 2, m):
            with_it = np.delete(found(np.insert(x, place, odd, axis=0)), place, axis=0)
            assert np.array_equal(alone.view(np.int64), with_it.view(np.int64))


def test_the_spelling_of_a_number_does_not_depend_on_the_other_cells():
    """-0.0 is the level "0" whether or not another record holds a number with a fraction (it was "-0" then, and refused)."""
    encode = (Encode(column="1", how="levels", levels=("0", "1", "1.5")),)
    data = Data(n=num(N), d=num(3), source=MemorySource(), neighbours="add-remove", encode=encode)
    for more in ([], [1.5]):
        raw = load(data, memory=np.array([-0.0, 1.0, 0.0, *more])[:, None])
        assert raw.records.x[:3].tolist() == [[1, 0, 0], [0, 1, 0], [1, 0, 0]]
