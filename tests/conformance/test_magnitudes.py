"""Hostile magnitudes: records whose squares underflow or overflow, fed to every algorithm and channel. Algorithms are not named here.

What the meter (or, in a local model, the client's noise) receives is compared between neighbours in exact arithmetic with the sensitivity
that is planned. The one allowance is 2^-40 of it: sums of six records are rounded differently, and every source draws at 1 + 2^-24 of the
planned scale for that (dpspec.privacy.noise).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import product
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from dpspec.compiler.passes import compile_draft
from dpspec.data.records import Records
from dpspec.lang.source import Parsed, parse_expr, parse_text
from dpspec.numeric.norms import OutOfRange
from dpspec.privacy.channels import wishart_outer
from dpspec.privacy.channels.cube import Cube
from dpspec.privacy.channels.gaussian_ball_product import GaussianBallProduct
from dpspec.privacy.channels.gaussian_outer import GaussianOuter
from dpspec.privacy.channels.gaussian_product import GaussianProduct
from dpspec.privacy.channels.gaussian_vector import GaussianVector
from dpspec.privacy.channels.genprot import GenProt
from dpspec.privacy.channels.hadamard_response import HadamardResponse
from dpspec.privacy.channels.hemisphere import Hemisphere
from dpspec.privacy.channels.laplace_vector import LaplaceVector
from dpspec.privacy.channels.one_bit import OneBitMean
from dpspec.privacy.channels.priv_unit import PrivUnit, best_cap
from dpspec.privacy.channels.randomized_response import BinaryResponse, KaryResponse
from dpspec.privacy.channels.sampled_coordinate import SampledCoordinate
from dpspec.privacy.channels.subset_selection import SubsetSelection
from dpspec.privacy.channels.unary_encoding import UnaryEncoding
from dpspec.privacy.channels.wishart_outer import WishartOuter
from dpspec.privacy.noise import SecureNoise, StudyNoise
from dpspec.privacy.schedule import draws
from dpspec.spec.expr import Name, Num
from dpspec.spec.model import Ball, Domain, Enforcement, Finite
from tests.conformance.cases import ALGORITHMS, IDS, Case, labels
from tests.conformance.replay import blind_run
from tests.conformance.test_conformance import small
from tests.conformance.test_replay import labels_only, with_neighbours

ALLOWED = 1 + Fraction(1, 2**40)
TINY, HUGE = (5e-324, 1e-170, 1.6e-162, 1e-162), (1e154, 1e300, 1.7e308)
RESPONSES = (0.0, 5e-324, 1e165, -1e165, 1e300, -1e300, 1.7e308)


def hostile_rows(d: int) -> np.ndarray:
    """Each magnitude alone, everywhere, and beside others: subnormal next to zero, one tiny coordinate and one huge."""
    rows = []
    for m in (*TINY, *HUGE):
        alone, spread = np.zeros(d), np.full(d, m)
        alone[0] = m
        spread[1::2] *= -1
        rows += [alone, -spread]
    for small_one, large in product(TINY, (1.0, *HUGE)):
        mixed = np.zeros(d)
        mixed[0], mixed[-1] = small_one, -large
        rows.append(mixed)
    return np.array(rows)


# ---------------------------------------------------------------------------------------------------------------- distances


def difference(one: Any, other: Any) -> list[Fraction]:
    pairs = zip(np.ravel(one).tolist(), np.ravel(other).tolist(), strict=True)
    return [Fraction(a) - Fraction(b) for a, b in pairs if a != b]


def within(mechanism: Any, one: Any, other: Any) -> bool:
    """Whether the two values are at most the planned sensitivity apart, exactly (spectra: to sixty digits)."""
    limit = Fraction(float(mechanism.sensitivity)) * ALLOWED
    kind = mechanism.kind
    if getattr(mechanism, "open_ended", False):  # counts of keys, whole numbers: compared key by key
        return Fraction(mechanism.distance(1.0, one, other)) <= limit
    if kind in ("wishart", "wishart-symmetrised", "wishart-outer"):
        values = spectrum(one, other)
        rising, falling = sum((v for v in values if v > 0), Fraction(0)), sum((-v for v in values if v < 0), Fraction(0))
        return max(rising, falling) <= limit if kind == "wishart" else rising + falling <= limit
    if kind in ("gaussian-symmetric", "laplace-symmetric"):
        upper = np.triu_indices(len(one))
        if kind == "laplace-symmetric" or mechanism.shape == "upper":
            one, other = np.asarray(one)[upper], np.asarray(other)[upper]
    gaps = difference(one, other)
    match mechanism.norm:
        case "l2":
            return sum((g * g for g in gaps), Fraction(0)) <= limit * limit
        case "l1":
            return sum((abs(g) for g in gaps), Fraction(0)) <= limit
        case _:
            return max((abs(g) for g in gaps), default=Fraction(0)) <= limit


def spectrum(one: Any, other: Any) -> list[Fraction]:
    from mpmath import mp

    with mp.workdps(60):
        a = mp.matrix([[mp.mpf(float(u)) - mp.mpf(float(v)) for u, v in zip(p, q, strict=True)] for p, q in zip(one, other, strict=True)])
        return [Fraction(str(v)) for v in mp.eigsy(a, eigvals_only=True)] if any(a) else []


class Recorder:
    """A source of noise that keeps the private values that it was to hide."""

    secure = False

    def __init__(self) -> None:
        self.source, self.seen = StudyNoise(3), []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.source, name)

    def add_gaussian(self, values: Any, scale: float, *, sensitivity: float, dim: int) -> Any:
        assert 0 < scale < math.inf
        self.seen.append(np.array(values))
        return self.source.add_gaussian(values, scale, sensitivity=sensitivity, dim=dim)

    def add_laplace(self, values: Any, scale: float, *, sensitivity: float, dim: int) -> Any:
        assert 0 < scale < math.inf
        self.seen.append(np.array(values))
        return self.source.add_laplace(values, scale, sensitivity=sensitivity, dim=dim)


def hidden(channel: Any, held: Any, level: float) -> np.ndarray:
    """What a client adds noise to, one row a user."""
    recorder = Recorder()
    channel.encode(held, level, recorder)
    (values,) = recorder.seen
    return np.asarray(values).reshape(len(values), -1)


# --------------------------------------------------------------------------------------------------------------- algorithms


def hostile_pairs(c: Case) -> list[tuple[Records, Records, int]]:
    """Data sets that differ in their first record, and the relation's other record: a hostile one against its opposite or a plain one."""
    n, d = int(c.draft.facts["n"]), int(c.draft.facts["d"])
    rng = np.random.default_rng(4)
    finite = any(domain.variable == "y" and isinstance(domain.set, Finite) for domain in c.draft.analysis.data.domains)
    responses = [*labels(c), 1e300] if finite else list(RESPONSES)
    public = rng.normal(size=(200, d)) if c.draft.analysis.privacy.public is not None else None
    rows = hostile_rows(d)
    pairs = []
    for i, row in enumerate(rows):
        x, y = rng.normal(size=(n, d)), rng.choice(responses, size=n)
        if i % 3 == 0:
            x[1:] = rows[rng.integers(len(rows), size=n - 1)]  # among its like
        other_x, other_y = x.copy(), y.copy()
        x[0], y[0] = row, responses[i % len(responses)]
        other_x[0] = row if labels_only(c) else (-row, rows[(7 * i + 3) % len(rows)], np.zeros(d))[i % 3]
        other_y[0] = responses[(i + 1 + i % 4) % len(responses)]
        pairs.append((Records(x, y, public), Records(other_x, other_y, public)))
    return pairs


