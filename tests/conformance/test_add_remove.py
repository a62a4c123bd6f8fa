"""Neighbours of different sizes: under add-remove the number of records is private, and the spec's n is a number that sums are divided by.

Every central algorithm that accepts the relation is run, in each of its variants, against a meter that answers without looking, on data
sets of m and m + 1 records for m from none to many times n. Along one transcript every value that is handed to the meter moves by at
most its stated sensitivity, and what comes out, the number, order and shape of the draws included, is the same to the last bit
whatever m is.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from fractions import Fraction
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dpspec.algorithms.convex_erm._common import mean_sensitivity
from dpspec.algorithms.convex_erm._solve import stationary
from dpspec.algorithms.estimate import Estimate
from dpspec.compiler.passes import compile_draft
from dpspec.data.enforce import enforce
from dpspec.data.records import Records
from dpspec.executor.bind import bound_problem, values
from dpspec.lang.source import Parsed, parse_text
from dpspec.privacy.meter import PrivacyError, Release
from dpspec.privacy.noise import PublicRandomness, StudyNoise
from dpspec.privacy.schedule import Draw, Sampled, draws
from dpspec.spec.expr import Name, Num
from tests.conformance.cases import ALGORITHMS, Case, case, gallery, labels, open_ended, resized
from tests.conformance.extremes import to_listed
from tests.conformance.replay import blind_run
from tests.conformance.test_conformance import small
from tests.conformance.test_replay import flat, same, with_neighbours

CENTRAL = [m for m in ALGORITHMS if "central" in m.CARD.models]

#: Who may accept add-remove: each value that goes to the meter is (1/n) times a sum over the records (or the minimiser of a sum with a
#: public ridge), n public, so one record more adds one bounded term. The others read batches of rows, or count on n, and say so.
SAID = ("batch", "player", "contract", "pair", "record")


def variants(module: ModuleType) -> list[tuple[str, Parsed]]:
    """The small gallery spec under add-remove, with each word of each option, with batches that are not all records where there are
    batches, and with a pure budget where there is one."""
    parsed = with_neighbours(small(module), "add-remove")
    found = [("as it is", parsed)]
    for option, words in module.CARD.options.items():
        found += [(f"{option} = {word}", with_option(parsed, option, word)) for word in words]
    if "b" in module.CARD.tunables:
        found.append(("b = 2", with_option(parsed, "b", Fraction(2))))
    if parsed.analysis.privacy.delta is not None and "pure" in module.CARD.guarantees:
        privacy = parsed.analysis.privacy.model_copy(update={"delta": None})
        found.append(("pure", replace(parsed, analysis=parsed.analysis.model_copy(update={"privacy": privacy}))))
    return found


def with_option(parsed: Parsed, option: str, value: str | Fraction) -> Parsed:
    release = parsed.analysis.releases[0]
    e = Name(value) if isinstance(value, str) else Num(value)
    options = (*((k, v) for k, v in release.by.options if k != option), (option, e))
    release = release.model_copy(update={"by": release.by.model_copy(update={"options": options})})
    return replace(parsed, analysis=parsed.analysis.model_copy(update={"releases": (release,)}))


def errors(parsed: Parsed) -> list[Any]:
    """But for targets that are missed, and laws of the gallery that a smaller variant's declarations are false of."""
    return [d for d in compile_draft(parsed).diagnostics if d.severity == "error" and d.code not in ("DP402", "DP225")]


each = pytest.mark.parametrize(
    "parsed", [pytest.param(parsed, id=f"{module.CARD.id}, {what}") for module in CENTRAL for what, parsed in variants(module)]
)


def served(parsed: Parsed) -> Case | None:
    """No variant is left out by mistake: None for an option that its card refuses at this budget, for batches of rows, and for what
    counts on n."""
    found = errors(parsed)
    assert {d.code for d in found} <= {"DP301", "DP306", "DP407"}, found
    return None if found else case(parsed)


def test_who_refuses_the_relation_says_why() -> None:
    ids = {module.CARD.id: errors(with_neighbours(small(module), "add-remove")) for module in CENTRAL}
    assert len([name for name, found in ids.items() if not found]) >= 14
    for name, found in ids.items():
        assert {d.code for d in found} <= {"DP306", "DP407"}, name
        assert not found or any(word in found[0].message for word in SAID), found


def sizes(n: int) -> tuple[int, ...]:
    """m, the size of the smaller neighbour."""
    return (0, 1, n - 1, n, n + 1, 5 * n)


