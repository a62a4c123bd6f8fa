"""The words of a deployment description: event kinds, channel kinds, relations, facts. One table each, aliases included."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

NEIGHBOURS = ("add_remove", "replace_one", "zero_out", "local_replace")

NEIGHBOUR_ALIASES: Mapping[str, str] = {
    "add-remove": "add_remove",
    "add/remove": "add_remove",
    "add_or_remove_one": "add_remove",
    "unbounded": "add_remove",
    "replace-one": "replace_one",
    "replace": "replace_one",
    "substitution": "replace_one",
    "bounded": "replace_one",
    "zero-out": "zero_out",
    "replace_special": "zero_out",
    "local-replace": "local_replace",
    "local": "local_replace",
}

#: Under these a record may turn into any other; a norm bound C then gives a sum the sensitivity 2C.
REPLACING = ("replace_one", "local_replace")

MODELS = ("central", "local", "shuffle", "tool", "federated", "nldp", "sldp")

COMMON = ("type", "count", "draws", "what", "arithmetic", "scale_from", "clip", "text", "note", "contributions")


@dataclass(frozen=True, slots=True)
class Kind:
    """``fields``: words of this kind besides the common ones. ``needs``: groups of which one word each must be present."""

    title: str
    fields: tuple[str, ...] = ()
    needs: tuple[tuple[str, ...], ...] = ()


_L1 = ("l1_sensitivity", "sensitivity", "clip_norm", "norm_bound")
_L2 = ("l2_sensitivity", "sensitivity", "clip_norm", "norm_bound")
_SCORE = ("linf_sensitivity", "score_sensitivity", "sensitivity")
_BODY = ("event", "events")

EVENTS: Mapping[str, Kind] = {
    "gaussian": Kind(
        "Gaussian noise added to a vector",
        (*_L2, "sigma", "noise_multiplier", "variance", "rho", "mu", "epsilon", "delta"),
        (("sigma", "noise_multiplier", "variance", "rho", "mu"),),
    ),
    "discrete_gaussian": Kind(
        "discrete Gaussian noise on integers",
        (*_L2, "sigma", "noise_multiplier", "variance", "rho", "mu"),
        (("sigma", "noise_multiplier", "variance", "rho", "mu"),),
    ),
    "laplace": Kind(
        "Laplace noise added to a vector",
        (*_L1, "scale", "noise_multiplier", "epsilon", "folded", "vote"),
        (("scale", "noise_multiplier", "epsilon"),),
    ),
    "discrete_laplace": Kind("two-sided geometric noise on integers", (*_L1, "scale", "epsilon"), (("scale", "epsilon"),)),
    "laplace_threshold": Kind(
        "Laplace noise on a histogram with private keys, released above a threshold",
        (*_L1, "scale", "epsilon", "threshold", "first_count", "keys"),
        (("scale", "epsilon"), ("threshold",)),
    ),
    "gaussian_threshold": Kind(
        "Gaussian noise on a histogram with private keys, released above a threshold",
        (*_L2, "sigma", "threshold", "first_count", "keys"),
        (("sigma",), ("threshold",)),
    ),
    "laplace_mean": Kind(
        "sum divided by the number of records, plus Laplace noise scaled by that number",
        ("range", "n", "n_public", "epsilon", "scale"),
        (("range",), ("n",), ("epsilon", "scale")),
    ),
    "exponential": Kind(
        "exponential mechanism: probability proportional to exp(exponent * score)",
        (*_SCORE, "epsilon", "exponent", "candidates", "monotone"),
        (("epsilon", "exponent"),),
    ),
    "noisy_max": Kind(
        "largest of noisy scores",
        (*_SCORE, "scale", "noise", "candidates", "releases", "monotone", "decay"),
        (("scale",),),
    ),
    "permute_and_flip": Kind("permute-and-flip selection", (*_SCORE, "scale", "epsilon", "candidates"), (("scale", "epsilon"),)),
    "svt": Kind(
        "sparse vector technique",
        ("sensitivity", "threshold_scale", "query_scale", "queries", "cutoff", "monotone", "releases"),
        (("threshold_scale",), ("query_scale",)),
    ),
    "randomized_response": Kind("k-ary randomized response", ("epsilon", "categories", "keep"), (("epsilon", "keep"),)),
    "pure": Kind("any epsilon-DP step", ("epsilon",), (("epsilon",),)),
    "approx": Kind("any (epsilon, delta)-DP step", ("epsilon", "delta"), (("epsilon",), ("delta",))),
    "zcdp": Kind("any rho-zCDP step", ("rho",), (("rho",),)),
    "gdp": Kind("any mu-GDP step", ("mu",), (("mu",),)),
    "wishart": Kind(
        "Wishart noise on a second-moment matrix",
        ("sensitivity", "scale", "degrees", "dimension"),
        (("scale",), ("degrees",), ("dimension",), ("sensitivity",)),
    ),
    "truncated_laplace": Kind("Laplace noise cut off at a bound", (*_L1, "scale", "epsilon", "bound"), (("scale", "epsilon"), ("bound",))),
    "uniform": Kind("uniform noise on an interval", (*_L1, "width"), (("width",),)),
    "exact": Kind("a statistic of the private data released without noise", ("condition",), ()),
    "sequence": Kind("several releases on the same records", _BODY, (_BODY,)),
    "parallel": Kind("the same releases on disjoint parts", (*_BODY, "parts", "parts_per_unit"), (_BODY,)),
    "select_until": Kind("repeat until a private test passes, publish the accepted result", (*_BODY, "limit"), (_BODY,)),
    "poisson_sampled": Kind("a fresh Poisson subset", (*_BODY, "rate", "once"), (_BODY, ("rate",))),
    "fixed_sampled": Kind("a fresh subset of fixed size without replacement", (*_BODY, "rate", "size", "n"), (_BODY, ("rate", "size"))),
    "shuffled": Kind("fixed batches of one random permutation", (*_BODY, "batches", "epochs"), (_BODY, ("batches",))),
    "subset": Kind("a subset whose selection is not a known sampler", (*_BODY, "rate", "method"), (_BODY,)),
}

EVENT_ALIASES: Mapping[str, str] = {
    "normal": "gaussian",
    "analytic_gaussian": "gaussian",
    "discrete_normal": "discrete_gaussian",
    "geometric": "discrete_laplace",
    "two_sided_geometric": "discrete_laplace",
    "threshold_laplace": "laplace_threshold",
    "threshold_gaussian": "gaussian_threshold",
    "report_noisy_max": "noisy_max",
    "rnm": "noisy_max",
    "exponential_mechanism": "exponential",
    "gumbel": "exponential",
    "sparse_vector": "svt",
    "above_threshold": "svt",
    "rr": "randomized_response",
    "krr": "randomized_response",
    "grr": "randomized_response",
    "pure_dp": "pure",
    "epsilon_dp": "pure",
    "epsilon_delta": "approx",
    "approx_dp": "approx",
    "approximate": "approx",
    "none": "exact",
    "raw": "exact",
    "no_noise": "exact",
    "unnoised": "exact",
    "non_private": "exact",
    "composed": "sequence",
    "composition": "sequence",
    "self_composed": "sequence",
    "disjoint": "parallel",
    "partition": "parallel",
    "poisson": "poisson_sampled",
    "sampled_without_replacement": "fixed_sampled",
    "fixed_size_sampled": "fixed_sampled",
    "sampled_fixed": "fixed_sampled",
    "shuffle": "shuffled",
    "shuffled_batches": "shuffled",
    "sampled": "subset",
}

#: Other spellings of fields. The last group only inside samplers, where q cannot mean anything else.
FIELD_ALIASES: Mapping[str, str] = {
    "std": "sigma",
    "stddev": "sigma",
    "standard_deviation": "sigma",
    "noise_scale": "scale",
    "b": "scale",
    "max_grad_norm": "clip_norm",
    "l2_norm_clip": "clip_norm",
    "clip_bound": "clip_norm",
    "steps": "count",
    "num_steps": "count",
    "repetitions": "count",
    "sampling_rate": "rate",
    "sampling_probability": "rate",
    "sample_rate": "rate",
    "q": "rate",
}

#: Other spellings of channel fields.
CHANNEL_FIELDS: Mapping[str, tuple[str, ...]] = {
    "categories": ("k", "domain_size", "domain"),
    "buckets": ("g", "hash_range"),
    "keep": ("p", "p_true", "keep_probability"),
    "size": ("w", "subset_size"),
    "include": ("p", "p_true"),
    "hashes": ("h",),
    "dimension": ("d",),
}

CHANNELS: Mapping[str, Kind] = {
    "matrix": Kind("conditional probabilities, one row an input", ("inputs", "outputs", "rows", "neighbours"), (("rows",),)),
    "unary": Kind("a one-hot vector, every bit flipped on its own", ("p_true_bit", "q_other_bit", "p", "q", "hot_bits"), ()),
    "unary_subset": Kind("some bits of a one-hot vector", ("p_true_bit", "q_other_bit", "p", "q", "sampled_bits"), (("sampled_bits",),)),
    "randomized_response": Kind("k-ary randomized response", ("categories", "keep", "epsilon"), (("categories",),)),
    "local_hashing": Kind("a public random hash, then randomized response", ("buckets", "keep", "epsilon"), (("buckets",),)),
    "subset_selection": Kind(
        "a random subset that holds the value more often", ("categories", "size", "include", "epsilon"), (("categories",), ("size",))
    ),
    "hadamard": Kind("one randomized Hadamard coefficient", ("keep", "epsilon"), (("keep", "epsilon"),)),
    "rappor": Kind("RAPPOR: permanent and instantaneous response", ("hashes", "f", "p", "q"), (("hashes",), ("f",), ("p",), ("q",))),
    "half_cube": Kind(
        "a uniform sign vector on the same or the other side of a rounded input",
        ("dimension", "epsilon", "keep", "ties"),
        (("dimension",), ("epsilon", "keep")),
    ),
    "laplace": Kind("Laplace noise on a bounded number", ("range", "scale", "epsilon"), (("scale",), ("range",))),
    "gaussian": Kind("Gaussian noise on a bounded vector", ("range", "sigma"), (("sigma",), ("range",))),
    "vote": Kind(
        "a noisy count compared with a threshold", ("low", "high", "sensitivity", "scale", "threshold"), (("scale",), ("threshold",))
    ),
}

CHANNEL_ALIASES: Mapping[str, str] = {
    "table": "matrix",
    "sue": "unary",
    "oue": "unary",
    "unary_encoding": "unary",
    "rr": "randomized_response",
    "krr": "randomized_response",
    "grr": "randomized_response",
    "olh": "local_hashing",
    "blh": "local_hashing",
    "subset": "subset_selection",
    "ss": "subset_selection",
    "hadamard_response": "hadamard",
    "duchi": "half_cube",
    "binary_vote": "vote",
}

#: Facts about a deployment beside its event tree, with the words each may take (empty: free).
FACTS: Mapping[str, tuple[str, ...]] = {
    "seed": ("fresh", "fixed", "public", "reused"),
    "bounds": ("public", "enforced", "released", "declared", "from-data"),
    "thresholds": ("public", "released", "from-data"),
    "normaliser": ("public", "released", "private"),
    "arithmetic": ("lattice", "safe", "float64", "float32"),
    "outputs_outside": (),
    "discarded_runs": (),
    "key_set": ("public", "private"),
    "summation": (),
}
