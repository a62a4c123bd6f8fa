"""Diagnostic codes of one area; see :mod:`dpspec.spec.codes`."""

from __future__ import annotations

from dpspec.spec.codes import Code

_HOELDER = "Hoelder's inequality on the margin <w, x>; docs/certificates.md"

CODES: dict[str, Code] = {
    "DP200": Code(
        "No certificate for this form of loss",
        "Certificates cover losses phi(<w, x>, y): functions of the margin and the label, plus a regulariser in w alone. This loss "
        "depends on the record in another way, or uses a function that jumps, so no Lipschitz constant can be derived from the "
        "expression. Nothing is wrong with the analysis as such: an algorithm that clips every gradient needs no constant. Algorithms "
        "whose noise follows from a proved constant are not available, and a declared constant does not make them so.",
        bad="minimise floor(<w, x>) over ball(l2, 1)",
        good="minimise (<w, x> - y)^2/2 over ball(l2, 1)",
    ),
    "DP201": Code(
        "The Lipschitz claim is false",
        "An assumption `lipschitz(L)` says that the gradient of the loss at one record is never longer than L. The message names a "
        "margin and a label at which the derivative is proved, by ball arithmetic, to be larger; both are reached by a parameter in the "
        "constraint set and a record in the enforced domain. Noise calibrated to L would not give the stated privacy. The proved "
        "constant is available without any assumption, so the remedy is to drop the claim.",
        bad="assume lipschitz(0.5)   # logistic loss, |w| <= 1, |x| <= 1: the derivative reaches 0.731",
        good="# no claim: 0.7311 is proved",
        references=("docs/certificates.md",),
    ),
    "DP202": Code(
        "The smoothness claim is false",
        "`smooth(B)` says that the gradient changes at a rate of at most B. The message names a margin near which the rate is proved to "
        "be larger. Step sizes and the accuracy bounds of smooth methods rest on B; some noise scales do too (objective perturbation).",
        bad="assume smooth(1)   # hinge loss: the derivative jumps",
        good="minimise smooth-hinge(0.5) over ball(l2, 1)",
    ),
    "DP203": Code(
        "The convexity claim is false",
        "At the named margin and label the second derivative of the loss along the record is negative, and the ridge term does not make "
        "up for it. Bounds for convex losses do not apply; the methods for non-convex losses have their own measures of error "
        "(stationarity instead of excess risk).",
        bad="minimise sigmoid over ball(l2, 1)   with   assume convex",
        good="minimise logistic over ball(l2, 1)",
    ),
    "DP204": Code(
        "The strong convexity claim is false",
        "The Hessian of the risk is lam*I plus an average of phi'' x x^T. The least eigenvalue of the average is at most its trace over "
        "d, so it is at most sup|phi''| |x|_2^2/d whatever the data are. The claim exceeds lam plus that number.",
        bad="assume strongly-convex(1)   # logistic loss on the unit ball: at most 1/4 + lam",
        good="minimise logistic + 0.01/2*|w|^2 over ball(l2, 1)   # strongly-convex(0.01) is proved",
    ),
    "DP205": Code(
        "The claim holds, but a better constant is proved",
        "The assumption is true and unnecessary: the expression proves more. Whatever uses the constant uses the proved one, so noise "
        "and step sizes are not hurt; the claim only misleads the reader.",
    ),
    "DP206": Code(
        "The claim is declared only",
        "The claim could be neither proved nor refuted from the expression and the domains. Accuracy bounds may use it and will say "
        "`holds if`; no privacy guarantee may rest on it (that would be DP210).",
    ),
    "DP207": Code(
        "The records are not bounded",
        "The gradient of a loss phi(<w, x>, y) is phi' times x. Unless x is kept in a bounded set, one record can move the gradient "
        "arbitrarily far, and no amount of noise hides it. A domain without `by ...` is a statement about the data, not a rule that is "
        "enforced, and it does not count.",
        bad="x in ball(l2, 1)",
        good="x in ball(l2, 1) by scale",
    ),
    "DP208": Code(
        "The margin is unbounded",
        "The derivative of this loss grows with the margin <w, x>, and the margin has no bound because the constraint set has none. "
        "For example the squared loss on R^d has no Lipschitz constant although every record is bounded.",
        bad="minimise squared over R^d",
        good="minimise squared over ball(l2, 1)",
        references=(_HOELDER,),
    ),
    "DP209": Code(
        "The loss is not smooth",
        "The derivative of the loss jumps (hinge, absolute, quantile) or is unbounded at a point of the margin range. Methods that need "
        "a smooth loss are not available; subgradient and smoothing methods are.",
        good="minimise smooth-hinge(0.5) over ball(l2, 1)",
    ),
    "DP210": Code(
        "Privacy would rest on a declared assumption",
        "A guarantee may rest only on what is enforced on every record (scale, clip, shrink, reject, map) or proved from the expression. "
        "Here the sensitivity of a release needs a statement that the author makes and nothing checks. If the statement fails for a "
        "single record, the privacy of exactly that record fails, which is the record an attacker would choose. The plan is refused.",
        bad="x in ball(l2, 1)            # declared\nassume lipschitz(1)",
        good="x in ball(l2, 1) by scale   # enforced; the Lipschitz constant is then proved",
    ),
    "DP211": Code(
        "The loss is not convex",
        "Along some record the loss curves downwards at a margin that the domains allow. Algorithms for convex losses refuse it, and "
        "their bounds do not apply; algorithms for non-convex losses report stationarity.",
    ),
    "DP212": Code(
        "The certificate is loose",
        "Branch and bound stopped at its limit of boxes before the upper and the lower bound met. The stated constant is still an upper "
        "bound, so privacy is safe; it may be larger than necessary. A narrower label domain (or finitely many labels) usually helps.",
    ),
    "DP213": Code(
        "A name in the loss has no value",
        "The loss mentions a name that is neither w, x or y nor a number given in the data block, so it is not a function of the record "
        "and the parameter.",
        bad="minimise huber(c) over ball(l2, 1)",
        good="data\n  n = 1000, d = 5, c = 1.345",
    ),
    "DP214": Code(
        "The label is not bounded",
        "The derivative of this loss grows with the label y, and y is not enforced to lie in a bounded set.",
        bad="y in R",
        good="y in [-1, 1] by clip",
    ),
    "DP215": Code(
        "Unknown regulariser",
        "A term that depends on w alone has the same gradient for every record, so it does not affect sensitivity. But algorithms know "
        "how to handle a ridge term c*|w|^2, an l1 term c*|w|_1 and one group term c*group(w, ...) only (two groupings of the same "
        "coordinates have no joint shrinkage in closed form), and convexity of the whole is not decided with another.",
        good="minimise logistic + elastic-net(0.01, 0.1) over R^d",
    ),
    "DP216": Code(
        "Parameter of a named loss out of range",
        "The parameters of huber, biweight, cauchy and smooth-hinge are positive, and the level of quantile lies strictly between 0 and 1. "
        "The number of classes of multinomial is a whole number of at least 2, the sizes of groups are whole numbers of at least 1, and "
        "several add up to d.",
        bad="minimise huber(0) over ball(l2, 1)",
        good="minimise huber(1.345) over ball(l2, 1)",
    ),
    "DP217": Code(
        "The derivative of the loss is unbounded",
        "Somewhere in the range of the margin the loss leaves its domain or its derivative grows without limit (the logarithm or a root "
        "at zero, a division by something that can vanish). No noise scale covers that.",
        bad="minimise -log(<w, x>) over ball(l2, 1)",
        good="minimise -log(2 + <w, x>) over ball(l2, 1)   with |x| <= 1",
    ),
    "DP218": Code(
        "The loss rewards wrong labels",
        "At margin zero the loss falls when the prediction moves against the label, for both signs of the label. Minimising it yields a "
        "classifier that contradicts the data. One document prints 1/(1 + exp(-y<w, x>)) for the sigmoid loss; the loss meant is "
        "1/(1 + exp(y<w, x>)).",
        bad="minimise 1/(1 + exp(-y*<w, x>)) over ball(l2, 1)",
        good="minimise 1/(1 + exp(y*<w, x>)) over ball(l2, 1)",
        references=("000, section 4.1, experiments",),
    ),
    "DP219": Code(
        "A bound cannot be solved",
        "The expression is not monotone in the variable on the range searched, or it does not cross the target there, so `least n` or "
        "`least epsilon` has no single meaning.",
    ),
    "DP220": Code(
        "The labels are not the classes of the loss",
        "multinomial(K) is a loss of labels 0, 1, ..., K - 1. How far one record can pull the weights follows from these labels, so an "
        "enforcement has to make them true of every record: y in {0, ..., K - 1} by map(...) or by reject (any other value becomes 0). "
        "The losses of a Mahalanobis matrix are of labels -1 and 1.",
        bad="y in {1, 2, 3}\nminimise multinomial(3)",
        good="y in {0, 1, 2} by map(1 -> 0, 2 -> 1, 3 -> 2)\nminimise multinomial(3)",
    ),
    "DP221": Code(
        "A set of vectors for a matrix of weights",
        "multinomial(K) has K x d weights, one row a class. Balls, boxes and R^d are sets of such matrices, entry by entry (the l2 norm is "
        "the Frobenius norm). The simplex, sparse(k) and a polytope are sets of vectors of d numbers. A Mahalanobis matrix "
        "(metric-logistic, metric-hinge) is d x d and positive semidefinite whatever the set says; its ball is that of the "
        "Frobenius norm, ball(l2, r).",
        bad="minimise multinomial(3) over simplex",
        good="minimise multinomial(3) over ball(l2, 5)",
    ),
    "DP222": Code(
        "The mean is not known to be 0",
        "The algorithms for second moments subtract no mean: they estimate E x x^T, which is the covariance if the mean of x is 0 and the "
        "covariance plus m m^T for a mean m. Constant records (1/2, 1/2) would have a covariance of 1/4 in every entry. So covariance(x) "
        "is refused where the domain (coordinates of one sign) or the simulated law rules a mean of 0 out, and planned as what it is, "
        "second-moment(x), where nothing says that the mean is 0: neither `assume centred of x` (or symmetric, or sub-gaussian, which "
        "includes it) nor a simulated law whose mean is 0. precision(x) and subspace(x, k) are those of E x x^T by definition; where the "
        "mean may be another one this is a warning.",
        bad="estimate covariance(x)   # x in box(0, 1) by clip",
        good="estimate second-moment(x)",
    ),
    "DP223": Code(
        "The loss does not go with the labels",
        "Losses of the product y*<w, x> (logistic, hinge, exponential, ...) are written for labels -1 and 1: at y = 0 such a loss is the "
        "same for every w, so half of the records have no say and the minimiser pushes every prediction to label 1. logistic-glm is "
        "written for labels 0 and 1, poisson for counts. The privacy of the plan does not depend on it; what is learnt does.",
        bad="y in {0, 1} by map(0 -> 0, 1 -> 1)\nminimise logistic",
        good="y in {-1, 1} by map(0 -> -1, 1 -> 1)\nminimise logistic",
    ),
    "DP225": Code(
        "The law or public data refute the assumption",
        "Assumptions about records (moments, tails, eigenvalues, sparsity, noise) are the author's word, and defaults and bounds rest "
        "on them. Each is held against a sample of the law of the simulate block, and against public records: data that the spec calls "
        "public, and the public x beside private ones. Both are looked at as they are and as the domains of the data section leave "
        "them, by a test that calls a true statement false with probability about 1e-6 if the records are independent draws. The "
        "message says who refutes this one, and by what: state what these records have, or mend the law or the file. Records of "
        "another law than the one that the assumption speaks of do not belong into the spec: algorithms use public records as if they "
        "were of the law of the private ones. One that is not refuted has the status tested, which proves nothing. Private records are "
        "never looked at: a message about them would be an answer that no budget covers.",
        bad="eigenvalues in [5, 5] of x   # x ~ normal(0, I)",
        good="eigenvalues in [1, 1] of x",
    ),
    "DP226": Code(
        "Unknown assumption",
        "The registry of assumptions (docs/assumptions.md) has no such word, or has it of other things (eigenvalues are of x, "
        "bounded noise is of noise), or with other constants: `centred` takes none, a moment has an order and a bound, and each is "
        "stated once. What nothing knows would be passed over, and the author would believe that a bound rests on it.",
        bad="assume well-behaved",
        good="assume moment(order 4, bound 3) of x",
    ),
    "DP224": Code(
        "Nothing reads the assumption",
        "An assumption is read where it gives a constant to defaults and bounds, where a certificate proves or refutes it, where it says "
        "that a mean is 0, or where an algorithm's bound needs it. This word is none of those: the plan is the same without it, and no "
        "bound says `holds if` on its account.",
        bad="assume self-concordant",
        good="assume smooth(1/4)",
    ),
}