def data(c: Case, m: int, kind: str, seed: int) -> Records:
    """m records: random ones of a typical or a large size, or all of them the same extreme one, or orthogonal to the first."""
    rng = np.random.default_rng(seed)
    d = int(c.draft.facts["d"])
    x, y = rng.normal(size=(m, d)), rng.choice(labels(c), size=m)
    match kind:
        case "large":
            x *= 1e6
        case "alike":
            x, y = np.tile(np.eye(d)[:1] * 1e3, (m, 1)), np.full(m, max(labels(c)))
        case "orthogonal":
            x = np.tile(np.eye(d)[1:2] * 1e3, (m, 1))
            x[:1] = np.eye(d)[0] * 1e3
    return Records(to_listed(c.draft, x), y)


KINDS = ("typical", "large", "alike", "orthogonal")


def without(records: Records, i: int) -> Records:
    assert records.y is not None
    return Records(np.delete(records.x, i, axis=0), np.delete(records.y, i))


def largest_share(c: Case, module: Any = None, most: int = 10_000) -> float:
    """The largest movement found between neighbours of all sizes, as a share of the sensitivity of the draw that moved."""
    planned, share = draws(c.release.tree), 0.0
    tolerance = float(c.release.tunables.get("tolerance", 0.0))
    n = int(c.draft.facts["n"])
    for m in (m for m in sizes(n) if m <= most):
        for seed, kind in enumerate(KINDS):
            more = data(c, m + 1, kind, seed)
            _, before = blind_run(c, more, module)
            for i in sorted({0, m // 2, m}):
                _, after = blind_run(c, without(more, i), module, removed=i)
                assert [name for name, _ in before.seen] == [name for name, _ in after.seen], (m, kind)
                for (name, u), (_, v) in zip(before.seen, after.seen, strict=True):
                    leaf = next(planned[k] for k in (name, f"{name}/select", f"{name}/value") if k in planned)
                    mechanism = leaf.draw.mechanism
                    share = max(
                        share, mechanism.distance(c.release.calibrated.levels[leaf.draw.name], u, v, tolerance) / mechanism.sensitivity
                    )
    return share


@each
def test_neighbours_of_any_size_move_each_value_by_at_most_its_sensitivity(parsed: Parsed) -> None:
    if (c := served(parsed)) is None:
        return
    share = largest_share(c)
    assert share <= 1 + 1e-9
    assert share > 0.02, "neighbours that hardly move anything show nothing"  # dp-precision-output: 1/d^2 of its worst case is typical


LOSSES = {
    "logistic": "{-1, 1} by map(0 -> -1, 1 -> 1)",
    "hinge": "{-1, 1} by map(0 -> -1, 1 -> 1)",
    "multinomial(3)": "{0, 1, 2} by reject",
    "(y - <w, x>)^2/2": "[-1, 1] by clip",
    "huber(1)": "[-10, 10] by clip",
    "logistic + 0.1*|w|_1": "{-1, 1} by map(0 -> -1, 1 -> 1)",
}
SETS = ("R^d", "ball(l2, 1)", "ball(l1, 2)", "ball(linf, 1)", "simplex")


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("ridge", ["", " + 0.3/2*|w|^2"])
def test_every_algorithm_on_every_loss_and_set(loss: str, ridge: str) -> None:
    ran = set()
    for over in SETS:
        for module in CENTRAL:
            if module.CARD.task != "minimise" or errors(with_neighbours(small(module), "add-remove")):
                continue
            steps = " with T = 3" if "T" in module.CARD.tunables else ""
            text = (
                'analysis "t"\ndata\n  n = 6, d = 3\n  from memory\n  private, unit person, neighbours add-remove\n'
                f"  x in ball(l2, 1) by scale\n  y in {LOSSES[loss]}\nprivacy central\n  epsilon = 1, delta = 0.1\n"
                f"release w\n  minimise {loss}{ridge} over {over}\n  by {module.CARD.id}{steps}\n"
            )
            parsed = parse_text(text, surface="dps")
            if errors(parsed):
                continue
            c = case(parsed)
            assert largest_share(c, most=7) <= 1 + 1e-9, (module.CARD.id, over)
            runs = [blind_run(c, data(c, m, kind, 3))[0] for m in sizes(6) for kind in ("typical", "alike")]
            assert all(same(runs[0], estimate) for estimate in runs[1:]), (module.CARD.id, over)
            ran.add(module.CARD.id)
    assert len(ran) >= 3


@each
def test_what_comes_out_does_not_depend_on_how_many_records_there_are(parsed: Parsed) -> None:
    """Same answers, another number of records: the same arrays, of the same shapes, to the last bit; the same draws in the same order; and
    nothing is said on the way."""
    if (c := served(parsed)) is None:
        return
    n = int(c.draft.facts["n"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runs = [blind_run(c, data(c, m, kind, 3)) for m in sizes(n) for kind in ("typical", "alike")]
    first, seen = runs[0][0], [(name, np.shape(v)) for name, v in runs[0][1].seen]
    for estimate, blind in runs[1:]:
        assert same(first, estimate)
        assert [np.shape(v) for v in flat(first).values()] == [np.shape(v) for v in flat(estimate).values()]
        assert open_ended(c) or [(name, np.shape(v)) for name, v in blind.seen] == seen
        assert [name for name, _ in blind.seen] == [name for name, _ in seen]
        assert blind.meter.events() == runs[0][1].meter.events()


@each
def test_a_real_run_goes_through_for_any_number_of_records(parsed: Parsed) -> None:
    """With answers that follow the records: no solver gives up, nothing overflows, nothing is said, however many there are."""
    if (c := served(parsed)) is None:
        return
    n = int(c.draft.facts["n"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = [c.run(data(c, m, kind, 4), 5) for m in (*sizes(n), 200 * n) for kind in KINDS]
    assert open_ended(c) or len({f.shape for f in found}) == 1
    assert all(np.isfinite(f).all() for f in found)
    assert any(not np.array_equal(found[0], f) for f in found)


# ------------------------------------------------------------------------------------------------- the empirical audit


SLOW = ("dp-iht", "dp-sgd", "approximate-minima-perturbation", "dp-sparse-mean-heavy-tailed")
AUDITED = ("dp-gd", "dp-covariance-gaussian", *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW))


@pytest.mark.parametrize("name", AUDITED)
def test_an_audit_on_n_and_n_minus_1_records(name: str) -> None:
    """Silent at the plan's noise, loud at a fraction of it: the pair differs by one extreme record, which the other one lacks."""
    from dpspec.audit.empirical.release import audit_plan_release

    module = next(m for m in CENTRAL if name == m.CARD.id)
    c = case(with_neighbours(small(module, n=2), "add-remove"))
    g, d = c.draft.calibrated.guarantee, int(c.draft.facts["d"])
    x = np.zeros((2, d))
    x[0] = np.eye(d)[0] * 1e3
    y = np.full(2, min(labels(c)))
    pair = (Records(x, y), Records(x[1:], y[1:]))
    claim = {"claim_epsilon": float(g.epsilon), "claim_delta": float(g.delta or 0.0)}
    honest = audit_plan_release(lambda seed, which: c.run(pair[which], seed), **claim, trials=1500, seed=21)
    assert honest.verdict == "not-certified", honest
    factor = getattr(module, "AUDIT_FACTOR", 4.0)
    broken = audit_plan_release(lambda seed, which: c.run(pair[which], seed, weaken=factor), **claim, trials=1500, seed=22)
    assert broken.verdict == "violated", broken


# ------------------------------------------------------------------------------------------- algorithms that look at m


def module_of(name: str) -> ModuleType:
    return next(m for m in CENTRAL if name == m.CARD.id)


def prepared(name: str) -> Case:
    return case(with_neighbours(small(module_of(name)), "add-remove"))


def leaks(c: Case, run: Any) -> bool:
    """Whether a module with this body is caught by one of the two comparisons above, or by the meter."""
    module = SimpleNamespace(run=run)
    n = int(c.draft.facts["n"])
    try:
        runs = [blind_run(c, data(c, m, "typical", 3), module) for m in sizes(n)]
        if not all(same(runs[0][0], estimate) for estimate, _ in runs[1:]):
            return True
        return largest_share(c, module) > 1 + 1e-9
    except (PrivacyError, ValueError, IndexError, AssertionError):
        return True


def gradient_descent(divisor: Any, *, rounds: Any = None, sensitivity: Any = None, step: Any = None, out: Any = None) -> Any:
    """The body of dp-gd with something in it that looks at how many records there are."""

    def run(records: Any, p: Any, t: Any, release: Any) -> Estimate:
        w = np.zeros(p.d)
        for _ in range(t.T if rounds is None else rounds(records, t)):
            g = p.objective.data_gradient(w, records, divisor(records, p))
            s = mean_sensitivity(p) if sensitivity is None else sensitivity(records, p)
            w = w - (t.eta if step is None else step(records, t)) * release.draw("gradient", g, sensitivity=s)
        return Estimate(w, {} if out is None else {"more": out(records)})

    return run


def public(records: Any, p: Any) -> int:
    return int(p.n)


def counted(records: Any, p: Any) -> int:
    return max(records.n, 1)


CHEATS = {
    "divides by how many there are": gradient_descent(counted),
    "steps by how many there are": gradient_descent(public, step=lambda records, t: t.eta * 6 / (records.n + 1)),
    "releases how many there are": gradient_descent(public, out=lambda records: np.array(float(records.n))),
    "releases an array that is as long": gradient_descent(public, out=lambda records: np.zeros(records.n)),
    "goes on for as many rounds": gradient_descent(public, rounds=lambda records, t: min(records.n, t.T)),
    "states the sensitivity of as many": gradient_descent(
        public, sensitivity=lambda records, p: mean_sensitivity(p) * p.n / max(records.n, 1)
    ),
    "has a parity": gradient_descent(public, step=lambda records, t: t.eta * (1 + records.n % 2)),
    "counts blocks": gradient_descent(public, out=lambda records: float(len(list(records.blocks(4))))),
}


def test_the_body_that_the_cheats_are_made_from_is_honest() -> None:
    assert not leaks(prepared("dp-gd"), gradient_descent(public))


@pytest.mark.parametrize("what", CHEATS)
def test_an_algorithm_that_looks_at_how_many_records_there_are_is_seen(what: str) -> None:
    assert leaks(prepared("dp-gd"), CHEATS[what])


def test_a_second_moment_over_the_true_count_is_seen() -> None:
    """|S - S'| is up to sqrt(2)/m there, and nothing compares it with 1/n."""
    from dpspec.algorithms.matrix import dp_covariance_gaussian
    from dpspec.algorithms.matrix._moment import second_moment

    def run(records: Any, p: Any, t: Any, release: Any) -> Estimate:
        moment = second_moment(records) if records.n else np.zeros((p.d, p.d))
        return Estimate(release.draw("moment", moment, sensitivity=dp_covariance_gaussian.mechanism(p, t.noise).sensitivity))

    assert leaks(prepared("dp-covariance-gaussian"), run)


def batches(tell: Any) -> Any:
    def run(records: Any, p: Any, t: Any, release: Any) -> Estimate:
        w = np.zeros(p.d)
        for _ in range(t.T):
            batch = records.take(release.batch("gradient", tell(records, p)))
            g = p.objective.data_gradient(w, batch, p.n / 2)
            w = w - t.eta * release.draw("gradient", g, sensitivity=1.0)
        return Estimate(w)

    return run


def test_a_poisson_batch_over_the_public_n_is_seen() -> None:
    """With fewer records it names some that are not there, with more it never reads the last ones."""
    from dpspec.privacy.calibrate import Budget, calibrate
    from dpspec.privacy.mechanisms.gaussian import Gaussian
    from dpspec.privacy.schedule import Repeat

    c = prepared("dp-gd")
    n, d = int(c.draft.facts["n"]), int(c.draft.facts["d"])
    tree = Repeat(Sampled(Draw("gradient", Gaussian(1.0, d)), "poisson", 0.5, n), int(c.release.tunables.T))
    release = replace(c.release, tree=tree, calibrated=calibrate(tree, Budget(epsilon="1", delta="0.1"), neighbours="add-remove"))
    sampled = Case(replace(c.draft, releases=(release,)))
    few = data(c, n - 2, "typical", 1)
    assert blind_run(sampled, few, SimpleNamespace(run=batches(lambda records, p: records.n)))[0].theta.shape == (d,)
    with pytest.raises(IndexError):
        blind_run(sampled, few, SimpleNamespace(run=batches(lambda records, p: p.n)))


def test_gradient_steps_on_more_than_n_records_do_not_contract() -> None:
    """Why output-perturbation refuses: its sensitivity, eta*(1 L/n)*T, rests on steps that do not move two points apart. With 100 n records
    the same steps end farther apart than that."""
    parsed = with_neighbours(resized(small(module_of("output-perturbation")), T=4), "zero-out")  # the same 1 L/n
    c = case(parsed)
    n, d = int(c.draft.facts["n"]), int(c.draft.facts["d"])
    stated = draws(c.release.tree)["output"].draw.mechanism.sensitivity

    def apart(m: int) -> float:
        x = np.tile(np.eye(d)[:1], (m, 1))
        y = np.where(np.arange(m) % 2, max(labels(c)), min(labels(c)))
        one, other = (blind_run(c, records)[1].seen[0][1] for records in (Records(x, y), Records(x[1:], y[1:])))
        return float(np.linalg.norm(one - other))

    assert 0 < apart(n) <= stated
    assert apart(100 * n) > stated


def test_more_than_n_records_break_the_floor_of_a_precision_matrix() -> None:
    """Why dp-precision-output bounds |Theta*|_2 by d/rho there: the least eigenvalue is not 1/(r^2 + rho d) or more, as the sharper bound
    d/rho - (d - 1)/(r^2 + rho d) needs. With 20 n records e1 the minimiser is diagonal, 1/(20 r^2 + rho) and 1/rho (by hand)."""
    from dpspec.algorithms.matrix import dp_precision_output as module
    from dpspec.algorithms.matrix._lasso import graphical_lasso
    from dpspec.algorithms.matrix._moment import second_moment

    c = prepared("dp-precision-output")
    p, t = c.release.problem, c.release.tunables
    r, rho = float(p.facts["x_l2"]), float(t.penalty)
    x = np.tile(np.eye(p.d)[:1] * r, (20 * p.n, 1))
    theta = graphical_lasso(second_moment(Records(x), n=p.n), rho).theta
    assert np.diag(theta) == pytest.approx([1 / (20 * r**2 + rho), *[1 / rho] * (p.d - 1)], rel=1e-3)
    assert theta[0, 0] < module.floor(p, t)
    assert module.largest_norm(p, t) == pytest.approx(p.d / rho, rel=1e-12)
    assert module.largest_norm(replace(p, neighbours="zero-out"), t) < p.d / rho


def enforced(c: Case, records: Records) -> Any:
    return enforce(records, c.draft.analysis.data, values(c.draft))[0]


@pytest.mark.parametrize("name", ["approximate-minima-perturbation", "objective-perturbation"])
def test_the_minimiser_is_found_to_its_tolerance_whatever_the_number_of_records(name: str) -> None:
    """On none to 20 n records, n being that of the gallery: the gradient at the returned point, summed here in extended precision."""
    c = case(with_neighbours(resized(gallery(module_of(name)), d=3), "add-remove"))
    p, tolerance = bound_problem(c.draft, c.release), float(c.release.tunables["tolerance"])
    over = p.objective.over
    assert over.kind in ("reals", "ball")
    linear, extra = np.array([0.01, -0.02, 0.005]), 0.1
    for m in (0, 1, p.n, 20 * p.n):
        repeated = data(c, min(m, 1000), "typical", 2)
        x = np.resize(repeated.x, (m, p.d)) if m else repeated.x
        records = enforced(c, Records(x, np.resize(repeated.y, m)))
        w = stationary(p.objective, records, p.n, p.loss.smooth, p.loss.lipschitz, linear, extra, tolerance)
        u = np.asarray(records.x @ w)
        slopes = p.objective.slope(u, records.y)
        total = np.array([math.fsum(column) for column in (np.asarray(records.x) * slopes[:, None]).T])
        gradient = total / p.n + (float(p.objective.l2) + extra) * w + linear
        assert np.linalg.norm(over.project(w - gradient) - w) <= tolerance * (1 + 1e-6)


def test_a_tolerance_without_room_for_more_records_is_refused_before_any_record_is_read() -> None:
    """It would be reached on n records and missed on many times as many, and the failure would tell."""
    for name in ("approximate-minima-perturbation", "objective-perturbation"):
        fine = with_option(small(module_of(name)), "tolerance", Fraction(1, 10**11))
        assert not errors(with_neighbours(fine, "replace-one"))
        assert "16*n" in errors(with_neighbours(fine, "add-remove"))[0].message


def test_a_metered_run_counts_no_records() -> None:
    """The events of a finished run say how often was drawn and how large the noise was, not on how many records."""
    c = prepared("dp-gd")
    found = []
    for m in (0, 3, 50):
        meter = Release(c.release.calibrated, StudyNoise(1), mode="study", public=PublicRandomness(0))
        c.release.module.run(enforced(c, data(c, m, "typical", 1)), bound_problem(c.draft, c.release), c.release.tunables, meter)
        found.append(meter.close())
    assert found[0] == found[1] == found[2]
