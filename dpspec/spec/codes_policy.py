"""DP750 to DP769: policies, the rules of a team as code."""

from dpspec.spec.codes import Code

CODES: dict[str, Code] = {
    "DP750": Code(
        "the policy cannot be read",
        "A policy is a YAML file of known words. A word that is unknown, a value of the wrong kind, or a date that is none is "
        "an error: a rule "
        "that is not understood would be a rule that nobody keeps.",
    ),
    "DP751": Code(
        "a guarantee exceeds a limit of the policy",
        "The policy states the largest epsilon, delta, rho or mu of one release, for the data set, unit, relation, model and "
        "audience of this "
        "spec. A plan that states zCDP or Gaussian DP is measured in the limit's own terms; one that has no finite number in "
        "them is over it.",
    ),
    "DP752": Code(
        "the relation or unit is not the one that the policy requires",
        "Numbers mean something only beside the neighbouring relation and the unit of privacy. The policy requires one of each.",
    ),
    "DP753": Code("there are fewer records than the policy requires", "The policy states the smallest n of an analysis."),
    "DP754": Code(
        "the policy does not allow the algorithm",
        "The policy lists algorithms that are allowed, or some that are not, and the plan chose one outside.",
    ),
    "DP755": Code(
        "a bound of the plan rests on a declared assumption",
        "The policy forbids to quote accuracy that holds only if the author's word does. Privacy never rests on it (DP210).",
    ),
    "DP756": Code(
        "delta is above what the policy allows for n records",
        "With delta of 1/n or more a mechanism may publish a whole record and still keep its promise. The policy asks for 1/n^c.",
    ),
    "DP757": Code("the review date has passed", "An entry of the policy says until when a spec was reviewed. Review it again, and say so."),
    "DP758": Code(
        "the policy lacks a field that it requires of every spec",
        "Who owns an analysis, what it is for and where it was agreed stands in the policy, under `specs`, and not in the "
        "spec: the plan's hash "
        "is about meaning.",
    ),
    "DP759": Code(
        "all specs together exceed a limit of the policy",
        "The plans of one data set are composed, each released once, by the accountants of the ledger, and the total is above "
        "the limit. What "
        "was really released, and how often, a ledger counts.",
    ),
    "DP760": Code(
        "a waiver has expired",
        "A waiver lets one spec break one rule until a day. That day has passed: the rule holds again, and the waiver must be "
        "renewed or removed.",
    ),
    "DP761": Code("a rule is waived", "The spec breaks a rule, and the policy waives it for a reason, by an owner, until a day."),
    "DP762": Code(
        "specs of one total cannot be composed",
        "Totals are of plans under one unit, relation, model and protection. Guarantees of different kinds do not add up.",
    ),
    "DP763": Code(
        "the policy does not allow the noise of the plan",
        "The policy lists the mechanisms and local channels that may be drawn from, by their names in a plan (`mechanism` of its noise), "
        "and the plan draws from another one.",
    ),
}
