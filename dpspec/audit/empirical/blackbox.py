"""Audit of a mechanism that can only be run: a Python callable, a command, or two files of samples."""

from __future__ import annotations

import inspect
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dpspec.audit.empirical.diagnose import command_failed, not_neighbours, unusable
from dpspec.audit.empirical.domains import Domain
from dpspec.audit.empirical.pair import RESERVE, TRAIN_MOST, TRAIN_SHARE, aim_of, audit_samples_pair
from dpspec.audit.empirical.result import Claim, EmpiricalResult, check_confidence
from dpspec.audit.empirical.samples import as_matrix, read_samples, write_samples
from dpspec.audit.empirical.search import Sampler, search_pairs

Pairs = Sequence[tuple[Any, Any]]


def audit_callable(
    mechanism: Callable[..., Any],
    inputs: Pairs | Domain,
    claim: float | None,
    *,
    delta: float = 0.0,
    mu: float | None = None,
    confidence: float = 0.99,
    samples: int = 20_000,
    search: int | None = None,
    final_pairs: int = 1,
    statistics: str | Iterable[str] = "auto",
    seed: int = 0,
) -> EmpiricalResult:
    """Runs a mechanism on neighbouring inputs and bounds its epsilon from below.

    mechanism: ``f(input, n, rng) -> (n, width)`` (three parameters, preferred), ``f(input, rng) -> one output`` (two) or ``f(input) ->
    one output`` (one, its own randomness). inputs: the pairs to try, or a :class:`~dpspec.audit.empirical.domains.Domain` to search.
    samples: fresh runs on each input of each pair of the final test. search: runs on each input spent before on finding the pairs
    (default: as many as ``samples``). final_pairs: how many pairs the final test takes; the error 1 - confidence is split over them
    evenly. ``seed`` feeds ``rng`` and the search.

    Returns the result of the pair with the largest bound; its confidence covers all pairs tested. Raises SpecError: DP653, DP657, DP659.
    """
    check_confidence(confidence)
    statement = Claim(claim, delta, mu)
    if isinstance(inputs, Sequence) and not inputs:
        raise not_neighbours("no pair of inputs was given")
    sampler = _sampler(mechanism)
    rng = np.random.default_rng(seed)
    alpha = (1 - confidence) / RESERVE / final_pairs
    aim = aim_of(statement, alpha, samples - min(int(TRAIN_SHARE * samples), TRAIN_MOST))
    pairs = search_pairs(sampler, inputs, aim, budget=samples if search is None else search, keep=final_pairs, rng=rng)
    results = []
    for a, b in pairs:
        found = _test(sampler, (a, b), statement, confidence, (1 - confidence) / RESERVE / len(pairs), samples, statistics, rng)
        results.append(replace(found, pairs_tested=len(pairs), pair=(a, b), error=found.error * len(pairs)))
    return _worst(results)


def _test(
    sampler: Sampler,
    pair: tuple[Any, Any],
    claim: Claim,
    confidence: float,
    alpha: float,
    samples: int,
    statistics: str | Iterable[str],
    rng: np.random.Generator,
) -> EmpiricalResult:
    a, b = (as_matrix(sampler(x, samples, rng)) for x in pair)
    if a.shape[1] != b.shape[1]:  # outputs whose length depends on the input: missing entries are part of the output
        width = max(a.shape[1], b.shape[1])
        a, b = (np.concatenate([x.astype(float), np.full((len(x), width - x.shape[1]), np.nan)], axis=1) for x in (a, b))
    return audit_samples_pair(a, b, claim, confidence=confidence, alpha=alpha, statistics=statistics, seed=int(rng.integers(2**31)))


def _worst(results: list[EmpiricalResult]) -> EmpiricalResult:
    return max(results, key=lambda r: (r.verdict == "violated", r.mu_lower or 0.0, r.epsilon_lower))


