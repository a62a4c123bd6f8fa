"""Spec texts for the compiler's tests."""

CLASSIFY = """\
analysis "classifier"

data
  n = 10_000, d = 5
  private, unit person, neighbours replace-one
  x in ball(l2, 1) by scale
  y in {-1, 1} by map(0 -> -1, 1 -> 1)

privacy central
  epsilon = 1, delta = 1e-6

release weights
  minimise logistic over ball(l2, 1)
  by dp-gd with T = 50

simulate
  theta = dense unit l2
  x ~ uniform-ball
  y ~ bernoulli-logistic(5*<theta, x>)
"""

TWO = """\
analysis "two models"

data
  n = 10_000, d = 5
  private, unit person, neighbours replace-one
  x in ball(l2, 1) by scale
  y in {-1, 1} by map(0 -> -1, 1 -> 1)

privacy central
  epsilon = 1, delta = 1e-6

release first
  minimise logistic over ball(l2, 1)
  by dp-gd with T = 50
  share 3

release second
  minimise logistic over ball(l2, 2)
  by dp-gd with T = 80
  share 1
"""

LOCAL = """\
analysis "local"

data
  n = 5_000, d = 3
  private, unit person, neighbours replace-one

privacy nldp
  epsilon = 2, delta = 1e-5

assume
  sparse(1)
  sub-gaussian(1) of x
  sub-gaussian(1.2) of y

release theta
  estimate theta in y = <theta, x> + noise
  by nldp-sparse-linear-regression

simulate
  theta = sparse(1) unit l2
  x ~ normal(0, I)
  y = <theta, x> + normal(0, 0.25)
"""
