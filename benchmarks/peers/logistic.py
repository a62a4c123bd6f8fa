"""Excess empirical risk of peers' private logistic regression, in the protocol of benchmarks/convex_data.py.

    VENV/bin/python benchmarks/peers/logistic.py DATA_DIR --tool {diffprivlib,dp-gd,opacus} [--out FILE]

in the environments of setup.sh (dp-gd: either of them; it needs NumPy and SciPy). One JSON line a cell; cells that FILE holds are skipped.
A tuned method picks its setting on the private data free of charge, so it shows its reach and could not be used as it is: every
setting of the grid on a few seeds, then the best of them on more seeds, none of which is measured.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import math
import sys
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from benchmarks import convex_data
from benchmarks.convex_data import DELTA, LAM, TUNING_SEEDS, Problem, Results

TAILS = (0.0, 0.25, 0.5)  # share of the last iterates that is averaged; 0: the last iterate


def tune(settings: list[Any], score: Any, first: int, best: int, then: int) -> Any:
    """The setting of least mean error over ``then`` seeds among the ``best`` over ``first`` others.

    ``score(settings, seeds)`` is an array (settings, seeds) of errors; a setting that diverges has an infinite one.
    """

    def ranked(candidates: list[Any], seeds: range) -> list[Any]:
        mean = np.nan_to_num(score(candidates, seeds).mean(axis=1), nan=np.inf)
        return [candidates[i] for i in np.argsort(mean, kind="stable")]

    short = ranked(settings, range(TUNING_SEEDS, TUNING_SEEDS + first))[:best]
    return ranked(short, range(TUNING_SEEDS + first, TUNING_SEEDS + first + then))[0]


def record(
    results: Results,
    p: Problem,
    method: str,
    epsilon: float,
    runs: int,
    pick: Any,
    fit: Any,
    *,
    packages: tuple[str, ...],
    calibrate: Any = None,
    **facts: Any,
) -> None:
    """The cell of ``fit(setting, seed)`` -> weights (d,) for the seeds 0 .. runs - 1, ``pick()`` the setting; nothing if it is there."""
    if results.has(p.name, method, epsilon):
        return
    started = time.process_time()
    setting = pick()
    tuning = time.process_time() - started
    errors, seconds = [], []
    for seed in range(runs):
        started = time.process_time()
        w = fit(setting, seed)
        seconds.append(time.process_time() - started)
        errors.append(float(p.excess(w)))
    hyper = setting._asdict()
    if calibrate is not None:
        hyper["noise"] = calibrate(setting.batches, setting.steps, epsilon)
    facts = {
        "side": "peer",
        "relation": "replace-one",
        "guarantee": f"(eps, {DELTA:g})",
        "tuned": True,
        "clipping": False,
        **facts,
        "hyper": hyper,
        "tuning_seconds": tuning,
        "versions": convex_data.versions(*packages, "numpy", "scipy"),
    }
    cell = convex_data.row(p, method, epsilon, errors, seconds, **facts)
    results.add(cell)
    print(f"{p.name}  eps {epsilon:g}  {method}: {cell['excess_mean']:.3g}  {cell['hyper']}", file=sys.stderr, flush=True)


# ---------------------------------------------------------------------------------------------------------- diffprivlib


class Penalty(NamedTuple):
    penalty: float


def diffprivlib(p: Problem, epsilon: float, runs: int, results: Results) -> None:
    """Objective perturbation of Chaudhuri, Monteleoni and Sarwate (2011), pure epsilon, replace-one. ``penalty`` is its ridge weight."""
    from diffprivlib.models import LogisticRegression

    def fit(s: Penalty, seed: int) -> Any:
        model = LogisticRegression(
            epsilon=epsilon, data_norm=1.0, C=1 / (s.penalty * p.n), fit_intercept=False, max_iter=1000, random_state=seed
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return model.fit(p.x, p.y).coef_[0]

    def score(settings: list[Penalty], seeds: range) -> Any:
        return np.array([[p.excess(fit(s, seed)) for seed in seeds] for s in settings])

    def tuned() -> Penalty:
        return tune([Penalty(LAM * k) for k in (0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0, 100.0)], score, 3, 3, 10)

    put = functools.partial(record, results, p, packages=("diffprivlib", "scikit-learn"), guarantee="eps (pure)")
    put("diffprivlib, matched", epsilon, runs, lambda: Penalty(LAM), fit, tuned=False)
    put("diffprivlib, tuned", epsilon, runs, tuned, fit)


# ------------------------------------------------------------------------------------------------ full-batch DP-GD, NumPy


class Descent(NamedTuple):
    steps: int
    rate: float
    momentum: float
    clip: float
    tail: float


FIXED = Descent(steps=100, rate=4.0, momentum=0.0, clip=1.0, tail=0.5)
_MOVES = [(rate, 0.0) for rate in (1.0, 2.0, 4.0, 8.0, 12.0, 16.0, 24.0)] + [(rate, 0.9) for rate in (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)]


def descents(epsilon: float, clips: tuple[float, ...]) -> list[Descent]:
    """The grid. 400 steps only where 200 are often best: from epsilon 2 on."""
    steps = (10, 30, 60, 100, 200) + ((400,) if epsilon >= 2 else ())
    return [Descent(t, r, m, c, tail) for t in steps for r, m in _MOVES for c in clips for tail in TAILS]


def gaussian_mu(epsilon: float) -> float:
    """mu of the Gaussian mechanism N(mu, 1) against N(0, 1) that is exactly (epsilon, DELTA): Balle and Wang (2018), Theorem 8."""

    def excess_delta(mu: float) -> float:
        return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)) - DELTA

    return float(brentq(excess_delta, 1e-6, 50.0))


def descend(p: Problem, settings: list[Descent], epsilon: float, seeds: Any, dtype: Any = np.float64) -> dict[Descent, Any]:
    """Weights (seeds, d) of every setting; the settings have the same number of steps T, and run side by side.

    The gradient of a record's loss is -r y x with 0 < r < 1 and |x| = 1, so clipping it to c is r -> min(r, c). Replacing a record
    moves the mean by at most 2c/n in l2; T Gaussian draws of scale s compose to mu = 2c sqrt(T)/(n s) (Dong, Roth and Su 2022).
    """
    (steps,) = {s.steps for s in settings}
    paths = list(dict.fromkeys(s._replace(tail=0.0) for s in settings))
    rate, momentum, clip = (
        np.repeat([getattr(s, f) for s in paths], len(seeds)).astype(dtype)[:, None] for f in ("rate", "momentum", "clip")
    )
    scale = 2 * clip * math.sqrt(steps) / (p.n * gaussian_mu(epsilon))
    generators = [np.random.default_rng(seed) for seed in seeds]
    yx = (p.x * p.y[:, None]).astype(dtype)
    w = np.zeros((len(rate), p.d), dtype)
    velocity = np.zeros_like(w)
    kept = {tail: max(1, math.ceil(tail * steps)) for tail in TAILS}
    sums = {tail: np.zeros_like(w) for tail in TAILS}
    with np.errstate(over="ignore", invalid="ignore"):  # diverging settings
        for step in range(steps):
            g = LAM * w + scale * np.tile([r.standard_normal(p.d) for r in generators], (len(paths), 1))
            for rows in (yx[i : i + 4096] for i in range(0, p.n, 4096)):
                g -= np.minimum(1 / (1 + np.exp(w @ rows.T)), clip) @ rows / p.n
            velocity = momentum * velocity + g
            w = (w - rate * velocity).astype(dtype)
            for tail in TAILS:
                if step >= steps - kept[tail]:
                    sums[tail] += w
    weights = {tail: (sums[tail] / kept[tail]).reshape(len(paths), len(seeds), p.d) for tail in TAILS}
    return {s: weights[s.tail][paths.index(s._replace(tail=0.0))] for s in settings}


def dp_gd(p: Problem, epsilon: float, runs: int, results: Results) -> None:
    def score(settings: list[Descent], seeds: range) -> Any:
        errors = {}
        for steps in sorted({s.steps for s in settings}):
            some = [s for s in settings if s.steps == steps]
            for s, w in descend(p, some, epsilon, seeds, np.float32).items():
                with np.errstate(over="ignore", invalid="ignore"):
                    errors[s] = p.excess(w.T)
        return np.array([errors[s] for s in settings])

    def fit(s: Descent, seed: int) -> Any:
        return descend(p, [s], epsilon, [seed])[s][0]

    def clipped() -> Descent:
        unclipped = Descent(**results.get(p.name, "NumPy DP-GD, tuned", epsilon)["hyper"])
        return tune([unclipped, *descents(epsilon, (0.5, 0.25))], score, 3, 10, 10)

    put = functools.partial(record, results, p, packages=())
    put("NumPy DP-GD, one fixed setting", epsilon, runs, lambda: FIXED, fit, tuned=False)
    put("NumPy DP-GD, tuned", epsilon, runs, lambda: tune(descents(epsilon, (1.0,)), score, 3, 10, 10), fit)
    put("NumPy DP-GD, tuned with clipping", epsilon, runs, clipped, fit, clipping=True)


# ----------------------------------------------------------------------------------------------------------------- opacus


class Sgd(NamedTuple):
    batches: int  # Poisson sampling at rate 1/batches
    steps: int
    rate: float
    momentum: float
    clip: float
    tail: float


_PLANS = ((20, 100), (20, 200), (5, 50), (5, 200))  # batches, steps
_SGD_MOVES = ((1.0, 0.0), (4.0, 0.0), (12.0, 0.0), (24.0, 0.0), (0.5, 0.9), (1.0, 0.9), (2.0, 0.9))


@functools.cache
def replace_one_noise(batches: int, steps: int, epsilon: float) -> float:
    """Noise over the clipping norm for (epsilon, DELTA) under replace-one, by dp_accounting's privacy loss distributions.

    opacus has no such accountant. The grid of losses is at most epsilon/10,000: the stock one of 1e-4 adds noise at small epsilon.
    """
    import dp_accounting
    from dp_accounting import pld

    def event(noise: float) -> Any:
        return dp_accounting.SelfComposedDpEvent(
            dp_accounting.PoissonSampledDpEvent(1 / batches, dp_accounting.GaussianDpEvent(noise)), steps
        )

    def accountant() -> Any:
        return pld.PLDAccountant(dp_accounting.NeighboringRelation.REPLACE_ONE, value_discretization_interval=1e-4 * min(1.0, epsilon))

    about = 2 * math.sqrt(steps) / (batches * gaussian_mu(epsilon))  # the limit of many draws of much noise
    bracket = dp_accounting.ExplicitBracketInterval(about / 3, 3 * about + 1)
    return float(dp_accounting.calibrate_dp_mechanism(accountant, event, epsilon, DELTA, bracket, tol=1e-4 * about))


@functools.cache
def add_remove_noise(batches: int, steps: int, epsilon: float) -> float:
    """The same for add/remove, by opacus's own PRV accountant."""
    from opacus.accountants.utils import get_noise_multiplier

    return float(
        get_noise_multiplier(
            target_epsilon=epsilon,
            target_delta=DELTA,
            sample_rate=1 / batches,
            steps=steps,
            accountant="prv",
            epsilon_tolerance=0.01 * epsilon,
        )
    )


