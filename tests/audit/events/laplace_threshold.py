"""For each field: what is changed in the example first, and then a weaker value of this field."""

WEAKER = {
    "l1_sensitivity": ({}, 3),
    "sensitivity": ({"l1_sensitivity": None, "sensitivity": 2}, 3),
    "clip_norm": ({"l1_sensitivity": None, "clip_norm": 2}, 3),
    "norm_bound": ({"l1_sensitivity": None, "norm_bound": 2}, 3),
    "scale": ({}, 1.9),
    "epsilon": ({"scale": None, "epsilon": 1}, 1.1),
    "threshold": ({}, 29),
    "first_count": ({"keys": 1, "first_count": 1}, 2),
    "keys": ({"keys": 1, "first_count": 1}, 2),
    "noise_on": ({"keys": 1, "first_count": 1, "noise_on": "reals"}, "integers"),
}
