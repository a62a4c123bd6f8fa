"""The plan: its guarantee by an independent route, what it rests on, its hash, its lock file."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from dpspec.compiler.diff import compare
from dpspec.compiler.passes import compile_draft
from dpspec.compiler.plan import make_plan, write
from dpspec.lang.source import parse_text
from dpspec.spec.diagnostics import SpecError
from tests.compiler.specs import CLASSIFY, LOCAL, TWO


def plan(text: str, **options):
    return make_plan(parse_text(text, path="test.dps", surface="dps"), **options)


def delta_of(epsilon: float, mu: float) -> float:
    """Balle and Wang (2018), Theorem 8, written with scipy alone."""
    return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


def epsilon_of(mu: float, delta: float) -> float:
    return brentq(lambda e: delta_of(e, mu) - delta, 0.0, 100.0, xtol=1e-13)


def test_guarantee_of_dp_gd_by_scipy_from_the_noise_alone() -> None:
    body = plan(CLASSIFY).to_json()
    (noise,) = body["releases"][0]["noise"]
    mu = math.sqrt(noise["count"]) * noise["sensitivity"] / noise["scale"]
    assert body["guarantee"]["epsilon"] == pytest.approx(epsilon_of(mu, body["guarantee"]["delta"]), rel=1e-6)
    assert body["guarantee"]["epsilon"] <= 1


def test_sensitivity_is_twice_the_lipschitz_constant_over_n() -> None:
    """|phi'| of the logistic loss on margins in [-1, 1] is at most e/(1+e); replace-one doubles it, n divides it. Never less; more by what
    the rounding of sums of n terms can add, 2 n^2 2^-53/factor, and under add-remove of up to 16 times as many."""
    (noise,) = plan(CLASSIFY).to_json()["releases"][0]["noise"]
    exact, sums = math.e / (1 + math.e) / 10_000, 1e8 * 2.0**-53
    assert 2 * exact <= noise["sensitivity"] <= 2 * exact * (1 + 1.01 * sums)
    (other,) = plan(CLASSIFY.replace("replace-one", "add-remove")).to_json()["releases"][0]["noise"]
    assert exact <= other["sensitivity"] <= exact * (1 + 2 * 16**2 * sums)


def test_releases_share_the_budget_by_weight_and_compose_to_it() -> None:
    body = plan(TWO).to_json()
    shares = []
    for release in body["releases"]:
        (noise,) = release["noise"]
        shares.append(noise["count"] * (noise["sensitivity"] / noise["scale"]) ** 2)
    assert epsilon_of(math.sqrt(sum(shares)), 1e-6) == pytest.approx(body["guarantee"]["epsilon"], rel=1e-6)
    assert shares[0] / shares[1] == pytest.approx(3, rel=1e-9)  # a share is of mu^2 over all steps of a release, not a step


def test_disjoint_parts_each_get_the_whole_budget() -> None:
    text = TWO.replace("share 3", "part 1/4").replace("share 1", "part 3/4")
    body = plan(text).to_json()
    for release, n in zip(body["releases"], (2500, 7500), strict=True):
        (noise,) = release["noise"]
        mu = math.sqrt(noise["count"]) * noise["sensitivity"] / noise["scale"]
        assert epsilon_of(mu, 1e-6) == pytest.approx(1, rel=1e-6)
        lipschitz = {"first": math.e / (1 + math.e), "second": math.exp(2) / (1 + math.exp(2))}[release["name"]]
        assert 2 * lipschitz / n <= noise["sensitivity"] <= 2 * lipschitz / n * (1 + 1.01 * n * (n + 32) * 2.0**-53)  # rounding of sums


def test_local_plan_composes_a_users_two_draws() -> None:
    body = plan(LOCAL).to_json()
    mu = math.sqrt(sum((n["sensitivity"] / n["scale"]) ** 2 for n in body["releases"][0]["noise"]))
    assert epsilon_of(mu, 1e-5) == pytest.approx(2, rel=1e-6)
    assert {n["per"] for n in body["releases"][0]["noise"]} == {"user"}


def test_published_calibrations_are_compared_honestly() -> None:
    """zCDP with the square restored: sigma = S sqrt(T/(2 rho)), rho = (sqrt(a + eps) - sqrt(a))^2, a = log(1/delta)."""
    body = plan(CLASSIFY).to_json()
    release = body["releases"][0]
    (noise,) = release["noise"]
    a = math.log(1e6)
    rho = (math.sqrt(a + 1) - math.sqrt(a)) ** 2
    by_source = {p["source"]: p for p in release["published"]["all"]}
    zcdp = next(p for s, p in by_source.items() if "2.1.8-2.1.10" in s)
    assert zcdp["scale"] == pytest.approx(noise["sensitivity"] * math.sqrt(50 / (2 * rho)), rel=1e-9)
    for p in by_source.values():
        mu = math.sqrt(50) * noise["sensitivity"] / p["scale"]
        assert p["epsilon_if_used"] == pytest.approx(epsilon_of(mu, 1e-6), rel=1e-6)
    assert zcdp["epsilon_if_used"] < 1
    assert any("2.1.3" in s for s in by_source), "the classical formula is among them"


def test_privacy_never_rests_on_a_declared_assumption() -> None:
    text = CLASSIFY.replace("  x in ball(l2, 1) by scale\n", "").replace(
        "release weights", "assume\n  sub-gaussian(1) of x\n\nrelease weights"
    )
    with pytest.raises(SpecError) as caught:
        plan(text)
    (refused,) = [d for d in caught.value.diagnostics if d.code == "DP210"]
    assert "x in ball(l2, 1) by scale" in refused.help
    for status in compile_draft(parse_text(CLASSIFY, surface="dps")).releases[0].assumptions:
        if status.role == "privacy":
            assert status.status in ("proved", "enforced")


def test_auto_asks_every_algorithm_and_says_why_not() -> None:
    body = plan(CLASSIFY.replace("by dp-gd with T = 50", "by auto")).to_json()
    candidates = body["releases"][0]["candidates"]
    assert len(candidates) >= 4
    for c in candidates:
        assert c["eligible"] == (not c["reasons"])
    assert body["releases"][0]["algorithm"] == next(c["id"] for c in candidates if c["eligible"])
    able = [math.inf if c["predicted_error"] is None else c["predicted_error"] for c in candidates if c["eligible"]]
    assert able == sorted(able)


def test_target_met_missed_and_least_n() -> None:
    target = "\n  expect excess-empirical-risk <= 0.05 with probability 0.9"
    text = CLASSIFY.replace("by dp-gd with T = 50", "by dp-gd with momentum = 0" + target)
    body = plan(text).to_json()["releases"][0]["target"]
    assert body["met"] is True
    least = body["least_n"]
    assert 1 < least < 10_000
    again = plan(text.replace("n = 10_000", f"n = {least}")).to_json()["releases"][0]["target"]
    assert again["met"] is True
    fewer = plan(text.replace("n = 10_000", f"n = {int(least * 0.99)}"))
    assert fewer.to_json()["releases"][0]["target"]["met"] is False
    assert [d.code for d in fewer.diagnostics if d.severity == "error"] == ["DP402"]
    at = plan(text.replace("epsilon = 1", f"epsilon = {body['least_epsilon']:.6f}")).to_json()["releases"][0]["target"]
    assert at["met"] is True


def test_hash_is_about_meaning() -> None:
    parsed = parse_text(CLASSIFY, path="a.dps", surface="dps")
    reference = make_plan(parsed, check=False)
    spaced = CLASSIFY.replace("epsilon = 1, delta = 1e-6", "epsilon   =  1.0 , delta = 0.000001   # a comment")
    moved = replace(parse_text(spaced, path="elsewhere/b.dps", surface="dps"))
    assert make_plan(moved, check=False).sha256 == reference.sha256
    for old, new in (
        ("epsilon = 1,", "epsilon = 1.01,"),
        ("T = 50", "T = 51"),
        ("unit person", "unit household"),
        ("n = 10_000", "n = 10_001"),
    ):
        assert old in CLASSIFY
        assert plan(CLASSIFY.replace(old, new), check=False).sha256 != reference.sha256, new
    body = reference.to_json()
    assert json.loads(json.dumps(body)) == body
    assert body["spec"]["path"] == "a.dps"


def test_hash_is_the_same_in_another_process() -> None:
    import subprocess
    import sys

    code = (
        "from dpspec.compiler.plan import make_plan; from dpspec.lang.source import parse_text; "
        "from tests.compiler.specs import CLASSIFY; print(make_plan(parse_text(CLASSIFY, surface='dps'), check=False).sha256)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == plan(CLASSIFY, check=False).sha256


def test_diff_names_what_became_weaker() -> None:
    old = plan(CLASSIFY, check=False).to_json()
    assert compare(old, old) == ()
    new = plan(CLASSIFY.replace("epsilon = 1,", "epsilon = 2,"), check=False).to_json()
    changes = {(c.area, c.direction) for c in compare(old, new)}
    assert ("privacy", "weaker") in changes
    assert ("accuracy", "stronger") in changes
    back = {(c.area, c.direction) for c in compare(new, old)}
    assert ("privacy", "stronger") in back
    assert ("privacy", "weaker") not in back
    relation = plan(CLASSIFY.replace("replace-one", "add-remove"), check=False).to_json()
    assert any(c.what == "neighbours" and c.direction == "incomparable" for c in compare(old, relation))


def test_lock_file_is_whole(tmp_path) -> None:
    made = plan(CLASSIFY, check=False)
    file = tmp_path / "plan.json"
    write(made, file)
    assert json.loads(file.read_text())["sha256"] == made.sha256
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    "task",
    [
        "minimise pairwise (<w, x1> - <w, x2> - y1 + y2)^2 over ball(l2, 1)",
        "estimate mean(x)",
        "estimate covariance(x)",
        "estimate precision(x)",
        "estimate subspace(x, 2)",
        "estimate theta in y ~ glm(logistic)",
        "regress y on kernel(rbf, 1)",
        "fit gmm(2)",
        "fit mixture-of-regressions(2)",
        "fit regression-with-missing(0.1)",
        "answer marginals(2)",
        "answer smooth-queries(3)",
        "infer truth from labels",
    ],
)
def test_every_task_form_is_planned_or_refused_with_every_algorithms_reason(task: str) -> None:
    from dpspec.algorithms.registry import all_modules

    text = CLASSIFY.replace("minimise logistic over ball(l2, 1)\n  by dp-gd with T = 50", f"{task}\n  by auto")
    draft = compile_draft(parse_text(text, surface="dps"))
    candidates = draft.releases[0].candidates
    if not candidates:  # what nobody could serve is refused by the question itself: labels that nothing lists, no noise level
        assert any(d.severity == "error" and d.message.startswith("release ") and d.help for d in draft.diagnostics)
        return
    assert {c.id for c in candidates} == {m.CARD.id for m in all_modules() if m.CARD.role == "algorithm"}
    if not any(c.eligible for c in candidates):
        assert any(d.code in ("DP401", "DP210") for d in draft.diagnostics)
        assert all(c.reasons for c in candidates)


def test_the_adult_plan_by_scipy_alone() -> None:
    """The gallery's income model: the guarantee from its count, sensitivity and scale, and the sensitivity from the loss."""
    from pathlib import Path

    from dpspec.lang.source import parse_file

    parsed = parse_file(Path(__file__).resolve().parents[2] / "specs" / "convex_erm" / "adult.dps")
    body = make_plan(parsed).to_json()
    (noise,) = body["releases"][0]["noise"]
    delta = 48_842**-1.1
    assert body["guarantee"]["delta"] == pytest.approx(delta, rel=1e-12)
    mu = math.sqrt(noise["count"]) * noise["sensitivity"] / noise["scale"]
    assert body["guarantee"]["epsilon"] == pytest.approx(epsilon_of(mu, delta), rel=1e-6)
    slope = math.exp(8) / (1 + math.exp(8))  # |phi'| of the logistic loss on margins in [-8, 8]
    exact = 2 * slope / 48_842
    assert exact <= noise["sensitivity"] <= exact * (1 + 1.01 * 48_842**2 * 2.0**-53)  # the rounding of sums of n terms
    spent = {p["source"]: p["epsilon_if_used"] for p in body["releases"][0]["published"]["all"]}
    assert len(spent) >= 3
    assert all(v is not None and v < 1 for v in spent.values())


def test_the_adult_data_fit_their_spec() -> None:
    from pathlib import Path

    from dpspec.data.sources import load
    from dpspec.lang.source import parse_file

    root = Path(__file__).resolve().parents[2]
    file = root.parent / "shared" / "data" / "adult.csv"
    if not file.exists():
        pytest.skip("the Adult data are not at hand")
    parsed = parse_file(root / "specs" / "convex_erm" / "adult.dps")
    raw = load(parsed.analysis.data, data_file=file)
    assert (raw.records.n, raw.records.d) == (48_842, 93)
