"""Diagnostic codes DP4xx: algorithms, options, targets."""

from __future__ import annotations

from dpspec.spec.codes import Code

CODES: dict[str, Code] = {
    "DP401": Code(
        title="No algorithm serves this release",
        explanation=(
            "Every algorithm of the catalogue was asked whether it can serve the task under the stated privacy model, and each one named "
            "the first requirement that fails. The plan lists them all. Nothing is approximated silently: a release that no algorithm "
            "serves is not planned."
        ),
        bad="privacy nldp ...\nrelease w\n  minimise logistic over ball(l2, 1)",
        good="privacy central ...\nrelease w\n  minimise logistic over ball(l2, 1)",
    ),
    "DP402": Code(
        title="The accuracy target is missed",
        explanation=(
            "An `expect` line is compared with a bound whose every constant is known (kind explicit) and whose proof was re-derived "
            "(status proved). Here the bound's value at the planned noise exceeds the target. The message names the least n and the "
            "least epsilon at which the same bound meets it, when they exist."
        ),
        bad="expect excess-empirical-risk <= 1e-9",
        good="expect excess-empirical-risk <= 0.05",
    ),
    "DP403": Code(
        title="No explicit bound decides this target",
        explanation=(
            "The chosen algorithm has only order bounds (unspecified constants) for the measure, or none at all, or bounds that are "
            "claimed in print and not proved. Such bounds never accept a target. Run `dpspec study` on a simulated law to measure "
            "the error."
        ),
    ),
    "DP404": Code(
        title="Unknown algorithm",
        explanation="The word after `by` must be `auto` or an id that `dpspec algorithms` lists. Ids are spelt with hyphens.",
        bad="by dp-gdd",
        good="by dp-gd",
    ),
    "DP405": Code(
        title="Unknown option of an algorithm",
        explanation="After `with` come tunables and options of the algorithm's card (`dpspec algorithms ID` prints them), nothing else.",
        bad="by dp-gd with steps = 10",
        good="by dp-gd with T = 10",
    ),
    "DP406": Code(
        title="An option has an unusable value",
        explanation="A tunable must be a number in its range (or one of the words its card lists), from public quantities only.",
        bad="by dp-gd with T = 0",
        good="by dp-gd with T = 100",
    ),
    "DP407": Code(
        title="The named algorithm cannot serve this release",
        explanation=(
            "The spec names an algorithm whose first unmet requirement the message states: another task, another privacy model, a budget "
            "of a kind that it cannot give, or an assumption that is missing. `by auto` would choose among those that can."
        ),
    ),
    "DP408": Code(
        title="A public size is missing",
        explanation=(
            "Sensitivities, calibration and bounds need the number of records n and the dimension d as public, stated numbers. They are "
            "never read off private data: under replace-one the size is public because the author says so."
        ),
        bad='data\n  from "adult.csv" target "income>50K"',
        good='data\n  n = 48_842, d = 93\n  from "adult.csv" target "income>50K"',
    ),
    "DP409": Code(
        title="A default needs a constant that nobody has declared",
        explanation=(
            "A tunable's default formula uses a public constant (the sparsity k, a noise level sigma, ...). Declare it in `data` or "
            "`assume`, or set the tunable itself with `with`. It cannot be estimated from private records without paying for it."
        ),
        bad="release theta\n  estimate theta in y = <theta, x> + noise\n  by ldp-iht",
        good="assume sparse(5)\nrelease theta\n  estimate theta in y = <theta, x> + noise\n  by ldp-iht",
    ),
    "DP410": Code(
        title="Measured studies need a data law or public data",
        explanation=(
            "`study` measures true errors, which is a release of its own. It therefore runs on a `simulate` law, on data that the spec "
            "marks `public`, or on public records of the same form (`--data FILE`); it refuses private data, and a file that is the "
            "private one."
        ),
    ),
    "DP411": Code(
        title="A number of the spec has no usable value",
        explanation="An expression must evaluate to a finite number in the range of the quantity it stands for, from public names only.",
    ),
    "DP412": Code(
        title="The plan warns about its accuracy regime",
        explanation=(
            "The algorithm's analysis or its post-processing needs more records, or a larger budget, than the spec has. Privacy is not at "
            "stake; the estimate may be useless. The message says what is needed."
        ),
    ),
    "DP413": Code(
        title="Unknown measure",
        explanation="`expect` and `study` know the measures that the chosen algorithm's card lists bounds for, and the task's own.",
    ),
    "DP414": Code(
        title="Only some releases have a part",
        explanation=(
            "Releases on disjoint parts of the records compose in parallel, each with the whole budget; releases on all records share it. "
            "A mixture of both in one analysis is not planned: give every release a `part`, or none, and let the parts sum to at most 1."
        ),
    ),
    "DP415": Code(
        title="An optional package is missing",
        explanation="The engine or format that was asked for needs a package of an optional extra, which is not installed.",
    ),
    "DP416": Code(
        title="An option of the command cannot be used",
        explanation=(
            "A word of the command line (an option, a varied name, a value, a trial count) does not fit: the command has no such option, "
            "the spec no such number, the value is not one, or a file that it names cannot be read, written or used for this. Nothing "
            "was run."
        ),
        bad="dpspec study analysis.dps --vary n=abc",
        good="dpspec study analysis.dps --vary n=1e4,1e5",
    ),
    "DP417": Code(
        title="The configuration cannot be used",
        explanation=(
            "dpspec.toml, the [tool.dpspec] of pyproject.toml, or an environment variable that begins with DPSPEC_ holds something that "
            "dpspec does not know, or a value that the option does not take. Nothing in them is passed over: a misspelt ledger would "
            "charge nobody. `dpspec config` shows what holds."
        ),
        bad='legder = "team.db"',
        good='ledger = "team.db"',
    ),
    "DP418": Code(
        title="The plan has no client",
        explanation=(
            "`dpspec client` writes what a user's device needs to report. That is for plans of the local models whose algorithm reads sums "
            "of public maps of single records, by channels that need NumPy alone. What stands against it is named: a curator, a draw "
            "of the server, encodings that a device cannot repeat, an algorithm or a channel without a client."
        ),
    ),
    "DP419": Code(
        title="The reports cannot be collected",
        explanation=(
            "`dpspec collect` adds reports to a store that belongs to one plan, round after round, and makes the record when every user of "
            "the plan has answered. The store is of another plan, its round is not over, or a file that the command names is not what it "
            "should be. Nothing was released."
        ),
    ),
    "DP420": Code(
        title="The plan no longer matches its lock file",
        explanation=(
            "`plan --against FILE` compares the plan of today's spec with the one that was reviewed and stored. What differs is listed; "
            "review it and store the new plan with `plan --out`."
        ),
    ),
    "DP421": Code(
        title="An algorithm of another package cannot be used",
        explanation=(
            "Packages bring algorithms by entry points of the group dpspec.algorithms. One of them has the id of another algorithm, its "
            "module does not import, or it does not hold what a module of an algorithm holds: CARD, accepts, schedule and run."
        ),
        good='[project.entry-points."dpspec.algorithms"]  my-mean = "my_package.my_mean"',
    ),
    "DP422": Code(
        title="The plan needs more memory than this machine has",
        explanation=(
            "The arrays of an algorithm grow with d, or with d squared. The message says what this plan's take and what this machine has; "
            "records that are read in chunks do not count. A run would end without a release, before or after its first draw."
        ),
    ),
}
