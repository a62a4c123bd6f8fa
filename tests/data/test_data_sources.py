"""Loading: every kind of source gives the same records, every kind of damage its code, and private data stay silent."""

import traceback

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

from dpspec.data.sources import load, load_public
from dpspec.spec.diagnostics import SpecError
from dpspec.spec.expr import num
from dpspec.spec.model import Box, CsvSource, Data, Domain, Encode, Enforcement, Finite, MemorySource, SklearnSource

ROWS = [("23", "red", "1.5", "yes"), ("41", "blue", "-2", "no"), ("35", "red", "0", "no"), ("29", "green", "1e3", "yes")]
CSV = "age,colour,score,label\n" + "\n".join(",".join(r) for r in ROWS) + "\n"
LABELS = Domain(
    variable="y",
    set=Finite(values=(num(-1), num(1))),
    by=Enforcement(how="map", mapping=(("no", num(-1)), ("yes", num(1)))),
)
COLOUR = Encode(column="colour", how="levels", levels=("red", "green", "blue"))
X = np.array([[23, 1, 0, 0, 1.5], [41, 0, 0, 1, -2], [35, 1, 0, 0, 0], [29, 0, 1, 0, 1000]])
Y = np.array([1.0, -1, -1, 1])


def spec(source=None, n=4, d=5, **more):
    source = source or CsvSource(path="t.csv", target="label")
    more.setdefault("encode", (COLOUR,))
    more.setdefault("domains", (LABELS,))
    return Data(n=None if n is None else num(n), d=None if d is None else num(d), source=source, **more)


def numeric(n=4, **more):
    return Data(n=num(n), source=CsvSource(path="t.csv", target="y"), **more)


def write(folder, text, name="t.csv"):
    (folder / name).write_text(text, encoding="utf-8")
    return folder


def codes(call):
    with pytest.raises(SpecError) as error:
        call()
    return [d.code for d in error.value.diagnostics], "\n".join(f"{d.message} | {d.help}" for d in error.value.diagnostics)


# -------------------------------------------------------------------------------------------------------- agreement of sources


def assert_same(raw):
    assert raw.records.x.tolist() == X.tolist()
    assert raw.records.y.tolist() == Y.tolist()
    assert raw.columns == ("age", "colour=red", "colour=green", "colour=blue", "score")


def test_csv(tmp_path):
    assert_same(load(spec(), base_dir=write(tmp_path, CSV)))


def test_csv_as_people_save_it(tmp_path):
    text = "\ufeff" + CSV.replace(",", ", ").replace("\n", "\r\n").replace(" red", ' "red"', 1).replace(', "red"', ',"red"')
    assert_same(load(spec(), base_dir=write(tmp_path, text)))


def test_tsv_and_other_files_by_data_file(tmp_path):
    write(tmp_path, CSV.replace(",", "\t"), "t.tsv")
    assert_same(load(spec(), data_file=tmp_path / "t.tsv", base_dir="/nowhere"))


def table():
    import pyarrow as pa

    age, colour, score, label = zip(*ROWS, strict=True)
    return pa.table({"age": [int(a) for a in age], "colour": colour, "score": [float(s) for s in score], "label": label})


def test_parquet_and_arrow(tmp_path):
    from pyarrow import feather, parquet

    parquet.write_table(table(), tmp_path / "t.parquet", use_dictionary=True)
    feather.write_feather(table(), str(tmp_path / "t.arrow"))
    for name in ("t.parquet", "t.arrow"):
        assert_same(load(spec(CsvSource(path=name, target="label")), base_dir=tmp_path))


def test_frames_in_memory():
    pandas = pytest.importorskip("pandas")
    polars = pytest.importorskip("polars")
    source = MemorySource(target="label")
    frame = table().to_pandas()
    for memory in (
        table(),
        frame,
        frame.astype({"colour": "category"}),
        polars.from_arrow(table()),
        {name: np.array(table()[name].to_pylist()) for name in table().column_names},
        (frame.drop(columns="label"), frame["label"]),
        (frame.drop(columns="label"), np.array(frame["label"])),
        (frame.drop(columns="label"), list(frame["label"])),
        (polars.from_arrow(table()).drop("label"), polars.from_arrow(table())["label"]),
    ):
        assert_same(load(spec(source), memory=memory))
    assert isinstance(frame, pandas.DataFrame)


