"""``dpspec completion``: the script by which a shell completes commands, options and their values."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from dpspec.cli.common import guarded, say


class Shell(StrEnum):
    bash = "bash"
    zsh = "zsh"
    fish = "fish"
    powershell = "powershell"


@guarded
def command(shell: Annotated[Shell, typer.Argument(help="bash, zsh, fish or powershell", show_default=False)]) -> None:
    """Print the completion script of a shell. Nothing is written to a start-up file of yours.

    Examples:

      dpspec completion bash > ~/.local/share/bash-completion/completions/dpspec

      dpspec completion zsh > "${fpath[1]}/_dpspec"

      dpspec completion fish > ~/.config/fish/completions/dpspec.fish

      dpspec completion powershell >> $PROFILE
    """
    import typer.completion

    say(
        typer.completion.get_completion_script(  # type: ignore[attr-defined]
            prog_name="dpspec", complete_var="_DPSPEC_COMPLETE", shell=shell.value
        )
    )
