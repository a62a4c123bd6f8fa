"""Pass 1, resolve: every public number of the spec gets its value, once, exactly where it can be exact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from dpspec.compiler.draft import Draft, Number, Other, Path, Resolved
from dpspec.compiler.files import find as find_files
from dpspec.domains.domain import Domain, domain_of_set
from dpspec.domains.variable import Variable, from_line
from dpspec.lang.vocabulary import nearest
from dpspec.numeric.rounding import up
from dpspec.privacy.calibrated import Budget
from dpspec.spec.assumptions import ASSUMPTIONS, READ, Assumption, assumed, constants, spellings, target
from dpspec.spec.diagnostics import SpecError
from dpspec.spec.expr import Expr, NotANumber, Unbound, evaluate
from dpspec.spec.model import Ball, Box, Finite, Set
from dpspec.spec.model import Domain as Stated
from dpspec.tasks.registry import of, tasks

#: Facts that the compiler derives from enforced domains, constraint sets and certificates. Sensitivities rest on them, so a constant of
#: the spec may not stand in for one that nothing enforces or proves.
DERIVED = frozenset(
    {"x_l1", "x_l2", "x_linf", "y_abs", "w_l1", "w_l2", "w_linf", "w_radius", "L", "L_inf", "B", "strongly_convex", "l1_weight", "features"}
    | {"x_least", "x_low", "x_high", "y_low", "y_high", "hessian_lipschitz", "hessian_spread"}
)


#: Above it a plan warns (DP304).
LARGE_EPSILON = 5


def resolve(draft: Draft[Resolved]) -> Draft[Resolved]:
    """Evaluate n, d, constants, budget and declared constants; report what has no usable value (DP408, DP411)."""
    a = draft.analysis
    facts: dict[str, Number] = {}

    for name, e in (("n", a.data.n), ("d", a.data.d)):
        if e is None:
            continue
        draft, value = number(draft, e, facts, ("data", name), what=name)
        if value is None:
            continue
        if value != int(value) or value < 1:
            draft = draft.report("DP411", f"{name} is {float(value):g}, not a whole number of at least 1", path=("data", name))
            continue
        facts[name] = Fraction(int(value))
    for name, e in a.data.constants:
        if name in DERIVED:
            draft = draft.report(
                "DP107",
                f"{name} is what the compiler derives from an enforced domain, a set or a proof; a constant cannot take its place",
                path=("data", "constants", name, "name"),
                help="give the constant another name",
            )
            continue
        draft, value = number(draft, e, facts, ("data", "constants", name), what=name)
        if value is not None:
            facts[name] = value
    for name, path in (("n", ("data", "n")), ("d", ("data", "d"))):
        declared = a.data.n if name == "n" else a.data.d
        if declared is None:
            what = "records" if name == "n" else "features after encoding, the intercept included"
            draft = draft.report(
                "DP408",
                f"the number of {what}, {name}, is not stated",
                path=("data",) if not draft.failed else path,
                help=f"state it in the data section: {name} = ...; it is public and is never read off private records",
            )
    if a.privacy.public is not None and a.privacy.public.m is not None:
        draft, value = number(draft, a.privacy.public.m, facts, ("privacy", "public", "m"), what="m")
        if value is not None:
            facts["m"] = value

    draft, budget = _budget(draft, facts)
    draft = _relation(draft)
    draft = _domains(draft, facts)
    draft = _rules(draft, facts)
    draft = _unlisted(draft)
    draft = _zeroed(draft, facts)
    draft = _columns(draft, facts)
    draft = find_files(draft, facts)
    draft = _declared(draft, facts)
    releases = tuple(Resolved(release=r, index=i) for i, r in enumerate(a.releases))
    draft = _parts(draft, facts)
    return replace(draft, facts=facts, budget=budget, releases=releases)


def number(draft: Draft[Other], e: Expr, facts: Mapping[str, Number], path: Path, *, what: str) -> tuple[Draft[Other], Number | None]:
    """The value of an expression, or a diagnostic at its place."""
    try:
        return draft, evaluate(e, facts)
    except Unbound as error:
        missing = error.name
        return draft.report(
            "DP411",
            f"{what} uses {missing}, which has no public value here",
            path=path,
            help=f"declare it in the data section ({missing} = ...) or write a number",
        ), None
    except NotANumber as error:
        return draft.report("DP411", f"{what} has no finite value: {error.reason}", path=path, help="write a finite number"), None


def _budget(draft: Draft[Resolved], facts: dict[str, Number]) -> tuple[Draft[Resolved], Budget | None]:
    p = draft.analysis.privacy
    values: dict[str, Number] = {}
    for name in ("epsilon", "delta", "rho", "mu"):
        e = getattr(p, name)
        if e is None:
            continue
        draft, value = number(draft, e, facts, ("privacy", name), what=name)
        if value is None:
            continue
        if value < 0 or (value == 0 and name != "delta"):
            draft = draft.report("DP411", f"{name} is {float(value):g}; a budget is positive", path=("privacy", name), help=f"{name} = 1")
            continue
        if name == "delta" and value >= 1:
            draft = draft.report(
                "DP411",
                f"delta is {float(value):g}; at 1 or more it allows everything",
                path=("privacy", name),
                help="delta well below 1/n, for example 1/n^1.1",
            )
            continue
        values[name] = value
    facts.update(values)
    if "delta" in values and "n" in facts and p.model == "central" and values["delta"] * facts["n"] > 1:
        draft = draft.report(
            "DP303",
            f"delta = {float(values['delta']):.3g} is above 1/n = {1 / float(facts['n']):.3g}: a random record may be published whole",
            path=("privacy", "delta"),
            help="delta well below 1/n, for example 1/n^1.1",
            severity="warning",
        )
    if values.get("epsilon", 0) > LARGE_EPSILON:
        draft = draft.report(
            "DP304",
            f"epsilon = {float(values['epsilon']):g}: the worst case that this permits is close to no protection",
            path=("privacy", "epsilon"),
            help="decide by the attacker's detection rate that `dpspec plan` prints",
            severity="warning" if p.model == "central" else "info",
        )
    if not ({"epsilon", "rho", "mu"} & values.keys()):
        return draft, None
    return draft, Budget(**values)


def _relation(draft: Draft[Resolved]) -> Draft[Resolved]:
    """Which neighbours go with the privacy model and with parts."""
    a = draft.analysis
    partial = a.privacy.labels_only or a.privacy.attribute
    if partial and (a.data.neighbours == "zero-out" or (a.data.neighbours == "add-remove" and a.privacy.model == "central")):
        what = "labels" if a.privacy.labels_only else "attributes"
        return draft.report(
            "DP306",
            f"only the {what} are protected, and the rest of each record, so who is in the data, is not: a neighbour has another value "
            "there, it does not lack the record",
            path=("data", "neighbours"),
            help="neighbours replace-one",
        )
    draft = _identified(draft)
    if a.data.neighbours != "add-remove":
        return draft
    if a.privacy.model != "central":
        return draft.report(
            "DP306",
            f"under {a.privacy.model} every user sends a report, so who takes part is seen; what a report hides is the record: replace-one",
            path=("data", "neighbours"),
            help="neighbours replace-one (or zero-out)",
        )
    for i, release in enumerate(a.releases):
        if release.part is not None:
            return draft.report(
                "DP306",
                "parts are consecutive rows: without one record every later row moves up, so one record changes several parts",
                path=("releases", i, "part"),
                help="neighbours replace-one or zero-out, or share the budget instead (share 1/2)",
            )
    return draft


def _identified(draft: Draft[Resolved]) -> Draft[Resolved]:
    """Where a unit has several records, neighbours differ in all of its records: how many there are is private, and so is n."""
    a = draft.analysis
    if not a.data.identified:
        return draft
    if a.privacy.model != "central":
        return draft.report(
            "DP306",
            f"under {a.privacy.model} each record reports for itself, and no one gathers those of one {a.data.unit}",
            path=("data", "identified"),
            help=f"one row a {a.data.unit} before it reports, or privacy central",
        )
    if a.privacy.labels_only or a.privacy.attribute:
        return draft.report(
            "DP306",
            f"all records of one {a.data.unit} are protected together, not a label or an attribute alone",
            path=("data", "identified"),
            help="leave `labels only` and `attribute` out",
        )
    if a.privacy.online:
        return draft.report(
            "DP306",
            f"which rows of one {a.data.unit} are kept is drawn from all of them, and `online` sees one at a time",
            path=("data", "identified"),
            help="leave `online` out",
        )
    if a.data.neighbours != "add-remove":
        return draft.report(
            "DP306",
            f"how many rows a {a.data.unit} has is private, so how many there are in all is not public, as {a.data.neighbours} has it",
            path=("data", "neighbours"),
            help="neighbours add-remove",
        )
    return draft


def _rules(draft: Draft[Resolved], facts: Mapping[str, Number]) -> Draft[Resolved]:
    """Whether the executor can do what each `by` says (DP520, DP521); otherwise a plan would only fail when it runs."""
    if draft.failed or "d" not in facts or not any(domain.by is not None for domain in draft.analysis.data.domains):
        return draft
    from dpspec.data.enforce import rules_of

    for variable, width in (("x", int(facts["d"])), ("y", 1)):
        try:
            rules_of(draft.analysis.data, variable, width, facts)
        except SpecError as error:
            where = next((i for i, domain in enumerate(draft.analysis.data.domains) if domain.variable == variable), 0)
            for found in error.diagnostics:
                draft = draft.report(found.code, found.message, path=("data", "domains", where), help=found.help)
    return draft


def _unlisted(draft: Draft[Resolved]) -> Draft[Resolved]:
    """A map of words is total: what it does not list becomes the first image (DP525). Said of every such plan with private data: whether
    a record has such a word is nobody's to know."""
    from dpspec.data.sources import as_number

    data = draft.analysis.data
    for i, domain in enumerate(data.domains):
        words = () if domain.by is None else domain.by.mapping
        if data.status == "public" or not any(as_number(key) is None for key, _ in words):
            continue
        listed = ", ".join(repr(key) for key, _ in words)
        draft = draft.report(
            "DP525",
            f"a word of {domain.variable} other than {listed} becomes the first image, and no run can tell whether there was one; "
            "words are compared letter by letter (yes is not Yes)",
            path=("data", "domains", i, "by"),
            help="make sure that the list holds every spelling that occurs; of data marked public each one is checked",
            severity="warning",
        )
    return draft


