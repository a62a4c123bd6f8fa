"""A collector: the record of the same reports, bit for bit, whatever else arrives, in whatever order, however often it is killed."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpspec import client
from dpspec.client.frame import HEADER, ID_BYTES, header
from dpspec.collector import store as store_module
from dpspec.collector.closing import Collected, batch_sizes, record_of, state_of
from dpspec.collector.export import client_form, device_of
from dpspec.collector.intake import add, decode, empty
from dpspec.collector.plans import plan_of as stored
from dpspec.collector.service import application, collected, follow, open_state, take
from dpspec.collector.store import Store
from dpspec.compiler.influence import influence
from dpspec.executor.run import run
from dpspec.privacy import meter
from dpspec.privacy.noise import SecureNoise
from dpspec.privacy.wire import Tally, codec
from dpspec.report.terminal import influence_line, plan_text
from dpspec.spec.diagnostics import SpecError
from tests.cli.call import call
from tests.local_support import COLUMNS, ROUNDS, TEXTS, plan_of, records

NAMES = sorted(TEXTS)


@pytest.fixture(scope="module")
def plans() -> dict[str, Any]:
    return {name: plan_of(text) for name, (text, _) in TEXTS.items()}


def opened(tmp_path: Path, plan: Any, name: str = "reports.db") -> Store:
    device = device_of(plan)
    return Store(tmp_path / name, device, batch_sizes(plan, device))


def honest(device: Any, n: int, labelled: bool = False, state: Any = None) -> list[bytes]:
    rng = np.random.default_rng(1)
    found = []
    for _ in range(n):
        x = rng.normal(size=device.d)
        found.append(client.report(device, (x, rng.normal()) if labelled else x, state=state))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_the_record_is_that_of_a_run_with_the_same_reports(name: str, plans: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What the executor's clients send is written down as bytes and collected in another order."""
    plan, labelled = plans[name], TEXTS[name][1]
    device = device_of(plan)
    sent: list[tuple[Any, Any]] = []
    theirs = Tally.add

    def spy(self: Any, numbers: Any) -> None:
        sent.append((self.codec, np.array(numbers)))
        theirs(self, numbers)

    monkeypatch.setattr(meter.Tally, "add", spy)
    ran = run(plan, *records(plan, labelled=labelled))
    monkeypatch.undo()

    draws = [(i, k) for i, draw in enumerate(device.draws) for k in range(draw.count)]
    kept = opened(tmp_path, plan)
    for at in range(device.rounds):
        round_ = sent[at * len(draws) : (at + 1) * len(draws)]
        bits = np.concatenate([device.draws[i].codec.pack(numbers) for (i, _), (_, numbers) in zip(draws, round_, strict=True)], axis=1)
        payload = np.packbits(bits, axis=1, bitorder="little")
        mine = [header(at + 1, device.plan, random.randbytes(ID_BYTES)) + row.tobytes() for row in payload]
        random.Random(at).shuffle(mine)
        for start in range(0, len(mine), 7):
            assert take(kept, [b"".join(mine[start : start + 7])])["accepted"] == len(mine[start : start + 7])
        follow(plan, kept)
    record = record_of(collected(plan, kept), kept.started)
    assert record.body["events"] == ran.body["events"]
    for key in ("plan_sha256", "guarantee", "schedule", "mode", "environment"):
        assert record.body[key] == ran.body[key]
    for release, arrays in ran.outputs.items():
        assert set(arrays) == set(record.outputs[release])
        for array, value in arrays.items():
            np.testing.assert_array_equal(record.outputs[release][array], value)
    kept.close()


