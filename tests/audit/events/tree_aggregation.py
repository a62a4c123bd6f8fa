"""For each field: what is changed in the example first, and then a weaker value of this field."""

WEAKER = {
    "l2_sensitivity": ({"clip_norm": None, "l2_sensitivity": 1}, 2),
    "sensitivity": ({"clip_norm": None, "sensitivity": 1}, 2),
    "clip_norm": ({}, 2),
    "norm_bound": ({"clip_norm": None, "norm_bound": 1}, 2),
    "sigma": ({}, 10),
    "noise_multiplier": ({"sigma": None, "noise_multiplier": 20}, 10),
    "variance": ({"sigma": None, "variance": 400}, 100),
    "steps": ({}, 1025),
    "levels": ({"steps": None, "levels": 11}, 12),
    "restarts": ({}, 3),
    "participations": ({"separation": 64}, 2),
    "separation": ({"participations": 4, "separation": 200}, 2),
}
#: What may be left out, and the verdict on a claim that is far off then.
OPTIONAL = {"participations": "holds-if", "restarts": "holds"}
