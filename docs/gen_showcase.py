"""Runs the sparse showcase and writes its page and reports: ``python docs/gen_showcase.py [--data FOLDER]``; ``--render`` only writes the
reports again, from the results that are kept in docs/showcase.

One problem under four notions of privacy: simulated (specs/showcase/sparse-four-models-*.dps), scikit-learn's diabetes data, and the
public/private split of Adult when FOLDER holds ``priv.csv`` and ``pub.csv``. All data are public or simulated, so errors may be measured.

Every file ends with the digest of what stands above it, and tests/docs/test_showcase.py renders the reports again: an edit by hand, or a
change of the renderer without ``--render``, fails there.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "docs" / "showcase"
MODELS = {"central": "trusted curator", "labels": "responses private", "sldp": "one gradient a user", "nldp": "one message a user"}

#: Real records: the same four algorithms, clips in the units of the standardised columns.
REAL = {
    "central": (
        "central",
        "dp-iht-subgaussian with clip = residual, T = {T}, kept = {d}, K_x = 3, K_y = {y}, tau_res = 2*{y}, eta = {eta}",
    ),
    "labels": ("nldp labels only", "label-ldp-iht with y_clip = {y}, kept = {d}, T = 40, eta = {eta}"),
    "sldp": ("sldp", "ldp-iht with T = 4, kept = {d}, tau1 = 3, tau2 = {y}, clip = residual, tau_res = {y}, eta = {eta}"),
    "nldp": ("nldp", "nldp-sparse-linear-regression with r = {r}, tau2 = {y}"),
    "nldp, public features": (
        "nldp\n  with public x (m = {m})",
        "nldp-sparse-linear-regression-public with r = {r}, tau2 = {y}",
    ),
}
SPEC = """analysis "{name}, {model}"

data
  n = {n}, d = {d}
  from memory
  public, unit person, neighbours replace-one
  x in ball(linf, 3) by clip
  y in [-{y}, {y}] by clip

privacy {privacy}
  epsilon = 1{delta}

assume
  sparse({d})
  sub-gaussian(1) of x

release theta
  estimate theta in y = <theta, x> + noise
  by {by}

study
  vary epsilon in [{epsilons}]
  trials 20, seed 7