def sparse(records: Records) -> Records:
    return Records(csr_array(records.x), records.y, None if records.public_x is None else csr_array(records.public_x))


def check(c: Case, one: Records, other: Records) -> None:
    planned = draws(c.release.tree)
    (first, before), (second, after) = (blind_run(c, r) for r in (one, other))
    assert np.array_equal(first.theta, second.theta)
    assert [name for name, _ in before.seen] == [name for name, _ in after.seen]
    for (name, u), (_, v) in zip(before.seen, after.seen, strict=True):
        if u is None:
            continue
        leaf = next(planned[k] for k in (name, f"{name}/select", f"{name}/value") if k in planned)
        mechanism, level = leaf.draw.mechanism, c.release.calibrated.levels[leaf.draw.name]
        if leaf.draw.per == "user":
            for held, instead in zip(u, v, strict=True):
                if mechanism.family in ("gaussian", "laplace"):
                    for p, q in zip(hidden(mechanism, held, level), hidden(mechanism, instead, level), strict=True):
                        assert within(mechanism, p, q), name
                else:
                    for values in (held, instead):
                        assert np.isfinite(mechanism.encode(values, level, StudyNoise(1))).all(), name
        elif mechanism.kind.startswith(("objective", "smooth")):
            tolerance = float(c.release.tunables.get("tolerance", 0.0))
            assert mechanism.distance(level, u, v, tolerance) <= mechanism.claim * (1 + 1e-9), name
        else:
            assert within(mechanism, u, v), name


