"""Writers that are killed at random points.

Each writer notes in a journal of its own what it is about to ask (``try``), what it was promised (``reserved``, and only then would it
draw), and what it was told was committed. The children are forked, so that a kill costs milliseconds.
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

from dpspec.ledger.book import Ledger, Refused
from dpspec.ledger.costs import cost_of
from dpspec.spec.diagnostics import SpecError
from tests.ledger.releases import gaussian

#: Noise multipliers of the releases, exact in binary: mu^2 is 2^-12, 2^-10.
LEVELS = (64.0, 32.0)


def writer(url: str, journal: Path, seed: int, rounds: int) -> None:
    rng = random.Random(seed)
    with journal.open("a", buffering=1) as notes:
        ledger = Ledger(url)
        for i in range(rounds):
            tag, account, level = f"{journal.stem}-{i}", rng.choice(("whole", "part")), rng.choice(LEVELS)
            notes.write(f"try {tag} {account} {level}\n")
            try:
                made = ledger.reserve(account, gaussian(level), analysis=tag, plan="p" * 64)
            except Refused:
                notes.write(f"refused {tag}\n")
                continue
            notes.write(f"reserved {tag} {made.seq}\n")
            if rng.random() < 0.9:
                ledger.commit(made)
                notes.write(f"committed {tag} {made.seq}\n")
            elif rng.random() < 0.5:
                ledger.resolve(made.seq, spent=False, reason="nothing was drawn", by="a writer")
                notes.write(f"released {tag} {made.seq}\n")


def spawn(url: str, journal: Path, seed: int, rounds: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        writer(url, journal, seed, rounds)
        code = 0
    except SpecError as error:
        journal.with_suffix(".error").write_text(str(error))
    finally:
        os._exit(code)


def run(url: str, folder: Path, kills: int, writers: int, seed: int, pause: float = 0.5) -> int:
    """``kills`` kills at random times, of ``writers`` writers at a time; each that is killed gives way to a new one. How many were
    killed."""
    rng = random.Random(seed)
    Ledger(url).dispose()  # everything is imported before the forks
    for level in LEVELS:
        cost_of(gaussian(level), ("delta", "rho"))
    alive: list[int] = []
    count = killed = 0
    try:
        while killed < kills:
            while len(alive) < writers:
                count += 1
                alive.append(spawn(url, folder / f"w{count}.txt", seed + count, 10**6))
            time.sleep(rng.random() * pause / writers)
            pid = alive.pop(rng.randrange(len(alive)))
            os.kill(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
            if not os.WIFSIGNALED(status):
                raise AssertionError(f"a writer ended by itself: {os.waitstatus_to_exitcode(status)}")
            killed += 1
    finally:
        for pid in alive:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return killed + len(alive)