"""


def diabetes() -> tuple[Any, Any, None]:
    """442 patients. Columns have l2 norm one, so 21 x has unit variance; the response is centred and scaled by fixed numbers."""
    from sklearn.datasets import load_diabetes

    found = load_diabetes()
    return found.data * 21.0, (found.target - 150.0) / 200.0, None


def adult(folder: Path) -> tuple[Any, Any, Any]:
    """Five columns, standardised by constants from the public half; the response is -1/2 or 3/2 (income above 50,000)."""
    columns = ("age", "education-num", "sex", "capital-gain", "hours-per-week")
    halves = []
    for file in ("pub.csv", "priv.csv"):
        header = (folder / file).open(encoding="utf-8").readline().strip().split(",")
        table = np.loadtxt(folder / file, delimiter=",", skiprows=1)
        halves.append((table[:, [header.index(c) for c in columns]], 2 * table[:, header.index("income>50K")] - 0.5))
    (public, _), (x, y) = halves
    mean, scale = public.mean(axis=0), public.std(axis=0)
    return (x - mean) / scale, y, (public - mean) / scale


def simulated() -> Iterator[tuple[str, Any]]:
    from dpspec.executor.study import study
    from dpspec.lang.source import parse_text

    for model in MODELS:
        path = f"specs/showcase/sparse-four-models-{model}.dps"
        yield model, study(parse_text((ROOT / path).read_text(encoding="utf-8"), path), workers=1)


def real(name: str, x: Any, y: Any, public: Any, epsilons: str, eta: float, rounds: int) -> Iterator[tuple[str, Any]]:
    from dpspec.executor.study import study
    from dpspec.lang.source import parse_text

    n, d = x.shape
    bound = float(np.ceil(10 * np.abs(y).max()) / 10)
    m = 0 if public is None else len(public)
    for model, (privacy, by) in REAL.items():
        if "public" in model and public is None:
            continue
        r = float(np.ceil(2 * np.sqrt(d)))
        delta = "" if model == "sldp" else ", delta = 1e-6"  # its reports are pure
        fill = {"d": d, "y": bound, "r": r, "m": m, "eta": eta, "T": rounds}
        body = SPEC.format(
            name=name, model=model, n=n, privacy=privacy.format(**fill), by=by.format(**fill), epsilons=epsilons, delta=delta, **fill
        )
        memory = (x, y) if "public" not in model else {"x": x, "y": y, "public_x": public}
        yield model, study(parse_text(body, surface="dps"), workers=1, memory=memory)


def rows(results: list[tuple[str, Any]], variable: str) -> list[str]:
    """A table: one line a model, one column a value of ``variable``; mean l2 error and the 95% interval of the mean."""
    points = {model: result.to_json()["points"] for model, result in results}
    values = [p["at"][variable] for p in next(iter(points.values()))]
    out = ["| model | algorithm | " + " | ".join(f"{variable} = {v:,g}" for v in values) + " |", "|---|---|" + "---|" * len(values)]
    for model, found in points.items():
        cells = []
        for p in found:
            low, high = p["error"]["ci95"]
            cells.append(f"{p['error']['mean']:.3g} [{low:.3g}, {high:.3g}]")
        out.append(f"| {model} | {found[0]['algorithm']} | " + " | ".join(cells) + " |")
    return out


def ordering(results: list[tuple[str, Any]], variable: str) -> list[str]:
    """For each value: which neighbours of the order central < labels < sldp < nldp have intervals that do not overlap."""
    points = {model: result.to_json()["points"] for model, result in results if model in MODELS}
    out = []
    for i, first in enumerate(points["central"]):
        said = []
        for a, b in zip(list(MODELS)[:-1], list(MODELS)[1:], strict=True):
            (low, high), (low2, high2) = points[a][i]["error"]["ci95"], points[b][i]["error"]["ci95"]
            said.append(f"{a} {'<' if high < low2 else '>' if high2 < low else '~'} {b}")
        out.append(f"- {variable} = {first['at'][variable]:,g}: " + ", ".join(said))
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="a folder with priv.csv and pub.csv of Adult")
    parser.add_argument("--render", action="store_true", help="run nothing; write the reports again from the kept results")
    args = parser.parse_args()
    if args.render:
        write_pages(KEPT)
        return
    sim = list(simulated())
    KEPT.mkdir(parents=True, exist_ok=True)
    for model, result in sim:
        kept(model).write_text(json.dumps(result.to_json(), separators=(",", ":")) + "\n", encoding="utf-8")
    write_pages(KEPT)
    text = [
        "# Sparse regression under four notions of privacy",
        "",
        "The documents' central story as one experiment: the same problem, released by a trusted curator, with private responses only,",
        "with one gradient a user in rounds, and with one message a user. Numbers are mean l2 errors of theta (|theta| = 1 in the",
        "simulation) with the 95% interval of the mean; `<` where two intervals do not overlap, `~` where they do.",
        "This page is written by `python docs/gen_showcase.py`.",
        "",
        "## Simulated: d = 16, two non-zeros, epsilon = 2, delta = 1e-8",
        "",
        *rows(sim, "n"),
        "",
        "The order:",
        "",
        *ordering(sim, "n"),
        "",
        "What the bounds say of the noise: central `k log d/(n epsilon)`, labels `sqrt(k log d/n)/epsilon`, sequential local",
        "`sqrt(d k/n)/epsilon` (with clipped residuals), non-interactive local `d sqrt(k/n)/epsilon` and n of order d^3 before the",
        "covariance can be inverted. Specs: `specs/showcase/sparse-four-models-{central,labels,sldp,nldp}.dps`.",
    ]
    x, y, _ = diabetes()
    found = list(real("diabetes", x, y, None, "1, 4, 16", 0.4, 4))
    text += [
        "",
        "## Diabetes (scikit-learn): n = 442, d = 10",
        "",
        "Errors are distances from least squares on the same records. The non-interactive estimate is 0 throughout (its threshold is above",
        "every coefficient), so its error is the norm of least squares: whatever is larger is worse than saying nothing. With 442",
        "patients only the label-private model is better than that, at epsilon 16; the curator comes close.",
        "",
        *rows(found, "epsilon"),
        "",
        *ordering(found, "epsilon"),
    ]
    if args.data is not None and (args.data / "priv.csv").is_file():
        x, y, public = adult(args.data)
        found = list(real("adult", x, y, public, "1, 4, 16", 0.7, 40))
        text += [
            "",
            "## Adult, public and private halves: n = 32,384, five columns, m = 3,238 public records",
            "",
            "Income on age, education, sex, capital gain and hours; columns standardised by the public half. Errors are distances from",
            "least squares on the private half. Capital gain has little variance after clipping, so few rounds leave a bias: the four of",
            "the sequential model show it, the curator and the label-private server take forty.",
            "",
            *rows(found, "epsilon"),
            "",
            *ordering(found, "epsilon"),
        ]
    (ROOT / "docs" / "showcase-sparse.md").write_text(stamped("\n".join(text) + "\n\n"), encoding="utf-8")


def stamped(text: str) -> str:
    """The text with its digest as a last line."""
    return f"{text}<!-- written by docs/gen_showcase.py; sha256 of the above: {hashlib.sha256(text.encode()).hexdigest()} -->\n"


def kept(model: str) -> Path:
    """The results of a simulated study."""
    return KEPT / f"sparse-four-models-{model}.json"


def write_pages(folder: Path) -> None:
    """The report of each kept study as an HTML page, as ``dpspec report`` writes it."""
    from dpspec.cli.report import with_trade_off
    from dpspec.report.html import page

    for model in MODELS:
        body = json.loads(kept(model).read_text(encoding="utf-8"))
        text = stamped(page(with_trade_off(body, kept(model))))
        (folder / f"sparse-four-models-{model}.html").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
