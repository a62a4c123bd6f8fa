"""Diagnostic codes of privacy accounting and of the meter; see :mod:`dpspec.spec.codes`."""

from __future__ import annotations

from dpspec.spec.codes import Code

CODES: dict[str, Code] = {
    "DP301": Code(
        title="a pure budget with Gaussian noise",
        explanation=(
            "Gaussian noise gives no epsilon-DP guarantee at any scale: far in the tail the likelihood ratio of two neighbouring "
            "outputs is unbounded. A budget without a delta can only be spent by mechanisms with a pure guarantee: Laplace noise, "
            "the exponential mechanism, permute-and-flip, randomised response and other pure local channels."
        ),
        bad="privacy central\n  epsilon = 1\nrelease m\n  estimate mean(x) by dp-catoni-mean",
        good="privacy central\n  epsilon = 1, delta = 1e-6",
        references=("Dwork, Roth 2014, section 3.5 and appendix A", "document 000, Lemmas 2.1.1 and 2.1.2"),
    ),
    "DP302": Code(
        title="the budget is incomplete or contradicts itself",
        explanation=(
            "A budget is one of: epsilon (pure), epsilon with delta (approximate), rho (zCDP), mu (Gaussian DP). Parameters are "
            "positive and finite, and delta lies in [0, 1). Two of them at once would leave open which one is the promise."
        ),
        bad="epsilon = 1, rho = 0.1",
        good="epsilon = 1, delta = 1e-6",
    ),
    "DP303": Code(
        title="delta is not small against 1/n",
        explanation=(
            "(epsilon, delta)-DP permits a mechanism that publishes each record outright with probability delta. With delta >= 1/n "
            "such a mechanism publishes at least one record in expectation, so the guarantee rules out nothing that matters. Choose"
            " delta well below 1/n, for instance n^-1.1 or 1e-6, whichever is smaller."
        ),
        bad="n = 1000, delta = 0.01",
        good="delta = 1/n^1.5",
        references=("Dwork, Roth 2014, section 2.3",),
    ),
    "DP304": Code(
        title="epsilon is large",
        explanation=(
            "Above epsilon = 5 the worst case that the guarantee permits is close to no protection: a pure epsilon of 5 lets an "
            "attacker be right in 99.3 % of coin-flip membership tests. The plan prints the best attacker's detection rate at 0.1 %"
            " and 1 % false alarms; decide by that number. Large values may be defensible for local reports or when the worst case "
            "is far from the typical one."
        ),
        good="epsilon = 1",
    ),
    "DP305": Code(
        title="a published noise formula is used outside its range",
        explanation=(
            "The classic Gaussian formula sigma = sensitivity*sqrt(2 log(1.25/delta))/epsilon is proved for epsilon < 1 only; near "
            "epsilon = 8 it under-noises. The advanced composition formula eps/(2 sqrt(2 T log(2/delta))) likewise needs epsilon "
            "below 1. The plan never uses these formulas; it prints what they would spend."
        ),
        references=("document 000, Lemmas 2.1.2 and 2.1.5", "Balle, Wang 2018, section 2"),
    ),
    "DP306": Code(
        title="the sampler, the batches or the model do not go with the neighbouring relation",
        explanation=(
            "Amplification by sampling is a theorem about a sampler and a relation together. Batches of a fixed size go with "
            "replace-one. Poisson sampling goes with add-remove and zero-out; under replace-one it also needs to know how far a "
            "release moves when a sampled record is left out, because two neighbouring data sets differ in a sample by presence as "
            "well as by value. Accounting for a sampler that did not run is one of the commonest faults of deployed systems. Batches of "
            "consecutive rows do not go with add-remove, where a missing row moves all later ones, nor does a local model, where a missing "
            "user is seen; and where only labels or attributes are protected, a neighbour has another one: replace-one."
        ),
        bad="neighbours replace-one, Poisson batches, a sensitivity for replacement only",
        good="neighbours replace-one, batches of a fixed size",
        references=("Balle, Barthe, Gaboardi 2018, table 1", "Zhu, Dong, Wang 2022, Theorem 11 and Proposition 30", "Lebeda et al. 2024"),
    ),
    "DP307": Code(
        title="two accountants disagree (internal error)",
        explanation=(
            "Every plan's guarantee is recomputed by a second, independent accountant from the same event tree. They disagreed "
            "beyond the stated tolerance, so at least one of them is wrong and no plan is made. This is a fault of the tool or of a"
            " dependency, not of the analysis: please report it with the plan's event tree."
        ),
    ),
    "DP308": Code(
        title="no accountant reads this schedule",
        explanation=(
            "The schedule contains something that no implemented accountant bounds: an empty schedule, a weight that is not "
            "positive, or sampling inside sampling. A schedule without an account is not run."
        ),
    ),
    "DP309": Code(
        title="the published noise would exceed the budget",
        explanation=(
            "The noise scale that the document prints for this algorithm, put through the exact accountant, spends more than it "
            "claims. The plan uses the calibrated scale. The entry of the algorithm's card names the line of the proof that fails."
        ),
    ),
    "DP315": Code(
        title="a zeroed record is not zero here",
        explanation=(
            "Zero-out counts one record's term, half of what replacing costs, because a zeroed record, a row of zeros, is x = 0 and adds "
            "nothing to a sum. An intercept, one-hot, levels, a range that begins below 0, a standard with a mean, or an enforced domain "
            "of x without 0 makes an ordinary record of it, whose term may point against the one that it stands for. The plan then counts "
            "both and states replace-one, which covers a zeroed record and every other one."
        ),
        bad="neighbours zero-out    intercept",
        good="neighbours replace-one    intercept",
    ),
    "DP320": Code(
        title="a draw that the plan does not contain",
        explanation=(
            "The running algorithm asked the meter for noise under a name that the plan's event tree does not have. What is not in "
            "the plan is not paid for, so nothing is drawn and the run stops."
        ),
    ),
    "DP321": Code(
        title="more draws than planned",
        explanation=(
            "A draw was asked for more often than the plan accounts for. Each further draw costs privacy, so the run stops before "
            "it. Usual causes: a loop that runs one step too long, or a retry."
        ),
    ),
    "DP322": Code(
        title="the sensitivity differs from the plan",
        explanation=(
            "The algorithm released something with a sensitivity other than the one the plan was calibrated for. The usual cause is"
            " noise for a sum added to a mean, or a rescaling after the plan was made."
        ),
    ),
    "DP323": Code(
        title="a release object was used after it was closed",
        explanation="A plan pays for one run. The meter of a run that ended, or failed, draws nothing more; make a new plan or a new run.",
    ),
    "DP324": Code(
        title="a planned draw did not happen",
        explanation=(
            "The run ended with draws of the plan left over. That is no loss of privacy, but the run did not do what was planned, "
            "so its record would be wrong. The run counts as failed and its budget as spent."
        ),
    ),
    "DP325": Code(
        title="a value to be released is not finite, or has another shape than planned",
        explanation=(
            "NaN or infinity survives any noise and would be published as it is, which tells that a record produced it. The meter "
            "refuses the value; enforce the domain of the records or bound the statistic. A value with more numbers than planned would "
            "release numbers that nobody paid for."
        ),
    ),
    "DP326": Code(
        title="a source of randomness that the mode does not allow",
        explanation=(
            "A release on private data draws from the operating system's cryptographic source, through samplers on an integer grid. A "
            "seeded stream is for studies on synthetic or public data: whoever knows or guesses the seed can subtract the noise."
        ),
    ),
    "DP327": Code(
        title="a run failed after it had read the records",
        explanation=(
            "Whether and how a run on private data fails may depend on a record, so no algorithm should: what could fail is refused when "
            "the plan is made. This one failed all the same, which is a fault of the algorithm or of dpspec. Nothing was released; the "
            "cause is not told, since its words may hold a record's. The same plan on simulated records (dpspec study) tells it."
        ),
    ),
}
