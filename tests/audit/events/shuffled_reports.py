"""For each field: what is changed in the example first, and then a weaker value of this field."""

_BIT = {"type": "randomized_response", "categories": 2, "epsilon": 2}

WEAKER = {
    "event": ({}, {**_BIT, "epsilon": 3}),
    "events": ({"event": None, "events": [_BIT]}, [{**_BIT, "epsilon": 3}]),
    "n": ({}, 100),
}
