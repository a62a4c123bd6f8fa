"""Unary encodings: one noisy bit a category."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal

import numpy as np

from dpspec.privacy.channels.categories import check_categories, codes
from dpspec.privacy.channels.protocol import Records, check_level
from dpspec.privacy.mechanism import Family, Norm
from dpspec.privacy.noise import Array, Bools, NoiseSource, keep_threshold


@dataclass(frozen=True, slots=True)
class UnaryEncoding:
    """The record as k bits, one of them set; a set bit stays 1 with probability p, any other becomes 1 with probability q: epsilon-LDP.

    ``optimised`` (OUE): p = 1/2, q = 1/(1 + e^eps). ``symmetric`` (SUE, basic RAPPOR): p = 1 - q = e^(eps/2)/(1 + e^(eps/2)). Two
    records differ in two bits, so the ratio is p*(1 - q)/(q*(1 - p)) = e^eps for both. Estimate (mean - q)/(p - q); variance of one
    frequency near 0: q*(1 - q)/(n*(p - q)^2), for OUE 4*e^eps/(n*(e^eps - 1)^2). Source: Wang, Blocki, Li and Jha 2017; Erlingsson et
    al. 2014.
    """

    k: int
    form: Literal["optimised", "symmetric"] = "optimised"
    kinds: ClassVar[tuple[str, ...]] = ("optimised-unary-encoding", "symmetric-unary-encoding")
    family: ClassVar[Family] = "pure"
    norm: ClassVar[Norm] = "none"
    sensitivity: ClassVar[float] = math.nan
    reference: ClassVar[str] = "Wang, Blocki, Li and Jha 2017; Erlingsson, Pihur and Korolova 2014"

    def __post_init__(self) -> None:
        check_categories(self.k)
        if self.form not in ("optimised", "symmetric"):
            raise ValueError(f"there is no unary encoding {self.form!r}")

    @property
    def kind(self) -> str:
        return "optimised-unary-encoding" if self.form == "optimised" else "symmetric-unary-encoding"

    @property
    def size(self) -> int:
        return self.k

    def chances(self, level: float) -> tuple[Fraction, Fraction]:
        """(p, q) in steps of 2^-64, rounded so that the ratio does not exceed e^eps."""
        if self.form == "optimised":
            return Fraction(1, 2), 1 - Fraction(keep_threshold(check_level(level)), 2**64)
        p = Fraction(keep_threshold(check_level(level) / 2.0), 2**64)
        return p, 1 - p

    def scale(self, level: float) -> float:
        """1/(p - q): the weight of a bit in the unbiased estimate."""
        p, q = self.chances(level)
        return float(1 / (p - q))

    def numbers(self, level: float) -> dict[str, float]:
        p, q = self.chances(level)
        return {"scale": self.scale(level), "p": float(p), "q": float(q)}

    def spent(self, noise: Mapping[str, float]) -> float:
        """epsilon: two records differ in two bits, p*(1 - q)/(q*(1 - p))."""
        p, q = noise["p"], noise["q"]
        if not 0 < q <= p < 1:
            raise ValueError("probabilities with 0 < q <= p < 1")
        return math.log(p / q * (1.0 - q) / (1.0 - p))

    def encode(self, records: Records, level: float, noise: NoiseSource) -> Bools:
        x, single = codes(records, self.k)
        p, q = self.chances(level)
        out = noise.bernoulli(q, (x.size, self.k))
        out[np.arange(x.size), x] = noise.bernoulli(p, x.size)
        return np.asarray(out[0]) if single else out

    def aggregate(self, reports: Bools, level: float) -> Array:
        bits = np.atleast_2d(reports)
        return self._estimate(bits.sum(axis=0), bits.shape[0], level)

    def _estimate(self, counts: Array, users: int, level: float) -> Array:
        _, q = self.chances(level)
        out: Array = (counts / users - float(q)) * self.scale(level)
        return out

    def sample_mean(self, records: Records, level: float, noise: NoiseSource) -> Array:
        """Bits are independent given the records: two binomials a category."""
        x, _ = codes(records, self.k)
        p, q = self.chances(level)
        counts = np.bincount(x, minlength=self.k)
        ones = noise.binomial(counts, p, self.k) + noise.binomial(x.size - counts, q, self.k)
        return self._estimate(ones.astype(float), x.size, level)
