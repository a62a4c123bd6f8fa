"""For each field: what is changed in the example first, and then a weaker value of this field."""

WEAKER = {
    "lipschitz": ({}, 2),
    "smoothness": ({}, 2.5),
    "strong_convexity": ({}, 0.0001),
    "n": ({}, 50),
    "scale": ({}, 1),
    "epsilon": ({"scale": None, "epsilon": 1}, 2),
    "sigma": ({"scale": None, "sigma": 4}, 2),
}
