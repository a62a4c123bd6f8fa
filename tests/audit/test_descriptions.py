"""Every event and channel type and every field of it: refused out of range, used, or missing and then no certificate."""

from __future__ import annotations

import copy
import importlib
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from dpspec.audit import audit
from dpspec.audit.kinds import COMMON, INFORMATION, SORTS
from dpspec.audit.verdict import AuditResult
from dpspec.audit.vocabulary import CHANNELS, EVENTS, FIELD_ALIASES, sort_of
from dpspec.spec.diagnostics import SpecError
from tests.audit.events import GAUSS, LAPLACE

#: One description of every event type that is complete, and its relation; for each field what is changed first, and then a weaker value.
EXAMPLES: dict[str, tuple[dict[str, Any], str]] = {
    kind: (module.EXAMPLE, module.RELATION) for kind, module in ((k, importlib.import_module(f"dpspec.audit.events.{k}")) for k in EVENTS)
}
WEAKER: dict[str, dict[str, tuple[dict[str, Any], Any]]] = {
    kind: importlib.import_module(f"tests.audit.events.{kind}").WEAKER for kind in EVENTS
}
COMMON_WEAKER: dict[str, tuple[dict[str, Any], Any]] = {
    "count": ({}, 7),
    "draws": ({"count": 4, "draws": 4}, 1),
    "contributions": ({"contributions": 1}, 3),
    "scale_from": ({"scale_from": "public"}, "data"),
    "clip": ({"clip": "record"}, "none"),
}
DELTA = 1e-5


def described(
    event: Mapping[str, Any], neighbouring: str, epsilon: float = 1e9, delta: float | None = DELTA, **setting: Any
) -> dict[str, Any]:
    event = dict(event)
    relation = event.pop("neighbouring", neighbouring)
    claim = {"epsilon": epsilon} if delta is None else {"epsilon": epsilon, "delta": delta}
    return {"audit": 1, "setting": {"unit": "record", "neighbouring": relation, **setting}, "claim": claim, "events": [event]}


