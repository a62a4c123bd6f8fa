"""What users who do not follow the plan can move: a fact about its channels alone, stated before anybody answers."""

from __future__ import annotations

from typing import Any

from dpspec.compiler.draft import Calibrated, Draft
from dpspec.data.records import round_bounds
from dpspec.privacy.channels.protocol import Channel
from dpspec.privacy.schedule import draws
from dpspec.privacy.wire import WireError, codec


def influence(draft: Draft[Any], malicious: int = 1) -> list[dict[str, Any]]:
    """One row a draw that devices make: ``release``, ``draw``, ``reach``, ``users``, ``malicious``, ``moves``.

    A collector takes no bytes but a valid report, so ``malicious`` users of one round move the mean of a draw by at most
    malicious*reach/users in l2 norm: ``reach`` is the largest l2 distance of the unbiased values of two valid reports
    (:meth:`dpspec.privacy.wire.Codec.reach`; 2B for a direction or a sampled coordinate of length B, 2B sqrt(d) for d signs, the
    category's factor times sqrt(2), twice the length that noise has but with probability below 1e-31 for Gaussian vectors), ``users``
    how many answer in the smallest round, and ``moves`` the product. An honest report reaches as far, by its noise.

    Empty in the models with a curator and for algorithms without clients. Draws whose channel has no wire form are left out: nobody
    collects them.
    """
    if draft.analysis.privacy.model not in ("nldp", "sldp"):
        return []
    n, rows = int(draft.facts["n"]), []
    for release in draft.releases:
        if not isinstance(release, Calibrated) or not hasattr(release.module, "client"):
            continue
        for name, leaf in draws(release.tree).items():
            mechanism = leaf.draw.mechanism
            rounds = leaf.total // max(1, leaf.each)
            if leaf.draw.per != "user" or not isinstance(mechanism, Channel) or not 1 <= rounds <= n:
                continue
            try:
                reach = codec(mechanism, float(release.calibrated.levels[name])).reach()
            except WireError:
                continue
            users = min(stop - start for start, stop in round_bounds(n, rounds))
            rows.append(
                {
                    "release": release.release.name,
                    "draw": name,
                    "reach": reach,
                    "users": users,
                    "malicious": malicious,
                    "moves": malicious * reach / users,
                }
            )
    return rows
