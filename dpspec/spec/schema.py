"""The JSON Schema (draft 7) of the YAML surface, for editors and generators.

It states shapes and words. Expressions are texts in the language of the DSL, which a schema cannot check; ``dpspec check`` does.
"""

from __future__ import annotations

from typing import Any

from dpspec.spec.words import STATISTICS

ID = "https://dpspec.dev/schema/v1.json"
_NAME = "^[A-Za-zα-ωΑ-Ω][A-Za-z0-9_α-ωΑ-Ω]*$"
_RELEASE_NAME = "^[A-Za-z][A-Za-z0-9_]*(-[A-Za-z][A-Za-z0-9_]*)*$"


def _text(description: str, *examples: str, **more: Any) -> dict[str, Any]:
    out: dict[str, Any] = {"type": "string", "minLength": 1, "description": description, **more}
    if examples:
        out["examples"] = list(examples)
    return out


def _number(description: str, *examples: Any) -> dict[str, Any]:
    """A number, or an expression in n, d, the constants and pi."""
    return {
        "description": description,
        "anyOf": [{"type": "number"}, {"type": "string", "minLength": 1}],
        "examples": list(examples),
    }


def _word(description: str, *words: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(words), "description": description}


def _flag(description: str) -> dict[str, Any]:
    return {"type": "boolean", "description": description}


