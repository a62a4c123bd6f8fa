"""DP700 to DP749: ledgers of budgets."""

from dpspec.spec.codes import Code

CODES: dict[str, Code] = {
    "DP701": Code(
        "the release does not fit into what is left of an account",
        "The account, or one that it belongs to, has a limit, and with this release the limit would be passed. The message says what is "
        "left in "
        "the account's own terms, which releases took most of it, and the largest budget at which this analysis would still fit; "
        "`dpspec plan SPEC --fit ACCOUNT` shows the plan for that. Reservations whose run did not end count in full: a person who "
        "knows that no noise was drawn releases one with `dpspec ledger resolve`.",
    ),
    "DP702": Code(
        "no such account",
        "A release is charged to an account of the ledger, by name. An account is opened once, by whoever owns the data, with its limit: a "
        "misspelt name must not open one without.",
    ),
    "DP703": Code(
        "the account counts something else than the plan promises",
        "Guarantees add up when they are of the same kind: for the same unit of privacy, under the same neighbouring relation, in the same "
        "trust model, of the same part of a record. A replace-one guarantee does not add to an add-remove one. Open an account for each.",
    ),
    "DP704": Code("the account is closed", "Its owner closed it, and nothing more is charged to it. What it holds stays in every total."),
    "DP705": Code(
        "the ledger cannot be read or written",
        "A reservation is written, and on the disk, before any noise is drawn; where it cannot be written (a full disk, a file that is "
        "read-only, a "
        "database that does not answer, tables of another version) nothing is drawn. A reservation whose answer was lost counts as spent.",
    ),
    "DP706": Code(
        "the chain of the ledger is broken",
        "Each entry holds the hash of the one before. An entry was changed, left out or put in, or a record names an entry that the "
        "ledger does "
        "not hold: the database was edited, or an old copy of it was put back. Budgets that were spent since are not in its totals.",
    ),
    "DP707": Code(
        "a total of the ledger does not follow from its entries",
        "The costs of releases are recomputed from their schedules, by both accountants, and the totals from the costs. One that is "
        "stored is "
        "smaller than what follows, or a limit was passed at some time.",
    ),
    "DP708": Code(
        "the records are not those of the account",
        "The account's owner had the fingerprint of its data file stored, and the records of this run are another file, or come from "
        "memory, where "
        "no file can be compared.",
    ),
    "DP709": Code(
        "no filter of the account counts this release",
        "Of a draw that is known by one pair (epsilon, delta), no rho and no mu follows, and a Gaussian draw has no pure epsilon at all: "
        "an account "
        "whose limit is such a number could not add it up at any size.",
    ),
    "DP710": Code(
        "the account cannot be opened as it is described",
        "A limit is one of epsilon (with or without delta), rho, mu and a profile; a name is used once; an account and those that it "
        "belongs to count "
        "the same things; a window is a number of days or a calendar period.",
    ),
    "DP711": Code(
        "reservations are open",
        "A run reserves before its first draw and commits after its last. One that is still open goes on, or its process ended in "
        "between: then "
        "nobody but a person can know whether noise was drawn and seen, so it counts in full until somebody resolves it with a reason.",
    ),
    "DP712": Code(
        "no open reservation",
        "Only a reservation that was neither committed nor resolved can be. A release that was made is spent for good.",
    ),
    "DP713": Code(
        "an estimator was fitted again, and nothing counts its budgets",
        "Each fit on private data is a release of its own: cross-validation with two folds and three candidates, refitted, spends seven "
        "budgets. "
        "With a ledger and an account every fit is charged and the limit is kept.",
    ),
    "DP714": Code(
        "the release was made and its commit could not be written",
        "The reservation stays open and counts in full, so no budget is lost. When the ledger can be written again, `dpspec ledger resolve "
        "SEQ --spent` says that the release was made.",
    ),
}
