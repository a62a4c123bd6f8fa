"""References beside a plan: on the same records, measured as the estimate is, refused where they answer another question."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dpspec.algorithms.registry import cards
from dpspec.executor.study import study
from dpspec.lang.source import parse_file, parse_text
from dpspec.report.terminal import study_text
from dpspec.spec.diagnostics import SpecError

SPECS = Path(__file__).parents[2] / "specs"

#: A gallery file for each reference whose question it answers; the ones after the first two take longer.
BESIDE = {
    "gradient-em": "em/dp-em",
    "graphical-lasso": "matrix/distributed-precision-wishart",
    "trust-region": "convex_erm/approximate-minima-perturbation",
    "soft-thresholded-ols": "nldp_erm/ldp-direct-perturbation",
    "dawid-skene": "crowdsourcing/private-dawid-skene",
    "covariance-thresholding": "matrix/dp-covariance-gaussian",
    "em": "em/dp-em-clusters",
    "gld": "convex_erm/approximate-minima-perturbation",
    "glm": "public_data/nldp-glm-public",
    "iht": "showcase/sparse-four-models-central",
    "pairwise-giga": "pairwise/fb-on-pair-c",
    "pca": "matrix/ldp-pca-gaussian",
    "median-of-means": "heavy_tailed/dp-catoni-mean",
    "references-001": "nldp_erm/ldp-direct-perturbation",
    "robust-gd": "heavy_tailed/dp-fw-heavy-tailed",
    "svrg": "convex_erm/approximate-minima-perturbation",
}
FAST = tuple(BESIDE)[:2]


def test_every_reference_has_a_question_here() -> None:
    assert set(BESIDE) == {c.id for c in cards() if c.role == "reference"}


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in BESIDE])
def test_a_reference_runs_beside_a_private_algorithm(name: str) -> None:
    small, trials = ({"n": ["300"]}, 1) if name == "svrg" else ({}, 2)
    parsed = parse_file(SPECS / f"{BESIDE[name]}.dps")
    body = study(parsed, trials=trials, compare=(name,), quick=True, workers=1, vary=small).to_json()
    for point in body["points"]:
        assert point["algorithm"] != name
        found = point["beside"][name]
        assert found["measure"] == point["error"]["measure"]
        assert found["mean"] <= 0.5 * (point["trivial_error"] or 1.0)  # far from an answer without data


TEXT = """
analysis "three entries"

data
  n = 4000, d = 8
  from memory
  private, unit person, neighbours replace-one
  x in ball(linf, 1) by clip
  y in [-3, 3] by clip

privacy central
  epsilon = 1, delta = 1e-6

assume
  sparse(3)

release theta
  estimate theta in y = <theta, x> + noise
  by dp-least-squares

simulate
  theta = sparse(3) unit l2
  x ~ rademacher
  y = <theta, x> + normal(0, 0.1)

study
  trials 2, seed 1
  compare dp-least-squares, iht
"""


def test_the_plan_is_the_same_with_a_reference_beside_it() -> None:
    alone = parse_text(TEXT.replace(", iht", ""))
    with_it, without = study(parse_text(TEXT), workers=1).to_json(), study(alone, workers=1).to_json()
    assert [p["error"] for p in with_it["points"]] == [p["error"] for p in without["points"]]
    assert [set(p["beside"]) for p in with_it["points"]] == [{"iht"}]
    assert [p["beside"] for p in without["points"]] == [{}]


def test_finished_cells_know_who_stood_beside_them(tmp_path: Path) -> None:
    parsed = parse_text(TEXT)
    first = study(parsed, workers=1, out=tmp_path, compare=("dp-least-squares",)).to_json()
    second = study(parsed, workers=1, out=tmp_path).to_json()
    third = study(parsed, workers=1, out=tmp_path).to_json()
    assert first["points"][0]["beside"] == {}
    assert second["points"] == third["points"]
    assert "iht" in third["points"][0]["beside"]


def test_a_reference_of_another_question_is_refused() -> None:
    parsed = parse_text(TEXT)
    with pytest.raises(SpecError, match="pca cannot stand beside") as caught:
        study(replace(parsed), workers=1, compare=("pca",))
    assert caught.value.diagnostics[0].code == "DP416"


def test_the_text_names_the_reference() -> None:
    assert "iht, not private, has" in study_text(study(parse_text(TEXT), workers=1).to_json())
