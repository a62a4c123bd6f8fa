"""What can be said about an analysis from its text alone: ranges, names in scope, parts that must fit together.

Nothing here knows an algorithm, a loss certificate or an accountant: those are the compiler's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

from dpspec.lang.actions import wrong_arity
from dpspec.lang.vocabulary import nearest
from dpspec.spec.databases import refusal
from dpspec.spec.diagnostics import Diagnostic, Span
from dpspec.spec.expr import FUNCTIONS, Call, Expr, Name, NotANumber, Num, Unbound, evaluate, network_weights, walk
from dpspec.spec.model import (
    Analysis,
    Answer,
    Ball,
    Box,
    Encode,
    Estimate,
    EstimateTheta,
    Finite,
    Fit,
    Minimise,
    Regress,
    Release,
    Set,
    Sparse,
    SqlSource,
)
from dpspec.spec.words import COVARIANCES, LAWS, LOSSES, REGULARISERS, STATISTICS, spellings

if TYPE_CHECKING:
    from dpspec.lang.spans import SourceMap

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]*(?:-[A-Za-z][A-Za-z0-9_]*)*")
MAX_BUDGET = 1000
MIN_BUDGET = Fraction(1, 10**9)
MAX_SIZE = 10**12
MAX_LEVELS = 10**6
MAX_VARY = 1000
RESERVED = frozenset(
    {"w", "x", "y", "x1", "y1", "x2", "y2", "u", "theta", "norm", "pi", "noise", "I", "m", "epsilon", "delta", "rho", "mu"}
)
_NOT_NUMBERS = frozenset({"nan", "inf", "infinity", "infty"})  # reported where they were read


def _shown(value: Fraction | float) -> str:
    if isinstance(value, Fraction) and value.denominator == 1:
        return str(value) if abs(value) < 10**20 else f"about {float(value):.3g}" if abs(value) < 10**300 else "far too large"
    try:
        return f"{float(value):.6g}"
    except OverflowError:
        return "far too large"


def _plainly(reason: str) -> str:
    """Python's reason in the words of a reader of specs."""
    lower = reason.lower()
    if lower.startswith("fraction(") or "zero" in lower:
        return "it divides by zero"
    if "range" in lower or "large" in lower or "overflow" in lower or "finite" in lower:
        return "it is too large"
    if "domain" in lower:
        return "a function has no value there"
    return reason


