"""For each field: what is changed in the example first, and then a weaker value of this field."""

WEAKER = {
    "linf_sensitivity": ({}, 2),
    "score_sensitivity": ({"linf_sensitivity": None, "score_sensitivity": 1}, 2),
    "sensitivity": ({"linf_sensitivity": None, "sensitivity": 1}, 2),
    "scale": ({}, 1),
    "noise": ({"noise": "gumbel"}, "laplace"),
    "candidates": ({"candidates": 1}, 2),
    "releases": ({"releases": "index", "candidates": 9}, "value"),
    "monotone": ({"monotone": True}, False),
    "decay": ({"decay": 0.1, "count": 10}, 0.01),
}
