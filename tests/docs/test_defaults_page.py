"""docs/defaults.md is what the measured results give, and the results are of the cells as they stand."""

from benchmarks.defaults import harness


def test_the_page_is_what_the_results_give():
    assert harness.PAGE.read_text() == harness.page(), "python -m benchmarks.defaults --write"


def test_every_result_is_of_a_cell_as_it_stands():
    for family in harness.families():
        cells = {(c.algorithm, c.law): c.key() for c in harness._cells(family)}
        for row in harness._kept(family):
            assert cells.get((row["algorithm"], row["law"])) == row["key"], f"python -m benchmarks.defaults {family}"
