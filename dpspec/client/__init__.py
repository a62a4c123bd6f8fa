"""The client of a plan of the local model: what runs on a user's device. It needs NumPy and nothing else of ours but arithmetic.

>>> from dpspec import client
>>> device = client.load("client.json", epsilon=1.0)      # doctest: +SKIP
>>> sent = client.report(device, {"x": [0.3, 0.1]})       # doctest: +SKIP

``load`` reads what ``dpspec client`` wrote, recomputes what one report spends from the parameters of its channels, and refuses above the
limit of whoever calls it: nothing that a server writes there weakens a report beyond that. ``report`` enforces the domain, computes the
public map of the record, randomises it once with the randomness of the operating system, and returns bytes of a constant length.
:class:`Client` is one person, who answers once.
"""

from __future__ import annotations

from dpspec.client.device import ClientError, Device, RoundState, load, read_state
from dpspec.client.reporting import Client, report

__all__ = ["Client", "ClientError", "Device", "RoundState", "load", "read_state", "report"]
