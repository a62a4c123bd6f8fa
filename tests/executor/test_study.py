"""Studies end to end: designs, what a result holds, bounds violated by construction, real data read once."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dpspec.algorithms.convex_erm import dp_gd
from dpspec.executor import trial
from dpspec.executor.design import design
from dpspec.executor.study import regimes, study
from dpspec.lang.source import parse_text
from dpspec.spec.diagnostics import SpecError
from tests.cli.call import call
from tests.executor.specs import LOGISTIC, SPARSE

LOGISTIC_PARSED = parse_text(LOGISTIC, path="l.dps", surface="dps")


def points(text: str, **options: object) -> list[tuple[dict[str, float], str | None]]:
    settings = {"trials": None, "seed": None, "vary": {}, "compare": (), "quick": False, **options}
    return [(dict(p.at), p.algorithm) for p in design(parse_text(text, surface="dps"), **settings).points]  # type: ignore[arg-type]


def test_a_grid_is_a_product_and_the_command_overrides_the_spec() -> None:
    assert len(points(SPARSE)) == 6
    assert points(SPARSE, vary={"n": ("1e4",), "epsilon": ("1", "2")}) == [
        ({"n": 1e4, "epsilon": 1.0}, None),
        ({"n": 1e4, "epsilon": 2.0}, None),
    ]
    assert len(points(SPARSE, quick=True)) == 4


def test_log_grids_have_equal_ratios() -> None:
    text = SPARSE.replace("vary n in [20_000, 40_000]", "vary n in log-grid(1e4, 1e6, 5)").replace("  vary epsilon in [2, 4, 8]\n", "")
    found = [at["n"] for at, _ in points(text)]
    assert found[0] == 1e4
    assert found[-1] == 1e6
    assert np.diff(np.log10(found)) == pytest.approx([0.5] * 4, abs=0.01)  # rounded to three figures


def test_a_tunable_and_an_assumption_can_be_varied() -> None:
    assert [at for at, _ in points(LOGISTIC, vary={"T": ("5", "10"), "n": ("1000",)})] == [{"n": 1e3, "T": 5.0}, {"n": 1e3, "T": 10.0}]
    drafts = [
        trial.compiled(p)
        for p in design(
            parse_text(SPARSE, surface="dps"), trials=1, seed=0, vary={"n": ("20000",), "epsilon": ("4",), "k": ("1", "2")}, compare=(),
            quick=False,
        ).points
    ]  # fmt: skip
    assert [d.facts["k"] for d in drafts] == [1, 2]


def test_what_cannot_be_varied_is_refused() -> None:
    with pytest.raises(SpecError):
        points(LOGISTIC, vary={"rho": ("1",)})
    with pytest.raises(SpecError):
        study(LOGISTIC_PARSED, vary={"n": ("abc",)})


def test_the_noise_differs_between_points_and_trials_and_the_records_do_not() -> None:
    """Common random numbers: at two budgets the reference, a function of the records alone, agrees trial by trial."""
    body = study(parse_text(SPARSE, surface="dps"), vary={"n": ("40000",), "epsilon": ("8", "16")}, trials=3, workers=1).to_json()
    a, b = body["points"]
    assert a["reference_error"]["values"] == b["reference_error"]["values"]
    assert len(set(b["error"]["values"])) == 3
    assert a["cost_of_privacy"]["ratio"] == pytest.approx(a["error"]["mean"] / a["reference_error"]["mean"])


def test_seeds_matter_and_nothing_else() -> None:
    one = study(LOGISTIC_PARSED, trials=2, seed=1, workers=1).to_json()
    assert study(LOGISTIC_PARSED, trials=2, seed=1, workers=1).to_json() == one
    assert study(LOGISTIC_PARSED, trials=2, seed=2, workers=1).to_json()["points"] != one["points"]


def test_a_bound_violated_by_construction_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The algorithm now claims a ten-thousandth of what its theorem says; the study must not let that stand."""
    boasts = (replace(b, expression=f"({b.expression})/10^4") if b.kind == "explicit" else b for b in dp_gd.CARD.bounds)
    monkeypatch.setattr(dp_gd, "CARD", replace(dp_gd.CARD, bounds=tuple(boasts)))
    trial._DRAFTS.clear()
    (tmp_path / "l.dps").write_text(LOGISTIC)
    result = call("study", str(tmp_path / "l.dps"), "--out", str(tmp_path / "out"))
    monkeypatch.undo()
    trial._DRAFTS.clear()
    body = json.loads((tmp_path / "out" / "study.json").read_text())
    assert result.code == 1
    assert "VIOLATED" in result.stdout
    assert all(p["bound"]["holds"] is False for p in body["points"])
    assert all(p["error"]["mean"] > p["bound"]["value"] for p in body["points"])