def test_arrays_in_memory_and_numpy_files(tmp_path):
    np.save(tmp_path / "t.npy", np.column_stack([X, Y]))
    np.savez(tmp_path / "t.npz", X=X, y=Y, public_x=X[:2])
    plain = {"encode": (), "domains": ()}
    for memory in ((X, Y), {"x": X, "y": Y}, (X.astype(np.float32), Y.astype(int)), (X.tolist(), Y.tolist()), (sparse.csr_matrix(X), Y)):
        r = load(spec(MemorySource(), **plain), memory=memory).records
        assert np.array_equal(r.x.toarray() if r.sparse else r.x, X)
        assert np.array_equal(r.y, Y)
    r = load(spec(CsvSource(path="t.npz"), **plain), base_dir=tmp_path).records
    assert np.array_equal(r.x, X)
    assert np.array_equal(r.public_x, X[:2])
    r = load(spec(CsvSource(path="t.npy", target="6"), **plain), base_dir=tmp_path).records
    assert np.array_equal(r.x, X)
    assert np.array_equal(r.y, Y)
    structured = np.array([(1.0, 2), (3.0, 4)], dtype=[("a", float), ("y", int)])
    assert load(Data(n=num(2), source=MemorySource(target="y")), memory=structured).records.y.tolist() == [2, 4]


def test_libsvm(tmp_path):
    write(tmp_path, "+1 1:0.5 3:2\n-1 2:1e-3\n+1\n", "t.svm")
    raw = load(Data(n=num(3), d=num(5), intercept=True, source=CsvSource(path="t.svm")), base_dir=tmp_path)
    assert raw.records.sparse
    assert raw.records.x.toarray().tolist() == [[0.5, 0, 2, 0, 1], [0, 1e-3, 0, 0, 1], [0, 0, 0, 0, 1]]
    assert raw.records.y.tolist() == [1, -1, 1]
    write(tmp_path, "+1 1:0.5 3:2\n-1 2:1e-3\n+1 1:1\n", "noending")
    assert load(Data(n=num(3), d=num(3), source=CsvSource(path="noending")), base_dir=tmp_path).records.n == 3
    found, message = codes(lambda: load(Data(n=num(3), d=num(2), source=CsvSource(path="t.svm")), base_dir=tmp_path))
    assert found == ["DP508"]
    assert "2 features" in message
    write(tmp_path, "+1 0:0.5\n-1 2:1\n", "zero.svm")
    assert codes(lambda: load(Data(n=num(2), d=num(2), source=CsvSource(path="zero.svm")), base_dir=tmp_path))[0] == ["DP502"]


@pytest.mark.parametrize(
    ("name", "n", "d"), [("breast_cancer", 569, 30), ("diabetes", 442, 10), ("digits", 1797, 64), ("iris", 150, 4), ("wine", 178, 13)]
)
def test_bundled_sets(name, n, d):
    from sklearn import datasets

    raw = load(Data(n=num(n), d=num(d), source=SklearnSource(name=name)))
    x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    assert np.array_equal(raw.records.x, x)
    assert np.array_equal(raw.records.y, y)


def test_bundled_sets_can_be_encoded_by_name():
    encode = (
        Encode(column="alcohol", how="range", args=(num(11), num(15))),
        Encode(column="ash", how="standard", args=(num("2.4"), num("0.3"))),
    )
    x = load(Data(n=num(178), source=SklearnSource(name="wine"), encode=encode)).records.x
    from sklearn.datasets import load_wine

    plain = load_wine().data
    assert x[:, 0] == pytest.approx(np.clip((plain[:, 0] - 11) / 4, 0, 1))
    assert x[:, 2] == pytest.approx((plain[:, 2] - 2.4) / 0.3)


@pytest.mark.parametrize(("name", "help"), [("california_housing", "save it"), ("brest_cancer", "breast_cancer"), ("zzz", "diabetes")])
def test_sets_that_are_not_bundled(name, help):
    found, message = codes(lambda: load(Data(n=num(5), source=SklearnSource(name=name))))
    assert found == ["DP512"]
    assert help in message


