"""Scores of selections."""

from __future__ import annotations

from dpspec.audit.component import Missing
from dpspec.audit.event import Event


def score(event: Event) -> float:
    value = event.number("linf_sensitivity", "score_sensitivity", "sensitivity")
    if value is None:
        raise Missing("linf_sensitivity")
    return value