def with_fields(event: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    found = copy.deepcopy({**event, **change})
    return {k: v for k, v in found.items() if v is not None}


def bounds(result: AuditResult) -> tuple[float, float]:
    return (result.static.epsilon_lower, result.static.epsilon) if result.static else (0.0, math.inf)


def fields_of_events() -> Iterator[tuple[str, str]]:
    for kind, table in EVENTS.items():
        for field in (*COMMON, *table.fields):
            yield kind, field


def test_every_type_has_an_example_and_every_field_a_sort() -> None:
    assert set(EXAMPLES) == set(EVENTS) == set(WEAKER)
    for kind, field in fields_of_events():
        assert sort_of(kind, field)
        if field not in (*COMMON, *INFORMATION):
            assert field in WEAKER[kind], f"{kind}.{field} has no weaker value here"
    for kind, table in CHANNELS.items():
        assert all(sort_of(kind, field) for field in table.fields)


@pytest.mark.parametrize("kind", sorted(EVENTS))
def test_examples_are_accepted(kind: str) -> None:
    event, relation = EXAMPLES[kind]
    audit(described(event, relation))


def wrong_values(kind: str, field: str) -> list[Any]:
    sort = sort_of(kind, field)
    if sort.form == "text":
        return [[1], {"a": 1}]
    if sort.form == "flag":
        return [1, 0, "yes", "true", 0.5, [True]]
    if sort.form == "word":
        return [w for w in ("", "no such word", 1, True, ["none"]) if w not in sort.words]
    if sort.form == "channels":
        return ["unary", 3, [3], [], [{"type": "no such"}], [{"type": "unary"}]]
    if sort.form == "events":
        return ["gaussian", 3, [3], [[GAUSS]]]
    if sort.form in ("numbers", "matrix"):
        return ["high", 3, True, [], ["x"], [math.nan], [math.inf], [True], [[1], [1, 2]], [[]], {"a": 1}, 1e400]
    if sort.form == "votes":
        return ["yes", 3, {"low": 0}, {"low": 0, "high": 1}, {"low": 1, "high": 0, "threshold": 0}, {"low": 0, "high": 1, "threshold": "x"}]
    found: list[Any] = [math.nan, math.inf, -math.inf, float("1e400"), 10**400, "1e400", "high", "", True, False, [1], {"a": 1}]
    if sort.low > -math.inf:
        found += [-1, -0.5, -1e-300, "-1/3"]
    if sort.whole:
        found += [1.5, 0.5, "1/3", 1e300]
        found += [0] if sort.low >= 1 else []
    if sort.high == 1:
        found += [1.0000001, 2]
    if sort.above:
        found.append(0)
    return found


@pytest.mark.parametrize(("kind", "field"), list(fields_of_events()))
def test_a_value_out_of_range_is_refused_by_name(kind: str, field: str) -> None:
    event, relation = EXAMPLES[kind]
    if field == "type":
        return
    for value in wrong_values(kind, field):
        base = {k: v for k, v in event.items() if not (field in ("event", "events") and k in ("event", "events"))}
        with pytest.raises(SpecError) as error:
            audit(described({**base, field: value}, relation))
        named = {"event": ("event",), "events": ("event",), "vote": ("vote", "threshold")}.get(field, (field,))
        assert any(word in d.message for d in error.value.diagnostics for word in named), (value, error.value.diagnostics)


@pytest.mark.parametrize(("kind", "field"), [(k, f) for k, table in WEAKER.items() for f in table])
def test_every_field_is_used(kind: str, field: str) -> None:
    event, relation = EXAMPLES[kind]
    change, weaker = WEAKER[kind][field]
    before = audit(described(with_fields(event, change), relation))
    after = audit(described(with_fields(event, {**change, field: weaker}), relation))
    (low, high), (low_after, high_after) = bounds(before), bounds(after)
    assert high_after >= high * (1 - 1e-9)
    assert high_after >= low_after * (1 - 1e-6)
    if (kind, field) == ("subset", "rate"):
        assert before.static.alternatives != after.static.alternatives  # type: ignore[union-attr]
        return
    # the number moves, or the chance of what is impossible under a neighbour does
    moved = (low, high) != (low_after, high_after)
    parts = [f.message for f in before.findings] != [f.message for f in after.findings]
    assert moved or (math.isinf(low_after) and parts), f"{kind}.{field} is not used: {before.text()}\n{after.text()}"


@pytest.mark.parametrize("kind", sorted(set(EVENTS) - {"exact", "wishart", "uniform"}))
def test_common_fields_are_used(kind: str) -> None:
    event, relation = EXAMPLES[kind]
    for field, (change, weaker) in COMMON_WEAKER.items():
        before = audit(described(with_fields(event, change), relation))
        after = audit(described(with_fields(event, {**change, field: weaker}), relation))
        assert bounds(after)[1] >= bounds(before)[1] * (1 - 1e-9), field
        assert bounds(after) != bounds(before), f"{kind}.{field} is not used"
    plain, floats = (audit(described({**event, **more}, relation)) for more in ({}, {"arithmetic": "float32"}))
    assert [f.code for f in plain.findings] != [f.code for f in floats.findings]
    for word in ("unknown", "unbounded"):
        assert audit(described({**event, "contributions": word}, relation)).verdict != "holds"


@pytest.mark.parametrize("kind", sorted(EVENTS))
def test_a_kind_says_which_neighbours_attain_its_lower_bound(kind: str) -> None:
    """A type without such neighbours refutes nothing, and ``attained: false`` takes them away from one that has them."""
    event, relation = EXAMPLES[kind]
    found = {d: bounds(audit(described(event, relation, delta=d)))[0] for d in (None, 1e-9, DELTA)}
    assert bool(EVENTS[kind].attained) == any(low > 0 for low in found.values()), found
    for delta in found:
        low, _ = bounds(audit(described({**event, "attained": False}, relation, delta=delta)))
        assert low == 0 or (kind == "exact" and math.isinf(low))


@pytest.mark.parametrize("kind", sorted(EVENTS))
def test_unknown_keys_are_refused_by_name(kind: str) -> None:
    event, relation = EXAMPLES[kind]
    known = {*COMMON, *EVENTS[kind].fields}
    others = sorted(key for key in set(SORTS) - known if FIELD_ALIASES.get(key) not in known)
    for key in ("zzz", *others):
        with pytest.raises(SpecError) as error:
            audit(described({**event, key: 1}, relation))
        assert any(key in d.message for d in error.value.diagnostics)


@pytest.mark.parametrize("kind", sorted(EVENTS))
def test_nothing_is_certified_without_a_needed_field(kind: str) -> None:
    event, relation = EXAMPLES[kind]
    told = importlib.import_module(f"tests.audit.events.{kind}")
    for field, verdict in getattr(told, "OPTIONAL", {}).items():  # what it means when it is left out stands beside the type
        assert audit(described({k: v for k, v in event.items() if k != field}, relation)).verdict == verdict, field
    optional = {
        *getattr(told, "OPTIONAL", ()),
        "count",
        "parts",
        "cutoff",
        "queries",
        "epochs",
        "parts_per_unit",
        "rate" if kind == "subset" else "",
        "type",
    }
    for field in event:
        if field in optional:
            continue
        try:
            verdict = audit(described({k: v for k, v in event.items() if k != field}, relation)).verdict
        except SpecError:
            continue
        assert verdict in ("cannot-verify", "not-certified", "violated"), field
    for field in event:
        with pytest.raises(SpecError):
            audit(described({**event, field: None}, relation))
    # without both ways to bound a sparse vector nothing bounds it; without a word on parts the answer is conditional
    if kind == "svt":
        bare = {k: v for k, v in event.items() if k not in ("cutoff", "queries")}
        assert audit(described(bare, relation)).verdict == "not-certified"
    if kind == "parallel":
        bare = {k: v for k, v in event.items() if k != "parts_per_unit"}
        assert audit(described(bare, relation)).verdict == "holds-if"


# ------------------------------------------------------------------------------------------------------- the rest of a description


@pytest.mark.parametrize(
    ("place", "key", "values"),
    [
        ("setting", "n", [0, -1, 0.5, 1.5, math.inf, math.nan, True, "many", 10**400]),
        ("setting", "repeats", [0, -1, 0.5, 1.5, math.inf, math.nan, True, "often", 10**400]),
        ("claim", "epsilon", [math.inf, math.nan, True, "one", 10**400, [1]]),
        ("claim", "delta", [-1e-9, 1.1, math.inf, math.nan, True, "small"]),
        ("claim", "rho", [-1, math.inf, math.nan, True, "x"]),
        ("claim", "mu", [-1, math.inf, math.nan, True, "x"]),
        ("claim", "slack", [-1, 2, math.nan, True]),
        ("claim", "variant", ["renyi", "quite private"]),
        ("setting", "model", ["nearby"]),
        ("setting", "neighbouring", ["adjacent", "foo bar"]),
        ("facts", "seed", ["lucky", 3, True]),
        ("facts", "discarded_runs", [3, "two", [-1], [math.inf], ["x"], [True]]),
        ("facts", "outputs_outside", [3, {"a": 1}]),
        ("facts", "summation", [3, {"dtype": "float32", "bound": -1}, {"dtype": "float31"}, {"dtype": "float32", "size": 3}, {"bound": 1}]),
        ("", "audit", [2, 0, "one", True]),
        ("", "samples", ["a.csv", ["a.csv"], 3]),
    ],
)
def test_values_out_of_range_elsewhere(place: str, key: str, values: list[Any]) -> None:
    for value in values:
        data = described(LAPLACE, "add_remove")
        (data.setdefault(place, {}) if place else data)[key] = value
        with pytest.raises(SpecError) as error:
            audit(data)
        named = ("bound", "dtype", "size", "summation") if key == "summation" else (key.split("_")[0], str(value))
        assert any(word in d.message for d in error.value.diagnostics for word in named), error.value.diagnostics


@pytest.mark.parametrize("place", ["setting", "claim", "facts", "tool", ""])
def test_unknown_words_elsewhere(place: str) -> None:
    data = described(LAPLACE, "add_remove")
    (data.setdefault(place, {}) if place else data)["zzz"] = 1
    with pytest.raises(SpecError) as error:
        audit(data)
    assert "zzz" in error.value.diagnostics[0].message


@pytest.mark.parametrize(
    ("one", "other"), [("sigma", "std"), ("count", "steps"), ("count", "repetitions"), ("clip_norm", "l2_norm_clip"), ("sigma", "stddev")]
)
def test_two_spellings_of_a_field_are_refused(one: str, other: str) -> None:
    event = {"type": "gaussian", "clip_norm": 1, "sigma": 2, "count": 3}
    for order in ((one, other), (other, one)):
        doubled = {k: v for k, v in event.items() if k != one} | dict.fromkeys(order, event[one])
        with pytest.raises(SpecError):
            audit(described(doubled, "add_remove"))
    renamed = {other if k == one else k: v for k, v in event.items()}
    assert bounds(audit(described(renamed, "add_remove"))) == bounds(audit(described(event, "add_remove")))


CONTRADICTIONS: list[tuple[dict[str, Any], str]] = [
    ({"type": "fixed_sampled", "rate": 1e-6, "size": 100, "n": 100, "event": GAUSS}, "replace_one"),
    ({"type": "fixed_sampled", "rate": 0.5, "size": 10, "n": 1000, "event": GAUSS}, "zero_out"),
    ({"type": "gaussian", "l2_sensitivity": 1, "sigma": 2, "variance": 2}, "add_remove"),
    ({"type": "gaussian", "l2_sensitivity": 1, "sigma": 1, "rho": 0.01}, "add_remove"),
    ({"type": "gaussian", "l2_sensitivity": 1, "rho": 0.5, "mu": 0.1}, "add_remove"),
    ({"type": "gaussian", "clip_norm": 2, "sigma": 1, "noise_multiplier": 9}, "add_remove"),
    ({"type": "gaussian", "clip_norm": 1, "l2_sensitivity": 0.01, "sigma": 1}, "add_remove"),
    ({"type": "gaussian", "clip_norm": 1, "l2_sensitivity": 1, "sigma": 1}, "replace_one"),
    ({"type": "gaussian", "l2_sensitivity": 1, "sensitivity": 0.1, "sigma": 1}, "add_remove"),
    ({"type": "gaussian", "clip_norm": 1, "norm_bound": 0.1, "sigma": 1}, "add_remove"),
    ({"type": "discrete_gaussian", "l2_sensitivity": 1, "sigma": 1, "mu": 0.1}, "add_remove"),
    ({"type": "laplace", "l1_sensitivity": 1, "scale": 1, "epsilon": 0.1}, "add_remove"),
    ({"type": "laplace", "clip_norm": 1, "scale": 1, "noise_multiplier": 5}, "add_remove"),
    ({"type": "discrete_laplace", "l1_sensitivity": 1, "scale": 1, "epsilon": 0.1}, "add_remove"),
    ({"type": "laplace_threshold", "l1_sensitivity": 1, "scale": 1, "epsilon": 0.1, "threshold": 20}, "add_remove"),
    ({"type": "laplace_threshold", "l1_sensitivity": 1, "scale": 1, "keys": 5, "first_count": 2, "threshold": 20}, "add_remove"),
    ({"type": "truncated_laplace", "l1_sensitivity": 1, "scale": 1, "epsilon": 0.1, "bound": 40}, "add_remove"),
    ({"type": "laplace_mean", "range": 1, "n": 10, "scale": 0.1, "epsilon": 0.1}, "replace_one"),
    ({"type": "exponential", "score_sensitivity": 1, "exponent": 1, "epsilon": 0.1}, "add_remove"),
    ({"type": "permute_and_flip", "linf_sensitivity": 1, "scale": 1, "epsilon": 0.1}, "add_remove"),
    ({"type": "noisy_max", "linf_sensitivity": 0.1, "score_sensitivity": 1, "scale": 1}, "add_remove"),
    ({"type": "randomized_response", "keep": 0.75, "epsilon": 0.1}, "local_replace"),
    ({"type": "parallel", "parts": 2, "parts_per_unit": 5, "event": LAPLACE}, "add_remove"),
]


@pytest.mark.parametrize(("event", "relation"), CONTRADICTIONS)
def test_what_is_said_twice_must_agree(event: dict[str, Any], relation: str) -> None:
    for wrapped in (event, {"type": "sequence", "events": [LAPLACE, event]}):
        for claimed in (1e-3, 1e6) if wrapped is event else (1e6,):
            result = audit(described(wrapped, relation, claimed, 1e-4))
            assert result.verdict == "inconsistent", result.text()
            assert result.exit_code == 1
            assert any(f.code == "DP603" for f in result.findings)


def test_statements_that_agree_are_no_contradiction() -> None:
    for event, relation in (
        ({"type": "fixed_sampled", "rate": 0.00427, "size": 256, "n": 60000, "event": GAUSS}, "replace_one"),  # rounded
        ({"type": "gaussian", "l2_sensitivity": 1, "sigma": 2, "variance": 4, "rho": 0.125, "mu": 0.5}, "add_remove"),
        ({"type": "gaussian", "clip_norm": 1, "l2_sensitivity": 2, "sigma": 2}, "add_remove"),  # groups of records under one clip
        ({"type": "laplace", "l1_sensitivity": 3, "scale": 6, "epsilon": 0.5}, "add_remove"),
        ({"type": "randomized_response", "categories": 3, "keep": 0.5, "epsilon": math.log(2)}, "local_replace"),
    ):
        assert audit(described(event, relation)).verdict == "holds"


def test_n_of_an_event_and_n_of_the_setting() -> None:
    event = {"type": "fixed_sampled", "size": 10, "n": 10**9, "event": GAUSS}
    assert audit(described(event, "replace_one", 1e3, n=100)).verdict == "inconsistent"
    assert audit(described({**event, "n": 100}, "replace_one", 1e3, n=100)).verdict == "holds"
    assert audit(described({**event, "n": 100}, "replace_one", 1e3, 0.02)).verdict == "vacuous"  # n is read where it stands


def test_the_unit_of_the_claim_and_of_the_setting() -> None:
    data = described(LAPLACE, "add_remove", 1)
    data["claim"]["unit"] = "user"
    assert audit(data).verdict == "inconsistent"
    data["setting"]["unit"] = "user"
    assert audit(data).verdict == "holds"


@pytest.mark.parametrize("events_unit", [None, "record", "record-day"])
def test_repeats_always_count(events_unit: str | None) -> None:
    more = {} if events_unit is None else {"events_unit": events_unit}
    for event, one, repeats in ((LAPLACE, 0.5, 3), ({"type": "randomized_response", "epsilon": 1}, 1.0, 30)):
        result = audit(described(event, "add_remove", one * repeats * 0.99, None, repeats=repeats, **more))
        assert result.verdict == "violated"
        assert bounds(result)[1] == pytest.approx(one * repeats)
        assert audit(described(event, "add_remove", one * repeats, None, repeats=repeats, **more)).verdict == "holds"
        for word in ("unbounded", "unknown"):
            assert audit(described(event, "add_remove", 1e6, None, repeats=word, **more)).verdict == "not-certified"
    gauss = audit(described(GAUSS, "add_remove", 1, DELTA, repeats=9))
    assert bounds(gauss)[1] == pytest.approx(profile_epsilon(1.5, DELTA), rel=1e-9)  # mu 1/2, nine times


def profile_epsilon(mu: float, delta: float) -> float:
    from scipy.optimize import brentq
    from scipy.stats import norm

    return float(brentq(lambda e: norm.cdf(mu / 2 - e / mu) - math.exp(e) * norm.cdf(-mu / 2 - e / mu) - delta, 1e-9, 200, xtol=1e-13))


# --------------------------------------------------------------------------------------------------------------------------- delta


def test_a_claim_that_leaves_delta_open() -> None:
    data = described({"type": "gaussian", "l2_sensitivity": 1, "noise_multiplier": 1.2}, "add_remove", 4, None, n=10**8)
    data["claim"]["delta"] = None
    result = audit(data)
    assert result.verdict == "cannot-verify"
    (told,) = [f for f in result.findings if f.code == "DP613"]
    assert "8.707e-07" in told.help  # the profile at mu 1/1.2 and epsilon 4
    assert "1/n is 1e-08" in told.help
    pure = described(LAPLACE, "add_remove", 1, None)
    pure["claim"]["delta"] = None
    assert audit(pure).verdict == "holds"  # at delta 0, hence at every delta


@pytest.mark.parametrize(
    "event", [GAUSS, {"type": "poisson_sampled", "rate": 0.01, "event": GAUSS}, {"type": "sequence", "events": [LAPLACE, GAUSS]}]
)
def test_gaussian_noise_stated_without_a_delta(event: dict[str, Any]) -> None:
    result = audit(described(event, "add_remove", 4, None))
    assert result.verdict == "inconsistent"
    assert any("at 1e-06" in f.help for f in result.findings if f.code == "DP613")
    if event is GAUSS:
        assert f"{profile_epsilon(0.5, 1e-6):.5g} at 1e-06" in result.text()
    strict = described(event, "add_remove", 4, None)
    strict["claim"]["variant"] = "pure"
    assert audit(strict).verdict == "violated"
    assert audit(described(event, "add_remove", 4, 0.0)).verdict == "violated"


def test_no_usual_delta_saves_a_false_epsilon() -> None:
    assert audit(described({**GAUSS, "sigma": 0.1}, "add_remove", 1, None)).verdict == "violated"


@pytest.mark.parametrize("delta", [0.5, 0.9, 1.0])
def test_a_large_delta_is_vacuous_for_any_n(delta: float) -> None:
    assert audit(described(GAUSS, "add_remove", 9, delta)).verdict == "vacuous"
    result = audit(described(GAUSS, "add_remove", 9, delta, n=200))
    assert result.verdict == "vacuous"
    assert result.exit_code == 1


def test_a_delta_that_only_tiny_data_sets_allow_is_remarked_on() -> None:
    result = audit(described(GAUSS, "add_remove", 9, 0.01))
    assert result.verdict == "holds"
    assert any(f.code == "DP604" for f in result.findings)


def test_a_rule_and_its_slack_stand_together() -> None:
    for more in ({"rule": "advanced"}, {"rule": "kov"}, {"slack": 1e-6}, {"rule": "sum", "slack": 1e-6}):
        data = described({"type": "pure", "epsilon": 0.1, "count": 100}, "add_remove", 10)
        data["claim"].update(more)
        with pytest.raises(SpecError, match="slack"):
            audit(data)


# ------------------------------------------------------------------------------------------------------------------------ channels


def channel(fields: dict[str, Any], epsilon: float = 1e9, **rest: Any) -> dict[str, Any]:
    setting = {"model": "local", "unit": "bit", **rest.pop("setting", {})}
    return {"audit": 1, "setting": setting, "claim": {"epsilon": epsilon, **rest.pop("claim", {})}, "channel": fields, **rest}


CHANNEL_EXAMPLES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "matrix": ({"rows": [[0.6, 0.4], [0.4, 0.6]]}, {"rows": [[0.9, 0.1], [0.1, 0.9]], "neighbours": [[0, 1]]}),
    "unary": ({"p_true_bit": 0.6, "q_other_bit": 0.4}, {"p_true_bit": 0.8, "q_other_bit": 0.2, "hot_bits": 2}),
    "unary_subset": (
        {"p_true_bit": 0.6, "q_other_bit": 0.4, "sampled_bits": 1},
        {"sampled_bits": 2, "p_true_bit": 0.7, "q_other_bit": 0.3},
    ),
    "randomized_response": ({"categories": 4, "keep": 0.5}, {"categories": 9, "keep": 0.8}),
    "local_hashing": ({"buckets": 4, "keep": 0.5}, {"buckets": 9, "keep": 0.8}),
    "subset_selection": ({"categories": 6, "size": 2, "include": 0.5}, {"include": 0.8, "categories": 9, "size": 1}),
    "hadamard": ({"keep": 0.6}, {"keep": 0.9}),
    "rappor": ({"hashes": 2, "f": 0.5, "p": 0.5, "q": 0.75}, {"hashes": 3, "f": 0.25}),
    "half_cube": ({"dimension": 5, "epsilon": 1}, {"epsilon": 2, "dimension": 6}),
    "laplace": ({"range": 1, "scale": 1}, {"range": 2, "scale": 0.5}),
    "gaussian": ({"range": 1, "sigma": 1}, {}),
    "vote": ({"low": 0, "high": 10, "sensitivity": 1, "scale": 2, "threshold": 50}, {"scale": 1, "threshold": 5, "sensitivity": 2}),
    "piecewise": ({"epsilon": 1}, {"epsilon": 2}),
    "square_wave": ({"epsilon": 1}, {"epsilon": 2}),
    "count_mean_sketch": ({"keep": 0.6}, {"keep": 0.8}),
    "priv_unit": ({"keep": 0.7, "gamma": 0.1, "dimension": 10}, {"keep": 0.9, "gamma": 0.3, "dimension": 30}),
    "sampled_attribute": (
        {"attributes": 3, "categories": 4, "keep": 0.5, "fakes": True, "differs": "attribute"},
        {"attributes": 2, "categories": 9, "keep": 0.8, "fakes": False, "differs": "record"},
    ),
    "cosine": ({"epsilon": 1}, {"epsilon": 2}),
    "chain": (
        {"channels": [{"type": "unary", "p_true_bit": 0.75, "q_other_bit": 0.25}] * 2},
        {"reports": 3, "channels": [{"type": "unary", "p_true_bit": 0.9, "q_other_bit": 0.1}] * 2},
    ),
    "positions": (
        {"channels": [{"type": "hadamard", "keep": 0.6}, {"type": "hadamard", "keep": 0.7}], "differs": "attribute"},
        {"channels": [{"type": "hadamard", "keep": 0.6}, {"type": "hadamard", "keep": 0.8}], "differs": "record"},
    ),
}


