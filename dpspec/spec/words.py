"""The words of the field that more than one part reads, each with what it means: relations, models, assumptions, losses, laws, budgets.

One table a kind. The language, the compiler, the audit and the importers take their words from here, so that none of them knows a word
that another one does not; ``tests/house/test_words.py`` holds every word to a meaning. Words of one part alone stay there: event kinds
in the audit, options in a card, measures beside their functions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from dpspec.spec.assumptions import ASSUMPTIONS as ASSUMPTIONS
from dpspec.spec.assumptions import LOSS_CLAIMS as LOSS_CLAIMS
from dpspec.spec.assumptions import READ as READ
from dpspec.spec.assumptions import Assumption as Assumption
from dpspec.spec.assumptions import assumed as assumed
from dpspec.spec.assumptions import spellings as spellings

# ------------------------------------------------------------------------------------------------------------ relations

Neighbours: TypeAlias = Literal["replace-one", "add-remove", "zero-out"]
NEIGHBOURS: Final[tuple[Neighbours, ...]] = get_args(Neighbours)


@dataclass(frozen=True, slots=True)
class Relation:
    """What two neighbouring data sets are. ``replacing``: a record may turn into any other, so that a norm bound C moves a sum by up
    to 2C. ``also``: other words for it, lower case, blanks for hyphens, underscores and slashes."""

    means: str
    replacing: bool
    also: tuple[str, ...] = ()


RELATIONS: Final[Mapping[str, Relation]] = {
    "replace-one": Relation(
        "one record is replaced by another; the number of records is the same",
        True,
        (
            *("replace", "replacement", "substitution", "substitute", "substitute one", "change one", "change one distance"),
            *("swap", "swap one", "hamming", "hamming distance", "bounded", "bounded dp"),
        ),
    ),
    "add-remove": Relation(
        "one record is there or not; the number of records is private",
        False,
        (
            *("add or remove", "add or remove one", "add remove one", "insert delete"),
            *("symmetric", "symmetric distance", "symmetric difference", "unbounded", "unbounded dp"),
        ),
    ),
    "zero-out": Relation(
        "one record is as it is or a row of zeros; the number of records is the same",
        False,
        ("zero", "zeroing", "zeroed", "replace special", "replace null", "replace with null"),
    ),
    "local-replace": Relation("one user's record is replaced by another, seen by whoever reads the user's message", True, ("local",)),
}


def relation_of(text: str) -> str | None:
    """The word of :data:`RELATIONS` that ``text`` means, whatever stands between its parts; None when it means none."""
    plain = " ".join(text.lower().replace("-", " ").replace("_", " ").replace("/", " ").split())
    return next((word for word, r in RELATIONS.items() if plain == word.replace("-", " ") or plain in r.also), None)


# --------------------------------------------------------------------------------------------------------------- models

Model: TypeAlias = Literal["central", "nldp", "sldp"]
MODELS: Final[tuple[Model, ...]] = get_args(Model)
LOCAL: Final[tuple[Model, ...]] = ("nldp", "sldp")

#: Whom a user has to trust. The first three are models of specs; deployments name the others too.
TRUST: Final[Mapping[str, str]] = {
    "central": "a curator holds the records and publishes noisy results",
    "sldp": "each user randomises their own record; a round may depend on the messages before it",
    "nldp": "each user randomises their own record, once, in one round",
    "local": "each user randomises their own record; in how many rounds is not said",
    "shuffle": "users randomise, and a shuffler takes away who sent what",
    "federated": "users send updates to a server that adds noise to their sum",
    "tool": "a library that somebody else deploys",
}

#: How a budget of each kind is written.
BUDGETS: Final[Mapping[str, str]] = {
    "pure": "epsilon alone (pure)",
    "approx": "epsilon with a delta",
    "zcdp": "rho (zCDP)",
    "gdp": "mu (Gaussian DP)",
}

# ------------------------------------------------------------------------------------------------------------ statistics

StatisticWord: TypeAlias = Literal[
    "mean",
    "covariance",
    "correlation",
    "second-moment",
    "precision",
    "subspace",
    "count",
    "sum",
    "variance",
    "histogram",
    "quantile",
    "median",
]


@dataclass(frozen=True, slots=True)
class Statistic:
    """A word of ``estimate``. ``of``: the ``records`` x, one ``column`` (or y), ``either``, or ``nothing``. ``least`` and ``most``: how
    many
    numbers follow; ``example``: how it is written."""

    means: str
    of: Literal["records", "column", "either", "nothing"]
    example: str
    least: int = 0
    most: int = 0


#: What ``estimate`` may ask for. Grammar, printers, schema and the checks of a spec read this table.
STATISTICS: Final[Mapping[StatisticWord, Statistic]] = {
    "mean": Statistic("the mean of the records, or of a column", "either", "mean(x)"),
    "covariance": Statistic("the covariance of the records", "records", "covariance(x)"),
    "correlation": Statistic("the correlations of the columns of the records", "records", "correlation(x)"),
    "second-moment": Statistic("E x x^T", "records", "second-moment(x)"),
    "precision": Statistic("the inverse of the second moment", "records", "precision(x)"),
    "subspace": Statistic("the span of the k leading directions of the second moment", "records", "subspace(x, 3)", 1, 1),
    "count": Statistic("how many records there are, or satisfy a condition", "nothing", "count where age >= 65"),
    "sum": Statistic("the sum of a column", "column", "sum(age)"),
    "variance": Statistic("the variance of a column (divided by how many records there are)", "column", "variance(age)"),
    "histogram": Statistic("how many records have each level, or lie between edges", "column", "histogram(age, 0, 20, 40, 60)", 0, 1000),
    "quantile": Statistic("quantiles of a column", "column", "quantile(age, 0.25, 0.5, 0.75)", 1, 100),
    "median": Statistic("the median of a column", "column", "median(age)"),
}

#: How a condition of `count where` compares.
Order: TypeAlias = Literal["<", "<=", ">", ">=", "="]
ORDERS: Final[tuple[Order, ...]] = get_args(Order)

# ------------------------------------------------------------------------------------------------- losses, regularisers, laws

#: Losses that have a name. How many parameters each takes is known to dpspec.symbolic.
LOSSES = frozenset(
    [
        "absolute",
        "auc",
        "biweight",
        "cauchy",
        "exponential",
        "hinge",
        "huber",
        "linear",
        "logistic",
        "logistic-glm",
        "metric",
        "metric-hinge",
        "metric-logistic",
        "minimum-error-entropy",
        "multinomial",
        "poisson",
        "probit",
        "quantile",
        "ranking",
        "savage",
        "sigmoid",
        "smooth-hinge",
        "smoothed-hinge",
        "squared",
        "squared-hinge",
    ]
)

#: Regularisers: ``l1(0.1)*norm``, ``ridge(0.1)``, ``group(w, 5)``. What each means is known to dpspec.symbolic.
REGULARISERS = frozenset(("l1", "l2", "ridge", "lasso", "elastic-net", "group", "group-lasso"))

#: Covariances of a component of a mixture, ``gmm(3, diagonal)``; the first where none is named.
COVARIANCES = ("spherical", "diagonal")

#: Laws of study mode, for suggestions; dpspec.data.laws decides what is a law.
LAWS = frozenset(
    [
        "ball",
        "banded",
        "bernoulli",
        "bernoulli-logistic",
        "beta",
        "categorical-logistic",
        "cauchy",
        "centered",
        "centred",
        "chi2",
        "constant",
        "dense",
        "diagonal",
        "exponential",
        "gamma",
        "gmm",
        "group-sparse",
        "identity",
        "laplace",
        "log-logistic",
        "log-normal",
        "logistic",
        "loglogistic",
        "lognormal",
        "missing",
        "mixture",
        "normal",
        "one-coin",
        "pareto",
        "poisson",
        "rademacher",
        "sigmoid",
        "sign",
        "simplex",
        "sparse",
        "sphere",
        "spiked",
        "student-t",
        "toeplitz",
        "uniform",
        "uniform-ball",
        "uniform-cube",
        "uniform-sphere",
        "weibull",
    ]
)
