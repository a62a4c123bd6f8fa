"""Several records a unit: what the executor keeps, what a unit then moves, the exact laws of the mechanisms, and what is refused."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from types import SimpleNamespace

import numpy as np
import pandas
import polars
import pyarrow
import pytest

import dpspec
from dpspec.algorithms.statistics import _noise as whole_numbers
from dpspec.algorithms.statistics import dp_marginals as marginals
from dpspec.audit import audit
from dpspec.compiler.diff import compare, verdict
from dpspec.compiler.passes import compile_draft
from dpspec.compiler.plan import schedule_json
from dpspec.executor import bind, units
from dpspec.lang.printer import to_dps, to_yaml
from dpspec.lang.source import parse_text
from dpspec.ledger.book import create
from dpspec.ledger.limits import make_limit
from dpspec.privacy.mechanisms.cube_norm import CubeBlocks
from dpspec.privacy.mechanisms.keys import KeyedSums, TruncatedKeys
from dpspec.privacy.meter import Release
from dpspec.privacy.noise import SecureNoise, StudyNoise

SPEC = """analysis "visits"

data
  n = {n}, d = 4
  from memory columns [age, visits, sex]
  {status}, unit person identified by id, neighbours {relation}
  at most {rows} rows, {groups} groups a person
  encode age as range(17, 90), visits as range(0, 50), sex as levels("F", "M")
  x in box(0, 1) by clip

privacy {model}
  {budget}

release r
  estimate {what}
