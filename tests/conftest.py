"""Which tests run in CI's second step: those marked ``slow``, and those of ``tests/long.txt``, which take more than half a second.

The fast suite is what a developer runs between two edits; what is long is not less true there. ``python -m tests.long`` measures again.
"""

from __future__ import annotations

from pathlib import Path

import pytest

LONG = Path(__file__).with_name("long.txt")


def long() -> frozenset[str]:
    """The node ids of ``tests/long.txt``; one without brackets is of all its parameters."""
    return frozenset(line for line in LONG.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    listed = long()
    for item in items:
        if item.nodeid in listed or item.nodeid.partition("[")[0] in listed:
            item.add_marker(pytest.mark.slow)
