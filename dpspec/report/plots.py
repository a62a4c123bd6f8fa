"""SVG figures from matplotlib, made for a page that is light or dark: ink takes the page's colour, every figure has a text alternative."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

#: Replaced by ``currentColor`` in the finished SVG.
INK = "#010203"
SERIES = ("#2f7fd1", "#d1662f", "#3a9d5d", "#9a5fc0", "#b8862b", "#c0487a")
BOUND, LOWER, REFERENCE = "#c0392b", "#7f8c8d", "#3a9d5d"


@dataclass(frozen=True)
class Line:
    """A series with an optional band. ``style`` is a matplotlib line style (a word or a dash pattern)."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    style: Any = "-"
    color: str = ""
    marker: str = "o"


@dataclass(frozen=True)
class Figure:
    """``alt`` says in words what a reader who cannot see the figure needs."""

    title: str
    xlabel: str
    ylabel: str
    alt: str
    lines: tuple[Line, ...] = field(default=())
    logx: bool = True
    logy: bool = True
    ylim: tuple[float, float] | None = None
    ticks: bool = False  # mark the values of the first line on the x axis, instead of powers of ten
    caption: bool = True  # show ``alt`` below the figure too


def line_figure(figure: Figure) -> str:
    """The figure as an SVG element."""
    fig, ax = _axes()
    for i, line in enumerate(figure.lines):
        color = line.color or SERIES[i % len(SERIES)]
        ax.plot(
            line.x, line.y, linestyle=line.style, marker=line.marker or None, color=color, label=line.label, linewidth=1.8, markersize=4
        )
        if line.low:
            ax.fill_between(line.x, line.low, line.high, color=color, alpha=0.18, linewidth=0)
    if figure.logx:
        ax.set_xscale("log")
    if figure.logy:
        ax.set_yscale("log")
    if figure.ticks and len(figure.lines[0].x) <= 6:
        from matplotlib.ticker import NullLocator

        ax.set_xticks(list(figure.lines[0].x), [short(v) for v in figure.lines[0].x])
        ax.xaxis.set_minor_locator(NullLocator())
    if figure.logy:
        _few_ticks(ax)
    if figure.ylim is not None:
        ax.set_ylim(*figure.ylim)
    ax.set_title(figure.title, fontsize=10, color=INK, loc="left")
    ax.set_xlabel(figure.xlabel)
    ax.set_ylabel(figure.ylabel)
    ax.grid(True, which="major", alpha=0.25, linewidth=0.6)
    if len(figure.lines) > 1:
        fig.legend(frameon=False, fontsize=8, labelcolor=INK, loc="outside lower left", ncols=2)
    return _svg(fig, figure.title, figure.alt, caption=figure.caption)


def strips(title: str, groups: Mapping[str, Sequence[float]], ylabel: str, alt: str) -> str:
    """The trials of each point as a column of dots, with the median as a dash."""
    import statistics

    fig, ax = _axes(height=3.0)
    positive = all(v > 0 for values in groups.values() for v in values)
    for i, values in enumerate(groups.values()):
        offsets = [i + 0.28 * ((j * 0.618) % 1 - 0.5) for j in range(len(values))]
        ax.plot(offsets, values, "o", color=SERIES[0], alpha=0.55, markersize=3.5, linewidth=0)
        ax.plot([i - 0.25, i + 0.25], [statistics.median(values)] * 2, "-", color=SERIES[1], linewidth=2)
    if positive:
        ax.set_yscale("log")
        _few_ticks(ax)
    crowded = len(groups) > 4 or sum(map(len, groups)) > 60
    ax.set_xticks(range(len(groups)), list(groups), rotation=20 if crowded else 0, ha="right" if crowded else "center", fontsize=8)
    ax.set_ylabel(ylabel)
    ax.grid(True, axis="y", alpha=0.25, linewidth=0.6)
    return _svg(fig, title, alt)


def short(value: float) -> str:
    """4000 as 4k, 2e6 as 2M."""
    for unit, mark in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:.3g}{mark}"
    return f"{value:.3g}"


def _few_ticks(ax: Any) -> None:
    """Plain numbers at 1, 2 and 5 of each decade when there are few decades, else powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    low, high = ax.get_ylim()
    if low > 0 and high / low < 300:
        ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:.3g}"))
        ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_minor_formatter(NullFormatter())


def _axes(height: float = 3.2) -> tuple[Any, Any]:
    import matplotlib

    matplotlib.use("Agg", force=False)
    from matplotlib.figure import Figure as MplFigure

    with matplotlib.rc_context({"svg.fonttype": "none", "font.family": "sans-serif", "font.size": 10, "axes.edgecolor": INK}):
        fig = MplFigure(figsize=(4.9, height), layout="constrained")
        ax = fig.add_subplot()
    for spine in ("top", "right"):
        ax.spines[spine].set_visible(False)
    ax.tick_params(colors=INK)
    ax.xaxis.label.set_color(INK)
    ax.yaxis.label.set_color(INK)
    return fig, ax


_COUNT = [0]


def _svg(fig: Any, title: str, alt: str, *, caption: bool = True) -> str:
    """Without the XML head, scaled to its column, ids unique on the page, ink in the page's colour, named for screen readers."""
    import matplotlib

    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "dpspec", "svg.id": None}):
        fig.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'\s(width|height)="[^"]*pt"', "", text, count=2)
    _COUNT[0] += 1
    mark = f"f{_COUNT[0]}-"
    text = re.sub(r'\bid="([^"]+)"', rf'id="{mark}\1"', text)
    text = re.sub(r'(xlink:href|href)="#([^"]+)"', rf'\1="#{mark}\2"', text)
    text = re.sub(r"url\(#([^)]+)\)", rf"url(#{mark}\1)", text)
    text = text.replace(INK, "currentColor").replace(INK.upper(), "currentColor")
    text = re.sub(r"(fill|stroke): ?#000000", r"\1: currentColor", text)
    text = text.replace("<text ", '<text fill="currentColor" ')
    text = text.replace("<svg ", f'<svg role="img" aria-label="{escape(alt, quote=True)}" ', 1)
    head = text.index(">") + 1
    body = f"{text[:head]}<title>{escape(title)}</title>{text[head:]}"
    below = f"<figcaption>{escape(alt)}</figcaption>" if caption else ""
    return f"<figure>{body}{below}</figure>"