@pytest.mark.parametrize("kind", sorted(CHANNELS))
def test_channels_field_by_field(kind: str) -> None:
    base, weaker = CHANNEL_EXAMPLES[kind]
    base = {"type": kind, **base}
    before = audit(channel(base))
    assert before.exact is not None
    for field, value in weaker.items():
        after = audit(channel({**base, field: value}))
        assert after.exact is not None
        assert after.exact.epsilon >= before.exact.epsilon * (1 - 1e-9), field
        named = field in ("neighbours", "threshold") or (kind, field) == ("half_cube", "dimension")
        assert named or after.exact.epsilon > before.exact.epsilon, field
    for field in CHANNELS[kind].fields:
        for value in wrong_values(kind, field):
            if sort_of(kind, field).form in ("list", "pairs"):
                value = 3
            with pytest.raises(SpecError):
                audit(channel({**base, field: value}))
    with pytest.raises(SpecError):
        audit(channel({**base, "zzz": 1}))
    for field in [f for f in base if f not in ("type", "sensitivity")]:
        with pytest.raises(SpecError):
            audit(channel({k: v for k, v in base.items() if k != field}))


IDENTITY = {"type": "matrix", "rows": [[1, 0], [0, 1]]}


@pytest.mark.parametrize(
    "pairs", [[], [[0, 0]], [[1, 1], [0, 0]], [[0, 2]], [[0]], [[0.5, 1]], [["0", "1"]], [[True, False]], "01", [[0, 1, 1]]]
)
def test_neighbours_that_compare_nothing_are_refused(pairs: Any) -> None:
    with pytest.raises(SpecError):
        audit(channel({**IDENTITY, "neighbours": pairs}, 0.1))


