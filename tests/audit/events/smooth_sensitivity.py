"""For each field: what is changed in the example first, and then a weaker value of this field."""

WEAKER = {"noise_multiplier": ({}, 4), "beta": ({}, 0.3), "degrees": ({}, 30)}
