"""For each field: what is changed in the example first, and then a weaker value of this field."""

ENCODER = [[1, 0, 0], [0.5, 1, 0], [0.25, 0.5, 1]]

WEAKER = {
    "l2_sensitivity": ({"clip_norm": None, "l2_sensitivity": 1}, 2),
    "sensitivity": ({"clip_norm": None, "sensitivity": 1}, 2),
    "clip_norm": ({}, 2),
    "norm_bound": ({"clip_norm": None, "norm_bound": 1}, 2),
    "sigma": ({}, 2),
    "noise_multiplier": ({"sigma": None, "noise_multiplier": 4}, 2),
    "variance": ({"sigma": None, "variance": 16}, 4),
    "coefficients": ({}, [1, 0.9, 0.8]),
    "encoder": ({"coefficients": None, "steps": None, "encoder": ENCODER, "separation": 1}, [[2, 0, 0], [1, 1, 0], [0.25, 0.5, 1]]),
    "steps": ({"steps": 15}, 25),
    "pattern": ({"coefficients": [0, 0, 1, 1, 0, 0, 1], "pattern": "fixed", "separation": 2, "steps": 9}, "separated"),
    "participations": ({}, 4),
    "separation": ({}, 2),
}
#: What may be left out, and the verdict on a claim that is far off then.
OPTIONAL = {"participations": "holds-if", "steps": "cannot-verify", "separation": "cannot-verify"}