def test_an_input_that_is_compared_with_none_is_refused() -> None:
    rows = [[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 1]]
    with pytest.raises(SpecError, match="row 2"):
        audit(channel({"type": "matrix", "rows": rows, "neighbours": [[0, 1]]}, 0.1))
    assert audit(channel({"type": "matrix", "rows": rows}, 0.1)).verdict == "violated"
    assert audit(channel(IDENTITY, 0.1)).verdict == "violated"


CONSTANT = {"type": "matrix", "rows": [[0.5, 0.5], [0.5, 0.5]]}


def test_nothing_stands_beside_a_channel_unread() -> None:
    for more in ({"events": [{"type": "exact"}]}, {"events": [LAPLACE]}, {"tool": {"ledger": {"charged": "before-draw"}}}):
        with pytest.raises(SpecError):
            audit({**channel(CONSTANT, 1), **more})
    for facts, verdict in (
        ({"seed": "fixed"}, "violated"),
        ({"seed": "reused"}, "not-certified"),
        ({"outputs_outside": ["the record"]}, "not-certified"),
        ({"discarded_runs": [3]}, "not-certified"),
        ({"bounds": "declared"}, "holds-if"),
        ({"bounds": "from-data"}, "not-certified"),
        ({"seed": "fresh"}, "holds"),
    ):
        assert audit({**channel(CONSTANT, 1), "facts": facts}).verdict == verdict, facts
    assert audit(channel(CONSTANT, 1, setting={"neighbouring": "add_remove"})).verdict == "holds-if"


