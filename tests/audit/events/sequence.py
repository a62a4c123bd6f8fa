"""For each field: what is changed in the example first, and then a weaker value of this field."""

from tests.audit.events import GAUSS, LAPLACE

WEAKER = {
    "event": ({"events": None, "event": LAPLACE}, {**LAPLACE, "scale": 1}),
    "events": ({}, [LAPLACE, GAUSS, GAUSS]),
}
