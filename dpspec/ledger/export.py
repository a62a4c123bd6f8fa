"""Entries for other programs: JSON lines, one an entry and whole; CSV, one row a charge."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from dpspec.ledger.book import Ledger
from dpspec.ledger.chain import canonical
from dpspec.ledger.costs import UNIT, finite

COLUMNS = ("entry", "kind", "account", "ref", "at", "charged", "analysis", "plan", "measure", "cost", "total", "hash")


def json_lines(ledger: Ledger) -> Iterator[str]:
    """Every entry, canonical: ``previous`` and ``hash`` recompute from the line."""
    for entry in ledger.entries():
        yield canonical({**entry, "ledger": ledger.name})


def csv_lines(ledger: Ledger) -> Iterator[str]:
    """Costs and totals as decimals, empty where there is no finite number; a charge that was taken back is negative."""
    yield ",".join(COLUMNS)
    for entry in ledger.entries():
        body = entry["body"]
        sign = -1 if entry["kind"] == "resolve" else 1
        first = [entry["seq"], entry["kind"], entry["account"], entry["ref"], entry["at"]]
        charges = body.get("charges") or {}
        if not charges:
            yield _row([*first, "", "", "", "", "", "", entry["hash"]])
        for name, charge in sorted(charges.items()):
            for measure, cost in sorted(charge["cost"].items()):
                total = charge["total"][measure]
                numbers = [f"{k * int(v) / UNIT:.12g}" if finite(int(v)) else "" for v, k in ((cost, sign), (total, 1))]
                yield _row([*first, name, body.get("analysis", ""), body.get("plan", ""), measure, *numbers, entry["hash"]])


def _row(values: list[object]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(["" if v is None else v for v in values])
    return out.getvalue()
