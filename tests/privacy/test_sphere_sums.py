"""Sums of unit vectors that are drawn from their law, against sums of vectors that are drawn one by one."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dpspec.privacy.channels import _sphere
from dpspec.privacy.channels.hemisphere import Hemisphere
from dpspec.privacy.channels.priv_unit import PrivUnit
from dpspec.privacy.noise import StudyNoise

#: Of a test that is passed by chance less often than the whole file fails by chance once in a million.
P = 1e-8
TRIALS = 20_000


def same(a: np.ndarray, b: np.ndarray) -> None:
    assert stats.ks_2samp(a, b).pvalue > P
    assert stats.ks_2samp(np.abs(a - b.mean()), np.abs(b - b.mean())).pvalue > P  # the spread, which the first test sees less well


def drawn(z: np.ndarray, t: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Sums of t_i z_i + sqrt(1 - t_i^2) h_i, (TRIALS, d): h_i in an orthonormal basis of the complement of z_i."""
    total = np.zeros((TRIALS, z.shape[1]))
    for centre, height in zip(z, t, strict=True):
        basis = np.linalg.svd(centre[None, :])[2][1:]
        h = rng.normal(size=(TRIALS, len(basis)))
        total += height * centre + np.sqrt(1 - height**2) * (h / np.linalg.norm(h, axis=1, keepdims=True)) @ basis
    return total