# ----------------------------------------------------------------------------------------------------------------- encodings


def test_one_hot_range_standard_and_intercept(tmp_path):
    write(tmp_path, "k,v,w,y\n0,-5,10,1\n2,3,20,2\n1,11,30,3\n")
    encode = (
        Encode(column="k", how="one-hot", args=(num(3),)),
        Encode(column="v", how="range", args=(num(0), num(10))),
        Encode(column="w", how="standard", args=(num(20), num(5))),
        Encode(column="y", how="range", args=(num(0), num(2))),
    )
    raw = load(numeric(3, encode=encode, intercept=True, d=num(6)), base_dir=tmp_path)
    assert raw.records.x.tolist() == [[1, 0, 0, 0, -2, 1], [0, 0, 1, 0.3, 0, 1], [0, 1, 0, 1, 2, 1]]
    assert raw.records.y.tolist() == [0.5, 1, 1]
    assert raw.columns == ("k=0", "k=1", "k=2", "v", "w", "intercept")


def test_columns_are_chosen_and_ordered_by_the_spec(tmp_path):
    write(tmp_path, "a,b,c,y\n1,2,x,0\n3,4,y,1\n")
    raw = load(Data(n=num(2), source=CsvSource(path="t.csv", target="y", columns=("b", "a"))), base_dir=tmp_path)
    assert raw.records.x.tolist() == [[2, 1], [4, 3]]


def test_levels_of_numbers_and_of_the_words_for_missing(tmp_path):
    write(tmp_path, "a,b,y\n1,NA,0\n2,ok,1\n")
    encode = (Encode(column="a", how="levels", levels=("2", "1")), Encode(column="b", how="levels", levels=("NA", "ok")))
    assert load(numeric(2, encode=encode), base_dir=tmp_path).records.x.tolist() == [[0, 1, 1, 0], [1, 0, 0, 1]]
    x = np.array([[1.0, 5.0], [2.0, 6.0]])
    encode = (Encode(column="1", how="levels", levels=("1", "2")),)
    assert load(Data(n=num(2), source=MemorySource(), encode=encode), memory=x).records.x.tolist() == [[1, 0, 5], [0, 1, 6]]


def test_a_late_fraction_in_a_column_of_integers(tmp_path):
    # a reader that guesses types from the first megabyte takes the column for integers and stumbles over the end
    n = 200_000
    write(tmp_path, "a,y\n" + "7,0\n" * (n - 1) + "7.5,1\n")
    assert load(numeric(n), base_dir=tmp_path).records.x[-1, 0] == 7.5


def test_text_views_are_words():
    import pyarrow as pa

    views = table().set_column(1, "colour", pa.array([r[1] for r in ROWS]).cast(pa.string_view()))
    assert_same(load(spec(MemorySource(target="label")), memory=views))


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(
        st.tuples(st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**53), 2**53), st.sampled_from(["yes", "no"])),
        min_size=2,
        max_size=20,
    )
)
def test_numbers_in_text_keep_every_bit(tmp_path, rows):
    write(tmp_path, "a,b,y\n" + "".join(f"{a!r},{b},{y}\n" for a, b, y in rows))
    raw = load(numeric(len(rows), domains=(LABELS,)), base_dir=tmp_path)
    assert raw.records.x.tolist() == [[a, float(b)] for a, b, _ in rows]
    assert raw.records.y.tolist() == [1.0 if y == "yes" else -1.0 for _, _, y in rows]


def test_unknown_labels_become_the_first_image(tmp_path):
    raw = load(spec(), base_dir=write(tmp_path, CSV.replace(",yes", ",maybe", 1)))
    assert raw.records.y.tolist() == [-1, -1, -1, 1]
    assert raw.records.mapped == {"y"}


def test_numeric_labels_are_left_to_enforcement(tmp_path):
    rule = Domain(variable="y", set=Box(low=num(-1), high=num(1)), by=Enforcement(how="map", mapping=(("0", num(-1)), ("1", num(1)))))
    raw = load(numeric(2, domains=(rule,)), base_dir=write(tmp_path, "a,y\n1,0\n2,1\n"))
    assert raw.records.y.tolist() == [0, 1]
    assert raw.records.mapped == frozenset()
    found, _ = codes(lambda: load(Data(n=num(2), source=MemorySource(), domains=(LABELS,)), memory=(np.ones((2, 1)), [0, 1])))
    assert found == ["DP505"]


