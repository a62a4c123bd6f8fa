"""fast-differential-privacy (fastDP): ``PrivacyEngine`` with batch_size (logical), sample_size, clipping style by layers of one clip."""

from __future__ import annotations

from dpspec.audit.configs._tool import Tool
from dpspec.audit.configs._training import training

TOOL = Tool(
    title="fastDP",
    translate=training,
    names=("fast-dp", "fast-differential-privacy"),
    words={"layers_shown": ("origin_params",), "tolerance": ("eps_error",)},
    marks=(
        "clipping_mode",
        "clipping_style",
        "clipping_fn",
        "num_gpus",
        "torch_seed_is_fixed",
        "sample_size",
        "per_device_physical_batch_size",
        "origin_params",
    ),
    rank=1,
    accumulates=False,
    joint=True,
    split=True,
    template="""\
# A private run with fastDP. Audit it as it stands: dpspec audit THIS-FILE
tool: fastdp
batch_size: 256            # logical: of one noisy step
sample_size: 50000
epochs: 3
max_grad_norm: 1.0
clipping_fn: automatic     # automatic, Abadi: no effect on the guarantee
clipping_mode: MixOpt      # a matter of speed
clipping_style: all-layer  # layer-wise divides the clip among the layers
noise_multiplier: 0.8
target_delta: 1e-5
epsilon: 2.1               # what is claimed
sampling: poisson          # or shuffle
torch_seed_is_fixed: false
""",
)
