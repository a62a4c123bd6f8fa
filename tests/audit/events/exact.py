"""For each field: what is changed in the example first, and then a weaker value of this field."""

WEAKER = {}
