"""JAX-Privacy: ``training.dp`` of its experiment configurations, in the older and the newer words."""

from __future__ import annotations

from dpspec.audit.configs._tool import Tool
from dpspec.audit.configs._training import training

TOOL = Tool(
    title="JAX-Privacy",
    translate=training,
    names=("jax", "deepmind-jax-privacy"),
    words={
        "multiplier": ("noise.std_relative", "std_relative"),
        "automatic": ("auto_tune",),
        "physical": ("microbatch_size", "microbatch_size_per_device"),
    },
    marks=(
        "std_relative",
        "stop_training_at_epsilon",
        "auto_tune",
        "rescale_to_unit_norm",
        "num_updates",
        "per_device_per_step",
        "jax_privacy",
    ),
    rank=3,
    accumulates=False,
    template="""\
# A DP-SGD run with JAX-Privacy. Audit it as it stands: dpspec audit THIS-FILE
tool: jax-privacy
num_updates: 2000
num_samples: 50000
sampling: poisson           # or shuffle, where the loader cuts batches from a permutation
training:
  batch_size:
    total: 4096             # of one noisy update
    per_device_per_step: 64 # a matter of memory
  dp:
    clipping_norm: 1.0
    noise_multiplier: 3.0
    delta: 1e-5
    rescale_to_unit_norm: true
    stop_training_at_epsilon: 8.0   # what is claimed; without noise_multiplier, what is asked for
""",
)
