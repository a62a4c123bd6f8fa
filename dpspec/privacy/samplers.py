"""Which sampler goes with which neighbouring relation, and the error of a request that cannot be met."""

from __future__ import annotations

from typing import Literal, TypeAlias

from dpspec.privacy.schedule import Leaf

Neighbours: TypeAlias = Literal["replace-one", "add-remove", "zero-out"]


class CalibrationError(Exception):
    """No level meets the request. ``code`` is a registered DP3xx code, ``help`` the remedy."""

    def __init__(self, code: str, message: str, help: str = "") -> None:
        self.code, self.message, self.help = code, message, help
        super().__init__(f"{code}: {message}" + (f" ({help})" if help else ""))


def removal(leaf: Leaf) -> float | None:
    """How far the released object moves when a record is *left out*, as a share of the sensitivity of the tree; None when unstated.

    A mechanism may state it as an attribute ``removal`` in the units of its sensitivity (a sum of vectors clipped to norm C has
    sensitivity 2C under replace-one and removal C).
    """
    stated = getattr(leaf.draw.mechanism, "removal", None)
    return None if stated is None else float(stated) / float(leaf.draw.mechanism.sensitivity)


def check_sampler(name: str, leaf: Leaf, neighbours: Neighbours) -> None:
    """Raises :class:`CalibrationError` DP306 when amplification by this sampler is not known under the relation.

    ``fixed`` (a uniform subset of public size): replace-one only. Adding or removing a record changes the rate of all others; and
    the standard proof exchanges the record for another one of the data set, which zero-out sensitivities do not bound.
    ``poisson``: add-remove and zero-out. Under replace-one, the difference between a sample with and without the record matters as
    well as that between two values of it, and the tree's sensitivity bounds the second only; so the mechanism has to state ``removal``.
    """
    sampling = leaf.sampling
    if sampling is None or sampling.rate >= 1:
        return
    if not sampling.rate > 0:
        raise CalibrationError("DP306", f"draw {name!r} samples at rate {sampling.rate}", "a sampling rate lies in (0, 1]")
    if sampling.method == "fixed" and neighbours != "replace-one":
        raise CalibrationError(
            "DP306",
            f"draw {name!r} reads batches of a fixed size, whose amplification is proved for replace-one, not for {neighbours}",
            "use neighbours replace-one, or Poisson sampling",
        )
    if sampling.method == "poisson" and neighbours == "replace-one":
        share = removal(leaf)
        if share is None or not 0 < share <= 1:
            raise CalibrationError(
                "DP306",
                f"draw {name!r} samples records independently, the relation is replace-one, and how far the release moves when a "
                "sampled record is left out is not stated (or exceeds the sensitivity)",
                "sample batches of a fixed size, use neighbours add-remove, or have the mechanism state `removal`",
            )
