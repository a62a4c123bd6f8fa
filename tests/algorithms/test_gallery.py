"""The gallery specs of these families: clean, the same in both surfaces, and what the README's example and the Adult spec promise."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from dpspec.compiler.passes import compile_draft
from dpspec.executor.bind import bound_problem, values
from dpspec.lang.source import parse_file
from dpspec.privacy.meter import Release
from dpspec.privacy.noise import StudyNoise
from dpspec.tasks.registry import of

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "data"
SPECS = sorted(p for family in ("convex_erm", "sparse") for p in (ROOT / "specs" / family).glob("*.dps"))


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_a_gallery_spec_is_clean_and_says_the_same_in_both_surfaces(path):
    parsed = parse_file(path)
    assert [d for d in compile_draft(parsed).diagnostics if d.severity != "info"] == []
    assert parse_file(path.with_name(path.stem + ".dpspec.yaml")).analysis == parsed.analysis


def trials(path, base, count, measure):
    """Errors of ``count`` seeded runs on the real records of a spec, and its bounds."""
    from dpspec.data.enforce import enforce
    from dpspec.data.sources import load

    draft = compile_draft(parse_file(path))
    (release,) = draft.releases
    data = draft.analysis.data
    records, _ = enforce(load(data, base_dir=base, values=values(draft), private=False).records, data, values(draft))
    problem = bound_problem(draft, release)
    task = of(release.release.task)
    fitted, best = (None, None) if measure == "label-error" else task.reference(records, problem, {})  # it needs none
    found = []
    for seed in range(count):
        meter = Release(release.calibrated, StudyNoise(seed), mode="study")
        w = release.module.run(records, problem, release.tunables, meter).theta
        meter.close()
        found.append(task.measure(measure).of(w, task.trial(records, problem, {}, fitted, best)))
    return np.array(found), {b.theorem: b.value for b in release.bounds}


def test_breast_cancer_is_useful_at_epsilon_2():
    """Guessing the majority is wrong for 37 % of the 569 patients."""
    wrong, _ = trials(ROOT / "specs/convex_erm/breast-cancer.dps", ROOT, 10, "label-error")
    assert wrong.mean() < 0.08


def test_digits_are_told_apart_at_epsilon_2():
    """Ten classes of about a tenth each: guessing is wrong nine times in ten."""
    wrong, _ = trials(ROOT / "specs/convex_erm/digits.dps", ROOT, 3, "label-error")
    assert wrong.mean() < 0.25


@pytest.mark.slow
@pytest.mark.skipif(not (SHARED / "adult.csv").is_file(), reason="the Adult data are not beside this checkout")
def test_the_adult_spec_keeps_its_bound_and_its_target():
    errors, bounds = trials(ROOT / "specs/convex_erm/adult.dps", SHARED, 5, "excess-empirical-risk")
    assert errors.max() <= bounds["nesterov, 0.95"] <= 0.05
    assert errors.mean() <= bounds["nesterov"]


def test_every_algorithm_has_a_page(tmp_path):
    spec = importlib.util.spec_from_file_location("gen_algorithms", ROOT / "docs" / "gen_algorithms.py")
    assert spec is not None
    assert spec.loader is not None
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    generator.main(tmp_path)
    from dpspec.algorithms.registry import all_modules

    for module in all_modules():
        text = (tmp_path / f"{module.CARD.id}.md").read_text(encoding="utf-8")
        assert all(name in text for name in module.CARD.tunables)
        assert text.count("| privacy |") >= sum(f.severity == "privacy" for f in module.CARD.faults)
