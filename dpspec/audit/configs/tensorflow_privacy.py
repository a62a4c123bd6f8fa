"""TensorFlow Privacy: the DP optimizers and the arguments of ``compute_dp_sgd_privacy`` and of its statement.

Without a word on the sampler, batches cut from a shuffled stream are assumed: that is what an input pipeline does. Microbatches of several
records are clipped as one mean, so one record can turn a clipped vector into its opposite: twice the clip.
"""

from __future__ import annotations

from dpspec.audit.configs._tool import Tool
from dpspec.audit.configs._training import training

TOOL = Tool(
    title="TensorFlow Privacy",
    translate=training,
    names=("tf-privacy", "tfp", "tensorflow"),
    words={
        "microbatches": ("num_microbatches", "microbatches"),
        "microbatch_size": ("microbatch_size",),
        "used_microbatching": ("used_microbatching",),
    },
    marks=("l2_norm_clip", "num_microbatches", "used_microbatching", "max_examples_per_user", "number_of_examples", "tf_privacy"),
    rank=1,
    sampler="shuffled",
    template="""\
# A DP-SGD run with TensorFlow Privacy. Audit it as it stands: dpspec audit THIS-FILE
tool: tensorflow-privacy
noise_multiplier: 1.1
l2_norm_clip: 1.0
batch_size: 256
num_microbatches: 256     # fewer than the batch: several records share one clip, and a record counts twice
number_of_examples: 60000
num_epochs: 60
sampling: poisson         # shuffle: what a tf.data pipeline does, which is another guarantee
epsilon: 2.75             # what is claimed
delta: 1e-6
# max_examples_per_user: 4   # with unit user: the guarantee of all records of one user
""",
)
