"""``minimise pairwise LOSS over SET``: a loss of two records, in w, x1, y1, x2, y2."""

from __future__ import annotations

from dpspec.spec.model import Minimise
from dpspec.tasks.minimise import certificate
from dpspec.tasks.protocol import Task

TASK = Task(
    name="minimise-pairwise",
    serves=lambda node: isinstance(node, Minimise) and node.pairwise,
    words=("minimise-pairwise",),
    certificate=certificate,
)
