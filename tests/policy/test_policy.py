"""Each rule met, broken, waived and expired; words that nobody knows; places; and what commands do about it."""

from __future__ import annotations

import datetime
import json
import math
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from dpspec.lang.source import parse_file
from dpspec.policy.read import Policy, find, json_schema, read
from dpspec.policy.rules import Planned, expired, findings, totals
from dpspec.spec.diagnostics import SpecError
from tests.cli.call import call

TEAM = Path(__file__).parents[2] / "specs" / "team"
DAY = datetime.date(2026, 12, 1)


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("team") / "team"
    shutil.copytree(TEAM, folder)
    (folder / "visits.dps.breach").rename(folder / "visits.dps")
    return folder


@pytest.fixture(scope="module")
def plan(team: Path) -> Planned:
    """income.dps: Gaussian draws, epsilon 1, delta 1e-6, n 20,000, person, replace-one, central, dp-gd."""
    from dpspec.compiler.plan import make_plan

    made = make_plan(parse_file(team / "income.dps"), check=False)
    return Planned(team / "income.dps", made.to_json(), made.draft.parsed.spans)


def written(team: Path, text: str) -> Policy:
    file = team / "other.yaml"
    file.write_text("policy: 1\n" + text, encoding="utf-8")
    return read(file)


def mu_of(plan: Planned) -> float:
    return float(plan.body["guarantee"]["mu"])


MET_AND_BROKEN = [
    ("epsilon: 1", "epsilon: 0.99", "DP751"),
    ("{epsilon: 1, delta: 1e-6}", "{epsilon: 0.99, delta: 1e-6}", "DP751"),
    ("{epsilon: 0.99, delta: 1e-5}", "{epsilon: 1.05, delta: 1e-7}", "DP751"),  # another delta of the same Gaussian
    ("delta: 1e-6", "delta: 9e-7", "DP751"),
    ("relation: replace-one", "relation: add-remove", "DP752"),
    ("unit: person", "unit: household", "DP752"),
    ("unit: [household, person]", "unit: [household, firm]", "DP752"),
    ("least-n: 20000", "least-n: 20001", "DP753"),
    ("allow: [dp-gd, dp-sgd]", "allow: dp-sgd", "DP754"),
    ("forbid: dp-sgd", "forbid: [dp-sgd, dp-gd]", "DP754"),
    ("noise: [laplace, gaussian]", "noise: discrete-gaussian", "DP763"),
    ("delta-exponent: 1.3", "delta-exponent: 1.4", "DP756"),  # 20,000^-1.3 = 2.6e-6, 20,000^-1.4 = 9.5e-7
    ("require: []", "require: [owner, ticket]", "DP758"),
]


def rule(words: str) -> str:
    inner = words[1:-1] if words.startswith("{") else words
    return f"rules:\n  - {{name: r, {inner}}}\n"


@pytest.mark.parametrize(("met", "broken", "code"), MET_AND_BROKEN)
def test_a_rule_is_met_or_broken(team: Path, plan: Planned, met: str, broken: str, code: str) -> None:
    if met != "require: []":
        assert findings(written(team, rule(met)), plan, DAY) == []
    found = findings(written(team, rule(broken)), plan, DAY)
    assert code in [d.code for d in found]
    for d in found:
        assert d.severity == "error"
        assert d.help
        assert d.span is not None
        assert "other.yaml:3:" in d.message  # the place of the word in the policy


def test_rho_and_mu_are_measured(team: Path, plan: Planned) -> None:
    """mu is that of the plan, and of Gaussian draws rho = mu^2/2."""
    mu = mu_of(plan)
    for word, value in (("mu", mu), ("rho", mu**2 / 2)):
        assert findings(written(team, rule(f"{word}: {value * 1.001}")), plan, DAY) == []
        (d,) = findings(written(team, rule(f"{word}: {value * 0.999}")), plan, DAY)
        assert d.code == "DP751"


def test_no_pure_epsilon_of_gaussians(team: Path, plan: Planned) -> None:
    assert [d.code for d in findings(written(team, rule("epsilon: 100, delta: 0")), plan, DAY)] == ["DP751", "DP751"]


def test_declared(team: Path, plan: Planned) -> None:
    policy = written(team, rule("declared: forbid"))
    assert findings(policy, plan, DAY) == []
    release = plan.body["releases"][0]
    body: dict[str, Any] = {**plan.body, "releases": [{**release, "bounds": [{"holds_if": ["growth"]}]}]}
    (d,) = findings(policy, Planned(plan.path, body, plan.spans), DAY)
    assert d.code == "DP755"
    assert "growth" in d.message


