"""For each field: what is changed in the example first, and then a weaker value of this field."""

from tests.audit.events import GAUSS

WEAKER = {
    "event": ({}, {**GAUSS, "sigma": 1}),
    "events": ({"event": None, "events": [GAUSS]}, [GAUSS, GAUSS]),
    "batches": ({}, 1),
    "epochs": ({}, 3),
}