def test_the_honest_bound_holds(tmp_path: Path) -> None:
    (tmp_path / "l.dps").write_text(LOGISTIC)
    result = call("study", str(tmp_path / "l.dps"), "--out", str(tmp_path / "out"))
    assert result.code == 0
    body = json.loads((tmp_path / "out" / "study.json").read_text())
    assert all(p["bound"]["holds"] is True for p in body["points"])
    assert all(p["bound"]["within"] == p["trials"] for p in body["points"])
    assert "/tmp" not in json.dumps(body["environment"])


def test_a_result_as_a_data_frame() -> None:
    result = study(LOGISTIC_PARSED, trials=3, workers=1)
    frame = result.to_dataframe()
    assert list(frame["n"]) == [2000, 4000, 8000]
    assert list(frame["trials"]) == [3, 3, 3]
    for row, p in zip(frame.to_dict("records"), result.to_json()["points"], strict=True):
        assert row["error_mean"] == pytest.approx(np.mean(p["error"]["values"]))
        assert row["ci_low"] < row["error_mean"] < row["ci_high"]
        assert row["error_mean"] <= row["bound"]
        assert row["holds"] is True


def test_the_regime_of_a_theorem_is_stated() -> None:
    def point(n: int, starts: float | None) -> dict[str, object]:
        return {"release": "r", "algorithm": "a", "n": n, "regime_starts": starts}

    assert regimes([point(10, None)]) == []
    (before,) = regimes([point(1_000, 5e4), point(10_000, 5e4)])
    assert before["text"] == "the regime of the theorem starts at n = 50,000; this study stops before it, at n = 10,000"
    (part,) = regimes([point(1_000, 5e4), point(100_000, 5e4)])
    assert part["inside"] == 1
    (all_in,) = regimes([point(100_000, 5e4)])
    assert all_in["text"] == "every point lies in the regime of the theorem"


def test_real_data_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    r = np.random.default_rng(1)
    rows = ["a,b,y"] + [f"{x:.6f},{z:.6f},{int(x + z > 0)}" for x, z in r.uniform(-1, 1, (200, 2))]
    (tmp_path / "r.csv").write_text("\n".join(rows) + "\n")
    data = LOGISTIC[LOGISTIC.index("data") : LOGISTIC.index("privacy")]
    text = LOGISTIC[: LOGISTIC.index("simulate")].replace(
        data, data.replace("n = 1_000, d = 3", 'n = 200, d = 2\n  from "r.csv" target "y"').replace("private", "public")
    )
    parsed = parse_text(text, path=str(tmp_path / "r.dps"), surface="dps")
    from dpspec.data import sources

    calls: list[int] = []
    real = sources.load
    monkeypatch.setattr(sources, "load", lambda *w, **k: calls.append(1) or real(*w, **k))
    first = study(parsed, vary={"epsilon": ("1", "2", "4")}, trials=20, workers=1, out=tmp_path / "out").to_json()
    assert len(calls) == 1
    (tmp_path / "r.csv").write_text("\n".join(rows[:151] + rows[1:51]) + "\n")  # other records under the same name: nothing is reused
    second = study(parsed, vary={"epsilon": ("1", "2", "4")}, trials=20, workers=1, out=tmp_path / "out").to_json()
    assert first["points"] != second["points"]
    assert all(math.isfinite(p["error"]["mean"]) for p in second["points"])


def test_infinite_errors_are_kept_written_and_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A measure may be infinite (the divergence of an indefinite matrix). Every second number here, at n = 1000."""
    from dpspec.measures.measure import Measure
    from dpspec.tasks.protocol import Task

    calls = iter(range(10**6))

    def measure(w: object, t: object) -> float:
        n = t.problem.n  # type: ignore[attr-defined]
        return math.inf if n == 1000 and next(calls) % 2 == 0 else 1.0

    monkeypatch.setattr(Task, "measure", lambda self, name: Measure(name, measure, "optimum"))
    options = {"trials": 12, "vary": {"n": ("500", "1000", "2000", "4000")}, "workers": 1, "out": tmp_path}
    result = study(LOGISTIC_PARSED, **options)  # type: ignore[arg-type]
    file = result.write(tmp_path)
    first = file.read_bytes()
    study(LOGISTIC_PARSED, **options).write(tmp_path)  # type: ignore[arg-type]  # from the kept cells: the measure is not asked again
    assert file.read_bytes() == first
    body = json.loads(first, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    finite, infinite = body["points"][0], body["points"][1]
    assert finite["error"]["mean"] == 1.0
    assert infinite["error"]["mean"] is None
    assert None in infinite["error"]["values"]
    assert 1.0 in infinite["error"]["values"]
    assert infinite["bound"]["holds"] is False  # no finite bound covers them
    assert infinite["cost_of_privacy"] is None
    for words in ((), ("--format", "json"), ("--html", str(tmp_path / "p.html"))):
        assert call("report", str(file), *words).code == 0
    assert "inf" in call("report", str(file)).stdout
