"""Other people's parameters as deployments: DP-SGD configurations, registry entries, and this product's own plans and records.

An importer translates and adds nothing: what a format leaves open (the sampler, the unit, the neighbouring relation) is filled in with
what its tool documents, and said as a note. A field that cannot be read is reported, never guessed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dpspec.audit.deployment import Deployment, deployment_of, numeric
from dpspec.spec.diagnostics import Diagnostic, SpecError


def kind_of(data: Mapping[str, Any]) -> str:
    """The format of a document: a key of the importers, ``cases`` for a catalogue, or the empty word."""
    if "cases" in data:
        return "cases"
    if "guarantee" in data and "releases" in data:
        return "plan"
    if "guarantee" in data and "plan_sha256" in data:
        return "record"
    if "noise_multiplier" in data:
        return "tf-privacy" if "l2_norm_clip" in data or "num_microbatches" in data else "opacus"
    if any(k in data for k in ("dp_variant", "dp_flavor", "privacy_loss", "privacy_parameters", "deployment_model")):
        return "registry"
    if any(k in data for k in ("claim", "events", "tool", "audit", "facts")):
        return "deployment"
    if "rows" in data or "channel" in data:
        return "channel"
    return ""


def import_document(data: Mapping[str, Any], subject: str = "") -> Deployment:
    """A deployment from any known format. Raises :class:`SpecError`: DP676 for an unknown format, DP67x for unusable values."""
    kind = kind_of(data)
    importer = _IMPORTERS.get(kind)
    if importer is None:
        help = "one case a run: python -m tests.audit_cases FILE" if kind == "cases" else "see docs/audit.md for the formats"
        raise SpecError([Diagnostic("DP676", "error", "the format of this document is not known", help)], path=subject)
    found = importer(data)
    return replace(found, subject=subject) if subject and found.subject == "deployment" else found


def _note(code: str, message: str, help: str = "") -> Diagnostic:
    return Diagnostic(code, "warning", message, help)


def _required(data: Mapping[str, Any], *names: str) -> float:
    for name in names:
        value = numeric(data.get(name))
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            if value < 0 or not math.isfinite(value):
                raise SpecError([Diagnostic("DP672", "error", f"{name} = {value:g} is out of range")])
            return float(value)
    raise SpecError([Diagnostic("DP674", "error", f"missing: {' or '.join(names)}")])


def _optional(data: Mapping[str, Any], *names: str) -> float | None:
    return _required(data, *names) if any(data.get(n) is not None for n in names) else None


# ------------------------------------------------------------------------------------------------------------------- DP-SGD


_SIZES = ("n", "N", "num_samples", "number_of_samples", "sample_size", "dataset_size", "num_examples", "train_size")


def _steps(data: Mapping[str, Any], rate: float | None, n: float | None, batch: float | None) -> tuple[float, float]:
    """(rate, steps). Steps from epochs: an epoch has 1/rate steps, rounded up."""
    if rate is None:
        if batch is None or n is None:
            raise SpecError([Diagnostic("DP674", "error", "missing: sample_rate, or batch_size and the number of records")])
        rate = batch / n
    if not 0 < rate <= 1:
        raise SpecError([Diagnostic("DP672", "error", f"a sampling rate of {rate:g} is out of range")])
    steps = _optional(data, "steps", "num_steps")
    if steps is None:
        steps = math.ceil(_required(data, "epochs") / rate - 1e-9)
    return rate, steps


def _claimed(data: Mapping[str, Any]) -> dict[str, Any]:
    claim: dict[str, Any] = {}
    for word, names in (("epsilon", ("epsilon", "target_epsilon", "eps")), ("delta", ("delta", "target_delta"))):
        value = _optional(data, *names)
        if value is not None:
            claim[word] = value
    if data.get("accountant"):
        claim["rule"] = str(data["accountant"])
    return claim


def _sampler(data: Mapping[str, Any], default: str) -> str:
    value = data.get("poisson_sampling")
    if isinstance(value, bool):
        return "poisson" if value else "shuffle"
    word = str(data.get("sampling", data.get("sampler", default))).strip().lower()
    for name in ("poisson", "shuffle", "fixed", "full"):
        if name in word:
            return name
    if "permut" in word:
        return "shuffle"
    return word


def _training(data: Mapping[str, Any], tool: str, default: str, clip: float, shift: float, notes: list[Diagnostic]) -> Deployment:
    """A DP-SGD run. ``shift``: how far one unit can move the sum, in multiples of the clip."""
    n, batch = _optional(data, *_SIZES), _optional(data, "batch_size", "lot_size", "expected_batch_size")
    rate, steps = _steps(data, _optional(data, "sample_rate", "sampling_probability", "q"), n, batch)
    neighbouring = str(data.get("neighbouring", data.get("neighboring_relation", "add_remove"))).lower()
    sampler = _sampler(data, default)
    noise = {"type": "gaussian", "what": "clipped gradient sum", "clip_norm": clip, "sigma": _required(data, "noise_multiplier") * clip}
    if shift != 1.0:
        noise["l2_sensitivity"] = shift * clip
    if sampler == "poisson":
        event: dict[str, Any] = {"type": "poisson_sampled", "rate": rate, "count": steps, "event": noise}
    elif sampler == "fixed":
        event = {"type": "fixed_sampled", "rate": rate, "count": steps, "event": noise}
    elif sampler == "shuffle":
        batches = max(math.floor(1 / rate + 1e-9), 1)
        event = {"type": "shuffled", "batches": batches, "epochs": max(math.ceil(steps / batches), 1), "event": noise}
        if neighbouring == "add_remove":
            neighbouring = "zero_out"
            notes.append(
                _note("DP615", "batches of fixed size: the record is compared with a zeroed one, since adding one would change the batches")
            )
    elif sampler == "full":
        event = {**noise, "count": steps}
    else:
        raise SpecError([Diagnostic("DP672", "error", f"unknown sampler {sampler!r}", "poisson, shuffle, fixed or full")])
    setting: dict[str, Any] = {
        "model": "central",
        "unit": str(data.get("unit", "record")),
        "neighbouring": neighbouring,
        "sampling": sampler,
    }
    if n is not None:
        setting["n"] = n
    whole = deployment_of(
        {"subject": str(data.get("name", tool)), "setting": setting, "claim": _claimed(data), "events": [event]}, strict=False
    )
    return replace(whole, notes=(*whole.notes, *notes))


def from_opacus(data: Mapping[str, Any]) -> Deployment:
    """Opacus: ``noise_multiplier``, ``max_grad_norm``, ``sample_rate`` (or ``batch_size`` and ``n``), ``epochs`` or ``steps``, ``epsilon``,
    ``delta``; ``poisson_sampling`` (true when absent, as ``make_private`` has it)."""
    notes = []
    if data.get("poisson_sampling") is None and data.get("sampling") is None and data.get("sampler") is None:
        notes.append(_note("DP615", "the sampler is not stated; Poisson sampling is assumed, the tool's default", "state poisson_sampling"))
    if str(data.get("accountant", "")).lower() == "gdp":
        notes.append(_note("DP618", "the gdp accountant is a limit theorem, not a bound"))
    return _training(data, "Opacus run", "poisson", _optional(data, "max_grad_norm", "clip_norm") or 1.0, 1.0, notes)


def from_tf_privacy(data: Mapping[str, Any]) -> Deployment:
    """TensorFlow Privacy: ``noise_multiplier``, ``l2_norm_clip``, ``batch_size``, ``n``, ``epochs``, ``num_microbatches``, ``sampling``.

    Without a word on the sampler, batches cut from a shuffled stream are assumed: that is what an input pipeline does. Microbatches of
    several records are clipped as one mean, so one record can turn a clipped vector into its opposite: twice the clip.
    """
    notes = []
    if data.get("sampling") is None and data.get("poisson_sampling") is None and data.get("sampler") is None:
        notes.append(
            _note(
                "DP615",
                "the sampler is not stated; shuffled batches are assumed, the usual input pipeline",
                "state sampling: poisson or shuffle",
            )
        )
    batch, micro = _optional(data, "batch_size"), _optional(data, "num_microbatches")
    shift = 1.0
    if batch is not None and micro is not None and micro < batch:
        shift = 2.0
        notes.append(_note("DP622", f"{batch / micro:g} records share one clip: a record moves the sum by up to twice the clip"))
    return _training(data, "TensorFlow Privacy run", "shuffle", _optional(data, "l2_norm_clip") or 1.0, shift, notes)


# ----------------------------------------------------------------------------------------------------------------- registry


def _find(data: Any, *names: str) -> Any:
    """The first value under one of these keys, breadth first; registry entries nest differently by tier."""
    level = [data]
    for _ in range(5):
        deeper: list[Any] = []
        for node in level:
            if not isinstance(node, Mapping):
                continue
            for name in names:
                if node.get(name) is not None:
                    return node[name]
            deeper += list(node.values())
        level = deeper
    return None


def from_registry(data: Mapping[str, Any]) -> Deployment:
    """An entry of the public deployments registry: variant, model, privacy parameters, unit. It holds no events, so the audit checks that
    the numbers agree with each other and with the variant, and says what is missing for more."""
    notes: list[Diagnostic] = []
    found = _find(data, "privacy_parameters")
    parameters: Mapping[str, Any] = found if isinstance(found, Mapping) else data
    numbers: dict[str, Any] = {}
    for word, names in (("epsilon", ("epsilon", "epsilon_value")), ("delta", ("delta", "delta_value")), ("rho", ("rho",)), ("mu", ("mu",))):
        value = numeric(_first_number(_find(parameters, *names)))
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            numbers[word] = value
        elif value not in (None, "", "N/A", "n/a"):
            notes.append(_note("DP672", f"{word} is given as text: {str(value)[:60]!r}", "state a number"))
    variant = str(_find(data, "dp_variant", "dp_flavor", "variant") or "")
    if not variant:
        notes.append(_note("DP605", "the variant of differential privacy is not stated"))
    if not numbers:
        notes.append(_note("DP605", "no privacy parameter is stated"))
    unit = _find(data, "privacy_unit", "unit_of_privacy")
    if isinstance(unit, Mapping):
        unit = unit.get("name") or unit.get("unit") or next((v for v in unit.values() if isinstance(v, str)), "")
    model = str(_find(data, "deployment_model", "model") or "central").strip().lower()
    model = next((m for m in ("local", "shuffle", "federated", "central") if m in model), "central")
    relation = str(_find(data, "neighbouring", "neighboring", "adjacency") or ("local_replace" if model == "local" else ""))
    title = str(_find(data, "name", "title") or "registry entry")
    description = {
        "subject": title,
        "setting": {"model": model, "unit": str(unit or ""), "neighbouring": relation},
        "claim": {**numbers, "variant": variant},
        "events": data.get("events"),
    }
    whole = deployment_of(description, strict=False)
    return replace(whole, notes=(*whole.notes, *notes))


def _first_number(value: Any) -> Any:
    if isinstance(value, Mapping):
        return value.get("value", value.get("amount"))
    if isinstance(value, Sequence) and not isinstance(value, str):
        numbers = [numeric(v) for v in value]
        good = [v for v in numbers if isinstance(v, (int, float))]
        return max(good) if good else None
    return value


# ------------------------------------------------------------------------------------------------- plans, records, channels


def _plan(data: Mapping[str, Any]) -> Deployment:
    from dpspec.audit.plans import read_plan

    return read_plan(data)


def _record(data: Mapping[str, Any]) -> Deployment:
    from dpspec.audit.plans import read_record

    return read_record(data)


def _channel(data: Mapping[str, Any]) -> Deployment:
    body = data.get("channel", {k: v for k, v in data.items() if k in ("type", "rows", "inputs", "outputs", "neighbours")})
    rest = {k: data[k] for k in ("subject", "setting", "claim") if k in data}
    setting = {"model": "local", "unit": "report", "neighbouring": "local_replace", **(rest.pop("setting", None) or {})}
    return deployment_of({**rest, "setting": setting, "channel": body}, strict=False)


_IMPORTERS: Mapping[str, Callable[[Mapping[str, Any]], Deployment]] = {
    "deployment": deployment_of,
    "plan": _plan,
    "record": _record,
    "registry": from_registry,
    "opacus": from_opacus,
    "tf-privacy": from_tf_privacy,
    "channel": _channel,
}
