"""For each field: what is changed in the example first, and then a weaker value of this field."""

from tests.audit.events import LAPLACE

WEAKER = {
    "event": ({}, {**LAPLACE, "scale": 1}),
    "events": ({"event": None, "events": [LAPLACE]}, [LAPLACE, LAPLACE]),
    "parts": ({"parts": 1, "neighbouring": "replace_one"}, 2),
    "parts_per_unit": ({}, 2),
    "parts_by": ({"parts_by": "position", "neighbouring": "replace_one"}, "value"),
}
