"""For each field: what is changed in the example first, and then a weaker value of this field."""

WEAKER = {
    "epsilon": ({"keep": None, "epsilon": 1}, 2),
    "categories": ({"categories": 3, "keep": 0.6}, 9),
    "keep": ({}, 0.9),
}
