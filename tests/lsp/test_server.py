"""The language server over stdio, spoken to by a real client library."""

from __future__ import annotations

import asyncio
import math
import os
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pygls")
from lsprotocol import types as lsp
from pygls.lsp.client import BaseLanguageClient

ROOT = Path(__file__).parents[2]
SPEC = (ROOT / "specs/convex_erm/dp-gd.dps").read_text(encoding="utf-8")


class Editor:
    """One client and one server process."""

    def __init__(self) -> None:
        self.client = BaseLanguageClient("test-editor", "1")
        self.shown: dict[str, list[lsp.PublishDiagnosticsParams]] = {}
        self.news = asyncio.Event()

        @self.client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def publish(params: lsp.PublishDiagnosticsParams) -> None:
            self.shown.setdefault(params.uri, []).append(params)
            self.news.set()

    async def __aenter__(self) -> Editor:
        os.environ.setdefault("PYTHONPATH", str(ROOT))
        await self.client.start_io(sys.executable, "-m", "dpspec", "lsp")
        await self.client.initialize_async(lsp.InitializeParams(capabilities=lsp.ClientCapabilities(), root_uri=ROOT.as_uri()))
        self.client.initialized(lsp.InitializedParams())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.shutdown_async(None)
        self.client.exit(None)
        await self.client.stop()

    def open(self, uri: str, text: str) -> None:
        item = lsp.TextDocumentItem(uri, "dps", 1, text)
        self.client.text_document_did_open(lsp.DidOpenTextDocumentParams(item))

    def change(self, uri: str, version: int, text: str) -> None:
        document = lsp.VersionedTextDocumentIdentifier(version, uri)
        change = lsp.TextDocumentContentChangeEvent_Type2(text)
        self.client.text_document_did_change(lsp.DidChangeTextDocumentParams(document, [change]))

    async def diagnostics(self, uri: str, want: Any) -> list[lsp.Diagnostic]:
        """The first diagnostics of a file that are as wanted."""
        async with asyncio.timeout(60):
            while True:
                for params in self.shown.get(uri, []):
                    if want(params.diagnostics):
                        return list(params.diagnostics)
                self.news.clear()
                await self.news.wait()


def codes(found: list[lsp.Diagnostic]) -> set[Any]:
    return {d.code for d in found}


def test_a_session(tmp_path: Path) -> None:
    asyncio.run(_session(tmp_path))


async def _session(tmp_path: Path) -> None:
    uri = (tmp_path / "a.dps").as_uri()
    document = lsp.TextDocumentIdentifier(uri)
    bad = SPEC.replace("by scale", "by scal").replace('"logistic', '"𝓛ogistic')
    async with Editor() as editor:
        client = editor.client
        editor.open(uri, bad)
        found = await editor.diagnostics(uri, lambda d: "DP107" in codes(d))
        misspelt = next(d for d in found if d.code == "DP107")
        line = bad.split("\n")[misspelt.range.start.line]
        assert line[misspelt.range.start.character : misspelt.range.end.character] == "scal"
        assert misspelt.severity == lsp.DiagnosticSeverity.Error
        assert "scale" in misspelt.message

        context = lsp.CodeActionContext(found)
        fix = (await client.text_document_code_action_async(lsp.CodeActionParams(document, misspelt.range, context)))[0]
        (edit,) = fix.edit.changes[uri]
        assert edit.new_text == "scale"
        assert edit.range == misspelt.range

        away = SPEC.replace("by dp-gd", "by dp-iht")  # parses, and the compiler refuses it
        editor.change(uri, 2, away)
        found = await editor.diagnostics(uri, lambda d: "DP409" in codes(d))
        assert "DP107" not in codes(found)

        editor.change(uri, 3, SPEC)
        await editor.diagnostics(uri, lambda d: d == [])

        row = next(i for i, text in enumerate(SPEC.split("\n")) if "by dp-gd" in text)
        hover = await client.text_document_hover_async(lsp.HoverParams(document, lsp.Position(row, 6)))
        assert "dp-gd" in hover.contents.value
        assert (hover.range.start.character, hover.range.end.character) == (5, 10)
        loss = next(i for i, text in enumerate(SPEC.split("\n")) if "minimise" in text)
        hover = await client.text_document_hover_async(lsp.HoverParams(document, lsp.Position(loss, 13)))
        assert f"Lipschitz in l2: {1 / (1 + math.exp(-1)):.6g}" in hover.contents.value  # |x| <= 1, |phi'| at a margin of 1

        offered = await client.text_document_completion_async(lsp.CompletionParams(document, lsp.Position(row, 5)))
        assert {"auto", "dp-gd", "dp-sgd"} <= {item.label for item in offered.items}

        where = await client.text_document_definition_async(lsp.DefinitionParams(document, lsp.Position(10, 25)))  # n of delta = 1/n^1.1
        assert SPEC.split("\n")[where.range.start.line].strip().startswith("n = 20_000")

        editor.change(uri, 4, SPEC.replace("n = 20_000, d = 10", "n=20000,d=10"))
        edits = await client.text_document_formatting_async(lsp.DocumentFormattingParams(document, lsp.FormattingOptions(2, True)))
        assert edits[0].new_text == SPEC

        client.text_document_did_close(lsp.DidCloseTextDocumentParams(document))
