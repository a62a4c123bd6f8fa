"""For each field: what is changed in the example first, and then a weaker value of this field."""

WEAKER = {
    "l2_sensitivity": ({}, 1.1),
    "sensitivity": ({"l2_sensitivity": None, "sensitivity": 1}, 1.1),
    "clip_norm": ({"l2_sensitivity": None, "clip_norm": 1}, 1.1),
    "norm_bound": ({"l2_sensitivity": None, "norm_bound": 1}, 1.1),
    "sigma": ({}, 1.9),
    "threshold": ({}, 13),
    "first_count": ({"keys": 1, "first_count": 0.5}, 1),
    "keys": ({"keys": 1, "first_count": 1}, 9),
    "noise_on": ({"noise_on": "reals"}, "integers"),
}
