"""Notebook display: a plan, record or study as a small, self-contained HTML fragment."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from dpspec.report.terminal import plan_text, record_text, study_text


def plan_html(plan: Mapping[str, Any]) -> str:
    return _pre(plan_text(plan))


def record_html(record: Mapping[str, Any]) -> str:
    return _pre(record_text(record))


def study_html(study: Mapping[str, Any]) -> str:
    return _pre(study_text(study))


def _pre(text: str) -> str:
    return f'<pre style="line-height:1.4;overflow-x:auto">{escape(text)}</pre>'
