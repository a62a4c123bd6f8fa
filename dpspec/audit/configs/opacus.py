"""Opacus: ``make_private`` and ``make_private_with_epsilon``, its schedulers of noise and clip, adaptive clipping, virtual batches."""

from __future__ import annotations

from dpspec.audit.configs._tool import Tool
from dpspec.audit.configs._training import training

TOOL = Tool(
    title="Opacus",
    translate=training,
    names=("pytorch-opacus", "torch-opacus"),
    marks=(
        *("max_grad_norm", "max_per_sample_grad_norm", "poisson_sampling", "grad_sample_mode", "secure_mode", "max_physical_batch_size"),
        *("noise_scheduler", "grad_clip_scheduler", "unclipped_num_std", "opacus", "target_unclipped_quantile"),
    ),
    rank=2,
    sampler="poisson",
    joint=True,
    per_batch=True,
    template="""\
# A DP-SGD run with Opacus. Audit it as it stands: dpspec audit THIS-FILE
tool: opacus
noise_multiplier: 1.1          # noise over clip. Left out beside a target: the answer is the noise that the target needs
max_grad_norm: 1.0             # a list with clipping: per_layer
batch_size: 256                # of one backward pass
gradient_accumulation_steps: 1 # multiplies the batch of one noisy step
n: 60000                       # records in the training set (or sample_rate in place of batch_size and n)
epochs: 60                     # or steps
poisson_sampling: true         # false: batches cut from a permutation, which is another guarantee
epsilon: 2.75                  # what is claimed
delta: 1e-6
neighbouring: add_remove       # what one neighbouring data set differs in: add_remove, zero_out, replace_one
unit: record
""",
)
