"""``python -m tests.long [PATHS]``: run the tests of these files and folders one after the other, and write those that take more than 0.5
seconds of CPU to ``long.txt``. Tests that are marked ``slow`` are left out; what the list says of other files stays.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator

import pytest

from tests.conftest import LONG, long

LONG_FROM = 0.5
HEAD = "# Tests of more than half a second of CPU: CI's second step runs them. Written by `python -m tests.long`.\n"


class Clock:
    """CPU seconds of each test, those of its processes included."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        before = sum(os.times()[:4])
        found = yield
        self.seconds[item.nodeid] = sum(os.times()[:4]) - before
        return found


def write(names: Iterable[str]) -> None:
    LONG.write_text(HEAD + "".join(f"{name}\n" for name in sorted(names)), encoding="utf-8")


def main(paths: list[str]) -> int:
    clock = Clock()
    elsewhere = {name for name in long() if paths and not any(name.startswith(path.rstrip("/")) for path in paths)}
    write(elsewhere)
    code = pytest.main(["-o", "addopts=", "-q", "-m", "not slow", *(paths or ["tests"])], plugins=[clock])
    write(elsewhere | {name for name, seconds in clock.seconds.items() if seconds >= LONG_FROM})
    return int(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
