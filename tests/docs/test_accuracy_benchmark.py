"""The accuracy benchmark: its tables are what its result files give, and its reference peer adds the noise it claims."""

from __future__ import annotations

import importlib.util
import json
import math
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks import convex_data, convex_table
from dpspec.privacy.gaussian import delta_lower, delta_upper

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def peers() -> Any:
    spec = importlib.util.spec_from_file_location("peers_logistic", ROOT / "benchmarks" / "peers" / "logistic.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def cell(method: str, mean: float, sd: float = 0.1, runs: int = 4, eps: float = 1.0, data: str = "toy", **more: Any) -> dict[str, Any]:
    fixed = {"n": 1000, "d": 3, "seconds": 0.5, "versions": {"tool": "1.0"}, "date": "2000-01-02"}
    peer = {"side": "peer", "relation": "replace-one", "tuned": True, "clipping": False}
    key = {"data": data, "method": method, "eps": eps}
    return {
        **key,
        **fixed,
        "machine": {"cpu": "c", "cores": 1, "system": "s"},
        "runs": runs,
        "excess_mean": mean,
        "excess_sd": sd,
        **peer,
        **more,
    }


OURS = cell("dpspec, by auto", 2.0, 0.2, 4, side="dpspec", tuned=False, chosen="some-algorithm")
CELLS = [
    OURS,
    cell("weaker", 0.5, relation="add/remove"),
    cell("untuned", 1.0, tuned=False),
    cell("good", 4.0, 0.8, 16),
    cell("bad", 9.0),
    cell("clipped", 2.5, 0.0, clipping=True),
    cell("bad", 0.1, eps=2.0),
    cell("bad", 0.1, data="other"),
]


def write(folder: Path, cells: list[dict[str, Any]]) -> None:
    """The two sides in a file each, as the scripts leave them."""
    for side in ("dpspec", "peer"):
        (folder / f"{side}.jsonl").write_text("".join(json.dumps(c) + "\n" for c in cells if c["side"] == side), encoding="utf-8")


def test_the_best_peer_is_tuned_has_our_relation_and_the_least_mean(tmp_path: Path) -> None:
    write(tmp_path, CELLS)
    cells = convex_table.load(tmp_path)
    assert len(cells) == len(CELLS)
    best = convex_table.best_peer(cells, "toy", 1.0)
    unclipped = convex_table.best_peer(cells, "toy", 1.0, clipping=False)
    assert best is not None
    assert unclipped is not None
    assert (best["method"], unclipped["method"]) == ("clipped", "good")
    assert convex_table.best_peer(cells, "toy", 4.0) is None


def test_the_ratio_and_its_interval_by_hand() -> None:
    # relative standard errors 0.2/(2*2) and 0.8/(4*4), both 0.05: exp(1.96*0.05*sqrt(2)) = exp(0.138593) = 1.148656
    value, low, high = convex_table.ratio(OURS, CELLS[3])
    assert value == 0.5
    assert low == pytest.approx(0.5 / 1.148656, rel=1e-6)
    assert high == pytest.approx(0.5 * 1.148656, rel=1e-6)


def test_the_interval_covers_the_true_ratio() -> None:
    """20 runs a side, gamma errors with means 3 and 2 and relative spread 0.3; the normal interval may lose 2 % to the estimated spread."""
    rng = np.random.default_rng(5)
    trials, covered = 2000, 0
    ours, theirs = (rng.gamma(11.0, mean / 11.0, (trials, 20)) for mean in (3.0, 2.0))
    for a, b in zip(ours, theirs, strict=True):
        _, low, high = convex_table.ratio(*(cell("m", x.mean(), x.std(ddof=1), 20) for x in (a, b)))
        covered += low <= 1.5 <= high
    assert 0.92 < covered / trials < 0.965  # 0.93 to 0.95, and three standard errors of 0.005


def test_the_page_between_the_markers(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, CELLS)
    page = tmp_path / "page.md"
    page.write_text(f"before\n{convex_table.BEGIN}\nold\n{convex_table.END}\nafter\n", encoding="utf-8")

    def run(*more: str) -> int:
        monkeypatch.setattr(sys, "argv", ["convex_table", str(tmp_path), "--page", str(page), *more])
        return convex_table.main()

    assert run("--check") == 1
    assert run() == 0
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    rows = {line.split("|")[1].strip(): [w.strip() for w in line.split("|")[2:-1]] for line in text.splitlines() if line.startswith("| ")}
    assert rows["**dpspec, by auto**"] == ["2 *(4 runs)*", "-", "0.5"]
    assert rows["its choice"][0] == "some-algorithm"
    # the clipped peer has no spread: ours alone, exp(1.96*0.05) = 1.1030
    assert rows["over the best tuned peer"][:2] == ["0.80 [0.73, 0.88]", "-"]
    assert rows["over the best tuned peer that does not tune a clipping norm"][0] == "0.50 [0.44, 0.57]"
    assert rows["that peer"][:2] == ["clipped", "bad"]
    assert rows["good"] == ["4", "-", "0.5"]
    assert "no worse in 1 of 1 cells (better beyond the interval in 1, worse beyond it in 0; largest ratio 0.80)" in text
    assert run("--check") == 0
    write(tmp_path, [*CELLS, cell("better", 1.0)])
    assert run("--check") == 1
    page.write_text("no markers\n", encoding="utf-8")
    assert run() == 2
    assert "the page needs the two lines" in capsys.readouterr().err
    assert page.read_text(encoding="utf-8") == "no markers\n"


def test_the_committed_page_is_what_the_committed_results_give() -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert convex_table.replaced(page, convex_table.tables(convex_table.load(ROOT / "benchmarks" / "results"))) == page


def test_cells_are_kept_and_skipped_and_half_a_line_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "new" / "results.jsonl"
    results = convex_data.Results(path)
    results.add(cell("m", 1.0))
    again = convex_data.Results(path)
    assert again.has("toy", "m", 1)
    assert not again.has("toy", "m", 2.0)
    with path.open("a", encoding="utf-8") as file:
        file.write('{"data": "to')
    with pytest.raises(ValueError, match="line 2: not a JSON object"):
        convex_data.Results(path)


@pytest.mark.parametrize("command", ["-m benchmarks.convex_accuracy", "-m benchmarks.convex_table", "benchmarks/peers/logistic.py"])
def test_the_documented_commands_explain_themselves(command: str) -> None:
    done = subprocess.run([sys.executable, *command.split(), "--help"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "usage:" in done.stdout


@pytest.mark.parametrize("script", ["setup.sh", "run.sh"])
def test_the_shell_scripts_parse_and_say_what_they_want(script: str) -> None:
    path = ROOT / "benchmarks" / "peers" / script
    assert subprocess.run(["bash", "-n", str(path)], check=False).returncode == 0
    done = subprocess.run(["bash", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "usage" in done.stderr


# ------------------------------------------------------------------------------------------- the reference peer is honest


@pytest.mark.parametrize("epsilon", convex_data.EPSILONS)
def test_the_peers_budget_is_spent_exactly(peers: Any, epsilon: float) -> None:
    """The root finder's tolerance is 2e-12 in mu: the enclosure of delta by interval arithmetic meets 1e-6 to 1e-6 of it."""
    mu = peers.gaussian_mu(epsilon)
    assert delta_lower(epsilon, mu) == pytest.approx(1e-6, rel=1e-6)
    assert delta_upper(epsilon, mu) == pytest.approx(1e-6, rel=1e-6)


@pytest.mark.parametrize("clip", [1.0, 0.5])
def test_the_peers_noise_is_that_of_the_sensitivity(peers: Any, clip: float) -> None:
    """Records of zeros have no gradient: T steps of length 1 are the noise, of variance T s^2 with s = 2 clip sqrt(T)/(n mu)."""
    n, d, steps = 50, 4000, 3
    p = SimpleNamespace(x=np.zeros((n, d)), y=np.ones(n), n=n, d=d)
    setting = peers.Descent(steps=steps, rate=1.0, momentum=0.0, clip=clip, tail=0.0)
    w = peers.descend(p, [setting], 1.0, [0, 1, 2])[setting]
    scale = 2 * clip * math.sqrt(steps) / (n * peers.gaussian_mu(1.0))
    # (1 - LAM)^k shrinks by under 0.2 %; 12,000 normals give their spread to 0.65 % (one standard error)
    assert w.std() == pytest.approx(scale * math.sqrt(steps), rel=0.03)


def test_the_clipped_gradient_is_bounded_and_exact_below_the_bound(peers: Any) -> None:
    """One step from w = 0, where every residual is 1/2: clip 1/2 changes nothing, 1/4 halves the move."""
    x = np.eye(3)
    p = SimpleNamespace(x=x, y=np.array([1.0, -1.0, 1.0]), n=3, d=3)
    settings = [peers.Descent(1, 1.0, 0.0, c, 0.0) for c in (1.0, 0.5, 0.25)]
    moved = peers.descend(p, settings, 700.0, [0])  # next to no noise
    exact = np.array([1.0, -1.0, 1.0]) / 6
    for setting, share in zip(settings, (1.0, 1.0, 0.5), strict=True):
        noise = 2 * setting.clip / (3 * peers.gaussian_mu(700.0)) * np.random.default_rng(0).standard_normal(3)
        assert moved[setting][0] == pytest.approx(share * exact - noise, abs=1e-12)


def test_the_replace_one_noise_of_the_sampled_peer_at_rate_one(peers: Any) -> None:
    """With every record in every batch it is the closed form 2 sqrt(T)/mu: twice that of add/remove. Losses are gridded at 1e-4."""
    assert peers.replace_one_noise(1, 16, 1.0) == pytest.approx(8 / peers.gaussian_mu(1.0), rel=2e-3)


def test_tuning_takes_the_least_mean_error_of_fresh_seeds_and_no_measured_one(peers: Any) -> None:
    """Setting 3 is best on the first seeds and bad on the later ones, 7 diverges, 5 is best in truth."""
    seen: set[int] = set()

    def score(settings: list[int], seeds: range) -> Any:
        seen.update(seeds)
        lucky = min(seeds) == convex_data.TUNING_SEEDS
        error = {3: 0.0 if lucky else 9.0, 5: 1.0, 7: math.nan}
        return np.array([[error.get(s, 5.0)] * len(seeds) for s in settings])

    assert peers.tune(list(range(10)), score, 2, 3, 4) == 5
    assert min(seen) >= 1000
    assert len(seen) == 6
