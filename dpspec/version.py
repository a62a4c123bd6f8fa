"""The version, where every module may read it without importing the package's surface."""

from __future__ import annotations

__version__ = "0.1.0"