"""


def spec(what: str, **said: object) -> str:
    given = {"n": 500, "relation": "add-remove", "rows": 3, "groups": 2, "model": "central", "budget": "epsilon = 1", "status": "private"}
    return SPEC.format(what=what, **{**given, **said})


def parsed(what: str, **said: object):
    return parse_text(spec(what, **said), surface="dps")


def people(n: int = 500, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "id": rng.integers(0, n // 3, n).astype(str),
        "age": rng.integers(17, 90, n).astype(float),
        "visits": rng.integers(0, 50, n).astype(float),
        "sex": rng.choice(["F", "M"], n),
        "city": rng.choice(["here", "there", "elsewhere"], n),
    }


# ------------------------------------------------------------------------------------------------------- what is kept


class _Tickets:
    """Tickets that belong to rows, whatever other rows there are."""

    def __init__(self, own: np.ndarray) -> None:
        self.own = own

    def integers(self, high: int, size: int) -> np.ndarray:
        assert size == self.own.size
        return self.own


def test_of_each_unit_so_many_rows_are_kept_and_other_units_do_not_matter() -> None:
    rng = np.random.default_rng(3)
    owner, own = rng.integers(-1, 40, 300), rng.permutation(300)
    there = owner >= 0
    kept = units.rows(owner, 3, _Tickets(own[there]))
    assert (np.diff(kept) > 0).all()
    assert (owner[kept] >= 0).all()
    assert (np.bincount(owner[kept], minlength=40) == np.minimum(np.bincount(owner[there], minlength=40), 3)).all()
    for gone in (0, 7, 39):  # neighbours: all rows of one unit are missing
        rest = np.flatnonzero(owner != gone)
        again = rest[units.rows(owner[rest], 3, _Tickets(own[rest][owner[rest] >= 0]))]
        assert set(again) == set(kept[owner[kept] != gone])


def test_of_each_unit_so_many_groups_are_kept_whole() -> None:
    rng = np.random.default_rng(4)
    owner, keys = rng.integers(-1, 30, 400), rng.integers(-1, 6, 400)
    kept = units.groups(owner, keys, 2, SecureNoise())
    for u in range(30):
        mine = kept[owner[kept] == u]
        chosen = set(keys[mine])
        assert len(chosen) == min(2, len({k for k in keys[owner == u] if k >= 0}))
        assert set(mine) == {i for i in np.flatnonzero(owner == u) if keys[i] in chosen}  # no row of a kept group is lost
    assert (owner[kept] >= 0).all()
    assert units.rows(np.full(5, -1), 2, SecureNoise()).size == 0
    assert units.groups(np.full(5, -1), np.zeros(5, dtype=int), 2, SecureNoise()).size == 0


def test_which_rows_are_kept_is_fair() -> None:
    """8 rows of one unit, 3 kept, 2,000 times: each is kept 750 times, 95 % of the noise 42; 6 of them is one in 10^8."""
    found = np.zeros(8)
    for _ in range(2000):
        found[units.rows(np.zeros(8, dtype=np.int64), 3, SecureNoise())] += 1
    assert np.abs(found - 750).max() < 6 * math.sqrt(2000 * 3 / 8 * 5 / 8)


def test_a_run_counts_so_many_rows_of_each() -> None:
    data = people()
    data["id"][:200] = "the same"
    data["id"][200:210] = ""
    plan = dpspec.plan(parsed("count", budget="epsilon = 60"))
    expected = sum(min(3, c) for name, c in zip(*np.unique(data["id"], return_counts=True), strict=True) if name)
    assert abs(float(plan.run(data).outputs["r"]["value"][0]) - expected) <= 2  # discrete Laplace of scale 1/20: 2 off is e^-40
    by_city = dpspec.plan(parsed("count group by city", budget="epsilon = 60, delta = 1e-4", groups=1)).run(data).outputs["r"]
    assert list(by_city["name"]) == ["elsewhere", "here", "there"]
    assert by_city["value"].sum() < expected  # one city a person


# --------------------------------------------------------------------------------------------- what a unit moves


@pytest.mark.parametrize(
    ("what", "budget"),
    [
        *(
            (w, b)
            for w in ("count", "sum(visits)", "mean(age)", "variance(age)", "histogram(sex)", "median(age)")
            for b in ("epsilon = 1", "rho = 0.5")
        ),
        *((f"{w} group by sex", b) for w in ("count", "sum(visits)", "mean(age)") for b in ("epsilon = 1", "rho = 0.5")),
        *((f"{w} group by city", "epsilon = 1, delta = 1e-4") for w in ("count", "sum(visits)", "mean(age)")),
    ],
)
def test_the_rows_of_one_unit_move_a_draw_by_its_sensitivity_at_most(what: str, budget: str) -> None:
    """All pairs of hostile rows beside a few fixed ones, in the draw's own distance; the largest is attained but for a tenth."""
    draft = compile_draft(parsed(what, budget=budget, rows=2, groups=2, n=12))
    release = draft.releases[0]
    problem = bind.bound_problem(draft, release)
    hostile = [(a, v, s, 2 * s) for a, v in ((0.0, 1.0), (1.0, 0.0), (1.0, 1.0), (0.5, 1.0)) for s in (0, 1)]
    if what.startswith("median"):  # a long grid
        hostile = hostile[:1] + hostile[2:3]

    def seen(rows: list[tuple[float, float, int, int]]) -> list[tuple[object, object]]:
        from dpspec.data.records import Records

        x = np.array([[a, v, float(s == 0), float(s == 1)] for a, v, s, _ in rows]).reshape(-1, 4)
        words = {
            "city": (np.array([c for *_, c in rows], dtype=np.int64), ("a", "b", "c")),
            "id": (np.r_[np.arange(len(rows) - 2), [90, 90]].astype(np.int64)[: len(rows)], tuple("abcdefghijk")),
        }
        found: list[tuple[object, object]] = []

        class Door:
            def draw(self, name, value, *, sensitivity):
                m = {d.name: d.mechanism for d in _draws(release.tree)}[name]
                handed, instead = m.blind(value)
                assert m.check(value) is None
                found.append((m, handed))
                return m.apply(instead, release.calibrated.levels[name], StudyNoise(0))

            def level(self, name):
                return release.calibrated.levels[name]

            scale = level

        release.module.run(Records(x, words=words), problem, release.tunables, Door())
        return found

    fixed = [(0.3, 0.2, 0, 0), (0.8, 0.9, 1, 1), (0.6, 0.4, 1, 0)]
    without = seen(fixed)
    largest = 0.0
    for pair in itertools.combinations_with_replacement(hostile, 2):
        for (m, one), (_, other) in zip(without, seen([*fixed, *pair]), strict=True):
            apart = m.distance(1.0, one, other)
            assert apart <= m.sensitivity * (1 + 1e-9), pair
            largest = max(largest, apart / m.sensitivity)
    assert largest > 0.7  # a quantile's share of a record's weight is less than it may be


