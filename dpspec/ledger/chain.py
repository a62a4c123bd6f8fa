"""The hash chain: each entry holds the hash of the one before, so that no entry can be changed or left out unseen.

A chain shows changes against a hash that is kept elsewhere: every record of a release names its entry and its hash. Whoever may write to
the database can write another chain; the records, an export or a printed ``verify`` show that.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

FIELDS = ("seq", "kind", "account", "ref", "at", "body")


def canonical(value: Any) -> str:
    """One text for one value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def origin(ledger: str) -> str:
    """What stands before the first entry."""
    return hashlib.sha256(f"dpspec ledger {ledger}".encode()).hexdigest()


def link(previous: str, entry: Mapping[str, Any]) -> str:
    """The hash of an entry (the :data:`FIELDS`, ``body`` as canonical text) behind ``previous``."""
    text = canonical({name: entry[name] for name in FIELDS})
    return hashlib.sha256(f"{previous}\n{text}".encode()).hexdigest()
