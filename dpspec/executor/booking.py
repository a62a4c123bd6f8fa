"""A release and its ledger: looked up before a record is read, reserved before the first draw, committed after the last.

Whether an account admits a release depends on the plan and on the ledger, never on the records, so a refusal is the same for all
neighbours, and so is the reservation: once it is written the run goes on to the end or leaves it open. A failure before it (a file that is
not there, records that contradict the plan) charges nothing, because nothing was drawn. All entries of a run are dated by its start, and
commits have no time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpspec.compiler.plan import Plan, schedule_json
from dpspec.ledger.book import Ledger, Refused, Reservation, refuse
from dpspec.ledger.clock import stopped
from dpspec.spec.diagnostics import Diagnostic, SpecError

if TYPE_CHECKING:
    from dpspec.lang.source import Parsed
    from dpspec.ledger.book import Account
    from dpspec.ledger.costs import Cost

_PLANS = 12  # a search for the largest budget makes at most so many
_PATIENCE = 30.0  # seconds that a refusal may search


@dataclass
class Booking:
    """What one run owes to a ledger. ``late``: why the commit could not be written, if it could not."""

    ledger: Ledger
    account: str
    schedule: Mapping[str, Any]
    analysis: str
    plan: str
    made: Reservation | None = None
    late: Diagnostic | None = None

    def reserve(self) -> None:
        """Before the first draw; raises when the account does not admit the release, or the ledger cannot be written."""
        self.made = self.ledger.reserve(self.account, self.schedule, analysis=self.analysis, plan=self.plan)

    def broken(self, error: BaseException) -> None:
        """The run ended in between: says so beside the error."""
        if self.made is not None:
            error.add_note(
                f"DP711: entry {self.made.seq} of account {self.account} is reserved and counts in full until somebody resolves it "
                "(dpspec ledger resolve)"
            )
        self.ledger.dispose()

    def committed(self) -> dict[str, Any]:
        """After the last draw: what the record says of its entry. A commit that cannot be written loses no release and frees no budget."""
        assert self.made is not None
        try:
            self.ledger.commit(self.made)
        except SpecError as error:
            self.late = Diagnostic("DP714", "warning", f"entry {self.made.seq} stays open: {error.diagnostics[0].message}")
        finally:
            self.ledger.dispose()
        return {**self.made.to_json(), "committed": self.late is None}


def booked(plan: Plan, ledger: str | None, account: str | None, *, data_file: Path | None, memory: bool) -> Booking | None:
    """The booking of a run that names a ledger; None without one. Raises what the reservation would raise now."""
    if ledger is None:
        if account is not None:
            refuse("DP702", f"the account {account!r} stands without a ledger", "state the ledger too (--ledger)")
        return None
    if account is None:
        refuse("DP702", "a ledger is named and no account", "state which account is charged (--account)")
    assert account is not None
    draft = plan.draft
    if draft.analysis.data.status != "private":
        refuse("DP703", "the data of this spec are public, and no account counts what is public", "leave the ledger out")
    book = Ledger(ledger)
    book.time = stopped(book.time)
    booking = Booking(book, account, schedule_json(draft), draft.analysis.name, plan.sha256)
    _same_data(booking.ledger.account(account), plan, data_file, memory)
    try:
        booking.ledger.check(account, booking.schedule)
    except Refused as refused:
        raise _with_fit(refused, booking, plan) from None
    return booking


def _same_data(account: Account, plan: Plan, data_file: Path | None, memory: bool) -> None:
    """DP708 where the owner had the content of the data file stored and this is another one."""
    if account.fingerprint is None:
        return
    from dpspec.compiler.files import base_dir
    from dpspec.data.files import digest, local

    source = getattr(plan.draft.analysis.data.source, "path", None)
    base = base_dir(plan.draft.parsed.path)
    path = None if memory else local(data_file) if data_file is not None else None if source is None else local(source, base)
    if path is None or not path.is_file():
        refuse("DP708", f"the account {account.name!r} keeps the fingerprint of a file, and the records come from none", "name it (--data)")
    assert path is not None
    if digest(path, fresh=True)[0] != account.fingerprint:
        refuse("DP708", f"the file is not the one that the account {account.name!r} was opened for", "name that file, or another account")


# -------------------------------------------------------------------------------------------------------------- what fits


def _with_fit(refused: Refused, booking: Booking, plan: Plan) -> Refused:
    """The same refusal with the largest budget at which the analysis would still fit."""
    (d,) = refused.diagnostics
    if d.code != "DP701":
        return refused
    try:
        found = largest(plan.draft.parsed, booking.ledger.room(booking.account), seconds=_PATIENCE)
        words = "no budget of this analysis fits" if found is None else f"this analysis fits at {found.word} = {found.value}"
    except TimeoutError:
        found, words = None, "whether a smaller budget fits takes longer to say (--fit)"
    detail = {**refused.detail, "fits": None if found is None else {found.word: found.value}}
    return Refused(replace(d, message=f"{d.message}; {words}"), detail)


@dataclass(frozen=True)
class Fit:
    """The largest value of the budget's ``word`` (epsilon, rho or mu), in text, whose plan fits, and that plan."""

    word: str
    value: str
    plan: Plan


