"""The card: what an algorithm is, as data.

Formulas are text in the expression language of specs (``n, d, k, epsilon, delta, log, sqrt, ^``); :mod:`dpspec.symbolic` reads them.
Importing a card costs no numerical library.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from keyword import iskeyword
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeAlias

from typing_extensions import TypeVar

from dpspec.data.files import Rows
from dpspec.domains.variable import Variable
from dpspec.privacy.schedule import Tree
from dpspec.symbolic.groups import GroupTerm

if TYPE_CHECKING:
    from dpspec.algorithms.estimate import Estimate
    from dpspec.models.door import Door
    from dpspec.models.rows import Rows as Records

#: What an algorithm asks of the records, the least first. ``sums``: one pass over blocks, before its first draw; ``passes``: passes over
#: blocks; ``parts``: disjoint consecutive parts, a part at a time; ``rows``: single records by their place; ``whole``: all of them at once.
Reads: TypeAlias = Literal["sums", "passes", "parts", "rows", "whole"]
Role: TypeAlias = Literal["algorithm", "mechanism", "primitive", "reference", "cited"]


@dataclass(frozen=True, slots=True)
class Source:
    """``document``: 000 (the thesis) to 004, or ``literature`` with authors and year as the section; section, algorithm and theorems as
    printed there."""

    document: str
    section: str = ""
    algorithm: str = ""
    theorems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Need:
    """An assumption. Role ``privacy``: the guarantee fails without it, so it must be proved or enforced. Role ``utility``: the
    bound needs it, so it may be declared. ``name`` is the word of the spec's ``assume`` block, or ``x`` / ``y`` for a record domain.
    ``enforced_by``: how the algorithm itself makes it hold for any data ("each client clips its gradient to the radius"); empty when
    it has to come from the spec's domains or from a certificate. ``of``: what it is needed of (x, y, gradient), all of them; without it of
    what the word means where an author leaves ``of`` out."""

    name: str
    role: Literal["privacy", "utility"]
    statement: str
    enforced_by: str = ""
    of: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tunable:
    """``formula`` gives the default from public quantities only; ``A else B`` takes A where all of its names have values, else B.
    ``source`` says which theorem or argument it comes from."""

    formula: str
    source: str
    integer: bool = False
    minimum: float | None = None
    maximum: float | None = None


@dataclass(frozen=True, slots=True)
class Bound:
    """``expression`` in the spec's language. ``order`` bounds have an unspecified constant C; ``explicit`` ones have none.

    ``status``: ``proved`` (re-derived for this product), ``claimed`` (printed, not re-derived), ``refuted`` (printed and false).
    ``probability``: expression, or empty for a bound in expectation.

    When it holds, as data that the compiler evaluates (:mod:`dpspec.compiler.conditions`; a bound whose conditions fail is not compared
    with): ``needs``: words of the ``assume`` block, each with its target where it has several ("sub-gaussian of y"), or what a certificate
    proves ("convex"); ``options``: values of the algorithm's settings; ``guarantees``: kinds of budgets; ``when``: comparisons of
    expressions ("epsilon <= 1"; C is an unspecified constant, taken as 1); ``regime``: the least n at which it begins (C and ``A else B``
    as for a tunable). ``conditions``: what is left, in words.

    ``floor``: a part that no n removes. ``where``: what the names of the expression mean that are neither facts, settings nor noise
    scales; a module's ``bound_terms`` has their values.
    """

    measure: str
    kind: Literal["explicit", "order"]
    type: Literal["upper", "lower"]
    expression: str
    status: Literal["proved", "claimed", "refuted"]
    theorem: str
    probability: str = ""
    conditions: str = ""
    regime: str = ""
    needs: tuple[str, ...] = ()
    options: Mapping[str, str | float] = field(default_factory=dict, hash=False)
    guarantees: tuple[str, ...] = ()
    when: tuple[str, ...] = ()
    floor: str = ""
    where: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Fault:
    """What a document prints, what is true, and the test that shows it."""

    claim: str
    truth: str
    evidence: str
    severity: Literal["privacy", "utility", "text"]


def check_names(names: Iterable[str]) -> None:
    """Raises ValueError for a name that ``t.name`` would not find among the tunables: a method's, or one that Python cannot read there."""
    for name in names:
        if name.startswith("_") or not name.isidentifier() or iskeyword(name) or hasattr(Tunables, name):
            raise ValueError(f"no tunable or option may be called {name!r}: t.{name} would be something else")


