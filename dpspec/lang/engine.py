"""The run time of the parser: a contextual lexer and the LALR driver over the generated tables.

Nothing here recurses, so nesting costs heap and not stack; sizes are bounded before a table is touched.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from dpspec.lang import tables
from dpspec.lang.actions import ACTIONS, MAX_DEPTH, Context, Malformed
from dpspec.lang.text import Locate
from dpspec.lang.vocabulary import HYPHENATED, SYMBOLS, ascii_name, nearest
from dpspec.spec.diagnostics import Diagnostic, Span

MAX_PIECE = 20_000  # characters of one line or scalar
MAX_TOKENS = 4_000  # of one line or scalar, parentheses not counted
MAX_BRACKETS = 64  # nested

# a later part may begin with digits (local-bernstein-1bit); where no such word can stand, n-1e5 is a difference as ever
_SEGMENTS = tables.PATTERNS["NAME"] + "(?:-[0-9]*[A-Za-z][A-Za-z0-9_]*)*"
_SYMBOL_TEXTS = sorted(
    {text for text in (*tables.LITERALS, *SYMBOLS) if not re.match(r"[A-Za-z]", text)},
    key=lambda t: (-len(t), t),
)
_TOKEN = re.compile(
    "|".join(
        (
            r"(?P<space>[ \t\r\n\u00a0]+)",
            rf"(?P<name>{_SEGMENTS})",
            rf"(?P<number>{tables.PATTERNS['NUMBER']})",
            rf"(?P<string>{tables.PATTERNS['STRING']})",
            rf"(?P<sup>{tables.PATTERNS['SUPERSCRIPT']})",
            r"(?P<bar>\|\||[|‖])",
            "(?P<symbol>" + "|".join(re.escape(t) for t in _SYMBOL_TEXTS) + ")",
        )
    )
)
_ORDER = re.compile(r"_(?:1|2|inf|∞)|[₁₂]")
_ORDERS = {"": "2", "_1": "1", "₁": "1", "_2": "2", "₂": "2", "_inf": "inf", "_∞": "inf"}
_OPTWORD = re.compile(r"[a-z][a-z0-9]+(?:-[a-z][a-z0-9]*)+")
_OPERATOR_NEXT = re.compile(r"[ \t\n]*(?:[-+*/^(]|\*\*)")
_EQUALS_NEXT = re.compile(r"[ \t\n]*=")  # `over = 3` among options names an option
_NOT_A_NUMBER = re.compile(r"\.(?:nan|inf)\b", re.IGNORECASE)
_OPERAND_ENDS = frozenset(
    {"NUMBER", "NAME", "HNAME", "WORD", "OPTWORD", "SUPERSCRIPT", "BAR_CLOSE"} | {tables.LITERALS[t] for t in (")", ">", "]", "}")}
)
_KEYWORDS = {name: text for text, name in tables.LITERALS.items()}
_WORDS = {text: name for text, name in tables.LITERALS.items() if re.match(r"[A-Za-z]", text)}
_DEEPER = frozenset({"add", "sub", "mul", "div", "neg", "pow", "superscript", "number", "name", "call", "inner", "norm"})
_HUMAN = {
    "NUMBER": "a number",
    "NAME": "a name",
    "HNAME": "",
    "WORD": "",
    "OPTWORD": "",
    "STRING": 'a text in "quotes"',
    "SUPERSCRIPT": "",
    "BAR_OPEN": "",
    "BAR_CLOSE": "`|`",
    "$END": "the end of the line",
}


class Unparsable(Exception):
    """One piece of text does not parse; ``diagnostic`` says where and why."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


@dataclass(frozen=True, slots=True)
class _Token:
    type: str
    value: str
    start: int
    end: int