def test_what_is_no_report_is_counted_and_changes_nothing(plans: Any, tmp_path: Path) -> None:
    plan = plans["ldp-mean hemisphere"]
    device = device_of(plan)
    good = honest(device, 40)
    rng = random.Random(3)
    odd = [b"", b"DPSR", rng.randbytes(1000), good[0][:-1], good[1] + b"\x00", b"\x00" * device.length, b"\xff" * device.length]
    odd += [good[2][:8] + rng.randbytes(32) + good[2][40:], good[3][:6] + b"\x02\x00" + good[3][8:]]  # another plan, another round
    odd += [good[4][:56] + b"\xff" * (device.length - 56), good[5][:56] + bytes(device.length - 56)]  # no directions
    odd += [good[6], good[6]]
    clean, dirty = opened(tmp_path, plan, "clean.db"), opened(tmp_path, plan, "dirty.db")
    assert take(clean, good) == Counter(accepted=40)
    mixed = [*good, *odd]
    rng.shuffle(mixed)
    counted: Counter[str] = Counter()
    for piece in mixed:
        counted += take(dirty, [piece])
    assert counted["accepted"] == 40
    assert counted["duplicate"] >= 2
    assert counted["another plan"] == counted["another round"] == 1
    assert counted["malformed"] >= 6
    assert dirty.refused() == {k: v for k, v in sorted(counted.items()) if k != "accepted"}
    for a, b in zip(clean.tallies(), dirty.tallies(), strict=True):
        np.testing.assert_array_equal(a[0, 0].sums, b[0, 0].sums)
    clean.close()
    dirty.close()


def test_a_stream_goes_on_after_what_is_no_report(plans: Any, tmp_path: Path) -> None:
    plan = plans["ldp-count"]
    device = device_of(plan)
    good = honest(device, 30)
    stream = good[0] + b"junk" + good[1] + random.Random(0).randbytes(333) + b"".join(good[2:29]) + good[29][:-3]
    for size in (1, 13, 57, 10_000):
        kept = opened(tmp_path, plan, f"{size}.db")
        counted = take(kept, [stream[i : i + size] for i in range(0, len(stream), size)])
        assert counted["accepted"] == 29
        assert counted["malformed"] == 3
        kept.close()


def test_random_bytes_never_fail(plans: Any, tmp_path: Path) -> None:
    rng = random.Random(5)
    for name in NAMES:
        device = device_of(plans[name])
        kept = opened(tmp_path, plans[name], f"{NAMES.index(name)}.db")
        begin = header(1, device.plan, bytes(16))[:40]
        pieces = [begin + rng.randbytes(device.length - 40) for _ in range(20)] + [rng.randbytes(rng.randrange(200)) for _ in range(20)]
        counted = take(kept, [b"".join(pieces)])
        assert counted["accepted"] <= 20
        assert kept.users(1) == counted["accepted"]
        kept.close()


@pytest.mark.parametrize("name", NAMES)
def test_no_valid_report_moves_the_mean_by_more_than_is_stated(name: str, plans: Any) -> None:
    """Random bits that decode, and the extremes, in the place of one of ten reports."""
    plan = plans[name]
    device = device_of(plan)
    rng = np.random.default_rng(0)
    for draw in device.draws:
        bits = rng.random((400, draw.codec.bits)) < rng.choice([0.0, 0.5, 1.0, 0.02, 0.98], (400, 1))
        numbers, valid = draw.codec.unpack(bits)
        numbers = numbers[valid]
        own = _own(device, draw)
        pool = np.concatenate([numbers, own])
        tallies = [Tally.empty(draw.codec) for _ in pool]
        for tally, row in zip(tallies, pool, strict=True):
            tally.add(np.concatenate([np.repeat(own, 9, axis=0), row[None]]))
        means = np.array([np.ravel(t.mean()) for t in tallies])
        moved = np.linalg.norm(means[:, None] - means[None, :], axis=2).max()
        assert moved <= draw.codec.reach() / 10 * (1 + 1e-9)
    stated = influence(plan.draft, 3)
    assert [row["moves"] for row in stated] == [3 * d.codec.reach() / min(batch_sizes(plan, device)) for d in device.draws]


