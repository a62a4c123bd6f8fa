"""A limit for one attribute holds against a server that writes the client file: no entry of a record moves the report of another."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from dpspec import client
from dpspec.client.device import coins_of
from dpspec.collector.intake import decode
from dpspec.privacy.channels.randomized_response import KaryResponse
from dpspec.privacy.forms import mechanism_json, noise_of

TASKS = 200


def form(rules: list[dict[str, Any]], level: float = 1.0) -> dict[str, Any]:
    channel = KaryResponse(3)
    draw = {
        "name": "answers",
        "count": TASKS,
        "feature": {"kind": "answers", "labels": [0.0, 1.0, 2.0], "symbols": 3},
        "channel": mechanism_json(channel),
        "level": level,
        "noise": noise_of(channel, level),
        "coins": coins_of(channel, level),
    }
    return {
        "format": "dpspec-client",
        "version": 1,
        "plan": "0" * 64,
        "rounds": 1,
        "record": {"d": TASKS, "y": False, "columns": [], "missing": False},
        "enforce": {"x": rules, "y": []},
        "protects": "attributes",
        "draws": [draw],
    }


@pytest.mark.parametrize(
    "rule",
    [
        {"kind": "clip", "low": 0.0, "high": 2.0, "reject": True},
        {"kind": "nearest", "values": [0.0, 1.0, 2.0], "reject": True},
        {"kind": "scale", "norm": "linf", "radius": 2.0, "reject": False},
    ],
)
def test_a_rule_that_spreads_one_entry_over_all_is_refused(rule: dict[str, Any]) -> None:
    with pytest.raises(client.ClientError, match="one entry change the others"):
        client.load(form([rule]), epsilon=1.0, unit="attribute")
    client.load(form([rule]), epsilon=float(TASKS), unit="record")


@pytest.mark.parametrize("last", [np.inf, -np.inf, np.nan])
def test_an_entry_that_is_no_number_moves_no_other_report(last: float) -> None:
    """At epsilon = 20 a code differs from its entry with probability below 1e-8."""
    rule = {"kind": "clip", "low": 0.0, "high": 2.0, "reject": False}
    device = client.load(form([rule], level=20.0), epsilon=20.0, unit="attribute")
    record = np.ones(TASKS)
    record[-1] = last
    rows = np.frombuffer(client.report(device, record), dtype=np.uint8)[None]
    codes = decode(device, rows, 1, Counter()).numbers[0].ravel()
    assert (codes[:-1] == 1).sum() > TASKS - 5


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_a_run_leaves_the_other_entries_of_a_record_alone(bad: float) -> None:
    """Under `attribute` neighbours differ in one entry: what is enforced may differ in that entry only, dense, sparse or generated."""
    from scipy.sparse import csr_array

    from dpspec.data.enforce import enforce
    from dpspec.data.records import Records
    from dpspec.lang.source import parse_text
    from tests.conformance.cases import ROOT

    text = (ROOT / "specs/crowdsourcing/private-majority-voting.dps").read_text()
    data = parse_text(text, surface="dps").analysis.data
    x = np.where(np.random.default_rng(0).random((4, 6)) < 0.5, 1.0, -1.0)
    other = x.copy()
    other[2, 3] = bad
    for made in (np.array, csr_array):
        one, two = (enforce(Records(made(v.copy())), data, {}, apart=True)[0].x for v in (x, other))
        changed = np.argwhere(np.asarray((one != two) if made is np.array else (one != two).toarray()))
        assert changed.tolist() == [[2, 3]]
