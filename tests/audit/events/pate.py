"""For each field: what is changed in the example first, and then a weaker value of this field."""

WEAKER = {
    "sigma": ({}, 20),
    "scale": ({"sigma": None, "scale": 40}, 20),
    "queries": ({}, 200),
    "threshold_sigma": ({}, 100),
    "asked": ({}, 900),
}
#: What may be left out, and the verdict on a claim that is far off then.
OPTIONAL = {"threshold_sigma": "holds", "asked": "holds"}
