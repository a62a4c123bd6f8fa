"""Callables, commands, files, domains, the search, one release end to end, one run with canaries."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

from dpspec.audit.empirical import (
    Answers,
    Records,
    audit_callable,
    audit_command,
    audit_one_run,
    audit_plan_release,
    audit_samples,
    ball,
    labelled,
    numbers,
)
from dpspec.audit.empirical.onerun import guess_tail, one_run_epsilon
from dpspec.audit.empirical.samples import read_samples, write_samples
from dpspec.spec.diagnostics import SpecError

RNG = np.random.default_rng


# ---- domains --------------------------------------------------------------------------------------------------------------------------

DOMAINS = [
    numbers(6, 0, 1),
    numbers(6, -2, 3, relation="add-remove"),
    ball(4, 3, 2.0),
    ball(4, 3, relation="add-remove"),
    labelled(5, 2),
    Records(3, 4, -1, 1),
    Answers(5),
    Answers(4, monotone=True),
]


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
def test_every_pair_proposed_is_a_pair_of_neighbours_in_the_domain(domain):
    rng = RNG(0)
    pairs = [*domain.extremes(), *(domain.random(rng) for _ in range(50))]
    for _ in range(200):
        pairs.append(domain.vary(pairs[int(rng.integers(len(pairs)))], rng))
    for a, b in pairs:
        assert domain.neighbours(a, b)
        for x in (a, b):
            if isinstance(domain, Answers):
                assert np.all((x >= 0) & (x <= domain.span))
                continue
            assert 1 <= len(x) <= max(domain.size, 2)
            rows = x.reshape(len(x), -1)[:, : domain.dim]
            if domain.radius is None:
                assert np.all((rows >= domain.low) & (rows <= domain.high))
            else:
                assert np.all(np.linalg.norm(rows, axis=1) <= domain.radius * (1 + 1e-12))
            if domain.labels:
                assert np.isin(x[:, -1], domain.labels).all()


def test_what_neighbours_are():
    one, two = numbers(5, 0, 1), numbers(5, 0, 1, relation="add-remove")
    assert one.neighbours([0.1, 0.2], [0.2, 0.9])
    assert not one.neighbours([0.1, 0.2], [0.3, 0.9])
    assert not one.neighbours([0.1], [0.1, 0.2])
    assert two.neighbours([0.1], [0.2, 0.1])
    assert not two.neighbours([0.1], [0.2, 0.3])
    assert not Answers(2, monotone=True).neighbours([0, 1], [1, 0])


# ---- callables ------------------------------------------------------------------------------------------------------------------------


def test_mechanisms_of_one_two_and_three_parameters():
    pair = [(np.zeros(1), np.ones(1))]
    own = RNG(4)
    forms = [
        lambda x: x[0] + own.laplace(0, 0.2),
        lambda x, rng: x[0] + rng.laplace(0, 0.2),
        lambda x, n, rng: x[0] + rng.laplace(0, 0.2, (n, 1)),
    ]
    for f in forms:
        found = audit_callable(f, pair, 1.0, samples=2000)
        assert found.verdict == "violated"
        assert 2 < found.epsilon_lower < 5


def test_several_final_pairs_share_the_error():
    """Only the third pair tells anything; it is tested at alpha/3 and found."""
    pairs = [(np.zeros(1), np.zeros(1)), (np.ones(1), np.ones(1)), (np.zeros(1), np.full(1, 2.0))]
    found = audit_callable(lambda x, n, rng: x[0] + rng.laplace(0, 1, (n, 1)), pairs, 1.0, samples=10_000, final_pairs=3)
    assert found.pairs_tested == 3
    assert found.pair[1].tolist() == [2.0]
    assert found.verdict == "violated"


def test_search_runs_are_not_tested_runs():
    calls = []

    def f(x, n, rng):
        calls.append(n)
        return x[0] + rng.laplace(0, 1, (n, 1))

    audit_callable(f, numbers(1, 0, 1), 1.0, samples=5000, search=4000)
    assert calls[-2:] == [5000, 5000]
    assert sum(calls[:-2]) / 2 <= 4000 * 1.5 + 200 * 40  # at least 200 runs a pair are drawn in the first round


def test_outputs_whose_width_depends_on_the_input():
    found = audit_callable(
        lambda x, n, rng: rng.normal(0, 1, (n, len(x))), [(np.zeros(2), np.zeros(3))], 1.0, samples=1000
    )  # one number a record: n is published
    assert found.verdict == "violated"


def test_refused_inputs():
    with pytest.raises(SpecError) as e:
        audit_callable(lambda x, n, rng: np.zeros((n, 1)), [], 1.0)
    assert e.value.diagnostics[0].code == "DP657"
    with pytest.raises(SpecError) as e:
        audit_callable(lambda x, n, rng: np.zeros((3, 1)), [(0, 1)], 1.0)
    assert e.value.diagnostics[0].code == "DP653"


# ---- files and commands ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["csv", "npy"])
def test_files(tmp_path, kind):
    paths = [tmp_path / f"{side}.{kind}" for side in "ab"]
    for i, path in enumerate(paths):
        write_samples(path, RNG(i).laplace(i, 0.25, (4000, 1)))
    found = audit_samples(*paths, claim=1.0)
    assert found.verdict == "violated"
    assert (
        2.5 < found.epsilon_lower < 4
    )  # the true epsilon is 4; 25 hits on the rarer side leave an error of 0.2 at best, and 0.001 is 3.1 errors


def test_csv_round_trip_header_and_labels(tmp_path):
    x = RNG(0).normal(size=(5, 2))
    write_samples(tmp_path / "x.csv", x)
    assert np.array_equal(read_samples(tmp_path / "x.csv"), x)
    (tmp_path / "h.csv").write_text("mean,count\n1.5,2\n2.5,3\n")
    assert read_samples(tmp_path / "h.csv").tolist() == [[1.5, 2.0], [2.5, 3.0]]
    (tmp_path / "l.csv").write_text("yes\nno\n")
    assert read_samples(tmp_path / "l.csv").tolist() == [["yes"], ["no"]]


@pytest.mark.parametrize("body", ["", "1,2\n3\n"])
def test_unusable_files(tmp_path, body):
    (tmp_path / "x.csv").write_text(body)
    with pytest.raises(SpecError) as e:
        read_samples(tmp_path / "x.csv")
    assert e.value.diagnostics[0].code == "DP653"
    with pytest.raises(SpecError):
        read_samples(tmp_path / "missing.npy")


def test_pickles_are_not_loaded(tmp_path):
    np.save(tmp_path / "x.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(SpecError):
        read_samples(tmp_path / "x.npy")


PROGRAM = """
import random, sys
data, out, n, seed, scale = sys.argv[1:6]
random.seed(int(seed))
total = sum(float(line) for line in open(data))
with open(out, "w") as f:
    for _ in range(int(n)):
        f.write(repr(total + random.expovariate(1 / float(scale)) - random.expovariate(1 / float(scale))) + "\\n")
