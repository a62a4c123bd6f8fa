"""The meter fails closed, and what it lets through has the planned law."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import stats

from dpspec.privacy.channels.gaussian_ball_product import GaussianBallProduct
from dpspec.privacy.channels.gaussian_outer import GaussianOuter
from dpspec.privacy.channels.gaussian_product import GaussianProduct
from dpspec.privacy.channels.gaussian_vector import GaussianVector
from dpspec.privacy.channels.hemisphere import Hemisphere
from dpspec.privacy.mechanisms.gaussian import Gaussian
from dpspec.privacy.mechanisms.laplace import Laplace
from dpspec.privacy.meter import PrivacyError, Release
from dpspec.privacy.noise import PublicRandomness, SecureNoise, StudyNoise
from dpspec.privacy.schedule import Disjoint, Draw, Repeat, Sampled, Sequence
from dpspec.spec.codes import CODES

P = 1e-6  # a sound sampler fails one test in a million: the secure source cannot be seeded


@dataclass(frozen=True)
class Plan:
    tree: object
    levels: dict


class Counting:
    """Wraps a source and counts what it is asked for."""

    secure = False

    def __init__(self):
        self.calls = 0
        self.inner = StudyNoise(1)

    def __getattr__(self, name):
        method = getattr(self.inner, name)

        def call(*a, **k):
            self.calls += 1
            return method(*a, **k)

        return call


TREE = Sequence(
    (
        Repeat(Draw("gradient", Gaussian(0.5, size=3)), 2),
        Draw("count", Laplace(1.0)),
        Disjoint(Draw("local", Hemisphere(3, 1.0), per="user"), 2),
        Draw("outer", GaussianOuter(3, 1.0), per="user"),
    )
)
PLAN = Plan(TREE, {"gradient": 2.0, "count": 4.0, "local": 1.0, "outer": 1.5})


def open_release(noise=None, **options):
    return Release(PLAN, noise or StudyNoise(1, 2), mode=options.pop("mode", "study"), **options)


def finish(release):
    for _ in range(2):
        release.draw("gradient", np.zeros(3), sensitivity=0.5)
        release.mean("local", np.zeros((10, 3)))
    release.draw("count", 1.0, sensitivity=1.0)
    release.mean_blocks("outer", [np.zeros((4, 3))])


@pytest.mark.parametrize("mode", ["study", "release"])
def test_a_whole_run(mode):
    seen = []
    release = open_release(
        SecureNoise() if mode == "release" else StudyNoise(3), mode=mode, on_draw=lambda name, done, total: seen.append((name, done, total))
    )
    finish(release)
    events = release.close()
    assert json.loads(json.dumps(events)) == events
    assert [(e["name"], e["mechanism"], e["scale"], e["count"], e["users"]) for e in events] == [
        ("gradient", "gaussian", 1.0, 2, None),
        ("local", "hemisphere", pytest.approx(2 / math.tanh(0.5)), 2, 20),  # sqrt(pi)*Gamma(2)/Gamma(3/2) = 2
        ("count", "laplace", 4.0, 1, None),
        ("outer", "gaussian-outer", 1.5 * math.sqrt(2), 1, 4),
    ]
    assert seen == [("gradient", 1, 2), ("local", 1, 2), ("gradient", 2, 2), ("local", 2, 2), ("count", 1, 1), ("outer", 1, 1)]


def bad_unknown(r):
    r.draw("other", np.zeros(3), sensitivity=0.5)


def bad_unknown_mean(r):
    r.mean("other", np.zeros((2, 3)))


def bad_extra(r):
    for _ in range(3):
        r.draw("gradient", np.zeros(3), sensitivity=0.5)


def bad_extra_local(r):
    for _ in range(3):
        r.mean("local", np.zeros((2, 3)))


def bad_sensitivity(r):
    r.draw("gradient", np.zeros(3), sensitivity=0.5 * (1 + 1e-9))


def bad_sensitivity_small(r):
    r.draw("gradient", np.zeros(3), sensitivity=0.25)


def bad_sensitivity_nan(r):
    r.draw("gradient", np.zeros(3), sensitivity=math.nan)


def bad_nan(r):
    r.draw("gradient", np.array([0, math.nan, 0]), sensitivity=0.5)


def bad_inf(r):
    r.draw("count", math.inf, sensitivity=1.0)


def bad_shape(r):
    r.draw("gradient", np.zeros(4), sensitivity=0.5)


def bad_text(r):
    r.draw("gradient", ["a", "b", "c"], sensitivity=0.5)


def bad_ragged(r):
    r.draw("gradient", [[1.0], [1.0, 2.0]], sensitivity=0.5)


def bad_complex(r):
    r.draw("count", 1j, sensitivity=1.0)


def bad_channel_as_central(r):
    r.draw("outer", np.zeros(6), sensitivity=math.sqrt(2))


def bad_central_as_channel(r):
    r.mean("gradient", np.zeros((2, 3)))


def bad_width(r):
    r.mean("local", np.zeros((2, 4)))


def bad_empty(r):
    r.mean("local", np.zeros((0, 3)))


def bad_no_blocks(r):
    r.mean_blocks("outer", [])


def bad_block_width(r):
    r.mean_blocks("outer", [np.zeros((2, 3)), np.zeros((2, 4))])


def bad_batch(r):
    r.batch("gradient")


def bad_close(r):
    r.draw("gradient", np.zeros(3), sensitivity=0.5)
    r.close()


FAILURES = [
    (bad_unknown, "DP320"),
    (bad_unknown_mean, "DP320"),
    (bad_extra, "DP321"),
    (bad_extra_local, "DP321"),
    (bad_sensitivity, "DP322"),
    (bad_sensitivity_small, "DP322"),
    (bad_sensitivity_nan, "DP322"),
    (bad_nan, "DP325"),
    (bad_inf, "DP325"),
    (bad_shape, "DP325"),
    (bad_text, "DP325"),
    (bad_ragged, "DP325"),
    (bad_complex, "DP325"),
    (bad_channel_as_central, "DP320"),
    (bad_central_as_channel, "DP320"),
    (bad_width, "DP325"),
    (bad_empty, "DP325"),
    (bad_no_blocks, "DP325"),
    (bad_block_width, "DP325"),
    (bad_batch, "DP320"),
    (bad_close, "DP324"),
]


@pytest.mark.parametrize(("act", "code"), FAILURES, ids=[f.__name__ for f, _ in FAILURES])
def test_every_misuse_fails_closed(act, code):
    source = Counting()
    release = open_release(source)
    with pytest.raises(PrivacyError) as failure:
        act(release)
    assert failure.value.code == code
    assert code in CODES
    calls = source.calls
    # dead: nothing is drawn any more, by any door
    for door in (
        lambda: release.draw("gradient", np.zeros(3), sensitivity=0.5),
        lambda: release.draw("count", 1.0, sensitivity=1.0),
        lambda: release.mean("local", np.zeros((2, 3))),
        lambda: release.mean_blocks("outer", [np.zeros((2, 3))]),
        lambda: release.batch("gradient"),
        release.close,
    ):
        with pytest.raises(PrivacyError) as after:
            door()
        assert after.value.code == "DP323"
    assert source.calls == calls


@pytest.mark.parametrize(("act", "code"), [f for f in FAILURES if f[1] in ("DP320", "DP322")], ids=lambda v: getattr(v, "__name__", v))
def test_the_source_is_untouched_by_a_refused_draw(act, code):
    source = Counting()
    with pytest.raises(PrivacyError):
        act(open_release(source))
    assert source.calls == 0


def test_refusals_never_print_the_value():
    for value in (np.array([0.123456, math.nan, 3.0]), np.array([0.123456, 1.0])):
        with pytest.raises(PrivacyError) as failure:
            open_release().draw("gradient", value, sensitivity=0.5)
        assert "0.123456" not in str(failure.value)


def test_a_closed_release_is_dead():
    release = open_release()
    finish(release)
    release.close()
    for act in (lambda: release.draw("count", 1.0, sensitivity=1.0), release.close, lambda: release.scale("count")):
        with pytest.raises(PrivacyError) as failure:
            act()
        assert failure.value.code == "DP323"
    assert len(release.events()) == 4


@pytest.mark.parametrize("source", [StudyNoise(1), Counting(), type("Fake", (), {"secure": True})()])
def test_private_data_need_the_secure_source(source):
    with pytest.raises(PrivacyError) as failure:
        open_release(source, mode="release")
    assert failure.value.code == "DP326"


def test_a_mode_is_one_of_two():
    with pytest.raises(PrivacyError):
        open_release(mode="debug")


def test_levels_and_draws_must_agree():
    for levels in ({"gradient": 1.0}, {**PLAN.levels, "more": 1.0}):
        with pytest.raises(PrivacyError) as failure:
            Release(Plan(TREE, levels), StudyNoise(1), mode="study")
        assert failure.value.code == "DP320"
    with pytest.raises(ValueError, match="level"):
        Release(Plan(TREE, {**PLAN.levels, "gradient": 0.0}), StudyNoise(1), mode="study")


def test_no_public_attribute_leads_to_the_noise():
    source = StudyNoise(4)
    release = open_release(source, public=PublicRandomness(1))
    for name in dir(release):
        if not name.startswith("_"):
            value = getattr(release, name)
            assert value is not source
            assert not isinstance(value, StudyNoise | SecureNoise)
    with pytest.raises(AttributeError):
        release.anything = 1  # type: ignore[attr-defined]
    assert release.public.seed == 1
    with pytest.raises(PrivacyError):
        _ = open_release().public


def test_released_laws():
    n = 2000
    tree = Sequence((Repeat(Draw("g", Gaussian(0.5, size=2)), n), Repeat(Draw("l", Laplace(2.0)), n)))
    release = Release(Plan(tree, {"g": 3.0, "l": 0.25}), StudyNoise(8), mode="study")
    g = np.array([release.draw("g", np.array([1.0, -1.0]), sensitivity=0.5) for _ in range(n)])
    x = np.array([release.draw("l", 5, sensitivity=2.0) for _ in range(n)])
    release.close()
    assert stats.kstest(g[:, 0], stats.norm(1, 1.5).cdf).pvalue > P
    assert stats.kstest(g[:, 1], stats.norm(-1, 1.5).cdf).pvalue > P
    assert stats.kstest(x, stats.laplace(5, 0.5).cdf).pvalue > P


def test_scalars_give_floats_and_arrays_keep_their_shape():
    tree = Sequence((Draw("scalar", Gaussian(1.0)), Draw("matrix", Gaussian(1.0, size=6))))
    release = Release(Plan(tree, {"scalar": 1.0, "matrix": 1.0}), StudyNoise(8), mode="study")
    assert isinstance(release.draw("scalar", np.float64(1.0), sensitivity=1.0), float)
    assert release.draw("matrix", np.zeros((2, 3)), sensitivity=1.0).shape == (2, 3)


@pytest.mark.parametrize("channel", [Hemisphere(2, 1.0), GaussianVector(2, 1.0), GaussianOuter(2, 1.0), GaussianProduct(2, 1.0, 1.0)])
@pytest.mark.parametrize("path", ["aggregate", "per user", "blocks", "blocks per user"])
def test_every_path_estimates_the_clipped_mean(channel, path):
    rng = np.random.default_rng(1)
    n = 20_000
    x, y = rng.normal(size=(n, 2)) + np.array([1.0, 0.0]), rng.normal(size=n)
    x[0] = math.nan
    pair = channel.kind == "gaussian-product"
    release = Release(
        Plan(Draw("m", channel, per="user"), {"m": 1.0}), StudyNoise(5, path), mode="study", per_user=path.endswith("per user")
    )
    if path.startswith("blocks"):
        cuts = [slice(s, s + 3000) for s in range(0, n, 3000)]
        out = release.mean_blocks("m", ((x[c], y[c]) if pair or channel.kind == "gaussian-outer" else x[c] for c in cuts))
    else:
        out = release.mean("m", (x, y) if pair else x)
    clean = np.where(np.isnan(x), 0.0, x)
    ball = clean / np.maximum(1.0, np.linalg.norm(clean, axis=1, keepdims=True))
    truth = {
        "hemisphere": ball.mean(axis=0),
        "gaussian-vector": ball.mean(axis=0),
        "gaussian-outer": np.einsum("ij,ik->jk", ball, ball) / n,
        "gaussian-product": (np.clip(clean, -1, 1) * np.clip(y, -1, 1)[:, None]).mean(axis=0),
    }[channel.kind]
    assert out.shape == truth.shape
    assert np.all(np.abs(out - truth) < 5 * release.scale("m") / math.sqrt(n))
    assert release.close()[0]["users"] == n


@pytest.mark.parametrize("per_user", [False, True])
def test_several_channels_in_one_pass(per_user):
    rng = np.random.default_rng(2)
    n = 30_000
    x, y = rng.normal(size=(n, 2)), rng.normal(size=n)
    channels = {
        "outer": GaussianOuter(2, 1.0),
        "xy": GaussianBallProduct(2, 1.0, 0.5),
        "x": GaussianVector(2, 1.0),
        "h": Hemisphere(2, 1.0),
    }
    plan = Plan(Sequence(tuple(Draw(k, c, per="user") for k, c in channels.items())), dict.fromkeys(channels, 0.5))
    release = Release(plan, StudyNoise(6, int(per_user)), mode="study", per_user=per_user)
    out = dict(
        zip(
            channels,
            release.mean_blocks_many(tuple(channels), ((x[s : s + 7000], y[s : s + 7000]) for s in range(0, n, 7000))),
            strict=True,
        )
    )
    ball = x / np.maximum(1.0, np.linalg.norm(x, axis=1, keepdims=True))
    truth = {
        "outer": np.einsum("ij,ik->jk", ball, ball) / n,
        "xy": (ball * np.clip(y, -0.5, 0.5)[:, None]).mean(axis=0),
        "x": ball.mean(axis=0),
        "h": ball.mean(axis=0),
    }
    for name in channels:
        assert np.all(np.abs(out[name] - truth[name]) < 5 * release.scale(name) / math.sqrt(n))
    assert [e["users"] for e in release.close()] == [n] * 4


@pytest.mark.parametrize(
    ("names", "code"), [((), "DP320"), (("outer", "outer"), "DP320"), (("outer", "gradient"), "DP320"), (("outer",), "DP325")]
)
def test_one_pass_fails_closed(names, code):
    release = open_release()
    with pytest.raises(PrivacyError) as failure:
        release.mean_blocks_many(names, [(np.zeros((2, 9)), np.zeros(2))])
    assert failure.value.code == code
    with pytest.raises(PrivacyError):
        release.draw("count", 1.0, sensitivity=1.0)


def test_release_mode_goes_through_the_clients(monkeypatch):
    """The aggregate shortcut must never be used on private data."""
    channel = GaussianVector(2, 1.0)
    for name in ("sample_mean", "accumulate"):
        monkeypatch.setattr(GaussianVector, name, lambda *a, **k: pytest.fail("shortcut used on private data"))
    release = Release(Plan(Repeat(Draw("m", channel, per="user"), 2), {"m": 1.0}), SecureNoise(), mode="release")
    assert release.mean("m", np.zeros((5, 2))).shape == (2,)
    assert release.mean_blocks("m", [np.zeros((5, 2)), np.zeros((0, 2))]).shape == (2,)


def sampled(method, rate=0.1, n=1000, count=3):
    body = Sequence((Draw("a", Gaussian(1.0)), Draw("b", Gaussian(1.0))))
    return Plan(Repeat(Sampled(body, method, rate, n), count), {"a": 1.0, "b": 1.0})


@pytest.mark.parametrize("secure", [False, True])
def test_batches_follow_the_planned_sampler(secure):
    source = SecureNoise() if secure else StudyNoise(2)
    for method in ("poisson", "fixed"):
        release = Release(sampled(method, count=40), source, mode="release" if secure else "study")
        sizes, hits = [], np.zeros(1000)
        for _ in range(40):
            batch = release.batch("a", 1000)
            assert np.array_equal(batch, np.unique(batch))
            sizes.append(batch.size)
            hits[batch] += 1
            release.draw("a", 0.0, sensitivity=1.0)
            release.draw("b", 0.0, sensitivity=1.0)
        release.close()
        if method == "fixed":
            assert set(sizes) == {100}
        else:
            assert abs(np.mean(sizes) - 100) < 5 * math.sqrt(90 / 40)
            assert np.std(sizes) > 4
        expected = stats.binom(40, 0.1).pmf(np.arange(10))
        observed = np.bincount(np.minimum(hits, 9).astype(int), minlength=10)
        expected[9] = 1 - expected[:9].sum()
        assert stats.chisquare(observed[:9], expected[:9] * observed[:9].sum() / expected[:9].sum()).pvalue > P


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize(("n", "size"), [(5, 2), (5, 3), (4, 4), (6, 1)])
def test_every_set_of_the_planned_size_is_as_likely(secure, n, size):
    """All subsets, below and above half of the records."""
    release = Release(
        sampled("fixed", size / n, n, 3000), SecureNoise() if secure else StudyNoise(3), mode="release" if secure else "study"
    )
    counts: dict[tuple[int, ...], int] = {}
    for _ in range(3000):
        batch = tuple(int(i) for i in release.batch("a"))
        counts[batch] = counts.get(batch, 0) + 1
        release.draw("a", 0.0, sensitivity=1.0)
        release.draw("b", 0.0, sensitivity=1.0)
    assert len(counts) == math.comb(n, size)
    assert all(len(set(batch)) == size and max(batch) < n for batch in counts)
    if len(counts) > 1:
        assert stats.chisquare(list(counts.values())).pvalue > P


def test_a_draw_without_a_fresh_batch_is_refused():
    release = Release(sampled("poisson"), StudyNoise(1), mode="study")
    release.batch("b", 1000)
    release.draw("a", 0.0, sensitivity=1.0)
    with pytest.raises(PrivacyError) as failure:
        release.draw("a", 0.0, sensitivity=1.0)
    assert failure.value.code == "DP321"


def test_rebatching_before_the_draws_is_refused():
    """Drawing batches until one pleases would void the sampling guarantee."""
    release = Release(sampled("poisson"), StudyNoise(1), mode="study")
    release.batch("a", 1000)
    with pytest.raises(PrivacyError) as failure:
        release.batch("a", 1000)
    assert failure.value.code == "DP321"


def test_a_poisson_batch_is_of_the_records_that_are_there():
    """Under add-remove they are more or fewer than the public n; a batch over 0..n-1 would name records that are not there, or leave some
    out for good."""
    release = Release(sampled("poisson", count=600), StudyNoise(3), mode="study")
    hits = []
    for _ in range(200):
        for count in (0, 7, 3000):
            batch = release.batch("a", count)
            assert batch.size == 0 or batch.max() < count
            hits += [int((batch >= 1000).sum())] if count == 3000 else []
            release.draw("a", 0.0, sensitivity=1.0)
            release.draw("b", 0.0, sensitivity=1.0)
    assert abs(np.mean(hits) - 200) < 5 * math.sqrt(180 / 200)  # the 2000 records beyond n, each with probability 1/10
    untold = Release(sampled("poisson"), StudyNoise(1), mode="study")
    with pytest.raises(PrivacyError) as failure:
        untold.batch("a")
    assert failure.value.code == "DP321"


@pytest.mark.parametrize("budget", [{"epsilon": 1}, {"epsilon": 1, "delta": "1e-6"}, {"rho": "0.1"}])
def test_calibrated_plans_run(budget):
    """The calibrator's result is a plan: the scales of the events are the calibrated ones."""
    from dpspec.privacy.calibrate import Budget, calibrate
    from dpspec.privacy.mechanisms.exponential import Exponential

    tree = Sequence(
        (Repeat(Draw("pick", Exponential(0.1, 5)), 3), Draw("sum", Laplace(0.1, 2)), Draw("local", Hemisphere(3, 1.0), per="user"))
    )
    calibrated = calibrate(tree, Budget(**budget))
    release = Release(calibrated, SecureNoise(), mode="release")
    for _ in range(3):
        release.draw("pick", np.arange(5.0), sensitivity=0.1)
    release.draw("sum", np.zeros(2), sensitivity=0.1)
    release.mean("local", np.zeros((4, 3)))
    assert {e["name"]: e["scale"] for e in release.close()} == {name: calibrated.scale(name) for name in calibrated.levels}
