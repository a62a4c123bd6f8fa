"""Verdicts, named mistakes, loading and the shape of the output."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from dpspec.audit import audit, load
from dpspec.audit.deployment import load_deployment
from dpspec.audit.importers import kind_of
from dpspec.audit.verdict import AuditResult
from dpspec.spec.codes import CODES
from dpspec.spec.diagnostics import SpecError

GAUSS = {"type": "gaussian", "l2_sensitivity": 1.0, "sigma": 2.0}


def run(claim: dict[str, object], *events: dict[str, object], **rest: object) -> AuditResult:
    setting = {"unit": "record", "neighbouring": "add_remove", **rest.pop("setting", {})}  # type: ignore[dict-item]
    return audit({"audit": 1, "setting": setting, "claim": claim, "events": list(events), **rest})


def codes(result: AuditResult) -> set[str]:
    return {f.code for f in result.findings}


def exact_gaussian(mu: float, delta: float) -> float:
    from scipy.optimize import brentq
    from scipy.stats import norm

    return float(brentq(lambda e: norm.cdf(mu / 2 - e / mu) - math.exp(e) * norm.cdf(-mu / 2 - e / mu) - delta, 1e-9, 60))


# --------------------------------------------------------------------------------------------------------------- verdicts


@pytest.mark.parametrize("mu", [0.1, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-5])
def test_claim_around_the_exact_value(mu: float, delta: float) -> None:
    event = {"type": "gaussian", "l2_sensitivity": 1.0, "sigma": 1 / mu}
    true = exact_gaussian(mu, delta)
    assert run({"epsilon": true, "delta": delta}, event).verdict == "holds"
    assert run({"epsilon": true * 0.99, "delta": delta}, event).verdict == "violated"
    loose = run({"epsilon": true * 2.5, "delta": delta}, event)
    assert loose.verdict == "holds"
    assert loose.loose == pytest.approx(2.5, rel=1e-3)
    assert "DP607" in codes(loose)
    assert loose.exit_code == 0


def test_upper_bound_alone_never_violates() -> None:
    result = run({"epsilon": 1.0}, {"type": "pure", "epsilon": 0.6, "count": 2})
    assert result.verdict == "not-certified"
    assert result.static is not None
    assert result.static.epsilon == pytest.approx(1.2)


def test_delta_above_one_over_n_is_vacuous() -> None:
    claim = {"epsilon": 5, "delta": 1e-2}
    assert run(claim, GAUSS, setting={"n": 50}).verdict == "holds"
    result = run(claim, GAUSS, setting={"n": 1000})
    assert result.verdict == "vacuous"
    assert "DP604" in codes(result)
    assert result.exit_code == 1
    assert run({"epsilon": 0.1, "delta": 1e-2}, GAUSS, setting={"n": 1000}).verdict == "violated"  # false is worse than vacuous


def test_numbers_that_contradict_each_other() -> None:
    assert run({"rho": 0.0728, "mu": 0.376, "epsilon": 1.453, "delta": 1e-5}).verdict == "inconsistent"
    assert run({"epsilon": 1.0, "delta": 1e-7, "variant": "pure"}).verdict == "inconsistent"
    assert run({"mu": 1.0, "epsilon": 2.0, "delta": 1e-5}).verdict == "inconsistent"
    agreeing = run({"mu": 1.0, "rho": 0.5, "epsilon": 4.3773, "delta": 1e-5})
    assert agreeing.verdict == "holds-if"  # the conversion is right, the mechanism is not described


def test_contradiction_does_not_excuse_a_violation() -> None:
    result = run({"epsilon": 0.01, "delta": 1e-7, "variant": "pure"}, GAUSS)
    assert result.verdict == "violated"


def test_statement_from_rho_alone() -> None:
    generic = run({"rho": 2.56, "epsilon": 17.16, "delta": 1e-10})
    assert generic.verdict == "holds-if"
    assert "DP619" not in codes(generic)
    tight = run({"rho": 2.56, "epsilon": 17.14, "delta": 1e-10})
    assert tight.verdict == "holds-if"
    assert "DP619" in codes(tight)
    assert run({"rho": 2.56, "epsilon": 16.0, "delta": 1e-10}).verdict == "not-certified"
    known = run({"rho": 2.56, "epsilon": 17.14, "delta": 1e-10}, {"type": "discrete_gaussian", "rho": 2.56})
    assert known.verdict == "holds"
    assert "DP619" in codes(known)


def test_missing_description() -> None:
    nothing = run({"epsilon": 1.0})
    assert nothing.verdict == "cannot-verify"
    assert nothing.static is None
    assert "DP605" in codes(nothing)
    partly = run({"epsilon": 1.0}, {"type": "laplace", "scale": 1.0})
    assert partly.verdict == "cannot-verify"
    no_claim = run({}, {"type": "laplace", "l1_sensitivity": 1, "scale": 2.0})
    assert no_claim.verdict == "cannot-verify"
    assert no_claim.static is not None
    assert no_claim.static.epsilon == 0.5


def test_units() -> None:
    day = {"events_unit": "user-day", "unit": "user"}
    event = {"type": "pure", "epsilon": 4, "count": 2}
    unknown = run({"epsilon": 8}, event, setting=day)
    assert unknown.verdict == "not-certified"
    assert "DP630" in codes(unknown)
    assert unknown.static is not None
    assert ("a user meets 30 of them", 240.0) in unknown.static.alternatives
    assert run({"epsilon": 8}, event, setting={**day, "unit": "user-day"}).verdict == "holds"
    assert run({"epsilon": 56}, event, setting={**day, "repeats": 7}).verdict == "holds"
    assert "DP631" in codes(run({"epsilon": 8}, event, setting={"unit": ""}))


def test_conditions() -> None:
    inner = {"type": "laplace", "epsilon": 0.1}
    open_ended = run({"epsilon": 0.1}, {"type": "parallel", "event": inner})
    assert open_ended.verdict == "holds-if"
    assert open_ended.conditions
    assert open_ended.exit_code == 1
    assert run({"epsilon": 0.1}, {"type": "parallel", "parts_per_unit": 1, "event": inner}).verdict == "holds"
    assert run({"epsilon": 0.1}, {"type": "parallel", "parts_per_unit": 3, "event": inner}).verdict == "violated"
    declared = run({"epsilon": 0.1}, inner, facts={"bounds": "declared"})
    assert declared.verdict == "holds-if"


def test_epsilon_zero_can_be_right_and_negative_cannot() -> None:
    event = {"type": "poisson_sampled", "rate": 0.00105, "event": {"type": "gaussian", "l2_sensitivity": 1, "sigma": 1}}
    assert run({"epsilon": 0.0, "delta": 1e-3}, event).verdict == "holds"
    negative = run({"epsilon": -4.2, "delta": 1e-5}, {"type": "pure", "epsilon": 0.1, "count": 100})
    assert negative.verdict == "violated"
    assert "DP632" in codes(negative)


@pytest.mark.parametrize(
    ("facts", "code", "verdict"),
    [
        ({"seed": "fixed"}, "DP624", "violated"),
        ({"seed": "reused"}, "DP624", "not-certified"),
        ({"bounds": "from-data"}, "DP621", "not-certified"),
        ({"thresholds": "from-data"}, "DP621", "not-certified"),
        ({"normaliser": "private"}, "DP623", "not-certified"),
        ({"outputs_outside": ["training loss"]}, "DP641", "not-certified"),
        ({"key_set": "private"}, "DP644", "not-certified"),
        ({"arithmetic": "float64"}, "DP625", "violated"),
        ({"seed": "fresh", "bounds": "enforced", "arithmetic": "lattice"}, "", "holds"),
    ],
)
def test_facts(facts: dict[str, object], code: str, verdict: str) -> None:
    result = run({"epsilon": 1.0}, {"type": "laplace", "l1_sensitivity": 1.0, "scale": 1.0}, facts=facts)
    assert result.verdict == verdict
    assert not code or code in codes(result)


def test_discarded_runs_count() -> None:
    result = run({"epsilon": 5.0}, {"type": "pure", "epsilon": 5.0}, facts={"discarded_runs": [1, 10]})
    assert result.verdict == "not-certified"
    assert result.static is not None
    assert result.static.epsilon == 16.0


# ----------------------------------------------------------------------------------------------------------- named mistakes


def test_mistakes_are_named() -> None:
    d = 1e-5
    half = run(
        {"epsilon": exact_gaussian(0.25, d), "delta": d},
        {"type": "gaussian", "clip_norm": 1, "sigma": 4},
        setting={"neighbouring": "replace_one"},
    )
    assert half.verdict == "violated"
    assert "DP610" in codes(half)
    textbook = run({"epsilon": 10.0, "delta": d}, {**GAUSS, "sigma": math.sqrt(2 * math.log(1.25 / d)) / 10})
    assert textbook.verdict == "violated"
    assert "DP611" in codes(textbook)
    fine = run({"epsilon": 2.0, "delta": d}, {**GAUSS, "sigma": math.sqrt(2 * math.log(1.25 / d)) / 2})
    assert fine.verdict == "holds"
    assert "DP611" in codes(fine)
    assert fine.exit_code == 0
    pure = run({"epsilon": 1.0, "delta": 0}, GAUSS)
    assert pure.verdict == "violated"
    assert "DP612" in codes(pure)
    once = run({"epsilon": 1.0}, {"type": "laplace", "l1_sensitivity": 1, "scale": 1, "count": 2})
    assert once.verdict == "violated"
    assert "DP628" in codes(once)
    inverted = run({"epsilon": 10.0}, {"type": "laplace", "l1_sensitivity": 64, "scale": 10 / 64})
    assert inverted.verdict == "violated"
    assert "DP637" in codes(inverted)
    tensors = run({"epsilon": exact_gaussian(0.5, d), "delta": d}, {**GAUSS, "l2_sensitivity": math.sqrt(10), "sigma": 2})
    assert tensors.verdict == "violated"
    assert "DP622" in codes(tensors)


def test_sampling_mistakes_are_named() -> None:
    z, q, steps, d = 0.7, 0.01, 100, 1e-5
    clt = exact_gaussian(q * math.sqrt(steps * math.expm1(1 / z**2)), d)
    event = {"type": "poisson_sampled", "rate": q, "count": steps, "event": {"type": "gaussian", "clip_norm": 1, "noise_multiplier": z}}
    assert "DP618" in codes(run({"epsilon": clt, "delta": d}, event))
    group = {"type": "subset", "rate": 0.124, "events": [{"type": "pure", "epsilon": 6.8}]}
    result = run({"epsilon": 0.8432}, group)
    assert result.verdict == "not-certified"
    assert {"DP617", "DP643"} <= codes(result)
    assert result.static is not None
    assert result.static.epsilon == pytest.approx(6.8)
    assert result.static.alternatives[0][1] == pytest.approx(math.log(1 + 0.124 * (math.exp(6.8) - 1)))


def test_no_alarm_on_right_claims() -> None:
    for claim, event in (
        ({"epsilon": 1.0}, {"type": "laplace", "l1_sensitivity": 3, "scale": 3}),
        ({"epsilon": 1.0}, {"type": "exponential", "score_sensitivity": 2, "exponent": 0.25}),
        ({"epsilon": 1.0}, {"type": "noisy_max", "linf_sensitivity": 1, "scale": 2, "candidates": 50}),
        ({"epsilon": 1.0}, {"type": "svt", "sensitivity": 1, "threshold_scale": 2, "query_scale": 4, "cutoff": 1, "queries": 100}),
        ({"rho": 0.125}, {"type": "exponential", "epsilon": 1}),
        ({"epsilon": math.log(3)}, {"type": "randomized_response", "categories": 2, "keep": 0.75}),
        (
            {"epsilon": 0.66, "delta": 2.1e-29},
            {"type": "laplace_threshold", "l1_sensitivity": 1, "scale": 1 / 0.66, "threshold": 100},
        ),
    ):
        result = run(claim, event)
        assert result.verdict == "holds", (claim, event, result.text())
        assert not [f for f in result.findings if f.severity == "error"]


# ------------------------------------------------------------------------------------------------------------------- tools


def test_tools() -> None:
    tool = {"setting": {"model": "tool"}}
    fine = audit(
        {
            **tool,
            "claim": {"epsilon": 0.01, "delta": 1e-9},
            "tool": {"calibrate": {"type": "gaussian", "l2_sensitivity": 1, "count": 50}, "sigma": 3242.2},
        }
    )
    assert fine.verdict == "holds"
    assert not fine.tool_fault
    small = audit(
        {
            **tool,
            "claim": {"epsilon": 0.01, "delta": 1e-9},
            "tool": {"calibrate": {"type": "gaussian", "l2_sensitivity": 1, "count": 50}, "sigma": 3000},
        }
    )
    assert small.tool_fault
    ledger = {"charged": "before-draw", "concurrent": 2, "per_use": 1}
    assert not audit({**tool, "claim": {}, "tool": {"ledger": ledger}}).tool_fault
    late = audit({**tool, "claim": {}, "tool": {"ledger": {**ledger, "charged": "after-draw"}}})
    assert late.tool_fault
    assert late.recomputed["epsilon_spent"] == 2.0
    assert "DP638" in codes(late)
    spends = [{"event": {**GAUSS, "sigma": s}, "charged": c} for s, c in ((1, 5), (2, 3))]
    assert not audit({**tool, "claim": {}, "tool": {"spends": spends}}).tool_fault
    assert audit({**tool, "claim": {}, "tool": {"spends": [{**spends[0], "charged": 1}, spends[1]]}}).tool_fault


def test_composition_rule_is_recomputed() -> None:
    k, e, slack = 100, 0.1, 1e-5
    right = k * e * math.expm1(e) + e * math.sqrt(2 * k * math.log(1 / slack))
    event = {"type": "pure", "epsilon": e, "count": k}
    setting = {"model": "tool", "neighbouring": "add_remove", "unit": "-"}
    good = audit({"setting": setting, "claim": {"epsilon": right, "delta": slack, "rule": "advanced", "slack": slack}, "events": [event]})
    assert good.verdict == "holds"
    assert not good.tool_fault
    bad = audit(
        {"setting": setting, "claim": {"epsilon": right * 0.9, "delta": slack, "rule": "advanced", "slack": slack}, "events": [event]}
    )
    assert bad.tool_fault
    assert "DP639" in codes(bad)


# ----------------------------------------------------------------------------------------------------------- files, formats


GOOD = """\
audit: 1
subject: two counts
setting: {model: central, unit: person, neighbouring: add-remove}
claim: {epsilon: 2, delta: 0}
events:
- {type: laplace, what: sum, l1_sensitivity: 1, scale: 1}
- {type: laplace, what: count, l1_sensitivity: 1, scale: 1}
"""


def test_description_file(tmp_path: Path) -> None:
    file = tmp_path / "two.yaml"
    file.write_text(GOOD)
    result = audit(file)
    assert result.verdict == "holds"
    assert result.subject == "two counts"
    shape = json.loads(result.dumps())
    assert set(shape) >= {"subject", "stated", "findings", "static", "exact", "empirical", "verdict"}
    assert set(shape["static"]) >= {"epsilon", "delta", "neighbours", "how"}
    assert "holds" in result.text()
    assert "two counts" in result.text()


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        (GOOD.replace("neighbouring", "neighbuoring"), "DP671", 3),
        (GOOD.replace("add-remove", "add-remov"), "DP671", 3),
        (GOOD.replace("epsilon: 2", "epsilon: two"), "DP672", 4),
        (GOOD.replace("delta: 0", "delta: 2"), "DP672", 4),
        (GOOD.replace("type: laplace, what: sum", "type: laplas, what: sum"), "DP673", 6),
        (GOOD.replace("what: count, l1_sensitivity: 1, scale: 1", "what: count, l1_sensitivity: 1"), "DP674", 7),
        (GOOD.replace("what: count, l1_sensitivity: 1, scale: 1", "what: count, l1_sensitivity: 1, scale: -1"), "DP672", 7),
        (GOOD + "claim: {epsilon: 1}\n", "DP670", 8),
        (GOOD + "x: !!python/object:os.system {}\n", "DP670", 8),
        (GOOD + "events: [\n", "DP670", 9),
    ],
)
def test_bad_descriptions_point_at_the_place(tmp_path: Path, text: str, code: str, line: int) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    with pytest.raises(SpecError) as error:
        audit(file)
    found = [d for d in error.value.diagnostics if d.code == code]
    assert found
    assert found[0].span is not None
    assert found[0].span.line == line
    assert error.value.path == str(file)


def test_every_fault_of_a_file_is_reported_at_once() -> None:
    with pytest.raises(SpecError) as error:
        load_deployment("claim: {epsilon: one, dleta: 1}\nevents:\n- {type: gausian}\n")
    assert {d.code for d in error.value.diagnostics} == {"DP671", "DP672", "DP673"}


@pytest.mark.parametrize("text", ["", "[]", "42", "hello: world\n", "cases: []\n"])
def test_nothing_to_audit(tmp_path: Path, text: str) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(text)
    with pytest.raises(SpecError) as error:
        audit(file)
    assert error.value.diagnostics[0].code in ("DP675", "DP676", "DP677")


def test_missing_file_and_alias_bomb(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as error:
        load(tmp_path / "absent.yaml")
    assert error.value.diagnostics[0].code == "DP670"
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    bomb = tmp_path / "bomb.yaml"
    bomb.write_text("\n".join(lines))
    with pytest.raises(SpecError) as error:
        load(bomb)
    assert error.value.diagnostics[0].code == "DP670"


def test_opacus_parameters() -> None:
    base = {"noise_multiplier": 1.1, "max_grad_norm": 1.5, "batch_size": 256, "n": 60000, "epochs": 60, "delta": 1e-5}
    assert kind_of(base) == "opacus"
    result = audit({**base, "epsilon": 2.4, "poisson_sampling": True})
    assert result.verdict == "holds"
    assert result.static is not None
    from dp_accounting import dp_event, pld

    theirs = pld.PLDAccountant(value_discretization_interval=1e-4)
    theirs.compose(dp_event.PoissonSampledDpEvent(256 / 60000, dp_event.GaussianDpEvent(1.1)), math.ceil(60 * 60000 / 256))
    assert result.static.epsilon == pytest.approx(theirs.get_epsilon(1e-5), rel=5e-3)
    assert audit({**base, "epsilon": 2.33, "accountant": "gdp"}).verdict == "violated"


def test_tf_privacy_parameters() -> None:
    base = {"noise_multiplier": 0.8, "l2_norm_clip": 2.0, "batch_size": 60, "n": 60000, "epochs": 1, "delta": 1e-6, "epsilon": 0.47}
    assert kind_of(base) == "tensorflow-privacy"
    shuffled = audit(base)
    assert shuffled.verdict == "violated"
    assert "DP615" in codes(shuffled)
    assert audit({**base, "sampling": "poisson"}).verdict == "holds"
    micro = audit({**base, "sampling": "poisson", "num_microbatches": 30})
    assert micro.verdict == "violated"
    assert "DP622" in codes(micro)


def test_bad_parameters_are_refused() -> None:
    for data in (
        {"noise_multiplier": 1, "epochs": 1},
        {"noise_multiplier": -1, "sample_rate": 0.1, "steps": 1},
        {"noise_multiplier": 1, "sample_rate": 2, "steps": 1},
    ):
        with pytest.raises(SpecError):
            audit(data)


def test_registry_entries() -> None:
    def entry(variant: str, **parameters: object) -> AuditResult:
        return audit(
            {
                "name": "x",
                "dp_variant": variant,
                "deployment_model": "Central",
                "privacy_loss": {"privacy_unit": "user", "privacy_parameters": parameters},
            }
        )

    assert {"DP613"} <= codes(entry("Approximate DP", epsilon=2.0))
    pure = entry("Pure DP", epsilon=1.0, delta=1.5e-7)
    assert pure.verdict == "inconsistent"
    assert "DP614" in codes(pure)
    assert entry("zCDP", rho=0.07, epsilon=2.47, delta=1e-10).verdict == "holds-if"
    latex = entry("Approximate DP", epsilon=1.0, delta="$1/n^2$")
    assert "DP672" in codes(latex)
    assert entry("Pure DP").verdict == "cannot-verify"


def test_samples_refute_but_never_certify(tmp_path: Path) -> None:
    import numpy as np

    rng = np.random.default_rng(2)
    for name, shift in (("a", 0.0), ("b", 1.0)):
        np.savetxt(tmp_path / f"{name}.csv", rng.laplace(shift, 0.25, size=20_000))
    file = tmp_path / "d.yaml"
    body = "audit: 1\nsetting: {{unit: record, neighbouring: add_remove}}\nclaim: {{epsilon: {e}}}\nsamples: [a.csv, b.csv]\n"
    file.write_text(body.format(e=1))
    result = audit(file)
    assert result.verdict == "violated"
    assert result.empirical is not None
    assert result.empirical["epsilon_lower"] > 1
    file.write_text(body.format(e=6))
    assert audit(file).verdict == "cannot-verify"


def test_every_code_in_use_is_registered() -> None:
    import re

    import dpspec.audit.static as anchor

    used = set()
    for file in Path(anchor.__file__).parent.glob("*.py"):
        used |= set(re.findall(r"\bDP6\d\d\b", file.read_text()))
    assert used
    assert all(code in CODES for code in used)


def test_hopeless_noise_is_answered_not_crashed_on() -> None:
    for event in (
        {"type": "gaussian", "l2_sensitivity": 1.0, "sigma": 1e-12},
        {"type": "poisson_sampled", "rate": 0.004, "event": {"type": "gaussian", "l2_sensitivity": 2.5, "sigma": 0.24}},
        {"type": "poisson_sampled", "rate": 0.03, "event": {"type": "gaussian", "l2_sensitivity": 1.0, "sigma": 0.13, "count": 40}},
    ):
        result = run({"epsilon": 0.001, "delta": 1e-3}, event)
        assert result.verdict == "violated"
        json.loads(result.dumps())


def test_a_charge_is_compared_in_the_unit_that_it_names() -> None:
    """Laplace noise of epsilon 0.1 costs rho 0.005: a charge of 0.05 is too little in one unit and enough in the other."""

    def judged(**more: object) -> object:
        event = {"type": "laplace", "l1_sensitivity": 1, "scale": 10}
        spend = {"name": "a", "event": event, "charged": 0.05, **more}
        return audit({"audit": 1, "setting": {"model": "tool", "neighbouring": "add_remove"}, "claim": {}, "tool": {"spends": [spend]}})

    short, enough, open_unit = judged(charged_in="epsilon"), judged(charged_in="rho"), judged()
    assert (short.verdict, short.tool_fault) == ("not-certified", True)
    assert (enough.verdict, enough.tool_fault) == ("holds", False)
    assert (open_unit.verdict, open_unit.tool_fault) == ("cannot-verify", False)
    with pytest.raises(SpecError, match="charged_in"):
        judged(charged_in="bits")