def test_the_plan_states_what_one_hostile_user_can_move(plans: Any) -> None:
    """By hand for the channels of a mean: two reports of length B are 2B apart, two noisy vectors twice the longest valid one."""
    for name, by_hand in {
        "ldp-mean hemisphere": lambda c, level: 2 * c.scale(level),
        "ldp-mean priv-unit": lambda c, level: 2 * c.scale(level),
        "ldp-mean sampled-coordinate": lambda c, level: 2 * c.scale(level),
        "ldp-mean gaussian": lambda c, level: 2 * (c.radius + c.scale(level) * (2.0 + 12.0)),  # sqrt(d) = 2
        "ldp-count": lambda c, level: 2 * c.scale(level),
    }.items():
        plan = plans[name]
        (draw,) = device_of(plan).draws
        body = plan.to_json()
        (row,) = body["influence"]
        assert (row["users"], row["malicious"]) == (60, 1)
        assert row["moves"] == pytest.approx(by_hand(draw.channel, draw.level) / 60, rel=1e-5)
        assert influence_line(row) in plan_text(body)
    curator = plan_of(TEXTS["ldp-count"][0].replace("privacy nldp", "privacy central").replace("\n  by ldp-count", ""))
    assert curator.to_json()["influence"] == []


def test_no_valid_bytes_move_a_released_mean_further(plans: Any) -> None:
    """One user of ten against the other nine: whatever the decoder takes, the released mean moves by at most what is stated for n = 10."""
    rng = np.random.default_rng(3)
    for name in ("ldp-mean hemisphere", "ldp-mean sampled-coordinate", "ldp-mean gaussian"):
        plan = plans[name]
        device = device_of(plan)
        (row,) = influence(plan.draft)
        honest = [client.report(device, v) for v in rng.normal(size=(9, device.d))]
        hostile = [client.report(device, s * 1e9 * e) for s in (-1, 1) for e in np.eye(device.d)]
        hostile += [h[: HEADER.size] + rng.bytes(device.payload_bytes) for h in hostile * 50]
        released = []
        for report in hostile:
            block = np.frombuffer(b"".join([*honest, report]), dtype=np.uint8).reshape(10, -1)
            found = decode(device, block, 1, Counter())
            tallies = empty(device)
            add(device, tallies, found)
            if len(found) == 10:
                released.append(np.ravel(tallies[0, 0].mean()))
        assert len(released) >= 2 * device.d
        moved = max(np.linalg.norm(a - b) for a in released for b in released)
        assert 0 < moved <= row["moves"] * 60 / 10 * (1 + 1e-9)


def _zeros(device: Any) -> tuple[Any, Any, Any]:
    return np.zeros((1, device.d)), np.zeros(1), {name: np.zeros(device.d) for name in device.asks}


def _own(device: Any, draw: Any) -> Any:
    """The integers of an honest report on a record of zeros."""
    values = draw.feature.values(*_zeros(device), np.random.default_rng(0))
    return draw.codec.numbers(draw.channel.encode(values[0], draw.level, SecureNoise()))


def test_tokens_are_answered_once_and_by_nobody_else(plans: Any, tmp_path: Path) -> None:
    plan = plans["ldp-count"]
    device = device_of(plan)
    tokens = [bytes([i]) * 16 for i in range(5)]
    kept = opened(tmp_path, plan)
    assert kept.give(tokens) == 5
    assert kept.give(tokens[:2]) == 0
    sent = [client.report(device, [1.0, 2.0, 3.0], token=t) for t in tokens]
    again = client.report(device, [99.0, 2.0, 3.0], token=tokens[0])
    stranger = client.report(device, [1.0, 2.0, 3.0])
    counted = take(kept, [b"".join([*sent, again, stranger])])
    assert counted == Counter({"accepted": 5, "duplicate": 1, "no token of this plan": 1})
    kept.close()


