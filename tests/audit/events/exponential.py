"""For each field: what is changed in the example first, and then a weaker value of this field."""

WEAKER = {
    "linf_sensitivity": ({"score_sensitivity": None, "linf_sensitivity": 1}, 2),
    "score_sensitivity": ({}, 2),
    "sensitivity": ({"score_sensitivity": None, "sensitivity": 1}, 2),
    "epsilon": ({"exponent": None, "epsilon": 1}, 2),
    "exponent": ({}, 1),
    "candidates": ({"candidates": 1}, 2),
    "monotone": ({"monotone": True}, False),
}
