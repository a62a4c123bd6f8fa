"""The real jobs of docs/algorithms/latent.md and crowds.md: the specs as the pages print them, on the data that they describe."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import dpspec as dp

DOCS = Path(__file__).parents[2] / "docs" / "algorithms"


def job(page: str, folder: Path) -> Path:
    """The analysis under the heading of the real job, written to a file."""
    text = (DOCS / page).read_text().split("## A real job", 1)[1]
    (spec,) = re.findall(r"```\n(analysis .*?)```", text, flags=re.DOTALL)
    (folder / "job.dps").write_text(spec)
    return folder / "job.dps"


@pytest.mark.slow
def test_two_kinds_of_tumours(tmp_path):
    """The page: about 6 % of the tumours into the other kind at epsilon 4."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer(as_frame=True)
    x = data.data[["worst radius", "worst concave points"]]
    kinds = dp.run(job("latent.md", tmp_path), x).outputs["kinds"]
    assert kinds["means"].shape == kinds["variances"].shape == (2, 2)
    assert kinds["weights"].sum() == pytest.approx(1.0)
    scaled = (x.to_numpy() - [16, 0.12]) / [5, 0.06]
    logs = [
        np.log(w) - ((scaled - m) ** 2 / (2 * v)).sum(axis=1) - np.log(v).sum() / 2
        for w, m, v in zip(kinds["weights"], kinds["means"], kinds["variances"], strict=True)
    ]
    wrong = float(np.mean((logs[0] > logs[1]) != data.target.to_numpy()))
    assert min(wrong, 1 - wrong) < 0.15


@pytest.mark.slow
def test_which_digit_it_is(tmp_path):
    """400 nearest-neighbour rules that have seen 10 to 59 digits, a long table, epsilon 2 an answer: the page says 0.043 wrong."""
    import pandas as pd
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    g = np.random.default_rng(0)
    order = g.permutation(len(x))
    asked, known = order[:500], order[500:]
    rows = []
    for worker in range(400):
        seen = g.choice(known, int(g.integers(10, 60)), replace=False)
        squares = (x[asked] ** 2).sum(axis=1)[:, None] - 2 * x[asked] @ x[seen].T + (x[seen] ** 2).sum(axis=1)
        said = y[seen][squares.argmin(axis=1)] + 1
        items = np.flatnonzero(g.random(500) < 0.8)
        rows.append(np.column_stack([np.full(len(items), worker + 1), items + 1, said[items]]))
    pd.DataFrame(np.concatenate(rows), columns=["worker", "item", "label"]).to_csv(tmp_path / "answers.csv", index=False)
    found = dp.run(job("crowds.md", tmp_path)).outputs["digits"]
    assert found["labels"].shape == (500,)
    assert np.mean(found["labels"] != y[asked] + 1) < 0.1
    assert found["abilities"].shape == (400,)
    assert ((found["abilities"] >= 0) & (found["abilities"] <= 1)).all()
