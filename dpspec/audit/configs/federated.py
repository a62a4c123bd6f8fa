"""DP-FedAvg of no particular tool (TensorFlow Federated and its like): noise on the sum of clipped client updates."""

from __future__ import annotations

from dpspec.audit.configs._federated import federated
from dpspec.audit.configs._tool import Tool

TOOL = Tool(
    title="Federated averaging",
    translate=lambda keys, tool: federated(keys, tool, count_default=1 / 20),
    names=("dp-fedavg", "fedavg", "tff", "tensorflow-federated", "fl"),
    words={"strategy": ("strategy", "aggregator")},
    marks=(
        "clients_per_round",
        "num_clients",
        "total_clients",
        "cohort_size",
        "users_per_round",
        "frac",
        "dp_fedavg",
        "client_fraction",
        "comm_rounds",
    ),
    rank=1,
    sampler="fixed",
    unit="client",
    template="""\
# Federated averaging with clipped updates and noise on their sum. Audit it as it stands: dpspec audit THIS-FILE
tool: federated
noise_multiplier: 1.0        # noise on the sum over the clip; or noise_std, with noise_on: sum or mean
clip_norm: 0.5
clients_per_round: 100
num_clients: 10000
rounds: 500
sampling: poisson            # fixed: a fresh subset of fixed size, which is another guarantee
epsilon: 2.4                 # what is claimed
delta: 1e-5
# adaptive_clipping: true    # with clipped_count_stddev (clients_per_round/20 when left out)
""",
)
