"""Pages of plans, records and studies, read by a parser and opened in a browser."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpspec.cli.report import with_trade_off
from dpspec.compiler.plan import make_plan
from dpspec.executor.run import run
from dpspec.executor.study import study
from dpspec.lang.source import parse_text
from dpspec.report.html import page
from dpspec.report.terminal import study_text
from tests.cli.call import call
from tests.executor.specs import LOGISTIC, SPARSE
from tests.report.browser import Browser, browser

OUTSIDE = re.compile(r"""(?:src|href|action|data)\s*=\s*["'](?!#)[^"']+|url\((?!#)|@import|<script|<link|<iframe|<object""", re.IGNORECASE)


@pytest.fixture(scope="module")
def bodies() -> dict[str, dict[str, Any]]:
    """A study with two varied variables, one with an order bound only, a plan, a record."""
    logistic = parse_text(LOGISTIC, path="l.dps", surface="dps")
    plan = make_plan(logistic)
    goal = LOGISTIC.replace("method = nesterov", "method = nesterov\n  expect excess-empirical-risk <= 0.1")
    sparse = parse_text(SPARSE, path="s.dps", surface="dps")
    order = study(sparse, vary={"n": ("320000", "1280000")}, trials=2, workers=1)
    r = np.random.default_rng(0)
    record = run(plan, r.uniform(-0.5, 0.5, (1000, 3)), r.integers(0, 2, 1000))
    return {
        "study": study(logistic, vary={"n": ("2000", "4000", "8000"), "epsilon": ("1", "4")}, trials=3, workers=1).to_json(),
        "order": with_trade_off(order.to_json(), Path("s")),
        "plan": with_trade_off({**make_plan(parse_text(goal, path="l.dps", surface="dps")).to_json(), "text": goal}, Path("l.dps")),
        "record": json.loads(json.dumps(record.to_json())),
    }


@pytest.fixture(scope="module")
def pages(bodies: dict[str, dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    found = {}
    for name, body in bodies.items():
        found[name] = folder / f"{name}.html"
        found[name].write_text(page(body), encoding="utf-8")
    return found


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


NAMES = ("study", "order", "plan", "record")


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_fetched_and_no_script_is_needed(name: str, pages: dict[str, Path]) -> None:
    text = pages[name].read_text(encoding="utf-8")
    assert OUTSIDE.findall(re.sub(r"<pre>.*?</pre>", "", text, flags=re.DOTALL)) == []
    assert text.count("<svg") == len(re.findall(r'<svg [^>]*role="img" aria-label="[^"]{20,}"', text)) > 0
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))


class Balance(HTMLParser):
    VOID = frozenset({"meta", "br", "hr", "img", "link", "input"})

    def __init__(self) -> None:
        super().__init__()
        self.stack: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.stack.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag


@pytest.mark.parametrize("name", NAMES)
def test_every_element_is_closed(name: str, pages: dict[str, Path]) -> None:
    reader = Balance()
    reader.feed(pages[name].read_text(encoding="utf-8"))
    assert reader.stack == []


def test_text_from_a_spec_is_escaped(bodies: dict[str, dict[str, Any]]) -> None:
    evil = copy.deepcopy(bodies["study"])
    evil["plan"]["analysis"] = "<script>alert(1)</script>"
    evil["notes"] = ['<img src="http://x">']
    evil["points"][0]["algorithm"] = "<b>"
    text = page(evil)
    assert "<script>alert" not in text
    assert "<img" not in text


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [375, 1440])
@pytest.mark.parametrize("name", NAMES)
def test_in_a_browser(name: str, width: int, scheme: str, pages: dict[str, Path], window: Browser) -> None:
    """No console message, no request but the page itself, nothing wider than the window, figures with names, legible ink."""
    window.open(pages[name], width=width, scheme=scheme)
    methods = [e.get("method") for e in window.events]
    asked = {e["params"]["request"]["url"] for e in window.events if e.get("method") == "Network.requestWillBeSent"}
    assert asked == {pages[name].as_uri()}
    assert "Runtime.exceptionThrown" not in methods
    assert "Runtime.consoleAPICalled" not in methods
    assert "Log.entryAdded" not in methods
    assert window.evaluate("document.documentElement.scrollWidth") <= width
    assert window.evaluate("document.body.scrollWidth") <= width
    beyond = window.evaluate(
        """[...document.querySelectorAll('body *')].filter(e => {
             if (e.closest('.scroll, pre, svg, figure.wide')) return false;
             return e.getBoundingClientRect().right > innerWidth + 1}).map(e => e.tagName + '.' + e.className)"""
    )
    assert beyond == []
    assert window.evaluate("[...document.querySelectorAll('svg')].every(s => (s.getAttribute('aria-label') || '').length > 20)")
    small = window.evaluate(
        """Math.min(...[...document.querySelectorAll('figure svg text, figure svg tspan')].map(t => t.getBoundingClientRect().height))"""
    )
    assert small >= 6.5  # a line of the smallest text in a figure, on a telephone too
    assert (
        contrast(
            window.evaluate("getComputedStyle(document.body).color"), window.evaluate("getComputedStyle(document.body).backgroundColor")
        )
        > 7
    )


