"""For each field: what is changed in the example first, and then a weaker value of this field."""

WEAKER = {
    "l1_sensitivity": ({}, 2),
    "sensitivity": ({"l1_sensitivity": None, "sensitivity": 1e-6}, 1),
    "clip_norm": ({"l1_sensitivity": None, "clip_norm": 1e-6}, 1),
    "norm_bound": ({"l1_sensitivity": None, "norm_bound": 1e-6}, 1),
    "width": ({}, 1e-3),
}
