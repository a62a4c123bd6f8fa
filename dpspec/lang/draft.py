"""From items to an analysis: both front ends fill a draft, and the draft becomes the model.

A draft keeps going after a mistake, so that one reading reports as many mistakes as it can.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from dpspec.lang.actions import Item, Loss, Marks
from dpspec.spec.diagnostics import Diagnostic, Span
from dpspec.spec.model import Analysis, By, Data, Estimate, EstimateTheta, Infer, Minimise, Privacy, Release, Study

Path: TypeAlias = tuple[str | int, ...]


@dataclass(slots=True)
class ReleaseDraft:
    name: str
    span: Span
    parts: dict[str, Any] = field(default_factory=dict)
    algorithm: tuple[str, Span] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    broken: bool = False


@dataclass(slots=True)
class Draft:
    """Everything read so far. ``spans`` says where each part stands, by its path in the model."""

    diagnostics: list[Diagnostic] = field(default_factory=list)
    marks: Marks = field(default_factory=Marks)
    spans: dict[Path, Span] = field(default_factory=dict)
    sections: dict[str, Span] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)  # sections with a part that could not be read
    per: list[tuple[str, Span]] = field(default_factory=list)  # the words after `a` in `at most 3 rows a person`
    name: str | None = None
    data: dict[str, Any] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    domains: list[Any] = field(default_factory=list)
    encode: list[Any] = field(default_factory=list)
    privacy: dict[str, Any] = field(default_factory=dict)
    assume: list[Any] = field(default_factory=list)
    releases: list[ReleaseDraft] = field(default_factory=list)
    laws: list[Any] = field(default_factory=list)
    vary: list[Any] = field(default_factory=list)
    study: dict[str, Any] = field(default_factory=dict)
    compare: list[str] = field(default_factory=list)

    # ------------------------------------------------------------------------------------------------- findings

    def error(self, code: str, message: str, help: str, span: Span | None) -> None:
        self.diagnostics.append(Diagnostic(code, "error", message, help, span))

    def twice(self, what: str, path: Path, span: Span) -> None:
        first = self.spans.get(path)
        place = f" (first on line {first.line})" if first else ""
        self.error("DP109", f"{what} is given twice{place}", "Keep one of the two.", span)

    def open_section(self, name: str, span: Span) -> bool:
        """Note a section; False when there was one already."""
        path: Path = ("name",) if name == "analysis" else (name,)
        if name in self.sections:
            self.twice(f"section `{name}`", path, span)
            return False
        self.sections[name] = span
        self.spans[path] = span
        return True

    def _put(self, store: dict[str, Any], key: str, value: Any, path: Path, span: Span, what: str) -> Path:
        if key in store:
            self.twice(what, path, span)
        else:
            store[key] = value
            own = getattr(value, "span", None)
            self.spans[path] = own if isinstance(own, Span) else span
        return path

    def _label(self, path: Path, item: Item) -> None:
        """A number's place is its value; its name stands beside it, at ``(*path, "name")``."""
        if item.label is not None:
            self.spans.setdefault((*path, "name"), item.label)

    # ------------------------------------------------------------------------------------------------- sections

    def set_name(self, name: str, span: Span) -> None:
        self.name = name
        self.spans["name",] = span

    def add_data(self, items: Iterable[Item], after: str = "") -> list[Path]:
        """Returns where each item went. ``after`` is the key of the item before, for ``encode a as .., b as ..``."""
        paths: list[Path] = []
        for item in items:
            match item.key:
                case "number" if item.name in ("n", "d"):
                    path = self._put(self.data, item.name, item.value, ("data", item.name), item.span, f"`{item.name}`")
                case "number":
                    path = self._put(self.constants, item.name, item.value, ("data", "constants", item.name), item.span, f"`{item.name}`")
                    self._label(path, item)
                case "domain":
                    path = ("data", "domains", len(self.domains))
                    by_name: Path = ("data", "domains", item.name)
                    if by_name in self.spans:
                        self.twice(f"the domain of `{item.name}`", by_name, item.span)
                    else:
                        self.domains.append(item.value)
                        self.spans[path] = self.spans[by_name] = item.span
                case "encode" | "encode-more":
                    path = ("data", "encode", len(self.encode))
                    by_name = ("data", "encode", item.name)
                    if item.key == "encode-more" and after not in ("encode", "encode-more"):
                        self.error("DP106", "`as` says how a column is encoded", f"Write `encode {item.name} as ...`.", item.span)
                    elif by_name in self.spans:
                        self.twice(f"the encoding of `{item.name}`", by_name, item.span)
                    else:
                        self.encode.append(item.value)
                        self.spans[path] = self.spans[by_name] = item.span
                case "unit-by":
                    path = self._put(self.data, "unit", item.value[0], ("data", "unit"), item.span, "`unit`")
                    self._put(self.data, "identified", item.value[1], ("data", "identified"), item.span, "`identified by`")
                case key:
                    word = {"source": "from", "status": "private` or `public"}.get(key, key)
                    if key in ("rows", "groups") and item.name:
                        self.per.append((item.name, item.span))
                    path = self._put(self.data, key, item.value, ("data", key), item.span, f"`{word}`")
            after = item.key
            paths.append(path)
        return paths

    def add_privacy(self, items: Iterable[Item]) -> list[Path]:
        words = {"model": "the privacy model", "labels_only": "`labels only`", "public": "`with public`"}
        return [self._put(self.privacy, i.key, i.value, ("privacy", i.key), i.span, words.get(i.key, f"`{i.key}`")) for i in items]

    def add_assume(self, items: Iterable[Item]) -> list[Path]:
        paths: list[Path] = []
        for item in items:
            path: Path = ("assume", len(self.assume))
            if item.value in self.assume:
                self.twice(f"the assumption `{item.value.name}`", ("assume", self.assume.index(item.value)), item.span)
                continue
            self.assume.append(item.value)
            self.spans[path] = item.span
            paths.append(path)
        return paths

    def open_release(self, name: str, span: Span) -> ReleaseDraft:
        if any(r.name == name for r in self.releases):
            self.twice(f"release `{name}`", ("releases", name), span)
        release = ReleaseDraft(name, span)
        self.spans["releases", len(self.releases)] = span
        self.spans.setdefault(("releases", name), span)
        self.releases.append(release)
        self.sections.setdefault("release", span)
        return release

    def add_release(self, release: ReleaseDraft, items: Iterable[Item], after: str = "") -> list[Path]:
        index = self.releases.index(release)
        paths: list[Path] = []
        for item in items:
            path: Path = ("releases", index, item.key)
            if item.key == "by":
                name, where, options = item.value
                if release.algorithm is not None:
                    self.twice("`by`", path, item.span)
                else:
                    release.algorithm = (name, where)
                    self.spans[path] = item.span
                    self.spans[*path, "algorithm"] = where
                    for option in options:
                        self._option(release, index, option)
            elif item.key == "option":
                path = ("releases", index, "by")
                if after not in ("by", "option"):
                    self.error("DP106", f"`{item.name} = ...` stands alone", "Options follow `by ALGORITHM with`.", item.span)
                else:
                    self._option(release, index, item)
            elif item.key == "task":
                self._put(release.parts, "task", item.value, path, item.span, "the task of this release")
            else:
                self._put(release.parts, item.key, item.value, path, item.span, f"`{item.key}`")
            after = item.key
            paths.append(path)
        return paths

    def _option(self, release: ReleaseDraft, index: int, item: Item) -> None:
        path: Path = ("releases", index, "by", "options", item.name)
        self._put(release.options, item.name, item.value, path, item.span, f"option `{item.name}`")
        self._label(path, item)

    def add_simulate(self, items: Iterable[Item]) -> list[Path]:
        paths: list[Path] = []
        for item in items:
            path: Path = ("simulate", len(self.laws))
            by_name: Path = ("simulate", item.name)
            if by_name in self.spans:
                self.twice(f"the law of `{item.name}`", by_name, item.span)
                continue
            self.laws.append(item.value)
            self.spans[path] = self.spans[by_name] = item.span
            paths.append(path)
        return paths

    def add_study(self, items: Iterable[Item], after: str = "") -> list[Path]:
        paths: list[Path] = []
        for item in items:
            key = item.key.removesuffix("-more")
            path: Path = ("study", key)
            if item.key.endswith("-more") and not after.startswith(key):
                starter = {"vary": f"vary {item.name} in [...]", "compare": f"compare {item.name}"}[key]
                self.error("DP106", f"`{item.name}` stands alone", f"Write `{starter}`, or check the spelling.", item.span)
            elif key == "vary":
                path = ("study", "vary", len(self.vary))
                by_name: Path = ("study", "vary", item.name)
                if by_name in self.spans:
                    self.twice(f"`vary {item.name}`", by_name, item.span)
                else:
                    self.vary.append(item.value)
                    self.spans[path] = self.spans[by_name] = item.span
            elif key == "compare":
                if item.value in self.compare:
                    self.twice(f"`{item.value}`", ("study", "compare", self.compare.index(item.value)), item.span)
                else:
                    self.spans["study", "compare", len(self.compare)] = item.span
                    self.spans.setdefault(path, item.span)
                    self.compare.append(item.value)
            else:
                self._put(self.study, key, item.value, path, item.span, f"`{key}`")
            after = item.key
            paths.append(path)
        return paths

    # --------------------------------------------------------------------------------------------------- result

    def finish(self) -> tuple[Analysis, bool]:
        """The analysis, and whether it is whole. What is missing is reported and filled in, so that the rest can still be checked."""
        broken = self.broken
        start = Span(1, 1, 1, 1)
        if self.name is None and "analysis" not in broken:
            self.error("DP108", "the analysis has no name", 'Begin with `analysis "name"`.', self.sections.get("analysis", start))
        for section in ("data", "privacy"):
            if section not in self.sections and section not in broken:
                self.error("DP108", f"section `{section}` is missing", _MISSING[section], start)
        if not self.releases and "release" not in broken:
            self.error("DP108", "nothing is released", _MISSING["release"], start)
        if "privacy" in self.sections and "model" not in self.privacy and "privacy" not in broken:
            help = "Say `privacy central`, `privacy nldp` or `privacy sldp`."
            self.error("DP108", "the privacy model is missing", help, self.sections["privacy"])
        broken.update({"data", "privacy"} - self.sections.keys())
        unit = str(self.data.get("unit", "person"))
        for word, span in self.per:
            if word != unit:
                self.error("DP106", f"the unit is a {unit}, and this line bounds what a {word} has", f"Write `a {unit}`.", span)
        releases = [self._release(r) for r in self.releases]
        whole = self.name is not None and {"data", "privacy"} <= self.sections.keys() and "model" in self.privacy
        study = None
        if "study" in self.sections:
            study = Study(vary=tuple(self.vary), compare=tuple(self.compare), **self.study)
        analysis = Analysis(
            name=self.name or "unnamed",
            data=Data(constants=tuple(self.constants.items()), domains=tuple(self.domains), encode=tuple(self.encode), **self.data),
            privacy=Privacy(**{"model": "central", **self.privacy}),
            assume=tuple(self.assume),
            releases=tuple(r for r, _ in releases),
            simulate=tuple(self.laws),
            study=study,
        )
        return analysis, whole and bool(releases) and all(good for _, good in releases)

    def _release(self, release: ReleaseDraft) -> tuple[Release, bool]:
        parts = dict(release.parts)
        task, over = parts.pop("task", None), parts.pop("over", None)
        index = self.releases.index(release)
        if task is None:
            if not release.broken:
                self.error("DP108", f"release `{release.name}` has no task", _MISSING["task"], release.span)
            return Release(name=release.name, task=Infer(), **parts), False
        path: Path = ("releases", index, "task")
        if isinstance(task, Loss):
            task = Minimise(loss=task.loss, pairwise=task.pairwise, **({} if over is None else {"over": over}))
        elif over is not None:
            if isinstance(task, (Estimate, EstimateTheta)):
                task = type(task)(**{**{k: getattr(task, k) for k in type(task).model_fields}, "over": over})
            else:
                where = self.spans["releases", index, "over"]
                self.error("DP147", "`over` has no meaning for this task", "Remove it.", where)
        self.marks.note(task, self.spans[path])
        by = By()
        if release.algorithm is not None:
            options = tuple((k, v) for k, v in release.options.items() if not isinstance(v, str))
            files = tuple((k, v) for k, v in release.options.items() if isinstance(v, str))
            by = By(algorithm=release.algorithm[0], options=options, files=files)
        return Release(name=release.name, task=task, by=by, **parts), True


_MISSING = {
    "data": "Add `data` with the number of records and the declared domains.",
    "privacy": "Add `privacy central` (or nldp, sldp) with a budget such as `epsilon = 1`.",
    "release": "Add `release NAME` with a task, such as `estimate mean(x)`.",
    "task": "Say what to release: minimise, estimate, regress, fit, answer or infer.",
}
