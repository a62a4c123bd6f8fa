"""NVIDIA FLARE: privacy filters on the results of tasks. ``SVTPrivacy`` selects weights by sparse vector and releases them with fresh
noise; ``PercentilePrivacy`` cuts small weights and adds no noise.

SVTPrivacy(fraction f, epsilon, noise_var, gamma) on P weights uploads m = ceil(f P) of them: a threshold with noise 2 gamma/epsilon,
queries with noise 4 gamma m/eps2 for eps2 = epsilon (2m)^(2/3), and Laplace noise 2 gamma/noise_var on each uploaded value, each weight
being clipped to gamma (so that two weights are up to 2 gamma apart).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from dpspec.audit.configs._federated import local_training
from dpspec.audit.configs._keys import Keys, refuse
from dpspec.audit.configs._tool import Configured, Tool
from dpspec.audit.deployment import Deployment, deployment_of


def translate(keys: Keys, tool: Tool) -> Deployment:
    filters = [word for value in (keys.raw("filter"),) for word in (value if isinstance(value, list) else [value])]
    name = str(filters[0]).rsplit(".", 1)[-1]
    if name == "SVTPrivacy":
        events = _svt(keys)
    elif name == "PercentilePrivacy":
        for word in ("percentile", "gamma"):
            keys.raw(word)
        keys.said("PercentilePrivacy cuts weights and adds no noise", "DP622")
        events = [{"type": "exact", "what": "weights above a percentile"}]
    else:
        raise refuse("DP673", f"no model for the filter {name!r}", "SVTPrivacy or PercentilePrivacy")
    rounds = keys.whole("rounds") or 1
    local_training(keys)
    claimed = keys.number("claimed", above=True)
    claim: dict[str, Any] = {"epsilon": claimed} if claimed is not None else {}
    if keys.has("delta"):
        claim["delta"] = keys.number("delta", 0.0, 1.0)
    setting: dict[str, Any] = {"model": "local", "unit": "client", "neighbouring": "local_replace"}
    if rounds > 1:
        setting |= {"events_unit": "round", "repeats": rounds}
    keys.finish()
    found = deployment_of({"subject": f"{tool.title} run", "setting": setting, "claim": claim, "events": events}, strict=False)
    found = replace(found, notes=(*found.notes, *keys.notes))
    return Configured(found.subject, found.setting, found.claim, found.events, notes=found.notes, readings=(("", found),))


def _svt(keys: Keys) -> list[dict[str, Any]]:
    epsilon, noise = keys.number("epsilon", above=True) or 0.1, keys.number("noise_var", above=True) or 0.1
    gamma, fraction = keys.number("gamma", above=True) or 1e-5, keys.number("share", 0.0, 1.0, above=True) or 0.1
    keys.raw("tau")
    if keys.flag("with_replacement"):
        keys.said("indices are drawn with replacement: some of the accepted weights may stay without fresh noise", "DP641")
    weights = keys.whole("weights")
    if weights is None:
        raise refuse(
            "DP674", "missing: parameters, the number of weights of the model", "the number of uploaded values is fraction times it"
        )
    m = min(math.ceil(weights * fraction), weights)
    second = epsilon * (2 * m) ** (2 / 3)
    keys.said(
        f"read as NVIDIA FLARE: sparse vector, {m} positives of {weights}, at {epsilon:g} and {second:.4g}, then {m} values at {noise:g}"
    )
    return [
        {
            "type": "svt",
            "what": "which weights are uploaded",
            "sensitivity": 2 * gamma,
            "threshold_scale": 2 * gamma / epsilon,
            "query_scale": 4 * gamma * m / second,
            "queries": weights,
            "cutoff": m,
            "releases": "index",
        },
        {"type": "laplace", "what": "an uploaded weight", "l1_sensitivity": 2 * gamma, "scale": 2 * gamma / noise, "count": m},
    ]


TOOL = Tool(
    title="NVIDIA FLARE",
    translate=translate,
    names=("flare", "nv-flare"),
    words={
        "filter": ("filters.name", "filters.path", "filters.class_path", "filter"),
        "epsilon": ("filters.args.epsilon", "args.epsilon"),
        "noise_var": ("noise_var",),
        "gamma": ("filters.args.gamma", "args.gamma"),
        "share": ("filters.args.fraction", "args.fraction"),
        "tau": ("tau",),
        "with_replacement": ("filters.args.replace", "args.replace"),
        "percentile": ("percentile",),
        "weights": ("parameters", "num_parameters", "model_size"),
        "claimed": ("claimed_epsilon", "epsilon"),
    },
    marks=("svt_privacy", "percentile_privacy", "task_result_filters", "noise_var", "nvflare", "svtprivacy", "percentileprivacy"),
    rank=5,
    alone=True,
    unit="client",
    template="""\
# A job of NVIDIA FLARE with a privacy filter on results. Audit it as it stands: dpspec audit THIS-FILE
tool: nvflare
format_version: 2
num_rounds: 1
task_result_filters:
- tasks: [train]
  filters:
  - name: SVTPrivacy
    args: {fraction: 0.1, epsilon: 0.1, noise_var: 0.1, gamma: 1e-5, tau: 1e-6}
parameters: 100              # weights of the model: the uploaded share of them is what the budget goes to
claimed_epsilon: 2           # what is claimed
""",
)
