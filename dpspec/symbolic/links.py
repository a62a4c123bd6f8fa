"""Losses of regression models: y = f(<theta, x>) + noise, and generalised linear models."""

from __future__ import annotations

from dpspec.spec.expr import Bin, Call, Expr, Inner, Name, Neg, Norm, Num, num

_MARGIN = Inner(Name("w"), Name("x"))

#: The loss of a generalised linear model by its link; the labels are 0/1 for logistic and counts for poisson.
GLM_LOSSES = {"logistic": "logistic-glm", "linear": "squared", "identity": "squared", "poisson": "poisson", "log": "poisson"}


def glm_loss(link: str) -> Expr:
    """The negative log-likelihood A(u) - y*u of a link, up to terms without w, as a named loss. Raises KeyError for an unknown link."""
    return Name(GLM_LOSSES[link])


def link_mean(link: Expr) -> Expr:
    """f(<w, x>) for a link f written in the scalar ``u``: as a loss, its derivatives in the margin are those of f."""
    return _at_margin(link)


def link_loss(link: Expr) -> Expr:
    """(f(<w, x>) - y)^2/2 for a link f written in the scalar ``u``."""
    return Bin("/", Bin("^", Bin("-", _at_margin(link), Name("y")), num(2)), num(2))


def _at_margin(e: Expr) -> Expr:
    match e:
        case Name(id="u"):
            return _MARGIN
        case Num() | Name():
            return e
        case Neg(operand=a):
            return Neg(_at_margin(a), e.span)
        case Norm(operand=a, order=order):
            return Norm(_at_margin(a), order, e.span)
        case Bin(op=op, left=a, right=b):
            return Bin(op, _at_margin(a), _at_margin(b), e.span)
        case Inner(left=a, right=b):
            return Inner(_at_margin(a), _at_margin(b), e.span)
        case Call(function=f, args=args):
            return Call(f, tuple(_at_margin(a) for a in args), e.span)
