"""The words of a deployment description: event kinds (found by file name), channel kinds, relations, facts."""

from __future__ import annotations

from collections.abc import Mapping

from dpspec.audit.events import kinds
from dpspec.audit.kinds import SORTS, Kind, Sort

EVENTS: Mapping[str, Kind] = kinds()
EVENT_ALIASES: Mapping[str, str] = {alias: name for name, kind in EVENTS.items() for alias in kind.aliases}

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
    "width": ("b",),
    "attributes": ("number_of_attributes",),
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
    "piecewise": Kind("a number of [-1, 1] by the piecewise mechanism", ("epsilon",), (("epsilon",),)),
    "square_wave": Kind("a number of [0, 1] by the square wave mechanism", ("epsilon", "width"), (("epsilon",),)),
    "count_mean_sketch": Kind("a hashed one-hot vector, every bit flipped on its own", ("epsilon", "keep"), (("epsilon", "keep"),)),
    "priv_unit": Kind(
        "a unit vector, its cap or the rest of the sphere", ("keep", "gamma", "dimension"), (("keep",), ("gamma",), ("dimension",))
    ),
    "sampled_attribute": Kind(
        "one attribute of several, drawn at random, by randomized response",
        ("attributes", "categories", "keep", "epsilon", "fakes", "differs"),
        (("attributes",), ("categories",), ("differs",), ("fakes",)),
    ),
    "cosine": Kind(
        "a cosine of a number of [0, 1], as one random bit or with Laplace noise",
        ("epsilon", "keep", "scale"),
        (("epsilon", "keep", "scale"),),
    ),
    "chain": Kind("channels one after the other, the first drawn once and remembered", ("channels", "reports"), (("channels",),)),
    "positions": Kind(
        "a record of several values, each by a channel of its own", ("channels", "counts", "differs"), (("channels",), ("differs",))
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
    "pm": "piecewise",
    "piecewise_mechanism": "piecewise",
    "sw": "square_wave",
    "cms": "count_mean_sketch",
    "privunit": "priv_unit",
    "rs_fd": "sampled_attribute",
    "sampling_plus_fakes": "sampled_attribute",
    "longitudinal": "chain",
    "memoised": "chain",
    "memoized": "chain",
    "fourier": "cosine",
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


def sort_of(kind: str, name: str) -> Sort:
    """What the field ``name`` of an event or channel may hold. Raises KeyError for a field that no kind has."""
    own = EVENTS[kind].sorts.get(name) if kind in EVENTS else None
    return own or SORTS[name]