def _columns(draft: Draft[Resolved], facts: Mapping[str, Number]) -> Draft[Resolved]:
    """Where the spec lists the columns of x: each encoding is of one of them, and d is what they come to (DP503, DP508), before a run
    opens the data."""
    from dpspec.data.answers import COLUMNS

    data = draft.analysis.data
    listed, target = getattr(data.source, "columns", ()), getattr(data.source, "target", None)
    if draft.failed or not listed or listed == COLUMNS:
        return draft
    encodings = {e.column: e for e in data.encode}
    for i, e in enumerate(data.encode):
        if e.column not in (*listed, target):
            near = nearest(e.column, listed)
            draft = draft.report(
                "DP503",
                f"the encoded column {e.column!r} is not listed in columns",
                path=("data", "encode", i),
                help=f"did you mean {near!r}?" if near else f"columns [{', '.join((*listed, e.column))}], or leave the encoding out",
            )
    if draft.failed or "d" not in facts:
        return draft
    widths = 0
    for name in listed:
        how = encodings.get(name)
        if name != target:
            widths += len(how.levels) if how is not None and how.how == "levels" else 1
            if how is not None and how.how == "one-hot":
                draft, levels = number(draft, how.args[0], facts, ("data", "encode"), what=f"one-hot of {name}")
                widths += int(levels) - 1 if levels is not None else 0
    widths += int(data.intercept)
    if not draft.failed and widths != facts["d"]:
        parts = (
            f"{len(listed) - (target in listed)} columns"
            + (", encoded" if encodings else "")
            + (" and the intercept" if data.intercept else "")
        )
        return draft.report(
            "DP508",
            f"the spec says d = {int(facts['d'])}, and its columns come to {widths} ({parts})",
            path=("data", "d"),
            help=f"d = {widths}",
        )
    return draft