def _sampler(mechanism: Callable[..., Any]) -> Sampler:
    try:
        wanted = [
            p
            for p in inspect.signature(mechanism).parameters.values()
            if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
        arity = len(wanted)
    except (TypeError, ValueError):
        arity = 1
    if arity >= 3:
        return lambda x, n, rng: _counted(mechanism(x, n, rng), n)
    if arity == 2:
        return lambda x, n, rng: [mechanism(x, rng) for _ in range(n)]
    return lambda x, n, rng: [mechanism(x) for _ in range(n)]


def _counted(out: Any, n: int) -> Any:
    if len(out) != n:
        raise unusable(f"the mechanism was asked for {n} runs and returned {len(out)} rows")
    return out


def audit_samples(
    file_a: str | Path,
    file_b: str | Path,
    *,
    claim: float | None = None,
    delta: float = 0.0,
    mu: float | None = None,
    confidence: float = 0.99,
    statistics: str | Iterable[str] = "auto",
    seed: int = 0,
) -> EmpiricalResult:
    """Audit of two files of samples, ``.csv`` or ``.npy``, one output a row. That the inputs were neighbours and the runs independent is
    the word of who made the files. Raises SpecError (DP653, DP659)."""
    a, b = read_samples(file_a), read_samples(file_b)
    return audit_samples_pair(
        a, b, Claim(claim, delta, mu), confidence=confidence, alpha=(1 - confidence) / RESERVE, statistics=statistics, seed=seed
    )


def audit_command(
    command: str | Sequence[str],
    pairs: Pairs | Domain,
    claim: float | None,
    *,
    delta: float = 0.0,
    mu: float | None = None,
    confidence: float = 0.99,
    samples: int = 5_000,
    search: int | None = None,
    final_pairs: int = 1,
    time_limit: float = 600.0,
    file_type: str = "csv",
    statistics: str | Iterable[str] = "auto",
    seed: int = 0,
) -> EmpiricalResult:
    """Audit of a program. ``command``: a template, run without a shell, in which ``{data}`` is the path of the input it reads, ``{out}``
    that of the samples it must write, ``{n}`` the number of independent runs asked for and ``{seed}`` (if it takes one) fresh for every
    call. A template without ``{n}`` is started once a run and its outputs are put together.

    An input is an array (written as ``file_type``, csv or npy) or the path of a file. time_limit: seconds for all calls together. The
    rest as :func:`audit_callable`. Raises SpecError: DP654 when the command fails, is not found or exceeds the limit.
    """
    words = shlex.split(command) if isinstance(command, str) else [str(w) for w in command]
    text = " ".join(words)
    if "{data}" not in text or "{out}" not in text:
        raise command_failed(
            "the command names no {data} or no {out}", "Put {data} where the input file goes and {out} where the samples go."
        )
    if file_type not in ("csv", "npy"):
        raise ValueError(f"file type {file_type!r}: csv or npy")
    deadline = time.monotonic() + time_limit
    batched = "{n}" in text

    with tempfile.TemporaryDirectory(prefix="dpspec-audit-") as folder:

        def sampler(x: Any, n: int, rng: np.random.Generator) -> Any:
            if isinstance(x, str | Path):
                data = Path(x)
            else:
                data = Path(folder) / f"data.{file_type}"
                write_samples(data, np.asarray(x))
            parts = []
            for _ in range(1 if batched else n):
                out = Path(folder) / f"out.{file_type}"
                out.unlink(missing_ok=True)
                fill = {"{data}": str(data), "{out}": str(out), "{n}": str(n), "{seed}": str(int(rng.integers(2**31)))}
                _run([_fill(w, fill) for w in words], deadline - time.monotonic())
                if not out.exists():
                    raise command_failed(
                        f"`{text}` ended without writing its samples", "Write one output a row to the path given as {out}."
                    )
                parts.append(read_samples(out))
            return _counted(np.concatenate(parts), n)

        return audit_callable(
            sampler, pairs, claim, delta=delta, mu=mu, confidence=confidence, samples=samples, search=search, final_pairs=final_pairs,
            statistics=statistics, seed=seed,
        )  # fmt: skip


def _fill(word: str, values: dict[str, str]) -> str:
    for key, value in values.items():
        word = word.replace(key, value)
    return word


def _run(words: list[str], left: float) -> None:
    if left <= 0:
        raise command_failed("the time limit of the audit was reached", "Raise the limit or ask for fewer samples.")
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=left, check=False, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired as e:
        raise command_failed(f"`{words[0]}` exceeded the time limit of the audit", "Raise the limit or ask for fewer samples.") from e
    except OSError as e:
        raise command_failed(f"cannot start `{words[0]}`: {e}", "Give a program that exists and may be run.") from e
    if done.returncode != 0:
        tail = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise command_failed(
            f"`{words[0]}` exited with status {done.returncode}: {tail[0][:300]}", "Run the command by hand on the same input."
        )
