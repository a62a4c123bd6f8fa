"""The table of docs/mechanisms.md names every mechanism and channel, and its example runs."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import dpspec.privacy.channels
import dpspec.privacy.mechanisms

TEXT = (Path(__file__).parents[2] / "docs" / "mechanisms.md").read_text()


def _classes():
    for package in (dpspec.privacy.channels, dpspec.privacy.mechanisms):
        for module in pkgutil.iter_modules(package.__path__):
            loaded = importlib.import_module(f"{package.__name__}.{module.name}")
            for name, value in inspect.getmembers(loaded, inspect.isclass):
                if (
                    value.__module__ == loaded.__name__
                    and hasattr(value, "scale")
                    and hasattr(value, "kind")
                    and not hasattr(value, "_is_protocol")
                ):
                    yield name, value


CLASSES = sorted(_classes(), key=lambda pair: pair[0])


def test_there_are_classes():
    assert len(CLASSES) > 25


@pytest.mark.parametrize(("name", "value"), CLASSES, ids=[n for n, _ in CLASSES])
def test_documented(name, value):
    rows = [line for line in TEXT.splitlines() if line.startswith(f"| `{name}` |")]
    assert len(rows) == 1
    if isinstance(value.kind, str):
        assert f"`{value.kind}`" in rows[0]
    if hasattr(value, "method"):
        assert f"| `{value.method}` |" in rows[0]
    if isinstance(value.family, str):
        assert f"| {value.family} |" in rows[0]


def test_the_example_runs():
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(code, "docs/mechanisms.md", "exec"), names)
    assert names["events"][0]["count"] == 3  # type: ignore[index]
