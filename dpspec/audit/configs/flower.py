"""Flower: the differential privacy wrappers of strategies (server or client side, fixed or adaptive clip) and ``LocalDpMod``.

The noise is added to the mean of the updates, in proportion to clip over ``num_sampled_clients``; a weighted strategy bounds no client's
share by the clip. An adaptive clip spends its share inside the stated multiplier, by default with noise
num_sampled_clients/20 on the count.
"""

from __future__ import annotations

from dpspec.audit.configs._federated import federated, local_noise
from dpspec.audit.configs._keys import Keys
from dpspec.audit.configs._tool import Tool
from dpspec.audit.deployment import Deployment


def translate(keys: Keys, tool: Tool) -> Deployment:
    keys.raw("side")
    strategy = keys.word("strategy")
    if keys.has("sensitivity") or "local" in strategy:
        keys.raw("mods")
        return local_noise(keys, tool)
    return federated(keys, tool, averages=True, count_default=1 / 20)


TOOL = Tool(
    title="Flower",
    translate=translate,
    names=("flwr",),
    words={
        "strategy": ("strategy", "dp_strategy", "strategy_name", "wrapper"),
        "side": ("dp_mode", "dp_side", "clipping_side"),
        "sensitivity": ("sensitivity", "dp_sensitivity"),
        "mods": ("mods", "client_mods"),
        "clip_rule": ("clip_norm_target",),
    },
    marks=(
        *(
            "num_sampled_clients",
            "num_server_rounds",
            "fraction_fit",
            "fraction_train",
            "num_supernodes",
            "flwr",
            "local_dp_mod",
            "min_fit_clients",
        ),
        *(f"differential_privacy_{side}_side_{kind}_clipping" for side in ("server", "client") for kind in ("fixed", "adaptive")),
    ),
    rank=3,
    sampler="fixed",
    unit="client",
    template="""\
# Federated training with Flower's differential privacy wrapper. Audit it as it stands: dpspec audit THIS-FILE
tool: flower
strategy: DifferentialPrivacyServerSideFixedClipping   # or ...AdaptiveClipping, with clipped_count_stddev
noise_multiplier: 1.0
clipping_norm: 1.0
num_sampled_clients: 100     # the mean is noised by noise_multiplier x clipping_norm / num_sampled_clients
num_clients: 10000           # in total
num_server_rounds: 500
weighting: uniform           # a strategy that weighs by examples bounds no client's share
sampling: poisson            # fixed: a fresh subset of fixed size, which is another guarantee
epsilon: 2.4                 # what is claimed
delta: 1e-5
""",
)
