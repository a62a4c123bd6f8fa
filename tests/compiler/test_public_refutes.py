"""Assumptions against public records: data that the spec calls public, and the public x beside private ones. Never against private ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpspec.compiler import samples
from dpspec.compiler.draft import Chosen
from dpspec.compiler.passes import compile_draft
from dpspec.executor.study import study
from dpspec.lang.source import parse_file, parse_text
from dpspec.spec.diagnostics import SpecError

SPEC = """analysis "a"
data
  n = {n}, d = 3
  {source}
  {status}, unit person, neighbours replace-one
  {domain}
privacy {privacy}
  epsilon = 4, delta = 1e-6
  {beside}
assume
  {assume}
release r
  {release}
{more}
"""
MOMENT = "estimate second-moment(x)\n  by dp-covariance-gaussian"
N = 4_000


def rows(seed: int, n: int = N, scale: float = 1.0, y: bool = True) -> Any:
    """x ~ N(0, s^2 I) in three columns, y = x_1 + noise in [-1/2, 1/2]."""
    g = np.random.default_rng(seed)
    x = scale * g.standard_normal((n, 3))
    return np.column_stack([x, x[:, 0] + g.uniform(-0.5, 0.5, n)]) if y else x


def write(file: Path, table: Any) -> str:
    names = "a,b,c,y"[: 2 * table.shape[1] - 1]
    np.savetxt(file, table, delimiter=",", header=names, comments="", fmt="%.9g")
    return file.name


def spec(folder: Path, assume: str, **changes: str) -> Any:
    given = {
        "n": f"{N}",
        "source": 'from "data.csv" columns [a, b, c] target y',
        "status": "public",
        "domain": "x in ball(l2, 10) by scale",
        "privacy": "central",
        "beside": "",
        "release": MOMENT,
        "more": "study\n  trials 1, seed 1",
    }
    file = folder / "spec.dps"
    file.write_text(SPEC.format(**{**given, **changes}, assume=assume), encoding="utf-8")
    return parse_file(file)


def refuted(parsed: Any) -> list[str]:
    return [d.message for d in compile_draft(parsed).diagnostics if d.code == "DP225"]


FALSE = [
    ("eigenvalues in [5, 6] of x", "variance"),
    ("moment(order 2, bound 0.5) of x", "order 2"),
    ("sub-gaussian(1/2) of x", "second moment"),
    ("sub-gaussian(1/2) of y", "second moment"),
    ("eigen-gap(3) of x", "apart"),
    ("small-ball(0.9, 1) of x", "reach 1"),
]
TRUE = ["eigenvalues in [1, 1] of x", "sub-gaussian(1.1) of x", "moment(order 4, bound 3.2) of x", "centred of y", "incoherence(0.01) of x"]


@pytest.mark.parametrize(("assume", "reason"), FALSE)
def test_public_data_that_refute_an_assumption_are_an_error_in_check_and_study(tmp_path: Path, assume: str, reason: str) -> None:
    write(tmp_path / "data.csv", rows(1))
    parsed = spec(tmp_path, assume)
    (message,) = refuted(parsed)
    assert f"public records (data.csv) refute `{assume.partition('(')[0].partition(' ')[0]}" in message
    assert reason in message
    assert "4,000 public records" in message
    with pytest.raises(SpecError) as raised:
        study(parsed, workers=1)
    (found,) = [d for d in raised.value.diagnostics if d.code == "DP225"]
    assert found.severity == "error"
    assert "state what these records have" in found.help


@pytest.mark.parametrize("assume", TRUE)
def test_what_the_public_data_have_is_tested_at_a_stated_level(tmp_path: Path, assume: str) -> None:
    """True of the law that the file was drawn from, at its limit: in none of six files is it refuted."""
    for seed in range(6):
        write(tmp_path / "data.csv", rows(10 + seed))
        draft = compile_draft(spec(tmp_path, assume))
        assert not [d for d in draft.diagnostics if d.code == "DP225"]
        assert draft.tested == {0: "not refuted on the 4,000 public records of data.csv (level 1e-6)"}


def test_public_records_beside_private_ones_speak_of_x_and_the_private_file_is_not_opened(tmp_path: Path) -> None:
    """The private file has another law (and is not even there): nothing is said of it."""
    write(tmp_path / "public.csv", rows(2, 3_000, y=False))
    where: dict[str, str] = {"status": "private", "beside": 'with public x (m = 3000, path "public.csv")', "privacy": "nldp", "domain": ""}
    where |= {"release": "estimate theta in y = <theta, x> + noise\n  by nldp-sparse-linear-regression-public", "more": ""}
    false = "sparse(2)\n  eigenvalues in [5, 6] of x\n  sub-gaussian(1/100) of y\n  sub-gaussian(1) of x"
    (message,) = refuted(spec(tmp_path, false, **where))
    assert "public records (public.csv) refute `eigenvalues of x`" in message  # of y these records say nothing
    draft = compile_draft(spec(tmp_path, false.replace("[5, 6]", "[1, 1]"), **where))
    assert not [d for d in draft.diagnostics if d.code == "DP225"]
    assert set(draft.tested) == {1, 3}
    release = draft.releases[0]
    assert isinstance(release, Chosen)
    assert all("public.csv" in s.evidence for s in release.assumptions if s.status == "tested")


def test_private_data_are_never_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the private file holds, findings and plan are the same; no loader is called."""
    import dpspec.data.sources
    import dpspec.data.stream

    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("private records were read")

    for module, name in ((dpspec.data.sources, "load"), (dpspec.data.stream, "of_file")):
        monkeypatch.setattr(module, name, never)
    said = []
    for scale in (1.0, 30.0):
        write(tmp_path / "data.csv", rows(3, scale=scale))
        draft = compile_draft(spec(tmp_path, "eigenvalues in [1, 1] of x", status="private", more=""))
        said.append((draft.diagnostics, dict(draft.tested)))
    assert said[0] == said[1]
    assert said[0][1] == {}