class _Lexer:
    """Reads the next token that the state of the parser accepts; a word is a keyword only where one is accepted."""

    def __init__(self, text: str, context: Context) -> None:
        self.text = text
        self.at = 0
        self.bars: list[str] = []
        self.brackets = 0
        self.last = ""
        self.context = context

    def next(self, row: Mapping[str, int]) -> _Token:
        text = self.text
        while True:
            if self.at >= len(text):
                return _Token("$END", "", len(text), len(text))
            m = _TOKEN.match(text, self.at)
            if m is None:
                self._unreadable()
            if m.lastgroup != "space":
                break
            self.at = m.end()
        start, end = m.span()
        kind = m.lastgroup
        if kind == "name":
            type_, value = self._name(m.group(), end, row)
            end = start + len(value)
        elif kind == "bar":
            type_, value, end = self._bar(m.group(), start)
        elif kind == "symbol":
            value = SYMBOLS.get(m.group(), m.group())
            type_ = tables.LITERALS[value]
            if value in "([{<":
                self.brackets += 1
                if self.brackets > MAX_BRACKETS:
                    self._fail("DP112", f"brackets nested more than {MAX_BRACKETS} deep", "Write it flatter.", start, end)
            elif value in ")]}>":
                self.brackets -= 1
        else:
            type_ = {"number": "NUMBER", "string": "STRING", "sup": "SUPERSCRIPT"}[str(kind)]
            value = m.group()
        self.at = end
        self.last = type_
        return _Token(type_, value, start, end)

    def _name(self, text: str, end: int, row: Mapping[str, int]) -> tuple[str, str]:
        parts = text.split("-")
        for k in range(len(parts), 0, -1):
            candidate = "-".join(parts[:k])
            plain = ascii_name(candidate) if k == 1 else candidate
            keyword = _WORDS.get(plain)
            if keyword is not None and keyword in row and not ("NAME" in row and _EQUALS_NEXT.match(self.text, end)):
                return keyword, candidate
            if k == 1:
                break
            if candidate in HYPHENATED and "HNAME" in row:
                return "HNAME", candidate
            if "WORD" in row:
                return "WORD", candidate
            if "OPTWORD" in row and k == len(parts) and _OPTWORD.fullmatch(candidate) and not _OPERATOR_NEXT.match(self.text, end):
                return "OPTWORD", candidate
        if "NAME" in row:
            return "NAME", parts[0]
        return "NAME", text  # not acceptable: reported whole

    def _bar(self, text: str, start: int) -> tuple[str, str, int]:
        if self.last in _OPERAND_ENDS and self.bars:
            mark = "||" if self.bars[-1] == "||" else "|"
            if text in ("||", "‖") or mark == "|":
                length = 2 if text == "||" and mark == "||" else 1
                self.bars.pop()
                order = _ORDER.match(self.text, start + length)
                suffix = order.group() if order else ""
                return "BAR_CLOSE", _ORDERS[suffix], start + length + len(suffix)
        self.bars.append("|" if text == "|" else "||")
        if len(self.bars) > MAX_BRACKETS:
            self._fail("DP112", f"norms nested more than {MAX_BRACKETS} deep", "Write it flatter.", start, start + 1)
        return "BAR_OPEN", text, start + len(text)

    def _unreadable(self) -> NoReturn:
        c = self.text[self.at]
        if m := _NOT_A_NUMBER.match(self.text, self.at):
            self._fail("DP114", f"`{m.group()}` is not a number here", "Give a finite number.", *m.span())
        if c == '"':
            self._fail("DP111", "this text has no closing quote", 'End it with `"` on the same line.', self.at, len(self.text))
        if c == "'":
            self._fail("DP111", "text stands in double quotes", "Write \"...\" instead of '...'.", self.at, self.at + 1)
        shown = c if c.isprintable() else f"U+{ord(c):04X}"
        share = re.search(r"[\d._]+\s*$", self.text[: self.at]) if c == "%" else None
        help = "Remove it." if share is None else f"Write {share.group().strip()}/100."
        self._fail("DP111", f"the character `{shown}` means nothing here", help, self.at, self.at + 1)

    def _fail(self, code: str, message: str, help: str, start: int, end: int) -> NoReturn:
        raise Unparsable(Diagnostic(code, "error", message, help, self.context.locate(start, end)))


