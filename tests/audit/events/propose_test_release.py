"""For each field: what is changed in the example first, and then a weaker value of this field."""

from tests.audit.events import LAPLACE

WEAKER = {
    "event": ({}, {**LAPLACE, "scale": 1}),
    "events": ({"event": None, "events": [LAPLACE]}, [LAPLACE, LAPLACE]),
    "epsilon": ({}, 2),
    "threshold": ({}, 8),
}