def _draws(tree):
    return [tree] if hasattr(tree, "mechanism") else [d for part in tree.parts for d in _draws(part)]


# -------------------------------------------------------------------------------------------------- the exact laws


def test_blocks_of_cube_noise_are_as_far_apart_as_epsilon_on_all_outcomes() -> None:
    """The density exp(-(|z_1|_inf + |z_2|_inf)/b) on a grid, moved by every unit of two rows."""
    m, epsilon = CubeBlocks(2.0, 2, 2), 0.9
    grid = np.array(list(itertools.product(range(-4, 5), repeat=4))).reshape(-1, 2, 2)
    rate = 1 / m.scale(epsilon)
    norm = np.abs(grid).max(axis=2).sum(axis=1)
    worst = 0.0
    for one, other in itertools.product(itertools.product((0, 1), (-1, 0, 1), (0, 1)), repeat=2):
        moved = np.zeros((2, 2))
        for block, total, count in (one, other):
            moved[block] += (total, count)
        assert m.distance(epsilon, moved.ravel(), np.zeros(4)) <= m.sensitivity
        shifted = np.abs(grid - moved).max(axis=2).sum(axis=1)
        worst = max(worst, float((rate * np.abs(norm - shifted)).max()))
    assert worst == pytest.approx(epsilon, rel=1e-12)
    value = np.arange(4)
    assert (np.abs(np.array([m.apply(value, 50.0, StudyNoise(s)) for s in range(20)]) - value) <= 1).all()


def published(m: TruncatedKeys, level: float, count: int) -> dict[int, float]:
    """The law of what is published of a key with so many records; 0: nothing."""
    k, p = m.reach(level)
    found: dict[int, float] = {0: 0.0}
    for reach, weight in ((k, 1 - p), (k - 1, p)):
        z = np.arange(-reach, reach + 1)
        law = np.exp(-np.abs(z) / m.scale(level))
        for noise, chance in zip(z, law / law.sum(), strict=True):
            said = int(count + noise)
            found[said if count and said > reach else 0] = found.get(said if count and said > reach else 0, 0.0) + weight * float(chance)
    return found


def excess(one: dict, other: dict, epsilon: float) -> float:
    return math.fsum(max(0.0, a - math.exp(epsilon) * other.get(key, 0.0)) for key, a in one.items())


@pytest.mark.parametrize("rows", [2, 3, 5])
def test_counts_of_keys_that_one_unit_moves_by_several_by_all_outcomes(rows: int) -> None:
    """However the rows fall on two keys, and whatever else the keys hold: delta at epsilon of the joint law."""
    epsilon, delta = 1.0, 1e-3
    m, worst = TruncatedKeys(float(rows), delta, rows), 0.0
    for first in range(rows + 1):
        for base in ((0, 0), (0, 4), (3, 25)):
            moved = (first, rows - first)
            laws = [(published(m, epsilon, b), published(m, epsilon, b + by)) for b, by in zip(base, moved, strict=True)]
            for side in (0, 1):
                one, other = (
                    {(a, b): p * q for (a, p), (b, q) in itertools.product(laws[0][s].items(), laws[1][s].items())}
                    for s in (side, 1 - side)
                )
                worst = max(worst, excess(one, other, epsilon))
    assert worst <= delta * (1 + 1e-9)
    assert worst >= 0.9 * delta  # all of them in a key of one's own
    assert m.delta_by_quadrature(epsilon, epsilon) == pytest.approx(delta, rel=1e-6)
    assert m.spent(m.numbers(epsilon)) == pytest.approx(epsilon, rel=1e-12)
    single = TruncatedKeys(float(rows), delta)  # that each key moves by one would not do
    assert excess(published(single, epsilon, rows), published(single, epsilon, 0), epsilon) > delta


