"""``dpspec lsp``: the language server, over standard input and output."""

from __future__ import annotations

from typing import Annotated

import typer

from dpspec.cli.common import guarded, refuse


@guarded
def command(
    tcp: Annotated[
        int | None, typer.Option("--tcp", min=1, max=65535, help="listen on this port of this machine instead", show_default=False)
    ] = None,
) -> None:
    """Serve an editor: findings as you type, hover, completion, definitions, layout, quick fixes (Language Server Protocol).

    An editor starts it with the files *.dps and *.dpspec.yaml; docs/editors.md shows how. It needs the extra dpspec[lsp].

    Examples:

      dpspec lsp

      dpspec lsp --tcp 2087
    """
    try:
        from dpspec.lsp.server import server
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.split(".")[0] in ("pygls", "lsprotocol", "cattrs", "attrs", "attr"):
            refuse(f"the language server needs {error.name}, which is not installed", 'pip install "dpspec[lsp]"', code="DP415")
        raise
    made = server()
    if tcp is None:
        made.start_io()
    else:
        made.start_tcp("127.0.0.1", tcp)