def test_reports_of_a_channel_compose() -> None:
    keep, times = 0.6, 5
    response = {"type": "randomized_response", "categories": 2, "keep": keep}
    one = math.log(keep / (1 - keep))
    assert audit(channel(response, one * times, setting={"repeats": times})).verdict == "holds"
    assert audit(channel(response, one * times * 0.99, setting={"repeats": times})).verdict == "violated"
    # at a delta: the binomial, by enumeration, and not the number of reports times the epsilon of one at that delta

    def needed(delta: float) -> float:
        from scipy.optimize import brentq

        def excess(e: float) -> float:
            weights = [
                (math.comb(times, k), keep**k * (1 - keep) ** (times - k), keep ** (times - k) * (1 - keep) ** k) for k in range(times + 1)
            ]
            return sum(c * max(p - math.exp(e) * q, 0.0) for c, p, q in weights) - delta

        return float(brentq(excess, 0.0, one * times))

    found = audit(channel(response, 1, setting={"repeats": times}, claim={"delta": 0.01}))
    assert found.profile is not None
    truth = needed(0.01)
    assert found.profile(0.01).low <= truth <= found.profile(0.01).high * (1 + 1e-6)
    assert found.profile(0.01).high == pytest.approx(truth, rel=0.01)
    assert audit(channel(response, 9, setting={"repeats": "unbounded"})).verdict == "not-certified"


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "randomized_response", "categories": 2, "keep": 0.9, "epsilon": 0.1},
        {"type": "hadamard", "keep": 0.9, "epsilon": 0.1},
        {"type": "half_cube", "dimension": 3, "keep": 0.9, "epsilon": 0.1},
        {"type": "subset_selection", "categories": 5, "size": 2, "include": 0.9, "epsilon": 0.1},
        {"type": "laplace", "range": 1, "scale": 1, "epsilon": 0.1},
    ],
)
def test_a_channel_that_says_two_things(fields: dict[str, Any]) -> None:
    assert audit(channel(fields, 9)).verdict == "inconsistent"
    with pytest.raises(SpecError):
        audit(channel({"type": "unary", "p_true_bit": 0.5, "p": 0.6, "q_other_bit": 0.3}))


