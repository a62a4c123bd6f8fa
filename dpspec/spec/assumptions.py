"""The registry of assumptions: each of them once, with its words, what it speaks of, what follows from it, and how it is proved or tested.

The compiler (facts, needs of cards, refutations), the docs (docs/assumptions.md) and the editors read this table. A task may add words
that it alone reads (``tasks.protocol.Task.assumes``); they have the same form. A word that is in neither is an error (DP226).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Assumption:
    """``facts``: the names that its arguments get, for tunables and bounds. ``loss``: a certificate proves or refutes it. ``centred``: it
    says that a mean is 0. ``also``: other words for the same. ``of``: what it may be said of, the one that is meant where ``of`` is left
    out first; empty where it is said of one thing only and ``of`` adds nothing. ``args``: its arguments as an author writes them
    (``names``: those that may be given by a word, in order); ``interval``: they are the ends of one.
    ``implies``: words that hold of the same target where it does. ``test``: the procedure of :mod:`dpspec.data.refute` or
    :mod:`dpspec.data.refute_loss` that a simulated law is held against, or empty; of a word that a certificate decides, where it is said
    of the population. ``shown``: how it is proved, or why it is neither proved nor tested."""

    means: str
    facts: tuple[str, ...] = ()
    loss: bool = False
    centred: bool = False
    also: tuple[str, ...] = ()
    of: tuple[str, ...] = ()
    args: str = ""
    names: tuple[str, ...] = ()
    interval: bool = False
    implies: tuple[str, ...] = ()
    test: str = ""
    shown: str = ""

    @property
    def most(self) -> int:
        """How many constants it takes."""
        return max(len(self.facts), self.args.count(",") + 1 if self.args else 0)


_RECORDS: Final = ("x", "y", "gradient", "noise", "public")
_LOSS: Final = ("loss", "gradient", "population")
_PROVED: Final = "proved or refuted by the certificate of the loss over the enforced domains"
_OPEN: Final = "the author's word: nothing here decides it"

ASSUMPTIONS: Final[Mapping[str, Assumption]] = {
    "lipschitz": Assumption("|grad| <= L for every record", loss=True, of=_LOSS, args="(L)", shown=_PROVED),
    "smooth": Assumption("the gradient moves by at most B |w - v|", loss=True, of=_LOSS, args="(B)", shown=_PROVED, test="smooth"),
    "strongly-convex": Assumption(
        "the risk minus m/2 |w|^2 is convex",
        loss=True,
        of=_LOSS,
        args="(m)",
        implies=("convex", "pl", "rsc", "one-point-convex"),
        shown=_PROVED,
        test="strongly_convex",
    ),
    "convex": Assumption("the loss is convex in w", loss=True, of=_LOSS, shown=_PROVED, test="strongly_convex"),
    "weakly-convex": Assumption("the risk plus r/2 |w|^2 is convex", of=_LOSS, args="(r)", test="weakly_convex"),
    "hessian-lipschitz": Assumption("the Hessian of a record moves by at most M |w - v|", of=_LOSS, args="(M)", shown=_OPEN),
    "self-concordant": Assumption("|phi'''| <= M phi''^(3/2)", of=_LOSS, args="(M)", shown=_OPEN),
    "dissipative": Assumption("<w, grad F(w)> >= m |w|^2 - b", of=_LOSS, args="(m, b)", shown=_OPEN),
    "pl": Assumption("|grad|^2 >= 2 m (risk - its least value)", ("pl",), of=_LOSS, args="(m)", also=("polyak-lojasiewicz",), test="pl"),
    "one-point-convex": Assumption("<grad F(w), w - w*> >= a |w - w*|^2 within r of w*", of=_LOSS, args="(a, r)", test="one_point_convex"),
    "rsc": Assumption(
        "the risk is strongly convex along sparse w",
        also=("restricted-strongly-convex", "restricted-strong-convexity"),
        of=_LOSS,
        args="(m)",
        test="rsc",
    ),
    "restricted-smooth": Assumption(
        "the risk is smooth along sparse w", also=("rss", "restricted-smoothness"), of=_LOSS, args="(M)", test="restricted_smooth"
    ),
    "sub-gaussian": Assumption(
        "E exp(<u, x>) <= exp(s^2 |u|^2/2)",
        ("sigma",),
        centred=True,
        of=_RECORDS,
        args="(s)",
        also=("subgaussian",),
        implies=("sub-exponential", "moment", "centred"),
        test="sub_gaussian",
    ),
    "sub-exponential": Assumption(
        "E exp(<u, x>) <= exp(s^2 |u|^2/2) for |u| <= 1/s",
        ("sub_exponential",),
        of=_RECORDS,
        args="(s)",
        also=("subexponential",),
        implies=("moment",),
        test="sub_exponential",
    ),
    "moment": Assumption(
        "E |x_j|^p <= t for every coordinate",
        ("moment_order", "moment_bound"),
        of=_RECORDS,
        args="(order p, bound t)",
        names=("order", "bound"),
        test="moment",
    ),
    "sparse": Assumption("at most k entries are not zero", ("k",), of=("theta", "x", "covariance"), args="(k)", test="sparse"),
    "isotropic": Assumption("the covariance of x is the identity", of=("x",), implies=("eigenvalues",), test="isotropic"),
    "eigenvalues": Assumption(
        "the covariance of x has its eigenvalues in [a, b]",
        ("eig_min", "eig_max"),
        of=("x",),
        args=" in [a, b]",
        interval=True,
        test="eigenvalues",
    ),
    "eigengap": Assumption(
        "lambda_k - lambda_{k+1} >= g > 0 of the covariance of x", ("gap",), also=("eigen-gap",), of=("x",), args="(g)", test="eigengap"
    ),
    "incoherence": Assumption(
        "two coordinates of x correlate by at most m", also=("incoherent",), of=("x", "public"), args="(m)", test="incoherence"
    ),
    "small-ball": Assumption(
        "P(|<u, x>| >= r) >= p for every unit u",
        also=("anti-concentration", "anti-concentrated"),
        of=("x",),
        args="(p, r)",
        test="small_ball",
    ),
    "margin": Assumption("y <w, x>/|w| >= g for every record at the true w", also=("separable",), of=("x",), args="(g)", test="margin"),
    "noise-bounded": Assumption(
        "|noise| <= C in the model of y", ("noise_bound",), also=("bounded-noise",), of=("noise",), args="(C)", test="noise_bounded"
    ),
    "rip": Assumption(
        "the design nearly keeps the length of sparse vectors",
        also=("restricted-isometry",),
        of=("x", "public"),
        args="(delta)",
        implies=("restricted-eigenvalue",),
        test="rip",
    ),
    "restricted-eigenvalue": Assumption(
        "E <w, x>^2 >= m |w|^2 for sparse w",
        also=("restricted-eigenvalues",),
        of=("x", "public"),
        args="(m)",
        test="restricted_eigenvalue",
    ),
    "monotone": Assumption(
        "the link f has its slopes in [a, b], a > 0", ("slope_min", "slope_max"), args="(a, b)", interval=True, shown=_OPEN
    ),
    "symmetric": Assumption("x and -x have one law", centred=True, of=("x", "y", "noise"), implies=("centred",), test="symmetric"),
    "centred": Assumption(
        "the mean is 0", centred=True, also=("centered", "zero-mean", "mean-zero"), of=("x", "y", "noise", "gradient"), test="centred"
    ),
}

#: Words that something reads besides a test: a constant, a certificate, a mean of 0, or the need of a card (a house test compares).
_OF_CARDS: Final = frozenset(("isotropic", "rsc", "rip", "restricted-eigenvalue", "sparse"))
READ: Final = frozenset(word for word, a in ASSUMPTIONS.items() if a.facts or a.loss or a.centred or word in _OF_CARDS)

LOSS_CLAIMS: Final = tuple(word for word, a in ASSUMPTIONS.items() if a.loss)


def assumed(name: str, of: str | None = None) -> str:
    """The word of :data:`ASSUMPTIONS` that an assumption means: ``restricted-strongly-convex`` is ``rsc``, and ``bounded of noise`` is
    ``noise-bounded``; a word that is in no table is returned as it is."""
    if name == "bounded" and of == "noise":
        return "noise-bounded"
    return next((word for word, a in ASSUMPTIONS.items() if name == word or name in a.also), name)


def constants(a: Assumption, args: Sequence[Value], options: Sequence[tuple[str, Value]]) -> tuple[list[Value], str]:
    """The constants of a statement in the order of the registry, those given by name included; and what is wrong with them, or nothing."""
    if len(args) > a.most:
        return list(args[: a.most]), f"takes {a.most or 'no'} constant{'s' * (a.most != 1)}, and has {len(args)}"
    found = list(args)
    rest = dict(options)
    for name in a.names[len(args) :]:
        if name not in rest:
            break
        found.append(rest.pop(name))
    if rest:
        named = next(iter(rest))
        if named not in a.names:
            return found, f"has no constant `{named}`"
        return found, f"has its `{named}` twice, or without `{a.names[len(found)] if len(found) < len(a.names) else named}`"
    return found, ""


def spellings() -> tuple[str, ...]:
    """Every word that stands for an assumption, for suggestions."""
    return (*ASSUMPTIONS, *(other for a in ASSUMPTIONS.values() for other in a.also), "bounded")


def target(word: str, of: str | None) -> str | None:
    """What a statement speaks of: what it says after ``of``, or what the word means without it."""
    a = ASSUMPTIONS.get(word)
    if of is not None or a is None or not a.of:
        return of
    return a.of[0]


def gives(stated: str, of: str | None, need: str, targets: Iterable[str]) -> bool:
    """Whether the statement ``stated of of`` gives ``need`` of one of ``targets`` (of what the word means where there are none)."""
    wanted = tuple(targets) or ((ASSUMPTIONS[need].of[:1]) if need in ASSUMPTIONS else ())
    word = assumed(stated, of)
    a = ASSUMPTIONS.get(word)
    if word != need and (a is None or need not in a.implies):
        return False
    about = target(word, of)
    return not wanted or about is None or about in wanted
