"""``dpspec diff REV:PATH``, the budget as it was written, and epsilon at a delta."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from scipy.stats import norm

from tests.cli.call import call

ROOT = Path(__file__).parents[2]
SPEC = (ROOT / "specs/convex_erm/output-perturbation.dps").read_text(encoding="utf-8")
ZCDP = SPEC[: SPEC.index("privacy")] + "privacy central\n  rho = 0.1\n\n" + SPEC[SPEC.index("release") :]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    monkeypatch.chdir(tmp_path)
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/a.dps").write_text(SPEC, encoding="utf-8")
    call("plan", "sub/a.dps", "--out", "sub/a.plan.json", "-q")
    author = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run(["git", *words], check=True, env={**os.environ, **author})
    (tmp_path / "sub/a.dps").write_text(SPEC.replace("epsilon = 1", "epsilon = 2"), encoding="utf-8")
    return tmp_path


def test_a_revision_is_read_from_any_folder(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert call("diff", "HEAD:sub/a.dps", "HEAD:sub/a.dps").stdout == "the same plan\n"
    done = call("diff", "HEAD:sub/a.dps", "sub/a.dps", "--format", "json")
    assert (done.code, json.loads(done.stdout)["privacy"]) == (1, "weaker")
    monkeypatch.chdir(repository / "sub")
    assert json.loads(call("diff", "HEAD:a.plan.json", "a.dps", "--format", "json").stdout)["privacy"] == "weaker"
    assert json.loads(call("diff", "a.dps", "HEAD:a.dps", "--format", "json").stdout)["privacy"] == "stronger"


@pytest.mark.parametrize("named", ["HEAD:none.dps", "nope:sub/a.dps", "--upload-pack=x:a.dps", ":a.dps", "HEAD:"])
def test_what_git_does_not_know_is_unusable_input(repository: Path, named: str) -> None:
    done = call("diff", "--", named, "sub/a.dps")
    assert (done.code, done.stdout) == (2, "")
    assert "DP416" in done.stderr


def test_the_budget_as_it_was_written(tmp_path: Path) -> None:
    spec = tmp_path / "a.dps"
    text = SPEC[: SPEC.index("privacy")] + "privacy central\n  epsilon = 0.3, delta = 1e-6\n\n" + SPEC[SPEC.index("release") :]
    spec.write_text(text, encoding="utf-8")
    body = json.loads(call("plan", str(spec), "--format", "json").stdout)
    assert body["budget"] == {"epsilon": {"number": 0.3, "exact": "3/10"}, "delta": {"number": 1e-06, "exact": "1/1000000"}}
    assert '"number": 1e-06,' in call("plan", str(spec), "--format", "json").stdout


def test_epsilon_at_a_delta_of_a_plan_in_rho(tmp_path: Path) -> None:
    """One Gaussian draw of rho = 0.1 is Gaussian DP with mu = sqrt(0.2); its epsilon at delta solves the dual of Dong, Roth and Su (2019),
    Corollary 2.13."""
    spec = tmp_path / "a.dps"
    spec.write_text(ZCDP, encoding="utf-8")
    at = json.loads(call("plan", str(spec), "--format", "json", "--delta", "1e-6").stdout)["at"]
    mu, e = 0.2**0.5, at["epsilon"]
    delta = norm.cdf(-e / mu + mu / 2) - 2.718281828459045**e * norm.cdf(-e / mu - mu / 2)
    assert at["delta"] == 1e-6
    assert delta == pytest.approx(1e-6, rel=1e-4)
    assert delta <= 1e-6 * (1 + 1e-9)  # the formula's own cancellation
    assert f"at delta 1e-06: epsilon {e:.6g}" in call("plan", str(spec), "--delta", "1e-6").stdout


@pytest.mark.parametrize("delta", ["0", "1", "-1e-6", "x", "1/0"])
def test_a_delta_that_is_none_is_refused(tmp_path: Path, delta: str) -> None:
    spec = tmp_path / "a.dps"
    spec.write_text(ZCDP, encoding="utf-8")
    done = call("plan", str(spec), f"--delta={delta}")
    assert (done.code, done.stdout) == (2, "")
    assert "DP416" in done.stderr