class _Rows:
    """A map-style data set of torch tensors that answers a whole batch at once (the stock one collates row by row)."""

    def __init__(self, x: Any, y: Any) -> None:
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, i: Any) -> Any:
        return self.x[i], self.y[i]

    __getitems__ = __getitem__


def sgd(p: Problem, s: Sgd, noise: float, seed: int) -> dict[float, Any]:
    """Weights (d,) after DP-SGD as opacus does it (Poisson batches, single precision), for every one of TAILS."""
    import torch
    from opacus import PrivacyEngine

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    rows = _Rows(torch.tensor(p.x, dtype=torch.float32), torch.tensor(p.y, dtype=torch.float32))
    model = torch.nn.Linear(p.d, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=s.rate, momentum=s.momentum, weight_decay=LAM)
    loader = torch.utils.data.DataLoader(rows, batch_size=math.ceil(p.n / s.batches), collate_fn=lambda batch: batch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, optimizer, loader = PrivacyEngine().make_private(
            module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=noise, max_grad_norm=s.clip
        )
        assert math.isclose(loader.sample_rate, 1 / s.batches)
        kept = {tail: max(1, math.ceil(tail * s.steps)) for tail in TAILS}
        sums = {tail: np.zeros(p.d) for tail in TAILS}
        batches = itertools.chain.from_iterable(itertools.repeat(loader))
        for step, (x, y) in enumerate(itertools.islice(batches, s.steps)):
            optimizer.zero_grad()
            torch.nn.functional.softplus(-y * model(x)[:, 0]).mean().backward()
            optimizer.step()
            for tail in TAILS:
                if step >= s.steps - kept[tail]:
                    sums[tail] += model._module.weight.detach().numpy()[0]
    return {tail: sums[tail] / kept[tail] for tail in TAILS}


def opacus(p: Problem, epsilon: float, runs: int, results: Results) -> None:
    """Tuned; then the tuned setting with smaller clipping norms and larger steps around it; then with opacus's own accounting."""

    def score(settings: list[Sgd], seeds: range) -> Any:
        paths: dict[Sgd, list[dict[float, Any]]] = {}
        for s in (s._replace(tail=0.0) for s in settings):
            if s not in paths:
                noise = replace_one_noise(s.batches, s.steps, epsilon)
                paths[s] = [{tail: p.excess(w) for tail, w in sgd(p, s, noise, seed).items()} for seed in seeds]
        return np.array([[run[s.tail] for run in paths[s._replace(tail=0.0)]] for s in settings])

    def tuned() -> Sgd:
        return tune([Sgd(b, t, r, m, 1.0, a) for b, t in _PLANS for r, m in _SGD_MOVES for a in TAILS], score, 1, 8, 3)

    def base() -> Sgd:
        return Sgd(**{f: results.get(p.name, "opacus DP-SGD, tuned", epsilon)["hyper"][f] for f in Sgd._fields})

    def clipped() -> Sgd:
        s = base()
        around = [s._replace(clip=c, rate=s.rate * k, tail=a) for c in (0.5, 0.25) for k in (1, 2, 4) for a in TAILS]
        return tune([s, *around], score, 1, 6, 3)

    def put(method: str, pick: Any, calibrate: Any, **facts: Any) -> None:
        def fit(s: Sgd, seed: int) -> Any:
            return sgd(p, s, calibrate(s.batches, s.steps, epsilon), seed)[s.tail]

        packages = ("opacus", "torch", "dp-accounting")
        record(results, p, method, epsilon, runs, pick, fit, packages=packages, calibrate=calibrate, **facts)

    put("opacus DP-SGD, tuned", tuned, replace_one_noise)
    put("opacus DP-SGD, tuned with clipping", clipped, replace_one_noise, clipping=True)
    put("opacus DP-SGD, its own accounting", base, add_remove_noise, relation="add/remove")


TOOLS = {"diffprivlib": diffprivlib, "dp-gd": dp_gd, "opacus": opacus}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder with adult.csv and a9a")
    parser.add_argument("--tool", choices=sorted(TOOLS), required=True)
    parser.add_argument("--out", type=Path, help="file of JSON lines to append to; without it, standard output")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--data", nargs="+", choices=sorted(convex_data.LOADERS), default=sorted(convex_data.LOADERS, reverse=True))
    parser.add_argument("--eps", nargs="+", type=float, default=list(convex_data.EPSILONS))
    args = parser.parse_args()
    results = Results(args.out)
    for name in args.data:
        p = convex_data.problem(name, args.folder)
        for epsilon in args.eps:
            TOOLS[args.tool](p, epsilon, args.runs, results)


if __name__ == "__main__":
    main()