# ------------------------------------------------------------------------------------------------------------------- refusals


def damaged(text, code, *, name, private=None, public=None, **more):
    return pytest.param(text, code, private, public, more, id=name)


SECRET = "98765.4321"


@pytest.mark.parametrize(
    ("text", "code", "private", "public", "more"),
    [
        damaged("a,b,y\n1,2,0\n1,,1\n", ["DP504"], name="missing", private="column 'b'", public="row 2"),
        damaged("a,b,y\n1,2,0\n1,NaN,1\n", ["DP504"], name="nan", public="row 2"),
        damaged("a,b,y\n1,2,0\n1,inf,1\n", ["DP506"], name="infinite", private="column 'b'", public="row 2"),
        damaged(f"a,b,y\n1,2,0\n1,x{SECRET},1\n", ["DP505"], name="word", private="column 'b'", public=f"row 2: 'x{SECRET}'"),
        damaged(f"a,b,y\n1,2,0\n1,2,x{SECRET}\n", ["DP505"], name="word as target", private="column 'y'", public="map"),
        damaged(f"a,b,y\n1,2,0\n1,{SECRET}\n", ["DP502"], name="ragged"),
        damaged(f"a,b,y\n1,2,0\n1,{SECRET},4,5\n", ["DP502"], name="ragged long"),
        damaged("a,b,y\n", ["DP509"], name="no rows"),
        damaged("", ["DP509"], name="empty file"),
        damaged("a,b,y\n1,2,0\n", ["DP509"], name="one row"),
        damaged("a,b,y\n1,2,0\n3,4,1\n5,6,1\n", ["DP507"], name="n", private="n = 2, t.csv has 3 rows"),
        damaged(f"a;b;y\n{SECRET};2;0\n3;4;1\n", ["DP511"], name="semicolons", private="';'"),
        damaged("a\tb\ty\n1\t2\t0\n3\t4\t1\n", ["DP511"], name="tabs", private="tabs"),
        damaged(f"{SECRET},2,0\n1,2,3\n", ["DP511"], name="no header", private="header"),
        damaged("a,a,y\n1,2,0\n3,4,1\n", ["DP516"], name="duplicate", public="a"),
        damaged("a,b,z\n1,2,0\n3,4,1\n", ["DP503"], name="no target", private="'y'", public="a, b, z"),
    ],
)
@pytest.mark.parametrize("status", ["private", "public"])
def test_damaged_text(tmp_path, status, text, code, private, public, more):
    found, message = codes(lambda: load(numeric(2, status=status, **more), base_dir=write(tmp_path, text)))
    assert found == code
    if private:
        assert private in message
    if status == "private":
        assert SECRET not in message
        assert "row 2" not in message
    elif public:
        assert public in message


def test_private_refusals_keep_silent_down_to_the_traceback(tmp_path):
    write(tmp_path, f"a,b,y\n1,2,0\n1,x{SECRET},1\n")
    write(tmp_path, f"1 1:1\n-1 q{SECRET}:1\n", "t.svm")
    (tmp_path / "t.parquet").write_bytes(f"PAR1{SECRET}".encode() * 20)
    for path in ("t.csv", "t.svm", "t.parquet"):
        with pytest.raises(SpecError) as error:
            load(Data(n=num(2), d=num(1), source=CsvSource(path=path)), base_dir=tmp_path)
        assert SECRET not in str(error.value)
        assert SECRET not in "".join(traceback.format_exception(error.value))
        assert error.value.__context__ is None


def test_every_column_at_fault_is_reported(tmp_path):
    from pyarrow import parquet, table

    parquet.write_table(table({"a": [1.0, None], "b": ["u", "v"], "c": [1.0, np.inf], "y": [0, 1]}), tmp_path / "t.parquet")
    found, message = codes(lambda: load(Data(n=num(2), source=CsvSource(path="t.parquet", target="y")), base_dir=tmp_path))
    assert found == ["DP504", "DP505", "DP506"]
    assert all(f"'{c}'" in message for c in "abc")