def hemispheres(z: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Sums of uniform points of the hemispheres of z_i, (TRIALS, d), by reflection."""
    total = np.zeros((TRIALS, z.shape[1]))
    for centre in z:
        u = rng.normal(size=(TRIALS, z.shape[1]))
        u *= (np.sign(u @ centre) / np.linalg.norm(u, axis=1))[:, None]
        total += u
    return total


@pytest.mark.parametrize(("count", "dim"), [(2, 2), (3, 5), (7, 4)])
def test_lengths_of_isotropic_sums(count: int, dim: int) -> None:
    rng = np.random.default_rng(count)
    vectors = rng.normal(size=(TRIALS, count, dim))
    sizes = np.linspace(0.5, 1.5, count)
    vectors *= (sizes / np.linalg.norm(vectors, axis=2))[..., None]
    found = _sphere.lengths_of_sums(np.repeat(sizes[:, None], TRIALS, axis=1), dim, StudyNoise(1, count))
    same(found, np.linalg.norm(vectors.sum(axis=1), axis=1))


@pytest.mark.parametrize("dim", [8, 9, 40])
def test_cosines_are_those_of_the_sphere(dim: int) -> None:
    """(1 + c)/2 is Beta((dim - 1)/2, (dim - 1)/2); the quick bound of the rejection is one: 1 - b <= exp(-q) with q <= b."""
    found = _sphere.cosines(dim, 10 * TRIALS, StudyNoise(7, dim))
    assert stats.kstest((1 + found) / 2, stats.beta((dim - 1) / 2, (dim - 1) / 2).cdf).pvalue > P
    assert stats.kstest(found**2, stats.beta(0.5, (dim - 1) / 2).cdf).pvalue > P
    square, v = np.linspace(0, 0.999, 1000), (dim - 3) / 2
    q = v * (-np.log1p(-square) - square)
    assert (q <= v * square**2 / (2 * (1 - square)) * (1 + 1e-12) + 1e-15).all()


def test_a_bulk_stream_repeats_with_its_source_and_differs_from_it() -> None:
    def draws(noise: StudyNoise) -> list[float]:
        return [float(part.bulk().gaussian(1.0, 1)[0]) for part in (noise, noise, noise.child("a"))]

    assert draws(StudyNoise(1, "b")) == draws(StudyNoise(1, "b"))
    assert len({*draws(StudyNoise(1, "b")), *draws(StudyNoise(1, "c"))}) == 6


@pytest.mark.parametrize("sided", [False, True])
@pytest.mark.parametrize(("k", "dim"), [(2, 4), (4, 7), (3, 5)])
def test_sums_of_blocks(k: int, dim: int, sided: bool) -> None:
    """With given heights, and of uniform points of the hemispheres, whose heights are the absolute values of cosines. Rows of any length
    and sign stand for their directions."""
    rng = np.random.default_rng(dim)
    z = rng.normal(size=(k, dim)) + 0.7 * rng.normal(size=dim)
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    t = np.linspace(-0.4, 0.8, k)
    norms, t = np.linspace(0.5, -3.0, k), np.linspace(-0.4, 0.8, k)
    rows, sizes = z * norms[:, None], np.broadcast_to(norms, (TRIALS, k))
    blocks, gram = np.broadcast_to(rows, (TRIALS, k, dim)), np.broadcast_to(rows @ rows.T, (TRIALS, k, k))
    heights = None if sided else np.broadcast_to(t, (TRIALS, k))
    length, g, weights, dependent = _sphere.sums_of_blocks(blocks, gram, sizes, heights, StudyNoise(2, k))
    assert not dependent.any()
    ours, theirs = length[:, None] * g + weights.T @ rows, hemispheres(z, rng) if sided else drawn(z, t, rng)
    outside = np.linalg.svd(z)[2][-1]
    across = np.linalg.svd(z[:1])[2][1]
    for q in (z[0], z[-1], z.sum(axis=0), outside, across):
        same(ours @ q, theirs @ q)
    same((ours @ z[0]) * (ours @ outside), (theirs @ z[0]) * (theirs @ outside))
    same(np.linalg.norm(ours, axis=1), np.linalg.norm(theirs, axis=1))
    if sided:
        return
    # moments on paper: sum t_i z_i, and sum (1 - t_i^2)/(d - 1) (I - z_i z_i^T)
    covariance = sum((1 - h**2) / (dim - 1) * (np.eye(dim) - np.outer(c, c)) for c, h in zip(z, t, strict=True))
    assert np.abs(ours.mean(axis=0) - t @ z).max() < 6 * np.sqrt(k / TRIALS)
    assert np.abs(np.cov(ours.T) - covariance).max() < 0.03 * k


def test_centres_that_depend_on_each_other_are_drawn_one_by_one() -> None:
    """Copies, opposite ones and a plane: no block is formed, and the sum has the moments on paper."""
    dim, n = 24, 4000
    z = np.zeros((n, dim))
    z[:, 0], z[::2, 0] = 1.0, -1.0
    z[::3] = np.eye(dim)[1]
    t = np.full(n, 0.3)
    blocks, one = z.reshape(-1, 4, dim), np.ones(n)
    assert _sphere.sums_of_blocks(blocks, blocks @ blocks.transpose(0, 2, 1), one.reshape(-1, 4), t.reshape(-1, 4), StudyNoise(3))[3].all()
    found = np.array([_sphere.sum_around(z, one, t, StudyNoise(4, i)) for i in range(30)])
    spread = np.sqrt(n * (1 - 0.3**2) / (dim - 1))
    assert np.abs(found.mean(axis=0) - t @ z).max() < 6 * spread / np.sqrt(30)
    assert 0.8 < (found[:, 2:] / spread).std() < 1.2


@pytest.mark.parametrize("dim", [20, 64])
def test_pieces_are_the_rows_and_their_products(dim: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever pieces and tiles are; rows beyond the squares of doubles are rescaled, and rows that are 0 or not finite have no share."""
    monkeypatch.setattr(_sphere, "_TILE", 9 * dim)
    monkeypatch.setattr(_sphere, "_PIECE", 21 * dim)
    rng, k = np.random.default_rng(dim), _sphere.block_size(dim)
    x = rng.normal(size=(90, dim)) / dim
    x[50], x[51, 3], x[52], x[53] = 0.0, np.inf, x[52] * 1e-200, x[53] * 1e200
    chosen = np.flatnonzero(rng.random(90) < 0.8)
    start = 0
    for z, norms, shares, gram in _sphere.regions(x, chosen, 0.2):
        rows = x[chosen[start : start + len(z)]]
        start += len(z)
        for row, mine, size, share in zip(rows, z, norms, shares, strict=True):
            top = np.abs(row).max()
            if not 0 < top < np.inf:
                assert share == 0
                assert not mine.any()
                continue
            unit = row / top / np.linalg.norm(row / top)
            assert np.abs(mine / size - unit).max() < 1e-14
            assert share == pytest.approx(min(1.0, np.linalg.norm(row / top) * top / 0.2), rel=1e-12)
        blocks = z[: len(z) // k * k].reshape(-1, k, dim)
        assert np.allclose(gram, blocks @ blocks.transpose(0, 2, 1), rtol=1e-12, atol=1e-300)
    assert start == chosen.size


@pytest.mark.parametrize("dim", [1, 2, 24, 64])
@pytest.mark.parametrize("make", [Hemisphere, PrivUnit])
def test_means_have_the_moments_of_the_reports(make: type, dim: int) -> None:
    """Records of several lengths, zero and not finite ones among them: mean, and E|sum - mean|^2 = n B^2 - sum |x|^2."""
    if make is PrivUnit and dim == 1:
        pytest.skip("PrivUnit is for dimension 2 and above")
    rng = np.random.default_rng(dim)
    x = rng.normal(size=(60, dim)) + 1.0
    x *= (rng.uniform(0, 1.5, size=60) / np.linalg.norm(x, axis=1))[:, None]
    x[3], x[7, 0], x[9] = 0.0, np.nan, 1e-300
    channel, epsilon, runs = make(dim, 1.0), 2.0, 250
    clean = x.copy()
    clean[7] = 0.0
    clean = clean / np.maximum(1.0, np.linalg.norm(clean, axis=1, keepdims=True))
    found = np.array([channel.sample_mean(x, epsilon, StudyNoise(5, dim, i)) for i in range(runs)])
    length = channel.scale(epsilon)
    assert np.abs(found.mean(axis=0) - clean.mean(axis=0)).max() < 6 * length / np.sqrt(60 * runs)
    square = 60 * length**2 - (np.linalg.norm(clean, axis=1) ** 2).sum()
    measured = ((60 * (found - clean.mean(axis=0))) ** 2).sum(axis=1)
    assert abs(measured.mean() - square) < 6 * measured.std() / np.sqrt(runs)
