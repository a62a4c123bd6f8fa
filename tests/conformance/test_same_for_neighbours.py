"""What a run does after it has seen the records is the same whatever they are: exit, words, progress, warnings, files and their sizes and
times, shapes and types of the released arrays, and the record but for the numbers that the plan paid for.

Every algorithm, in each of its variants, goes through the executor in release mode on data sets of hostile records and on their
neighbours. No algorithm is named here.
"""

from __future__ import annotations

import itertools
import json
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from dpspec.compiler.passes import compile_draft
from dpspec.compiler.plan import Plan, make_plan
from dpspec.executor.bind import missing
from dpspec.executor.run import run
from dpspec.lang.source import Parsed, parse_expr
from dpspec.privacy.meter import PrivacyError
from dpspec.privacy.schedule import draws
from dpspec.spec.diagnostics import SpecError
from dpspec.spec.model import Ball, Box, Domain, Enforcement, Minimise
from tests.conformance.cases import ALGORITHMS, Case, labels
from tests.conformance.extremes import to_listed
from tests.conformance.test_add_remove import with_option
from tests.conformance.test_conformance import small

N = 6
LARGEST = float(np.finfo(np.float64).max)
#: x of the record that differs (times a vector of ones, or of the first coordinate), smallest subnormal to largest double.
SIZES = (0.0, 5e-324, 1e-170, 1e-162, 1e-20, 1.0, -1.0, 1e154, 1e300, -LARGEST)
RESPONSES = (0.0, 5e-324, -1e-162, 1e14, 1e165, -1e300, LARGEST)


def variants(module: ModuleType) -> list[tuple[str, Parsed]]:
    parsed = small(module, n=N)
    found = [("as it is", parsed)]
    for option, words in module.CARD.options.items():
        found += [(f"{option} = {word}", with_option(parsed, option, word)) for word in words[1:]]
    privacy = parsed.analysis.privacy
    if privacy.delta is not None and "pure" in module.CARD.guarantees:
        found.append(
            ("pure", replace(parsed, analysis=parsed.analysis.model_copy(update={"privacy": privacy.model_copy(update={"delta": None})})))
        )
    if isinstance(parsed.analysis.releases[0].task, Minimise) and not parsed.analysis.releases[0].task.pairwise:
        found += [(name, regression(parsed, loss, top)) for name, (loss, top) in LOSSES.items()]
    return found


def served(parsed: Parsed) -> Case | None:
    """None where the plan is refused: an option at this budget, a loss."""
    draft = compile_draft(parsed)
    return None if [d for d in draft.diagnostics if d.severity == "error" and d.code != "DP402"] else Case(draft)


#: Losses of responses, and how large these may be.
LOSSES = {
    "huber": ("huber(1) + 0.1/2*|w|^2", "1e14"),
    "pseudo-huber": ("sqrt(1 + (y - <w, x>)^2) + 0.1/2*|w|^2", "1e8"),
    "squared": ("(y - <w, x>)^2/2 + 0.1/2*|w|^2", "1e3"),
}


def regression(parsed: Parsed, loss: str, top: str) -> Parsed:
    """The spec with responses in [-top, top] in the place of labels. A set of weights that is R^d becomes a ball, where the loss needs
    one."""
    a = parsed.analysis
    box = Box(low=parse_expr(f"-{top}"), high=parse_expr(top))
    x = [domain for domain in a.data.domains if domain.variable != "y"]
    data = a.data.model_copy(update={"domains": (*x, Domain(variable="y", set=box, by=Enforcement(how="clip")))})
    over = a.releases[0].task.over
    if loss.startswith("(") and (over is None or over.kind == "reals"):
        over = Ball(norm="l2", radius=parse_expr("2"))
    task = a.releases[0].task.model_copy(update={"loss": parse_expr(loss), "over": over})
    release = a.releases[0].model_copy(update={"task": task, "expect": None})
    return replace(parsed, analysis=a.model_copy(update={"data": data, "releases": (release,), "study": None}))


CASES = [pytest.param(parsed, id=f"{m.CARD.id}, {name}") for m in ALGORITHMS for name, parsed in variants(m)]
each = pytest.mark.parametrize("parsed", CASES)


