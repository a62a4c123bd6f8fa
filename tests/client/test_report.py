"""A report: what the executor computes for the same record, constant lengths, hostile records, the trust of a client in its file."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from dpspec.client import Client, ClientError, load, read_state, report
from dpspec.client.device import CHANNELS, gaussian_epsilon
from dpspec.client.frame import HEADER, read
from dpspec.client.reporting import made_true as on_device
from dpspec.collector.closing import Collected, state_of
from dpspec.collector.export import client_form, device_of
from dpspec.collector.intake import decode, empty
from dpspec.models.features import Told
from dpspec.privacy import meter
from dpspec.spec.diagnostics import SpecError
from tests.local_support import TEXTS, plan_of, records

NAMES = sorted(TEXTS)
HOSTILE = [np.nan, np.inf, -np.inf, 1e300, -1e300, 5e-324, 0.0]


@pytest.fixture(scope="module")
def plans() -> dict[str, Any]:
    return {name: plan_of(text) for name, (text, _) in TEXTS.items()}


def state_for(plan: Any, device: Any) -> Any:
    return read_state(state_of(Collected(plan, device, ()), 1), device) if device.rounds > 1 else None


@pytest.mark.parametrize("name", NAMES)
def test_a_client_computes_what_the_executor_hands_to_its_channel(name: str, plans: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, labelled = plans[name], TEXTS[name][1]
    x, y = records(plan, labelled=labelled, hostile=True)
    device = device_of(plan)
    seen: list[Any] = []
    theirs = meter._Sum.add

    def spy(self: Any, values: Any, users: int) -> None:
        seen.append(tuple(np.array(v) for v in values) if isinstance(values, tuple) else np.array(values))
        theirs(self, values, users)

    monkeypatch.setattr(meter._Sum, "add", spy)
    from dpspec.data.records import Records
    from dpspec.executor.bind import bound_problem, part_of
    from dpspec.executor.bind import enforced as made_true
    from dpspec.privacy.noise import PublicRandomness, SecureNoise

    release = plan.draft.releases[0]  # as dpspec.executor.run, which has numbers that are none refused when a file is read
    held, _ = made_true(plan.draft, Records(x, y))
    door = meter.Release(release.calibrated, SecureNoise(), mode="release", public=PublicRandomness(0))
    release.module.run(part_of(plan.draft, release, held), bound_problem(plan.draft, release), release.tunables, door)
    state = state_for(plan, device)
    told: Told = {} if state is None else state.told
    n = 20 if device.rounds > 1 else len(x)  # users of the first round
    handed = seen[:1] if device.rounds > 1 else seen
    values: list[Any] = []
    for i in range(n):
        one, label = on_device(device, np.array(x[i : i + 1]), None if y is None else np.array(y[i : i + 1]))
        values.append([v for draw in device.draws for v in draw.feature.values(one, label, told, np.random.default_rng(0))])
    for k, theirs_ in enumerate(handed):
        pair = isinstance(theirs_, tuple) and isinstance(values[0][k], tuple)
        theirs_ = theirs_[0] if isinstance(theirs_, tuple) and not pair else theirs_  # channels of vectors read x of (x, y)
        for part in range(2) if pair else (None,):
            mine = np.concatenate([v[k] if part is None else v[k][part] for v in values])
            wanted = theirs_ if part is None else theirs_[part]
            np.testing.assert_array_equal(mine, wanted[:n])


@pytest.mark.parametrize("name", NAMES)
def test_every_report_of_a_plan_is_equally_long_whatever_the_record(name: str, plans: Any) -> None:
    plan, labelled = plans[name], TEXTS[name][1]
    device = device_of(plan)
    state = state_for(plan, device)
    sent = []
    for value in HOSTILE:
        x = np.full(device.d, value)
        sent.append(report(device, (x, value) if labelled else x, state=state))
        head = read(sent[-1])
        assert head is not None
        assert (head.plan.hex(), head.round) == (plan.sha256, 1)
    assert {len(s) for s in sent} == {device.length}
    assert len({s[40:56] for s in sent}) == len(sent)  # ids are drawn for each
    assert len({s[:40] for s in sent}) == 1
    rows = np.frombuffer(b"".join(sent), dtype=np.uint8).reshape(len(sent), -1)
    from collections import Counter

    refused: Counter[str] = Counter()
    assert len(decode(device, rows, 1, refused)) == len(sent)  # every honest report is a valid one
    assert not +refused


def test_a_record_of_another_shape_is_refused_before_noise(plans: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    device = device_of(plans["ldp-count"])
    from dpspec.privacy import exact

    monkeypatch.setattr(exact, "random_bytes", lambda n: pytest.fail("noise was drawn"))
    for wrong in ([1.0, 2.0], [[1.0, 2.0, 3.0]], "abc", {"x": [1, 2, 3], "y": 1}, {"age": 1, "hours": 2}, None, {"x": ["a", "b", "c"]}):
        with pytest.raises(ClientError):
            report(device, wrong)


def test_a_record_may_name_the_columns(plans: Any) -> None:
    device = device_of(plans["ldp-count"])
    assert len(report(device, {"age": 30, "hours": 40, "tenure": 2})) == device.length


def test_a_client_answers_once_in_this_process_and_in_the_next(plans: Any, tmp_path: Any) -> None:
    device = device_of(plans["ldp-count"])
    one = Client(device, answered=tmp_path / "answered")
    with pytest.raises(ClientError):
        one.report([1.0])  # refused before it counts
    one.report([1.0, 2.0, 3.0])
    with pytest.raises(ClientError, match="has answered"):
        one.report([1.0, 2.0, 3.0])
    with pytest.raises(ClientError, match="has answered"):
        Client(device, answered=tmp_path / "answered").report([1.0, 2.0, 3.0])


# ----------------------------------------------------------------------------------------------------------------------- trust


@pytest.mark.parametrize("name", NAMES)
def test_a_client_recomputes_what_the_plan_states_and_no_less(name: str, plans: Any) -> None:
    plan = plans[name]
    g = plan.guarantee
    form = json.loads(json.dumps(client_form(plan)))
    unit = "attribute" if g.protects == "attributes" else "record"
    load(form, epsilon=g.epsilon, delta=g.delta or 0.0, unit=unit, plan=plan.sha256)
    with pytest.raises(ClientError, match="above the limit"):
        load(form, epsilon=0.99 * g.epsilon, delta=g.delta or 0.0, unit=unit)
    if unit == "attribute":
        with pytest.raises(ClientError, match="above the limit"):
            load(form, epsilon=g.epsilon)


def test_a_gaussian_report_has_no_epsilon_without_a_delta(plans: Any) -> None:
    with pytest.raises(ClientError, match="delta"):
        load(client_form(plans["ldp-mean gaussian"]), epsilon=100.0)


@pytest.mark.parametrize(("mu", "delta"), [(0.1, 1e-6), (1.0, 1e-5), (5.0, 1e-9), (0.01, 0.1)])
def test_the_clients_gaussian_accountant_is_never_below_the_exact_one(mu: float, delta: float) -> None:
    from dpspec.privacy.gaussian import mu_of

    epsilon = gaussian_epsilon(mu, delta)
    if epsilon == 0.0:
        return
    assert mu_of(epsilon, delta) == pytest.approx(mu, rel=1e-8)


def lies(form: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What a server may write that is not the plan."""
    made: dict[str, dict[str, Any]] = {}

    def lie(name: str, change: Any) -> None:
        other = copy.deepcopy(form)
        change(other["draws"][0], other)
        made[name] = other

    lie("a smaller scale than the level's", lambda d, f: d["noise"].update(scale=d["noise"]["scale"] / 10))
    lie("a level of less noise, and its scale", lambda d, f: d.update(level=d["level"] * 10, noise={"scale": 1.0}))
    lie("a larger radius beside the old noise", lambda d, f: d["channel"].update(radius=d["channel"]["radius"] * 10))
    lie("another channel", lambda d, f: d["channel"].update(kind="identity"))
    lie("a field that nobody knows", lambda d, f: d.update(debug=True))
    lie("no field of the noise", lambda d, f: d["noise"].clear())
    lie("rounds without end", lambda d, f: f.update(rounds=2**20))
    lie("a level that is no number", lambda d, f: d.update(level=float("nan")))
    lie("a radius that is infinite", lambda d, f: d["channel"].update(radius=float("inf")))
    lie("a hash of another length", lambda d, f: f.update(plan=f["plan"][:-2]))
    lie("another dimension than the channel's", lambda d, f: f["record"].update(d=f["record"]["d"] + 1))
    return made