def _zeroed(draft: Draft[Resolved], facts: Mapping[str, Number]) -> Draft[Resolved]:
    """Under zero-out a central plan counts on a zeroed record to vanish from every sum. Where it does not it is another record, and the
    plan is made, and states, replace-one. In a local model a report hides any record from any other one already."""
    a = draft.analysis
    if draft.failed or a.data.neighbours != "zero-out" or a.privacy.model != "central":
        return draft
    from dpspec.data.zeroed import obstacle

    try:
        found = obstacle(a.data, facts)
    except SpecError as error:  # an encoding or a domain without a value
        for d in error.diagnostics:
            draft = draft.report(d.code, d.message, path=("data",), help=d.help)
        return draft
    if found is None:
        return draft
    draft = draft.report(
        "DP315",
        f"a zeroed record is a row of zeros, and {found.what}: it stays in every sum, so zero-out costs what replace-one does, and the "
        "plan is one of replace-one, which protects more",
        path=("data", *found.path),
        help="write neighbours replace-one; under add-remove the record is not there at all, and costs half as much",
        severity="warning",
    )
    return replace(draft, replaced=True)


def _domains(draft: Draft[Resolved], facts: dict[str, Number]) -> Draft[Resolved]:
    """The domain of each record variable, and its bounds as facts: x_l2, x_linf, x_l1, y_abs, and the ends of each coordinate."""
    found: dict[str, Variable] = {}
    for i, stated in enumerate(draft.analysis.data.domains):
        dimension = 1 if stated.variable == "y" else _dimension(facts)
        draft, domain = set_domain(draft, stated.set, facts, ("data", "domains", i, "set"), dimension)
        if stated.by is not None and stated.by.tau is not None:
            draft, tau = number(draft, stated.by.tau, facts, ("data", "domains", i, "by", "tau"), what="tau")
            if tau is not None and tau <= 0:
                draft = draft.report("DP411", f"tau is {float(tau):g}; it must be positive", path=("data", "domains", i, "by", "tau"))
            domain = None if tau is None or tau <= 0 else domain
        if domain is None:
            continue
        try:
            found[stated.variable] = from_line(stated, facts, dimension=dimension)
        except (Unbound, NotANumber):
            continue  # an image without a value: _rules reports it at its place
        known = found[stated.variable].known
        if known.low is not None and known.high is not None:
            ends = {"low": -_short(-known.low), "high": _short(known.high)}
            facts.update({f"{stated.variable}_{end}": value for end, value in ends.items()})
        if stated.variable == "y" and known.linf is not None:
            facts["y_abs"] = known.linf
        elif stated.variable == "x":
            facts.update({f"x_{norm}": size for norm, size in norms(known).items()})
            if (least := _lengthened(stated, known)) > 0:
                facts["x_least"] = least
    return replace(draft, domains=found)


