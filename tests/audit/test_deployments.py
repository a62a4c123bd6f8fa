"""Public reports as deployers would write them: each file of ``deployments/`` is audited as it stands, and has a row of what is right.

The rows of ``expected*.yaml`` hold the verdict, and numbers within ``tolerance``: ``epsilon`` (both bounds), ``epsilon_lower`` and
``epsilon_upper`` (proved from elsewhere, the audit may not contradict them), and ``says``, text that the report must hold.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dpspec.audit import audit
from dpspec.audit.yamlread import read_yaml
from tests.audit_cases import answer_of, wrong_numbers

HERE = Path(__file__).parent / "deployments"


def _rows() -> dict[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    for file in sorted(HERE.glob("expected*.yaml")):
        for row in read_yaml(file.read_text(encoding="utf-8"), str(file)).data["rows"]:
            assert row["file"] not in found, row["file"]
            found[row["file"]] = row
    return found


ROWS = _rows()


def test_every_file_has_a_row_and_every_row_a_file() -> None:
    files = {f.name for f in HERE.iterdir() if f.is_file() and not f.name.startswith("expected")}
    assert files == set(ROWS)


@pytest.mark.parametrize("name", sorted(ROWS))
def test_deployment(name: str) -> None:
    row = ROWS[name]
    result = audit(HERE / name)
    wrong = wrong_numbers(result, {k: v for k, v in row.items() if k not in ("file", "answer", "says")})
    assert (answer_of(result), wrong) == (row["answer"], []), result.text()
    assert str(row.get("says", "")) in result.text()
    static = result.static
    if static is not None and not math.isinf(static.epsilon):
        assert static.epsilon_lower <= static.epsilon * (1 + 1e-6) + 1e-6