def without_domains(parsed: Parsed, variable: str) -> Parsed:
    data = parsed.analysis.data
    kept = tuple(domain for domain in data.domains if domain.variable != variable)
    return replace(parsed, analysis=parsed.analysis.model_copy(update={"data": data.model_copy(update={"domains": kept})}))


def only_declared(parsed: Parsed, variable: str) -> Parsed:
    """The domain is stated, and no rule makes it true."""
    data = parsed.analysis.data
    said = tuple(d.model_copy(update={"by": None}) if d.variable == variable else d for d in data.domains)
    return replace(parsed, analysis=parsed.analysis.model_copy(update={"data": data.model_copy(update={"domains": said})}))


def in_ball(parsed: Parsed, radius: str) -> Parsed:
    """Records in an l2 ball of another size."""
    parsed = without_domains(parsed, "x")
    data = parsed.analysis.data
    domain = Domain(variable="x", set=Ball(norm="l2", radius=Num(Fraction(radius))), by=Enforcement(how="scale"))
    return replace(
        parsed, analysis=parsed.analysis.model_copy(update={"data": data.model_copy(update={"domains": (domain, *data.domains)})})
    )


def with_loss(parsed: Parsed, loss: str) -> Parsed:
    release = parsed.analysis.releases[0]
    release = release.model_copy(update={"task": release.task.model_copy(update={"loss": parse_expr(loss)}), "expect": None})
    return replace(parsed, analysis=parsed.analysis.model_copy(update={"releases": (release,), "study": None}))


def with_option(parsed: Parsed, option: str, word: str) -> Parsed:
    release = parsed.analysis.releases[0]
    options = (*((k, v) for k, v in release.by.options if k != option), (option, Name(word)))
    release = release.model_copy(update={"by": release.by.model_copy(update={"options": options})})
    return replace(parsed, analysis=parsed.analysis.model_copy(update={"releases": (release,)}))


def variants(module: ModuleType) -> Iterator[tuple[str, Parsed]]:
    """The small gallery spec; with each word of each option; in tiny and in large balls; with nothing enforced, and with a loss whose
    slopes have no bound, where the algorithm takes them (it then clips by itself)."""
    parsed = small(module)
    yield "gallery", parsed
    for option, words in module.CARD.options.items():
        for word in words:
            yield f"{option} = {word}", with_option(parsed, option, word)
    for radius in ("1e-110", "1e-60", "100"):
        yield f"radius {radius}", in_ball(parsed, radius)
    yield "free x", without_domains(parsed, "x")
    yield "declared x", only_declared(parsed, "x")
    yield "free x and y", without_domains(without_domains(parsed, "x"), "y")
    if getattr(parsed.analysis.releases[0].task, "loss", None) is not None:
        for loss in ("squared", "(<w, x> - y)^2"):
            yield f"free, {loss}", with_loss(without_domains(without_domains(parsed, "x"), "y"), loss)


def accepted(parsed: Parsed) -> Case | None:
    draft = compile_draft(parsed)
    return None if any(d.severity == "error" and d.code != "DP402" for d in draft.diagnostics) else Case(draft)


#: What they count is listed by the domain or an encoding of each column: without both there is no question to answer.
LISTED = {"dp-marginals"}


@pytest.mark.parametrize("module", ALGORITHMS, ids=IDS)
def test_one_record_of_any_magnitude_moves_a_draw_by_its_sensitivity_at_most(module: ModuleType) -> None:
    ran = []
    for what, parsed in variants(module):
        c = accepted(parsed)
        if c is None:
            continue
        ran.append(what)
        pairs = hostile_pairs(c)
        for i, (one, other) in enumerate(pairs if what in ("gallery", "free, squared") else pairs[len(ran) % 5 :: 5]):
            check(c, *((sparse(one), sparse(other)) if i % 4 == 1 else (one, other)))
    assert "gallery" in ran
    if module.CARD.id not in LISTED and any(need.name == "x" and need.enforced_by for need in module.CARD.needs):  # it clips by itself
        assert {"free x", "declared x"} & set(ran), ran


