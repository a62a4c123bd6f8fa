"""Algorithms of other packages: found by entry points, marked with their origin, held to the conformance suite, refused when broken."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import dpspec as dp
from dpspec.algorithms import registry
from dpspec.report.terminal import plan_text
from dpspec.spec.diagnostics import SpecError
from tests.cli.call import call

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "tests" / "sample_package"
SPEC = SAMPLE / "sample_dp" / "sample-gaussian-mean.dps"
ID = "sample-gaussian-mean"


def forget() -> None:
    registry.others.cache_clear()
    for name in [n for n in sys.modules if n.split(".")[0] in ("sample_dp", "broken_dp")]:
        del sys.modules[name]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """The sample package as an installer leaves it: its code and its metadata on the path."""
    monkeypatch.syspath_prepend(str(SAMPLE))
    forget()
    yield monkeypatch
    monkeypatch.undo()
    forget()


def test_without_the_package_its_algorithm_is_unknown() -> None:
    forget()
    assert ID not in registry.ids()
    with pytest.raises(registry.UnknownAlgorithm):
        registry.get(ID)


def test_an_algorithm_of_another_package_is_planned_and_run_and_says_whose_it_is(installed: pytest.MonkeyPatch) -> None:
    plan = dp.plan(SPEC)
    release = plan.to_json()["releases"][0]
    assert release["algorithm"] == ID
    assert release["origin"] == "sample-dp 1.0"
    assert "of another package: sample-dp 1.0" in plan_text(plan.to_json())
    listed = call("algorithms").stdout
    assert [line for line in listed.splitlines() if "sample-dp 1.0" in line] == [line for line in listed.splitlines() if ID in line]
    assert "[sample-dp 1.0]" in call("algorithms", ID).stdout
    assert '"origin": "sample-dp 1.0"' in call("algorithms", ID, "--format", "json").stdout
    assert "origin" not in dp.plan(ROOT / "specs/matrix/dp-covariance-gaussian.dps").to_json()["releases"][0]


def test_an_algorithm_of_another_package_has_to_be_named(installed: pytest.MonkeyPatch) -> None:
    auto = dp.loads(SPEC.read_text(encoding="utf-8").replace(f"by {ID}", "by auto"))
    candidates = json.dumps(dp.plan(auto).to_json()["releases"][0]["candidates"])
    assert "dp-mean" in candidates
    assert ID not in candidates


def test_whose_code_draws_is_a_part_of_what_a_plan_means(installed: pytest.MonkeyPatch) -> None:
    before = dp.plan(SPEC).sha256
    registry.others.cache_clear()
    other = registry.Other(ID, "sample_dp.sample_gaussian_mean", "sample-dp 2.0")
    installed.setattr(registry, "others", lambda: {ID: other})
    assert dp.plan(SPEC).sha256 != before
    installed.undo()


BROKEN = {
    "a module that fails": ("broken", "raise RuntimeError('no')", "does not import (RuntimeError: no)"),
    "a module without run": ("broken", "CARD = accepts = schedule = None", "lacks run"),
    "a card that is none": ("broken", "CARD = accepts = schedule = run = None", "no dpspec.algorithms.card.Card"),
    "the id of another": ("dp-gd", "", "dpspec has an algorithm of this id"),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_package_whose_algorithm_cannot_be_used_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    id, code, said = BROKEN[how]
    info = tmp_path / "broken_dp-3.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-dp\nVersion: 3.1\n")
    (info / "entry_points.txt").write_text(f"[dpspec.algorithms]\n{id} = broken_dp\n")
    (tmp_path / "broken_dp.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    forget()
    try:
        with pytest.raises(SpecError) as refused:
            registry.other_modules()
    finally:
        monkeypatch.undo()
        forget()
    (found,) = refused.value.diagnostics
    assert found.code == "DP421"
    assert said in found.message
    assert "broken-dp 3.1" in found.message


@pytest.mark.slow
def test_the_conformance_suite_holds_an_algorithm_of_another_package() -> None:
    """The whole suite picks it up where the package is installed; here with what is written there for packages."""
    env = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{SAMPLE}", "OMP_NUM_THREADS": "1"}
    words = ["-q", "-p", "no:cacheprovider", "-o", "addopts=", "-m", "", "-k", ID, "tests/conformance"]
    done = subprocess.run([sys.executable, "-m", "pytest", *words], capture_output=True, text=True, env=env, cwd=ROOT, timeout=900)
    assert done.returncode == 0, done.stdout[-3000:]
    passed = int(done.stdout.split(" passed")[0].split()[-1])
    assert passed >= 20, done.stdout[-500:]