def parse_piece(start: str, text: str, locate: Locate, follow: list[str] | None = None) -> tuple[Any, Context]:
    """Parse one piece by one start rule. Returns the value, and the context with its marks and the diagnostics that did not stop it.
    ``follow`` takes the terminals that could come where the text ends.

    Raises :class:`Unparsable` where the text leaves the grammar.
    """
    context = Context(locate)
    if len(text) > MAX_PIECE:
        raise Unparsable(
            Diagnostic(
                "DP112", "error", f"one item of more than {MAX_PIECE} characters", "Split it, or move data into a file.", locate(0, 1)
            )
        )
    states, rules, ends = tables.STATES, tables.RULES, tables.ENDS
    end_state = ends[start]
    stack = [tables.STARTS[start]]
    values: list[Any] = []
    spans: list[tuple[int, int]] = []
    depths: list[int] = []
    lexer = _Lexer(text, context)
    token = lexer.next(states[stack[-1]])
    before: tuple[_Token, Mapping[str, int]] | None = None
    here = states[stack[-1]]
    count = 0
    while True:
        row = states[stack[-1]]
        if follow is not None and token.type == "$END" and not follow:
            follow.extend(sorted(t for t in row if (t.isupper() or t.startswith("__ANON")) and _would_shift(stack, t)))
        step = row.get(token.type)
        if step is None:
            here = {t: s for t, s in row.items() if _would_shift(stack, t)}
            raise Unparsable(_unexpected(token, here, text, context, before))
        if step >= 0:
            stack.append(step)
            values.append(token.value)
            spans.append((token.start, token.end))
            depths.append(0)
            count += token.value not in ("(", ")")  # printing may add parentheses, and must stay readable
            if count > MAX_TOKENS:
                place = context.locate(token.start, token.end)
                raise Unparsable(Diagnostic("DP112", "error", f"more than {MAX_TOKENS} tokens in one item", "Split it.", place))
            before, here = (token, here), states[stack[-1]]
            token = lexer.next(here)
            continue
        name, length, action, keep = rules[-1 - step]
        if length:
            children = values[-length:]
            covered = spans[-length:]
            where = (covered[0][0], covered[-1][1])
            level = max(depths[-length:]) + (action in _DEEPER)
            del values[-length:], spans[-length:], stack[-length:], depths[-length:]
            if level > MAX_DEPTH:
                help = "Write it flatter, or name a part of it as a constant of `data`."
                raise Unparsable(
                    Diagnostic("DP112", "error", f"an expression more than {MAX_DEPTH} levels deep", help, context.locate(*where))
                )
        else:
            children, covered, where, level = [], [], (token.start, token.start), 0
        if action:
            try:
                value = ACTIONS[action](context, [children[i] for i in keep], [covered[i] for i in keep], where)
            except Malformed as error:
                raise Unparsable(error.diagnostic) from None
        else:
            value = children[0]
        stack.append(states[stack[-1]][name])
        values.append(value)
        spans.append(where)
        depths.append(level)
        if stack[-1] == end_state and token.type == "$END":
            return value, context


def accepted(start: str, text: str) -> tuple[str, ...]:
    """The terminals that may follow ``text`` in a piece of one start rule; none where the text itself leaves the grammar."""
    found: list[str] = []
    with contextlib.suppress(Unparsable):
        parse_piece(start, text, lambda a, b: Span(1, a + 1, 1, b + 1), found)
    return tuple(found)


def keyword(terminal: str) -> str | None:
    """How a terminal is written where it is one text: a word or a sign."""
    return _KEYWORDS.get(terminal)


def _would_shift(stack: list[int], terminal: str) -> bool:
    """Whether the parser would take this terminal next. A row of an LALR table also lists what other contexts allow."""
    states = list(stack)
    while True:
        step = tables.STATES[states[-1]].get(terminal)
        if step is None:
            return False
        if step >= 0:
            return True
        name, length, _, _ = tables.RULES[-1 - step]
        if length:
            del states[-length:]
        states.append(tables.STATES[states[-1]][name])
        if terminal == "$END" and states[-1] in tables.ENDS.values():
            return True