"""


@pytest.mark.parametrize(("scale", "verdict"), [("0.3", "violated"), ("1.0", "not-certified")])
def test_command(tmp_path, scale, verdict):
    (tmp_path / "mech.py").write_text(PROGRAM)
    command = [sys.executable, str(tmp_path / "mech.py"), "{data}", "{out}", "{n}", "{seed}", scale]
    found = audit_command(command, [(np.array([1.0, 0.0]), np.array([1.0, 1.0]))], 1.0, samples=5000)
    assert found.verdict == verdict


def test_command_with_files_and_one_run_a_call(tmp_path):
    (tmp_path / "mech.py").write_text(PROGRAM)
    for name, body in (("a.txt", "0\n"), ("b.txt", "1\n")):
        (tmp_path / name).write_text(body)
    command = f"{sys.executable} {tmp_path}/mech.py {{data}} {{out}} 1 {{seed}} 0.05"
    found = audit_command(command, [(str(tmp_path / "a.txt"), str(tmp_path / "b.txt"))], 0.5, samples=60)
    assert found.samples == 60
    assert found.verdict == "violated"


@pytest.mark.parametrize(
    ("code", "limit", "says"),
    [
        ("import sys; sys.exit('boom')", 30.0, "boom"),
        ("import time; time.sleep(20)", 0.5, "time limit"),
        ("pass", 30.0, "without writing"),
    ],
)
def test_failing_commands(code, limit, says):
    command = [sys.executable, "-c", code, "{data}", "{out}", "{n}"]
    with pytest.raises(SpecError) as e:
        audit_command(command, [(np.zeros(1), np.ones(1))], 1.0, time_limit=limit)
    assert e.value.diagnostics[0].code == "DP654"
    assert says in str(e.value)


def test_command_templates_are_checked_and_no_shell_is_used(tmp_path):
    for command in ("prog {data}", "no-such-program-here {data} {out}"):
        with pytest.raises(SpecError) as e:
            audit_command(command, [(np.zeros(1), np.ones(1))], 1.0)
        assert e.value.diagnostics[0].code == "DP654"
    mark = tmp_path / "mark"
    with pytest.raises(SpecError):
        audit_command(f"no-such-program-here {{data}} {{out}} ; touch {mark}", [(np.zeros(1), np.ones(1))], 1.0)
    assert not mark.exists()


# ---- one release end to end -----------------------------------------------------------------------------------------------------------


def mu_of(epsilon, delta):
    """The mu whose Gaussian mechanism is exactly (epsilon, delta)-DP (Balle and Wang 2018), by root finding."""

    def excess(mu):
        return stats.norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu) - delta

    return brentq(excess, 1e-3, 60)


def gaussian_mean(mu, d=20):
    """A mean in d dimensions whose neighbours lie mu noise scales apart, spread over all coordinates."""
    shift = mu / math.sqrt(d)
    return lambda seed, which: RNG(seed).normal(which * shift, 1.0, d)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_a_release_at_four_times_the_claimed_mu_is_found(epsilon):
    mu = mu_of(epsilon, 1e-5)
    for seed in range(3):
        assert audit_plan_release(gaussian_mean(4 * mu), epsilon, 1e-5, trials=2000, seed=seed).verdict == "violated"
        assert audit_plan_release(gaussian_mean(4 * mu), None, claim_mu=mu, trials=2000, seed=seed).verdict == "violated"


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_a_correct_release_raises_no_alarm(epsilon):
    mu = mu_of(epsilon, 1e-5)
    for seed in range(10):
        assert audit_plan_release(gaussian_mean(mu), epsilon, 1e-5, trials=1000, seed=seed).verdict == "not-certified"
        assert audit_plan_release(gaussian_mean(mu), None, claim_mu=mu, trials=1000, seed=seed).verdict == "not-certified"


def test_a_release_wider_than_the_number_of_training_runs():
    found = audit_plan_release(gaussian_mean(4.0, d=600), None, claim_mu=1.0, trials=1000)
    assert found.verdict == "violated"


def test_the_sides_never_share_a_seed():
    seen = []

    def run_once(seed, which):
        seen.append(seed)
        return np.array([float(which)])

    audit_plan_release(run_once, 1.0, trials=100)
    assert len(set(seen)) == 200


# ---- one run with canaries ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("right", "guesses", "m", "eps", "delta"), [(90, 100, 1000, 1.0, 1e-5), (60, 100, 100, 0.2, 1e-3), (10, 10, 50, 2.0, 0.0)]
)
def test_tail_against_the_formula_written_out(right, guesses, m, eps, delta):
    q = math.exp(eps) / (1 + math.exp(eps))

    def f(v):
        return stats.binom.sf(v - 1, guesses, q)

    expected = f(right) + 2 * m * delta * max((f(right - i) - f(right)) / i for i in range(1, right + 1))
    assert guess_tail(right, guesses, m, eps, delta) == pytest.approx(min(1.0, expected), rel=1e-9)


def test_level_of_the_one_run_bound_for_randomized_response():
    """m coins through randomized response at epsilon: the guesses are Binomial(m, e^eps/(1+e^eps)), the worst case of the theorem.

    P[bound > epsilon] is summed exactly over the number of right guesses.
    """
    eps, m, alpha = 1.0, 200, 0.05
    keep = math.exp(eps) / (1 + math.exp(eps))
    wrong = sum(stats.binom.pmf(v, m, keep) for v in range(m + 1) if one_run_epsilon(v, m, m, 0.0, alpha) > eps)
    assert 0 < wrong <= alpha


def test_one_run_finds_a_leak_and_not_a_correct_mechanism():
    rng = RNG(0)
    included = rng.random(1000) < 0.5
    leak = audit_one_run(included + rng.laplace(0, 0.2, 1000), included, claim=1.0, delta=1e-6)
    assert leak.verdict == "violated"
    assert 1.0 < leak.epsilon_lower < 5.0
    for s in range(30):
        rng = RNG([7, s])
        included = rng.random(1000) < 0.5
        assert audit_one_run(included + rng.laplace(0, 1.0, 1000), included, claim=1.0).verdict == "not-certified"


def test_one_run_abstains_only_by_the_scores():
    """The guessed canaries are the same whatever the coins: a permutation of the coins of the others changes nothing."""
    rng = RNG(1)
    scores = rng.normal(size=400)
    included = rng.random(400) < 0.5
    first = audit_one_run(scores, included, guesses=100)
    middle = np.argsort(-scores)[50:350]
    changed = included.copy()
    changed[middle] = ~changed[middle]
    assert audit_one_run(scores, changed, guesses=100).hits == first.hits


def test_one_run_refusals_and_warnings():
    with pytest.raises(SpecError):
        audit_one_run([1.0, 2.0], [True])
    with pytest.raises(SpecError):
        audit_one_run([1.0, math.nan], [True, False])
    with pytest.raises(SpecError):
        audit_one_run([1.0, 2.0], [True, False], guesses=3)
    codes = [d.code for d in audit_one_run(np.arange(500.0), np.ones(500), claim=9.0).diagnostics]
    assert "DP658" in codes
    assert "DP652" in codes
