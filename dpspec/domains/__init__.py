"""Where records, labels and weights live: one :class:`~dpspec.domains.domain.Domain` for each variable, built once from the spec.

Norms, ranges and finite values are exact outer bounds; the certificate, the public facts of a plan and the enforcement of records all
read the same one. :mod:`dpspec.numeric.rounding` is how such a bound becomes a double that errs on the side asked for.
"""
