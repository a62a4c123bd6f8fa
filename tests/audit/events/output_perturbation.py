"""For each field: what is changed in the example first, and then a weaker value of this field."""

WEAKER = {
    "lipschitz": ({}, 2),
    "strong_convexity": ({}, 0.05),
    "n": ({}, 5000),
    "sigma": ({}, 0.005),
    "epsilon": ({"sigma": None, "epsilon": 1}, 2),
}
