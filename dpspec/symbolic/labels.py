"""Whether the labels of a domain are those that a loss is written for: what a user would otherwise learn from useless weights."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dpspec.numeric.rounding import show
from dpspec.symbolic.losses import recognise
from dpspec.symbolic.normal import Poly, const, substitute, variables


def unfit(form: Poly, values: Sequence[Fraction]) -> str | None:
    """What is wrong with a finite set of labels for the loss phi(u, y), or None. Exact: by the normal form with the label put in.

    A label for which the loss does not depend on the margin u has no say. A loss of the product y*u with labels of one sign, the logistic
    loss of a mean with a label outside [0, 1] and the Poisson loss with one below 0 push some predictions one way without end.
    """
    silent = [v for v in values if "u" not in variables(substitute(form, {"y": const(v)}))]
    if silent:
        return f"at y = {show(silent[0])} the loss is the same for every w, so records with this label have no say"
    named = recognise(form)
    if named is None or not values:
        return None
    if named.family == "product" and (min(values) > 0 or max(values) < 0):
        return f"{named.name} is a loss of y*<w, x>, and with labels of one sign alone every prediction is pushed to that sign"
    if named.name == "logistic-glm" and not all(0 <= v <= 1 for v in values):
        wrong = next(v for v in values if not 0 <= v <= 1)
        return f"{named.name} is written for labels 0 and 1; at y = {show(wrong)} it pushes <w, x> one way without end"
    if named.name == "poisson" and min(values) < 0:
        return f"poisson is written for counts; at y = {show(min(values))} it pushes <w, x> down without end"
    return None
