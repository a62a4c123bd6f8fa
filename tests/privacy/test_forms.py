"""The lossless JSON form: every mechanism, channel and schedule comes back equal, and nothing that is not understood is read."""

from __future__ import annotations

import json
import math
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpspec.privacy import forms
from dpspec.privacy.calibrate import Budget, calibrate
from dpspec.privacy.forms import FormError, classes, from_json, is_channel, mechanism_json, mechanism_of, noise_of, spent_of, to_json
from dpspec.privacy.mechanisms.gaussian import Gaussian
from dpspec.privacy.schedule import Disjoint, Draw, Parallel, Repeat, Sampled, Sequence
from tests.privacy.kinds import KINDS, instance

LEVELS = (0.2, 0.7, 1.0, 3.0)


def through_json(value: Any) -> Any:
    return json.loads(json.dumps(value, allow_nan=False))


def test_every_file_of_mechanisms_and_channels_is_found() -> None:
    """Whatever states a family in the two folders has a kind in the registry."""
    root = Path(forms.__file__).parent
    text = "".join(f.read_text(encoding="utf-8") for folder in ("mechanisms", "channels") for f in (root / folder).glob("*.py"))
    stated = text.count("    family: ClassVar[Family]") + text.count("    def family(self)")
    assert len(set(classes().values())) == stated
    assert is_channel("hemisphere")
    assert not is_channel("gaussian")


@pytest.mark.parametrize("kind", KINDS)
def test_round_trip(kind: str) -> None:
    mechanism = instance(kind)
    assert mechanism.kind == kind
    again = mechanism_of(through_json(mechanism_json(mechanism)))
    assert again == mechanism
    assert type(again) is type(mechanism)
    for level in LEVELS:  # the same profile: the same family, noise and cost
        assert noise_of(again, level) == noise_of(mechanism, level)
        assert through_json(noise_of(mechanism, level)) == noise_of(mechanism, level)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("level", LEVELS)