def test_no_profile_means_no_gain_from_a_delta() -> None:
    """A missing profile once read as delta 0 at every epsilon, so that any positive delta gave epsilon 0."""
    for fields in (
        {"type": "rappor", "hashes": 2, "f": 0.5, "p": 0.5, "q": 0.75},
        {"type": "half_cube", "dimension": 4, "epsilon": 1, "ties": "both"},
        {"type": "half_cube", "dimension": 5, "epsilon": 1},
        {"type": "half_cube", "dimension": 4, "epsilon": 1, "ties": "none"},
    ):
        pure = audit(channel(fields, 1e-3))
        assert pure.exact is not None
        result = audit(channel(fields, 1e-3, claim={"delta": 1e-6}))
        assert result.verdict in ("violated", "not-certified"), fields
        assert result.profile is not None
        assert result.profile(1e-9).high == pytest.approx(pure.exact.epsilon, rel=1e-3)
    # RAPPOR's permanent bits: 2h answers of randomized response
    f, h, delta = 0.5, 2, 0.05
    found = audit(channel({"type": "rappor", "hashes": h, "f": f, "p": 0.5, "q": 0.75}, 9, claim={"delta": delta}))
    assert found.profile is not None
    e = found.profile(delta).high
    weights = [
        (math.comb(2 * h, k), (1 - f / 2) ** k * (f / 2) ** (2 * h - k), (f / 2) ** k * (1 - f / 2) ** (2 * h - k))
        for k in range(2 * h + 1)
    ]
    assert sum(c * max(p - math.exp(e) * q, 0.0) for c, p, q in weights) == pytest.approx(delta, rel=1e-6)


def test_other_notions_about_a_channel_are_judged() -> None:
    response = {"type": "randomized_response", "categories": 2, "epsilon": 1}
    assert audit(channel(response, 1, claim={"rho": 1e-9})).verdict != "holds"
    assert audit(channel(response, 1, claim={"rho": 0.5})).verdict == "holds"
    assert audit(channel(response, 1, claim={"mu": 0.1})).verdict != "holds"
    assert audit(channel(response, 1, claim={"epsilon_one_report": 0.1})).verdict == "violated"
    gauss = {"type": "gaussian", "range": 1, "sigma": 2}
    assert audit({**channel(gauss), "claim": {"rho": 0.125, "mu": 0.5}}).verdict == "holds"
    assert audit({**channel(gauss), "claim": {"rho": 0.12}}).verdict == "violated"


# ----------------------------------------------------------------------------------------------------------------- the relation


@pytest.mark.parametrize("word", ["change-one", "hamming", "swap", "Substitute", "replace one", "bounded", "change one distance"])
def test_words_for_replacing(word: str) -> None:
    event = {"type": "gaussian", "clip_norm": 1, "sigma": 2}
    assert bounds(audit(described(event, word)))[1] == pytest.approx(profile_epsilon(1.0, DELTA))


def test_without_a_relation_each_is_answered() -> None:
    event = {"type": "gaussian", "clip_norm": 1, "sigma": 2}
    smaller, larger = profile_epsilon(0.5, DELTA), profile_epsilon(1.0, DELTA)
    for relation in ("", "two people of one household differ"):
        assert audit(described(event, relation, larger * 1.01)).verdict == "holds"
        between = audit(described(event, relation, smaller * 1.01))
        assert between.verdict == "holds-if"
        assert between.conditions == ("neighbours are add_remove or zero_out",)
        assert audit(described(event, relation, smaller * 0.9)).verdict == "violated"
        # what does not depend on it needs none
        assert audit(described(GAUSS, relation, smaller * 1.01)).verdict == "holds"


# ------------------------------------------------------------------------------------------------------------------ single kinds


