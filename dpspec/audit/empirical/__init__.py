"""Empirical lower bounds of epsilon. They refute claims at a stated confidence and certify nothing.

:func:`audit_pair` two arrays of outputs; :func:`audit_callable`, :func:`audit_command`, :func:`audit_samples` black boxes;
:func:`audit_one_run` canaries; :func:`audit_plan_release` one algorithm end to end.
"""

from dpspec.audit.empirical.blackbox import audit_callable, audit_command, audit_samples
from dpspec.audit.empirical.domains import Answers, Domain, Records, ball, labelled, numbers
from dpspec.audit.empirical.onerun import audit_one_run
from dpspec.audit.empirical.pair import audit_pair
from dpspec.audit.empirical.release import audit_plan_release
from dpspec.audit.empirical.result import Claim, EmpiricalResult

__all__ = [
    "Answers",
    "Claim",
    "Domain",
    "EmpiricalResult",
    "Records",
    "audit_callable",
    "audit_command",
    "audit_one_run",
    "audit_pair",
    "audit_plan_release",
    "audit_samples",
    "ball",
    "labelled",
    "numbers",
]
