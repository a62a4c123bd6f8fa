"""Diagnostic codes of one area; see :mod:`dpspec.spec.codes`. DP650 to DP669: the empirical auditor."""

from __future__ import annotations

from dpspec.spec.codes import Code

CODES: dict[str, Code] = {
    "DP650": Code(
        "The outputs refute the stated guarantee",
        "An event was fixed on one part of the runs and counted on the other. Its two probabilities cannot satisfy p <= e^epsilon "
        "q + delta for the stated epsilon and delta, except with a chance of at most 1 - confidence. Usual causes: noise scaled "
        "to the wrong sensitivity (a count, a clip or a neighbouring relation forgotten), a statistic of the data used without "
        "noise (n, a bound, a category list), noise drawn once and used twice, a value returned where only an index was paid for, "
        "an early stop that is not paid for.",
        bad="sum(x)/len(x) + laplace(1/(len(x)*eps))   # len(x) itself is private under add/remove",
        good="(sum(x) + laplace(2/eps)) / max(1, len(x) + laplace(2/eps))",
        references=("Ding, Wang, Wang, Zhang and Kifer 2018", "Lyu, Su and Li 2017"),
    ),
    "DP651": Code(
        "No violation was found, which certifies nothing",
        "The lower bound of epsilon lies at or below the stated one. An audit from samples sees some inputs, some events and "
        "finitely many runs: a fault on other inputs, in rarer events or smaller than the resolution remains possible. The word "
        "for this outcome is 'not certified'.",
    ),
    "DP652": Code(
        "Too few runs to refute this claim whatever the mechanism does",
        "Even if an event happened in every held-out run on one input and in none on the other, the bound at this confidence "
        "would stay below the stated epsilon. The audit could not have failed, so its outcome carries no information.",
        bad="200 runs against a stated epsilon of 8",
        good="at least 7 e^epsilon held-out runs on each input at confidence 0.99, and more for a violation that is not total",
    ),
    "DP653": Code(
        "The samples cannot be used",
        "Two tables of outputs are needed, one output a row, of one width, with enough rows to set some aside for the choice of the event.",
    ),
    "DP654": Code(
        "The audited command failed",
        "The command must exit with status 0 within its time limit and write one output a row (CSV or .npy) to the file it is given.",
    ),
    "DP656": Code(
        "The runs look dependent",
        "Runs must be independent. Blocks of identical outputs from a continuous law, or the same outputs in both halves, mean "
        "that a seed or a noise draw was reused. The bound then is not valid as stated; reuse of noise is a fault of its own.",
    ),
    "DP657": Code(
        "The two inputs are not neighbours",
        "A ratio of output probabilities bounds epsilon only for inputs that the guarantee's relation calls neighbours.",
    ),
    "DP658": Code(
        "The canaries were not included by fair coins",
        "The bound of a one-run audit rests on each canary being included with probability one half, independently. The share "
        "seen here would be a one in a million event under fair coins.",
        references=("Steinke, Nasr and Jagielski 2023",),
    ),
    "DP659": Code(
        "A parameter of the audit is out of range",
        "epsilon and mu must be non-negative numbers, delta must lie in [0, 1), the confidence in [0.5, 1).",
    ),
}
