"""For each field: what is changed in the example first, and then a weaker value of this field."""

WEAKER = {"epsilon": ({}, 1), "delta": ({}, 1e-4), "keys": ({}, 5)}
#: What may be left out, and the verdict on a claim that is far off then.
OPTIONAL = {"keys": "holds-if"}