class Checker:
    def __init__(self, analysis: Analysis, spans: SourceMap, broken: frozenset[str]) -> None:
        self.a = analysis
        self.spans = spans
        self.broken = broken
        self.found: list[Diagnostic] = []
        self.values: dict[str, Fraction | float] = {}
        self.known: set[str] = set()

    def error(self, code: str, message: str, help: str, *path: str | int, span: Span | None = None) -> None:
        self.found.append(Diagnostic(code, "error", message, help, span or self.spans.get(*path)))

    # ---------------------------------------------------------------------------------------------------- numbers

    def functions(self, e: Expr, more: Iterable[str] = ()) -> bool:
        good = True
        for node in walk(e):
            if isinstance(node, Call) and node.function not in FUNCTIONS and node.function not in more:
                near = nearest(node.function, [*FUNCTIONS, *more])
                help = f"Did you mean `{near}`?" if near else "Functions are " + ", ".join(FUNCTIONS) + "."
                self.error("DP115", f"unknown function `{node.function}`", help, span=node.span)
                good = False
            elif isinstance(node, Call) and (problem := wrong_arity(node.function, len(node.args))):
                self.error("DP115", *problem, span=node.span)
                good = False
        return good

    def scope(self, e: Expr, known: Iterable[str]) -> bool:
        """Report names out of scope. Silent when the constants could not all be read."""
        allowed = set(known)
        good = True
        for node in walk(e):
            if isinstance(node, Name) and node.id not in allowed and node.id.lower() not in _NOT_NUMBERS:
                good = False
                if "data" not in self.broken:
                    near = nearest(node.id, allowed) or next((k for k in sorted(allowed) if k.lower() == node.id.lower()), None)
                    shown = ", ".join(sorted(allowed - LOSSES)) or "none"
                    help = f"Did you mean `{near}`?" if near else f"Known here: {shown}. Add `{node.id} = ...` to `data` for a constant."
                    self.error("DP116", f"`{node.id}` means nothing here", help, span=node.span)
        return good

    def number(self, e: Expr | None, extra: Iterable[str] = ()) -> Fraction | float | None:
        """The value of a number of the analysis; None when it has none (reported) or depends on a size not given."""
        if e is None or not self.functions(e) or not self.scope(e, {*self.known, *extra}):
            return None
        try:
            return evaluate(e, self.values)
        except Unbound:
            return None  # n or d not declared: the compiler takes them from the data source
        except NotANumber as error:
            self.error("DP114", f"this has no finite value: {_plainly(error.reason)}", "Give a finite number.", span=e.span)
            return None

    def whole(self, e: Expr | None, code: str, what: str, low: int, high: int, *path: str | int) -> int | None:
        value = self.number(e)
        if value is None:
            return None
        if value != value.__floor__() or not low <= value <= high:
            message = f"{what} must be a whole number from {low:,} to {high:,}"
            help = f"This is {_shown(value)}."
            self.error(code, message, help, *path, span=None if e is None else e.span)
            return None
        return int(value)

    # ---------------------------------------------------------------------------------------------------- sections

    def names(self) -> None:
        """Names are words of letters, digits, hyphens and underscores: the DSL can write no others."""
        a = self.a
        studied = a.study.vary if a.study else ()
        variables = [
            *(((k,), ("data", "constants", k)) for k, _ in a.data.constants),
            *(((d.variable,), ("data", "domains", i, "variable")) for i, d in enumerate(a.data.domains)),
            *(((v.variable,), ("study", "vary", i, "variable")) for i, v in enumerate(studied)),
        ]
        if a.privacy.public is not None:
            variables.append(((a.privacy.public.variable,), ("privacy", "public")))
        for (name,), path in variables:
            if not NAME.fullmatch(name):
                self.error("DP150", f"`{name[:40]}` is no name", "Use letters, digits and _, beginning with a letter.", *path)
        for i, release in enumerate(a.releases):
            if not WORD.fullmatch(release.name):
                help = "Use letters, digits, _ and -, beginning with a letter."
                self.error("DP150", f"`{release.name[:40]}` is no name for a release", help, "releases", i)

    def run(self) -> list[Diagnostic]:
        self.names()
        self.data()
        self.privacy()
        words = spellings()
        for i, assumption in enumerate(self.a.assume):
            if assumption.name not in words and (near := nearest(assumption.name, words)):
                self.error("DP107", f"unknown assumption `{assumption.name}`", f"Did you mean `{near}`?", "assume", i, "name")
            for e in (*assumption.args, *(e for _, e in assumption.options)):
                self.number(e, extra=("w", "x", "y"))
        for i, release in enumerate(self.a.releases):
            self.release(i, release)
        self.shares()
        self.study()
        if self.broken & {"privacy", "file"}:  # a budget may stand in the part that could not be read
            self.found = [d for d in self.found if d.code not in ("DP130", "DP134")]
        return self.found

    def data(self) -> None:
        data = self.a.data
        self.known = {"pi", "n", "d", *(k for k, _ in data.constants)}
        waiting: dict[str, Expr] = {k: e for k, e in (("n", data.n), ("d", data.d), *data.constants) if e is not None}
        for name, _ in data.constants:
            if name in RESERVED:
                path = ("data", "constants", name, "name")
                self.error("DP107", f"`{name}` has a meaning of its own", "Give the constant another name.", *path)
        progress = True
        while waiting and progress:  # constants may use each other in any order
            progress = False
            for name, e in list(waiting.items()):
                needs = {node.id for node in walk(e) if isinstance(node, Name)} - {"pi"}
                if needs & set(waiting):
                    continue
                del waiting[name]
                progress = True
                if name in ("n", "d"):
                    size = self.whole(e, "DP140", f"`{name}`", 1, MAX_SIZE, "data", name)
                    value: Fraction | float | None = None if size is None else Fraction(size)
                else:
                    value = self.number(e)
                if value is not None:
                    self.values[name] = value
        for name, e in waiting.items():
            self.error("DP116", f"`{name}` is defined by itself", "Give it a number.", span=e.span)
        self.contributions()
        for i, domain in enumerate(data.domains):
            self.set(domain.set, "data", "domains", i, "set")
            self.enforcement(i)
        for i, encode in enumerate(data.encode):
            self.encode(i, encode)

    def contributions(self) -> None:
        """What of one unit counts: a column that tells units apart, and whole numbers."""
        data = self.a.data
        rows = self.whole(data.rows, "DP151", "the number of rows of a unit", 1, 1_000_000, "data", "rows")
        groups = self.whole(data.groups, "DP151", "the number of groups of a unit", 1, 1_000_000, "data", "groups")
        one = f"at most 1 rows a {data.unit}"
        for key in ("rows", "groups"):
            if getattr(data, key) is not None and not data.identified:
                why = f"no column says which rows are of one {data.unit}, so their number cannot be bounded"
                self.error("DP151", why, f"unit {data.unit} identified by id", "data", key)
        if data.identified and data.rows is None and "data" not in self.broken:
            self.error("DP151", f"how many rows of one {data.unit} count is not said", one, "data", "identified")
        if rows is not None and groups is not None and groups > rows:
            self.error("DP151", f"{groups} groups need as many rows, and {rows} count", f"at most {rows} groups", "data", "groups")
        if " identified by " in data.unit:
            message = "the word for a unit says by which column units are told apart, and is no column"
            self.error("DP151", message, "unit person identified by id, without quotes around all of it", "data", "unit")
        source = data.source
        if isinstance(source, SqlSource) and (wrong := refusal(source.url, source.query)) is not None:
            self.error("DP527", *wrong, "data", "source")
        if data.identified and data.identified in (*getattr(source, "columns", ()), getattr(source, "target", None), "x", "y"):
            message = f"`{data.identified}` tells units apart, and cannot be a feature or the target as well"
            self.error("DP151", message, "Leave it out of `columns`.", "data", "identified")

    def set(self, s: Set, *path: str | int) -> None:
        if isinstance(s, Ball):
            radius = self.number(s.radius)
            if radius is not None and radius <= 0:
                self.error("DP141", "the radius of a ball must be positive", "Give a radius above 0.", *path, "radius")
        elif isinstance(s, Box):
            low, high = self.number(s.low), self.number(s.high)
            if low is not None and high is not None and low >= high:
                self.error("DP141", "the interval is empty", "Write the lower end first.", *path)
        elif isinstance(s, Finite):
            values = [v for v in (self.number(e) for e in s.values) if v is not None]
            if len(set(values)) < len(values):
                self.error("DP141", "a value is listed twice", "List each value once.", *path)
        elif isinstance(s, Sparse):
            self.whole(s.k, "DP141", "the number of non-zero coordinates", 1, MAX_SIZE, *path, "k")

    def enforcement(self, i: int) -> None:
        domain = self.a.data.domains[i]
        by, s = domain.by, domain.set
        path = ("data", "domains", i, "by")
        if by is None:
            return
        if by.how == "scale" and not isinstance(s, Ball):
            self.error("DP142", "`scale` puts records into a ball, and this set is none", "Use clip for a box or an interval.", *path)
        if by.how == "clip" and not (isinstance(s, Box) or (isinstance(s, Ball) and s.norm == "linf")):
            help = "Use scale for a ball, or declare box(a, b) or ball(linf, r)."
            self.error("DP142", "clamping coordinates does not put a record into this set", help, *path)
        if by.how == "shrink":
            tau = self.number(by.tau)
            if tau is not None and tau <= 0:
                self.error("DP142", "the threshold of `shrink` must be positive", "Give a number above 0.", *path, "tau")
        if by.how == "map":
            if not isinstance(s, Finite):
                self.error("DP142", "`map` puts values into a finite set, and this set is none", "Declare {a, b}.", *path)
            keys = [k for k, _ in by.mapping]
            if len(set(keys)) < len(keys):
                self.error("DP142", "a value is mapped twice", "Keep one.", *path)
            images = [self.number(e) for _, e in by.mapping]
            if isinstance(s, Finite) and None not in images:
                allowed = {self.number(e) for e in s.values}
                for (key, _), image in zip(by.mapping, images, strict=True):
                    if None not in allowed and image not in allowed:
                        self.error("DP142", f"`{key}` is mapped to a value outside the set", "Map into the set.", *path)

    def encode(self, i: int, encode: Encode) -> None:
        path = ("data", "encode", i)
        if encode.how == "one-hot":
            self.whole(encode.args[0], "DP145", "the number of levels", 2, MAX_LEVELS, *path)
        elif encode.how == "levels":
            if len(encode.levels) < 2 or len(set(encode.levels)) < len(encode.levels):
                self.error("DP145", "levels must be two texts or more, each once", 'For example levels("no", "yes").', *path)
        elif encode.how in ("range", "standard"):
            a, b = (self.number(e) for e in encode.args)
            if encode.how == "range" and a is not None and b is not None and a >= b:
                self.error("DP145", "the range is empty", "Write the lower end first.", *path)
            if encode.how == "standard" and b is not None and b <= 0:
                self.error("DP145", "the scale of `standard` must be positive", "Give a scale above 0.", *path)

    def privacy(self) -> None:
        p = self.a.privacy
        given = [name for name in ("epsilon", "rho", "mu") if getattr(p, name) is not None]
        if not given:
            if p.delta is not None:
                self.error("DP134", "delta without epsilon", "Add epsilon, or leave delta out.", "privacy", "delta")
            else:
                self.error("DP130", "there is no privacy budget", "Add `epsilon = 1`, `rho = 0.1` or `mu = 0.5`.", "privacy")
        for other in given[1:]:
            message = f"{given[0]} and {other} are both given"
            self.error("DP131", message, "Keep one: the others follow from it by conversion.", "privacy", other)
        if p.delta is not None and given and given[0] != "epsilon":
            self.error("DP134", f"{given[0]} takes no delta", "Leave delta out.", "privacy", "delta")
        for name in given:
            value = self.number(getattr(p, name))
            if value is not None and not MIN_BUDGET <= value <= MAX_BUDGET:
                why = f"{name} must be positive" if value <= 0 else f"{name} lies outside the accepted range"
                self.error("DP132", why, f"Give a number from 1e-9 to {MAX_BUDGET}.", "privacy", name)
        delta = self.number(p.delta)
        if delta is not None and not 0 < delta < 1:
            help = "Give a number between 0 and 1, well below 1/n; for pure differential privacy leave delta out."
            self.error("DP133", "delta must lie strictly between 0 and 1", help, "privacy", "delta")
        if p.public is not None:
            self.whole(p.public.m, "DP140", "the number of public records", 1, MAX_SIZE, "privacy", "public", "m")

    # ---------------------------------------------------------------------------------------------------- releases

    def release(self, i: int, release: Release) -> None:
        task = release.task
        path = ("releases", i, "task")
        if isinstance(task, Minimise):
            self.loss(task)
        elif isinstance(task, EstimateTheta) and task.form == "nonlinear" and task.link is not None:
            self.functions(task.link, ("sigmoid", "logistic"))
            self.scope(task.link, {"u", *self.known})
        elif isinstance(task, Estimate):
            self.statistic(task, *path)
        elif isinstance(task, Regress):
            for e in task.args:
                value = self.number(e)
                if value is not None and value <= 0:
                    self.error("DP147", "the parameters of a kernel must be positive", "Give a number above 0.", *path)
        elif isinstance(task, Fit):
            self.fit(task, *path)
        elif isinstance(task, Answer):
            if len(task.args) != 1:
                self.error("DP147", f"`{task.queries}` takes one number", f"Write {task.queries}(3).", *path)
            for e in task.args:
                self.whole(e, "DP147", f"the parameter of `{task.queries}`", 1, 10_000, *path)
        over = getattr(task, "over", None)
        if over is not None:
            self.set(over, *path, "over")
        if release.expect is not None:
            value = self.number(release.expect.at_most)
            if value is not None and value <= 0:
                self.error("DP144", "a target must be positive", "Give a number above 0.", "releases", i, "expect", "at_most")
            p = self.number(release.expect.probability)
            if p is not None and not 0 < p < 1:
                where = ("releases", i, "expect", "probability")
                self.error("DP144", "a probability must lie strictly between 0 and 1", "For example 0.95.", *where)

    def statistic(self, task: Estimate, *path: str | int) -> None:
        """How many numbers follow, and which they may be; each name of a condition."""
        word = STATISTICS[task.what]
        if task.what == "subspace" and len(task.args) != 1:
            self.error("DP147", "subspace(x, k) takes one dimension", "Write subspace(x, 3).", *path)
        elif not word.least <= len(task.args) <= word.most:
            numbers = f"{word.least} to {word.most} numbers" if word.most else "no number"
            self.error(
                "DP147", f"`{task.what}` takes {numbers} after its column, and has {len(task.args)}", f"For example {word.example}.", *path
            )
        values = [self.number(e) for e in task.args]
        if task.what == "subspace":
            for e in task.args:
                self.whole(e, "DP147", "the dimension of a subspace", 1, MAX_SIZE, *path)
        elif task.what == "quantile" and any(v is not None and not 0 < v < 1 for v in values):
            self.error("DP147", "a quantile is of a share strictly between 0 and 1", "quantile(age, 0.25, 0.5, 0.75)", *path)
        known = [v for v in values if v is not None]
        if task.what in ("quantile", "histogram") and len(known) == len(values) and any(a >= b for a, b in pairwise(known)):
            what = "shares" if task.what == "quantile" else "edges"
            self.error("DP147", f"the {what} of `{task.what}` must rise", f"For example {word.example}.", *path)
        if task.what == "histogram" and len(task.args) == 1:
            self.error("DP147", "a histogram over edges has at least two of them", f"For example {word.example}.", *path)
        if task.group and task.what not in ("count", "sum", "mean"):
            message = f"`{task.what}` has no `group by`"
            self.error("DP147", message, "Counts, sums and means have one; ask for the others once a level, each with a share.", *path)
        for comparison in task.where:
            if not isinstance(comparison.value, str):
                self.number(comparison.value)

    def fit(self, task: Fit, *path: str | int) -> None:
        if task.model == "regression-with-missing":
            rates = [self.number(e) for e in task.args]
            if len(rates) > 1 or any(r is not None and not 0 <= r < 1 for r in rates):
                self.error("DP147", "the missing rate is one number in [0, 1)", "Write regression-with-missing(0.1).", *path)
        elif task.model == "gmm" and (not 1 <= len(task.args) <= 2 or task.args[1:] not in ((), *((Name(id=w),) for w in COVARIANCES))):
            like = f"Write gmm(2), gmm(3) or gmm(3, {COVARIANCES[-1]})."
            self.error("DP147", f"gmm(k) takes the number of components, and one of the words {', '.join(COVARIANCES)}", like, *path)
        elif task.model != "gmm" and len(task.args) > 1:
            self.error("DP147", f"{task.model}(k) takes the number of components", f"Write {task.model}(2).", *path)
        else:
            for e in task.args[:1]:
                self.whole(e, "DP147", "the number of components", 1, 10_000, *path)

    def loss(self, task: Minimise) -> None:
        variables = {"w", "x1", "y1", "x2", "y2"} if task.pairwise else {"w", "x", "y"}
        named = {*LOSSES, *REGULARISERS}
        self.functions(task.loss, named)
        units = network_weights(task.loss)
        self.scope(task.loss, {*variables, *self.known, *LOSSES, "norm", *units})
        for node in walk(task.loss):
            if isinstance(node, Call) and node.function in ("group", "group-lasso"):
                self.groups(node)

    def groups(self, e: Call) -> None:
        """The sizes of ``group(w, 3, 2)`` and ``group-lasso(0.1, 3, 2)``: one that repeats, or all of them, which add up to d."""
        first = "w" if e.function == "group" else "a weight"
        like = f"Write {e.function}({'w' if e.function == 'group' else '0.1'}, 5), or all sizes one after the other."
        if len(e.args) < 2 or (e.function == "group" and e.args[0] != Name("w")):
            self.error("DP115", f"`{e.function}` takes {first} and the sizes of the groups", like, span=e.span)
            return
        sizes = [self.whole(size, "DP147", "the size of a group", 1, MAX_SIZE) for size in e.args[1:]]
        if len(sizes) < 2 or None in sizes:
            return
        total = sum(size for size in sizes if size is not None)
        varied = next((v.values for v in (self.a.study.vary if self.a.study else ()) if v.variable == "d"), ())
        for d in (self.values.get("d"), *(v.value for v in varied if isinstance(v, Num))):
            if d is not None and d != total:
                help = "Correct a size, or give one size alone: it repeats, and the last group takes what is left."
                self.error("DP147", f"the sizes of the groups add up to {total}, not to d = {_shown(d)}", help, span=e.args[-1].span)
                return

    def shares(self) -> None:
        releases = self.a.releases
        total: Fraction | float = 0
        for i, release in enumerate(releases):
            if release.share is not None:
                share = self.number(release.share)
                if share is not None and share <= 0:
                    self.error("DP143", "a share must be positive", "Give a number above 0.", "releases", i, "share")
            if release.part is not None and release.share is not None:
                why = f"release `{release.name}` has a share and a part"
                help = "A release on a part of its own has the whole budget there: leave out the share (or the part, to share one budget)."
                self.error("DP143", why, help, "releases", i, "share")
            if release.part is not None:
                part = self.number(release.part)
                if part is None:
                    continue
                if not 0 < part <= 1:
                    self.error("DP143", "a part must be a fraction of the records, in (0, 1]", "For example 1/2.", "releases", i, "part")
                    continue
                total += part
                if total > 1:
                    self.error("DP143", "the parts add up to more than all records", "Make them smaller.", "releases", i, "part")
        shared = [r.share is not None for r in releases if r.part is None]
        if any(shared) and not all(shared):
            i = next(i for i, r in enumerate(releases) if r.part is None and r.share is None)
            help = "Give every release a share, or none."
            self.error("DP143", f"release `{releases[i].name}` has no share while others have one", help, "releases", i)

    # -------------------------------------------------------------------------------------------------------- study

    def study(self) -> None:
        for law in self.a.simulate:
            for node in walk(law.law):  # the data layer decides what is a law; a slip of the pen is told here
                if isinstance(node, Call) and node.function not in LAWS and node.function not in FUNCTIONS:
                    near = nearest(node.function, LAWS)
                    if near is not None:
                        self.error("DP115", f"unknown law `{node.function}`", f"Did you mean `{near}`?", span=node.span)
        study = self.a.study
        if study is None:
            return
        self.whole(study.trials, "DP146", "`trials`", 1, 1_000_000, "study", "trials")
        self.whole(study.seed, "DP146", "`seed`", 0, 2**63 - 1, "study", "seed")
        p = self.a.privacy
        budgets = [name for name in ("epsilon", "delta", "rho", "mu") if getattr(p, name) is not None]
        may = {"n", "d", *(k for k, _ in self.a.data.constants), *budgets, *(("m",) if p.public is not None else ())}
        for i, vary in enumerate(study.vary):
            path = ("study", "vary", i)
            if vary.variable not in may:
                near = nearest(vary.variable, may)
                help = f"Did you mean `{near}`?" if near else "One of " + ", ".join(sorted(may)) + "."
                if "data" not in self.broken and "privacy" not in self.broken:
                    self.error("DP146", f"`{vary.variable}` cannot be varied", help, *path, "variable")
                continue
            if not 1 <= len(vary.values) <= MAX_VARY:
                self.error("DP146", f"`vary` takes 1 to {MAX_VARY} values", "List the values in [ ].", *path)
            values: list[Fraction | float] = []
            for k, e in enumerate(vary.values):
                if vary.variable in ("n", "d", "m"):
                    size = self.whole(e, "DP146", f"a value of `{vary.variable}`", 1, MAX_SIZE, *path, "values", k)
                    value: Fraction | float | None = None if size is None else Fraction(size)
                else:
                    value = self.number(e)
                    low, high = (0, 1) if vary.variable == "delta" else (MIN_BUDGET, MAX_BUDGET)
                    outside = value is not None and vary.variable in budgets and not low <= value <= high
                    if outside or (vary.variable == "delta" and value in (0, 1)):
                        self.error("DP146", f"a value of `{vary.variable}` outside its range", "Correct it.", *path, "values", k)
                if value is not None and value in values:
                    self.error("DP146", "a value is listed twice", "List each value once.", *path, "values", k)
                if value is not None:
                    values.append(value)


def validate(analysis: Analysis, spans: SourceMap, broken: frozenset[str] = frozenset()) -> list[Diagnostic]:
    """Every static finding about an analysis. ``broken``: sections with a part that could not be read, about which less is said."""
    return Checker(analysis, spans, broken).run()
