"""The meter: the only door to noise.

A :class:`Release` holds a calibrated schedule and a noise source. Every draw is checked against the plan before the source is
touched; a draw that does not fit raises :class:`PrivacyError` and the object is dead from then on. ``close`` refuses a run that drew
less than the plan, so the events of a finished run are the planned events.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeGuard

import numpy as np

from dpspec.privacy.channels.protocol import Accumulator, Channel, block_rows
from dpspec.privacy.mechanisms.protocol import Central
from dpspec.privacy.noise import Array, Integers, NoiseSource, PublicRandomness, SecureNoise
from dpspec.privacy.schedule import Leaf, Mechanism, Sampled, Tree, draws
from dpspec.privacy.wire import Tally, WireError, codec

Mode: TypeAlias = Literal["release", "study"]


class PrivacyError(Exception):
    """A run tried to do what its plan does not allow. ``code`` is one of DP320 to DP327; nothing was released by the failing call."""

    def __init__(self, code: str, message: str, help: str = "") -> None:
        self.code, self.message, self.help = code, message, help
        super().__init__(f"{code}: {message}" + (f" ({help})" if help else ""))


class Plan(Protocol):
    """What the meter needs of :class:`dpspec.privacy.calibrate.Calibrated`."""

    @property
    def tree(self) -> Tree: ...

    @property
    def levels(self) -> Mapping[str, float]: ...


#: What classes of mechanisms are, asked once each: to look for every member of a protocol takes longer than most draws.
_CURATORS: Final[dict[type, bool]] = {}


def _central(mechanism: Mechanism) -> TypeGuard[Central]:
    kind = type(mechanism)
    if kind not in _CURATORS:
        _CURATORS[kind] = isinstance(mechanism, Central)
    return _CURATORS[kind]


class _Entry:
    """One planned draw and how often it has happened."""

    __slots__ = ("batched", "done", "leaf", "level", "scale", "users")

    def __init__(self, leaf: Leaf, level: float) -> None:
        self.leaf = leaf
        self.level = level
        self.scale = leaf.draw.mechanism.scale(level)
        self.done = 0
        self.users = 0
        self.batched = False


class Release:
    """Draws noise for one run of a calibrated schedule.

    ``mode`` is ``release`` (private data: the source must be :class:`~dpspec.privacy.noise.SecureNoise`, every local record goes
    through its client) or ``study`` (synthetic or public data: any source; local means are drawn from the exact law of the aggregate,
    or report by report with ``per_user=True``). ``public``: randomness for public objects, reachable as :attr:`public`.
    ``on_draw(name, done, total)`` is called after every draw; it sees no value.
    ``collected(name, done, blocks)``: the tally of the reports that a collector has of that draw. No record is read then, and a draw that
    is not made of reports alone is refused; what ``blocks`` says of itself (:class:`dpspec.models.door.Told`) may be asked.

    Raises :class:`PrivacyError`: DP320 (a draw that is not in the plan, or through the wrong method), DP321 (one draw more than
    planned, or without its batch), DP322 (another sensitivity), DP323 (a closed or failed object), DP324 (closed before every planned
    draw was made), DP325 (a value with another shape or with a NaN or infinity), DP326 (a source that the mode does not allow).
    """

    __slots__ = ("__batches", "__collected", "__entries", "__mode", "__noise", "__on_draw", "__order", "__per_user", "__public", "__state")

    def __init__(
        self,
        calibrated: Plan,
        noise: NoiseSource,
        *,
        mode: Mode,
        public: PublicRandomness | None = None,
        per_user: bool = False,
        on_draw: Callable[[str, int, int], None] | None = None,
        collected: Callable[[str, int, Any], Tally] | None = None,
    ) -> None:
        if mode not in ("release", "study"):
            raise PrivacyError("DP326", f"there is no mode {mode!r}", "use 'release' or 'study'")
        if mode == "release" and type(noise) is not SecureNoise:
            raise PrivacyError(
                "DP326",
                f"a release on private data needs SecureNoise, not {type(noise).__name__}: whoever knows a seed can subtract the noise",
                "pass SecureNoise(), or use mode 'study' on synthetic or public data",
            )
        planned = draws(calibrated.tree)
        if set(planned) != set(calibrated.levels):
            odd = sorted(set(planned) ^ set(calibrated.levels))
            raise PrivacyError(
                "DP320", f"the calibration and the schedule disagree on the draws {', '.join(odd)}", "calibrate this schedule"
            )
        self.__entries = {name: _Entry(leaf, float(calibrated.levels[name])) for name, leaf in planned.items()}
        self.__order: list[str] = []
        self.__batches: dict[str, int] = {}
        self.__noise = noise
        self.__mode: Mode = mode
        self.__public = public
        self.__per_user = per_user or mode == "release"
        self.__on_draw = on_draw
        self.__collected = collected
        self.__state: Literal["open", "closed", "failed"] = "open"

    # ------------------------------------------------------------------------------------------------------- what it is

    @property
    def mode(self) -> Mode:
        return self.__mode

    @property
    def public(self) -> PublicRandomness:
        """Seeded randomness for public objects."""
        if self.__public is None:
            raise self.__fail("DP326", "this run has no public randomness", "pass public=PublicRandomness(seed)")
        return self.__public

    def mechanism(self, name: str) -> Mechanism:
        """The planned mechanism of a draw."""
        return self.__entry(name).leaf.draw.mechanism

    def scale(self, name: str) -> float:
        """The planned noise scale of a draw: a public number. Raises DP320 for an unknown name."""
        return self.__entry(name).scale

    def level(self, name: str) -> float:
        """The planned level of a draw: a public number."""
        return self.__entry(name).level

    def remaining(self, name: str) -> int:
        entry = self.__entry(name)
        return entry.leaf.total - entry.done

    def events(self) -> list[dict[str, object]]:
        """The draws made so far, in order of first use; JSON-able."""
        return [self.__event(name, self.__entries[name]) for name in self.__order]

    @staticmethod
    def __event(name: str, entry: _Entry) -> dict[str, object]:
        mechanism = entry.leaf.draw.mechanism
        return {
            "name": name,
            "mechanism": mechanism.kind,
            "per": entry.leaf.draw.per,
            "level": entry.level,
            "scale": entry.scale,
            "sensitivity": None if math.isnan(mechanism.sensitivity) else mechanism.sensitivity,
            "size": mechanism.size,
            "count": entry.done,
            "planned": entry.leaf.total,
            "per_record": entry.leaf.count,
            "sampling": None if entry.leaf.sampling is None else {"method": entry.leaf.sampling.method, "rate": entry.leaf.sampling.rate},
            "users": entry.users if entry.leaf.draw.per == "user" else None,
        }

    def close(self) -> list[dict[str, object]]:
        """Ends the run and returns its events. Raises DP324 when planned draws are missing: then the output must not be published as
        the planned release (the record would state events that did not happen)."""
        self.__alive()
        missing = [
            f"{name} ({entry.done} of {entry.leaf.total})" for name, entry in self.__entries.items() if entry.done != entry.leaf.total
        ]
        if missing:
            raise self.__fail("DP324", f"the run ended before its planned draws were made: {', '.join(missing)}", "run the whole schedule")
        self.__state = "closed"
        return self.events()

    # ----------------------------------------------------------------------------------------------- central mechanisms

    def draw(self, name: str, value: Any, *, sensitivity: float) -> Any:
        """The planned release of ``value``: with noise and in its shape (a float for a scalar) from a mechanism that adds noise, the index
        that was chosen from one that selects among scores (high scores are good).

        ``value``: what the planned mechanism takes. Additive ones take numbers (symmetric ones and Wishart noise a symmetric matrix),
        selections a score a candidate, objective perturbation the solver ``solve(linear, extra)``, which must be exact and must not let
        the linear term out; a smooth bound the pair (value, bound). ``sensitivity``: what the plan was calibrated for, stated once more
        where the value is computed (the mechanism's ``claim``: for a smooth bound the exponent by which it changes).
        """
        return self.__central(name, value, sensitivity)

    def peel(self, name: str, value: Any, *, sensitivity: float, kept: int | None = None) -> Array:
        """The noisy largest entries of a vector, zeros elsewhere.

        ``name`` is a pure :class:`~dpspec.privacy.mechanisms.peeling.Peeling` draw or the name given to
        :func:`~dpspec.privacy.mechanisms.peeling.peeling`, whose draws "<name>/select" and "<name>/value" are then made here.
        ``sensitivity``: l_inf distance of the vector between neighbours. ``kept``: how many entries this call releases, for a tree that
        is repeated; all planned selections otherwise.
        """
        if f"{name}/select" not in self.__entries:
            return self.__central(name, value, sensitivity)  # type: ignore[no-any-return]
        select, release = self.__next(f"{name}/select"), self.__next(f"{name}/value")
        chooser, adder = select.leaf.draw.mechanism, release.leaf.draw.mechanism
        if not isinstance(chooser, Central) or chooser.norm != "score" or adder.kind not in ("laplace", "gaussian"):
            raise self.__fail("DP320", f"draw {name!r} is planned as {chooser.kind} and {adder.kind}, which do not peel", "use peeling()")
        problem = chooser.check(value)
        if problem is not None:
            raise self.__fail("DP325", f"draw {name!r}: {problem}", "enforce the domain of the records before the draw")
        v = np.asarray(value, dtype=float)
        if kept is None:
            kept = adder.size if adder.kind == "gaussian" else select.leaf.total
        left, chosen = np.arange(v.size), np.empty(kept, dtype=np.int64)
        for i in range(kept):  # the index set that remains is public: it depends on released indices only
            index = self.__central(f"{name}/select", np.abs(v[left]), sensitivity, checked=True)
            chosen[i] = left[index]
            left = np.delete(left, index)
        out = np.zeros(v.size)
        if adder.kind == "gaussian":
            out[chosen] = self.draw(f"{name}/value", v[chosen], sensitivity=kept**0.5 * sensitivity)
        else:
            for j in chosen:
                out[j] = self.draw(f"{name}/value", v[j], sensitivity=sensitivity)
        return out

    # ---------------------------------------------------------------------------------------------------- local channels

    def mean(self, name: str, values: Any) -> Array:
        """The server's estimate of the mean of ``values``, shape (users, dim), each sent by its user through the planned channel.

        Channels of pairs take a tuple (x, y). Rows are clipped by the client; a row with a NaN counts as 0.
        """
        entry, channel = self.__channel(name)
        if self.__collected is not None:
            return self.__tallied(name, entry, values)  # type: ignore[no-any-return]
        try:
            users = len(values[0]) if isinstance(values, tuple) else len(values)
            if users == 0:
                raise ValueError("no user answers")
            total = self.__sum(channel, entry.level)
            total.add(values, users)
            out = total.mean()
        except Exception as problem:
            raise self.__fail("DP325", f"draw {name!r}: {problem}", "hand over one row a user, as the channel is planned") from problem
        return self.__done(name, entry, out, users)  # type: ignore[no-any-return]

    def mean_blocks(self, name: str, blocks: Iterable[Any]) -> Array:
        """Like :meth:`mean`, for records that arrive in blocks: arrays (users, dim) or tuples (x, y). One draw of the plan in all.

        Accumulating channels keep a running sum of the clipped statistics; others send block by block. Reports are never all stored.
        """
        entry, channel = self.__channel(name)
        if self.__collected is not None:
            return self.__tallied(name, entry, blocks)  # type: ignore[no-any-return]
        try:
            accumulator = None if self.__per_user else _accumulator(channel)
            if accumulator is not None:
                for block in blocks:
                    accumulator.add(*(block if isinstance(block, tuple) else (block,)))
                if accumulator.count == 0:
                    raise ValueError("no user answers")
                mean, users = accumulator.finish(entry.level, self.__noise), accumulator.count
            else:
                total = self.__sum(channel, entry.level)
                for block in blocks:
                    total.add(block, len(block[0]) if isinstance(block, tuple) else len(block))
                mean, users = total.mean(), total.users
        except Exception as problem:
            raise self.__fail(
                "DP325", f"draw {name!r}: {problem}", "hand over blocks of one row a user, as the channel is planned"
            ) from problem
        return self.__done(name, entry, mean, users)  # type: ignore[no-any-return]

    def mean_blocks_many(self, names: Sequence[str], blocks: Iterable[Any]) -> tuple[Array, ...]:
        """Several draws of :meth:`mean_blocks` in one pass over the records: every block (x, y) goes to each of the planned channels.

        Each name is one draw of the plan; the answers come in the order of ``names``. Channels of single vectors read x.
        """
        found = [self.__channel(name) for name in names]
        if not found or len(set(names)) != len(found):
            raise self.__fail("DP320", "the names of draws made in one pass are one or more and differ", "name each planned draw once")
        if self.__collected is not None:
            return tuple(self.__tallied(name, entry, blocks) for name, (entry, _) in zip(names, found, strict=True))
        users = 0
        accumulators = [None if self.__per_user else _accumulator(channel) for _, channel in found]
        sums = [self.__sum(channel, entry.level) for entry, channel in found]
        try:
            for block in blocks:
                n = len(block[0])
                users += n
                for accumulator, total in zip(accumulators, sums, strict=True):
                    if accumulator is not None:
                        accumulator.add(*block)
                    else:
                        total.add(block, n)
            if users == 0:
                raise ValueError("no user answers")
            out = [
                total.mean() if accumulator is None else accumulator.finish(entry.level, self.__noise)
                for (entry, _), total, accumulator in zip(found, sums, accumulators, strict=True)
            ]
        except Exception as problem:
            raise self.__fail(
                "DP325", f"draws {', '.join(names)}: {problem}", "hand over blocks (x, y) of one row a user, as the channels are planned"
            ) from problem
        return tuple(self.__done(name, entry, value, users) for name, (entry, _), value in zip(names, found, out, strict=True))

    def reports(self, name: str, values: Any) -> Array:
        """What the users of one draw send, one report a row: for servers that read single reports beside public features.

        ``values``: as for :meth:`mean`. Every record goes through its client in both modes, as the server sees each report.
        """
        entry, channel = self.__channel(name)
        if self.__collected is not None:
            raise self.__fail("DP320", f"draw {name!r} needs single reports beside public features, and a collector keeps their sum", "")
        try:
            users = len(values[0]) if isinstance(values, tuple) else len(values)
            if users == 0:
                raise ValueError("no user answers")
            out = np.asarray(channel.encode(values, entry.level, self.__noise))
        except Exception as problem:
            raise self.__fail("DP325", f"draw {name!r}: {problem}", "hand over one row a user, as the channel is planned") from problem
        return self.__done(name, entry, out, users)  # type: ignore[no-any-return]

    def __sum(self, channel: Channel, level: float) -> _Sum:
        return _Sum(channel, level, self.__noise, aggregate=not self.__per_user, exact=self.__mode == "release")

    def __tallied(self, name: str, entry: _Entry, blocks: Any) -> Any:
        """The estimate from collected reports."""
        assert self.__collected is not None
        tally = self.__collected(name, entry.done, blocks)
        try:
            mean = tally.mean()
        except ValueError as problem:
            raise self.__fail("DP325", f"draw {name!r}: {problem}", "collect reports first") from problem
        return self.__done(name, entry, mean, tally.users)

    # ---------------------------------------------------------------------------------------------------------- sampling

    def batch(self, name: str, count: int | None = None) -> Integers:
        """The sorted record numbers of the next random batch of a sampled draw, drawn by the planned sampler from the same source.

        ``count``: how many records there are, which a Poisson sampler has to be told: it tosses a coin for each of them, and under
        add-remove they are not the public n. A sampler of a fixed size reads n of them, in every data set.
        The amplified guarantee holds because the batch is secret and drawn by exactly this sampler. Every draw below one ``Sampled``
        node uses the batch once; a draw without a fresh batch is refused (DP321).
        """
        entry = self.__entry(name)
        sampling = entry.leaf.sampling
        if sampling is None:
            raise self.__fail("DP320", f"draw {name!r} is not below a sampler", "declare Sampled in the schedule")
        if sampling.method == "poisson" and count is None:
            raise self.__fail(
                "DP321",
                f"draw {name!r}: a Poisson sampler tosses a coin for each record, and how many there are is not told",
                "batch(name, n)",
            )
        below = [other for other in self.__entries.values() if other.leaf.sampling == sampling]
        if any(other.batched or other.done >= other.leaf.total for other in below):
            raise self.__fail(
                "DP321", f"draw {name!r}: another batch was asked for before the last one was used, or after the last", "one batch a draw"
            )
        for other in below:
            other.batched = True
        return _subset(sampling, self.__noise, count)

    # ---------------------------------------------------------------------------------------------------------- internals

    def __fail(self, code: str, message: str, help: str) -> PrivacyError:
        self.__state = "failed"
        return PrivacyError(code, message, help)

    def __alive(self) -> None:
        if self.__state != "open":
            raise PrivacyError(
                "DP323", f"this release has {'ended' if self.__state == 'closed' else 'failed'}: it draws nothing more", "start another run"
            )

    def __entry(self, name: str) -> _Entry:
        self.__alive()
        entry = self.__entries.get(name)
        if entry is None:
            known = ", ".join(sorted(self.__entries)) or "none"
            raise self.__fail("DP320", f"draw {name!r} is not in the plan, which has: {known}", "declare it in the schedule")
        return entry

    def __next(self, name: str) -> _Entry:
        entry = self.__entry(name)
        if entry.done >= entry.leaf.total:
            raise self.__fail(
                "DP321", f"draw {name!r} was planned {entry.leaf.total} times and is asked for once more", "declare its count"
            )
        if entry.leaf.sampling is not None and not entry.batched:
            raise self.__fail("DP321", f"draw {name!r} is planned on a fresh random batch and none was drawn", "call batch() before it")
        return entry

    def __channel(self, name: str) -> tuple[_Entry, Channel]:
        entry = self.__next(name)
        mechanism = entry.leaf.draw.mechanism
        if entry.leaf.draw.per != "user" or not isinstance(mechanism, Channel):
            raise self.__fail(
                "DP320", f"draw {name!r} is planned as {mechanism.kind} drawn per {entry.leaf.draw.per}, not as a channel of users", ""
            )
        return entry, mechanism

    def __central(self, name: str, value: Any, sensitivity: float, *, checked: bool = False) -> Any:
        entry = self.__next(name)
        if self.__collected is not None:
            raise self.__fail("DP320", f"draw {name!r} is the server's own noise, and a collector holds reports alone", "")
        mechanism = entry.leaf.draw.mechanism
        if entry.leaf.draw.per != "run" or not _central(mechanism):
            raise self.__fail(
                "DP320",
                f"draw {name!r} is planned as {mechanism.kind}, which every {entry.leaf.draw.per} draws for itself",
                "mean or reports",
            )
        planned = mechanism.claim
        sensitivity = float(sensitivity)
        if not abs(sensitivity - planned) <= 1e-12 * planned:
            raise self.__fail(
                "DP322",
                f"draw {name!r} was calibrated for sensitivity {planned!r} and the run states {sensitivity!r}",
                "compute both from the same formula",
            )
        try:
            if hasattr(value, "__array__") and type(value) is not np.ndarray:
                value = np.array(value)  # read once: what is checked is what is released
            problem = None if checked else mechanism.check(value)
        except Exception as error:
            problem = f"the value cannot be read ({type(error).__name__})"
        if problem is not None:
            raise self.__fail("DP325", f"draw {name!r}: {problem}", "enforce the domain of the records before the draw")
        try:
            out = mechanism.apply(value, entry.level, self.__noise)
        except Exception as error:
            raise self.__fail("DP325", f"draw {name!r}: {error}", "enforce the domain of the records before the draw") from error
        if isinstance(out, np.ndarray) and out.ndim == 0:
            out = float(out)
        return self.__done(name, entry, out, 0)

    def __done(self, name: str, entry: _Entry, out: Any, users: int) -> Any:
        entry.done += 1
        entry.users += users
        entry.batched = False
        if entry.done == 1:
            self.__order.append(name)
        if self.__on_draw is not None:
            self.__on_draw(name, entry.done, entry.leaf.total)
        return out


class _Sum:
    """The reports of the users of one draw, encoded and added block by block: exactly in a release (:mod:`dpspec.privacy.wire`), so that a
    collector of the same reports has the same bits; with ``aggregate`` from the law of their mean. Reports are never all stored."""

    __slots__ = ("_aggregate", "_channel", "_level", "_noise", "_tally", "_total", "users")

    def __init__(self, channel: Channel, level: float, noise: NoiseSource, *, aggregate: bool, exact: bool) -> None:
        self._channel, self._level, self._noise, self._aggregate = channel, level, noise, aggregate
        self._tally: Tally | None = None
        if exact:
            try:
                self._tally = Tally.empty(codec(channel, level))
            except WireError:  # its reports have no exact sum: they are averaged as floats, below
                self._tally = None
        self._total, self.users = np.zeros(()), 0

    def add(self, values: Any, users: int) -> None:
        """``values`` of ``users`` users."""
        if users == 0:
            return
        self.users += users
        if self._aggregate:
            self._total = self._total + users * self._channel.sample_mean(values, self._level, self._noise)
            return
        step = block_rows(self._channel.size)
        for start in range(0, users, step):
            part = tuple(v[start : start + step] for v in values) if isinstance(values, tuple) else values[start : start + step]
            reports = self._channel.encode(part, self._level, self._noise)
            if self._tally is not None:
                self._tally.add(self._tally.codec.numbers(reports))
            else:
                self._total = self._total + min(step, users - start) * self._channel.aggregate(reports, self._level)

    def mean(self) -> Array:
        if self.users == 0:
            raise ValueError("no user answers")
        return self._tally.mean() if self._tally is not None else self._total / self.users


def _accumulator(channel: Channel) -> Accumulator | None:
    make = getattr(channel, "accumulate", None)
    return None if make is None else make()


#: A batch of fewer than one record in so many is sorted; of larger ones a bit a record is kept.
_SPARSE = 64


def _subset(sampling: Sampled, noise: NoiseSource, count: int | None) -> Integers:
    """Poisson: each of ``count`` records with probability ``rate`` (cut down to 64 bits, never up). Fixed: a uniform set of exactly rate*n
    records, cut down to an integer.

    The first k distinct values of independent uniform draws are, by symmetry, a uniform set of k; a uniform set's complement is
    uniform as well, so at most n/2 are drawn. That costs the size of the batch instead of a permutation of all n.
    """
    if sampling.method == "poisson":
        rate = Fraction(math.floor(Fraction(sampling.rate) * 2**64), 2**64)
        return np.flatnonzero(noise.bernoulli(rate, count or 0)).astype(np.int64)
    n = sampling.n
    size = math.floor(sampling.rate * n * (1.0 + 1e-12))
    k = min(size, n - size)
    if k == size and k < n // _SPARSE:
        drawn, chosen = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        while chosen.size < k:
            drawn = np.concatenate([drawn, noise.integers(n, k - chosen.size)])
            chosen = np.sort(drawn)
            chosen = chosen[np.concatenate([[True], chosen[1:] != chosen[:-1]])]
        return chosen
    taken, count = np.zeros(n, dtype=bool), 0
    while count < k:
        taken[noise.integers(n, k - count)] = True
        count = int(np.count_nonzero(taken))
    return np.flatnonzero(taken if k == size else ~taken).astype(np.int64)
