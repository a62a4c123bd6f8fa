"""The client in JavaScript, run by Node: the same bytes as ours from the same random words, the same refusals, and reports of its own
randomness that a collector reads."""

from __future__ import annotations

import copy
import json
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpspec.client
from dpspec import client
from dpspec.collector.closing import batch_sizes
from dpspec.collector.export import client_form, device_of
from dpspec.collector.service import take
from dpspec.collector.store import Store
from dpspec.privacy import exact
from tests.local_support import COLUMNS, TEXTS, plan_of

NODE = shutil.which("node")
MODULE = Path(dpspec.client.__file__).parent / "js" / "dpspec-client.mjs"
pytestmark = pytest.mark.skipif(NODE is None, reason="node is not installed")

PROGRAM = """
import { load, report, reportFrom } from MODULE;
import { readFileSync } from "node:fs";
const { forms, cases, fresh } = JSON.parse(readFileSync(0, "utf8"));
const hex = (bytes) => Buffer.from(bytes).toString("hex");
const out = { cases: [], fresh: [] };
for (const [name, limit, x, words, token] of cases) {
  try {
    let i = 0;
    const next = () => BigInt(words[i++]);
    const device = load(forms[name], { epsilon: limit });
    const sent = reportFrom(next, device, x.map(Number), Uint8Array.from(Buffer.from(token, "hex")));
    out.cases.push([hex(sent), i]);
  } catch (error) {
    out.cases.push([error.constructor.name, error.message]);
  }
}
for (const [name, limit, x] of fresh) out.fresh.push(hex(report(load(forms[name], { epsilon: limit }), x)));
process.stdout.write(JSON.stringify(out));
"""

SPECS = {
    "mean": TEXTS["ldp-column-mean"][0],
    "count": TEXTS["ldp-count"][0],
    "histogram": TEXTS["ldp-histogram"][0],
    "fine": COLUMNS.format(n=60, question="estimate histogram(hours, 0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100)\n  by ldp-histogram"),
}


def node(forms: dict[str, Any], cases: list[Any], fresh: list[Any] = []) -> dict[str, Any]:  # noqa: B006
    assert NODE is not None
    program = PROGRAM.replace("MODULE", json.dumps(MODULE.as_uri()))
    given = json.dumps({"forms": forms, "cases": cases, "fresh": fresh})
    done = subprocess.run([NODE, "--input-type=module", "-e", program], input=given, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_both_clients_write_the_same_bytes_from_the_same_words(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(7)
    plans = {name: plan_of(text) for name, text in SPECS.items()}
    forms = {name: client_form(plan) for name, plan in plans.items()}
    devices = {name: device_of(plan) for name, plan in plans.items()}
    odd = [float("nan"), float("inf"), -float("inf"), 1e300, -1e300, 5e-324, 0.0, -0.0, 18.0, 40.0, 65.0, 100.0, 100.00000001, 17.999999999]
    cases, ours = [], []
    for i in range(400):
        name = rng.choice(sorted(plans))
        x = [rng.choice(odd) if rng.random() < 0.4 else rng.uniform(-20, 120) for _ in range(3)]
        words = [rng.getrandbits(64) if rng.random() < 0.9 else rng.choice([0, 2**64 - 1, 2**63]) for _ in range(40)]
        if name in ("histogram", "fine"):
            words = [rng.getrandbits(64) for _ in range(40)]
            if i % 10 == 0:
                words[2] = words[1]  # equal keys: both draw again
        token = rng.randbytes(16)
        stream = b"".join(w.to_bytes(8, "little") for w in words)
        at = 0

        def given(n: int, stream: bytes = stream) -> bytes:
            nonlocal at
            at += n
            return stream[at - n : at]

        monkeypatch.setattr(exact, "random_bytes", given)
        sent = client.report(devices[name], x, token=token)
        ours.append([sent.hex(), at // 8])
        cases.append([name, 1.0, [str(v) if v == v else "NaN" for v in x], [str(w) for w in words], token.hex()])
    for case in cases:
        case[2] = [{"inf": "Infinity", "-inf": "-Infinity"}.get(v, v) for v in case[2]]
    assert node(forms, cases)["cases"] == ours
    assert len({sent for sent, _ in ours}) > 300


def test_it_refuses_what_ours_refuses() -> None:
    form = client_form(plan_of(SPECS["count"]))
    cells = client_form(plan_of(SPECS["histogram"]))
    hemisphere = client_form(plan_of(TEXTS["ldp-mean hemisphere"][0]))
    forms: dict[str, Any] = {"right": form, "hemisphere": hemisphere}

    def lie(name: str, of: Any, change: Any) -> None:
        forms[name] = copy.deepcopy(of)
        change(forms[name])

    lie("coin", form, lambda f: f["draws"][0]["coins"].update(keep=str(2**64 - 2**50)))
    lie("certain", form, lambda f: f["draws"][0]["coins"].update(keep=str(2**64)))
    lie("below", form, lambda f: f["draws"][0]["coins"].update(keep=str(2**60)))
    lie("more", form, lambda f: f.update(debug=1))
    lie("twice", form, lambda f: f["draws"].append(copy.deepcopy(f["draws"][0])))
    lie("width", cells, lambda f: f["draws"][0]["coins"].update(width="1", truth=str(2**64 - 2**45)))
    lie("rule", form, lambda f: f["enforce"]["x"].append({"kind": "identity"}))
    lie("rounds", form, lambda f: f.update(rounds=2))
    cases = [[name, 0.5 if name == "right" else 1.0, ["1", "2", "3"], ["1"] * 40, "00" * 16] for name in forms]
    cases.append(["right", 1.0, ["1", "2"], ["1"] * 40, "00" * 16])
    for (name, *_), (kind, why) in zip(cases, node(forms, cases)["cases"], strict=True):
        assert kind == "ClientError", (name, why)


def test_reports_of_its_own_randomness_are_collected(tmp_path: Path) -> None:
    """3,000 people of whom two thirds satisfy the condition: an estimate within six standard errors (probability 2e-9)."""
    plan = plan_of(COLUMNS.format(n=3000, question="estimate count where age >= 18\n  by ldp-count"))
    people = [[30.0 if i % 3 else 10.0, 1.0, 1.0] for i in range(3000)]
    sent = node({"count": client_form(plan)}, [], [["count", 1.0, x] for x in people])["fresh"]
    device = device_of(plan)
    kept = Store(tmp_path / "reports.db", device, batch_sizes(plan, device))
    assert take(kept, [bytes.fromhex("".join(sent))]) == {"accepted": 3000}
    mean, scale = kept.tallies()[0][0, 0].mean()[0], device.draws[0].channel.scale(device.draws[0].level)
    assert abs((1 + mean) / 2 - 2 / 3) < 6 * scale / 2 / np.sqrt(3000)
    kept.close()