@pytest.mark.parametrize(("rows", "keys"), [(1, 1.0), (3, 1.0), (2, 2.0)])
def test_sums_of_named_keys_by_all_outcomes(rows: int, keys: float) -> None:
    """The joint law of (count, sum) of each key that a unit moves: its rows are all in one key, or half in each of two."""
    epsilon, delta, largest = 1.2, 1e-3, 2
    m = KeyedSums(float(rows * largest), keys, 1, delta, 0.4)
    b, wide = m.scale(epsilon), 90
    z = np.arange(-wide, wide + 1)
    noise = np.exp(-np.abs(z) / b)
    noise /= noise.sum()
    per_key = rows // int(keys)

    def law(count: int, total: int) -> dict:
        found: dict = {}
        for said, chance in published(m.names, epsilon * m.share, count).items():
            for value, p in [(0, 1.0)] if said == 0 else zip(total + z, noise, strict=True):
                found[said, int(value) if said else 0] = found.get((said, int(value) if said else 0), 0.0) + chance * float(p)
        return found

    worst = 0.0
    for count, total in ((0, 0), (2, 3), (30, -5)):
        for by in (-largest * per_key, largest * per_key):
            one, other = law(count, total), law(count + 1, total + by)
            each = max(excess(one, other, epsilon / keys), excess(other, one, epsilon / keys))
            worst = max(worst, each * keys)  # basic composition of keys: epsilon/keys and delta/keys each
    assert worst <= delta * (1 + 1e-6)
    assert worst >= 0.9 * delta
    assert m.delta_by_quadrature(epsilon, epsilon) == pytest.approx(delta, rel=1e-6)
    assert m.spent(m.numbers(epsilon)) == pytest.approx(epsilon, rel=1e-12)
    loose = {**m.numbers(epsilon), "reach": m.numbers(epsilon)["reach"] - 2}
    assert m.spent(loose) == math.inf


# ------------------------------------------------------------------------------------------------------- the language


@pytest.mark.parametrize(
    ("what", "said", "words"),
    [
        ("count", {"relation": "replace-one"}, "how many rows a person has is private"),
        ("count", {"model": "nldp", "relation": "add-remove"}, "each record reports for itself"),
        ("mean(x)", {}, "3 rows of one person count"),
        ("covariance(x)", {"budget": "epsilon = 1, delta = 1e-5"}, "its sensitivity is that of one row"),
        ("sum(visits) group by id", {"budget": "epsilon = 1, delta = 1e-5"}, "a group of one unit hides nobody"),
        ("variance(age) group by sex", {}, "has no `group by`"),
        ("count", {"groups": 4}, "4 groups need as many rows"),
        ("count", {"rows": "1/2"}, "a whole number from 1"),
        ("sum(visits) group by city", {}, "add a delta"),
    ],
)
def test_what_does_not_go_with_it_is_refused_by_name(what: str, said: dict, words: str) -> None:
    with pytest.raises(dpspec.SpecError) as found:
        dpspec.plan(parsed(what, **said))
    assert words in " ".join(d.message + d.help for d in found.value.diagnostics)


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("person identified by id", "person", "DP151"),
        ("\n  at most 3 rows, 2 groups a person", "", "DP151"),
        ("groups a person", "groups a household", "DP106"),
        ("identified by id", "identified by age", "DP151"),
    ],
)
def test_a_bound_that_nothing_could_enforce_is_an_error(old: str, new: str, code: str) -> None:
    with pytest.raises(dpspec.SpecError) as found:
        parse_text(spec("count").replace(old, new), surface="dps")
    assert code in {d.code for d in found.value.diagnostics}


def test_one_row_a_unit_serves_every_algorithm() -> None:
    plan = dpspec.plan(parsed("mean(x)", rows=1, groups=1))
    assert plan.draft.releases[0].problem.rows == 1
    assert plan.run(people()).outputs["r"]["theta"].shape == (4,)


def test_both_surfaces_say_it_and_a_diff_compares_it() -> None:
    read = parsed("mean(age) group by sex")
    assert parse_text(to_dps(read.analysis), surface="dps").analysis == read.analysis
    assert parse_text(to_yaml(read.analysis), surface="yaml").analysis == read.analysis
    assert "identified-by: id" in to_yaml(read.analysis)
    changes = compare(*(dpspec.plan(p).to_json() for p in (read, parsed("mean(age) group by sex", rows=2))))
    assert any(c.what == "data.rows" and c.direction == "incomparable" for c in changes)


@pytest.mark.parametrize("what", ["count group by city", "sum(visits) group by city", "mean(age) group by sex"])
def test_records_hold_in_an_audit(tmp_path, what: str) -> None:
    out = tmp_path / "out"
    dpspec.plan(parsed(what, budget="epsilon = 1, delta = 1e-5")).run(people(), out=out)
    assert audit(out / "record.json").verdict == "holds"


