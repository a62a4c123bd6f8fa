"""For each field: what is changed in the example first, and then a weaker value of this field."""

WEAKER = {
    "sensitivity": ({}, 1),
    "scale": ({}, 1),
    "degrees": ({}, 3.5),
    "dimension": ({}, 4),
}
