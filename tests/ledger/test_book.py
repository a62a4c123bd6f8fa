"""The ledger against a model in memory: the same questions, the same answers, and the same sums."""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dpspec.ledger.book import Ledger, Refused, create
from dpspec.ledger.clock import Clock, parse
from dpspec.ledger.limits import make_limit
from dpspec.ledger.verify import verify
from dpspec.spec.diagnostics import SpecError
from tests.ledger import releases
from tests.ledger.releases import COUNTS

DAY = 86400.0


@dataclass(frozen=True)
class Hands(Clock):
    """A clock that a test moves: ``wall`` may jump, ``gone`` is the time that has really gone by."""

    state: dict[str, float] = field(default_factory=lambda: {"wall": 1e6, "gone": 0.0})

    def now(self) -> dt.datetime:
        return dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=self.state["wall"])

    def up(self) -> float:
        return self.state["gone"]

    def boot(self) -> str:
        return "one"


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("ledger") / "empty.db"
    create(str(file)).dispose()
    return file


@pytest.fixture
def fresh(empty: Path, tmp_path: Path) -> Callable[..., Ledger]:
    count = 0

    def make(time: Clock | None = None) -> Ledger:
        nonlocal count
        count += 1
        return Ledger(str(shutil.copy(empty, tmp_path / f"{count}.db")), time)

    return make


# ------------------------------------------------------------------------------------------------------------------ the model

#: Costs by hand, in exact fractions: (schedule, rho, epsilon or None).
KINDS = [
    (releases.gaussian(4.0), Fraction(1, 32), None),
    (releases.gaussian(8.0, 3), Fraction(3, 128), None),
    (releases.laplace(4.0), Fraction(1, 32), Fraction(1, 4)),
    (releases.exponential(0.5), Fraction(1, 32), Fraction(1, 2)),
    (releases.equal_parts(8.0), Fraction(2, 128), None),
    (releases.parts(16.0, 4.0), Fraction(1, 32), None),
]


@dataclass
class Model:
    """Accounts as (measure, limit, parent), and what each still holds."""

    accounts: dict[str, tuple[str, Fraction, str | None]] = field(default_factory=dict)
    spent: dict[str, Fraction] = field(default_factory=dict)
    closed: set[str] = field(default_factory=set)
    open: dict[int, tuple[str, int]] = field(default_factory=dict)

    def line(self, name: str) -> list[str]:
        found = [name]
        while (parent := self.accounts[found[-1]][2]) is not None:
            found.append(parent)
        return found

    def cost(self, name: str, kind: int) -> Fraction | None:
        return KINDS[kind][1] if self.accounts[name][0] == "rho" else KINDS[kind][2]

    def admits(self, name: str, kind: int) -> bool:
        for one in self.line(name):
            cost = self.cost(one, kind)
            if one in self.closed or cost is None or self.spent[one] + cost > self.accounts[one][1]:
                return False
        return True

    def add(self, name: str, kind: int, sign: int) -> None:
        for one in self.line(name):
            cost = self.cost(one, kind)
            assert cost is not None
            self.spent[one] += sign * cost


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("open"), st.sampled_from(("rho", "epsilon")), st.integers(1, 40), st.integers(0, 3)),
        st.tuples(st.just("reserve"), st.integers(0, 3), st.integers(0, len(KINDS) - 1)),
        st.tuples(st.just("reserve"), st.integers(0, 3), st.integers(0, len(KINDS) - 1)),
        st.tuples(st.just("end"), st.sampled_from(("commit", "spent", "released")), st.integers(0, 3)),
        st.tuples(st.just("close"), st.integers(0, 3)),
    ),
    min_size=4,
    max_size=14,
)


