"""Commented descriptions that audit as they stand: one a kind of thing that deployers have."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from dpspec.audit.configs import tools
from dpspec.spec.diagnostics import Diagnostic, SpecError

_OWN: Mapping[str, str] = {
    "description": """\
# What was released, and what is claimed. Audit it as it stands: dpspec audit THIS-FILE
audit: 1
subject: average salary by sum over count
setting:
  model: central               # who is trusted: central, local, shuffle
  unit: employee               # what one neighbouring step concerns
  neighbouring: add_remove     # add_remove, replace_one, zero_out
  n: 10000                     # number of units: delta is judged against 1/n
claim: {epsilon: 1, delta: 0}
events:                        # everything that is released, on the same records
- {type: laplace, what: sum, l1_sensitivity: 1, scale: 2}
- {type: laplace, what: count, l1_sensitivity: 1, scale: 2}
facts:
  seed: fresh                  # fresh, fixed, public, reused
  bounds: enforced             # how the bounds behind the sensitivities come about
""",
    "training": """\
# DP-SGD as events, for a run that no tool's configuration tells. Audit it as it stands: dpspec audit THIS-FILE
audit: 1
subject: image classifier
setting: {unit: example, neighbouring: add_remove, n: 60000}
claim: {epsilon: 2.7, delta: 1e-6}
events:
- type: poisson_sampled        # shuffled: batches cut from a permutation; fixed_sampled: subsets of fixed size
  rate: 0.00427                # batch over records
  count: 14040                 # steps
  event: {type: gaussian, what: clipped gradient sum, clip_norm: 1.0, noise_multiplier: 1.1}
""",
    "user-level": """\
# DP-SGD on records, guaranteed for all records of one user. Audit it as it stands: dpspec audit THIS-FILE
audit: 1
subject: language model, at most eight records a user
setting: {unit: user, neighbouring: add_remove}
claim: {epsilon: 9, delta: 1e-5}
events:
- type: poisson_sampled        # each record is drawn by a coin of its own
  rate: 0.01
  count: 500
  event: {type: gaussian, clip_norm: 1.0, noise_multiplier: 2.0, contributions: 8}
""",
    "histogram": """\
# Counts by key, published above a threshold. Audit it as it stands: dpspec audit THIS-FILE
audit: 1
subject: counts of page views
setting: {unit: user, neighbouring: add_remove}
claim: {epsilon: 1, delta: 1e-5}
events:
- type: laplace_threshold
  l1_sensitivity: 1            # of all counts together
  scale: 1
  noise_on: integers           # or reals; integers reach the threshold with the value itself
  threshold: 13
  first_count: 1               # largest count of a key that one user alone holds
  keys: 1                      # keys that one user has
facts: {key_set: public}
""",
    "channel": """\
# A local randomizer by its probabilities. Audit it as it stands: dpspec audit THIS-FILE
audit: 1
subject: randomized response
setting: {model: local, unit: bit}
claim: {epsilon: 1.0986}
channel:
  type: matrix
  inputs: [0, 1]
  outputs: [0, 1]
  rows:                        # one an input
  - [3/4, 1/4]
  - [1/4, 3/4]
""",
    "accountant": """\
# The answer of an accountant. Audit it as it stands: dpspec audit THIS-FILE
audit: 1
subject: accountant of nine Gaussian releases
setting: {model: tool, neighbouring: add_remove}
claim: {epsilon: 3.5, delta: 1e-5}       # its answer
events:                                  # what it was asked
- {type: gaussian, l2_sensitivity: 1, sigma: 3.7306316, count: 9}
""",
    "registry": """\
# An entry of the public registry of deployments. Audit it as it stands: dpspec audit THIS-FILE
url_slug: example
deployment:
  basic: {name: Example}
  dp_variant: {variant_name: Approximate DP}
  privacy_loss:
    privacy_unit: user-day
    privacy_parameters: {epsilon: 2, delta: 1e-7}
  deployment_model: {model_name: Central, release_type: One release}
  implementation: {mechanisms: Gaussian noise on counts}
""",
}


def kinds() -> tuple[str, ...]:
    """The kinds of templates: our own first, then the tools with configurations."""
    return (*_OWN, *(name for name, tool in tools().items() if tool.template))


def template(kind: str) -> str:
    """The text of one kind."""
    if kind in _OWN:
        return _OWN[kind]
    tool = next((t for name, t in tools().items() if kind == name or kind in t.names), None)
    if tool is not None and tool.template:
        return tool.template
    near = difflib.get_close_matches(kind, kinds(), 1)
    help = f"did you mean {near[0]!r}?" if near else f"kinds: {', '.join(kinds())}"
    raise SpecError([Diagnostic("DP676", "error", f"there is no template {kind!r}", help)])