def test_categories_outside_the_declared_levels(tmp_path):
    write(tmp_path, "k,c,y\n0,red,0\n3,mauve,1\n")
    encode = (Encode(column="k", how="one-hot", args=(num(3),)), Encode(column="c", how="levels", levels=("red", "blue")))
    found, message = codes(lambda: load(numeric(2, encode=encode), base_dir=tmp_path))
    assert found == ["DP510", "DP510"]
    assert "mauve" not in message
    assert "row" not in message
    found, message = codes(lambda: load(numeric(2, encode=encode, status="public"), base_dir=tmp_path))
    assert "row 2: 'mauve'" in message
    assert "row 2: '3.0'" in message
    for wrong in ("0.5", "-1"):
        write(tmp_path, f"k,c,y\n0,red,0\n{wrong},blue,1\n")
        assert codes(lambda: load(numeric(2, encode=encode), base_dir=tmp_path))[0] == ["DP510"]


@pytest.mark.parametrize("neighbours", ["replace-one", "zero-out"])
def test_where_neighbours_have_equally_many_records_a_contradiction_tells_both_numbers(tmp_path, neighbours):
    write(tmp_path, "a,y\n" + "1,0\n" * 570)
    found, message = codes(lambda: load(numeric(569, neighbours=neighbours), base_dir=tmp_path))
    assert found == ["DP507"]
    assert "the spec says n = 569, t.csv has 570 rows" in message


def test_dimension(tmp_path):
    found, message = codes(lambda: load(spec(d=4, intercept=True), base_dir=write(tmp_path, CSV)))
    assert found == ["DP508"]
    assert "d = 4" in message
    assert "have 6 (3 columns encoded as 5 plus the intercept)" in message


def test_private_data_need_a_declared_n(tmp_path):
    write(tmp_path, CSV)
    assert codes(lambda: load(spec(n=None), base_dir=tmp_path))[0] == ["DP517"]
    assert load(spec(n=None, status="public"), base_dir=tmp_path).records.n == 4


@pytest.mark.parametrize(
    ("encode", "code"),
    [
        (Encode(column="colour", how="one-hot", args=(num(0),)), "DP514"),
        (Encode(column="age", how="one-hot", args=(num("1.5"),)), "DP514"),
        (Encode(column="age", how="range", args=(num(2), num(2))), "DP514"),
        (Encode(column="age", how="range", args=(num(2),)), "DP514"),
        (Encode(column="age", how="standard", args=(num(2), num(0))), "DP514"),
        (Encode(column="age", how="levels", levels=("1", "1")), "DP514"),
        (Encode(column="age", how="levels"), "DP514"),
        (Encode(column="label", how="levels", levels=("1", "2")), "DP514"),
        (Encode(column="colour", how="range", args=(num(0), num(1))), "DP514"),  # a second encoding of it
        (Encode(column="agee", how="range", args=(num(0), num(1))), "DP503"),
    ],
)
def test_encodings_that_make_no_sense(tmp_path, encode, code):
    found, _ = codes(lambda: load(spec(encode=(COLOUR, encode), d=None), base_dir=write(tmp_path, CSV)))
    assert found == [code]


def test_files_that_cannot_be_opened(tmp_path):
    write(tmp_path, CSV, "adult.csv")
    (tmp_path / "folder.csv").mkdir()
    found, message = codes(lambda: load(spec(CsvSource(path="adlt.csv", target="label")), base_dir=tmp_path))
    assert found == ["DP501"]
    assert "adult.csv" in message
    for path in ("folder.csv", "nowhere/adult.csv"):
        assert codes(lambda: load(spec(CsvSource(path=path)), base_dir=tmp_path))[0] == ["DP501"]  # noqa: B023


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow", "t.npy", "t.npz", "t.svm", "t.xyz", "t.csv"])
def test_content_that_is_not_its_format(tmp_path, name):
    (tmp_path / name).write_bytes(bytes(range(256)) * 40)
    assert codes(lambda: load(Data(n=num(2), d=num(2), source=CsvSource(path=name)), base_dir=tmp_path))[0] == ["DP502"]


