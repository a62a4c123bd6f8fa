"""What a witness says of a printed version: it spends more than it states, and how much at least.

Every fault of a card whose severity is ``privacy`` names a test that calls one of these functions (``tests/docs/test_faults.py`` demands
it). ``python -m tests.leak [WORD ...]`` runs those tests, or those with one of the words in their names, and writes what they said to
``leaks.json``, from which docs/gen_faults.py makes the table of docs/faults.md.
"""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr

FOUND = Path(__file__).with_name("leaks.json")
SAID: list[dict[str, Any]] = []


def _say(stated: float, delta: float, **found: Any) -> None:
    test = os.environ.get("PYTEST_CURRENT_TEST", "").partition(" ")[0].partition("[")[0]
    SAID.append({"test": test, "epsilon": stated, "delta": delta, **found})


def epsilon(found: float, stated: float, delta: float = 0.0) -> None:
    """Two neighbours' laws are at least (``found``, ``delta``) apart where (``stated``, ``delta``) is claimed."""
    assert found > stated * (1 + 1e-6)
    _say(float(stated), float(delta), at_least=float(found))


def delta(found: float, stated: float, epsilon: float) -> None:
    """At ``epsilon`` an event, or the hockey stick of a pair, needs a delta of ``found`` at least where ``stated`` is claimed."""
    assert found > stated * (1 + 1e-6)
    _say(float(epsilon), float(stated), delta_at_least=float(found))


def event(likely: float, unlikely: float, *, stated: float, delta: float = 0.0) -> None:
    """An event of probability ``likely`` under a record has ``unlikely`` under its neighbour."""
    assert likely > delta
    epsilon(math.inf if unlikely == 0 else math.log((likely - delta) / unlikely), stated, delta)


def certain(one: Any, other: Any, *, given: str = "") -> None:
    """What the printed version shows of two neighbours differs whatever the coins are (``given`` what else it shows): delta is 1."""
    assert not np.array_equal(np.asarray(one), np.asarray(other))
    _say(math.nan, math.nan, at_least=math.inf, given=given)


def disjoint(one: set[Any], other: set[Any]) -> None:
    """All outputs of two neighbours: none is shared."""
    assert one and other  # noqa: PT018
    assert not one & other
    _say(math.nan, math.nan, at_least=math.inf, given="")


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Balle and Wang 2018: delta at ``epsilon`` of two unit normals ``mu`` apart."""
    return float(np.exp(log_ndtr(mu / 2 - epsilon / mu)) - np.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu)))


def gaussian_epsilon(mu: float, delta: float) -> float:
    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    return float(brentq(lambda e: gaussian_delta(mu, e) - delta, 0.0, mu**2 / 2 + 10 * mu + 1, xtol=1e-10))


def moved(distance: float, sensitivity: float, *, stated: float = 1.0, delta: float = 1e-6) -> None:
    """Gaussian noise that is exact for ``sensitivity`` at (``stated``, ``delta``), and two neighbours ``distance`` apart."""
    mu = brentq(lambda m: gaussian_delta(m, stated) - delta, 1e-6, 50.0)
    epsilon(gaussian_epsilon(mu * float(distance) / float(sensitivity), delta), stated, delta)


def chosen(one: Any, other: Any, *, sensitivity: float, stated: float = 1.0) -> None:
    """The exponential mechanism for ``sensitivity``, at the scores of two neighbours."""

    def law(scores: Any) -> Any:
        e = stated * np.asarray(scores, dtype=float) / (2 * sensitivity)
        return e - e.max() - math.log(np.exp(e - e.max()).sum())

    epsilon(float(np.abs(law(one) - law(other)).max()), stated)


def main(only: list[str]) -> int:
    import pytest

    from dpspec.algorithms.registry import all_modules
    from tests import leak

    named = {f.evidence for m in all_modules() for f in m.CARD.faults if f.severity == "privacy"}
    wanted = sorted(test for test in named if not only or any(word in test for word in only))
    code = int(pytest.main(["-o", "addopts=", "-q", "-p", "no:cacheprovider", *wanted]))
    known = json.loads(FOUND.read_text(encoding="utf-8")) if FOUND.is_file() else {}
    fresh: dict[str, dict[str, Any]] = {}
    for row in leak.SAID:
        fresh.setdefault(row.pop("test"), rounded(row))
    known |= fresh
    lines = [f"{json.dumps(test)}: {json.dumps(row)}" for test, row in sorted(known.items()) if test in named]
    FOUND.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    return code


def rounded(row: dict[str, Any]) -> dict[str, Any]:
    """Three digits, and words for what JSON has no number for."""
    plain = {k: float(f"{v:.3g}") if isinstance(v, float) and math.isfinite(v) else v for k, v in row.items()}
    return {k: None if isinstance(v, float) and math.isnan(v) else "infinite" if v == math.inf else v for k, v in plain.items()}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
