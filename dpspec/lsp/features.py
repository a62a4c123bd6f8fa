"""What an editor shows for a spec. Each function takes a text with its path and gives plain values; lines and columns count from 1, columns
in characters, as everywhere else. Nothing here raises on a broken spec.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dpspec.spec.diagnostics import Diagnostic, Span, SpecError

if TYPE_CHECKING:
    from dpspec.lang.source import Parsed

_TOKEN = re.compile(r"[A-Za-z][A-Za-z0-9_]*(?:-[A-Za-z0-9_]+)*")
_MEANT = re.compile(r"(?:Did you mean|did you mean) `?([^`?\s]+)`?\?")

Kind = Literal["keyword", "algorithm", "constant", "word", "measure"]


@dataclass(frozen=True, slots=True)
class Offer:
    """One completion: what is written, what kind of thing it is, and what it means."""

    text: str
    kind: Kind
    means: str = ""


@dataclass(frozen=True, slots=True)
class Fix:
    """A quick fix: ``span`` is replaced by ``text``."""

    title: str
    span: Span
    text: str


def parse(text: str, path: str) -> tuple[Parsed | None, tuple[Diagnostic, ...]]:
    """The parsed text where it parses, and what the language has to say: quick enough for every keystroke."""
    from dpspec.lang.source import parse_text

    try:
        return parse_text(text, path), ()
    except SpecError as error:
        return None, error.diagnostics


def diagnostics(text: str, path: str) -> tuple[Diagnostic, ...]:
    """Everything that ``dpspec check`` would find, the policy of the file included."""
    from dpspec.compiler.passes import compile_draft

    parsed, found = parse(text, path)
    if parsed is None:
        return found
    draft = compile_draft(parsed, least="missed")
    return (*draft.diagnostics, *_ruled(draft, path))


def _ruled(draft: Any, path: str) -> Iterable[Diagnostic]:
    """What the policy of the spec says of its plan. A policy that cannot be read is a finding of its own file, named here."""
    from dpspec.compiler.plan import of_draft
    from dpspec.policy.read import find, read
    from dpspec.policy.rules import Planned, findings, today

    rules = find(Path(path))
    made = of_draft(draft)
    if rules is None or made is None:
        return ()
    try:
        policy = read(rules)
    except SpecError as error:
        said = [f"{d.span.line}:{d.span.column}: {d.message}" if d.span is not None else d.message for d in error.diagnostics]
        return [Diagnostic("DP750", "error", f"{rules}: {words}", "mend the policy", Span(1, 1, 1, 1)) for words in said]
    return findings(policy, Planned(Path(path), made.to_json(), draft.parsed.spans), today())


def formatted(text: str, path: str) -> str | None:
    """The canonical layout; None where the text does not parse."""
    from dpspec.lang.format import format_text

    try:
        return format_text(text, path)
    except SpecError:
        return None


def token(text: str, line: int, column: int) -> tuple[str, Span] | None:
    """The word at a place."""
    rows = text.splitlines()
    if not 1 <= line <= len(rows):
        return None
    for found in _TOKEN.finditer(rows[line - 1]):
        if found.start() < column <= found.end() + 1:
            return found.group(), Span(line, found.start() + 1, line, found.end() + 1)
    return None


# --------------------------------------------------------------------------------------------------------------------------- completion


def complete(text: str, path: str, line: int, column: int) -> tuple[Offer, ...]:
    """What may be written at a place: words of the grammar, then the names that fit there."""
    if not path.lower().endswith(".dps"):
        return tuple(_in_yaml(text, line, column))
    from dpspec.lang.complete import following

    place = following(text, line, column)
    found = [Offer(word, "keyword", _meaning(word) or "") for word in place.keywords]
    if place.names:
        found += _names(place.section, place.before, text, path)
    return tuple(dict.fromkeys(found))


def _in_yaml(text: str, line: int, column: int) -> Iterator[Offer]:
    """Algorithms after ``by:``; the rest of a YAML file is for the JSON Schema (``dpspec schema``)."""
    rows = text.splitlines()
    row = rows[line - 1][: column - 1] if 1 <= line <= len(rows) else ""
    if re.search(r"\bby:\s*[\w-]*$", row):
        yield from _algorithms()


def _names(section: str, before: str, text: str, path: str) -> Iterator[Offer]:
    from dpspec.spec import words

    ended = before.rstrip()
    if section == "release" and re.search(r"(?:^|\s)by$", ended):
        yield Offer("auto", "algorithm", "the best by predicted error")
        yield from _algorithms()
        return
    if section == "release" and re.search(r"(?:^|\s)expect$", ended):
        yield from (Offer(name, "measure") for name in _measures())
        return
    if section == "assume" and (not ended or ended.endswith(",")):
        yield from (Offer(word, "word", a.means) for word, a in words.ASSUMPTIONS.items())
        return
    if section == "simulate" and ended.endswith("~"):
        yield from (Offer(word, "word", "a law") for word in sorted(words.LAWS))
    if section == "release" and re.search(r"(?:minimise|pairwise|\+)$", ended):
        yield from (Offer(word, "word", "a loss") for word in sorted(words.LOSSES))
        yield from (Offer(word, "word", "a regulariser") for word in sorted(words.REGULARISERS))
    yield from (Offer(name, "constant", value) for name, value in constants(text, path).items())


def _algorithms() -> Iterator[Offer]:
    from dpspec.algorithms.registry import ids

    yield from (Offer(id, "algorithm") for id in ids())


def _measures() -> tuple[str, ...]:
    from dpspec.tasks import registry

    return tuple(sorted({m.name for task in registry.tasks() for m in task.measures}))


def constants(text: str, path: str) -> dict[str, str]:
    """Names of public numbers with how they are written; from the text alone where it does not parse."""
    from dpspec.lang.printer import expr_text

    parsed, _ = parse(text, path)
    if parsed is not None:
        data = parsed.analysis.data
        sizes = {"n": data.n, "d": data.d}
        return {name: expr_text(e) for name, e in (*sizes.items(), *data.constants) if e is not None}
    found = re.findall(r"(?:^|[,\s])([A-Za-z]\w*)\s*=\s*([^,\n#]+)", "\n".join(_section(text, "data")))
    return {name: value.strip() for name, value in found}


def _section(text: str, name: str) -> Iterator[str]:
    inside = False
    for row in text.splitlines():
        if row[:1].strip():
            inside = row.split()[0] == name
        if inside:
            yield row


# -------------------------------------------------------------------------------------------------------------------- hover, definition


def hover(text: str, path: str, line: int, column: int) -> tuple[str, Span] | None:
    """What stands at a place, in Markdown: an algorithm's card, the certificate of a loss, a constant's value, a word's meaning."""
    found = token(text, line, column)
    if found is not None:
        word, span = found
        said = _card(word) or _constant(word, text, path) or _meaning(word)
        if said is not None:
            return said, span
    return _certificate(text, path, line, column)


