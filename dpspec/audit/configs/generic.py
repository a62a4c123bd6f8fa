"""DP-SGD of no particular tool, in the field's words. What it leaves open is judged under every reading."""

from __future__ import annotations

from dpspec.audit.configs._tool import Tool
from dpspec.audit.configs._training import training

TOOL = Tool(
    title="DP-SGD",
    translate=training,
    names=("dp-sgd", "dpsgd", "training"),
    words={
        "microbatches": ("num_microbatches", "microbatches"),
        "microbatch_size": ("microbatch_size",),
        "used_microbatching": ("used_microbatching",),
    },
    marks=("noise_multiplier", "target_epsilon", "clip_norm", "lot_size", "dp_sgd", "sigma"),
    rank=0,
    template="""\
# A DP-SGD run, in the field's words. Audit it as it stands: dpspec audit THIS-FILE
tool: generic
noise_multiplier: 1.0      # noise over clip; or noise_std, with noise_on: sum or mean
clip_norm: 1.0             # a list, with clipping: per_layer and noise_per: joint or layer
batch_size: 500            # times gradient_accumulation_steps; or lot_size, of one noisy step
n: 50000
epochs: 10                 # or steps
sampling: poisson          # poisson, shuffle, fixed, full
epsilon: 1.9               # what is claimed
delta: 1e-5
neighbouring: add_remove
unit: record               # user, with max_examples_per_user
# adaptive_clipping: true  # with count_noise_std, the noise on the count of clipped records
# noise_scheduler: {type: exponential, gamma: 0.99}
""",
)