def test_review(team: Path, plan: Planned) -> None:
    text = rule("require: review") + "specs:\n  income.dps: {review: 2026-12-01}\n"
    policy = written(team, text)
    assert findings(policy, plan, DAY) == []
    (d,) = findings(policy, plan, DAY + datetime.timedelta(1))
    assert d.code == "DP757"
    assert "other.yaml:5:" in d.message


def test_a_waiver_holds_until_its_day(team: Path, plan: Planned) -> None:
    waiver = "waivers:\n  - {spec: income.dps, rule: r.epsilon, reason: agreed, owner: A, expires: 2026-12-01}\n"
    policy = written(team, rule("epsilon: 0.5, least-n: 30000") + waiver)
    found = findings(policy, plan, DAY)
    assert [(d.code, d.severity) for d in found] == [("DP761", "info"), ("DP753", "error")]  # of one word, not of the rule
    assert "agreed" in found[0].message
    assert expired(policy, DAY) == []
    late = DAY + datetime.timedelta(1)
    assert [d.code for d in findings(policy, plan, late)] == ["DP751", "DP753"]
    (old,) = expired(policy, late)
    assert old.code == "DP760"
    assert old.severity == "error"
    assert old.span is not None
    assert old.span.line == 5


def test_where(team: Path, plan: Planned) -> None:
    def codes(where: str, entry: str = "") -> list[str]:
        return [d.code for d in findings(written(team, rule(f"least-n: 30000, where: {{{where}}}") + entry), plan, DAY)]

    entry = "specs:\n  income.dps: {data: survey, audience: public}\n"
    assert codes("model: central, unit: person, relation: replace-one, specs: 'inc*'") == ["DP753"]
    assert codes("model: sldp") == codes("unit: firm") == codes("relation: add-remove") == codes("specs: 'x*'") == []
    assert codes("data: survey, audience: [public, board]", entry) == ["DP753"]
    assert codes("data: visits", entry) == codes("audience: board", entry) == []
    assert codes("data: visits") == ["DP753"]  # what says nothing does not leave the rule
    assert codes("specs: '**/*.dps'") == codes("specs: '**/**/income.dps'") == ["DP753"]  # folders, and none
    assert codes("specs: 'sub/**/*.dps'") == []


def test_less_than_records_is_another_unit(team: Path, plan: Planned) -> None:
    """A plan that protects the labels of a person alone keeps no rule that asks for the person."""
    labels = Planned(plan.path, {**plan.body, "schedule": {**plan.body["schedule"], "protects": "labels"}}, plan.spans)
    assert [d.code for d in findings(written(team, rule("unit: person")), labels, DAY)] == ["DP752"]
    assert findings(written(team, rule("unit: [person, labels of person]")), labels, DAY) == []


def test_a_copy_of_a_spec_is_a_release_of_its_own(team: Path, plan: Planned) -> None:
    """Two files with one text are released twice; two surfaces of one name are one analysis."""
    policy = written(team, "totals:\n  - {name: t, epsilon: 1.01, delta: 1e-6}\n")
    twin = Planned(team / "income.dpspec.yaml", plan.body, plan.spans)
    assert totals(policy, [plan, twin]) == []
    for other in ("again.dps", "sub/income.dps"):
        ((found, paths),) = totals(policy, [plan, Planned(team / other, plan.body, plan.spans)])
        assert (found.code, len(paths)) == ("DP759", 2)