def largest(parsed: Parsed, room: list[tuple[Account, Cost]], *, seconds: float = math.inf) -> Fit | None:
    """The largest budget, to four figures, at which a spec's plan fits into an account and all that it belongs to; None when none does.

    Searched on real plans, since the algorithm and its steps may change with the budget; only a plan that fits is returned. After
    ``seconds`` the largest found so far; raises TimeoutError where there is none.
    """
    import time

    from dpspec.executor.planning import budget_name

    word = budget_name(parsed)
    spent = max(_share(room, None), 0.0)
    if spent >= 1:
        return None
    best: Fit | None = None
    until = time.monotonic() + seconds
    value = own_budget(parsed, word)
    low, high = (0.0, 0.0), (math.inf, 0.0)  # (budget, log of the share of what is left)
    for _ in range(_PLANS):
        text = _figures(value)
        plan = _planned(parsed, word, text)
        share = math.inf if plan is None else (_share(room, plan) - spent) / (1 - spent)
        if plan is not None and share <= 1:
            best = Fit(word, text, plan) if best is None or Fraction(text) > Fraction(best.value) else best
            low = (float(Fraction(text)), math.log(max(share, 1e-300)))
            if share > 0.999:
                break
        else:
            high = (float(Fraction(text)), math.log(share) if math.isfinite(share) else math.inf)
        if time.monotonic() > until:
            if best is None:
                raise TimeoutError
            break
        value = _next(low, high)
        if not 1e-6 <= value <= 1e4 or (low[0] > 0 and high[0] / low[0] < 1.0002):
            break
    return best


def _next(low: tuple[float, float], high: tuple[float, float]) -> float:
    """The budget at which the share would be 1 were its logarithm a line in that of the budget; costs go with its square, roughly."""
    if low[0] > 0 and math.isfinite(high[0]) and math.isfinite(high[1]):
        slope = (high[1] - low[1]) / math.log(high[0] / low[0])
        guess = low[0] * math.exp(-low[1] / slope * 0.9999) if slope > 0 else math.sqrt(low[0] * high[0])
        return min(max(guess, low[0] * 1.0001), high[0] * 0.9999)
    if low[0] > 0 and math.isfinite(high[0]):
        return math.sqrt(low[0] * high[0])
    known, share = low if low[0] > 0 else high
    return known * math.exp(min(max(-share / 2, -3.0), 3.0)) if math.isfinite(share) else known / 10


def own_budget(parsed: Parsed, word: str) -> float:
    """The number that the spec states, or 1 where it is an expression that only a plan resolves."""
    from dpspec.spec.expr import evaluate

    try:
        return float(evaluate(getattr(parsed.analysis.privacy, word)))
    except Exception:
        return 1.0


def _figures(value: float) -> str:
    """Four figures, rounded down, without an exponent."""
    digits = 3 - math.floor(math.log10(value))
    down = Fraction(math.floor(Fraction(value) * Fraction(10) ** digits), 1) / Fraction(10) ** digits
    return f"{float(down):.{max(digits, 0)}f}"


def _planned(parsed: Parsed, word: str, value: str) -> Plan | None:
    from dpspec.compiler.plan import make_plan
    from dpspec.executor.design import substitute
    from dpspec.spec.expr import Num

    try:
        return make_plan(replace(parsed, analysis=substitute(parsed.analysis, word, Num(Fraction(value)))))
    except SpecError:
        return None


def _beyond(share: float) -> float:
    """A share that does not fit: above 1 in doubles too."""
    return max(share, 1 + 1e-9)


def _share(room: list[tuple[Account, Cost]], plan: Plan | None) -> float:
    """The largest share of a limit that would be spent after ``plan``; infinite where it does not fit."""
    from dpspec.ledger.costs import added, cost_of
    from dpspec.ledger.limits import fits, used

    shares = []
    for account, spent in room:
        total = spent if plan is None else added(spent, cost_of(schedule_json(plan.draft), account.limit.measures()))
        shares.append(used(account.limit, total) if plan is None or fits(account.limit, total) else _beyond(used(account.limit, total)))
    return max(shares)