def test_a_study_says_how_many_rows_did_not_count() -> None:
    data = people()
    data["id"][:200] = "the same"
    result = dpspec.study(parsed("sum(visits)", status="public"), memory=data, trials=2, workers=1)
    left = result.body["points"][0]["touched"]["rows of a person"]
    assert f"Left out as rows of a person beyond its bound: {left} of 500 records" in " ".join(result.body["notes"])
    assert left == sum(max(c - 3, 0) for c in np.unique(data["id"], return_counts=True)[1])


def test_no_row_is_more_than_a_group() -> None:
    """A group bound as large as the bound on rows bounds nothing more."""
    release = SimpleNamespace(problem=compile_draft(parsed("count group by sex", groups=3)).releases[0].problem)
    assert (release.problem.rows, release.problem.groups) == (3, 3)


# ------------------------------------------------------------------------------------------------ who is who, and how many


VISITS = """analysis "visits"

data
  n = {n}, d = 1
  from memory columns [minutes]
  private, unit person identified by id, neighbours add-remove
  at most {rows} rows a person
  x in box(0, {high}) by clip

privacy central
  {budget}

release r
  estimate {what}
"""


def drawn(monkeypatch, text: str, data) -> np.ndarray:
    """What the meter is handed by a run."""
    seen = []
    real = Release.draw

    def draw(self, name, value, **said):
        seen.append(np.array(value))
        return real(self, name, value, **said)

    monkeypatch.setattr(Release, "draw", draw)
    dpspec.run(parse_text(text, surface="dps"), data)
    return seen[0]


@pytest.mark.parametrize("form", ["mapping", "pandas", "polars", "arrow"])
def test_those_without_an_identifier_are_not_one_person(monkeypatch, form: str) -> None:
    """NaN in a column of numbers: as a word it would make one unit of all of them, of whose rows some come and others go with one."""
    data = {"minutes": np.arange(7.0), "id": np.array([1.0, 1.0, np.nan, np.nan, np.nan, np.nan, 2.0])}
    made = {"mapping": lambda d: d, "pandas": pandas.DataFrame, "polars": polars.DataFrame, "arrow": pyarrow.table}[form](data)
    assert drawn(monkeypatch, VISITS.format(n=50, rows=3, high=120, budget="epsilon = 1", what="count"), made) == [3]


@pytest.mark.parametrize("form", ["mapping", "list", "pandas"])
@pytest.mark.parametrize(
    ("ids", "kept"),
    [
        ([10**20] * 3 + [10**20 + 1] * 3, 6),  # no double tells them apart
        ([2**53 + 1, 2**53, None], 2),
        ([1, 1.0, "1", Decimal("1.00"), " 1 "], 3),  # one person, however the cell is written
        ([Decimal("sNaN"), None, float("nan"), "x"], 1),
        ([10**5000, 10**5000 + 1], 2),
    ],
    ids=["long", "beyond doubles", "one", "nobody", "endless"],
)
def test_identifiers_are_told_apart_as_they_are_written(monkeypatch, form: str, ids: list, kept: int) -> None:
    cells = np.empty(len(ids), dtype=object)
    cells[:] = ids
    data = {"minutes": np.arange(float(len(ids))), "id": ids if form == "list" else cells}
    made = pandas.DataFrame(data) if form == "pandas" else data
    assert drawn(monkeypatch, VISITS.format(n=50, rows=3, high=120, budget="epsilon = 1", what="count"), made) == [kept]


@pytest.mark.parametrize("ids", [[2**53, 2**53 + 1, 7, 7], ["a", "b", "c", "d"]], ids=["numbers", "words"])
def test_a_masked_identifier_is_nobody_and_rounds_no_other(monkeypatch, ids: list) -> None:
    data = {"minutes": np.arange(4.0), "id": np.ma.masked_array(ids, mask=[0, 0, 1, 1])}
    assert drawn(monkeypatch, VISITS.format(n=50, rows=1, high=120, budget="epsilon = 1", what="count"), data) == [2]


