"""Beside each event type a file of the same name: what makes each of its fields weaker, which the tests of all types read."""

from __future__ import annotations

from typing import Any

GAUSS: dict[str, Any] = {"type": "gaussian", "l2_sensitivity": 1, "sigma": 2}
LAPLACE: dict[str, Any] = {"type": "laplace", "l1_sensitivity": 1, "scale": 2}