@pytest.mark.parametrize("module", [m for m in ALGORITHMS if "central" in m.CARD.models], ids=lambda m: m.CARD.id)
def test_a_zeroed_record_of_any_magnitude(module: ModuleType) -> None:
    c = accepted(with_neighbours(small(module), "zero-out"))
    if c is None:
        pytest.skip("the algorithm refuses zero-out")
    for one, _ in hostile_pairs(c)[::2]:
        x, y = np.array(one.x), np.array(one.y)
        x[0] = 0.0
        check(c, one, Records(x, y, one.public_x))


# ----------------------------------------------------------------------------------------------------------------- channels

RADII = (1e-249, 1e-200, 1e-162, 1e-12, 1.0, 1e149)
LEVELS = (0.3, 4.0)


def made(kind: Any, *sizes: Any) -> Any:
    """A channel, or None where its sizes are refused when it is made."""
    try:
        return kind(*sizes)
    except OutOfRange:
        return None


@pytest.mark.parametrize("radius", RADII)
@pytest.mark.parametrize("kind", [GaussianVector, LaplaceVector, lambda d, r: LaplaceVector(d, r, "linf"), GaussianOuter])
def test_clients_that_add_noise_hide_values_no_further_apart_than_the_sensitivity(kind: Any, radius: float) -> None:
    channel = made(kind, 3, radius)
    if channel is None:
        assert kind is GaussianOuter
        assert not 1e-124 < radius < 1e74
        return
    rows = np.vstack([hostile_rows(3), -hostile_rows(3), np.zeros((1, 3)), np.full((1, 3), radius)])
    with np.errstate(over="ignore"):
        rows = np.vstack([rows, rows * radius, rows / radius])  # some are infinite: the record 0
    values = hidden(channel, rows, LEVELS[0])
    assert len(values) == len(rows)
    alone = np.vstack([hidden(channel, row[None, :], LEVELS[0]) for row in rows[::5]])
    assert np.array_equal(values[::5], alone)  # a record's value is its own
    far = np.argsort(np.abs(values / radius).sum(axis=1))[-12:]
    for i, j in product(far, range(0, len(rows), 3)):
        assert within(channel, values[i], values[j])


@pytest.mark.parametrize("sizes", [(1e-200, 1.0), (1.0, 1e-200), (1e-120, 1e-120), (1e70, 1e70), (1e140, 1e-140), (1.0, 1.0)])
@pytest.mark.parametrize("kind", [GaussianProduct, GaussianBallProduct])
def test_clients_of_pairs(kind: Any, sizes: tuple[float, float]) -> None:
    channel = kind(3, *sizes)
    rows = hostile_rows(3)
    x, y = np.repeat(rows, len(RESPONSES), axis=0), np.tile(RESPONSES, len(rows))
    values = hidden(channel, (x, y), LEVELS[0])
    far = np.argsort(np.abs(values / sizes[0] / sizes[1]).max(axis=1))[-12:]
    for i, j in product(far, range(0, len(x), 3)):
        assert within(channel, values[i], values[j])