@pytest.mark.parametrize(
    "what", ["sum(minutes)\n  by dp-sum with step = 1", "sum(minutes) group by city\n  by dp-group-keys with step = 1"]
)
def test_no_sum_goes_round_the_integers_however_many_records_there_are(monkeypatch, what: str) -> None:
    """n is private: 2 are declared, and there are 2^15, whose sum in steps is 2^63. One less must move it by one record at most."""
    text = VISITS.format(n=2, rows=1, high=2**48, budget="epsilon = 1, delta = 1e-3", what=what)
    found = []
    for n in (2**15 - 1, 2**15):
        data = {"minutes": np.full(n, 2.0**48), "id": np.arange(n), "city": np.full(n, "a")}
        found.append(float(np.ravel(drawn(monkeypatch, text, data))[-1]))
    assert found == [2.0**52, 2.0**52]


def test_whole_numbers_are_added_exactly() -> None:
    whole = np.array([2**49, -(2**49) + 1, 3, -1, 2**26, -(2**26) - 1] * 10_000, dtype=np.int64)
    assert whole_numbers.total(whole) == sum(map(int, whole))
    assert whole_numbers.total(np.full(2**15, -(2**49))) == -(2**64)


# --------------------------------------------------------------------------------------------------- who is promised what


def test_a_guarantee_says_by_which_column_people_are_told_apart(tmp_path) -> None:
    """Two analyses that speak of a person, by id, by household or by their word alone, promise something to other people."""
    by_id = dpspec.plan(parsed("count"))
    house = dpspec.plan(parse_text(spec("count").replace("identified by id", "identified by house"), surface="dps"))
    word = spec("count").replace(" identified by id", "").replace("  at most 3 rows, 2 groups a person\n", "")
    alone = dpspec.plan(parse_text(word, surface="dps"))
    upper = dpspec.plan(parse_text(spec("count").replace("identified by id", "identified by ID"), surface="dps"))
    assert (by_id.guarantee.unit, alone.guarantee.unit) == ("person identified by id", "person")
    for other in (house, alone, upper):
        for old, new in ((by_id, other), (other, by_id)):
            changes = compare(old.to_json(), new.to_json())
            assert verdict(changes) == "incomparable"
            assert "unit" in {c.what for c in changes if c.area == "privacy"}
    assert verdict(compare(by_id.to_json(), by_id.to_json())) == "same"
    ledger = create(f"sqlite:///{tmp_path / 'ledger.db'}")
    ledger.open("people", make_limit(epsilon="4"), data="visits", relation="add-remove", unit="person identified by id")
    ledger.check("people", schedule_json(by_id.draft))
    for other in (house, alone):
        with pytest.raises(dpspec.SpecError, match="counts unit person identified by id"):
            ledger.check("people", schedule_json(other.draft))
    ledger.dispose()


def test_a_policy_asks_for_the_column_or_for_the_word() -> None:
    from dpspec.policy.rules import _units

    assert _units("person identified by id") == ("person identified by id", "person")
    assert _units("person") == ("person",)


def test_no_word_for_a_unit_pretends_to_be_a_column() -> None:
    text = spec("count").replace("unit person identified by id", 'unit "person identified by id"')
    with pytest.raises(dpspec.SpecError) as found:
        parse_text(text.replace("  at most 3 rows, 2 groups a person\n", ""), surface="dps")
    assert {d.code for d in found.value.diagnostics} == {"DP151"}


def test_contrasts_of_tables_do_not_go_round_the_integers() -> None:
    """Under add-remove 2 records may be declared and 2^18 come: one more moves what is handed on by one record's sensitivity at most."""
    work, steps, handed = marginals.Workload((2, 2, 2), 3), 2**13, []
    door = SimpleNamespace(draw=lambda name, value, **said: handed.append(np.asarray(value)) or np.asarray(value, dtype=float))
    for n in (0, 1, *range(185_000, 190_000, 50), 2**18):
        table = np.zeros((2, 2, 2))
        table[0, 0, 0] = n
        marginals._gaussian(work, dict.fromkeys(work.tables, table), steps, SimpleNamespace(sensitivity=1.0), door, False)
    rising = np.array(handed, dtype=float)
    assert np.linalg.norm(rising[1] - rising[0]) <= marginals.moved(work, steps, False)
    assert (rising[2:] == np.sign(rising[1]) * 2.0**52).all()
