"""Training configurations: each form of the same run gives the same answer, every key is read or refused, open words are conditions."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest

from dpspec.audit import audit, template
from dpspec.audit.configs import read_config, recognise, tools
from dpspec.audit.configs._keys import INERT, of_n, word_of
from dpspec.audit.event import nodes
from dpspec.audit.templates import kinds
from dpspec.audit.yamlread import read_yaml
from dpspec.spec.diagnostics import SpecError

CLAIM = {"epsilon": 1.5, "delta": 1e-6}
SMALL = {"noise_multiplier": 2.0, "max_grad_norm": 1.0, "poisson_sampling": True, **CLAIM}


def runs(data: dict[str, Any], tool: str = "") -> list[tuple[str, float, int, float, str]]:
    """(condition, rate, steps, noise over sensitivity, relation) of every reading, without any accounting."""
    found = []
    for condition, deployment in read_config(data, tool).readings:  # type: ignore[attr-defined]
        (event,) = deployment.events
        inner = event.inner[0]
        top = inner.number("l2_sensitivity", "clip_norm")
        steps = event.count if event.kind != "shuffled" else int(event.number("batches")) * int(event.number("epochs"))
        rate = event.number("rate") or (
            1 / event.number("batches") if event.kind == "shuffled" else event.number("size") / event.number("n")
        )
        found.append((condition, rate, steps, inner.number("sigma") / top, deployment.setting.neighbouring))
    return found


@pytest.mark.parametrize(
    "form",
    [
        {"batch_size": 512, "n": 50000, "epochs": 10},
        {"batch_size": 512, "num_examples": 50000, "steps": 977},
        {"batch_size": 32, "gradient_accumulation_steps": 16, "n": 50000, "epochs": 10},
        {"lot_size": 512, "batch_size": 32, "n": 50000, "epochs": 10},
        {"batch_size": 512, "max_physical_batch_size": 64, "n": 50000, "epochs": 10},
        {"per_device_train_batch_size": 16, "gradient_accumulation_steps": 4, "world_size": 8, "n": 50000, "epochs": 10},
        {"sample_rate": 512 / 50000, "epochs": 10},
        {"sample_rate": "512/50000", "num_steps": 977},
        {"training": {"batch_size": 512, "epochs": 10}, "data": {"n": 50000}},
        {"train": {"batch-size": 512, "numEpochs": 10, "dataset_size": 50000}, "optimizer": {"lr": 0.1, "eps": 1e-8}},
    ],
)
def test_one_run_in_many_forms(form: dict[str, Any]) -> None:
    ((condition, rate, steps, ratio, relation),) = runs({**SMALL, **form})
    assert condition == ""
    assert rate == pytest.approx(0.01024)
    assert (steps, ratio, relation) == (977, 2.0, "add_remove")


def test_nested_blocks_and_dashes_are_the_same_words() -> None:
    flat = {"noise-multiplier": 2.0, "max-grad-norm": 1.0, "sample_rate": 0.01, "epochs": 1, "poisson-sampling": True, **CLAIM}
    nested = {"dp": {"noise_multiplier": 2.0, "max_grad_norm": 1.0, **CLAIM}, "train": {"sample_rate": 0.01, "epochs": 1}, "poisson": "yes"}
    assert runs(flat) == runs(nested)


def test_words_of_each_tool() -> None:
    base = {"noise_multiplier": 1.1, "epochs": 3, "n": 6000, "batch_size": 60, "sampling": "poisson", "delta": 1e-6, "epsilon": 1}
    for words, name in (
        ({"max_grad_norm": 1}, "opacus"),
        ({"l2_norm_clip": 1}, "tensorflow-privacy"),
        ({"clipping_norm": 1, "rescale_to_unit_norm": True}, "jax-privacy"),
        ({"per_example_max_grad_norm": 1, "ghost_clipping": "no"}, "huggingface"),
        ({"max_grad_norm": 1, "clipping_style": "all-layer", "clipping_mode": "MixOpt"}, "fastdp"),
        ({"clip_norm": 1}, "generic"),
    ):
        assert recognise({**base, **words}) == name
        assert runs({**base, **words}) == [("", 0.01, 300, 1.1, "add_remove")], name
    assert recognise({"text": "hello"}) == ""
    assert recognise({"framework": "pytorch", **base, "max_grad_norm": 1}) == "opacus"


@pytest.mark.parametrize(
    ("words", "ratio"),
    [
        ({"noise_multiplier": 2, "clip_norm": 0.3}, 2),
        ({"noise_std": 0.6, "clip_norm": 0.3}, 2),
        ({"noise_std": 0.006, "noise_on": "mean", "clip_norm": 0.3}, 2),
        ({"noise_multiplier": 2, "noise_on": "mean", "clip_norm": 0.3}, 2),
        ({"noise_multiplier": 2, "clip_norm": [0.3, 0.4], "clipping": "per_layer", "noise_per": "joint"}, 2),
        ({"noise_multiplier": 2, "clip_norm": [0.3, 0.4], "clipping": "per_layer", "noise_per": "layer"}, 2 / math.sqrt(2)),
        ({"noise_std": 2, "clip_norm": [0.3, 0.4], "clipping": "per_layer"}, 4),
        ({"noise_std": 6, "clip_norm": 1, "num_tensors": 9, "clipping": "per_tensor"}, 2),
        ({"noise_multiplier": 4, "clip_norm": 1, "microbatch_size": 5}, 2),
        ({"noise_multiplier": 2, "clip_norm": 1, "microbatch_size": 1}, 2),
        ({"noise_multiplier": 2, "clip_norm": 1, "ghost_clipping": True}, 2),
    ],
)
def test_noise_over_what_a_record_adds(words: dict[str, Any], ratio: float) -> None:
    data = {"tool": "generic", "batch_size": 100, "n": 10000, "steps": 5, "sampling": "poisson", **CLAIM, **words}
    assert [r[3] for r in runs(data)] == [pytest.approx(ratio)]


def test_an_open_word_is_a_condition() -> None:
    data = {**SMALL, "batch_size": 64, "world_size": 8, "n": 50000, "epochs": 1}
    first, second = runs(data)
    assert (first[1], second[1]) == (pytest.approx(64 / 50000), pytest.approx(512 / 50000))
    assert "all 8 workers" in first[0]
    assert "one of 8 workers" in second[0]
    silent = {k: v for k, v in SMALL.items() if k != "poisson_sampling"}
    assert [r[4] for r in runs({**silent, "tool": "generic", "sample_rate": 0.01, "epochs": 1})] == ["add_remove", "zero_out"]
    sigma = runs({"tool": "generic", "sigma": 1.0, "clip": 0.5, "sample_rate": 0.01, "steps": 3, "sampling": "poisson", **CLAIM})
    assert [r[3] for r in sigma] == [1.0, 2.0]


def test_readings_that_differ_are_never_a_plain_certificate() -> None:
    from dpspec.privacy.gaussian import epsilon_of

    data = {"tool": "generic", "noise_multiplier": 1.0, "clip_norm": [1, 1], "clipping": "per_layer", "steps": 1, "sampling": "full"}
    one, two = epsilon_of(1.0, 1e-5), epsilon_of(math.sqrt(2), 1e-5)
    assert audit({**data, "epsilon": one + 0.01, "delta": 1e-5}).verdict == "holds-if"
    assert audit({**data, "epsilon": two + 0.05, "delta": 1e-5}).verdict == "holds"
    assert audit({**data, "epsilon": one - 0.05, "delta": 1e-5}).verdict == "violated"
    assert audit({**data, "epsilon": 50, "delta": "1/n", "n": 1000}).verdict == "vacuous"


def test_schedules() -> None:
    base = {**SMALL, "sample_rate": 0.1, "epochs": 4}
    (exp,) = read_config({**base, "noise_scheduler": "exponential", "gamma": 0.5}).readings  # type: ignore[attr-defined]
    assert [(e.count, e.inner[0].number("sigma")) for e in exp[1].events] == [(10, 2.0), (10, 1.0), (10, 0.5), (10, 0.25)]
    (step,) = read_config({**base, "noise_scheduler": {"type": "StepNoise", "step_size": 3, "gamma": 0.5}}).readings  # type: ignore[attr-defined]
    assert [(e.count, e.inner[0].number("sigma")) for e in step[1].events] == [(30, 2.0), (10, 1.0)]
    (listed,) = read_config({**base, "noise_multiplier": [3, 2, 3, 1]}).readings  # type: ignore[attr-defined]
    assert [(e.count, e.inner[0].number("sigma")) for e in listed[1].events] == [(20, 3.0), (10, 2.0), (10, 1.0)]
    relative = {**base, "grad_clip_scheduler": {"type": "exponential", "gamma": 0.5}}
    assert runs(relative)[0][3] == 2.0  # noise follows the clip
    (absolute,) = read_config(  # a fixed noise under a clip that falls
        {**{k: v for k, v in relative.items() if k != "noise_multiplier"}, "noise_std": 2.0, "tool": "opacus"}
    ).readings  # type: ignore[attr-defined]
    assert [e.inner[0].number("sigma") for e in absolute[1].events] == [2, 4, 8, 16]
    with pytest.raises(SpecError):
        read_config({**base, "noise_multiplier": [3, 2]})
    with pytest.raises(SpecError):
        read_config({**base, "noise_scheduler": "lambda", "gamma": 0.5})


def test_an_adaptive_clip_counts_its_own_release() -> None:
    data = {**SMALL, "sample_rate": 0.1, "steps": 3, "clipping": "adaptive", "unclipped_num_std": 2.0}
    ((_, deployment),) = read_config(data).readings  # type: ignore[attr-defined]
    parts = [e for e in nodes(deployment.events) if not e.inner]
    total = sum((e.number("clip_norm") / e.number("sigma")) ** 2 for e in parts)
    assert [e.number("clip_norm") for e in parts] == [1.0, 0.5]
    assert total == pytest.approx(1 / 2.0**2)
    assert audit({**data, "unclipped_num_std": 0}).verdict == "violated"
    with pytest.raises(SpecError):  # the count alone costs more than the whole multiplier allows
        read_config({**data, "unclipped_num_std": 0.9})
    with pytest.raises(SpecError):
        read_config({k: v for k, v in data.items() if k != "unclipped_num_std"})


def test_federated_words() -> None:
    flower = {"noise_multiplier": 1.0, "clipping_norm": 0.5, "num_clients": 1000, "num_server_rounds": 7, **CLAIM}
    ((condition, rate, rounds, ratio, relation),) = runs({**flower, "num_sampled_clients": 20})
    assert (rate, rounds, ratio, relation) == (0.02, 7, 1.0, "zero_out")
    assert "weigh the same" in condition
    equal = {**flower, "weighting": "uniform", "sampling": "poisson"}
    assert runs({**equal, "num_sampled_clients": 20, "fraction_train": 0.05}) == [
        ("", 0.05, 7, 2.5, "add_remove")
    ]  # noise for 20, mean of 50
    assert runs({**equal, "num_sampled_clients": 50, "fraction_train": 0.02})[0][3] == 0.4
    least = runs({**equal, "fraction_train": 0.001, "min_fit_clients": 30, "num_sampled_clients": 30})
    assert least == [("", 0.03, 7, 1.0, "add_remove")]
    weighted = audit({**flower, "num_sampled_clients": 20, "weighting": "num_examples"})
    assert weighted.verdict not in ("holds", "holds-if")
    tff = {"noise_std": 0.01, "noise_on": "mean", "clip_norm": 0.5, "clients_per_round": 100, "num_clients": 10_000, "rounds": 7, **CLAIM}
    assert runs({**tff, "sampling": "poisson"}) == [("", 0.01, 7, 2.0, "add_remove")]


def test_local_noise_by_the_textbook_formula() -> None:
    fedml = {"dp_args": {"enable_dp": True, "dp_solution_type": "ldp", "mechanism_type": "laplace", "epsilon": 1.0, "sensitivity": 2.0}}
    one = audit({**fedml, "clipping_norm": 1.0, "comm_round": 1})
    assert (one.verdict, one.static.epsilon) == ("holds", 1.0)  # type: ignore[union-attr]
    many = audit({**fedml, "clipping_norm": 1.0, "comm_round": 5})
    assert (many.verdict, many.static.epsilon_lower) == ("violated", 5.0)  # type: ignore[union-attr]
    assert audit({**fedml, "comm_round": 1}).verdict not in ("holds", "holds-if")  # nothing enforces the sensitivity


def test_a_target_is_answered_with_the_noise_that_it_needs() -> None:
    """Full batches: the analytic Gaussian profile gives the multiplier in closed form, sqrt(steps)/mu(epsilon, delta)."""
    from dpspec.privacy.gaussian import mu_of

    data = {"target_epsilon": 3, "target_delta": 1e-5, "max_grad_norm": 0.1, "steps": 9, "sampling": "full", "n": 1000}
    result = audit(data)
    assert result.verdict == "cannot-verify"
    least = result.recomputed["noise_multiplier"]
    assert least == pytest.approx(3 / mu_of(3, 1e-5), rel=1e-3)
    assert audit({**data, "noise_multiplier": least}).verdict == "holds"
    assert audit({**data, "noise_multiplier": 0.98 * least}).verdict == "violated"
    without = {k: v for k, v in data.items() if k != "target_delta"}
    assert audit(without).recomputed == {}


def test_values_that_make_no_run_are_refused() -> None:
    base = {**SMALL, "sample_rate": 0.01, "epochs": 1}
    for more in (
        {"noise_multiplier": -1},
        {"noise_multiplier": float("nan")},
        {"noise_multiplier": "big"},
        {"sample_rate": 2},
        {"epochs": 0},
        {"poisson_sampling": "perhaps"},
        {"max_grad_norm": 0},
        {"sampling": "magic"},
        {"poisson_sampling": True, "sampling": "shuffle"},
        {"batch_size": 10, "n": 5},
        {"delta": 2},
        {"neighbouring": "cousins"},
        {"noise_std": 1.0},
        {"enable_dp": False},
        {"clipping_fn": "none"},
        {"dp": {"noise_multiplier": 3.0}},  # said twice
    ):
        with pytest.raises(SpecError):
            read_config({**base, **more})


GENERIC = {"tool": "generic", "noise_multiplier": 2.0, "clip_norm": 1.0, "sampling": "poisson", "n": 1000, **CLAIM}
FEDERATED = {"tool": "federated", "noise_multiplier": 1.0, "clip_norm": 0.5, "clients_per_round": 100, "num_clients": 10000, "rounds": 7}


@pytest.mark.parametrize(
    "words",
    [
        *(
            {"sampling": text}
            for text in (
                *("shuffle (accounted as poisson)", "non-poisson", "not poisson", "poisson or shuffled", "poisson-like", "assumed poisson"),
                *("uniform with replacement", "totally random", "small batches", "UniformWithReplacementSampler"),
            )
        ),
        *(
            {"noise_multiplier": None, "noise_std": 1.0, "noise_on": text}
            for text in ("update", "after clipping", "mean of sums", "not the mean", "before summing", "each record")
        ),
        {"noise_multiplier": None, "noise_std": 1.0, "clip_norm": None},  # over which clip?
        {"target_unclipped_quantile": 0.5},  # the clip follows a count of the records, which is a release
        {"lot_size": 50, "batch_size": 50, "gradient_accumulation_steps": 4},
        {"global_batch_size": 50, "batch_size": 25, "gradient_accumulation_steps": 2, "world_size": 4},
    ],
)
def test_words_that_say_more_than_is_known_are_refused(words: dict[str, Any]) -> None:
    """Each of these was read as the law, the place of the noise or the clip that asks for the least of it."""
    with pytest.raises(SpecError):
        read_config({k: v for k, v in {**GENERIC, "batch_size": 50, "epochs": 2, **words}.items() if v is not None})


@pytest.mark.parametrize(
    ("text", "ratio"),
    [("before averaging", 1), ("sum of updates", 1), ("after summing", 1), ("summed gradient after clipping", 1), ("after averaging", 50)],
)
def test_where_the_noise_is_added(text: str, ratio: float) -> None:
    data = {**GENERIC, "batch_size": 50, "epochs": 2, "noise_on": text, "noise_std": 1.0}
    assert runs({k: v for k, v in data.items() if k != "noise_multiplier"})[0][3] == pytest.approx(ratio)


def test_open_readings_take_in_the_worst_one() -> None:
    """Rate of a pass or of a step, steps against epochs, a batch of one worker or of all, a record among several of its unit."""
    passes = runs({**SMALL, "sample_rate": 0.01, "gradient_accumulation_steps": 8, "epochs": 2})
    assert [r[1:3] for r in passes] == [(0.01, 200), (pytest.approx(0.08), 25)]
    assert all(r[0] for r in passes)
    assert runs({**GENERIC, "batch_size": 10, "steps": 20, "epochs": 5})[0][2] == 500
    trainer = {"tool": "huggingface", "noise_multiplier": 1.0, "train_size": 1000, "sampling": "poisson", "world_size": 1, **CLAIM}
    assert runs({**trainer, "per_device_train_batch_size": 10, "max_steps": 20, "num_train_epochs": 5})[0][2] == 20  # documented there
    assert [r[1] for r in runs({**GENERIC, "lot_size": 10, "world_size": 4, "epochs": 1})] == [0.01, 0.04]
    assert [r[1] for r in runs({**GENERIC, "global_batch_size": 10, "world_size": 4, "epochs": 1})] == [0.01]
    assert [r[0] for r in runs({**GENERIC, "batch_size": 10, "epochs": 1, "unit": "patient"})] == ["each patient has one record"]
    assert [r[0] for r in runs({**GENERIC, "batch_size": 10, "epochs": 1, "unit": "Examples"})] == [""]
    sigma = {k: v for k, v in GENERIC.items() if k not in ("noise_multiplier", "clip_norm")}
    assert [r[0] for r in runs({**sigma, "batch_size": 10, "epochs": 1, "sigma": 2.0})] == ["sigma is a multiple of the clip"]


@pytest.mark.parametrize(("batch", "steps"), [(280, 12), (600, 10), (250, 12), (999, 3)])
def test_batches_in_order_meet_a_record_as_often_as_they_can(batch: int, steps: int) -> None:
    """Counted: whether the file is read in circles, or an epoch ends with or without its last short batch."""
    n, whole, short = 1000, 1000 // batch, -(-1000 // batch)
    circle = max(sum((i * batch + j) % n == 0 for i in range(steps) for j in range(batch)), -(-steps * batch // n))
    met = max(circle, -(-steps // whole), -(-steps // short))
    (event,) = read_config({**GENERIC, "sampling": "sequential", "batch_size": batch, "steps": steps}).events
    assert event.count == met


def test_the_rate_of_a_loader_without_its_last_batch() -> None:
    """Opacus draws at one over the number of batches: 1000 records in whole batches of 501 make one."""
    data = {**SMALL, "tool": "opacus", "batch_size": 501, "n": 1000, "epochs": 1}
    (event,) = read_config({**data, "drop_last": True}).events
    assert (event.kind, event.count) == ("gaussian", 1)  # everybody takes part
    assert runs({**data, "batch_size": 256, "drop_last": True})[0][1] == pytest.approx(1 / 3)


def test_a_schedule_changes_where_it_leaves_the_least_noise() -> None:
    data = {**GENERIC, "batch_size": 300, "steps": 12}  # 3.33 steps an epoch
    for gamma, span in ((0.5, 3), (2.0, 4)):
        first = read_config({**data, "noise_scheduler": "exponential", "gamma": gamma}).events[0]
        assert first.count == span


def test_clients_of_a_round_against_their_least_number() -> None:
    with pytest.raises(SpecError):
        read_config({**FEDERATED, "min_clients_per_round": 1000})
    (event,) = read_config({**FEDERATED, "clients_per_round": 100.9, "sampling": "fixed"}).events
    assert event.number("size") == 101


BASES = {name: read_yaml(tool.template).data for name, tool in tools().items()}


def _paths(data: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(data, dict):
        return [p for k, v in data.items() for p in _paths(v, (*at, k))]
    if isinstance(data, list) and any(isinstance(v, dict) for v in data):
        return [p for i, v in enumerate(data) for p in _paths(v, (*at, i))]
    return [at]


@pytest.mark.parametrize("name", sorted(BASES))
def test_no_key_is_passed_over(name: str) -> None:
    """A misspelt key is refused by name wherever it stands, and a key left out is missed, or documented as without effect."""
    data = BASES[name]
    for path in _paths(data):
        changed = copy.deepcopy(data)
        parent: Any = changed
        for part in path[:-1]:
            parent = parent[part]
        value = parent.pop(path[-1])
        if isinstance(path[-1], str) and path[-1] not in ("tool", "path") and word_of(path[-1]) not in INERT:
            parent[f"{path[-1]}_x"] = value
            with pytest.raises(SpecError, match=f"{word_of(path[-1])}_x"):
                read_config({k: v for k, v in changed.items() if k != "tool"}, name)


#: Words of the templates that move no number, and why.
_WITHOUT_EFFECT = {
    "max_examples_per_user": "as stated",
    "per_device_per_step": "memory",
    "rescale_to_unit_norm": "the noise follows the clip",
    "ghost_clipping": "speed",
    "clipping_fn": "a function within the clip",
    "clipping_mode": "speed",
    "client_num_in_total": "a client is protected from everybody",
    "client_num_per_round": "a client is protected from everybody",
    "enable_dp": "yes or no",
    "tau": "the threshold",
    "format_version": "of the file",
    "world_size": "as stated",
}


@pytest.mark.parametrize("name", sorted(BASES))
def test_every_number_of_a_configuration_moves_the_run(name: str) -> None:
    def told(data: dict[str, Any]) -> object:
        try:
            found = read_config(data, name)
        except SpecError:
            return "refused"
        return [(c, d.setting, d.claim, d.events, tuple(sorted(d.facts.items()))) for c, d in found.readings]  # type: ignore[attr-defined]

    data = {k: v for k, v in BASES[name].items() if k != "tool"}
    base = told(data)
    assert base != "refused"
    for path in _paths(data):
        changed = copy.deepcopy(data)
        parent: Any = changed
        for part in path[:-1]:
            parent = parent[part]
        value = parent[path[-1]]
        word = word_of(path[-1])
        if isinstance(value, (str, list)) or word in _WITHOUT_EFFECT or (name == "fedml" and word in ("epochs", "batch_size")):
            continue
        parent[path[-1]] = not value if isinstance(value, bool) else value * 2
        assert told(changed) != base, path


_LONG = ("training", "user-level")  # thousands of sampled steps


@pytest.mark.parametrize("kind", [pytest.param(k, marks=[pytest.mark.slow] if k in _LONG else []) for k in kinds()])
def test_templates_audit_as_written(kind: str, tmp_path: Any) -> None:
    text = template(kind)
    assert "#" in text
    file = tmp_path / "template.yaml"
    file.write_text(text)
    if kind in tools():
        found = read_config({k: v for k, v in read_yaml(text).data.items() if k != "tool"}, kind)
        assert found.claim.epsilon is not None
        assert recognise(read_yaml(text).data) == kind
    else:
        assert audit(file).verdict in ("holds", "cannot-verify" if kind == "registry" else "holds")


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(BASES))
def test_templates_of_tools_hold(name: str) -> None:
    assert audit(BASES[name]).verdict == "holds"


def test_numbers_by_the_number_of_records() -> None:
    assert of_n("1/n", 1000) == pytest.approx(1e-3)
    assert of_n("1/(2n)", 1000) == pytest.approx(5e-4)
    assert of_n("1/n^2", 1000) == pytest.approx(1e-6)
    assert of_n("n^-1.1", 1000) == pytest.approx(1000**-1.1)
    assert of_n("0.5 * 1/n", 1000) == pytest.approx(5e-4)
    assert of_n("1/len(train_dataset)", 1000) == pytest.approx(1e-3)
    assert of_n("small", 1000) == "small"


def test_a_claim_word_that_is_taken_at_its_word() -> None:
    data = {**SMALL, "sample_rate": 0.01, "steps": 2, "colour": "blue"}
    with pytest.raises(SpecError, match="colour"):
        read_config(data)
    found = read_config({**data, "inert": ["colour"]})
    assert any(n.code == "DP606" and "colour" in n.message for n in found.notes)