@dataclass(frozen=True, slots=True)
class Card:
    id: str
    title: str
    family: str
    task: str  # kind of the task it serves: "minimise", "estimate-theta", ...
    models: tuple[str, ...]  # privacy models: central, nldp, sldp
    guarantees: tuple[str, ...]  # pure, approx, zcdp, gdp
    sources: tuple[Source, ...]
    summary: str
    needs: tuple[Need, ...] = ()
    tunables: Mapping[str, Tunable] = field(default_factory=dict)
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # word-valued options and their words, default first
    vectors: Mapping[str, str] = field(default_factory=dict)  # options that are public files of numbers, and what they hold
    bounds: tuple[Bound, ...] = ()
    no_bound: str = ""  # why ``bounds`` is empty: no document states one
    faults: tuple[Fault, ...] = ()
    cost: Mapping[str, str] = field(default_factory=dict)  # gradients, rounds, bits_per_user, memory_bytes
    role: Role = "algorithm"
    spec: str = ""  # gallery spec, relative to the project root
    #: Settings that say from whom the releases are hidden beside their readers, each with its value for a trusted curator: two plans that
    #: differ here promise different things at the same numbers.
    trust: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_names((*self.tunables, *self.options, *self.vectors))
        if twice := set(self.tunables) & set(self.options):
            raise ValueError(f"{self.id}: {', '.join(sorted(twice))} is both a tunable and an option")
        if odd := set(self.trust) - {*self.tunables, *self.options}:
            raise ValueError(f"{self.id}: trust names {', '.join(sorted(odd))}, which is no setting")

    #: What it asks of the records. A card that does not say is taken to need them all in memory.
    reads: Reads = "whole"
    #: Whether its sums over blocks go through :func:`dpspec.models.rows.each` alone, so that workers can compute them.
    spread: bool = False
    #: Word options that a target takes in the place of their defaults, where these promise nothing for it or less, and the options that an
    #: author must not have set for that (they belong to the default's way).
    certified: Mapping[str, str] = field(default_factory=dict)
    settled: tuple[str, ...] = ()

    #: Whether a covariance is centred by the algorithm itself, so that its name needs no mean of 0.
    centres: bool = False

    #: Whether its sensitivities count that one unit may have several records, and be in several groups (``Problem.rows``, ``.groups``).
    contributions: bool = False

    #: ``several``: it knows the loss by its certified constants, values and gradients alone, so it serves losses of several margins too
    #: (multinomial: K x d weights; networks). ``network``: it needs the Hessian too, which is known of phi(<w, x>, y) and of networks.
    #: ``one``: its proof or its code needs phi(<w, x>, y), and such losses are refused.
    margins: Literal["one", "network", "several"] = "one"


@dataclass(frozen=True, slots=True)
class Loss:
    """Certified constants of the per-record loss over the declared domains, and the functions that evaluate it.

    ``lipschitz`` bounds |grad_w loss(w; z)|_2 over the constraint set and the enforced record domain (regulariser excluded: its
    gradient is the same for every record and cancels in differences). ``margin``: the derivative phi' as a vectorised function
    of the margin or residual, for losses of the form phi(<w, x>, y).
    """

    name: str
    lipschitz: float
    smooth: float
    strongly_convex: float
    convex: bool
    l2: float  # weight of the ridge term lam/2 |w|^2
    l1: float  # weight of the l1 term
    evidence: str
    data_convex: bool = False  # every record's loss is convex *without* the ridge; ``convex`` counts the ridge in
    group: GroupTerm | None = None  # the group norm
    lipschitz_inf: float = math.inf  # bounds every coordinate of a record's gradient
    classes: int = 1  # K of a multinomial loss, whose weights are a K x d matrix; 1: phi(<w, x>, y), or a network
    network: Any = None  # dpspec.symbolic.network.Network: the hidden units of a network; None: a loss of one margin, or of classes
    frobenius: float = math.inf  # of a network: bounds the Hessian of a record in the Frobenius norm
    at_zero: float = math.inf  # a bound of the mean loss at w = 0, above its infimum (log 2 for the logistic loss, 1/2 for sigmoid)
    spread: float = math.inf  # of a loss of two records: how far apart the gradients of two pairs that share a record are
    local: Any = None  # dpspec.symbolic.certificate.Local: the gradients at weights of a given norm, where they are known
    slope: float = math.inf  # bounds |phi'| (of several margins: its l2 norm); ``lipschitz`` is this times the l2 bound of the records
    curve: float = math.inf  # bounds |phi''|
    least_curve: float = -math.inf  # a lower bound of phi''
    hessian: Any = None  # dpspec.symbolic.certificate.Third: how far apart the Hessians of a record are at two points
    error: Any = None  # dpspec.symbolic.running.SlopeError: how far a computed slope may be from the real one

    def lipschitz_at(self, norm: float) -> float:
        """Bounds |grad_w loss(w; z)|_2 over the enforced record domain at every w of the set with |w|_2 <= ``norm``."""
        return self.lipschitz if self.local is None else min(self.lipschitz, float(self.local.length(norm)))

    def spread_at(self, norm: float) -> float:
        """Bounds the distance of two records' gradients at every w of the set with |w|_2 = ``norm``, as they are computed: each within
        :meth:`gradient_error` of a real one, and the proof's own slopes, too."""
        if self.local is None:
            return 2 * self.lipschitz
        return min(2 * self.lipschitz, 2 * self.lipschitz_at(norm), float(self.local.spread(norm)) + 4 * self.gradient_error())

    def gradient_error(self) -> float:
        """How far the computed gradient of a record may be from the real one at the margin that was computed; infinite where nothing is
        proved. A loss made by hand is taken to round as 64 operations do."""
        if self.error is None:
            return 64 * 2.0**-53 * self.lipschitz
        if not math.isfinite(self.lipschitz):
            return math.inf
        return float(self.error.value()) * (self.lipschitz / self.slope) * (1 + 2.0**-40) if self.slope > 0 else 0.0

    @property
    def several(self) -> bool:
        """Whether it is a loss of several margins: of classes, or a network."""
        return self.classes > 1 or self.network is not None

    @property
    def rows(self) -> int:
        """Rows of the matrix of weights: classes, or hidden units."""
        return self.classes if self.network is None else int(self.network.width)

    def hessian_lipschitz(self) -> float:
        """Bounds |H(w; z) - H(v; z)|/|w - v| of a record's Hessians over the set; infinite where nothing is proved."""
        return math.inf if self.hessian is None else float(self.hessian.value())

    @property
    def smooth_penalty(self) -> bool:
        """Whether the regulariser is a ridge or nothing: no l1 term and no group norm."""
        return self.l1 == 0.0 and self.group is None

    def penalty_slope(self, d: int) -> float:
        """The largest l2 norm of a subgradient of the l1 term plus the group norm: l1 sqrt(d) + weight sqrt(sum_g c_g^2)."""
        group = 0.0 if self.group is None else self.group.weight * math.sqrt(sum(c * c for c in self.group.groups.weights(d)))
        return self.l1 * math.sqrt(d) + group