def contrast(one: str, other: str) -> float:
    """WCAG 2 contrast ratio of two rgb() colours."""

    def luminance(text: str) -> float:
        parts = [int(v) / 255 for v in re.findall(r"\d+", text)[:3]]
        linear = [v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_guarantee_and_bound_are_on_the_first_screen(pages: dict[str, Path], window: Browser) -> None:
    """What a reader must find within a minute stands above the fold, at the size of a telephone too."""
    for width in (375, 1440):
        window.open(pages["study"], width=width, scheme="light")
        shown = window.evaluate(
            "[...document.querySelectorAll('.verdict')].filter(e => e.getBoundingClientRect().bottom <= innerHeight).map(e => e.innerText)"
        )
        text = "\n".join(shown)
        assert "two accountants agree: epsilon 1" in text
        assert "holds at 6 of 6 points" in text


def test_a_violated_bound_is_red_and_named(bodies: dict[str, dict[str, Any]], pages: dict[str, Path], window: Browser) -> None:
    body = copy.deepcopy(bodies["study"])
    body["points"][3]["bound"].update(holds=False, within=0)
    file = pages["study"].with_name("violated.html")
    file.write_text(page(body), encoding="utf-8")
    window.open(file, width=1440, scheme="light")
    assert window.evaluate("document.querySelector('.verdict.bad').innerText").splitlines()[1:] == ["holds at 5 of 6 points, violated at 1"]
    assert "violated at 1 of 6 points, first at n = 4,000, epsilon = 4" in window.evaluate("document.querySelector('.answer').innerText")
    assert "VIOLATED" in study_text(body)


def test_a_record_page_shows_no_error(pages: dict[str, Path]) -> None:
    text = pages["record"].read_text(encoding="utf-8")
    assert "would be further releases" in text
    assert "mean error" not in text


def test_the_command_writes_the_page_whole(tmp_path: Path, bodies: dict[str, dict[str, Any]]) -> None:
    (tmp_path / "study.json").write_text(json.dumps(bodies["study"]))
    result = call("report", str(tmp_path / "study.json"), "--html", str(tmp_path / "s.html"))
    assert result.code == 0
    assert (tmp_path / "s.html").read_text().endswith("</html>\n")
    assert not list(tmp_path.glob("*.partial"))
    again = call("report", str(tmp_path / "study.json"))
    assert "mean excess-empirical-risk" in again.stdout
    (tmp_path / "x.json").write_text("{}")
    assert call("report", str(tmp_path / "x.json"), "--html", str(tmp_path / "x.html")).code == 2
    assert not (tmp_path / "x.html").exists()


def test_the_same_study_gives_the_same_page(bodies: dict[str, dict[str, Any]]) -> None:
    def marks(text: str) -> str:
        return re.sub(r"\bf\d+-", "f-", text)

    assert marks(page(bodies["record"])) == marks(page(bodies["record"]))


def bought(text: str) -> tuple[list[str], dict[str, list[str]]]:
    """The table below `What a budget buys`: its columns, and the cells of each row, bold ones with their tags."""
    part = text[text.index("<h3>What a budget buys</h3>") :]
    part = part[: part.index("</table>")]
    rows = re.findall(r'<th scope="row">(.*?)</th>(.*?)</tr>', part)
    return re.findall(r'<th scope="col" class="num">(.*?)</th>', part), {k: re.findall(r'<td class="num">(.*?)</td>', v) for k, v in rows}


def test_what_a_budget_buys_is_what_plans_at_those_budgets_promise(pages: dict[str, Path]) -> None:
    """Every cell against the plan of a spec that says so; bold exactly where it meets the target 0.1."""
    columns, rows = bought(pages["plan"].read_text(encoding="utf-8"))
    assert columns == ["n = 250", "n = 1,000", "n = 4,000", "n = 16,000"]
    assert list(rows) == ["epsilon = 0.5", "epsilon = 1", "epsilon = 2", "epsilon = 4", "epsilon = 8"]
    marked = 0
    for row, cells in rows.items():
        for column, cell in zip(columns, cells, strict=True):
            text = LOGISTIC.replace("n = 1_000", column.replace(",", "_")).replace("epsilon = 2", row)
            bounds = make_plan(parse_text(text, surface="dps")).to_json()["releases"][0]["bounds"]
            value = min(b["value"] for b in bounds if b["kind"] == "explicit" and b["type"] == "upper" and b["value"] is not None)
            assert cell == (f"<b>{value:.3g}</b>" if value <= 0.1 else f"{value:.3g}")
            marked += value <= 0.1
    assert 0 < marked < 20


def test_a_prediction_is_marked_as_one(bodies: dict[str, dict[str, Any]], pages: dict[str, Path]) -> None:
    """An order bound with a fitted constant: the cell at a point of the study is the constant times the bound's shape there."""
    text = pages["order"].read_text(encoding="utf-8")
    columns, rows = bought(text)
    assert all(cell == "-" or cell.startswith("~") for cells in rows.values() for cell in cells)
    assert "predicts with its fitted constant" in text
    point = next(p for p in bodies["order"]["points"] if p["at"] == {"n": 320_000, "epsilon": 4})
    (constant,) = bodies["order"]["constants"]
    assert rows["epsilon = 4"][columns.index("n = 320,000")] == f"~{constant['value'] * point['order_shape']:.3g}"


def test_the_command_adds_the_table_to_a_page_and_not_to_the_document(tmp_path: Path) -> None:
    (tmp_path / "l.dps").write_text(LOGISTIC)
    result = call("report", str(tmp_path / "l.dps"), "--html", str(tmp_path / "p.html"), "--format", "json")
    assert "trade_off" not in json.loads(result.stdout)
    assert "What a budget buys" in (tmp_path / "p.html").read_text()
    lock = tmp_path / "lock.json"
    assert call("plan", str(tmp_path / "l.dps"), "--out", str(lock), "-q").code == 0
    assert call("report", str(lock), "--html", str(tmp_path / "q.html")).code == 0  # a stored plan has no text to plan from
    assert "What a budget buys" not in (tmp_path / "q.html").read_text()


def test_an_upper_bound_is_not_rounded_down() -> None:
    """Phi(Phi^-1(0.01) + 0.5016) = 0.034024...: to the nearest thousandth it would read 0.034, which the best attacker exceeds."""
    from statistics import NormalDist

    from dpspec.report.html import _at_most

    normal = NormalDist()
    exact = normal.cdf(normal.inv_cdf(0.01) + 0.5016)
    assert round(exact, 3) < exact <= float(_at_most(exact)) < exact + 1e-3
    assert _at_most(0.25) == "0.250"
    assert _at_most(1.0) == "1.000"


def test_an_error_of_zero_is_drawn_at_zero(bodies: dict[str, dict[str, Any]]) -> None:
    """It has no place on a logarithmic axis: the axis of its figure begins at 0."""
    body = copy.deepcopy(bodies["study"])
    body["points"][-1]["error"] |= {"mean": 0.0, "ci95": [0.0, 0.0]}
    text = page(body)
    assert "e-300" not in text
    assert "303" not in re.sub(r"<svg.*?</svg>", lambda m: "".join(re.findall(r"<!--(.*?)-->", m[0])), text, flags=re.DOTALL)