def _lengthened(stated: Stated, known: Domain) -> Fraction:
    """How far from 0 enforcement may put an entry that was nearer: 0 for rules that only shorten. A moment that is declared of the records
    as they come then grows by at most that to its power."""
    if stated.by is None or known.low is None or known.high is None:
        return Fraction(0)
    if stated.by.how == "map":
        return max(abs(known.low), abs(known.high))
    return max(known.low, -known.high, Fraction(0))


def _dimension(facts: Mapping[str, Number]) -> int | None:
    return int(facts["d"]) if "d" in facts else None


def norms(domain: Domain) -> dict[str, Number]:
    """Upper bounds of the l1, l2 and linf norms over a set, those that are finite: exact where they are doubles, else rounded up."""
    found = {"l1": domain.l1, "l2": domain.l2, "linf": domain.linf}
    return {norm: _short(size) for norm, size in found.items() if size is not None}


def _short(size: Fraction) -> Number:
    """``size`` itself, or the next double above where it is the many-digit upper bound of an irrational number."""
    return size if size.denominator.bit_length() <= 60 else up(size)


def set_domain(
    draft: Draft[Other], s: Set, facts: Mapping[str, Number], path: Path, dimension: int | None
) -> tuple[Draft[Other], Domain | None]:
    """The domain of a set whose numbers all have a value and make sense (else None, with DP411 at its place)."""
    before = len(draft.diagnostics)
    match s:
        case Ball(radius=e):
            draft, r = number(draft, e, facts, (*path, "radius"), what="the radius")
            if r is not None and r <= 0:
                draft = draft.report(
                    "DP411", f"the radius is {float(r):g}; it must be positive", path=(*path, "radius"), help="ball(l2, 1)"
                )
        case Box(low=low, high=high):
            draft, lo = number(draft, low, facts, (*path, "low"), what="the lower end")
            draft, hi = number(draft, high, facts, (*path, "high"), what="the upper end")
            if lo is not None and hi is not None and lo > hi:
                draft = draft.report("DP411", f"the interval [{float(lo):g}, {float(hi):g}] is empty", path=path)
        case Finite(values=values):
            for e in values:
                draft, _ = number(draft, e, facts, path, what="a value of the set")
        case _:
            pass
    return draft, None if len(draft.diagnostics) > before else domain_of_set(s, facts, dimension=dimension)