@pytest.mark.parametrize("name", ["ldp-mean hemisphere", "ldp-iht"])
def test_a_server_that_lies_is_refused(name: str, plans: Any) -> None:
    form = client_form(plans[name])
    limit = plans[name].guarantee.epsilon
    load(form, epsilon=limit)
    for what, lie in lies(form).items():
        with pytest.raises(ClientError):
            pytest.fail(f"{what}: {load(lie, epsilon=limit)!r:.40}")


def test_a_consistent_file_of_less_noise_is_above_the_limit(plans: Any) -> None:
    from dpspec.collector.export import coins_of
    from dpspec.privacy.channels.hemisphere import Hemisphere
    from dpspec.privacy.forms import noise_of

    form = copy.deepcopy(client_form(plans["ldp-mean hemisphere"]))
    channel = Hemisphere(4, 1.0)
    form["draws"][0].update(level=4.0, noise=noise_of(channel, 4.0), coins=coins_of(channel, 4.0))
    with pytest.raises(ClientError, match="above the limit"):
        load(form, epsilon=2.0)


def test_more_draws_than_the_plan_has_are_added_up(plans: Any) -> None:
    form = copy.deepcopy(client_form(plans["ldp-mean hemisphere"]))
    form["draws"].append({**copy.deepcopy(form["draws"][0]), "name": "again"})
    with pytest.raises(ClientError, match="above the limit"):
        load(form, epsilon=2.0)


