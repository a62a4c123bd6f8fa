"""For each field: what is changed in the example first, and then a weaker value of this field."""

WEAKER = {
    "l1_sensitivity": ({}, 2),
    "sensitivity": ({"l1_sensitivity": None, "sensitivity": 1}, 2),
    "clip_norm": ({"l1_sensitivity": None, "clip_norm": 1}, 2),
    "norm_bound": ({"l1_sensitivity": None, "norm_bound": 1}, 2),
    "trials": ({}, 100),
    "p": ({"p": 0.5}, 0.1),
    "dimension": ({}, 2),
}
#: What may be left out, and the verdict on a claim that is far off then.
OPTIONAL = {"dimension": "holds-if"}
