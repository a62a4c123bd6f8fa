"""For each field: what is changed in the example first, and then a weaker value of this field."""

WEAKER = {
    "linf_sensitivity": ({}, 2),
    "score_sensitivity": ({"linf_sensitivity": None, "score_sensitivity": 1}, 2),
    "sensitivity": ({"linf_sensitivity": None, "sensitivity": 1}, 2),
    "scale": ({}, 1),
    "epsilon": ({"scale": None, "epsilon": 1}, 2),
    "candidates": ({"candidates": 1}, 2),
}