def test_a_lie_about_round_or_theta_is_refused_or_harmless(plans: Any) -> None:
    plan = plans["ldp-iht"]
    device = device_of(plan)
    state = state_of(Collected(plan, device, ()), 1)
    for change in (
        {"round": 4},
        {"round": 0},
        {"round": True},
        {"plan": "0" * 64},
        {"told": {}},
        {"told": {"theta": [0.0]}},
        {"told": {"theta": [float("nan")] * 4}},
        {"told": {"theta": ["x"] * 4}},
        {"told": {"theta": [0.0] * 4, "more": [0.0] * 4}},
        {"version": 2},
        {"more": 1},
    ):
        with pytest.raises(ClientError):
            read_state({**state, **change}, device)
    with pytest.raises(ClientError, match="rounds"):
        report(device, ([0.0] * 4, 0.0))
    # any theta of the right shape: the channel takes the gradient into its ball, and its sign has the same two probabilities
    far = read_state({**state, "told": {"theta": [1e300, -1e300, 1e300, 0.0]}}, device)
    channel = device.draws[0].channel
    values = device.draws[0].feature.values(np.ones((1, 4)), np.ones(1), far.told, np.random.default_rng(0))
    assert len(report(device, ([1.0] * 4, 1.0), state=far)) == device.length
    sent = channel.encode(values[0], device.draws[0].level, __import__("dpspec.privacy.noise", fromlist=["StudyNoise"]).SecureNoise())
    assert np.linalg.norm(sent) == pytest.approx(channel.scale(device.draws[0].level))


# -------------------------------------------------------------------------------------------------------------------- the seam