def _declared(draft: Draft[Resolved], facts: dict[str, Number]) -> Draft[Resolved]:
    of_tasks: dict[str, Assumption] = {}
    for release in draft.analysis.releases:
        of_tasks.update(of(release.task).assumes)
    known = {**ASSUMPTIONS, **of_tasks}
    elsewhere = [word for task in tasks() for word in task.assumes]
    stated: dict[tuple[str, str | None], int] = {}
    for i, assumption in enumerate(draft.analysis.assume):
        word = assumed(assumption.name, assumption.of)
        if word not in known and word not in elsewhere:
            near = nearest(assumption.name, (*spellings(), *elsewhere))
            draft = draft.report(
                "DP226",
                f"unknown assumption `{assumption.name}`" + ("" if assumption.of is None else f" of {assumption.of}"),
                path=("assume", i),
                help=f"Did you mean `{near}`?" if near else "one of " + ", ".join((*known, *elsewhere)),
            )
            continue
        targets = known[word].of if word in known else ()
        if assumption.of is not None and targets and assumption.of not in targets:
            draft = draft.report(
                "DP226",
                f"`{assumption.name}` is said of {' or '.join(targets)}, not of `{assumption.of}`",
                path=("assume", i),
                help=f"leave `of {assumption.of}` out, or name one of these",
            )
            continue
        against_law = word in known and known[word].test and draft.analysis.simulate
        if word not in READ and word not in of_tasks and not against_law:
            draft = draft.report(
                "DP224",
                f"nothing reads the assumption {assumption.name}: no certificate, no bound and no algorithm",
                path=("assume", i),
                help="leave it out, or state one of " + ", ".join(w for w in known if w in READ or w in of_tasks),
                severity="warning",
            )
            continue
        if word not in known:
            continue
        names = known[word].facts
        about = target(word, assumption.of)
        if names and (word, about) in stated:
            first = draft.analysis.assume[stated[word, about]]
            if first != assumption:
                what = f"`{word}`" if about is None else f"`{word}` of {about}"
                draft = draft.report("DP226", f"{what} is stated twice, with other constants", path=("assume", i), help="keep one")
            continue
        stated[word, about] = i
        values, wrong = constants(known[word], assumption.args, assumption.options)
        if wrong:
            takes = f"`{word}{known[word].args}`" if known[word].args else "it takes none" if not known[word].most else f"`{word}(number)`"
            draft = draft.report("DP226", f"`{assumption.name}` {wrong}", path=("assume", i), help=takes)
            continue
        if known[word].interval:
            draft = _ordered(draft, values, facts, i)
        for name, e in zip(names, values, strict=False):
            draft, value = number(draft, e, facts, ("assume", i), what=f"the constant of {assumption.name}")
            if value is None:
                continue
            if value <= 0:
                draft = draft.report(
                    "DP411", f"the constant of {assumption.name} is {float(value):g}; it must be positive", path=("assume", i)
                )
                continue
            if name == "k" and value != int(value):
                draft = draft.report(
                    "DP411", f"{assumption.name}({float(value):g}): entries are counted", path=("assume", i), help="a whole number"
                )
                continue
            if assumption.name == "moment":  # of one variable, it says nothing of another one's
                facts[name if assumption.of is None else f"{name}_{assumption.of}"] = value
                continue
            facts[f"{name}_{assumption.of}" if assumption.of in ("x", "y") else name] = value
            facts.setdefault(name, value)
    return draft