def test_of_few_public_records_nothing_is_said(tmp_path: Path) -> None:
    write(tmp_path / "data.csv", rows(4, 150, scale=30.0))
    draft = compile_draft(spec(tmp_path, "eigenvalues in [1, 1] of x", n="150"))
    assert not [d for d in draft.diagnostics if d.code == "DP225"]
    assert draft.tested == {}


def test_a_sorted_file_is_looked_at_in_another_order_and_a_long_one_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = rows(5)
    write(tmp_path / "data.csv", table[table[:, 0].argsort()])
    monkeypatch.setattr(samples, "MOST", 3_000)
    draft = compile_draft(spec(tmp_path, "eigenvalues in [1, 1] of x"))
    assert draft.tested == {0: "not refuted on 3,000 of the 4,000 public records of data.csv (level 1e-6)"}
    assert refuted(spec(tmp_path, "eigenvalues in [2, 3] of x"))


def test_records_that_are_handed_over_are_looked_at_when_a_study_starts(tmp_path: Path) -> None:
    parsed = spec(tmp_path, "eigenvalues in [5, 6] of x", source="from memory", more="study\n  trials 1, seed 1")
    assert not refuted(parsed)
    x = rows(6, y=False)
    with pytest.raises(SpecError, match=r"public records \(memory\) refute `eigenvalues of x`"):
        study(parsed, memory=x, workers=1)
    good = spec(tmp_path, "eigenvalues in [1, 1] of x", source="from memory", more="study\n  trials 1, seed 1")
    assert study(good, memory=x, workers=1).to_json()["points"]


def test_a_public_file_in_the_place_of_private_data_is_looked_at_when_a_study_starts(tmp_path: Path) -> None:
    """`study --data FILE`: never the private file itself, which is refused before a record is read."""
    write(tmp_path / "data.csv", rows(11, scale=30.0))
    other = tmp_path / "public.csv"
    write(other, rows(12))
    parsed = spec(tmp_path, "eigenvalues in [5, 6] of x", status="private")
    assert not refuted(parsed)
    with pytest.raises(SpecError, match=r"public records \(public.csv\) refute `eigenvalues of x`"):
        study(parsed, data=other, workers=1)
    with pytest.raises(SpecError, match="DP410"):
        study(parsed, data=tmp_path / "data.csv", workers=1)
    good = spec(tmp_path, "eigenvalues in [1, 1] of x", status="private")
    assert study(good, data=other, workers=1).to_json()["points"]


def test_of_public_data_the_mean_loss_is_judged_too(tmp_path: Path) -> None:
    """(y - <w, x>)^2/2 has the Hessian E x x^T = I: 2-strong convexity of the population is false, one half is not."""
    write(tmp_path / "data.csv", rows(7))
    release = "minimise (y - <w, x>)^2/2 over ball(l2, 1)\n  by dp-gd"
    domain = "x in ball(l2, 10) by scale\n  y in [-10, 10] by clip"
    (message,) = refuted(spec(tmp_path, "strongly-convex(2) of population", release=release, domain=domain))
    assert "falls short" in message
    draft = compile_draft(spec(tmp_path, "strongly-convex(1/2) of population", release=release, domain=domain))
    assert draft.tested


def test_the_law_and_the_file_are_both_asked(tmp_path: Path) -> None:
    """A file of another law than the simulated one: what is true of the law alone is refuted by the file, and by its name."""
    write(tmp_path / "public.csv", rows(8, 3_000, scale=3.0, y=False))
    law = "simulate\n  theta = sparse(2) unit l2\n  x ~ normal(0, I)\n  y = <theta, x> + uniform(-0.5, 0.5)"
    where: dict[str, str] = {"beside": 'with public x (m = 3000, path "public.csv")', "status": "private", "privacy": "nldp", "domain": ""}
    where |= {"source": "from memory", "more": law}
    where["release"] = "estimate theta in y = <theta, x> + noise\n  by nldp-sparse-linear-regression-public"
    (message,) = refuted(spec(tmp_path, "sparse(2)\n  sub-gaussian(1) of x", **where))
    assert "public records (public.csv)" in message
    write(tmp_path / "public.csv", rows(9, 3_000, y=False))
    draft = compile_draft(spec(tmp_path, "sparse(2)\n  sub-gaussian(1) of x", **where))
    assert draft.tested[1] == "not refuted on 20,000 draws of the law, nor on the 3,000 public records of public.csv (level 1e-6)"


def test_a_text_without_a_folder_reads_nothing_that_is_not_named() -> None:
    text = SPEC.format(
        n=N, source="from memory", status="public", domain="", privacy="central", beside="", assume="centred of x", release=MOMENT, more=""
    )
    assert compile_draft(parse_text(text, surface="dps")).tested == {}
