"""The names of the measures of error that a study computes, by task. The executor has one function for each (a test compares them)."""

from __future__ import annotations

from typing import Any

VECTOR = ("excess-empirical-risk", "l2-error", "l1-error", "linf-error", "squared-l2-error", "label-error", "support-error")
SUBSPACE = ("subspace-distance", "squared-subspace-distance", "projector-distance", "row-support-error")
NORMS = (
    *("operator-error", "frobenius-error", "l1-operator-error", "max-error", "relative-operator-error", "relative-frobenius-error"),
    *("relative-l1-operator-error", "matrix-support-error", "reference-frobenius-error", "relative-reference-error"),
)
PRECISION = ("gaussian-kl",)


def measurable(task: Any) -> tuple[str, ...]:
    """The measures that a study has for a task."""
    what = getattr(task, "what", "")
    if what == "subspace":
        return SUBSPACE
    if what in ("covariance", "second-moment", "precision"):
        return (*NORMS, *PRECISION) if what == "precision" else NORMS
    if task.kind == "minimise":
        return VECTOR
    of_labels = ("label-error",) if task.kind == "estimate-theta" else ()
    return (*(m for m in VECTOR if m not in ("excess-empirical-risk", "label-error")), *of_labels)


def hint(measure: str, known: tuple[str, ...]) -> str:
    """What to write in place of a measure that is not known."""
    from dpspec.lang.vocabulary import nearest

    near = nearest(measure, known)
    return f"did you mean {near!r}?" if near else f"one of {', '.join(known)}"
