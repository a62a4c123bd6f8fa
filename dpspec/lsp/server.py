"""The wiring of :mod:`dpspec.lsp.features` to the Language Server Protocol, with pygls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from lsprotocol import types as lsp
from pygls.server import LanguageServer

from dpspec.lsp import features
from dpspec.spec.diagnostics import Diagnostic, Related, Span
from dpspec.version import __version__

#: Seconds without a keystroke before a spec is compiled; what the language says comes at once.
PAUSE = 0.3
_SEVERITY = {"error": lsp.DiagnosticSeverity.Error, "warning": lsp.DiagnosticSeverity.Warning, "info": lsp.DiagnosticSeverity.Information}
_KIND = {
    "keyword": lsp.CompletionItemKind.Keyword,
    "algorithm": lsp.CompletionItemKind.Function,
    "constant": lsp.CompletionItemKind.Constant,
    "word": lsp.CompletionItemKind.Value,
    "measure": lsp.CompletionItemKind.Unit,
}


class Server(LanguageServer):  # type: ignore[misc]
    """``found``: the diagnostics last shown of each file, for quick fixes."""

    def __init__(self) -> None:
        super().__init__("dpspec", __version__, text_document_sync_kind=lsp.TextDocumentSyncKind.Incremental)
        self.found: dict[str, tuple[Diagnostic, ...]] = {}

    def show(self, uri: str, found: Iterable[Diagnostic]) -> None:
        document = self.workspace.get_text_document(uri)
        self.found[uri] = tuple(found)
        self.publish_diagnostics(uri, [_shown(d, document) for d in self.found[uri]], document.version)

    async def check(self, uri: str, *, pause: float = 0.0) -> None:
        """Show what the language says, then, when nothing was typed meanwhile, what the compiler says."""
        document = self.workspace.get_text_document(uri)
        text, version, path = document.source, document.version, path_of(document)
        parsed, found = features.parse(text, path)
        self.show(uri, found if parsed is None else self.found.get(uri, ()))
        if parsed is None:
            return
        await asyncio.sleep(pause)
        if not self._is(uri, version):
            return
        whole = await asyncio.get_running_loop().run_in_executor(None, features.diagnostics, text, path)
        if self._is(uri, version):
            self.show(uri, whole)

    def _is(self, uri: str, version: int | None) -> bool:
        open_ = self.workspace.text_documents.get(uri)
        return open_ is not None and open_.version == version


def path_of(document: Any) -> str:
    """The file of a document; of one that was never saved, the last part of its URI."""
    return document.path if document.uri.startswith("file:") else str(Path(document.uri).name)


def _range(span: Span, document: Any) -> lsp.Range:
    """A span in the units that the client asked for."""
    here = lsp.Range(lsp.Position(span.line - 1, span.column - 1), lsp.Position(span.end_line - 1, span.end_column - 1))
    return document.position_codec.range_to_client_units(document.lines, here)


def _place(position: lsp.Position, document: Any) -> tuple[int, int]:
    here = document.position_codec.position_from_client_units(document.lines, position)
    return here.line + 1, here.character + 1


def _shown(d: Diagnostic, document: Any) -> lsp.Diagnostic:
    return lsp.Diagnostic(
        range=_range(d.span or Span(1, 1, 1, 1), document),
        message=d.message + (f"\n{d.help}" if d.help else ""),
        severity=_SEVERITY[d.severity],
        code=d.code,
        source="dpspec",
        related_information=[_elsewhere(r) for r in d.related] or None,
    )


def _elsewhere(related: Related) -> lsp.DiagnosticRelatedInformation:
    span = related.span or Span(1, 1, 1, 1)
    here = lsp.Range(lsp.Position(span.line - 1, span.column - 1), lsp.Position(span.end_line - 1, span.end_column - 1))
    return lsp.DiagnosticRelatedInformation(lsp.Location(Path(related.path).resolve().as_uri(), here), related.message)


def _overlap(a: lsp.Range, b: lsp.Range) -> bool:
    return (a.start.line, a.start.character) <= (b.end.line, b.end.character) and (b.start.line, b.start.character) <= (
        a.end.line,
        a.end.character,
    )


def _repairs(ls: Server, params: lsp.CodeActionParams) -> Iterator[lsp.CodeAction]:
    uri = params.text_document.uri
    document = ls.workspace.get_text_document(uri)
    for d in ls.found.get(uri, ()):
        shown = _shown(d, document)
        if not _overlap(shown.range, params.range):
            continue
        for fix in features.fixes(document.source, [d]):
            edit = lsp.WorkspaceEdit(changes={uri: [lsp.TextEdit(_range(fix.span, document), fix.text)]})
            yield lsp.CodeAction(fix.title, kind=lsp.CodeActionKind.QuickFix, diagnostics=[shown], edit=edit, is_preferred=True)


async def _opened(ls: Server, params: lsp.DidOpenTextDocumentParams) -> None:
    await ls.check(params.text_document.uri)


async def _saved(ls: Server, params: lsp.DidSaveTextDocumentParams) -> None:
    await ls.check(params.text_document.uri)


async def _changed(ls: Server, params: lsp.DidChangeTextDocumentParams) -> None:
    await ls.check(params.text_document.uri, pause=PAUSE)


def _closed(ls: Server, params: lsp.DidCloseTextDocumentParams) -> None:
    ls.found.pop(params.text_document.uri, None)
    ls.publish_diagnostics(params.text_document.uri, [])


def _completion(ls: Server, params: lsp.CompletionParams) -> lsp.CompletionList:
    document = ls.workspace.get_text_document(params.text_document.uri)
    offers = features.complete(document.source, path_of(document), *_place(params.position, document))
    return lsp.CompletionList(False, [lsp.CompletionItem(o.text, kind=_KIND[o.kind], detail=o.means or None) for o in offers])


def _hover(ls: Server, params: lsp.HoverParams) -> lsp.Hover | None:
    document = ls.workspace.get_text_document(params.text_document.uri)
    found = features.hover(document.source, path_of(document), *_place(params.position, document))
    if found is None:
        return None
    return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, found[0]), _range(found[1], document))


def _definition(ls: Server, params: lsp.DefinitionParams) -> lsp.Location | None:
    document = ls.workspace.get_text_document(params.text_document.uri)
    span = features.definition(document.source, path_of(document), *_place(params.position, document))
    return None if span is None else lsp.Location(document.uri, _range(span, document))


def _formatting(ls: Server, params: lsp.DocumentFormattingParams) -> list[lsp.TextEdit] | None:
    document = ls.workspace.get_text_document(params.text_document.uri)
    text = features.formatted(document.source, path_of(document))
    if text is None or text == document.source:
        return None
    whole = lsp.Range(lsp.Position(0, 0), lsp.Position(len(document.lines), 0))
    return [lsp.TextEdit(whole, text)]


def _actions(ls: Server, params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
    return list(_repairs(ls, params))


_HANDLERS: tuple[tuple[str, Any, Callable[..., Any]], ...] = (
    (lsp.TEXT_DOCUMENT_DID_OPEN, None, _opened),
    (lsp.TEXT_DOCUMENT_DID_SAVE, None, _saved),
    (lsp.TEXT_DOCUMENT_DID_CHANGE, None, _changed),
    (lsp.TEXT_DOCUMENT_DID_CLOSE, None, _closed),
    (lsp.TEXT_DOCUMENT_COMPLETION, lsp.CompletionOptions(trigger_characters=[" ", "~", ","]), _completion),
    (lsp.TEXT_DOCUMENT_HOVER, None, _hover),
    (lsp.TEXT_DOCUMENT_DEFINITION, None, _definition),
    (lsp.TEXT_DOCUMENT_FORMATTING, None, _formatting),
    (lsp.TEXT_DOCUMENT_CODE_ACTION, lsp.CodeActionOptions(code_action_kinds=[lsp.CodeActionKind.QuickFix]), _actions),
)


def server() -> Server:
    """A server that nobody listens to yet."""
    made = Server()
    for method, options, handler in _HANDLERS:
        made.feature(method, options)(handler)
    return made