def test_pickles_are_not_opened(tmp_path):
    np.save(tmp_path / "t.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    assert codes(lambda: load(Data(n=num(2), source=CsvSource(path="t.npy")), base_dir=tmp_path))[0] == ["DP502"]


def test_column_suggestions(tmp_path):
    write(tmp_path, CSV)
    _, message = codes(lambda: load(spec(CsvSource(path="t.csv", target="labels")), base_dir=tmp_path))
    assert "did you mean 'label'?" in message
    _, message = codes(lambda: load(spec(CsvSource(path="t.csv", target="zzz")), base_dir=tmp_path))
    assert "score" not in message  # the header of a private file is not shown


@pytest.mark.parametrize(
    ("memory", "code"),
    [
        (np.array([[1, np.nan], [2, 3]]), "DP504"),
        (np.array([[1, np.inf], [2, 3]]), "DP506"),
        (sparse.csr_matrix(np.array([[1, np.nan], [2, 3]])), "DP504"),
        (np.array([["a", "b"], ["c", "d"]]), "DP505"),
        ((np.ones((2, 2)), np.ones(3)), "DP515"),
        ((np.ones((2, 2)), np.ones((2, 2))), "DP515"),
        ((np.ones((2, 2)), [1.0, np.nan]), "DP504"),
        ((np.ones((2, 2)), ["u", "v"]), "DP505"),
        ({"x": np.ones((2, 2)), "public_x": np.ones((4, 3))}, "DP515"),
        ({"x": np.ones((2, 2)), "public_x": np.full((4, 2), np.nan)}, "DP504"),
        ({"x": np.ones((2, 2)), "public_x": np.full((4, 2), np.inf)}, "DP506"),
        (np.ones((2, 2, 2)), "DP515"),
        (object(), "DP515"),
        ([[1, 2], [3]], "DP515"),
        ({"a": [1, 2], "b": [1]}, "DP515"),
        (np.ones((0, 2)), "DP509"),
        (np.ones((1, 2)), "DP509"),
        (np.ones((3, 2)), "DP507"),
    ],
)
def test_arrays_that_cannot_be_used(memory, code):
    assert codes(lambda: load(Data(n=num(2), source=MemorySource()), memory=memory))[0] == [code]


def test_arrays_take_the_names_of_the_spec_and_y_goes_before_a_target_column():
    scores = Encode(column="b", how="standard", args=(num(1), num(2)))
    data = Data(n=num(2), source=CsvSource(path="never-read.csv", target="y", columns=("a", "b")), encode=(scores,))
    raw = load(data, memory=(np.array([[1.0, 2.0], [3.0, 4.0]]), [5, 6]))
    assert raw.records.x.tolist() == [[1, 0.5], [3, 1.5]]
    assert raw.records.y.tolist() == [5, 6]
    raw = load(Data(n=num(2), source=MemorySource(target="y")), memory=({"a": [1, 2], "y": [3, 4]}, [5, 6]))
    assert raw.records.x.tolist() == [[1], [2]]  # the target column is no feature
    assert raw.records.y.tolist() == [5, 6]


def test_no_data():
    assert codes(lambda: load(Data(n=num(2), source=MemorySource())))[0] == ["DP513"]
    assert codes(lambda: load(Data(n=num(2))))[0] == ["DP513"]


def test_public_records_with_and_without_a_target(tmp_path):
    write(tmp_path, CSV)
    write(tmp_path, "age,colour,score\n1,blue,2\n", "pub.csv")
    write(tmp_path, "age,colour,score\n1,blue,2\n3,red,4\n5,red,6\n", "pub.csv")
    write(tmp_path, CSV, "with.csv")
    assert load_public("pub.csv", spec(), base_dir=tmp_path).tolist() == [[1, 0, 0, 1, 2], [3, 1, 0, 0, 4], [5, 1, 0, 0, 6]]
    assert load_public("with.csv", spec(), base_dir=tmp_path).tolist() == X.tolist()
    assert load_public("with.csv", spec(), columns=("age", "colour", "score"), base_dir=tmp_path).tolist() == X.tolist()
