"""For each field: what is changed in the example first, and then a weaker value of this field."""

WEAKER = {
    "sensitivity": ({}, 2),
    "threshold_scale": ({}, 1),
    "query_scale": ({}, 2),
    "queries": ({"cutoff": None, "queries": 2}, 5),
    "cutoff": ({}, 2),
    "monotone": ({"monotone": True}, False),
    "releases": ({"releases": "index"}, "value"),
}
