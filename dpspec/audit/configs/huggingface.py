"""Hugging Face trainers with privacy arguments: private-transformers, dp-transformers and their like.

The batch of one noisy step is that of a device, times the accumulated passes, times the devices. The trainers' samplers shuffle, and their
accountants count Poisson batches: where the configuration is silent both readings are judged.
"""

from __future__ import annotations

from dpspec.audit.configs._tool import Tool
from dpspec.audit.configs._training import training

TOOL = Tool(
    title="Hugging Face trainer",
    translate=training,
    names=("hf", "transformers", "private-transformers", "dp-transformers", "trl"),
    marks=(
        *("per_device_train_batch_size", "per_sample_max_grad_norm", "per_example_max_grad_norm", "num_train_epochs", "ghost_clipping"),
        *("non_private", "disable_dp", "per_gpu_train_batch_size", "model_name_or_path", "private_transformers", "dp_transformers"),
    ),
    rank=4,
    joint=True,
    steps_win=True,
    delta="1/n",
    template="""\
# A private run of a Hugging Face trainer. Audit it as it stands: dpspec audit THIS-FILE
tool: huggingface
per_device_train_batch_size: 32
gradient_accumulation_steps: 8
world_size: 4                    # devices; the batch of one noisy step is the product of the three
num_train_epochs: 3              # or max_steps
train_size: 67349
per_example_max_grad_norm: 0.1
noise_multiplier: 0.75           # left out: the answer is the noise that the target needs
target_epsilon: 8
target_delta: 1e-5
sampling: poisson                # or shuffle: what the trainer's own sampler does
ghost_clipping: true             # changes nothing
""",
)