def _card(id: str) -> str | None:
    from dpspec.algorithms.registry import UnknownAlgorithm, get

    try:
        card = get(id).CARD
    except UnknownAlgorithm:
        return None
    needs = "".join(f"\n- needs {need.statement} ({need.role})" for need in card.needs)
    faults = f"\n\n{len(card.faults)} faults of the printed versions: `dpspec algorithms {id}`" if card.faults else ""
    serves = f"serves {card.task}; {', '.join(card.models)}; {', '.join(card.guarantees)}"
    return f"**{card.id}**: {card.title}\n\n{card.summary}\n\n{serves}\n{needs}{faults}"


def _constant(name: str, text: str, path: str) -> str | None:
    value = constants(text, path).get(name)
    return None if value is None else f"`{name} = {value}`, a public number"


def _meaning(word: str) -> str | None:
    from dpspec.spec import words

    if word in words.RELATIONS:
        return f"**{word}**: {words.RELATIONS[word].means}"
    if word in words.TRUST:
        return f"**{word}**: {words.TRUST[word]}"
    assumption = words.ASSUMPTIONS.get(words.assumed(word))
    return None if assumption is None else f"**{word}**: {assumption.means}"


def _certificate(text: str, path: str, line: int, column: int) -> tuple[str, Span] | None:
    """The certificate of the loss that a place stands in."""
    parsed, _ = parse(text, path)
    if parsed is None:
        return None
    for i in range(len(parsed.analysis.releases)):
        span = parsed.spans.exact("releases", i, "task")
        if span is not None and (span.line, span.column) <= (line, column) <= (span.end_line, span.end_column):
            from dpspec.compiler.passes import compile_draft

            draft = compile_draft(parsed, least="missed")
            stage: Any = draft.releases[i] if i < len(draft.releases) else None
            certificate = getattr(stage, "certificate", None)
            return None if certificate is None else (_proved(certificate), span)
    return None


def _proved(certificate: Any) -> str:
    rows = (("Lipschitz in l2", certificate.lipschitz), ("smooth", certificate.smooth), ("strongly convex", certificate.strongly_convex))
    numbers = "".join(f"\n- {name}: {value:.6g}" for name, value in rows if value not in (0, float("inf")))
    shape = {True: "convex", False: "not convex", None: "convexity is not decided"}[certificate.convex]
    evidence = "".join(f"\n\n{words}" for words in certificate.evidence[:3])
    return f"**{certificate.name}**: {shape}, by {certificate.method}{numbers}{evidence}"


def definition(text: str, path: str, line: int, column: int) -> Span | None:
    """Where the constant at a place is defined."""
    found = token(text, line, column)
    parsed, _ = parse(text, path)
    if found is None or parsed is None:
        return None
    name = found[0]
    return parsed.spans.exact("data", "constants", name, "name") or (parsed.spans.exact("data", name) if name in ("n", "d") else None)


# ----------------------------------------------------------------------------------------------------------------------------- remedies


def fixes(text: str, found: Iterable[Diagnostic]) -> Iterator[Fix]:
    """Quick fixes that follow from the remedies of diagnostics."""
    rows = text.splitlines()
    for d in found:
        if d.span is None:
            continue
        meant = _MEANT.search(d.help)
        if meant:
            span = _wrong_word(rows, d)
            if span is not None:
                yield Fix(f"Write {meant[1]}", span, meant[1])
        elif d.help == "Remove it.":
            yield Fix("Remove it", d.span, "")


def _wrong_word(rows: list[str], d: Diagnostic) -> Span | None:
    """The word that a diagnostic quotes, inside its span; None where it does not stand there once."""
    assert d.span is not None
    quoted = re.search(r"`([^`]+)`|'([^']+)'", d.message)
    if d.span.line != d.span.end_line or d.span.line > len(rows):
        return None
    inside = rows[d.span.line - 1][d.span.column - 1 : d.span.end_column - 1]
    word = inside if quoted is None else next(g for g in quoted.groups() if g)
    at = [m.start() for m in re.finditer(re.escape(word), inside)]
    if len(at) != 1:
        return None
    start = d.span.column + at[0]
    return Span(d.span.line, start, d.span.line, start + len(word))
