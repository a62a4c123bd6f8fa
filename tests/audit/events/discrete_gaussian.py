"""For each field: what is changed in the example first, and then a weaker value of this field."""

WEAKER = {
    "l2_sensitivity": ({}, 2),
    "sensitivity": ({"l2_sensitivity": None, "sensitivity": 1}, 2),
    "clip_norm": ({"l2_sensitivity": None, "clip_norm": 1}, 2),
    "norm_bound": ({"l2_sensitivity": None, "norm_bound": 1}, 2),
    "sigma": ({}, 1),
    "noise_multiplier": ({"sigma": None, "noise_multiplier": 2}, 1),
    "variance": ({"sigma": None, "variance": 4}, 1),
    "rho": ({"sigma": None, "rho": 0.125}, 0.5),
    "mu": ({"sigma": None, "mu": 0.5}, 1),
}
