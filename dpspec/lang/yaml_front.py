"""The YAML front end: the same words as keys, the same expressions in the scalars."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from dpspec.lang.actions import Item, SetBy, unprintable, whole_points
from dpspec.lang.draft import Draft, Path
from dpspec.lang.engine import Unparsable, parse_piece
from dpspec.lang.text import Lines
from dpspec.lang.vocabulary import ascii_name, nearest
from dpspec.lang.yaml_nodes import Mapping, Node, Reader, Scalar, Sequence
from dpspec.spec.diagnostics import Span
from dpspec.spec.model import CsvSource, Domain, Encode, MemorySource, PublicRecords, SklearnSource, SqlSource, Vary
from dpspec.spec.words import MODELS, NEIGHBOURS

TOP = ("dpspec", "analysis", "data", "privacy", "assume", "releases", "simulate", "study")
DATA = ("n", "d", "constants", "from", "encode", "intercept", "sensitivity", "unit", "neighbours", "domain")
FROM = ("path", "sklearn", "memory", "url", "query", "target", "columns")
PRIVACY = ("model", "labels-only", "attribute", "online", "public", "epsilon", "delta", "rho", "mu")
PUBLIC = ("variable", "m", "path")
TASKS = ("minimise", "estimate", "regress", "fit", "answer", "infer")
RELEASE = (*TASKS, "over", "by", "expect", "share", "part")
STUDY = ("vary", "trials", "seed", "compare")


class Front:
    """Walks the nodes of one document into a draft. ``places`` lists (line, path) of each entry, for comments."""

    def __init__(self, text: str, draft: Draft) -> None:
        self.text = text
        self.draft = draft
        self.lines = Lines(text)
        self.reader = Reader(text, self.lines)
        self.places: list[tuple[int, Path]] = []
        self.scalars: list[tuple[int, int]] = []
        self.section = ""

    # -------------------------------------------------------------------------------------------------- helpers

    def span(self, node: Node) -> Span:
        return self.reader.span(node)

    def at(self, node: Node, path: Path) -> None:
        self.places.append((self.lines.position(node.start)[0], path))

    def wrong(self, node: Node, what: str, help: str) -> None:
        got = {Scalar: "a single value", Mapping: "a mapping", Sequence: "a list"}[type(node)]
        if isinstance(node, Scalar) and not node.value.strip():
            got = "nothing"
        self.draft.error("DP110", f"{what}, not {got}", help, self.span(node))
        self.draft.broken.add(self.section)

    def entries(self, node: Node, what: str, known: Iterable[str] | None, help: str = "") -> list[tuple[Scalar, Node]]:
        """The entries of a mapping, without unknown and repeated keys (which are reported)."""
        if not isinstance(node, Mapping):
            self.wrong(node, f"{what} is a mapping", help or "Write indented `key: value` lines.")
            return []
        seen: dict[str, Scalar] = {}
        kept: list[tuple[Scalar, Node]] = []
        for key, value in node.entries:
            if key.value in seen:
                line = self.lines.position(seen[key.value].start)[0]
                self.draft.error(
                    "DP109", f"key `{key.value}` is given twice (first on line {line})", "Keep one of the two.", self.span(key)
                )
                continue
            seen[key.value] = key
            if (bad := unprintable(key.value)) is not None or not key.value:
                shown = f"holds the control character U+{ord(bad):04X}" if bad else "is empty"
                self.draft.error("DP111", f"this key {shown}", "Remove it.", self.span(key))
                self.draft.broken.add(self.section)
                continue
            if known is not None and key.value not in known:
                near = self.suggest(key.value, tuple(known))
                help_ = f"Did you mean `{near}`?" if near else f"{what} has the keys " + ", ".join(known) + "."
                self.draft.error("DP107", f"unknown key `{key.value[:60]}` in {what}", help_, self.span(key))
                self.draft.broken.add(near if what == "the file" and near else self.section)
                continue
            kept.append((key, value))
        return kept

    @staticmethod
    def suggest(key: str, known: tuple[str, ...]) -> str | None:
        ours = {"private": "sensitivity", "labels": "labels-only", "domains": "domain", "release": "releases", "in": "domain"}
        ours |= {"target": "from", "columns": "from", "minimize": "minimise", "source": "from", "status": "sensitivity", "name": "analysis"}
        if ours.get(key) in known:
            return ours[key]
        return nearest(key, known)

    def piece(self, rule: str, node: Node, what: str, example: str) -> Any:
        """The value of a scalar by a start rule of the grammar, or None (reported)."""
        if not isinstance(node, Scalar) or not node.value.strip():
            self.wrong(node, what, f"Write, for example, `{example}`.")
            return None
        try:
            value, context = parse_piece(rule, node.value, self.reader.locate(node))
        except Unparsable as error:
            self.draft.diagnostics.append(error.diagnostic)
            self.draft.broken.add(self.section)
            return None
        if context.diagnostics:
            self.draft.diagnostics.extend(context.diagnostics)
            self.draft.broken.add(self.section)
        self.draft.marks.update(context.marks)
        return value

    def expr(self, node: Node, what: str) -> Any:
        return self.piece("start_expr", node, f"{what} is an expression", "1/n^1.1")

    def word(self, node: Node, what: str, allowed: tuple[str, ...]) -> str | None:
        if not isinstance(node, Scalar):
            self.wrong(node, f"{what} is a word", "One of " + ", ".join(allowed) + ".")
            return None
        if node.value in allowed:
            return node.value
        near = nearest(node.value, allowed)
        help = f"Did you mean `{near}`?" if near else "One of " + ", ".join(allowed) + "."
        self.draft.error("DP107", f"unknown word `{node.value[:60]}` for {what}", help, self.span(node))
        self.draft.broken.add(self.section)
        return None

    def string(self, node: Node, what: str) -> str | None:
        if not isinstance(node, Scalar) or not node.value.strip():
            self.wrong(node, f"{what} is a text", "Write a text.")
            return None
        if (bad := unprintable(node.value)) is not None:
            self.draft.error("DP111", f"{what} holds the control character U+{ord(bad):04X}", "Remove it.", self.span(node))
            self.draft.broken.add(self.section)
            return None
        return node.value

    def flag(self, node: Node, what: str) -> bool | None:
        word = self.word(node, what, ("true", "false"))
        return None if word is None else word == "true"

    def list_of(self, node: Node, what: str) -> list[Node]:
        if isinstance(node, Sequence):
            return node.items
        self.wrong(node, f"{what} is a list", "Write [a, b] or lines that begin with `- `.")
        return []

    # ----------------------------------------------------------------------------------------------------- walk

    def read(self) -> None:
        root = self.reader.read()
        draft = self.draft
        if root is None or (isinstance(root, Scalar) and not root.value.strip()):
            draft.error("DP103", "the file is empty", "Begin with `dpspec: 1` and `analysis: name`.", Span(1, 1, 1, 1))
            draft.broken.update(("analysis", "data", "privacy", "release"))
            return
        self.section = "file"
        if not isinstance(root, Mapping):
            draft.broken.update(("analysis", "data", "privacy", "release"))
        entries = self.entries(root, "the file", TOP, "Begin with `dpspec: 1` and `analysis: name`.")
        keys = {key.value for key, _ in entries}
        if isinstance(root, Mapping) and "dpspec" not in keys:
            draft.error("DP124", "the version of the language is missing", "Add `dpspec: 1` as the first line.", Span(1, 1, 1, 1))
        walkers: dict[str, Callable[[Node], None]] = {
            "data": self._data,
            "privacy": self._privacy,
            "assume": self._assume,
            "releases": self._releases,
            "simulate": self._simulate,
            "study": self._study,
        }
        for key, node in entries:
            self.section = "release" if key.value == "releases" else key.value
            if key.value == "dpspec":
                self.at(key, ("dpspec",))
                if not isinstance(node, Scalar) or node.value != "1":
                    shown = node.value[:40] if isinstance(node, Scalar) else "this"
                    draft.error("DP124", f"`{shown}` is no version of the language", "Write `dpspec: 1`.", self.span(node))
            elif key.value == "analysis":
                self.at(key, ("name",))
                draft.open_section("analysis", self.span(key))
                name = self.string(node, "the name of the analysis")
                if name is not None:
                    draft.set_name(name, self.span(node))
            else:
                if key.value != "releases":
                    draft.open_section(key.value, self.span(key))
                self.at(key, (key.value,))
                walkers[key.value](node)

    def _unit(self, node: Node) -> list[Item]:
        """A word, or a mapping that says by which column units are told apart, and how much of one counts."""
        if not isinstance(node, Mapping):
            unit = self.string(node, "`unit`")
            return [Item("unit", unit, self.span(node))] if unit else []
        items: list[Item] = []
        for key, value in self.entries(node, "`unit`", ("name", "identified-by", "rows", "groups")):
            name = key.value
            if name in ("rows", "groups"):
                self.at(key, ("data", name))
                e = self.expr(value, f"`{name}`")
                items += [] if e is None else [Item(name, e, self.span(value))]
            else:
                text = self.string(value, f"`{name}`")
                field = "unit" if name == "name" else "identified"
                self.at(key, ("data", field))
                items += [Item(field, text, self.span(value))] if text else []
        return items

    def _data(self, node: Node) -> None:
        for key, value in self.entries(node, "`data`", DATA):
            name, where, items = key.value, self.span(key), []
            self.at(key, ("data", {"from": "source", "sensitivity": "status", "domain": "domains"}.get(name, name)))
            if name in ("n", "d"):
                e = self.expr(value, f"`{name}`")
                if e is not None:
                    items = [Item("number", e, self.span(value), name)]
            elif name == "constants":
                for k, v in self.entries(value, "`constants`", None):
                    constant = ascii_name(k.value)
                    self.at(k, ("data", "constants", constant))
                    if constant in ("n", "d"):
                        self.draft.error("DP109", f"`{constant}` has its own key", f"Move it to data.{constant}.", self.span(k))
                        continue
                    e = self.expr(v, f"constant `{constant}`")
                    if e is not None:
                        items.append(Item("number", e, self.span(v), constant, self.span(k)))
            elif name == "from":
                source = self._source(value)
                if source is not None:
                    items = [Item("source", source, self.span(value))]
            elif name == "encode":
                for k, v in self.entries(value, "`encode`", None):
                    self.at(k, ("data", "encode", len(self.draft.encode) + len(items)))
                    how = self.piece("start_encoding", v, "an encoding is one value", "one-hot(9)")
                    if how is not None:
                        encode = Encode(column=k.value, how=how[0], args=how[1], levels=how[2])
                        self.draft.marks.note(encode, self.span(v), column=self.span(k), how=self.span(v))
                        items.append(Item("encode", encode, self.span(k), k.value))
            elif name == "domain":
                for k, v in self.entries(value, "`domain`", None):
                    self.at(k, ("data", "domains", len(self.draft.domains) + len(items)))
                    set_by: SetBy | None = self.piece("start_domain", v, "a domain is one value", "ball(l2, 1) by scale")
                    if set_by is not None:
                        domain = Domain(variable=ascii_name(k.value), set=set_by.set, by=set_by.by)
                        self.draft.marks.note(domain, self.span(v), variable=self.span(k))
                        items.append(Item("domain", domain, self.span(k), domain.variable))
            elif name == "intercept":
                flag = self.flag(value, "`intercept`")
                items = [Item("intercept", True, where)] if flag else []
            elif name == "sensitivity":
                word = self.word(value, "`sensitivity`", ("private", "public"))
                items = [Item("status", word, self.span(value))] if word else []
            elif name == "unit":
                items = self._unit(value)
            else:
                word = self.word(value, "`neighbours`", NEIGHBOURS)
                items = [Item("neighbours", word, self.span(value))] if word else []
            self.draft.add_data(items)

    def _source(self, node: Node) -> Any:
        if isinstance(node, Scalar):
            return self.piece("start_source", node, "`from` names a source", "{path: data.csv, target: y}")
        found: dict[str, Any] = {}
        places: dict[str, Span] = {}
        for key, value in self.entries(node, "`from`", FROM):
            places[key.value] = self.span(value)
            if key.value == "columns":
                names = [self.string(v, "a column") for v in self.list_of(value, "`columns`")]
                found["columns"] = tuple(name for name in names if name is not None)
            elif key.value == "memory":
                found["memory"] = self.flag(value, "`memory`")
            else:
                found[key.value] = self.string(value, f"`{key.value}`")
        kinds = [k for k in ("path", "sklearn", "memory", "url") if found.get(k)]
        if len(kinds) != 1:
            if isinstance(node, Mapping) and not {"path", "sklearn", "memory", "url"} & {k for k in found if found[k] is None}:
                help = "Give `path: FILE`, `sklearn: NAME`, `memory: true`, or `url:` and `query:` of a database."
                self.draft.error("DP108" if not kinds else "DP109", "`from` needs one source", help, self.span(node))
            self.draft.broken.add("data")
            return None
        rest = {k: found[k] for k in ("target", "columns") if found.get(k)}
        if ("query" in found) != (kinds == ["url"]):
            self.draft.error("DP109", "`url` and `query` go together, with no other source", "Give both of a database.", self.span(node))
            self.draft.broken.add("data")
            return None
        if kinds == ["url"]:
            if found["query"] is None:  # said already
                self.draft.broken.add("data")
                return None
            return self.draft.marks.note(SqlSource(url=found["url"], query=found["query"], **rest), self.span(node), url=places["url"])
        if kinds == ["path"]:
            return self.draft.marks.note(CsvSource(path=found["path"], **rest), self.span(node), path=places["path"])
        if kinds == ["memory"]:
            return self.draft.marks.note(MemorySource(**rest), self.span(node))
        if rest:
            help = "A bundled data set has its own target and columns."
            self.draft.error("DP106", "`sklearn` takes no target and no columns", help, self.span(node))
        return self.draft.marks.note(SklearnSource(name=found["sklearn"]), self.span(node), name=places["sklearn"])

    def _privacy(self, node: Node) -> None:
        if isinstance(node, Scalar) and node.value in MODELS:
            self.draft.add_privacy([Item("model", node.value, self.span(node))])
            return
        for key, value in self.entries(node, "`privacy`", PRIVACY):
            name, where = key.value, self.span(value)
            self.at(key, ("privacy", name.replace("-", "_")))
            got: Any
            if name == "model":
                got = self.word(value, "the privacy model", MODELS)
            elif name in ("labels-only", "attribute", "online"):
                got = self.flag(value, f"`{name}`") or None
            elif name == "public":
                got = self._public(value)
            else:
                got = self.expr(value, f"`{name}`")
            if got is not None:
                self.draft.add_privacy([Item(name.replace("-", "_"), got, where)])

    def _public(self, node: Node) -> Any:
        if isinstance(node, Scalar):
            text = node.value.strip()
            if text.isidentifier() and text != "public":
                return self.draft.marks.note(PublicRecords(variable=ascii_name(text)), self.span(node))
            return self.piece("start_public", node, "`public` names a variable", "{variable: x, m: 10000}")
        found: dict[str, Any] = {}
        for key, value in self.entries(node, "`public`", PUBLIC):
            if key.value == "m":
                got: Any = self.expr(value, "`m`")
            else:
                got = self.string(value, f"`{key.value}`")
                if key.value == "variable" and got is not None:
                    got = ascii_name(got)
            if got is not None:
                found[key.value] = got
        return self.draft.marks.note(PublicRecords(**found), self.span(node))

    def _assume(self, node: Node) -> None:
        items: list[Item] = []
        for value in self.list_of(node, "`assume`"):
            self.at(value, ("assume", len(self.draft.assume) + len(items)))
            item = self.piece("start_assumption", value, "an assumption is one value", "sub-gaussian(1) of x")
            if item is not None:
                items.append(item)
        self.draft.add_assume(items)

    def _releases(self, node: Node) -> None:
        entries = self.entries(node, "`releases`", None, "Write `NAME:` with the task indented below it.")
        if not entries and isinstance(node, Mapping):
            return
        for key, body in entries:
            index = len(self.draft.releases)
            self.at(key, ("releases", index))
            release = self.draft.open_release(key.value, self.span(key))
            items: list[Item] = []
            tasks: list[str] = []
            for k, value in self.entries(body, f"release `{key.value[:60]}`", RELEASE):
                name = k.value
                self.at(k, ("releases", index, "task" if name in TASKS else name))
                if name in TASKS:
                    tasks.append(name)
                    got: Any = self.piece(f"start_{name}", value, f"`{name}` says what to release", _EXAMPLES[name])
                    if got is not None:
                        items.append(got)
                    continue
                if name == "over":
                    got = self.piece("start_set", value, "`over` is a set", "ball(l2, 1)")
                elif name == "by":
                    got = self.piece("start_by", value, "`by` names an algorithm", "dp-gd with T = 100")
                elif name == "expect":
                    got = self.piece("start_expect", value, "`expect` is a target", "excess-empirical-risk <= 0.05")
                else:
                    got = self.expr(value, f"`{name}`")
                if got is not None:
                    items.append(Item(name, got, self.span(value)))
            release.broken = bool(tasks) or not isinstance(body, Mapping)
            self.draft.add_release(release, items)

    def _simulate(self, node: Node) -> None:
        items: list[Item] = []
        for value in self.list_of(node, "`simulate`"):
            self.at(value, ("simulate", len(self.draft.laws) + len(items)))
            item = self.piece("start_law", value, "a law is one value", "x ~ normal(0, I)")
            if item is not None:
                items.append(item)
        self.draft.add_simulate(items)

    def _study(self, node: Node) -> None:
        for key, value in self.entries(node, "`study`", STUDY):
            self.at(key, ("study", key.value))
            items: list[Item] = []
            if key.value == "vary":
                for k, v in self.entries(value, "`vary`", None):
                    variable = ascii_name(k.value)
                    self.at(k, ("study", "vary", len(self.draft.vary) + len(items)))
                    values: list[Any] | None
                    if isinstance(v, Sequence):
                        values = [self.expr(one, f"a value of `{variable}`") for one in v.items]
                        values = None if None in values else values
                    else:
                        values = self.piece("start_varied", v, "`vary` takes a list of values", "[1e4, 1e5] or log-grid(1e3, 1e6, 7)")
                    if values is not None:
                        vary = Vary(variable=variable, values=whole_points(variable, values))
                        self.draft.marks.note(vary, self.span(v), variable=self.span(k))
                        items.append(Item("vary", vary, self.span(k), variable))
            elif key.value == "compare":
                for v in self.list_of(value, "`compare`"):
                    self.at(v, ("study", "compare", len(items)))
                    by = self.piece("start_by", v, "`compare` lists algorithms", "dp-gd")
                    if by is not None:
                        if by[2]:
                            self.draft.error("DP106", "`compare` takes names only", "Remove the options.", self.span(v))
                        items.append(Item("compare", by[0], self.span(v), by[0]))
            else:
                e = self.expr(value, f"`{key.value}`")
                items = [Item(key.value, e, self.span(value))] if e is not None else []
            self.draft.add_study(items)


_EXAMPLES = {
    "minimise": "log(1 + exp(-y*<w, x>))",
    "estimate": "mean(x)",
    "regress": "y on kernel(rbf, 1)",
    "fit": "gmm(2)",
    "answer": "marginals(3)",
    "infer": "truth from labels",
}
