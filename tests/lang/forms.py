"""One small spec for every form of the language, in the DSL. Each is valid."""

from __future__ import annotations

HEAD = """analysis "{name}"

data
  n = 1000, d = 5
{data}
privacy {privacy}

release r
  {task}
"""

TASKS = {
    "logistic": "minimise log(1 + exp(-y*<w, x>)) + 0.01/2*|w|^2 over ball(l2, 1)",
    "named-loss": "minimise logistic over ball(l1, 2)",
    "huber": "minimise huber(1.5) over box(-1, 1)",
    "nonsmooth": "minimise squared + l1(0.1)*norm over R^d",
    "l1-written-out": "minimise (y - <w, x>)^2/2 + 0.1*|w|_1 over ball(linf, 1)",
    "elastic-net": "minimise squared + 0.1*|w|_1 + 0.01/2*|w|^2 over R^d",
    "group": "minimise logistic + 0.1*group(w, 2) over ball(l2, 1)",
    "groups-of-all-sizes": "minimise logistic + 0.1*group(w, 2, 1, 2) + 0.05*|w|_1 over ball(l2, 1)",
    "group-lasso": "minimise logistic + group-lasso(0.1, 2) over ball(l2, 1)",
    "cauchy": "minimise cauchy(2) over ball(l2, 10)",
    "biweight": "minimise biweight(4.7) over ball(l2, 10)",
    "sigmoid": "minimise 1/(1 + exp(y*<w, x>)) over simplex",
    "sparse": "minimise squared over sparse(3)",
    "polytope": 'minimise squared over polytope("V.csv")',
    "pairwise": "minimise pairwise log(1 + exp(-(y1 - y2)*<w, x1 - x2>)) over ball(l2, 1)",
    "mean": "estimate mean(x)",
    "mean-in-ball": "estimate mean(x) over ball(l1, 1)",
    "covariance": "estimate covariance(x)",
    "count": "estimate count",
    "count-where": 'estimate count where age >= 18 and "hours-per-week" < 40 and sex = "Female" and age = 2*20',
    "sum": 'estimate sum("hours-per-week")',
    "column-mean": "estimate mean(age)",
    "variance": "estimate variance(age)\n  by auto",
    "histogram": "estimate histogram(sex)",
    "histogram-edges": "estimate histogram(age, 0, 18, 130/2, 100)",
    "quantile": "estimate quantile(age, 0.25, 1/2, 0.75)",
    "median": "estimate median(age)",
    "second-moment": "estimate second-moment(x)",
    "precision": "estimate precision(x)",
    "subspace": "estimate subspace(x, 3)",
    "linear": "estimate theta in y = <theta, x> + noise",
    "linear-in-ball": "estimate theta in y = <theta, x> + noise over ball(l2, 1)",
    "glm": "estimate theta in y ~ glm(logistic)",
    "nonlinear": "estimate theta in y = tanh(<theta, x>) + noise",
    "nonlinear-cubic": "estimate theta in y = <theta, x>^3 + sin(<theta, x>) + noise over sparse(2)",
    "kernel": "regress y on kernel(rbf, 0.5)",
    "gmm": "fit gmm(2)",
    "mixture-of-regressions": "fit mixture-of-regressions(2)",
    "missing": "fit regression-with-missing(0.1)",
    "marginals": "answer marginals(3)",
    "smooth-queries": "answer smooth-queries(2)",
    "crowd": "infer truth from labels",
    "auto": "estimate mean(x)\n  by auto",
    "options": "minimise logistic over ball(l2, 1)\n  by dp-svrg with epochs = 8, eta = 1/sqrt(n), batching = poisson-fixed",
    "expect": "minimise logistic over ball(l2, 1)\n  expect excess-empirical-risk <= 0.05 with probability 0.95",
    "expect-mean": "estimate mean(x)\n  expect l2-error <= 2*sqrt(d)/n",
    "shares": "estimate mean(x)\n  share 2\n\nrelease s\n  estimate covariance(x)\n  share 1",
    "parts": "estimate mean(x)\n  part 1/2\n\nrelease s\n  estimate covariance(x)\n  part 1/2",
    "assume": "estimate mean(x)\n\nassume\n  lipschitz(1), smooth(2), strongly-convex(0.1), convex, pl(1)\n"
    "  sub-gaussian(1) of x, sub-exponential on y\n  moment(of gradient, order 2, bound 10)\n"
    "  sparse(3), isotropic\n  eigenvalues in [1/2, 2], noise bounded(3)",
    "study": "estimate theta in y = <theta, x> + noise\n\nsimulate\n  theta = sparse(5) unit l2\n"
    "  x ~ normal(0, I), y = <theta, x> + student-t(3)"
    "\nstudy\n  vary n in [1e4, 1e5, 1e6], epsilon in [0.5, 1, 2]\n"
    "  vary d in log-grid(10, 1000, 5)\n  trials 50, seed 7\n  compare dp-svrg, dp-gd",
}

PRIVACY = {
    "pure": "central\n  epsilon = 1",
    "approx": "central\n  epsilon = 1, delta = 1/n^1.1",
    "zcdp": "central\n  rho = 0.1",
    "gdp": "central\n  mu = 0.5",
    "nldp": "nldp\n  epsilon = log(3)",
    "sldp": "sldp\n  epsilon = 2",
    "labels-only": "central, labels only\n  epsilon = 1",
    "attribute-online": "central, attribute, online\n  epsilon = 1",
    "public": 'nldp, with public x (m = 10_000, path "pub.csv")\n  epsilon = 1',
    "public-bare": "nldp\n  with public x\n  epsilon = 1",
}

DATA = {
    "none": "",
    "csv": '  from "adult.csv" target "income>50K" columns [age, "hours-per-week"]\n  private, unit person, neighbours replace-one\n',
    "sklearn": '  from sklearn "breast_cancer"\n  public\n',
    "memory": "  from memory target y\n",
    "encode": '  encode age as one-hot(9), hours as range(0, 84)\n  encode "sex" as levels("f", "m")\n'
    "  encode fare as standard(32, 50)\n  intercept\n",
    "constants": "  k = 5, sigma = sqrt(k)\n",
    "scale": "  x in ball(l2, 1) by scale\n  y in {-1, 1} by map(0 -> -1, 1 -> 1)\n",
    "clip": "  x in ball(linf, 3) by clip\n  y in [-2, 2] by clip\n  neighbours add-remove\n",
    "shrink": "  x in R^d by shrink(2)\n  y in R\n  neighbours zero-out\n",
    "reject": "  x in simplex by reject\n",
    "map-words": '  y in {0, 1} by map("<=50K" -> 0, ">50K" -> 1)\n',
}


def specs() -> dict[str, str]:
    """By a speaking name, one text for each task, privacy model and data form."""
    out = {f"task-{k}": HEAD.format(name=k, data="", privacy=PRIVACY["pure"], task=v) for k, v in TASKS.items()}
    out |= {f"privacy-{k}": HEAD.format(name=k, data="", privacy=v, task=TASKS["mean"]) for k, v in PRIVACY.items()}
    out |= {f"data-{k}": HEAD.format(name=k, data=v, privacy=PRIVACY["pure"], task=TASKS["mean"]) for k, v in DATA.items()}
    return out