def test_a_replaced_record_changes_two_parts() -> None:
    event = {"type": "parallel", "parts": 2, "parts_per_unit": 1, "event": {**LAPLACE, "scale": 1}}
    assert bounds(audit(described(event, "add_remove", delta=None))) == (1, 1)
    assert bounds(audit(described(event, "replace_one", delta=None))) == (2, 2)
    assert bounds(audit(described({**event, "parts_per_unit": 2}, "replace_one", delta=None))) == (2, 2)  # there are no more than two
    assert bounds(audit(described({**event, "parts_by": "position"}, "replace_one", delta=None))) == (1, 1)
    # vectors of norm 1 in two parts: one removed from a part and one added to another is less than one turned round in its part
    clipped = {"type": "parallel", "parts_per_unit": 1, "event": {"type": "gaussian", "clip_norm": 1, "sigma": 4}}
    assert bounds(audit(described(clipped, "replace_one")))[1] == pytest.approx(profile_epsilon(0.5, DELTA))


def test_one_draw_of_a_subset_for_all_uses() -> None:
    event = {"type": "poisson_sampled", "rate": 0.01, "count": 100, "event": {"type": "gaussian", "clip_norm": 1, "noise_multiplier": 2}}
    once = audit(described({**event, "once": True}, "add_remove"))
    # 100 uses of one subset: mu = sqrt(100)/2 in it, sampled once; quadrature
    from scipy.stats import norm

    low, high = bounds(once)
    assert low <= high < profile_epsilon(5.0, DELTA)

    def excess(e: float) -> float:
        # (1-q) N(0) + q N(5) against N(0): above x with 0.99 + 0.01 exp(5x - 12.5) = exp(e)
        x = (math.log((math.exp(e) - 0.99) / 0.01) + 12.5) / 5
        return 0.99 * norm.sf(x) + 0.01 * norm.sf(x - 5) - math.exp(e) * norm.sf(x)

    assert excess(high) <= DELTA * (1 + 1e-3)
    assert excess(low * 0.999) >= DELTA * (1 - 1e-2)
    assert bounds(audit(described(event, "add_remove")))[1] < high / 10


def test_a_failure_inside_of_a_sampler_is_as_rare_as_the_record() -> None:
    exact = {"type": "poisson_sampled", "rate": 1e-4, "event": {"type": "exact"}}
    assert audit(described(exact, "add_remove", 1, 1e-5)).verdict == "violated"
    assert audit(described(exact, "add_remove", 1, 1e-3)).verdict == "not-certified"  # no model from above, and no counterexample
    tail = math.exp(-19) / 2
    inner = {"type": "laplace_threshold", "l1_sensitivity": 1, "scale": 1, "threshold": 20}
    amplified = math.log(1 + 0.1 * (math.e - 1))
    result = audit(described({"type": "poisson_sampled", "rate": 0.1, "event": inner}, "add_remove", amplified, 0.11 * tail))
    assert result.verdict == "holds"
    epochs = {"type": "shuffled", "batches": 10, "epochs": 5, "event": inner}
    assert bounds(audit(described(epochs, "zero_out", delta=5.01 * tail)))[1] == pytest.approx(5.0)
    assert audit(described(epochs, "zero_out", 5, 0.5 * tail)).verdict == "violated"


def test_shuffled_batches_without_a_record_are_not_certified() -> None:
    event = {"type": "shuffled", "batches": 100, "event": {"type": "gaussian", "clip_norm": 1, "noise_multiplier": 1}}
    result = audit(described(event, "add_remove", 4.4))
    assert result.verdict in ("not-certified", "violated")
    assert bounds(result)[1] == math.inf
    single = audit(described({**event, "batches": 1}, "add_remove", profile_epsilon(1.0, DELTA) * 0.9))
    assert single.verdict == "violated"


def test_records_of_one_unit_are_sampled_one_by_one() -> None:
    inner = {"type": "gaussian", "clip_norm": 1, "sigma": 2, "contributions": 3}
    fixed = audit(described({"type": "fixed_sampled", "rate": 0.01, "event": inner}, "replace_one", 1e6))
    assert fixed.verdict == "not-certified"
    single = {k: v for k, v in inner.items() if k != "contributions"}
    for relation in ("replace_one", "add_remove"):
        one = audit(described({"type": "poisson_sampled", "rate": 0.01, "event": single}, relation, 1e6))
        three = audit(described({"type": "poisson_sampled", "rate": 0.01, "event": inner}, relation, 1e6))
        assert three.verdict == "holds"
        assert bounds(three)[0] > bounds(one)[1]  # what a record shows, three show more
    unknown = {"type": "poisson_sampled", "rate": 0.01, "event": {**inner, "contributions": "unknown"}}
    assert audit(described(unknown, "add_remove", 1e3)).verdict == "holds-if"


def test_thresholds_on_integers_include_the_tie() -> None:
    """P(1 + noise >= 5) = r^4/(1 + r) for two-sided geometric noise, r = exp(-1): by summing its mass function."""
    r = math.exp(-1)
    tail = sum((1 - r) / (1 + r) * r ** abs(x) for x in range(4, 400))
    event = {"type": "discrete_laplace_threshold", "l1_sensitivity": 1, "scale": 1, "threshold": 5}
    assert audit(described(event, "add_remove", 1, tail * 0.999)).verdict == "violated"
    assert audit(described(event, "add_remove", 1, tail * 1.001)).verdict == "holds"
    sigma, weights = 1.5, [math.exp(-(x * x) / 4.5) for x in range(-60, 61)]
    gauss_tail = sum(w for x, w in zip(range(-60, 61), weights, strict=True) if x >= 4) / sum(weights)
    gauss = {"type": "discrete_gaussian_threshold", "l2_sensitivity": 1, "sigma": sigma, "threshold": 4.2}
    assert audit(described(gauss, "add_remove", 50, gauss_tail * 0.999)).verdict == "violated"
    assert audit(described(gauss, "add_remove", 50, gauss_tail + 1e-6)).verdict == "holds"


