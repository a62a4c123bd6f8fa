"""What theory says in numbers: formulas of cards, bounds against targets, where a bound begins, least values, attackers.

One place: the compiler, the executor, the report and the audit ask here, and none of them works any of it out again.
"""