def played(ledger: Ledger, steps: list[Any]) -> None:
    model = Model()
    ledger.open("a0", make_limit(rho="1/8"), data="d", **COUNTS)
    model.accounts["a0"], model.spent["a0"] = ("rho", Fraction(1, 8), None), Fraction(0)
    for step in steps:
        names = sorted(model.accounts)
        match step:
            case ("open", measure, size, above):
                name, parent = f"a{len(names)}", names[above] if above < len(names) else None
                ledger.open(name, make_limit(**{measure: f"{size}/32"}), data="d", parent=parent, **COUNTS)
                model.accounts[name], model.spent[name] = (measure, Fraction(size, 32), parent), Fraction(0)
            case ("reserve", which, kind):
                name = names[which % len(names)]
                if model.admits(name, kind):
                    seq = ledger.reserve(name, KINDS[kind][0], analysis="x").seq
                    model.add(name, kind, 1)
                    model.open[seq] = (name, kind)
                else:
                    with pytest.raises(SpecError) as refused:
                        ledger.reserve(name, KINDS[kind][0])
                    assert refused.value.diagnostics[0].code in ("DP701", "DP704", "DP709")
            case ("end", how, which) if model.open:
                seq = sorted(model.open)[which % len(model.open)]
                if how == "commit":
                    ledger.commit(seq)
                else:
                    ledger.resolve(seq, spent=how == "spent", reason="r", by="b")
                name, kind = model.open.pop(seq)
                if how == "released":
                    model.add(name, kind, -1)
            case ("close", which):
                name = names[which % len(names)]
                if name not in model.closed:
                    ledger.close(name, reason="r", by="b")
                    model.closed.add(name)
    for name, (measure, limit, _) in model.accounts.items():
        status = ledger.status(name)
        if Fraction(status["spent"][measure] or 0) != model.spent[name]:
            raise AssertionError((name, status["spent"], model.spent[name]))
        assert model.spent[name] <= limit
    found = verify(ledger)
    assert (found["findings"], found["open"]) == ([], sorted(model.open))
    ledger.dispose()


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_the_model_says_the_same(fresh, steps):
    played(fresh(), steps)


@pytest.mark.slow
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_the_model_says_the_same_for_long(fresh, steps):
    played(fresh(), steps)


# ------------------------------------------------------------------------------------------------------------- words of refusals


def test_a_refusal_says_what_is_left_and_who_took_how_much(fresh):
    ledger = fresh()
    ledger.open("team", make_limit(rho="0.1"), data="d", **COUNTS)
    ledger.open("ana", make_limit(rho="1"), data="d", parent="team", **COUNTS)
    ledger.reserve("ana", releases.gaussian(4.0), analysis="income")
    ledger.reserve("team", releases.gaussian(4.0), analysis="ages")
    ledger.reserve("ana", releases.gaussian(8.0), analysis="income")
    with pytest.raises(Refused) as error:
        ledger.reserve("ana", releases.gaussian(4.0), analysis="more")
    (d,) = error.value.diagnostics
    assert d.code == "DP701"
    for words in ("'team' (rho 0.1)", "70.3%", "31.2%", "rho 0.0296875", "income (ana) 39.1% in 2", "ages (team) 31.2% in 1", "3 of the"):
        assert words in d.message, words
    detail = error.value.detail
    assert detail["left"] == [{"of": {"rho": "0.1"}, "rho": pytest.approx(0.0296875, rel=1e-9)}]
    assert [r["analysis"] for r in detail["largest"]] == ["income", "ages"]


def test_what_does_not_add_up_is_refused(fresh):
    ledger = fresh()
    ledger.open("a", make_limit(rho="1"), data="d", **COUNTS)
    for word, other in (("unit", "household"), ("relation", "replace-one"), ("model", "nldp"), ("protects", "labels")):
        with pytest.raises(SpecError, match="DP703"):
            ledger.reserve("a", releases.gaussian(4.0, **{word: other}))
        with pytest.raises(SpecError, match="DP710"):
            ledger.open("b", make_limit(rho="1"), data="d", parent="a", **{**COUNTS, word: other})
    ledger.open("pure", make_limit(epsilon="1"), data="d", **COUNTS)
    with pytest.raises(SpecError, match="DP709"):
        ledger.reserve("pure", releases.gaussian(4.0))
    with pytest.raises(SpecError, match="DP702"):
        ledger.reserve("z", releases.gaussian(4.0))
    with pytest.raises(SpecError, match="DP702"):
        ledger.open("c", make_limit(rho="1"), data="d", parent="z", **COUNTS)
    made = ledger.reserve("a", releases.gaussian(4.0))
    ledger.commit(made)
    for late in (lambda: ledger.commit(made), lambda: ledger.resolve(made.seq, spent=False, reason="r", by="b")):
        with pytest.raises(SpecError, match="DP712"):
            late()
    with pytest.raises(SpecError, match="DP712"):
        ledger.resolve(ledger.reserve("a", releases.gaussian(4.0)).seq, spent=True, reason=" ", by="b")


