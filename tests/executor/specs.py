"""Small specs for the tests of studies, and the command as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SPARSE = """\
analysis "sparse regression in two rounds of grid"

data
  n = 20_000, d = 5
  private, unit person, neighbours replace-one

privacy nldp
  epsilon = 4, delta = 1e-5

assume
  sparse(1)
  sub-gaussian(1) of x
  sub-gaussian(1.2) of y

release theta
  estimate theta in y = <theta, x> + noise
  by nldp-sparse-linear-regression with r = 8, tau2 = 5

simulate
  theta = sparse(1) unit l2
  x ~ normal(0, I)
  y = <theta, x> + normal(0, 0.25)

study
  vary n in [20_000, 40_000]
  vary epsilon in [2, 4, 8]
  trials 25, seed 3
"""

LOGISTIC = """\
analysis "logistic"

data
  n = 1_000, d = 3
  private, unit person, neighbours replace-one
  x in ball(l2, 1) by scale
  y in {-1, 1} by map(0 -> -1, 1 -> 1)

privacy central
  epsilon = 2, delta = 1e-6

release weights
  minimise logistic over ball(l2, 1)
  by dp-gd with method = nesterov

simulate
  theta = dense unit l2
  x ~ uniform-ball
  y ~ bernoulli-logistic(5*<theta, x>)

study
  vary n in [2000, 4000, 8000]
  trials 5, seed 1
"""


def start(*words: str, cwd: Path) -> subprocess.Popen[str]:
    """``python -m dpspec WORDS`` in a folder, as its own process group leader."""
    root = Path(__file__).resolve().parents[2]
    env = {**os.environ, "PYTHONPATH": str(root), "NO_COLOR": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "dpspec", *words],
        cwd=cwd,
        env=env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