def _ordered(draft: Draft[Resolved], ends: Sequence[Expr], facts: Mapping[str, Number], i: int) -> Draft[Resolved]:
    """Refuse an interval whose ends are the other way round."""
    found: list[Number] = []
    for e in ends:
        draft, value = number(draft, e, facts, ("assume", i), what="an end of the interval")
        found += [] if value is None else [value]
    if len(found) == 2 and found[0] > found[1]:
        text = f"the interval [{float(found[0]):g}, {float(found[1]):g}] is empty"
        return draft.report("DP411", text, path=("assume", i), help="the smaller end first")
    return draft


def _parts(draft: Draft[Resolved], facts: Mapping[str, Number]) -> Draft[Resolved]:
    releases = draft.analysis.releases
    with_part = [r for r in releases if r.part is not None]
    if with_part and len(with_part) != len(releases):
        first = next(i for i, r in enumerate(releases) if r.part is None)
        return draft.report(
            "DP414",
            f"release {releases[first].name!r} uses all records while others use a part",
            path=("releases", first),
            help="give every release a part, or none",
        )
    total: Number = Fraction(0)
    for i, r in enumerate(releases):
        for what, e in (("part", r.part), ("share", r.share)):
            if e is None:
                continue
            draft, value = number(draft, e, facts, ("releases", i, what), what=what)
            if value is None:
                continue
            if value <= 0 or (what == "part" and value > 1):
                draft = draft.report("DP411", f"{what} is {float(value):g}", path=("releases", i, what), help=f"a {what} is positive")
                continue
            if what == "part":
                total = total + value
                if "n" in facts and part_rows(replace(draft, facts=facts), i)[1] <= part_rows(replace(draft, facts=facts), i)[0]:
                    draft = draft.report(
                        "DP414",
                        f"the part of release {r.name!r} holds no record",
                        path=("releases", i, "part"),
                        help="a larger part, or more records",
                    )
    if total > 1:
        draft = draft.report(
            "DP414",
            f"the parts sum to {float(total):g}, so they cannot be disjoint",
            path=("releases", len(releases) - 1, "part"),
            help="parts are disjoint fractions of the records and sum to at most 1",
        )
    return draft


def domain_of(domains: tuple[Stated, ...], variable: str) -> Stated | None:
    return next((d for d in domains if d.variable == variable), None)


def part_rows(draft: Draft[Resolved], index: int) -> tuple[int, int]:
    """First row and end of a release's part of n records: consecutive rows, in the order of the releases."""
    n = float(draft.facts["n"])
    start: Number = Fraction(0)
    for other in draft.analysis.releases[:index]:
        if other.part is not None:
            start = start + evaluate(other.part, draft.facts)
    part = draft.analysis.releases[index].part
    stop = start + (Fraction(1) if part is None else evaluate(part, draft.facts))
    return int(float(start) * n), int(float(stop) * n)
