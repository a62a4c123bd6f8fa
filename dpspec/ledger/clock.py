"""Time for windows: it never goes back, and a clock that is set frees no budget.

An entry's time is at least that of every earlier one. Of each start of a machine that has reserved, the first reservation's time and uptime
are carried along: a later one of the same start lies as far behind it as the machine has been up since (and at most two minutes more),
whatever its clock says. Both bounds matter: what is dated too late frees a window too early, and what is dated too early leaves one too
soon. A machine that was started since, or that is new to the ledger, is believed once, when it comes.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SLACK = 120.0
_MACHINES = 32  # starts whose anchors are carried along
KINDS = ("day", "week", "month", "year")


@dataclass(frozen=True)
class Clock:
    """What the machine says: the time of day in UTC, seconds since it was started, and which start that was (empty: unknown)."""

    def now(self) -> dt.datetime:
        return dt.datetime.now(dt.UTC)

    def up(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()

    def boot(self) -> str:
        try:
            return hashlib.sha256(Path("/proc/sys/kernel/random/boot_id").read_bytes()).hexdigest()[:16]
        except OSError:
            return ""


@dataclass(frozen=True)
class Stopped(Clock):
    """A clock that shows one moment: that of a run's start, since how long its records took to load may tell about them."""

    moment: dt.datetime
    uptime: float
    machine: str

    def now(self) -> dt.datetime:
        return self.moment

    def up(self) -> float:
        return self.uptime

    def boot(self) -> str:
        return self.machine


def stopped(clock: Clock) -> Stopped:
    return Stopped(clock.now(), clock.up(), clock.boot())


def stamp(clock: Clock, last: str | None, anchors: Mapping[str, Any]) -> tuple[dt.datetime, dict[str, Any]]:
    """The time of the next entry, and the anchors to keep with it. ``last``: the latest time in the ledger; ``anchors``: of the last
    reservation, ``[uptime, time]`` for each start of a machine."""
    now, up, boot = clock.now(), clock.up(), clock.boot()
    anchor = anchors.get(boot) if boot else None
    if anchor is not None:
        least = parse(str(anchor[1])) + dt.timedelta(seconds=max(0.0, up - float(anchor[0])))
        now = min(max(now, least), least + dt.timedelta(seconds=_SLACK))
    if last is not None:
        now = max(now, parse(last))
    now = now.replace(microsecond=0)
    kept = {k: v for k, v in list(anchors.items())[-_MACHINES:] if k != boot}
    if boot:
        kept[boot] = anchor if anchor is not None else [round(up, 3), text(now)]
    return now, kept


def text(moment: dt.datetime) -> str:
    return moment.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse(written: str) -> dt.datetime:
    return dt.datetime.strptime(written, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=dt.UTC)


def check_window(window: Mapping[str, Any] | None) -> None:
    """Raises ValueError for a window that is none: ``{"days": N}`` (rolling) or ``{"calendar": day|week|month|year}``."""
    if window is None:
        return
    if set(window) == {"days"} and isinstance(window["days"], int) and 1 <= window["days"] <= 36500:
        return
    if set(window) == {"calendar"} and window["calendar"] in KINDS:
        return
    raise ValueError(f"a window is a number of days (rolling), or one of {', '.join(KINDS)} (calendar, UTC)")


def start(window: Mapping[str, Any], now: dt.datetime) -> str:
    """Charges at or after this time count."""
    if "days" in window:
        return text(now - dt.timedelta(days=window["days"]) + dt.timedelta(seconds=1))
    day = now.replace(hour=0, minute=0, second=0, microsecond=0)
    match window["calendar"]:
        case "week":
            day -= dt.timedelta(days=day.weekday())
        case "month":
            day = day.replace(day=1)
        case "year":
            day = day.replace(month=1, day=1)
    return text(day)
