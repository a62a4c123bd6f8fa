"""Records in memory: nothing that is handed over is dropped without a word, and nothing but numbers at their places is read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import dpspec as dp
from dpspec.data.sources import load
from dpspec.spec.diagnostics import SpecError

SPEC = """analysis "four"

data
  n = 4, d = 2
  from memory{target}
  private, unit person, neighbours replace-one
  x in ball(l2, 1) by scale
  y in {{-1, 1}} by map(0 -> -1, 1 -> 1)

privacy central
  epsilon = 1, delta = 1e-3

release w
  minimise log(1 + exp(-y*<w, x>)) + 0.1/2*|w|^2
  by dp-gd with T = 2
"""
X, Y = np.arange(8.0).reshape(4, 2), np.array([0, 1, 0, 1.0])


def plan(target: str = "") -> dp.api.Plan:
    return dp.plan(dp.loads(SPEC.format(target=target and f' target "{target}"'), surface="dps"))


def refused(code: str, words: str, x: object, y: object = None, target: str = "", **more: object) -> None:
    with pytest.raises(SpecError, match=words) as error:
        plan(target).run(x, y, **more)
    assert [d.code for d in error.value.diagnostics] == [code]


def test_records_that_come_twice_are_refused(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "t": Y})
    refused("DP515", "y comes without x", None, Y)
    refused("DP515", "come twice: in memory, and from", X, Y, data_file=tmp_path / "other.csv")
    refused("DP515", "y comes twice", {"x": X, "y": Y}, 1 - Y)
    refused("DP515", "y comes twice", (X, Y), 1 - Y)
    refused("DP515", "upper and lower case", {"x": X, "X": 9 * X, "y": Y})
    np.savez(tmp_path / "twice.npz", x=X, X=9 * X, y=Y)
    refused("DP515", "upper and lower case", None, data_file=tmp_path / "twice.npz")
    for x, y, target in ((X, Y, ""), ({"X": X, "Y": Y}, None, ""), ((X, Y), None, ""), (frame, None, "t"), (frame[["a", "b"]], Y, "t")):
        assert plan(target).run(x, y).outputs["w"]["theta"].shape == (2,)


def test_public_records_that_come_twice_are_refused() -> None:
    with pytest.raises(SpecError, match="public_x comes twice"):
        load(plan().draft.analysis.data, memory=({"x": X, "public_x": X}, Y, X))


@pytest.mark.parametrize("kind", ["x", "y", "column"])
def test_what_a_mask_hides_is_missing(kind: str) -> None:
    """The number under a mask is what its owner meant not to hand over."""
    hidden = np.ma.masked_array(Y if kind == "y" else X, mask=False)
    hidden[0] = np.ma.masked
    memory = {"x": (hidden, Y), "y": (X, hidden), "column": {"1": hidden[:, 0] if kind == "column" else X, "2": X[:, 1], "t": Y}}[kind]
    refused("DP504", "missing value", memory, target="t" if kind == "column" else "")
    for whole in ((np.ma.masked_array(X), Y), (np.ma.masked_array(X.astype(int)), np.ma.masked_array(Y, mask=False))):
        assert plan().run(whole).outputs["w"]["theta"].shape == (2,)


def test_imaginary_parts_are_not_dropped() -> None:
    for form in (sparse.csr_array, sparse.coo_array, sparse.csc_matrix):
        refused("DP505", "not a number", form(X + 1j), Y)
    refused("DP515", "do not fit together", {"x": X, "y": Y, "public_x": X + 1j})


def test_every_sparse_form_is_read_alike() -> None:
    data = plan().draft.analysis.data
    for name in ("csr_array", "csc_matrix", "coo_array", "lil_matrix", "dok_matrix", "dok_array", "bsr_array", "dia_matrix"):
        assert (load(data, memory=(getattr(sparse, name)(X), Y)).records.x.toarray() == X).all(), name


def test_indices_outside_of_a_sparse_matrix_are_refused() -> None:
    """scipy's methods write where they point, whatever lies there."""
    for place, value in (("indices", 7), ("indices", -1), ("indptr", 99)):
        broken = sparse.csr_array(np.array([[1.0, 1], [0, 1], [1, 0], [0, 0]]))
        getattr(broken, place)[1] = value
        refused("DP515", "indices of the sparse matrix", broken, Y)
    far = sparse.coo_array(X)
    far.coords[1][0] = 7
    refused("DP515", "indices of the sparse matrix", far, Y)


def test_batches_of_arrow_and_types_that_it_does_not_know() -> None:
    pa = pytest.importorskip("pyarrow")
    batch = pa.record_batch({"a": X[:, 0], "b": X[:, 1], "t": Y})
    assert (load(plan("t").draft.analysis.data, memory=batch).records.x == X).all()
    pl = pytest.importorskip("polars")
    wide = pl.DataFrame({"a": pl.Series([1, 2, 3, 4], dtype=pl.Int128), "b": X[:, 1], "t": Y})
    try:
        wide.to_arrow()
    except pa.ArrowInvalid:
        refused("DP515", "a type that Arrow does not know", wide, target="t")
