"""The diagnostics of the empirical auditor (DP650 to DP669) in one place."""

from __future__ import annotations

from dpspec.spec.diagnostics import Diagnostic, SpecError


def unusable(message: str) -> SpecError:
    return SpecError(
        [
            Diagnostic(
                "DP653", "error", message, "Give two arrays of one width, one output of the mechanism a row, and at least 40 rows each."
            )
        ]
    )


def bad_parameter(message: str) -> SpecError:
    return SpecError([Diagnostic("DP659", "error", message, "Use epsilon >= 0, 0 <= delta < 1 and a confidence between 0.5 and 1.")])


def not_neighbours(message: str) -> SpecError:
    return SpecError(
        [Diagnostic("DP657", "error", message, "Give inputs that differ in one record under the relation that the claim states.")]
    )


def command_failed(message: str, help_: str) -> SpecError:
    return SpecError([Diagnostic("DP654", "error", message, help_)])


def violated(message: str) -> Diagnostic:
    return Diagnostic(
        "DP650", "error", message, "Look for the fault on the pair and the event named here; `dpspec explain DP650` lists usual causes."
    )


def not_certified(message: str) -> Diagnostic:
    return Diagnostic(
        "DP651", "info", message, "Use a proof (a static or an exact audit) to certify; more runs or other inputs only look further."
    )


def too_few(message: str) -> Diagnostic:
    return Diagnostic("DP652", "warning", message, "Draw more runs on each input, or lower the confidence.")


def repeated(message: str) -> Diagnostic:
    return Diagnostic("DP656", "warning", message, "Draw fresh randomness for every run and do not reuse a seed.")


def unbalanced(message: str) -> Diagnostic:
    return Diagnostic("DP658", "warning", message, "Include each canary by its own fair coin, independent of everything else.")