def test_the_numbers_of_the_noise_spend_what_the_level_says(kind: str, level: float) -> None:
    """The inverse of ``scale``, written from the law of the output. Never more than the level; less only where the noise is cut to whole
    numbers (shares of parties, an acceptance window that is full)."""
    mechanism = instance(kind)
    spent = spent_of(mechanism, noise_of(mechanism, level))
    stated = 1 / level if mechanism.family in ("gaussian", "laplace") else level
    assert spent <= stated * (1 + 1e-9)
    if kind not in ("wishart", "genprot"):
        assert spent == pytest.approx(stated, rel=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_half_the_noise_spends_more(kind: str) -> None:
    mechanism = instance(kind)
    noise = noise_of(mechanism, 1.0)
    before = spent_of(mechanism, noise)
    for name in noise:
        if name in ("degrees", "width", "height", "truth", "p", "q", "inside", "extra"):
            continue  # no scale
        if name == "scale" and kind in ("subset-selection", "optimised-unary-encoding", "symmetric-unary-encoding", "priv-unit"):
            continue  # the weight of a report, which is post-processing there
        try:
            after = spent_of(mechanism, {**noise, name: noise[name] / 2})
        except FormError:
            continue  # no such noise exists
        assert after > before, name


def test_costs_of_discrete_channels_by_listing_their_outputs() -> None:
    """The largest ratio over outputs and pairs of inputs, from the numbers of the noise alone."""
    k, level = 8, 1.3
    kary = noise_of(instance("kary-response"), level)
    a = 1 / kary["scale"]
    assert spent_of(instance("kary-response"), kary) == pytest.approx(math.log((a + (1 - a) / k) / ((1 - a) / k)), rel=1e-12)
    subset = noise_of(instance("subset-selection"), level)
    w, p = int(subset["width"]), subset["truth"]
    sets = list(combinations(range(k), w))

    def chance(x: int, s: tuple[int, ...]) -> float:
        return p / math.comb(k - 1, w - 1) if x in s else (1 - p) / math.comb(k - 1, w)

    assert sum(chance(0, s) for s in sets) == pytest.approx(1, rel=1e-12)
    worst = max(chance(x, s) / chance(y, s) for s in sets for x in range(k) for y in range(k))
    assert spent_of(instance("subset-selection"), subset) == pytest.approx(math.log(worst), rel=1e-12)
    for kind in ("optimised-unary-encoding", "symmetric-unary-encoding"):
        bits = noise_of(instance(kind), level)
        worst = max(
            math.prod((bits["p"] if i == x else bits["q"]) if s >> i & 1 else 1 - (bits["p"] if i == x else bits["q"]) for i in range(k))
            / math.prod((bits["p"] if i == y else bits["q"]) if s >> i & 1 else 1 - (bits["p"] if i == y else bits["q"]) for i in range(k))
            for s in range(2**k)
            for x, y in ((0, 1), (1, 0))
        )
        assert spent_of(instance(kind), bits) == pytest.approx(math.log(worst), rel=1e-9)


# ---------------------------------------------------------------------------------------------------------- strict reading


@pytest.mark.parametrize("kind", KINDS)
def test_a_form_that_is_not_whole_is_refused(kind: str) -> None:
    form = mechanism_json(instance(kind))
    for name in form:
        with pytest.raises(FormError, match=name) as missing:
            mechanism_of({k: v for k, v in form.items() if k != name})
        assert missing.value.what == "missing"
        for wrong in (None, "x", [], math.nan, -1.0, {}):
            with pytest.raises(FormError):
                mechanism_of({**form, name: wrong})
    with pytest.raises(FormError, match="radius_of_trust") as extra:
        mechanism_of({**form, "radius_of_trust": 1.0})
    assert extra.value.what == "unknown"
    with pytest.raises(FormError, match="foo"):
        mechanism_of({**form, "kind": "foo"})
    families = {"gaussian", "laplace", "bounded-range", "pure", "approx"} - {form["family"]}
    for other in families:
        with pytest.raises(FormError, match="family"):
            mechanism_of({**form, "family": other})


TREE = Sequence(
    (
        Repeat(Draw("a", Gaussian(1.5, 3), weight=0.25), 4),
        Parallel((Disjoint(Draw("b", instance("exponential")), 3), Repeat(Sampled(Draw("c", Gaussian(0.1)), "fixed", 0.125, 800), 5))),
    )
)


def test_a_schedule_comes_back_with_its_levels() -> None:
    c = calibrate(TREE, Budget(epsilon=1, delta=1e-6))
    tree, levels, noise = from_json(through_json(to_json(c.tree, c.levels)))
    assert tree == TREE
    assert levels == dict(c.levels)
    assert noise == {name: noise_of(leaf.draw.mechanism, level) for name, (leaf, level) in c.events().items()}
    bare, no_levels, no_noise = from_json(through_json(to_json(TREE)))
    assert (bare, no_levels, no_noise) == (TREE, {}, {})


@pytest.mark.parametrize(
    ("path", "value", "what"),
    [
        (("parts", 0, "count"), 0.5, "range"),
        (("parts", 0, "count"), 0, "range"),
        (("parts", 0, "count"), True, "range"),
        (("parts", 0, "count"), math.inf, "range"),
        (("parts", 0, "count"), 10**400, "range"),
        (("parts", 0, "body", "weight"), -1, "range"),
        (("parts", 0, "body", "per"), "person", "unknown"),
        (("parts", 1, "type"), "disjunct", "unknown"),
        (("parts", 1, "parts"), [], "range"),
        (("parts", 1, "parts", 1, "body", "rate"), 1.5, "range"),
        (("parts", 1, "parts", 1, "body", "rate"), 0, "range"),
        (("parts", 1, "parts", 1, "body", "method"), "shuffle", "unknown"),
        (("parts", 1, "parts", 0, "body", "name"), "a", "range"),
    ],
)
def test_a_schedule_that_says_something_else_is_refused(path: tuple[Any, ...], value: Any, what: str) -> None:
    form = to_json(TREE)
    here: Any = form
    for step in path[:-1]:
        here = here[step]
    here[path[-1]] = value
    with pytest.raises(FormError) as refused:
        from_json(form)
    assert refused.value.what == what


_WORDS = st.sampled_from(["type", "parts", "body", "count", "kind", "name", "mechanism"])
_LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)


@settings(max_examples=100, deadline=None)
@given(st.recursive(_LEAVES, lambda x: st.lists(x, max_size=3) | st.dictionaries(_WORDS, x, max_size=5), max_leaves=12))
def test_reading_anything_ends_in_a_form_error(data: Any) -> None:
    with pytest.raises(FormError):
        from_json(data)