def test_plans_without_a_client_are_refused_by_name() -> None:
    central = """
data
  n = 100, d = 2
  from memory
  private, unit person, neighbours replace-one
  x in ball(l2, 1) by scale

privacy central
  epsilon = 1

release centre
  estimate mean(x)
"""
    with pytest.raises(SpecError) as caught:
        client_form(plan_of(central))
    assert caught.value.diagnostics[0].code == "DP418"
    assert "curator" in caught.value.diagnostics[0].message


def test_the_channels_of_clients_are_all_that_have_a_wire_form() -> None:
    from dpspec.privacy import wire
    from dpspec.privacy.forms import classes

    assert set(CHANNELS) == set(wire._MAKERS)
    for kind, (module, name) in CHANNELS.items():
        assert classes()[kind].__module__ == f"dpspec.privacy.channels.{module}"
        assert classes()[kind].__name__ == name


IMPORTED = """
import sys
sys.modules["cryptography"] = None
from dpspec import client
import json
form = json.loads(sys.argv[1])
device = client.load(form, epsilon=8.0, delta=1e-6)
x = [0.1] * device.d
client.report(device, (x, 0.5) if device.has_y else x, state=None if device.rounds == 1 else client.RoundState(device.plan, 1, {
    name: __import__("numpy").zeros(device.d) for name in device.asks}))
print(json.dumps([sorted({m.split(".")[0] for m in sys.modules if sys.modules[m] is not None} - set(sys.stdlib_module_names)),
                  sorted(m for m in sys.modules if m.startswith("dpspec"))]))
"""


@pytest.mark.parametrize("name", ["ldp-mean gaussian", "ldp-iht", "ldp-histogram", "ldp-mean priv-unit"])
def test_a_client_imports_numpy_and_nothing_else(name: str, plans: Any) -> None:
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:] = {sys.path!r}\n" + IMPORTED, json.dumps(client_form(plans[name]))],
        capture_output=True,
        text=True,
        check=True,
    )
    packages, own = json.loads(done.stdout)
    assert set(packages) <= {"__main__", "dpspec", "numpy"}
    assert {m.split(".")[1] for m in own if "." in m} <= {"client", "models", "numeric", "privacy", "version"}


@pytest.mark.parametrize("dim", [2, 3, 10, 100, 3000])
def test_the_mass_of_a_cap_without_scipy(dim: int) -> None:
    from scipy.special import betainc

    from dpspec.client.cap import mass

    for height in (0.0, 1e-12, 0.3 / dim**0.5, 1 / dim**0.5, 3 / dim**0.5 if dim > 9 else 0.9):
        assert mass(dim, height) == pytest.approx(float(betainc((dim - 1) / 2, (dim - 1) / 2, (1 - height) / 2)), rel=1e-11)


def test_a_cap_that_spends_more_is_refused(plans: Any) -> None:
    form = client_form(plans["ldp-mean priv-unit"])
    load(form, epsilon=2.0)
    for change in ({"height": "0.9"}, {"inside": str(2**64 - 2**54)}, {"height": "nan"}, {"inside": str(2**64)}, {"mean": "0"}):
        other = copy.deepcopy(form)
        other["draws"][0]["coins"].update(change)
        with pytest.raises(ClientError):
            load(other, epsilon=2.0)


def test_headers_are_what_their_page_says(plans: Any) -> None:
    device = device_of(plans["ldp-count"])
    sent = report(device, [1.0, 2.0, 3.0], token=bytes(range(16)))
    assert sent[:8] == b"DPSR\x01\x00\x01\x00"
    assert sent[8:40].hex() == plans["ldp-count"].sha256
    assert sent[40:56] == bytes(range(16))
    assert sent[56:] in (b"\x00", b"\x01")
    assert HEADER.size == 56
    assert read(sent[:55]) is None
    assert read(b"X" + sent[1:]) is None
    assert empty(device)[0, 0].users == 0