@dataclass(frozen=True, slots=True)
class Goal:
    """``expect MEASURE <= at_most with probability``: public numbers, as the author states them."""

    measure: str
    at_most: float
    probability: float | None = None


#: What a problem's task binds; an algorithm names it in its annotations, ``p: Problem[Objective]``.
Oracle = TypeVar("Oracle", default=Any)


@dataclass(frozen=True, slots=True)
class Problem(Generic[Oracle]):
    """The resolved, public facts that an algorithm may read. Nothing here is computed from private records.

    ``facts``: numbers by name: ``n``, ``d`` (the number of weights, or of what else is estimated: the d of every formula of a card),
    ``features`` (coordinates of x: another number only where the weights are a matrix), ``m`` (public records), ``x_l2``, ``x_linf``,
    ``y_abs`` (enforced record bounds, absent when not enforced), ``w_radius`` (l2 radius of the constraint set, absent when unbounded),
    declared constants (``k``, ``sigma``...), ``max_curve`` (sup|phi''| of a certified loss, where it is finite), what the task adds
    (``rank``), ``alpha`` (the target's error, where the spec has no constant of that name). ``task``: the node of the spec with its
    arguments, and its set with its radii and ends, as numbers. ``rows`` and ``groups``: how many records one unit has at most, and in how
    many groups of a `group by` they are; the executor sees to both. A relation is about one unit.
    """

    model: str
    neighbours: str
    task: Any
    facts: Mapping[str, float]
    modifiers: frozenset[str] = frozenset()  # labels-only, attribute, online, public
    loss: Loss | None = None
    oracle: Oracle = None  # type: ignore[assignment]  # what the algorithm asks, bound by the task: an objective with value, gradient and prox, votes, a latent model
    domains: Mapping[str, Variable] = field(default_factory=dict)  # of x and y: ``enforced`` is what a record is known to be
    goal: Goal | None = None  # what the spec expects
    public: Mapping[str, Rows] = field(default_factory=dict)  # rows of the files that are options, by option
    rows: int = 1
    groups: int = 1

    @property
    def objective(self) -> Oracle:
        """The oracle of a ``minimise`` task, :class:`dpspec.algorithms.objective.Objective`."""
        return self.oracle

    @property
    def n(self) -> int:
        return int(self.facts["n"])

    @property
    def d(self) -> int:
        return int(self.facts["d"])

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape that the weights are released in: (d,), or (K, features). Algorithms keep them as one vector, row after row."""
        rows = 1 if self.loss is None else self.loss.rows
        return (self.d,) if self.loss is None or not self.loss.several else (rows, self.d // rows)


class Tunables(Mapping[str, float]):
    """Resolved tunables, by attribute or key: ``t.T``, ``t["T"]``. Word-valued options too."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        check_names(values)
        self._values = dict(values)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(f"no tunable {name!r}") from None

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


class Algorithm(Protocol):
    """What a module of dpspec/algorithms/<family>/ provides; mypy checks each of them (tests/house/test_protocols.py).

    ``accepts`` names the first requirement that fails, or None; it and ``schedule`` see public facts alone, before the oracle is bound.
    """

    CARD: Card

    def accepts(self, p: Problem[Any], t: Tunables, /) -> str | None: ...

    def schedule(self, p: Problem[Any], t: Tunables, /) -> Tree: ...

    def run(self, records: Records, p: Problem[Any], t: Tunables, release: Door, /) -> Estimate: ...


class Reference(Protocol):
    """The same of a non-private reference: it draws nothing, so it has no schedule, and of a meter it takes public randomness alone."""

    CARD: Card

    def accepts(self, p: Problem[Any], t: Tunables, /) -> str | None: ...

    def run(self, records: Records, p: Problem[Any], t: Tunables, release: Door | None, /) -> Estimate: ...
