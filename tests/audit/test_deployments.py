"""Public reports as deployers would write them: each file of ``deployments/`` is audited as it stands, and has a row of what is right.

The rows of ``expected*.yaml`` hold the verdict, and numbers within ``tolerance``: ``epsilon`` (both bounds), ``epsilon_lower`` and
``epsilon_upper`` (proved from elsewhere, the audit may not contradict them), and ``says``, text that the report must hold.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from dpspec.audit import audit
from dpspec.audit.yamlread import read_yaml
from dpspec.spec.diagnostics import SpecError
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


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] if ROWS[n].get("slow") else []) for n in sorted(ROWS)])
def test_deployment(name: str) -> None:
    row = ROWS[name]
    result = audit(HERE / name)
    wrong = wrong_numbers(result, {k: v for k, v in row.items() if k not in ("file", "answer", "says", "slow")})
    assert (answer_of(result), wrong) == (row["answer"], []), result.text()
    assert str(row.get("says", "")) in result.text()
    static = result.static
    if static is not None and not math.isinf(static.epsilon):
        assert static.epsilon_lower <= static.epsilon * (1 + 1e-6) + 1e-6


# ------------------------------------------------------------------------------------------------ every field of every case is read

#: For the reader alone (docs/audit.md), or a list that is a channel.
_INFORMATION = {
    "audit", "subject", "what", "text", "note", "method", "condition", "inputs", "outputs", "name", "type", "rows", "model", "unit",
    "events_unit",
}  # fmt: skip
#: Where a field of a case moves nothing, and why.
_INERT = {
    "neighbouring": "sensitivities are stated for the relation, and no norm bound or sampler is described",
    "n": "delta is far below 1/n, or the mean's noise is in proportion to 1/n",
    "range": "the mean's noise is in proportion to the range",
    "n_public": "a replaced record leaves the number of records as it is",
    "rule": "a name of a rule that is not re-evaluated, for the reader (docs/audit.md)",
    "parts": "one unit lies in fewer parts than there are",
    "candidates": "two candidates attain what many do",
    "queries": "a cut-off bounds them, or the log-ratio is attained in the limit",
    "releases": "the word is the one that is taken when none is stated",
    "ties": "the word is the one that is taken when none is stated",
    "overflow": "the word is the one that is taken when none is stated",
    "key_set": "the word is the one that is taken when none is stated",
    "variant": "the claim has no epsilon that the word could contradict",
    "folded": "folding hides the sign, and the loss at output 0 stays",
    "bound": "half a bound is rounded away whatever the bound is",
}
_QUICK = (
    "diffprivlib-linreg-diagonal.2", "sn-core-360-two-bins", "pipelinedp-549-two-partitions", "noisy-max-returns-value", "rappor-defaults",
    "linkedin-hiring-event", "census-pl94-conversion", "recurve-amplification", "ledger-check-then-spend", "spend-falls-with-less-noise",
    "subset-selection-exact", "opendp-2922-tie-at-threshold",
)  # fmt: skip


def _leaves(data: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if isinstance(data, Mapping):
        for key, value in data.items():
            yield from _leaves(value, (*at, key))
    elif isinstance(data, list):
        for i, value in enumerate(data):
            yield from _leaves(value, (*at, i))
    else:
        yield at, data


def _with(data: Any, at: tuple[Any, ...], value: Any) -> Any:
    changed = copy.deepcopy(data)
    place = changed
    for key in at[:-1]:
        place = place[key]
    if value is None:
        del place[at[-1]]
    else:
        place[at[-1]] = value
    return changed


def _others(value: Any) -> list[Any]:
    """Other values of a field: half, twice and ten times as much, the opposite, or the word left out."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value * 2, value + 1, value // 2] if value else [1]
    return [value * 1.7, value / 1.7, value * 10] if isinstance(value, float) else [None]


def _told(data: Any) -> object:
    try:
        result = audit(data)
    except SpecError:
        return "refused"
    s, e = result.static, result.exact
    numbers = None if s is None else (s.epsilon, s.epsilon_lower, s.rho, s.rho_lower, s.delta, s.delta_at_claim, s.alternatives)
    exact = None if e is None else (e.epsilon, e.one_report, e.delta_needed)
    findings = tuple((f.code, f.message) for f in result.findings)
    return result.verdict, result.tool_fault, numbers, exact, tuple(sorted(result.recomputed.items())), findings


def _nothing_bounded(numbers: tuple[float, ...]) -> bool:
    return math.isinf(numbers[0]) and (numbers[1] == 0 or math.isinf(numbers[1]))


def _unmoved(name: str) -> list[str]:
    data = read_yaml((HERE / name).read_text(encoding="utf-8"), name).data
    if "audit" not in data:
        return []  # a configuration: test_configs.py
    base = _told(data)
    # nothing is bounded, or what is stated contradicts itself: no number can move
    nothing = isinstance(base, tuple) and base[3] is None and (base[2] is None or _nothing_bounded(base[2]) or base[0] == "inconsistent")
    budget = "ledger" in data.get("tool", {})  # of any size: the release that passes the last check beside another one overspends it
    found = []
    for at, value in _leaves(data):
        key = next(k for k in reversed(at) if isinstance(k, str))
        inert = key in _INFORMATION or key in _INERT or (key.endswith("sensitivity") and "epsilon" in _node(data, at))
        inert = inert or (at == ("claim", "epsilon") and (budget or value == 0))  # no claim lies below 0
        if not inert and not nothing and all(_told(_with(data, at, other)) == base for other in _others(value)):
            found.append(".".join(map(str, at)))
    return found


def _node(data: Any, at: tuple[Any, ...]) -> Any:
    for key in at[:-1]:
        data = data[key]
    return data


@pytest.mark.parametrize("name", _QUICK)
def test_every_field_of_a_case_moves_the_verdict_or_a_number(name: str) -> None:
    assert _unmoved(f"{name}.yaml") == []


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(ROWS) - {f"{name}.yaml" for name in _QUICK}))
def test_every_field_of_every_case_moves_the_verdict_or_a_number(name: str) -> None:
    assert _unmoved(name) == []
