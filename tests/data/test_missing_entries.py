"""Entries of x that are missing, where the question allows it: NaN in the records, 0 while they are enforced; refused elsewhere."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from dpspec.compiler.passes import compile_draft
from dpspec.data.enforce import enforce
from dpspec.data.laws import Simulation
from dpspec.data.records import Records
from dpspec.data.sources import load
from dpspec.executor import bind
from dpspec.lang.source import parse_text
from dpspec.spec.diagnostics import SpecError
from dpspec.tasks import registry

NAN = np.nan
SPEC = """analysis "a"

data
  n = 3, d = 2
  from {source}
  private, unit person, neighbours replace-one
  x in {domain}

privacy central
  epsilon = 1, delta = 1e-4

release r
  estimate mean(x)

simulate
  x ~ missing(0.5, normal(0, I))
"""


def parsed(domain: str = "ball(l2, 1) by scale", source: str = "memory"):
    return parse_text(SPEC.format(domain=domain, source=source), surface="dps")


@pytest.mark.parametrize(
    ("domain", "rows", "want"),
    [
        # the norm is that of what is there: (3, 4) has 5, and (3, nothing) has 3
        ("ball(l2, 1) by scale", [[3.0, 4.0], [3.0, NAN], [NAN, NAN]], [[0.6, 0.8], [1.0, NAN], [NAN, NAN]]),
        ("box(1, 2) by clip", [[0.0, 5.0], [NAN, 5.0], [1.5, NAN]], [[1.0, 2.0], [NAN, 2.0], [1.5, NAN]]),
        ("{0, 1} by map(0 -> 0, 1 -> 1)", [[1.0, 7.0], [NAN, 1.0], [1.0, NAN]], [[1.0, 0.0], [NAN, 1.0], [1.0, NAN]]),
        # an infinite entry makes a record of zeros, and what was missing stays missing
        ("ball(l2, 1) by scale", [[np.inf, 0.5], [np.inf, NAN], [0.5, NAN]], [[0.0, 0.0], [0.0, NAN], [0.5, NAN]]),
    ],
)
def test_an_entry_that_is_missing_stays_and_the_others_are_enforced(domain: str, rows: list, want: list) -> None:
    made, _ = enforce(Records(np.array(rows)), parsed(domain).analysis.data, missing=True)
    assert np.array_equal(np.asarray(made.x), np.array(want), equal_nan=True) or np.allclose(made.x, want, equal_nan=True, atol=1e-15)
    closed, _ = enforce(Records(np.array(rows)), parsed(domain).analysis.data)
    assert np.isfinite(closed.x).all()


def test_sparse_records_keep_a_stored_entry_that_is_missing() -> None:
    x = csr_array(np.array([[NAN, 0.0], [3.0, 4.0], [0.0, 0.0]]))
    made, _ = enforce(Records(x), parsed().analysis.data, missing=True)
    assert np.allclose(made.x.toarray(), [[NAN, 0], [0.6, 0.8], [0, 0]], equal_nan=True)


@pytest.mark.parametrize("source", ["memory", 'file "a.csv"'])
def test_they_are_loaded_where_they_are_allowed(source: str, tmp_path: Path) -> None:
    rows = np.array([[1.0, NAN], [2.0, 3.0], [NAN, NAN]])
    data = parsed(source=source.replace("file ", "")).analysis.data
    (tmp_path / "a.csv").write_text("u,v\n1,\n2,3\n,\n")
    handed = {"memory": rows} if source == "memory" else {"base_dir": tmp_path}
    assert np.array_equal(load(data, missing=True, **handed).records.x, rows, equal_nan=True)
    with pytest.raises(SpecError, match="DP504"):
        load(data, **handed)
    if source == "memory":
        rows[1, 1] = np.inf
        with pytest.raises(SpecError, match="DP506"):
            load(data, missing=True, memory=rows)


def test_a_law_leaves_them_out_and_every_question_must_allow_it(monkeypatch: pytest.MonkeyPatch) -> None:
    draft = compile_draft(parsed())
    assert not bind.missing(draft)
    plain = Simulation(draft.analysis.simulate, draft.facts).trial(1, 0)[0].in_memory().x
    assert (plain == 0).any()
    tasks = registry.tasks()
    monkeypatch.setattr(registry, "tasks", lambda: tuple(replace(t, missing=lambda node: True) if t.name == "mean" else t for t in tasks))
    assert bind.missing(draft)
    left = Simulation(draft.analysis.simulate, draft.facts, missing=True).trial(1, 0)[0]
    assert np.array_equal(np.isnan(left.in_memory().x), plain == 0)
    made, _ = bind.enforced(draft, left)
    x = np.concatenate([x for x, _ in made.blocks()])
    assert np.array_equal(np.isnan(x), plain == 0)
    assert (np.sqrt(np.nansum(x**2, axis=1)) <= 1).all()
    second = draft.releases[0].release.model_copy(
        update={
            "task": parse_text(SPEC.replace("mean", "precision").format(domain="ball(l2, 1) by scale", source="memory"), surface="dps")
            .analysis.releases[0]
            .task
        }
    )
    assert not bind.missing(replace(draft, releases=(*draft.releases, replace(draft.releases[0], release=second))))