def bases(c: Case) -> list[tuple[np.ndarray, np.ndarray]]:
    """Records that the differing one joins: none to speak of, typical, all the same extreme one, larger than any sum."""
    d = int(c.draft.facts["d"])
    low, high = labels(c)
    rng = np.random.default_rng(0)
    typical = to_listed(c.draft, rng.normal(size=(N, d))), rng.choice([low, high], size=N)
    alike = np.tile(np.eye(d)[:1] * 1e3, (N, 1)), np.full(N, high)
    huge = np.full((N, d), LARGEST), np.full(N, -LARGEST)
    return [(np.zeros((N, d)), np.full(N, low)), typical, alike, huge]


def hostile(c: Case) -> Iterator[tuple[np.ndarray, float]]:
    """What stands in the place of the first record."""
    d = int(c.draft.facts["d"])
    low, high = labels(c)
    ones, one, mixed = np.ones(d), np.eye(d)[0], np.where(np.arange(d) % 2, 1e-300, 1e300)
    for size, y in zip(SIZES, itertools.cycle((low, high))):
        yield size * ones, y
    for y in RESPONSES:  # also outside every list of labels
        yield one, y
    yield mixed, high
    yield np.arange(d) * 1e200, low + 0.5


def neighbours(c: Case) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    every = list(hostile(c))
    for k, (x, y) in enumerate(bases(c)):
        yield x, y
        for row, response in every[k % 3 :: 3] if k else every:  # all of them beside zeros, a third of them beside each of the others
            other, responses = x.copy(), y.copy()
            other[0], responses[0] = row, response
            yield other, responses
        yield np.tile(x[-1:], (N, 1)), np.tile(y[-1:], N)


def finite_or_words(v: Any) -> bool:
    array = np.asarray(v)
    return array.dtype.kind == "U" or bool(np.isfinite(array).all())


def outcome(plan: Plan, memory: Any, out: Path | None, heard: Any) -> Any:
    """All that can be seen of a run but the numbers that were paid for and the clock."""
    steps: list[tuple[str, int, int]] = []
    heard.readouterr()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            record = run(plan, memory, out=out, progress=lambda *step: steps.append(step))
        except (SpecError, PrivacyError) as error:
            return type(error).__name__, str(error), steps, tuple(heard.readouterr())
        except Exception as error:
            return type(error).__name__, "not a finding", steps, tuple(heard.readouterr())
    body = {k: v for k, v in record.body.items() if k != "started"}
    arrays = {(name, k): (np.shape(v), np.asarray(v).dtype.str) for name, found in record.outputs.items() for k, v in found.items()}
    finite = {name: all(finite_or_words(v) for v in found.values()) for name, found in record.outputs.items()}
    files: list[Any] = []
    if out is not None:
        started = json.loads((out / "record.json").read_text(encoding="utf-8"))["started"]
        stat = [p.stat() for p in sorted(out.iterdir())]
        files = [(p.name, s.st_size) for p, s in zip(sorted(out.iterdir()), stat, strict=True)]
        files.append({s.st_mtime for s in (*stat, out.stat())} == {np.datetime64(started[:19]).astype("datetime64[s]").astype(float)})
    told = json.dumps(body, default=str)
    if any(getattr(leaf.draw.mechanism, "open_ended", False) for r in plan.draft.releases for leaf in draws(r.tree).values()):
        arrays = dict.fromkeys(arrays, ((), ""))  # how many numbers come out is part of what was paid for
        files = [entry[0] if isinstance(entry, tuple) else entry for entry in files]
    return "released", told, arrays, finite, steps, files, [str(w.message) for w in said], tuple(heard.readouterr())


def handed(c: Case, x: Any, y: np.ndarray) -> dict[str, Any]:
    public = {"public_x": np.random.default_rng(1).normal(size=(200, x.shape[1]))} if c.draft.analysis.privacy.public is not None else {}
    return {"x": x, "y": y, **public}


def compared(seen: list[Any]) -> None:
    assert seen[0][0] == "released", seen[0]
    different = [s for s in seen if s != seen[0]]
    assert not different, (len(different), len(seen), different[0], seen[0])