def _object(description: str, properties: dict[str, Any], required: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    out: dict[str, Any] = {
        "type": "object",
        "description": description,
        "properties": properties,
        "additionalProperties": False,
        **more,
    }
    if required:
        out["required"] = list(required)
    return out


def _map(description: str, value: dict[str, Any], names: str | None = None) -> dict[str, Any]:
    out: dict[str, Any] = {"type": "object", "description": description, "additionalProperties": value}
    if names is not None:
        out["propertyNames"] = {"pattern": names}
    return out


def _exactly_one(*keys: str) -> list[dict[str, Any]]:
    return [{"required": [key]} for key in keys]


_SET = 'ball(l1|l2|linf, r), simplex, box(a, b), [a, b], {a, b}, sparse(k), polytope("file.csv"), R or R^d'


def _data() -> dict[str, Any]:
    source = {
        "description": "Where the records come from.",
        "oneOf": [
            _object(
                "A CSV or Parquet file, a bundled data set, a database, or memory.",
                {
                    "path": _text("A CSV or Parquet file, by its ending, relative to the spec.", "adult.csv"),
                    "sklearn": _text("One of scikit-learn's bundled data sets.", "breast_cancer"),
                    "memory": {"const": True, "description": "Arrays or frames handed over through the Python interface."},
                    "url": _text(
                        "The address of a database, without a user or a password.", "postgresql://db.example/clinic", "sqlite:///r.db"
                    ),
                    "query": _text("What is asked of it: a row of the result is a record.", "select age, income from people"),
                    "target": _text("The column that is y.", "income>50K"),
                    "columns": {
                        "type": "array",
                        "description": "The columns that make up x, in this order; all but the target when left out.",
                        "items": _text("A column."),
                    },
                },
                dependentRequired={"query": ["url"]},
                oneOf=[
                    {"required": ["path"]},
                    {"required": ["memory"]},
                    {"required": ["url", "query"]},
                    {"required": ["sklearn"], "not": {"anyOf": [{"required": ["target"]}, {"required": ["columns"]}]}},
                ],
            ),
            _text("The same in one text.", '"adult.csv" target "income"', 'sklearn "breast_cancer"', "memory"),
        ],
    }
    return _object(
        "The records: how many, of what shape, where from, what is declared of them and what is enforced.",
        {
            "n": _number("How many records. Public and declared.", 48842),
            "d": _number("How many coordinates x has after encoding.", 13),
            "constants": _map(
                "Other public numbers, usable in every expression.", _number("The value of the constant.", 5, "sqrt(d)"), _NAME
            ),
            "from": source,
            "encode": _map(
                "How columns become numbers: declared by the author, never learned from the records.",
                _text('one-hot(k), levels("a", "b"), range(a, b), standard(mean, deviation) or bounds auto.', "one-hot(9)", "range(0, 84)"),
            ),
            "intercept": _flag("Append a constant coordinate to x."),
            "sensitivity": _word("Whether the records need protection.", "private", "public"),
            "unit": {
                "description": "Whose participation is protected: what one record stands for, or the records with one identifier.",
                "oneOf": [
                    _text("The word for it.", "person", "household"),
                    _object(
                        "Several records a unit: told apart by a column, and how much of one counts.",
                        {
                            "name": _text("The word for it.", "person"),
                            "identified-by": _text("The column whose equal cells are one unit.", "id"),
                            "rows": _number("How many records of one unit count at most, kept at random.", 3),
                            "groups": _number("In how many groups of a `group by` one unit counts at most.", 2),
                        },
                    ),
                ],
            },
            "neighbours": _word("When two data sets are neighbours. Part of every sensitivity.", "replace-one", "add-remove", "zero-out"),
            "domain": _map(
                "The declared set of each variable, and with `by` how the executor makes records fit it.",
                _text(
                    f"SET [by scale | clip | shrink(t) | reject | map(a -> b, ...)], SET one of: {_SET}.",
                    "ball(l2, 1) by scale",
                    "[-2, 2] by clip",
                    "{-1, 1} by map(0 -> -1, 1 -> 1)",
                ),
                _NAME,
            ),
        },
    )


def _privacy() -> dict[str, Any]:
    public = {
        "description": "Unlabelled public records from the same law as the private ones.",
        "oneOf": [
            _object(
                "The public records.",
                {
                    "variable": _text("Which variable they have.", "x", pattern=_NAME),
                    "m": _number("How many.", 10000),
                    "path": _text("The file that holds them.", "public.csv"),
                },
            ),
            _text("The same in one text.", "public x (m = 10_000)"),
        ],
    }
    whole = _object(
        "Who is trusted, and how much may be spent.",
        {
            "model": _word(
                "central: a trusted curator. nldp: every user randomises once, without interaction. sldp: users answer in turn.",
                "central",
                "nldp",
                "sldp",
            ),
            "labels-only": _flag("Only y needs protection."),
            "attribute": _flag("One attribute of a record at a time is protected."),
            "online": _flag("Records arrive one after the other and are released on as they arrive."),
            "public": public,
            "epsilon": _number("The budget, pure or with delta approximate differential privacy.", 1, "log(3)"),
            "delta": _number("The mass on which epsilon may fail, strictly between 0 and 1.", "1/n^1.1"),
            "rho": _number("The budget in zero-concentrated differential privacy.", 0.1),
            "mu": _number("The budget in Gaussian differential privacy.", 0.5),
        },
        ("model",),
        oneOf=_exactly_one("epsilon", "rho", "mu"),
        dependencies={"delta": ["epsilon"]},
    )
    return whole


def _release() -> dict[str, Any]:
    tasks = ("minimise", "estimate", "regress", "fit", "answer", "infer")
    return _object(
        "One thing to publish: exactly one task, and how.",
        {
            "minimise": _text(
                "A loss in w, x, y and the constants, or a named loss; `pairwise` one in w, x1, y1, x2, y2.",
                "log(1 + exp(-y*<w, x>)) + 0.01/2*|w|^2",
                "logistic",
                "pairwise (1 - (y1 - y2)*<w, x1 - x2>)^2",
            ),
            "estimate": _text(
                ", ".join(word.example for word in STATISTICS.values()) + ", theta in y = <theta, x> + noise, "
                "theta in y ~ glm(link), or "
                "theta in y = f(<theta, x>) + noise.",
                "mean(x)",
                "count where age >= 65",
                "theta in y = <theta, x> + noise",
            ),
            "regress": _text("Kernel ridge regression.", "y on kernel(rbf, 1)"),
            "fit": _text("A latent variable model.", "gmm(2)", "mixture-of-regressions(2)", "regression-with-missing(0.1)"),
            "answer": _text("A class of queries.", "marginals(3)", "smooth-queries(2)"),
            "infer": {"const": "truth from labels", "description": "The true labels from those of workers of unknown quality."},
            "over": _text(f"The constraint set of minimise and estimate: {_SET}.", "ball(l2, 1)", "R^d"),
            "by": _text("The algorithm with its options, or auto.", "auto", "dp-svrg with epochs = 8"),
            "expect": _text("A target: MEASURE <= VALUE [with probability P].", "excess-empirical-risk <= 0.05 with probability 0.95"),
            "share": _number("The weight of this release in the common budget.", 2),
            "part": _number("The disjoint fraction of the records that this release uses.", "1/2"),
        },
        oneOf=_exactly_one(*tasks),
    )


def _study() -> dict[str, Any]:
    values = {
        "description": "The values to run through.",
        "oneOf": [
            {"type": "array", "minItems": 1, "description": "The values, one by one.", "items": _number("One value.", 1e4)},
            _text("A list or a grid in one text.", "log-grid(1e3, 1e6, 7)"),
        ],
    }
    return _object(
        "What study mode repeats, sweeps and compares.",
        {
            "vary": _map("Sweeps of n, d, m, a budget that the spec gives, or a constant.", values, _NAME),
            "trials": _number("How many independent repetitions of each point.", 50),
            "seed": _number("The seed of the whole study.", 7),
            "compare": {
                "type": "array",
                "description": "Algorithms to run side by side.",
                "items": _text("An algorithm.", "dp-gd"),
            },
        },
    )


def json_schema() -> dict[str, Any]:
    """The schema as a JSON-able dict, freshly built."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": ID,
        "title": "dpspec analysis",
        **_object(
            "A differentially private analysis.",
            {
                "dpspec": {"const": 1, "description": "The version of the language."},
                "analysis": _text("The name of the analysis.", "income model"),
                "data": _data(),
                "privacy": _privacy(),
                "assume": {
                    "type": "array",
                    "description": "What is assumed of data and loss. Accuracy may rest on it; privacy may not.",
                    "items": _text(
                        "NAME[(arguments)] [of x | y | gradient | noise].",
                        "lipschitz(1)",
                        "sub-gaussian(1) of x",
                        "moment(order 2, bound 10) of gradient",
                        "eigenvalues in [1/2, 2]",
                    ),
                },
                "releases": {
                    **_map("What is published, by name.", _release(), _RELEASE_NAME),
                    "minProperties": 1,
                },
                "simulate": {
                    "type": "array",
                    "description": "The data law of study mode, one law a variable; parameters before what uses them.",
                    "items": _text("VARIABLE ~ LAW or VARIABLE = EXPRESSION.", "x ~ normal(0, I)", "y = <theta, x> + student-t(3)"),
                },
                "study": _study(),
            },
            ("dpspec", "analysis", "data", "privacy", "releases"),
        ),
    }
