"""``minimise LOSS over SET``: the objective of a loss of one record, of one margin <w, x> or of several (multinomial, networks)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from dpspec.algorithms.card import Problem
from dpspec.measures.measure import Array, Trial
from dpspec.measures.risk import EXCESS_EMPIRICAL_RISK, EXCESS_POPULATION_RISK, LABEL_ERROR, POPULATION_LABEL_ERROR
from dpspec.measures.vector import DISTANCES, SUPPORT_ERROR
from dpspec.spec.model import Minimise
from dpspec.tasks.protocol import Binding, Reference, Refusal, Task, fitted, parameter


def certificate(node: Minimise, **known: Any) -> Any:
    """The constants of the loss, proved; ``known``: domains of x and y, names, claims."""
    from dpspec.symbolic.certify import certify

    return certify(node.loss, over=node.over, pairwise=node.pairwise, **known)


def bind(binding: Binding) -> Any:
    """The vectorised objective (:class:`dpspec.algorithms.objective.Objective`), its slopes brought into their certified range."""
    from dpspec.algorithms.objective import Objective
    from dpspec.algorithms.sets import constraint_set, group_norm
    from dpspec.symbolic.margin import margin_loss

    problem, proved = binding.problem, binding.certificate
    if proved is None:
        return None
    loss = problem.loss
    bounds = {} if loss is None else {"limit": loss.slope, "length": loss.lipschitz}
    over = constraint_set(binding.node.over, binding.facts)
    if proved.classes > 1:
        from dpspec.algorithms.multinomial import multinomial

        assert loss is not None
        alone = problem.neighbours == "add-remove"
        return multinomial(proved.classes, over, factor=float(proved.factor), l2=loss.l2, l1=loss.l1, alone=alone, **bounds)
    if proved.network is not None:
        from dpspec.algorithms.network import network

        assert loss is not None
        return network(
            proved.network,
            over,
            smooth=math.isfinite(loss.smooth),
            l2=loss.l2,
            l1=loss.l1,
            reach=loss.lipschitz / loss.slope if 0 < loss.slope < math.inf else 1.0,
            frobenius=loss.frobenius,
            alone=problem.neighbours == "add-remove",
            **bounds,
        )
    functions = replace(margin_loss(proved), limit=math.inf, curve=math.inf)  # the objective brings them into the certified range
    return Objective(
        phi=functions.value,
        slope=functions.derivative,
        curvature=functions.second,
        l2=loss.l2 if loss is not None else 0.0,
        l1=loss.l1 if loss is not None else 0.0,
        over=over,
        group=group_norm(loss.group, problem.d) if loss is not None else None,
        curve=loss.curve if loss is not None else math.inf,
        **bounds,
    )


def reference(records: Any, problem: Problem, settings: Mapping[str, Any]) -> Reference:
    """The minimiser on these records and the least value, :func:`dpspec.algorithms.objective.optimum`; where the loss is not proved to be
    convex the best of many restarts (:mod:`dpspec.algorithms.restarts`), which :func:`caveat` says."""
    from dpspec.algorithms.objective import optimum
    from dpspec.algorithms.restarts import best_of_restarts

    certain = problem.loss is None or bool(problem.loss.convex)
    return optimum(problem.oracle, records) if certain else best_of_restarts(problem.oracle, records)


def caveat(problem: Problem) -> str:
    """That the least value of a loss which need not be convex is the least one found."""
    from dpspec.algorithms.restarts import RESTARTS

    if problem.loss is None or problem.loss.convex:
        return ""
    return f"the loss is not proved to be convex: the reference is the best of {RESTARTS} local searches, and a smaller value may exist"


def truth(trial: Trial) -> Array:
    """The law's parameter; of a matrix of weights the minimiser (laws have vectors, and rows that differ by one vector classify alike)."""
    several = trial.problem.loss is not None and trial.problem.loss.several
    return fitted(trial) if several else parameter(trial)


def ceiling(problem: Problem, measure: str) -> float | None:
    """The risk of w = 0 above the least one, where 0 lies in the set: no record's loss there is further above the infimum, and over a set
    of radius R the mean loss falls by at most L R from 0 on (a penalty is least there)."""
    kind = getattr(problem.task.over, "kind", "")
    if (
        problem.loss is None
        or kind not in ("reals", "ball", "sparse")
        or measure not in ("excess-empirical-risk", "excess-population-risk")
    ):
        return None
    least = min(problem.loss.at_zero, problem.loss.lipschitz * problem.facts.get("w_radius", math.inf))
    return least if math.isfinite(least) else None


def check(binding: Binding) -> Iterator[Refusal]:
    """Of a network what compares weights, or reads a prediction off one margin, has no meaning: units may change places."""
    problem = binding.problem
    if problem.loss is None or problem.loss.network is None or problem.goal is None:
        return
    if problem.goal.measure in {m.name for m in (*DISTANCES, SUPPORT_ERROR, LABEL_ERROR, POPULATION_LABEL_ERROR)}:
        yield Refusal(
            f"{problem.goal.measure} has no meaning for a network: its units may change places, and its prediction is not one margin",
            "expect gradient-norm, excess-empirical-risk or excess-population-risk",
            ("expect",),
        )


TASK = Task(
    name="minimise",
    serves=lambda node: isinstance(node, Minimise) and not node.pairwise,
    words=("minimise",),
    measures=(EXCESS_EMPIRICAL_RISK, *DISTANCES, LABEL_ERROR, SUPPORT_ERROR, EXCESS_POPULATION_RISK, POPULATION_LABEL_ERROR),
    certificate=certificate,
    bind=bind,
    reference=reference,
    caveat=caveat,
    check=check,
    truth=truth,
    ceiling=ceiling,
    extremes="labels",
)
