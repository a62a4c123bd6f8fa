"""For each field: what is changed in the example first, and then a weaker value of this field."""

from tests.audit.events import GAUSS

WEAKER = {
    "event": ({}, {**GAUSS, "sigma": 1}),
    "events": ({"event": None, "events": [GAUSS]}, [GAUSS, GAUSS]),
    "rate": ({"size": None, "n": None, "rate": 0.1}, 0.2),
    "size": ({}, 20),
    "n": ({}, 50),
}
