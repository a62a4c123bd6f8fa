"""One node of what ran."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Event:
    """One node of what ran. ``kind`` is the name of a file under :mod:`dpspec.audit.events`, or ``unknown`` with the original word in
    ``fields["type"]``.

    ``unread``: fields that no model reads (kept from foreign formats only); nothing is certified beside them.
    """

    kind: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    count: int = 1
    inner: tuple[Event, ...] = ()
    unread: tuple[str, ...] = ()

    @property
    def what(self) -> str:
        return str(self.fields.get("what") or self.kind.replace("_", " "))

    def number(self, *names: str) -> float | None:
        """The first of these fields that is a number."""
        for name in names:
            value = self.fields.get(name)
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                return float(value)
        return None


def nodes(events: Sequence[Event]) -> Iterator[Event]:
    """Every node of the event trees, a parent before its children."""
    for event in events:
        yield event
        yield from nodes(event.inner)