def test_a_batch_that_fails_halfway_leaves_nothing(plans: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plans["ldp-count"]
    device = device_of(plan)
    good = honest(device, 20)
    kept = opened(tmp_path, plan)
    take(kept, [b"".join(good[:10])])

    def broken(*_: Any) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(store_module, "_count", broken)  # after ids and sums were written
    with pytest.raises(OSError, match="full"):
        take(kept, [b"".join(good[10:])])
    monkeypatch.undo()
    assert kept.users(1) == 10
    kept.close()
    kept = opened(tmp_path, plan)  # another process goes on
    assert take(kept, [b"".join(good)]) == Counter({"accepted": 10, "duplicate": 10})
    kept.close()


def test_a_store_belongs_to_one_plan(plans: Any, tmp_path: Path) -> None:
    opened(tmp_path, plans["ldp-count"]).close()
    with pytest.raises(SpecError, match="DP419"):
        opened(tmp_path, plans["ldp-histogram"])
    device = device_of(plans["ldp-count"])
    with pytest.raises(SpecError, match="SQLite"):
        Store("postgresql://user:secret@host/base", device, (60,))
    with pytest.raises(SpecError, match="DP419"):
        Store(tmp_path / "absent" / "reports.db", device, (60,))


def test_more_users_than_the_plan_has_are_refused(plans: Any, tmp_path: Path) -> None:
    plan = plans["ldp-count"]
    kept = opened(tmp_path, plan)
    assert take(kept, honest(device_of(plan), 62)) == Counter({"accepted": 60, "the round is full": 2})
    kept.close()


def test_fewer_users_make_a_record_only_when_asked_and_the_count_is_of_them(plans: Any, tmp_path: Path) -> None:
    plan = plans["ldp-count"]
    kept = opened(tmp_path, plan)
    take(kept, honest(device_of(plan), 50))
    with pytest.raises(SpecError, match="DP419"):
        record_of(collected(plan, kept), kept.started)
    record = record_of(collected(plan, kept), kept.started, partial=True)
    assert record.body["events"][0]["users"] == 50
    share = kept.tallies()[0][0, 0].mean()[0]
    assert float(record.outputs["answer"]["value"][0]) == pytest.approx(50 * (1 + share) / 2)
    kept.close()


# ----------------------------------------------------------------------------------------------------------------------- rounds


def test_a_round_is_told_what_the_rounds_before_gave(plans: Any, tmp_path: Path) -> None:
    plan = plans["ldp-iht"]
    device = device_of(plan)
    kept = opened(tmp_path, plan)
    thetas, late = [], b""
    for at in range(3):
        state = client.read_state(json.loads(json.dumps(open_state(plan, kept))), device)
        assert state.round == at + 1
        thetas.append(state.told["theta"])
        sent = honest(device, 20, labelled=True, state=state)
        if at:
            assert take(kept, [late])["another round"] == 1  # of the round that is over
        late = sent[0]
        assert take(kept, [b"".join(sent)])["accepted"] == 20
        follow(plan, kept)
    assert not thetas[0].any()
    assert thetas[1].any()
    assert (thetas[1] != thetas[2]).any()
    record = record_of(collected(plan, kept), kept.started)
    assert record.body["events"][0]["users"] == 60
    again = Collected(plan, device, kept.tallies())
    assert state_of(again, 2)["told"]["theta"] == thetas[1].tolist()
    kept.close()


def test_a_user_with_a_token_answers_in_one_round_alone(plans: Any, tmp_path: Path) -> None:
    plan = plans["ldp-iht"]
    device = device_of(plan)
    kept = opened(tmp_path, plan)
    token = bytes(range(16))
    kept.give([token])
    state = client.read_state(open_state(plan, kept), device)
    assert take(kept, [client.report(device, ([0.0] * 4, 1.0), state=state, token=token)])["accepted"] == 1
    kept.advance(2)
    state = client.read_state(open_state(plan, kept), device)
    assert take(kept, [client.report(device, ([0.0] * 4, 1.0), state=state, token=token)])["duplicate"] == 1
    kept.close()


# ------------------------------------------------------------------------------------------------------------------------- HTTP


def test_the_service_takes_reports_and_tells_the_rounds(plans: Any, tmp_path: Path) -> None:
    pytest.importorskip("httpx", reason="the test client of Starlette needs it")
    testing = pytest.importorskip("starlette.testclient", reason="the extra `collector`")
    plan = plans["ldp-iht"]
    kept = opened(tmp_path, plan)
    http = testing.TestClient(application(plan, kept))
    form = http.get("/client").json()
    assert form == client_form(plan)
    device = client.load(form, epsilon=8.0)
    octets = {"content-type": "application/octet-stream"}
    for at in range(3):
        state = client.read_state(http.get("/state").json(), device)
        assert state.round == at + 1
        sent = honest(device, 20, labelled=True, state=state)
        assert http.post("/reports", content=sent[0], headers=octets).json() == {"accepted": 1}
        assert http.post("/reports", content=b"".join(sent), headers=octets).json() == {"accepted": 19, "duplicate": 1}
        assert http.post("/reports", content=b"no report", headers=octets).json() == {"malformed": 1}
    assert http.post("/reports", content=b"x", headers={"content-type": "text/plain"}).status_code == 415
    assert http.post("/reports", content=bytes((1 << 23) + 1), headers=octets).status_code == 413
    assert http.get("/reports").status_code == 405
    status = http.get("/status").json()
    assert status["users"] == [20, 20, 20]
    assert status["refused"] == {"duplicate": 3, "malformed": 3}
    assert record_of(collected(plan, kept), kept.started).body["events"][0]["users"] == 60
    kept.close()


# ---------------------------------------------------------------------------------------------------------------------- command


def test_the_command_collects_files_folders_and_streams(tmp_path: Path) -> None:
    spec = tmp_path / "count.dps"
    spec.write_text('analysis "count"\n' + COLUMNS.format(n=30, question="estimate count where age >= 18\n  by ldp-count"))
    assert call("plan", str(spec), "--out", str(tmp_path / "plan.json"), "-q").code == 0
    assert call("client", str(tmp_path / "plan.json"), "--out", str(tmp_path / "client.json")).code == 0
    device = client.load(tmp_path / "client.json", epsilon=1.0, plan=json.loads((tmp_path / "plan.json").read_text())["sha256"])
    sent = honest(device, 30)
    (tmp_path / "inbox" / "deep").mkdir(parents=True)
    (tmp_path / "inbox" / "one").write_bytes(sent[0])
    (tmp_path / "inbox" / "deep" / "more.bin").write_bytes(b"".join(sent[1:20]))
    first = call("collect", str(spec), str(tmp_path / "inbox"), "--format", "json")
    assert first.code == 0
    body = json.loads(first.stdout)
    assert (body["added"], body["users"], body["record"]) == ({"accepted": 20}, [20], None)
    assert call("collect", str(spec), "--out", str(tmp_path / "early")).code == 1
    assert not (tmp_path / "early").exists()
    (tmp_path / "rest").write_bytes(b"".join(sent[15:]))
    words = ("--store", str(tmp_path / "count.reports.db"), "--out", str(tmp_path / "released"))
    last = call("collect", str(tmp_path / "plan.json"), str(tmp_path / "rest"), *words)
    assert last.code == 0, last.stderr
    assert "one user moves the mean of answer" in last.stdout
    assert json.loads((tmp_path / "released" / "record.json").read_text())["events"][0]["users"] == 30
    assert stored(tmp_path / "plan.json").sha256 == device.plan.hex()


def test_the_command_publishes_the_state_of_a_round(tmp_path: Path) -> None:
    spec = tmp_path / "rounds.dps"
    spec.write_text('analysis "rounds"\n' + ROUNDS.format(n=9))
    plan = stored(spec)
    device = device_of(plan)
    for at in range(3):
        name = str(tmp_path / f"state{at}.json")
        assert call("collect", str(spec), "--rounds", name).code == 0
        state = client.read_state(name, device)
        assert state.round == at + 1
        (tmp_path / f"batch{at}").write_bytes(b"".join(honest(device, 3 - (at == 1), labelled=True, state=state)))
        words = ("--partial",) if at == 1 else ()
        done = call("collect", str(spec), str(tmp_path / f"batch{at}"), *words, "--format", "json")
        assert done.code == 0, done.stderr
    assert json.loads(done.stdout)["record"]["events"][0]["users"] == 8


def test_the_codec_of_every_channel_keeps_what_it_packs() -> None:
    for text, _ in TEXTS.values():
        device = device_of(plan_of(text))
        for draw in device.draws:
            own = _own(device, draw)
            back, valid = codec(draw.channel, draw.level).unpack(draw.codec.pack(own))
            assert valid.all()
            np.testing.assert_array_equal(back, own)
