"""``dpspec init``: a commented starter spec for the task asked for."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dpspec.cli.common import Format, FormatOption, NoColorOption, QuietOption, VerboseOption, emit_json, guarded, refuse, say

SCHEMA_FILE = "dpspec.schema.json"


class Task(StrEnum):
    classify = "classify"
    regress = "regress"
    local = "local"


class Surface(StrEnum):
    dps = "dps"
    yaml = "yaml"


STARTERS: dict[Task, str] = {
    Task.classify: """\
analysis "my classifier"

data
  n = 10_000, d = 20                        # public numbers: records, features (after encoding)
  from "records.csv" target "label"         # the file stays where it is; only `dpspec run` opens it
  private, unit person, neighbours replace-one
  x in ball(l2, 1) by scale                 # enforced: each record is divided by max(1, its norm)
  y in {-1, 1} by map(0 -> -1, 1 -> 1)      # enforced: labels are mapped, anything else too

privacy central
  epsilon = 1, delta = 1/n^1.1              # delta well below 1/n

release weights
  minimise logistic + 0.001/2*|w|^2 over ball(l2, 10)
  by auto                                   # the best algorithm that can serve; `dpspec algorithms` lists them

simulate                                    # a data law for `dpspec study`; never used by `dpspec run`
  theta = dense unit l2
  x ~ uniform-ball
  y ~ bernoulli-logistic(5*<theta, x>)

study
  trials 20, seed 1
""",
    Task.regress: """\
analysis "my regression"

data
  n = 100_000, d = 10                       # public numbers: records, features (after encoding)
  from "records.csv" target "response"      # the file stays where it is; only `dpspec run` opens it
  private, unit person, neighbours replace-one
  x in ball(l2, 1) by scale                 # enforced: each record is divided by max(1, its norm)
  y in [-2, 2] by clip                      # enforced: responses are clamped

privacy central
  epsilon = 1, delta = 1/n^1.1              # delta well below 1/n

release coefficients
  minimise 1/2*(<w, x> - y)^2 over ball(l2, 1)
  by auto                                   # the best algorithm that can serve; `dpspec algorithms` lists them

simulate                                    # a data law for `dpspec study`; never used by `dpspec run`
  theta = dense unit l2
  x ~ uniform-ball
  y = <theta, x> + normal(0, 0.1)

study
  trials 20, seed 1
""",
    Task.local: """\
analysis "my local regression"

data
  n = 1_000_000, d = 10                     # public numbers: users, features
  from "reports.csv" target "response"      # in a deployment each user runs the client on its own record
  private, unit person, neighbours replace-one

privacy nldp                                # non-interactive local: nobody sees a raw record
  epsilon = 1, delta = 1e-6

assume
  sparse(2)
  sub-gaussian(1) of x                      # accuracy may rest on this; privacy does not: clients clip
  sub-gaussian(1.3) of y

release theta
  estimate theta in y = <theta, x> + noise
  by nldp-sparse-linear-regression

simulate                                    # a data law for `dpspec study`
  theta = sparse(2) unit l2
  x ~ normal(0, I)
  y = <theta, x> + normal(0, 0.5)

study
  trials 10, seed 1
""",
}


@guarded
def command(
    folder: Annotated[Path, typer.Argument(help="a folder, or the file to write (.dps, .dpspec.yaml)", show_default=False)] = Path(),
    task: Annotated[Task, typer.Option("--task", help="which starter")] = Task.classify,
    surface: Annotated[Surface, typer.Option("--surface", help="dps, or yaml with the schema's modeline for editors")] = Surface.dps,
    format: FormatOption = Format.text,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    no_color: NoColorOption = False,
) -> None:
    """Write a commented starter spec. Never overwrites a file.

    Examples:

      dpspec init

      dpspec init income.dps --task regress

      dpspec init analyses --task local --surface yaml
    """
    suffix = ".dps" if surface is Surface.dps else ".dpspec.yaml"
    file = folder / f"{task.value}{suffix}"
    if folder.suffix in (".dps", ".yaml", ".yml") and not folder.is_dir():
        if surface is Surface.dps and folder.suffix != ".dps":
            surface = Surface.yaml
        elif surface is Surface.yaml and folder.suffix == ".dps":
            refuse(
                f"{folder} is the name of a .dps file, and --surface yaml asks for YAML",
                f"dpspec init {folder.with_suffix('.dpspec.yaml')}",
            )
        file, folder = folder, folder.parent
    if file.exists():
        refuse(f"{file} exists and is left alone", "choose another folder, or remove the file")
    folder.mkdir(parents=True, exist_ok=True)
    text = STARTERS[task]
    if surface is Surface.yaml:
        import json

        from dpspec.lang.printer import to_yaml
        from dpspec.lang.source import parse_text
        from dpspec.spec.schema import json_schema

        modeline = f"# yaml-language-server: $schema={SCHEMA_FILE}\n"
        text = modeline + to_yaml(parse_text(text, path=str(file), surface="dps").analysis)
        schema = folder / SCHEMA_FILE
        if not schema.exists():
            schema.write_text(json.dumps(json_schema(), indent=2) + "\n", encoding="utf-8")
    file.write_text(text, encoding="utf-8")
    if format is Format.json:
        emit_json({"written": str(file)})
    elif not quiet:
        say(f"wrote {file}")
        say(f"next: dpspec check {file}, then dpspec study {file}")
