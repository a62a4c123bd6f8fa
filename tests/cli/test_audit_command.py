"""`dpspec audit`: exit codes, JSON shape, several kinds of file."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from tests.cli.call import call
from tests.compiler.specs import CLASSIFY

DEPLOYMENT = """\
audit: 1
subject: a sum of unit vectors
setting: {{model: central, unit: person, neighbouring: {relation}}}
claim: {{epsilon: {epsilon}, delta: 1.0e-5}}
events:
- {{type: gaussian, what: sum, clip_norm: 1, sigma: 4, count: 1}}
"""


def epsilon_of(mu: float, delta: float) -> float:
    from scipy.optimize import brentq
    from scipy.stats import norm

    return brentq(lambda e: norm.cdf(mu / 2 - e / mu) - math.exp(e) * norm.cdf(-mu / 2 - e / mu) - delta, 0, 50, xtol=1e-12)


@pytest.mark.parametrize(("relation", "mu"), [("add_remove", 0.25), ("replace_one", 0.5)])
def test_a_deployment_against_the_closed_form(tmp_path: Path, relation: str, mu: float) -> None:
    true = epsilon_of(mu, 1e-5)
    file = tmp_path / "deployment.yaml"
    file.write_text(DEPLOYMENT.format(relation=relation, epsilon=true * 1.01))
    good = call("audit", str(file), "--format", "json")
    body = json.loads(good.stdout)
    assert body["verdict"] == "holds"
    assert good.code == 0
    assert body["static"]["epsilon"] == pytest.approx(true, rel=1e-4)
    file.write_text(DEPLOYMENT.format(relation=relation, epsilon=true * 0.9))
    bad = call("audit", str(file))
    assert bad.code == 1
    assert "violated" in bad.stdout


def test_our_own_plan(tmp_path: Path) -> None:
    spec, lock = tmp_path / "a.dps", tmp_path / "plan.json"
    spec.write_text(CLASSIFY)
    assert call("plan", str(spec), "--out", str(lock), "-q").code == 0
    result = call("audit", str(lock), "--format", "json")
    assert json.loads(result.stdout)["verdict"] == "holds", result.stdout
    body = json.loads(lock.read_text())
    body["releases"][0]["noise"][0]["scale"] /= 2
    lock.write_text(json.dumps(body))
    assert json.loads(call("audit", str(lock), "--format", "json").stdout)["verdict"] == "violated"


def test_a_channel_matrix(tmp_path: Path) -> None:
    """Randomised response with keep probability 3/4 is exactly log 3."""
    file = tmp_path / "channel.csv"
    file.write_text("0.75,0.25\n0.25,0.75\n")
    body = json.loads(call("audit", str(file), "--format", "json").stdout)
    assert body["exact"]["epsilon"] == pytest.approx(math.log(3), rel=1e-9)


@pytest.mark.parametrize("text", ["", "audit: 1\nsubjct: a\n", "[1, 2", "audit: 1\nclaim: {epsilon: nan}\n"])
def test_bad_descriptions_are_unusable(tmp_path: Path, text: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    result = call("audit", str(file))
    assert result.code == 2
    assert "DP6" in result.stderr
    assert call("audit", str(tmp_path / "absent.yaml")).code == 2