def test_entries_cannot_be_changed_through_the_database(fresh):
    import sqlalchemy as sa

    ledger = fresh()
    ledger.open("a", make_limit(rho="1"), data="d", **COUNTS)
    ledger.reserve("a", releases.gaussian(4.0))
    for words in ("UPDATE entries SET body = '{}'", "DELETE FROM entries", "UPDATE charges SET total = '{}'", "DELETE FROM charges"):
        with pytest.raises(sa.exc.IntegrityError, match="append-only"), ledger.database.begin() as connection:
            connection.exec_driver_sql(words)


def test_two_entries_never_end_one_reservation_on_postgresql(postgresql: str):
    """The same calls on the other database, as one check of its dialect."""
    import sqlalchemy as sa

    ledger = create(postgresql)
    ledger.open("a", make_limit(epsilon="1", delta="1e-6"), data="d", window={"days": 30}, **COUNTS)
    made = ledger.reserve("a", releases.laplace(8.0), analysis="x")
    ledger.commit(made)
    with pytest.raises(SpecError, match="DP712"):
        ledger.commit(made)
    with pytest.raises(sa.exc.DBAPIError, match="append-only"), ledger.database.begin() as connection:
        connection.exec_driver_sql("DELETE FROM entries")
    assert verify(ledger)["findings"] == []
    assert create(postgresql).name == ledger.name  # made once
    assert ledger.status("a")["largest"][0]["releases"] == 1
    ledger.dispose()


# -------------------------------------------------------------------------------------------------------------------- windows

MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("wait"), st.floats(0, 20 * DAY)),
        st.tuples(st.just("jump"), st.floats(-400 * DAY, 400 * DAY)),
        st.just(("ask",)),
        st.just(("ask",)),
    ),
    min_size=6,
    max_size=20,
)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(moves=MOVES)
@example(
    moves=[("ask",), ("jump", -100 * DAY), ("wait", 20 * DAY), ("wait", 20 * DAY), *[("ask",)] * 3, ("jump", 100 * DAY), *[("ask",)] * 4]
)
@example(moves=[*[("ask",)] * 4, ("jump", 100 * DAY), *[("ask",)] * 4])
def test_no_window_holds_too_much_whatever_the_clock_says(fresh, moves):
    """Four releases of 1/32 a rolling window of 30 days, in time that has really gone by, from the first release on."""
    clock = Hands()
    ledger = fresh(clock)
    ledger.open("a", make_limit(rho="1/8"), data="d", window={"days": 30}, **COUNTS)
    admitted: list[float] = []
    for move in moves:
        match move:
            case ("wait", seconds):
                clock.state["gone"] += seconds
                clock.state["wall"] += seconds
            case ("jump", seconds):
                clock.state["wall"] += seconds
            case _:
                try:
                    ledger.reserve("a", releases.gaussian(4.0))
                    admitted.append(clock.state["gone"])
                except Refused:
                    pass
    for t in admitted:
        assert sum(t - 30 * DAY + 121 < other <= t for other in admitted) <= 4
    times = [e["at"] for e in ledger.entries()]
    assert times == sorted(times)
    assert verify(ledger)["findings"] == []
    ledger.dispose()


def test_a_window_frees_what_left_it_and_a_resolution_what_it_took(fresh):
    clock = Hands()
    ledger = fresh(clock)
    ledger.open("a", make_limit(rho="1/16"), data="d", window={"days": 30}, **COUNTS)
    ledger.open("m", make_limit(rho="1/16"), data="d", window={"calendar": "month"}, **COUNTS)
    first = [ledger.reserve(name, releases.gaussian(4.0)) for name in ("a", "m")]
    for name in ("a", "m"):
        ledger.reserve(name, releases.gaussian(4.0))
        with pytest.raises(Refused):
            ledger.reserve(name, releases.gaussian(4.0))
    ledger.resolve(first[0].seq, spent=False, reason="r", by="b")
    ledger.reserve("a", releases.gaussian(4.0))
    with pytest.raises(Refused):
        ledger.reserve("a", releases.gaussian(4.0))
    clock.state["wall"] += 29 * DAY
    clock.state["gone"] += 29 * DAY
    ledger.reserve("m", releases.gaussian(4.0))  # the next month has begun
    with pytest.raises(Refused):
        ledger.reserve("a", releases.gaussian(4.0))
    clock.state["wall"] += DAY
    clock.state["gone"] += DAY
    ledger.reserve("a", releases.gaussian(4.0))
    assert parse(next(iter(ledger.entries()))["at"]).year == 2026
    assert verify(ledger)["findings"] == []
