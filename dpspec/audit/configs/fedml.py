"""FedML: ``dp_args`` (enable_dp, dp_solution_type, mechanism_type, epsilon, delta, sensitivity) beside ``train_args``.

Noise is calibrated once from epsilon, delta and the stated sensitivity and added in every round, to each update (ldp) or to the aggregate
(cdp).
"""

from __future__ import annotations

from dpspec.audit.configs._federated import federated, local_noise
from dpspec.audit.configs._keys import Keys, refuse
from dpspec.audit.configs._tool import Tool
from dpspec.audit.deployment import Deployment


def translate(keys: Keys, tool: Tool) -> Deployment:
    solution, mechanism = keys.word("solution"), keys.word("mechanism")
    if keys.has("multiplier"):
        keys.raw("mechanism")
        return federated(keys, tool)
    if solution not in ("", "ldp", "local"):
        raise refuse(
            "DP673", f"no model for dp_solution_type {solution!r} without a noise multiplier", "ldp; or describe the run as events"
        )
    if mechanism not in ("", "gaussian", "laplace"):
        raise refuse("DP673", f"no model for mechanism_type {mechanism!r}", "gaussian or laplace")
    return local_noise(keys, tool, mechanism != "laplace")


TOOL = Tool(
    title="FedML",
    translate=translate,
    words={
        "solution": ("dp_solution_type", "dp_type"),
        "mechanism": ("mechanism_type", "dp_mechanism"),
        "sensitivity": ("sensitivity",),
        "ids": ("client_id_list",),
    },
    marks=("dp_solution_type", "mechanism_type", "client_num_per_round", "client_num_in_total", "comm_round", "dp_args", "fedml"),
    rank=3,
    sampler="fixed",
    unit="client",
    template="""\
# Federated training with FedML's local noise. Audit it as it stands: dpspec audit THIS-FILE
tool: fedml
train_args:
  client_num_in_total: 1000
  client_num_per_round: 10
  comm_round: 1             # noise is drawn in every round, and the rounds of one client add up
  epochs: 1
  batch_size: 10
dp_args:
  enable_dp: true
  dp_solution_type: ldp
  mechanism_type: gaussian
  epsilon: 0.9
  delta: 1e-5
  sensitivity: 2.0          # two updates clipped to 1 are up to 2 apart
  clipping_norm: 1.0        # without a clip nothing enforces the sensitivity
""",
)