def test_keys_of_a_unit_with_several_contributions() -> None:
    tail = math.exp(-(13.2113 - 1) / 1.06066) / 2
    both = 1 - (1 - tail) ** 2
    event = {"type": "laplace_threshold", "l1_sensitivity": 1, "scale": 1.06066, "threshold": 13.2113, "contributions": 2}
    assert audit(described(event, "add_remove", 1.8857, None)).verdict == "violated"
    assert audit(described(event, "add_remove", 1.8857, both * 0.999)).verdict == "violated"
    assert audit(described({**event, "first_count": 1}, "add_remove", 1.8857, both * 1.001)).verdict == "holds"
    assert audit(described(event, "add_remove", 1.8857, both * 1.001)).verdict == "holds-if"  # both on one key?


def test_svt_that_releases_the_compared_answers() -> None:
    event = {"type": "svt", "sensitivity": 1, "threshold_scale": 4, "query_scale": 4, "queries": 49, "cutoff": 1, "releases": "value"}
    # the value v far below: then T lies lower still, and all 49 answers moved by 1 show (densities by hand)
    log_ratio = 0.0
    for _ in range(48):
        log_ratio += 1 / 4  # P(answer < T) ~ exp(T/4) for T far below, moved by 1
    log_ratio += 1 / 4  # the density of the value itself
    assert bounds(audit(described(event, "add_remove", delta=None))) == pytest.approx((log_ratio, log_ratio))


def test_float_noise_inside_of_other_events() -> None:
    for word in ("float64", "float32"):
        inside = {"type": "sequence", "events": [LAPLACE]}
        for data in (
            described({"type": "sequence", "events": [{**LAPLACE, "arithmetic": word}]}, "add_remove"),
            described(inside, "add_remove"),
        ):
            if "arithmetic" not in str(data):
                data["facts"] = {"arithmetic": word}
            assert audit(data).verdict == "violated"
        sampled = described({"type": "poisson_sampled", "rate": 0.1, "event": LAPLACE}, "add_remove")
        sampled["facts"] = {"arithmetic": word}
        result = audit(sampled)
        assert result.verdict == "holds-if"
        assert any(f.code == "DP646" for f in result.findings)


def test_charges_of_nothing_are_a_fault() -> None:
    spends = [{"event": GAUSS, "charged": charge} for charge in (0, 5e-324)]
    for spend in spends:
        assert audit({"setting": {"model": "tool"}, "claim": {}, "tool": {"spends": [spend]}}).tool_fault
    loose = {"ledger": {"charged": "before-draw", "atomic": False, "concurrent": 2, "per_use": 1}}
    assert audit({"setting": {"model": "tool"}, "claim": {}, "tool": loose}).tool_fault
    for tool in (
        {"ledger": {"charged": "before-draw", "zzz": 1}},
        {"spends": [{"event": GAUSS, "charged": -1}]},
        {"calibrate": {**GAUSS, "zzz": 1}},
    ):
        with pytest.raises(SpecError):
            audit({"setting": {"model": "tool"}, "claim": {}, "tool": tool})


# ------------------------------------------------------------------------------------- descriptions that were once certified, as files


ONCE_CERTIFIED = {
    "half an epoch": (
        """
setting: {model: central, unit: record, neighbouring: zero_out}
claim: {epsilon: 1, delta: 1.0e-6}
events:
- {type: shuffled, batches: 10, epochs: 0.5, event: {type: gaussian, clip_norm: 1, noise_multiplier: 0.1}}
""",
        "refused",
    ),
    "a channel beside events": (
        """
setting: {model: local, unit: bit}
claim: {epsilon: 1}
events:
- {type: exact}
channel: {type: matrix, rows: [[0.5, 0.5], [0.5, 0.5]]}
""",
        "refused",
    ),
    "no neighbours": (
        """
setting: {model: local, unit: bit}
claim: {epsilon: 0.1}
channel: {type: matrix, neighbours: [], rows: [[1, 0], [0, 1]]}
""",
        "refused",
    ),
    "its own neighbour": (
        """
setting: {model: local, unit: bit}
claim: {epsilon: 0.1}
channel: {type: matrix, neighbours: [[0, 0]], rows: [[1, 0], [0, 1]]}
""",
        "refused",
    ),
    "a rate against size and n": (
        """
setting: {model: central, unit: record, neighbouring: replace_one}
claim: {epsilon: 1, delta: 1.0e-6}
events:
- {type: fixed_sampled, rate: 1.0e-6, size: 100, n: 100, event: {type: gaussian, l2_sensitivity: 1, sigma: 0.5}}
""",
        "inconsistent",
    ),
    "thirty days": (
        """
setting: {model: central, unit: user, neighbouring: add_remove, n: 1000000, repeats: 30}
claim: {epsilon: 1}
events:
- {type: laplace, what: daily count, l1_sensitivity: 1, scale: 1}
""",
        "violated",
    ),
    "an infinite count": (
        """
setting: {unit: record, neighbouring: add_remove}
claim: {epsilon: 1, delta: 1.0e-6}
events:
- {type: gaussian, l2_sensitivity: 1, sigma: 100, count: .inf}
""",
        "refused",
    ),
}


@pytest.mark.parametrize("name", sorted(ONCE_CERTIFIED))
def test_descriptions_that_were_once_certified(tmp_path: Path, name: str) -> None:
    text, answer = ONCE_CERTIFIED[name]
    file = tmp_path / "deployment.yaml"
    file.write_text("audit: 1" + text)
    if answer == "refused":
        with pytest.raises(SpecError):
            audit(file)
        return
    result = audit(file)
    assert result.verdict == answer
    assert result.exit_code == 1
    if answer == "inconsistent":
        assert "1e-06 by rate and 1 by size/n" in result.text()
        assert bounds(result)[1] == pytest.approx(profile_epsilon(2.0, 1e-6), rel=1e-6)  # at rate 1


def test_the_function_of_the_package_is_called_again() -> None:
    """The package of that name takes its place at the first import."""
    import dpspec

    matrix = [[0.75, 0.25], [0.25, 0.75]]
    first = dpspec.audit(matrix)
    assert dpspec.audit(matrix).to_json() == first.to_json()
