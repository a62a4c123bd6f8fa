"""Norms are taken in dpspec.numeric.norms. The source of everything else is read for norms by other means; those that stay have a reason.

Found are: functions that give norms or normalise; a product of a vector with itself that is summed or whose root is taken (``x @ x``,
``einsum("ij,ij->i", x, x)``, ``(x * x).sum()``, ``x**2`` under a sum, ``sqrt(x**2)``); sums of magnitudes (``abs(x).sum()``), that is l1.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

STUDY = "a study's own numbers: simulated or public data, never computed in a release"
AFTER = "post-processing: an iterate or a matrix that was released already"
PUBLIC = "public numbers: levels, weights of a penalty, losses of an accountant"
PROVED = "a clip at a public level far above the subnormals, its rounding proved in its docstring and counted in the sensitivity"
#: Folders and files, and why nothing in them carries the privacy of a record.
WHOLE = {
    "dpspec/audit/": "judges descriptions and releases of others on samples that it makes itself",
    "dpspec/symbolic/": "expressions of public facts; it sees no record",
    "dpspec/measures/": STUDY,
    "dpspec/executor/summary.py": STUDY,
    "dpspec/data/laws.py": STUDY,
    "dpspec/data/refute_loss.py": STUDY,
    "dpspec/privacy/pld.py": PUBLIC,
    "dpspec/privacy/search.py": PUBLIC,
    "dpspec/privacy/spent.py": PUBLIC,
    "dpspec/privacy/second.py": PUBLIC,
    "dpspec/algorithms/sparse/iht.py": STUDY + " (a reference)",
    "dpspec/algorithms/sparse/soft_thresholded_ols.py": STUDY + " (a reference)",
    "dpspec/algorithms/matrix/_fantope.py": AFTER,
    "dpspec/algorithms/second_order.py": AFTER + ": steps from noisy gradients and Hessians",
    "dpspec/algorithms/nldp_erm/_bernstein.py": AFTER + " or nodes of a public grid; a client's report is a point of the grid",
}
#: (file, function), and why.
ALLOWED = {
    ("dpspec/algorithms/heavy_tailed/robust_gd.py", "run"): STUDY,
    ("dpspec/privacy/noise.py", "_add"): "the largest entry of a value, to see that all are finite and fit the grid's integers: no norm",
    ("dpspec/algorithms/em/_clusters.py", "log_densities"): "shares of a record, in [0, 1] and of sum 1 whatever the densities are",
    ("dpspec/algorithms/em/_clusters.py", "statistics"): PROVED,
    ("dpspec/algorithms/em/_clusters.py", "weighted_means"): AFTER,
    ("dpspec/algorithms/em/_clusters.py", "_spread"): AFTER,
    ("dpspec/algorithms/em/dp_em.py", "moved"): AFTER,
    ("dpspec/algorithms/em/dp_gradient_em_clipped.py", "clipped_gradient"): PROVED,
    ("dpspec/algorithms/em/em.py", "climb"): STUDY + " (a reference)",
    ("dpspec/algorithms/nldp_erm/_chebyshev.py", "battery"): PUBLIC,
    ("dpspec/algorithms/convex_erm/dp_gd.py", "bound_terms"): PUBLIC,
    ("dpspec/data/refute.py", "centred"): STUDY,
    ("dpspec/data/refute.py", "margin"): STUDY,
    ("dpspec/algorithms/restarts.py", "starts"): STUDY + " (starting points of a reference)",
    ("dpspec/privacy/channels/_sphere.py", "_squares"): STUDY + " (sums of reports by their law)",
    ("dpspec/privacy/channels/_sphere.py", "sums_of_blocks"): STUDY + " (sums of reports by their law)",
    ("dpspec/privacy/wire.py", "_norms"): "reports, which were randomized already: a collector refuses those that no client sends",
    ("dpspec/algorithms/nldp_erm/_chebyshev.py", "energy"): PUBLIC,
    ("dpspec/algorithms/nldp_erm/ldp_direct_perturbation.py", "chosen"): PUBLIC,
    ("dpspec/algorithms/nldp_erm/ldp_direct_perturbation.py", "predicted"): PUBLIC,
    ("dpspec/algorithms/nldp_erm/ldp_sgll.py", "fitted"): PUBLIC,
    ("dpspec/algorithms/nldp_erm/ldp_sgll.py", "_across"): PUBLIC,
    ("dpspec/algorithms/nldp_erm/ldp_sgll.py", "_along"): PUBLIC,
    ("dpspec/algorithms/nldp_erm/ldp_sgll.py", "gradient"): AFTER,
    ("dpspec/algorithms/nldp_erm/ldp_sgll.py", "synopsis"): PUBLIC,
    ("dpspec/algorithms/nldp_erm/_polynomial_loss.py", "gradient"): AFTER,
    ("dpspec/algorithms/pairwise/_printed.py", "chain"): PUBLIC,
    ("dpspec/algorithms/nonconvex_erm/exponential_mechanism_net.py", "_regularisers"): "points of a public net",
    ("dpspec/algorithms/statistics/_moments.py", "spread"): PUBLIC,
    ("dpspec/algorithms/statistics/_residuals.py", "coarse"): PUBLIC,
    ("dpspec/algorithms/statistics/dp_centred_covariance.py", "released"): AFTER,
    ("dpspec/algorithms/statistics/dp_least_squares.py", "solved"): AFTER,
    ("dpspec/algorithms/statistics/dp_marginals.py", "typical"): PUBLIC,
    ("dpspec/algorithms/statistics/dp_mean.py", "run"): AFTER,
    ("dpspec/algorithms/statistics/dp_mean.py", "placed"): AFTER,
    ("dpspec/privacy/mechanisms/gaussian_keys.py", "tail"): "weights of the law of the noise: squares of its own whole numbers",
    ("dpspec/privacy/mechanisms/row_selection.py", "distance"): "how far apart two replayed scores are, for the conformance suite",
    ("dpspec/tasks/kernel_regression.py", "squared_error"): STUDY,
    ("dpspec/tasks/latent.py", "log_loss"): STUDY,
    ("dpspec/tasks/marginals.py", "average"): STUDY,
    ("dpspec/tasks/mixture.py", "matched"): STUDY,
    ("dpspec/tasks/mixture.py", "means_error"): STUDY,
    ("dpspec/algorithms/em/_steps.py", "start"): PUBLIC,
    ("dpspec/algorithms/em/gradient_em.py", "climb"): STUDY + " (a reference)",
    ("dpspec/ledger/verify.py", "_again"): PUBLIC,
    ("dpspec/tasks/latent.py", "up_to_sign"): STUDY,
    ("dpspec/tasks/minimise_metric.py", "regulariser"): "as of minimise_pairwise",
    ("dpspec/tasks/minimise_pairwise.py", "regulariser"): "the value of the objective: measures and references ask for it, no release does",
    ("dpspec/algorithms/card.py", "penalty_slope"): PUBLIC,
    ("dpspec/algorithms/mirror.py", "_l1"): AFTER,
    (
        "dpspec/algorithms/convex_erm/_solve.py",
        "value",
    ): "the value of the objective steers a line search; the stopping rule takes norm()",
    ("dpspec/algorithms/convex_erm/dp_gd.py", "explicit_bounds"): PUBLIC,
    (
        "dpspec/algorithms/matrix/_lasso.py",
        "graphical_lasso",
    ): "the step of a solver; its result is certified by a duality gap",
    ("dpspec/algorithms/matrix/_lasso.py", "_certified"): "an l1 penalty, which neither underflows nor divides anything",
    ("dpspec/compiler/centred.py", "centred"): PUBLIC,
    ("dpspec/tasks/_declared.py", "largest_coordinate"): STUDY,
    ("dpspec/tasks/_declared.py", "squares"): STUDY,
    ("dpspec/executor/enforced.py", "add"): STUDY,
    ("dpspec/executor/enforced.py", "_weights"): STUDY,
    ("dpspec/algorithms/objective.py", "regulariser"): "the public penalty of an iterate",
    ("dpspec/algorithms/objective.py", "smooth"): STUDY + " (the reference `optimum`)",
    ("dpspec/algorithms/objective.py", "optimum"): STUDY + " (the reference `optimum`)",
    ("dpspec/algorithms/sets.py", "project_l1"): AFTER,
    ("dpspec/algorithms/sets.py", "_shrink_l1"): AFTER,
    ("dpspec/algorithms/sets.py", "h"): AFTER,
    ("dpspec/algorithms/sparse/label_ldp_lasso.py", "lasso"): "public features and released responses",
    ("dpspec/algorithms/sparse/nldp_sparse_linear_regression.py", "solve"): AFTER,
    (
        "dpspec/privacy/mechanisms/smooth_sensitivity.py",
        "apply",
    ): "the law of the noise itself: squares of fresh normals",
    (
        "dpspec/privacy/mechanisms/smooth_student_vector.py",
        "apply",
    ): "the law of the noise itself: squares of fresh normals",
    (
        "dpspec/algorithms/heavy_tailed/sample_and_aggregate.py",
        "minimisers",
    ): "steps of a solver on one block; its point may be any point of the set",
}

FUNCTIONS = {"norm", "vector_norm", "matrix_norm", "normalize", "dist", "cdist", "pdist", "nrm2", "dnrm2", "cosine_similarity"}
SUMS = {"sum", "reduce", "reduceat", "mean", "cumsum", "fsum", "trace"}
ROOTS = {"sqrt"}
PRODUCTS = {"dot", "vdot", "inner", "einsum", "multiply", "matmul", "tensordot"}
MAGNITUDES = {"abs", "fabs", "absolute"}


def called(node: ast.AST) -> str:
    if not isinstance(node, ast.Call):
        return ""
    f = node.func
    return f.attr if isinstance(f, ast.Attribute) else f.id if isinstance(f, ast.Name) else ""


def same(a: ast.AST, b: ast.AST) -> bool:
    return ast.dump(a) == ast.dump(b)


def constant(node: ast.AST) -> bool:
    return all(isinstance(n, (ast.Constant, ast.UnaryOp, ast.BinOp, ast.operator, ast.unaryop)) for n in ast.walk(node))


def squared(node: ast.AST) -> bool:
    """x*x, x**2, np.square(x), x.multiply(x) of something that is no constant."""
    match node:
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return same(left, right) and not constant(left)
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=2)):
            return not constant(left)
        case ast.Call():
            return called(node) == "square" or (called(node) == "multiply" and own_product(node))
    return False


def own_product(node: ast.AST) -> bool:
    """x @ x, dot(x, x), einsum(..., x, x)."""
    match node:
        case ast.BinOp(left=left, op=ast.MatMult(), right=right):
            return same(left, right)
        case ast.Call(args=args) if called(node) in PRODUCTS:
            given = [a for a in args if not isinstance(a, ast.Constant)]
            if isinstance(node.func, ast.Attribute) and called(node) in ("dot", "multiply") and len(given) == 1:
                given.insert(0, node.func.value)
            return len(given) == 2 and same(*given)
    return False


def inside(node: ast.Call) -> list[ast.AST]:
    """What a reduction reduces: its arguments, and what it is a method of."""
    found: list[ast.AST] = [n for a in node.args for n in ast.walk(a)]
    if isinstance(node.func, ast.Attribute):
        found += list(ast.walk(node.func.value))
    return found


def norms_in(tree: ast.AST) -> list[int]:
    """Lines that take a norm."""
    lines = set()
    for node in ast.walk(tree):
        name = called(node)
        if own_product(node) and name != "multiply":
            lines.add(node.lineno)  # type: ignore[attr-defined]
        if not isinstance(node, ast.Call):
            continue
        if name in FUNCTIONS and not (isinstance(node.func, ast.Name) and name == "norm"):
            lines.add(node.lineno)
        if name == "hypot" and any(isinstance(a, ast.Starred) for a in node.args):
            lines.add(node.lineno)
        if name in SUMS and any(squared(n) or called(n) in MAGNITUDES for n in inside(node)):
            lines.add(node.lineno)
        if name in ROOTS and any(squared(n) for n in node.args):
            lines.add(node.lineno)
    return sorted(lines)


@cache
def places() -> dict[tuple[str, str], list[int]]:
    """Lines by (file, function)."""
    found: dict[tuple[str, str], list[int]] = {}
    for path in sorted((ROOT / "dpspec").rglob("*.py")):
        file = path.relative_to(ROOT).as_posix()
        if file.startswith(("dpspec/numeric/", *WHOLE)):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        functions = [n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
        for line in norms_in(tree):
            around = [f for f in functions if f.lineno <= line <= (f.end_lineno or f.lineno)]
            owner = max(around, key=lambda f: f.lineno).name if around else "(module)"
            found.setdefault((file, owner), []).append(line)
    return found


def test_no_norm_is_taken_elsewhere() -> None:
    new = {place: lines for place, lines in places().items() if place not in ALLOWED}
    assert not new, f"take norms of records from dpspec.numeric.norms, or state here why no privacy rests on them: {new}"


def test_no_reason_is_kept_for_nothing() -> None:
    assert not ALLOWED.keys() - places().keys()
    assert all((ROOT / path).exists() for path in WHOLE)


@pytest.mark.parametrize(
    "code",
    [
        "np.linalg.norm(x, axis=1)",
        "norms = np.sqrt(np.einsum('ij,ij->i', x, x))",
        "np.sqrt((x * x).sum(axis=1))",
        "np.sqrt((x**2).sum())",
        "math.sqrt(sum(v * v for v in x))",
        "math.sqrt(float(x @ x))",
        "np.add.reduceat(v * v, starts)",
        "np.sqrt(np.asarray(x.multiply(x).sum(axis=1)))",
        "np.dot(x, x)",
        "x.dot(x)",
        "np.abs(x).sum(axis=1)",
        "np.sum(np.abs(x), axis=1)",
        "math.hypot(*x)",
        "sklearn.preprocessing.normalize(x)",
        "np.square(x).sum()",
    ],
)
def test_the_search_finds(code: str) -> None:
    assert norms_in(ast.parse(code))


@pytest.mark.parametrize("code", ["x.T @ x", "np.einsum('ij,ij->i', u, v)", "math.sqrt(2.0) * r**2", "x.sum(axis=0)", "np.abs(x).max()"])
def test_the_search_leaves_alone(code: str) -> None:
    assert not norms_in(ast.parse(code))