@each
def test_a_run_ends_alike_on_hostile_neighbours(
    parsed: Parsed, tmp_path: Path, capfd: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    c, whole = served(parsed), request.node.callspec.id.endswith("as it is")
    if c is None:
        assert not whole
        return
    plan = make_plan(parsed, check=False)
    seen = []
    every = list(neighbours(c))
    if not whole:  # a part of them, another one in every variant
        every = every[sum(map(ord, request.node.callspec.id)) % 4 :: 4]
    for i, (x, y) in enumerate(every):
        out = tmp_path / str(i) if i % 4 == 0 else None
        found = outcome(plan, handed(c, x, y), out, capfd)
        seen.append((*found[:5], [], *found[6:]) if out is None and found[0] == "released" else found)
    compared([s for i, s in enumerate(seen) if i % 4 == 0])
    compared([s for i, s in enumerate(seen) if i % 4])


@each
def test_sparse_records_end_alike(parsed: Parsed, capfd: pytest.CaptureFixture[str]) -> None:
    """Where they are taken: the refusal of a domain that moves zeros is that of every data set."""
    if (c := served(parsed)) is None:
        return
    plan = make_plan(parsed, check=False)
    seen = [outcome(plan, handed(c, csr_array(x), y), None, capfd) for x, y in itertools.islice(neighbours(c), 1, None, 11)]
    if seen[0][0] == "SpecError" and "DP522" in seen[0][1]:
        assert all(s == seen[0] for s in seen)
        return
    compared(seen)


@pytest.mark.parametrize("module", ALGORITHMS, ids=[m.CARD.id for m in ALGORITHMS])
def test_a_value_that_is_missing_or_infinite_is_refused_in_the_same_words_wherever_it_stands(
    module: ModuleType, capfd: pytest.CaptureFixture[str]
) -> None:
    """The documented refusal (docs/data.md): it names neither record nor how many, and comes before any draw."""
    parsed = small(module, n=N)
    plan, c = make_plan(parsed, check=False), Case(compile_draft(parsed))
    x, y = bases(c)[1]
    for value, code in ((np.nan, "DP504"), (np.inf, "DP506"), (-np.inf, "DP506")):
        seen = []
        for rows in ((0,), (N - 1,), tuple(range(N))):
            other = x.copy()
            other[list(rows), 0] = value
            seen.append(outcome(plan, handed(c, other, y), None, capfd))
        assert all(s == seen[0] for s in seen)
        if np.isnan(value) and missing(c.draft):  # a question that allows it takes it for a record like any other
            assert seen[0][0] == "released"
            continue
        assert (seen[0][0], seen[0][2]) == ("SpecError", [])
        assert code in seen[0][1]


# ------------------------------------------------------------------------------------ algorithms that tell, and are seen


def changed(run: Any) -> tuple[Plan, Case]:
    """A plan of dp-gd whose algorithm does ``run`` to the records first."""
    from dpspec.algorithms.convex_erm import dp_gd

    def leaking(records: Any, p: Any, t: Any, release: Any) -> Any:
        run(np.asarray(records.x))
        return dp_gd.run(records, p, t, release)

    parsed = small(dp_gd, n=N)
    plan = make_plan(parsed, check=False)
    module = SimpleNamespace(**{**vars(dp_gd), "run": leaking})
    release = replace(plan.draft.releases[0], module=module)
    return replace(plan, draft=replace(plan.draft, releases=(release,))), Case(compile_draft(parsed))


def honest(x: np.ndarray) -> None:
    pass


def gives_up(x: np.ndarray) -> None:
    if x[0, 0] > 0.1:
        raise ArithmeticError(f"no minimiser near {x[0]}")


def prints(x: np.ndarray) -> None:
    if x[0, 0] > 0.1:
        print("a large record")


def warns(x: np.ndarray) -> None:
    np.log(np.abs(x[0, 0]))
    warnings.warn(f"near {x[0]}", stacklevel=1)


@pytest.mark.parametrize("tell", [honest, warns, gives_up, prints])
def test_an_algorithm_that_tells_is_seen(tell: Any, capfd: pytest.CaptureFixture[str]) -> None:
    """All but a warning, which the executor keeps to itself."""
    plan, c = changed(tell)
    seen = [outcome(plan, handed(c, x, y), None, capfd) for x, y in neighbours(c)]
    if tell in (honest, warns):
        compared(seen)
    else:
        with pytest.raises(AssertionError):
            compared(seen)


def test_a_failure_says_nothing_of_a_record() -> None:
    """Neither in its words nor in what hangs on it: the second line of defence behind algorithms that cannot fail."""
    plan, c = changed(gives_up)
    memory = handed(c, np.tile([[0.123456, 0.0, 0.0]], (N, 1)), np.full(N, max(labels(c))))
    with pytest.raises(PrivacyError, match="DP327") as caught:
        run(plan, memory)
    assert "0.12" not in str(caught.value)
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None


def test_losses_of_responses_are_served() -> None:
    """By three algorithms at least."""
    for name in LOSSES:
        every = (parsed for m in ALGORITHMS for what, parsed in variants(m) if what == name)
        assert len(list(itertools.islice(filter(None, map(served, every)), 3))) == 3, name