@pytest.mark.parametrize("radius", [1e-120, 1e-60, 1.0, 1e70])
def test_second_moments_with_wishart_noise(radius: float, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[np.ndarray] = []
    monkeypatch.setattr(wishart_outer, "add_rounded", lambda values, draw, step, noise: seen.append(values) or values)
    channel = WishartOuter(3, radius)
    channel.encode(hostile_rows(3), 1.0, StudyNoise(1))
    i, j = np.triu_indices(3)
    matrices = np.zeros((len(seen[0]), 3, 3))
    matrices[:, i, j] = matrices[:, j, i] = seen[0]
    for a, b in product(matrices[::4], matrices[1::5]):
        assert within(channel, a, b)


SIGNS = [
    lambda r: Hemisphere(3, r),
    lambda r: PrivUnit(3, r),
    lambda r: Cube(3, r),
    lambda r: SampledCoordinate(3, r),
]


@pytest.mark.parametrize("radius", RADII)
@pytest.mark.parametrize("make", SIGNS)
def test_clients_that_draw_a_sign_answer_every_record_with_reports_of_one_size(make: Any, radius: float) -> None:
    channel = make(radius)
    rows = np.vstack([hostile_rows(3), np.zeros((2, 3)), [[np.nan, 1, 1], [np.inf, 0, 0]]])
    for level, noise in product(LEVELS, (StudyNoise(1), SecureNoise())):
        reports = channel.encode(rows, level, noise)
        assert len(reports) == len(rows)
        if reports.shape[1] == 2:
            assert set(reports[:, 1]) <= {-1.0, 1.0}
            continue
        shape = reports / channel.scale(level)
        assert np.isfinite(shape).all()
        assert np.allclose((shape**2).sum(axis=1), 1.0 if channel.kind != "cube" else 3.0, rtol=1e-12)


@pytest.mark.parametrize("make", [lambda r: OneBitMean(r), lambda r: GenProt(r)])
@pytest.mark.parametrize("radius", RADII)
def test_clients_of_numbers(make: Any, radius: float) -> None:
    values = np.array([0.0, np.nan, np.inf, -np.inf, *(s * m for m in (*TINY, *HUGE, radius) for s in (1, -1))])
    for noise in (StudyNoise(1), SecureNoise()):
        channel = make(radius)
        reports = channel.encode(values, 1.0, noise)
        assert len(reports) == len(values)
        assert np.isfinite(channel.aggregate(reports, 1.0)).all()


@pytest.mark.parametrize(
    "channel", [BinaryResponse(), KaryResponse(5), UnaryEncoding(5), SubsetSelection(5), HadamardResponse(5)], ids=lambda c: c.kind
)
def test_clients_of_categories_read_what_is_no_code_as_the_code_0(channel: Any) -> None:
    values = np.array([0.0, np.nan, np.inf, -np.inf, *(s * m for m in (*TINY, *HUGE) for s in (1, -1))])
    ours, zeros = channel.encode(values, 1.0, StudyNoise(1)), channel.encode(np.zeros(len(values)), 1.0, StudyNoise(1))
    assert np.array_equal(ours, zeros)


@pytest.mark.parametrize(
    "kind", [GaussianVector, LaplaceVector, Hemisphere, PrivUnit, Cube, SampledCoordinate, GaussianOuter, WishartOuter]
)
@pytest.mark.parametrize("radius", [5e-324, 1e-251, 1e151, 1.7e308, math.inf, math.nan, 0.0])
def test_radii_that_doubles_cannot_carry_are_refused_when_the_channel_is_made(kind: Any, radius: float) -> None:
    with pytest.raises(ValueError, match="radius must lie between"):
        kind(3, radius)


@pytest.mark.parametrize(
    "make", [lambda: GaussianOuter(3, 1e-130), lambda: WishartOuter(3, 1e80), lambda: GaussianProduct(3, 1e-200, 1e-60)]
)
def test_products_of_sizes_that_doubles_cannot_carry_are_refused(make: Any) -> None:
    with pytest.raises(ValueError, match="sensitivity must lie between"):
        make()


@pytest.mark.parametrize("kind", [GaussianVector, LaplaceVector, GaussianOuter, WishartOuter])
def test_levels_whose_noise_is_0_or_infinite_are_refused_before_a_record_is_read(kind: Any) -> None:
    channel = kind(3, 1e-100)
    level = 1e-200 if channel.kind != "wishart-outer" else 1e200
    with pytest.raises(OutOfRange, match="another level"):
        channel.scale(level)


def test_sums_of_a_study_are_those_of_its_clients() -> None:
    """Accumulators scale in other ways than ``encode``: same sums, up to rounding."""
    rows = np.vstack([hostile_rows(3), np.eye(3)])
    y = np.resize(np.array(RESPONSES), len(rows))
    for radius in (1e-100, 1.0, 1e50):
        for channel, held in (
            (GaussianVector(3, radius), (rows,)),
            (GaussianBallProduct(3, radius, 2.0), (rows, y)),
            (GaussianProduct(3, radius, 2.0), (rows, y)),
        ):
            for part in (slice(None), slice(len(rows) - 3, None)):
                block = tuple(h[part] for h in held)
                accumulator = channel.accumulate()
                accumulator.add(*block)
                total = hidden(channel, block if len(block) == 2 else block[0], 1.0).sum(axis=0)
                assert np.allclose(accumulator._total, total, rtol=1e-12, atol=1e-12 * radius)
        outer = GaussianOuter(3, radius)
        for part in (slice(None), slice(len(rows) - 3, None)):
            accumulator = outer.accumulate()
            accumulator.add(rows[part])
            total = hidden(outer, rows[part], 1.0).sum(axis=0)
            assert np.allclose(accumulator._total[np.triu_indices(3)], total, rtol=1e-12, atol=1e-12 * radius**2)


# ------------------------------------------------------------------------------------------------- PrivUnit: its loss, its end


@pytest.mark.parametrize(("dim", "epsilon"), [(2, 1.0), (2, 5.0), (3, 3.0), (3, 8.0), (50, 2.0), (10_000, 4.0)])
def test_the_loss_of_a_cap_that_rounding_moved_stays_below_epsilon(dim: int, epsilon: float) -> None:
    """The drawn region lies between the caps at gamma -+ e; the worst pair of records has the smallest region inside and the largest
    outside of it. Masses by ball arithmetic (the regularised incomplete beta function of python-flint)."""
    import flint

    cap = best_cap(dim, epsilon)
    shape = flint.arb(dim - 1) / 2

    def mass(gamma: Fraction) -> Any:
        t = (1 - flint.arb(flint.fmpq(gamma.numerator, gamma.denominator))) / 2
        return t.beta_lower(shape, shape, regularized=True)

    before = flint.ctx.prec
    flint.ctx.prec = 200
    try:
        e = Fraction(2 * dim + 8, 2**53)
        least = mass(Fraction(cap.height) + e)
        inside = flint.arb(flint.fmpq(cap.inside.numerator, cap.inside.denominator))
        loss = (inside / least).log() - ((1 - inside) / (1 - least)).log()
        assert loss <= flint.arb(epsilon)
        assert loss >= flint.arb(epsilon) - 1e-6  # and little is given away
    finally:
        flint.ctx.prec = before


@pytest.mark.parametrize("magnitude", [*TINY, 1e-310, *HUGE])
@pytest.mark.parametrize(("dim", "epsilon"), [(2, 5.0), (3, 3.0), (2, 8.0)])
def test_a_cap_is_drawn_around_every_record_in_a_moment(magnitude: float, dim: int, epsilon: float) -> None:
    """The share of reports in the cap around the record's own axis is that of the record's sign and of the cap, for tiny records too."""
    channel, users = PrivUnit(dim, 1.0), 400
    x = np.zeros((users, dim))
    x[:, 0] = magnitude
    u = channel.encode(x, epsilon, SecureNoise()) / channel.scale(epsilon)
    cap = best_cap(dim, epsilon)
    near = (np.abs(u[:, 0]) >= cap.height).mean()  # in the cap around +e1 or -e1; a fair sign where |x| is far below the radius
    p, q = float(cap.inside), (1 - float(cap.inside)) * cap.mass / (1 - cap.mass)
    expected = p + q if cap.height > 0 else 1.0
    assert abs(near - expected) <= 6 * math.sqrt(max(expected * (1 - expected), 1 / users) / users)


# ----------------------------------------------------------------------------------------------------------- refused by plans

SPEC = """analysis "sizes"
data
  n = 1000, d = 3
  from memory target "y"
  private, unit person, neighbours replace-one
  x in ball(l2, {radius}) by scale
privacy {model}
  epsilon = 1, delta = 1e-6
release r
  estimate {what}
  by {by}
"""


@pytest.mark.parametrize(
    ("radius", "model", "what", "by"),
    [
        ("1e-200", "central", "covariance(x)", "dp-covariance-gaussian"),
        ("1e-140", "central", "precision(x)", "dp-precision-covariance"),
        ("1", "nldp", "covariance(x)", "ldp-thresholding with r = 1e100"),
        ("1", "nldp", "covariance(x)", "ldp-thresholding with r = 1e200, gamma = 1"),
        ("1", "nldp", "theta in y = <theta, x> + noise", "nldp-sparse-linear-regression with r = 1e90, tau2 = 1e90"),
    ],
)
def test_a_plan_whose_sizes_doubles_cannot_carry_is_refused(radius: str, model: str, what: str, by: str) -> None:
    draft = compile_draft(parse_text(SPEC.format(radius=radius, model=model, what=what, by=by), surface="dps"))
    errors = [d for d in draft.diagnostics if d.severity == "error"]
    assert [d.code for d in errors] == ["DP407"], errors
    assert any(word in errors[0].message for word in ("must be positive and finite", "must be at least", "must lie between", "overflows"))
    assert "other units" in errors[0].help