def _keywords(row: Mapping[str, int]) -> list[str]:
    return sorted(_KEYWORDS[t] for t in row if t in _KEYWORDS and t in _WORDS.values())


#: Ways to write a number that are none of the language, at or just before the place where it is left, and what to write.
_SLIPS: Final[tuple[tuple[re.Pattern[str], str, Callable[[str], str]], ...]] = (
    (re.compile(r"(?<![\w.])\d{1,3}(?:,\d{3})+(?!\d|,\d)"), "`{}` is several numbers", lambda t: t.replace(",", "_")),
    (re.compile(r"(?<![\w.,])\d+,\d+(?!\d|,\d)"), "`{}` is two numbers: a decimal point is a point", lambda t: t.replace(",", ".")),
    (re.compile(r'"\s*[-+]?[\d._]+(?:e[-+]?\d+)?\s*"', re.IGNORECASE), "{} is a text, and a number is wanted", lambda t: t.strip('" ')),
)


def _slip(text: str, at: int) -> tuple[str, str] | None:
    """The message and the help where a number of another notation stands there."""
    for pattern, message, mend in _SLIPS:
        for found in pattern.finditer(text):
            if found.start() <= at <= found.end():
                return message.format(found.group()), f"Write {mend(found.group())}."
    return None


def _unexpected(
    token: _Token, row: Mapping[str, int], text: str, context: Context, before: tuple[_Token, Mapping[str, int]] | None
) -> Diagnostic:
    if before is not None and before[0].type in ("NAME", "WORD"):  # a misspelt keyword was taken for a name
        word, choices = before
        near = nearest(ascii_name(word.value), _keywords(choices))
        if near is not None:
            place = context.locate(word.start, word.end)
            return Diagnostic("DP107", "error", f"unknown word `{word.value}` here", f"Did you mean `{near}`?", place)
    where = context.locate(token.start, max(token.end, token.start + 1))
    slip = _slip(text, token.start)
    if slip is not None:
        return Diagnostic("DP114", "error", *slip, where)
    accepted = sorted(t for t in row if t.isupper() or t.startswith(("$", "__ANON")))
    words = _keywords(row)
    if token.type == "$END":
        where = context.locate(max(0, len(text.rstrip()) - 1), len(text.rstrip()))
        return Diagnostic("DP106", "error", "this ends too early", _expected(accepted), where)
    if token.type in ("NAME", "HNAME", "WORD", "OPTWORD") or token.type in _WORDS.values():
        near = nearest(ascii_name(token.value), words)
        if near is not None:
            return Diagnostic("DP107", "error", f"unknown word `{token.value}` here", f"Did you mean `{near}`?", where)
        if words and not {"NAME", "NUMBER"} & set(accepted):
            return Diagnostic("DP107", "error", f"unknown word `{token.value}` here", _expected(accepted), where)
    return Diagnostic("DP106", "error", f"unexpected `{text[token.start : token.end]}`", _expected(accepted), where)


def _expected(accepted: list[str]) -> str:
    shown: list[str] = []
    if {"NUMBER", "NAME"} <= set(accepted):
        shown.append("an expression")
        accepted = [t for t in accepted if t not in ("NUMBER", "NAME", "STRING", "LPAR", "LESSTHAN", "BAR_OPEN", "MINUS")]
    arithmetic = {tables.LITERALS[t] for t in "+-*/^"}
    if len(arithmetic & set(accepted)) >= 2:
        shown.append("an operator")
        accepted = [t for t in accepted if t not in arithmetic]
    for t in accepted:
        human = _HUMAN.get(t, f"`{_KEYWORDS[t]}`" if t in _KEYWORDS else "")
        if human and human not in shown:
            shown.append(human)
    if not shown:
        return "Remove it."
    if len(shown) > 12:
        shown = [*shown[:12], "..."]
    return "Expected " + (shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + " or " + shown[-1]) + "."
