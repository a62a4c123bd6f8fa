"""For each field: what is changed in the example first, and then a weaker value of this field."""

WEAKER = {
    "range": ({}, 4),
    "n": ({}, 50),
    "n_public": ({"n_public": True, "neighbouring": "add_remove"}, False),
    "epsilon": ({"scale": None, "epsilon": 1}, 2),
    "scale": ({}, 0.01),
}
