"""The long table of a crowd: one row an answer, to the sparse matrix of workers and tasks."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dpspec.compiler.plan import make_plan
from dpspec.data.sources import load
from dpspec.executor.run import run
from dpspec.lang.source import parse_text
from dpspec.spec.diagnostics import SpecError

SPEC = """
analysis "a"
data
  n = {n}, d = {d}
  from {source} columns ["worker", "item", "label"]
  private, unit worker, neighbours replace-one
  {encode}
  x in {{0, 1, 2}} by map(0 -> 0, 1 -> 1, 2 -> 2)
privacy nldp, attribute
  epsilon = 20
release labels
  infer truth from labels
  by private-majority-voting
"""
TABLE = pd.DataFrame({"worker": [1, 4, 2, 1, 4], "item": [2, 1, 3, 1, 1], "label": [2, 1, 2, 1, 2]})
#: Worker 4 answered task 1 twice, and worker 3 nothing.
WIDE = [[1, 2, 0], [0, 0, 2], [0, 0, 0], [2, 0, 0]]


def spec(source: str = '"answers.csv"', encode: str = "", n: int = 4, d: int = 3):
    return parse_text(SPEC.format(source=source, encode=encode, n=n, d=d), surface="dps")


def wide(base, **given):
    data = spec(**given).analysis.data
    return load(data, base_dir=base, missing=True).records.x


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_file_becomes_the_wide_matrix(tmp_path, ending):
    TABLE[["label", "worker", "item"]].to_csv(tmp_path / "answers.csv", index=False)
    TABLE.to_parquet(tmp_path / "answers.parquet")
    x = wide(tmp_path, source=f'"answers.{ending}"')
    assert x.toarray().tolist() == WIDE
    assert x.nnz == 4


def test_words_with_declared_levels_are_numbered_from_one(tmp_path):
    words = TABLE.assign(item=TABLE.item.map({1: "a", 2: "b", 3: "c"}), label=TABLE.label.map({1: "no", 2: "yes"}))
    words.to_csv(tmp_path / "answers.csv", index=False)
    encode = 'encode item as levels("a", "b", "c"), label as levels("no", "yes")'
    assert wide(tmp_path, encode=encode).toarray().tolist() == WIDE


def test_an_answer_moves_no_other_one(tmp_path):
    """A worker more or less, a task nobody answered, no answer at all: each row and column stays where it was."""
    for kept in range(len(TABLE)):
        TABLE.drop(index=kept).to_csv(tmp_path / "answers.csv", index=False)
        x = wide(tmp_path).toarray()
        differs = np.argwhere(x != np.array(WIDE))
        assert len(differs) <= 1
        assert differs.tolist() in ([], [[TABLE.worker[kept] - 1, TABLE.item[kept] - 1]])
    TABLE.iloc[:0].to_csv(tmp_path / "answers.csv", index=False)
    assert wide(tmp_path).toarray().tolist() == np.zeros((4, 3)).tolist()


@pytest.mark.parametrize(
    ("column", "value", "code"),
    [("worker", 5, "DP508"), ("worker", 0, "DP508"), ("item", 1.5, "DP508"), ("item", "x", "DP505"), ("label", "yes", "DP505")],
)
def test_what_is_no_worker_task_or_label_is_refused(tmp_path, column, value, code):
    TABLE.astype(object).assign(**{column: [value, *TABLE[column][1:]]}).to_csv(tmp_path / "answers.csv", index=False)
    with pytest.raises(SpecError) as caught:
        wide(tmp_path)
    assert {d.code for d in caught.value.diagnostics} == {code}
    assert str(value) not in str(caught.value).replace("from 1 to", "").replace("DP505", "").replace("DP508", "") or value in (0, 5)


def test_a_release_reads_the_long_table(tmp_path):
    """Twenty workers at a large epsilon: the answers' majority, from the file and from memory."""
    g = np.random.default_rng(0)
    truth = np.array([1, 2, 2, 1, 1])
    rows = [(w + 1, t + 1, truth[t] if g.random() < 0.9 else 3 - truth[t]) for w in range(20) for t in range(5) if g.random() < 0.8]
    table = pd.DataFrame(rows, columns=["worker", "item", "label"])
    table.to_csv(tmp_path / "answers.csv", index=False)
    from_file = run(make_plan(spec(n=20, d=5)), data_file=tmp_path / "answers.csv")
    assert from_file.outputs["labels"]["labels"].tolist() == truth.tolist()
    from_memory = run(make_plan(spec(source="memory", n=20, d=5)), table)
    assert from_memory.outputs["labels"]["labels"].tolist() == truth.tolist()
