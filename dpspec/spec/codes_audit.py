"""Diagnostic codes of the static and exact auditor; see :mod:`dpspec.spec.codes`."""

from __future__ import annotations

from dpspec.spec.codes import Code

CODES: dict[str, Code] = {
    # ------------------------------------------------------------------------------------------------------------ verdicts
    "DP601": Code(
        "the stated guarantee is violated",
        "One pair of neighbouring data sets and one set of outputs (or the exact privacy profile of the mechanism) has a larger loss than "
        "the statement allows. This is a proof, not a suspicion: the lower bound of the true epsilon lies above the claim.",
        bad="claim: {epsilon: 1, delta: 0} for two Laplace(1) releases of sensitivity 1",
        good="claim: {epsilon: 2, delta: 0}",
    ),
    "DP602": Code(
        "the stated guarantee is not certified",
        "What can be proved from the description is weaker than the claim, and no counterexample is known either. The number to rely on is "
        "the certified upper bound.",
    ),
    "DP603": Code(
        "the stated numbers contradict each other",
        "Two statements about one release cannot both be right: rho is mu^2/2 for Gaussian noise, a pure guarantee has delta 0, an epsilon "
        "follows from mu and delta, a sampling rate is size over n. Which of them was rounded or mistyped is for the author to say.",
        bad="claim: {rho: 0.0728, mu: 0.376}",
        good="claim: {rho: 0.0728, mu: 0.3816}",
    ),
    "DP604": Code(
        "delta is too large for the number of units",
        "With delta at least 1/n a mechanism that publishes the record of one unit chosen at random keeps the guarantee. Nothing is "
        "promised to anybody. Take delta well below 1/n.",
    ),
    "DP605": Code(
        "the description lacks what is needed",
        "No verdict is possible without the named fields: the events with their noise scales and sensitivities, or a channel.",
    ),
    "DP606": Code(
        "the guarantee holds under a condition that is not established",
        "The number is right if the named condition holds and wrong otherwise. Enforce the condition in the code and state it.",
    ),
    "DP607": Code(
        "the guarantee is looser than it need be",
        "The true epsilon is at most half of the stated one. That is safe; the noise, or the statement, could be reduced.",
    ),
    "DP608": Code(
        "an accountant or ledger is wrong or fails",
        "The tool's answer is not what its own rule gives, is no upper bound, or is missing. A failure must never become a default value.",
    ),
    "DP609": Code("the guarantee holds", "The certified upper bound is at most the stated value."),
    # ----------------------------------------------------------------------------------------------- neighbours, sensitivity
    "DP610": Code(
        "the factor two of replace-one is missing",
        "Replacing a record in a sum of vectors of norm at most C moves the sum by up to 2C; adding, removing or zeroing one by C. "
        "An accountant that is told noise/C and the relation replace-one must double the shift itself; some do not.",
        references=("google/differential-privacy#378",),
    ),
    "DP611": Code(
        "the textbook Gaussian scale was used outside its range",
        "sigma = Delta sqrt(2 ln(1.25/delta))/epsilon is proved for epsilon < 1 only. Beyond that it may still be enough, and from about "
        "epsilon 8 it is not: only the privacy profile decides (Balle and Wang 2018).",
        references=("Balle, Wang 2018",),
    ),
    "DP612": Code(
        "a pure guarantee is stated for Gaussian noise",
        "Gaussian noise has no finite epsilon at delta 0. State a delta, rho or mu.",
    ),
    "DP613": Code("an approximate guarantee without a delta", "(epsilon, delta) means nothing until delta is given."),
    "DP614": Code("a pure guarantee with a positive delta", "Pure DP has delta 0; with a delta the variant is approximate DP."),
    "DP615": Code(
        "accounting and sampler do not match",
        "Shuffled batches of fixed size are not Poisson batches: their amplification can be far smaller (Chua et al. 2024). Account the "
        "sampler that ran.",
        references=("Chua et al. 2024",),
    ),
    "DP616": Code(
        "the subset is drawn once and used many times",
        "Amplification by sampling needs a fresh draw for every release. A subset that is drawn once amplifies the composition of all "
        "releases on it, once.",
    ),
    "DP617": Code(
        "epsilon was multiplied by the sampling rate",
        "Sampling at rate q gives ln(1 + q (exp(epsilon) - 1)), which is about q*epsilon for small epsilon only.",
    ),
    "DP618": Code(
        "the central-limit accountant was used as a guarantee",
        "mu = q sqrt(T (exp(1/z^2) - 1)) is a limit for many steps. It nears the true loss from below, so it certifies nothing.",
        references=("Bu, Dong, Long, Su 2020",),
    ),
    "DP619": Code(
        "the number needs the Gaussian form, not the generic conversion",
        "From rho-zCDP alone the best generic conversion gives a larger epsilon; the stated one follows when all noise is Gaussian.",
    ),
    "DP620": Code(
        "a statistic of private records carries no noise",
        "A scale of zero, a statistic left out of the accounting, or a value copied through: neighbours are told apart with certainty.",
    ),
    "DP621": Code(
        "noise or bounds are computed from the protected records",
        "Bounds, ranges and thresholds must be public, enforced, or released with budget. Otherwise the scale tells neighbours apart.",
    ),
    "DP622": Code(
        "the sensitivity is assumed, not enforced",
        "Without a clip (or with one applied to a copy) a single record moves the released value without bound.",
    ),
    "DP623": Code(
        "the noise is scaled by the private number of records",
        "Under add/remove the number of records is private. Noise of scale range/(n epsilon) then differs between neighbours and the "
        "log-ratio grows with the output. Noise numerator and denominator, or use a public n and replace-one.",
    ),
    "DP624": Code(
        "the noise comes from a known or reused seed",
        "Noise that the reader can regenerate is subtracted. Release noise needs fresh cryptographic randomness and takes no seed.",
    ),
    "DP625": Code(
        "floating-point noise betrays the input",
        "x + Lap(b) in doubles reaches different sets of doubles for different x (Mironov 2012). Sample on a lattice.",
        references=("Mironov 2012",),
    ),
    "DP626": Code(
        "machine arithmetic exceeds the ideal sensitivity",
        "Rounding in floating-point sums and wrap-around in integers move a sum by more than the largest record (Casacuberta et al. 2022).",
        references=("Casacuberta et al. 2022",),
    ),
    "DP627": Code(
        "Wishart noise is not differentially private in this form",
        "W is positive definite, so some outputs are possible for one data set only. The bounded density ratio on the common support says "
        "nothing about them.",
        references=("IBM/differential-privacy-library#42",),
    ),
    "DP628": Code(
        "the cost of several releases is stated as that of fewer",
        "Releases on the same records add up; a quotient of two noisy numbers, a repeated query, a hidden initialisation each count.",
    ),
    "DP629": Code(
        "parallel composition without a bound on contributions",
        "Disjoint parts protect a unit once only if the unit lies in one part. With m parts it costs m times as much.",
    ),
    "DP630": Code(
        "the unit of the claim is not the unit of the accounting",
        "A guarantee for a day or an event is no guarantee for a person over time.",
    ),
    "DP631": Code(
        "the unit or the neighbouring relation is not stated",
        "An epsilon says nothing until it is known what changes between two neighbouring data sets and whose data that is.",
    ),
    "DP632": Code("a negative epsilon", "No mechanism has a negative epsilon; the formula that produced it is wrong."),
    "DP633": Code(
        "one noise draw is charged as many",
        "Composition theorems need fresh, independent noise at each use. Differences of outputs cancel shared noise.",
    ),
    "DP634": Code(
        "sparse vector without cut-off or query noise",
        "The threshold noise is paid once, every positive answer costs again: noise each query with 2c/epsilon2 and stop after c positives "
        "(Lyu, Su, Li 2017).",
        references=("Lyu, Su, Li 2017",),
    ),
    "DP635": Code(
        "the noisy maximum itself is released", "Publishing the value costs as much as publishing all n noisy answers: n Delta/b."
    ),
    "DP636": Code(
        "bounded-range accounting for a mechanism that is not bounded range",
        "rho = epsilon^2/8 belongs to the exponential mechanism. Permute-and-flip and Laplace noisy max are epsilon^2/2.",
        references=("opendp/opendp#2911",),
    ),
    "DP637": Code(
        "the noise scale looks inverted", "Laplace noise has scale Delta/epsilon. epsilon/Delta gives Delta^2/epsilon as the loss."
    ),
    "DP638": Code(
        "the ledger is not written before the draw",
        "Reserve before the first draw, atomically, and keep the reservation when the run fails; otherwise two runs pass one check, "
        "and a late error gives noise for free.",
    ),
    "DP639": Code("the stated rule does not give the stated number", "The named composition rule, evaluated, differs from what is stated."),
    "DP640": Code(
        "runs that were looked at and discarded are not counted",
        "Choosing among several private runs costs every run whose result influenced the choice.",
    ),
    "DP641": Code(
        "outputs outside the accounting", "Losses, metrics, norms or thresholds that leave the analysis without noise or budget."
    ),
    "DP642": Code(
        "a local randomizer has another epsilon than stated",
        "The largest ratio over all outputs, all pairs of inputs and both directions decides, not one output or an assumed symmetry.",
    ),
    "DP643": Code(
        "no amplification theorem covers this selection",
        "Stratified, matched or otherwise data-dependent subsets amplify nothing that is proved; the unsampled guarantee applies.",
    ),
    "DP644": Code(
        "the published keys betray a unit",
        "A key held by a single unit appears with a probability that must be covered by delta; with a private key set and no threshold it "
        "appears surely.",
    ),
    "DP645": Code("the stated delta is below what the parts need", "Deltas of the parts add up under composition."),
    "DP646": Code("the sampler's noise is not certified", "The noise source is not known to be a lattice sampler with fresh randomness."),
    "DP647": Code(
        "the auditor's own bounds contradict each other",
        "A lower bound lies above an upper bound, so one of them is wrong. It is a fault of the auditor, and no verdict is given.",
    ),
    # --------------------------------------------------------------------------------------------------------------- input
    "DP648": Code(
        "how a configuration was read",
        "Rate, steps, noise over sensitivity and relation, as they follow from the words of the tool: check them against the run.",
    ),
    "DP649": Code(
        "no noise is stated, only a target",
        "The answer is the least noise multiplier whose certified epsilon meets the target; whether the tool chose it is not known.",
    ),
    "DP670": Code("the file cannot be read", "It is no YAML, JSON or CSV, or it repeats a key or expands too far."),
    "DP671": Code("unknown word in a description", "A misspelt key would be ignored silently, so it is an error."),
    "DP672": Code(
        "a value of the wrong kind or out of range",
        "The field takes another kind of value than the one given; docs/audit.md lists what each field takes.",
    ),
    "DP673": Code("no model for this mechanism", "The auditor derives nothing for mechanisms it does not know."),
    "DP674": Code(
        "a field is missing", "The mechanism's guarantee depends on this number, so nothing can be certified or refuted without it."
    ),
    "DP675": Code("the channel is not usable", "Rows must be probability distributions over the same outputs."),
    "DP676": Code(
        "the format was not recognised",
        "Known: a deployment description, a channel matrix, DP-SGD parameters, a registry entry, a plan or record.",
    ),
    "DP677": Code("nothing to audit", "The document holds neither a claim nor a mechanism."),
}