def test_totals_compose(team: Path, plan: Planned) -> None:
    """Two Gaussian plans of mu are one of mu*sqrt(2); equal plans are one release."""
    other = Planned(team / "visits.dps", {**plan.body, "sha256": "another"}, plan.spans)
    mu = mu_of(plan) * math.sqrt(2)
    for word, value in (("mu", mu), ("rho", mu**2 / 2)):
        for share, codes in ((1.001, []), (0.999, ["DP759"])):
            policy = written(team, f"totals:\n  - {{name: t, {word}: {value * share}}}\n")
            assert [d.code for d, _ in totals(policy, [plan, other])] == codes
    tight = written(team, "totals:\n  - {name: t, epsilon: 1.6, delta: 1e-6}\n")  # not the sum, 2
    assert totals(tight, [plan, other]) == []
    once = written(team, "totals:\n  - {name: t, epsilon: 1.01, delta: 1e-6}\n")
    assert totals(once, [plan, plan]) == []
    assert [d.code for d, _ in totals(once, [plan, other])] == ["DP759"]
    schedule = {**plan.body["schedule"], "relation": "add-remove"}
    unlike = Planned(team / "visits.dps", {**other.body, "schedule": schedule}, plan.spans)
    assert [d.code for d, _ in totals(tight, [plan, unlike])] == ["DP762"]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("rulse: []\n", 2, "'rules'"),
        (rule("epsilom: 1"), 3, "'epsilon'"),
        (rule("forbid: dp-sdg"), 3, "'dp-sgd'"),
        (rule("noise: gausian"), 3, "'gaussian'"),
        (rule("relation: replace-on"), 3, "'replace-one'"),
        (rule("epsilon: many"), 3, "number"),
        (rule("epsilon: .nan"), 3, "number"),
        (rule("epsilon: -1"), 3, "at least 0"),
        (rule("epsilon: true"), 3, "number"),
        (rule("delta: 1"), 3, "below 1"),
        (rule("least-n: 2.5"), 3, "whole"),
        (rule("declared: never"), 3, "forbid"),
        (rule("require: []"), 3, "list"),
        (rule("least-n: 5, where: {specs: incme.dps}"), 3, "incme.dps"),  # would never apply
        (rule("least-n: 5, where: {specs: ./income.dps}"), 3, "./income.dps"),
        (rule("least-n: 5, where: {specs: './*.dps'}"), 3, "./*.dps"),
        ("specs:\n  ./income.dps: {owner: A}\n", 3, "./income.dps"),
        (rule("least-n: 5, where: {modle: central}"), 3, "'model'"),
        (rule("least-n: 5, where: {model: centrl}"), 3, "'central'"),
        ("rules:\n  - {name: r}\n", 3, "nothing"),
        ("rules:\n  - {epsilon: 1}\n", 3, "name"),
        ("rules:\n  - {name: r, epsilon: 1}\n  - {name: r, epsilon: 2}\n", 4, "twice"),
        ("specs:\n  nowhere.dps: {owner: A}\n", 3, "nowhere.dps"),
        ("specs:\n  income.dps: {ownr: A}\n", 3, "'owner'"),
        ("specs:\n  income.dps: {review: soon}\n", 3, "date"),
        (rule("epsilon: 1") + "waivers:\n  - {spec: income.dps, rule: r.epsilon, owner: A, expires: 2099-01-01}\n", 5, "reason"),
        (
            rule("epsilon: 1") + "waivers:\n  - {spec: income.dps, rule: r.epsilo, reason: x, owner: A, expires: 2099-01-01}\n",
            5,
            "'r.epsilon'",
        ),
        ("policy: 1\n", 2, "twice"),
        ("rules: {name: r}\n", 2, "list"),
        ("totals:\n  - {name: t, delta: 1e-6}\n", 3, "without epsilon"),
    ],
)
def test_what_is_not_understood_is_refused(team: Path, text: str, line: int, words: str) -> None:
    with pytest.raises(SpecError) as error:
        written(team, text)
    assert {d.code for d in error.value.diagnostics} == {"DP750"}
    assert any(d.span is not None and d.span.line == line and words in d.message for d in error.value.diagnostics)


def test_the_schema_says_the_same() -> None:
    from dpspec.audit.yamlread import read_yaml

    body = read_yaml((TEAM / "policy.yaml").read_text(encoding="utf-8")).data
    jsonschema.validate(body, json_schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**body, "rulse": []}, json_schema())
    assert json.loads(call("schema", "--policy").stdout) == json_schema()


def test_found_upwards(team: Path) -> None:
    deep = team / "a" / "b"
    deep.mkdir(parents=True)
    assert find(deep / "x.dps") == (team / "policy.yaml").resolve()
    (deep / ".git").mkdir()
    assert find(deep / "x.dps") is None  # another repository's specs have their own rules


@pytest.mark.parametrize("form", ["text", "json", "sarif", "github", "junit"])
def test_every_form_of_check_has_the_findings(team: Path, form: str) -> None:
    done = call("check", str(team / "visits.dps"), "--format", form)
    assert done.code == 1
    assert "DP751" in done.stdout
    assert "DP759" in done.stdout
    assert "policy.yaml" in done.stdout


def test_a_run_is_refused_before_records(team: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import dpspec.executor.run as executor

    monkeypatch.setattr(executor, "run", lambda *a, **k: pytest.fail("the run began"))
    done = call("run", str(team / "visits.dps"), "--data", str(team / "not-there.csv"), "--format", "json")
    assert done.code == 1
    assert "DP751" in [d["code"] for d in json.loads(done.stdout)["diagnostics"]]


def test_a_policy_that_cannot_be_read_stops_everything(team: Path) -> None:
    file = team / "wrong.yaml"
    file.write_text("policy: 1\nlimit: 3\n", encoding="utf-8")
    for command in ("check", "plan", "run"):
        done = call(command, str(team / "income.dps"), "--policy", str(file))
        assert done.code == 2
        assert "DP750" in done.stderr
