"""The words of the language, and the nearest one to a word that is not among them."""

from __future__ import annotations

from collections.abc import Iterable

#: Hyphenated words that are one name inside an expression, so that one without a meaning there is refused by its name. Any other hyphen is
#: a minus.
HYPHENATED = frozenset(
    [
        "add-remove",
        "bernoulli-logistic",
        "categorical-logistic",
        "elastic-net",
        "group-lasso",
        "group-sparse",
        "log-logistic",
        "log-normal",
        "logistic-glm",
        "metric-hinge",
        "metric-logistic",
        "minimum-error-entropy",
        "mixture-of-regressions",
        "one-coin",
        "one-hot",
        "regression-with-missing",
        "replace-one",
        "row-sparse",
        "second-moment",
        "smooth-hinge",
        "smooth-queries",
        "smoothed-hinge",
        "squared-hinge",
        "student-t",
        "two-coin",
        "uniform-ball",
        "uniform-cube",
        "uniform-sphere",
        "zero-out",
    ]
)

#: Letters of the field, as they are printed.
GREEK = {
    "ε": "epsilon",
    "ϵ": "epsilon",
    "δ": "delta",
    "ρ": "rho",
    "ϱ": "rho",
    "μ": "mu",
    "λ": "lam",
    "lambda": "lam",
    "η": "eta",
    "τ": "tau",
    "θ": "theta",
    "ϑ": "theta",
    "σ": "sigma",
    "γ": "gamma",
    "α": "alpha",
    "β": "beta",
    "κ": "kappa",
    "ν": "nu",
    "ξ": "xi",
    "ζ": "zeta",
    "φ": "phi",
    "ϕ": "phi",
    "ψ": "psi",
    "ω": "omega",
    "π": "pi",
    "Σ": "Sigma",
    "Θ": "Theta",
    "Δ": "Delta",
    "Λ": "Lambda",
    "χ": "chi",
    "ι": "iota",
    "υ": "upsilon",
    "Γ": "Gamma",
    "Φ": "Phi",
    "Ψ": "Psi",
    "Ω": "Omega",
    "Ξ": "Xi",
    "Π": "Pi",
}

#: Symbols with an ASCII spelling, by what they stand for in the grammar.
SYMBOLS = {
    "⟨": "<",
    "〈": "<",
    "⟩": ">",
    "〉": ">",
    "≤": "<=",
    "·": "*",
    "×": "*",
    "−": "-",
    "∈": "in",
    "∼": "~",
    "**": "^",
    "→": "->",
    "ℝ": "R",
}

SECTIONS = ("analysis", "data", "privacy", "assume", "release", "simulate", "study")

#: Other spellings, and words of neighbouring tools, with ours.
SYNONYMS = {
    "minimize": "minimise",
    "neighbors": "neighbours",
    "neighbour": "neighbours",
    "eps": "epsilon",
    "budget": "epsilon",
    "assumptions": "assume",
    "assumption": "assume",
    "releases": "release",
    "simulation": "simulate",
    "ldp": "nldp",
    "local": "nldp",
    "non-interactive": "nldp",
    "interactive": "sldp",
    "target": "expect",
    "using": "by",
    "algorithm": "by",
    "subject": "over",
    "constraint": "over",
    "sensitivity": "private",
    "swap": "replace-one",
    "substitution": "replace-one",
    "bounded-dp": "replace-one",
    "unbounded": "add-remove",
}


def ascii_name(text: str) -> str:
    """``ε`` is epsilon and ``lambda`` is lam; a Greek letter inside a longer name is spelt out too."""
    if text in GREEK:
        return GREEK[text]
    return spelt_out(text)


def spelt_out(text: str) -> str:
    """Every Greek letter by its name."""
    if text.isascii():
        return text
    return "".join(GREEK.get(c, c if c.isascii() else f"u{ord(c):x}") for c in text)


def distance(a: str, b: str, limit: int) -> int:
    """Damerau-Levenshtein distance (adjacent swaps count once), or ``limit + 1`` when it is more than ``limit``."""
    if abs(len(a) - len(b)) > limit:
        return limit + 1
    before: list[int] = []
    last = list(range(len(b) + 1))
    for i, ca in enumerate(a, 1):
        row = [i]
        for j, cb in enumerate(b, 1):
            best = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (ca != cb))
            if i > 1 and j > 1 and ca == b[j - 2] and a[i - 2] == cb:
                best = min(best, before[j - 2] + 1)
            row.append(best)
        if min(row) > limit:
            return limit + 1
        before, last = last, row
    return min(last[-1], limit + 1)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that ``word`` most likely meant, or None when nothing is near."""
    options = sorted(set(known))
    lower = word.lower().replace("_", "-")[:40]
    if SYNONYMS.get(lower) in options:
        return SYNONYMS[lower]
    limit = 1 if len(lower) <= 4 else 2 if len(lower) <= 9 else 3
    best: tuple[int, str] | None = None
    for option in options:
        if len(option) < 3 and option.lower() != lower:
            continue
        d = distance(lower, option.lower(), limit)
        if d <= limit and (best is None or d < best[0]):
            best = (d, option)
    return None if best is None else best[1]
