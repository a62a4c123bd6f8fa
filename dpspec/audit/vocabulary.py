"""The words of a deployment description: event kinds, channel kinds, relations, facts. One table each, aliases included."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

NEIGHBOURS = ("add_remove", "replace_one", "zero_out", "local_replace")

#: Words of the field for the four relations, spelt with underscores; :func:`relation_of` reads them.
NEIGHBOUR_ALIASES: Mapping[str, str] = {
    "add/remove": "add_remove",
    "add_or_remove": "add_remove",
    "add_or_remove_one": "add_remove",
    "add_remove_one": "add_remove",
    "insert_delete": "add_remove",
    "symmetric": "add_remove",
    "symmetric_distance": "add_remove",
    "symmetric_difference": "add_remove",
    "unbounded": "add_remove",
    "replace": "replace_one",
    "replacement": "replace_one",
    "substitution": "replace_one",
    "substitute": "replace_one",
    "substitute_one": "replace_one",
    "change_one": "replace_one",
    "change_one_distance": "replace_one",
    "swap": "replace_one",
    "swap_one": "replace_one",
    "hamming": "replace_one",
    "hamming_distance": "replace_one",
    "bounded": "replace_one",
    "zero": "zero_out",
    "zeroing": "zero_out",
    "zeroed": "zero_out",
    "replace_special": "zero_out",
    "replace_null": "zero_out",
    "replace_with_null": "zero_out",
    "local": "local_replace",
}


def relation_of(text: str) -> str:
    """One of :data:`NEIGHBOURS` for a word that means it, in any spelling with blanks, hyphens or underscores; else the text itself."""
    word = "_".join(text.lower().replace("-", " ").replace("_", " ").split())
    return word if word in NEIGHBOURS else NEIGHBOUR_ALIASES.get(word, text)


#: Under these a record may turn into any other; a norm bound C then gives a sum the sensitivity 2C.
REPLACING = ("replace_one", "local_replace")

MODELS = ("central", "local", "shuffle", "tool", "federated", "nldp", "sldp")

COMMON = ("type", "count", "draws", "what", "arithmetic", "scale_from", "clip", "text", "note", "contributions")

#: Fields that are for the reader alone; no number depends on them.
INFORMATION = ("type", "what", "text", "note", "method", "condition", "inputs", "outputs")


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
        (*_L2, "sigma", "noise_multiplier", "variance", "rho", "mu"),
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
    "discrete_laplace_threshold": Kind(
        "two-sided geometric noise on integer counts with private keys, released at or above a threshold",
        (*_L1, "scale", "epsilon", "threshold", "first_count", "keys"),
        (("scale", "epsilon"), ("threshold",)),
    ),
    "discrete_gaussian_threshold": Kind(
        "discrete Gaussian noise on integer counts with private keys, released at or above a threshold",
        (*_L2, "sigma", "threshold", "first_count", "keys"),
        (("sigma",), ("threshold",)),
    ),
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
        (("sensitivity",), ("threshold_scale",), ("query_scale",)),
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
    "parallel": Kind("the same releases on disjoint parts", (*_BODY, "parts", "parts_per_unit", "parts_by"), (_BODY,)),
    "select_until": Kind("repeat until a private test passes, publish the accepted result", (*_BODY, "limit"), (_BODY,)),
    "poisson_sampled": Kind("a fresh Poisson subset at every use, or one for all uses", (*_BODY, "rate", "once"), (_BODY, ("rate",))),
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
    "geometric_threshold": "discrete_laplace_threshold",
    "threshold_geometric": "discrete_laplace_threshold",
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

# ------------------------------------------------------------------------------------------------------- what a field may hold


@dataclass(frozen=True, slots=True)
class Sort:
    """The values of a field: numbers from ``low`` to ``high`` (``whole`` ones; ``above``: without ``low``), or ``words``, or another
    ``form``: flag, text, word, list, pairs, events, votes."""

    title: str
    low: float = 0.0
    high: float = math.inf
    whole: bool = False
    above: bool = False
    below: bool = False
    words: tuple[str, ...] = ()
    form: str = "number"

    def fault(self, value: Any) -> str:
        """Why ``value`` (numbers as numbers, fractions already divided) is none of this sort; empty when it is one."""
        if self.form in ("events", "votes"):
            return ""  # read by the loader itself
        if self.form == "flag":
            return "" if isinstance(value, bool) else f"must be true or false, not {shown(value)}"
        if self.form in ("text", "list", "pairs"):
            fine = isinstance(value, (str, int, float)) if self.form == "text" else isinstance(value, (list, tuple))
            return "" if fine else f"must be {self.title}, not {shown(value)}"
        if isinstance(value, str) and value in self.words:
            return ""
        if self.form == "word":
            return f"must be one of {', '.join(self.words)}, not {shown(value)}"
        also = f" or {' or '.join(self.words)}" if self.words else ""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return f"must be {self.title}{also}, not {shown(value)}"
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        fine = math.isfinite(number) and self.low <= number <= self.high and not (self.whole and number != int(number))
        fine = fine and not (self.above and number <= self.low) and not (self.below and number >= self.high)
        return "" if fine else f"must be {self.title}{also}, not {shown(value)}"


def shown(value: Any) -> str:
    text = (
        f"{value:g}" if isinstance(value, float) else str(value) if isinstance(value, int) and not isinstance(value, bool) else repr(value)
    )
    return text if len(text) <= 40 else text[:37] + "..."


_MOST = 2.0**53
WHOLE = Sort("a whole number from 1", low=1, high=_MOST, whole=True)
COUNT_FROM_0 = Sort("a whole number from 0", high=_MOST, whole=True)
POSITIVE = Sort("a finite number above 0", above=True)
AMOUNT = Sort("a finite number from 0")
CHANCE = Sort("a number in [0, 1]", high=1)
REAL = Sort("a finite number", low=-math.inf)
FLAG = Sort("true or false", form="flag")
TEXT = Sort("text", form="text")
_OPEN_ENDED = ("unknown", "unbounded")

#: Every field of events and channels, and what it may hold. ``releases`` differs by kind (:data:`SORTS_OF`).
SORTS: Mapping[str, Sort] = {
    "type": TEXT,
    "what": TEXT,
    "text": TEXT,
    "note": TEXT,
    "method": TEXT,
    "condition": TEXT,
    "count": WHOLE,
    "draws": COUNT_FROM_0,
    "contributions": Sort(WHOLE.title, 1, _MOST, True, words=_OPEN_ENDED),
    "arithmetic": Sort("", form="word", words=("lattice", "safe", "float64", "double", "float32", "single")),
    "scale_from": Sort("", form="word", words=("data", "from-data", "private", "public", "fixed")),
    "clip": Sort("", form="word", words=("none", "copy", "missing", "record", "enforced")),
    "l1_sensitivity": AMOUNT,
    "l2_sensitivity": AMOUNT,
    "linf_sensitivity": AMOUNT,
    "score_sensitivity": AMOUNT,
    "sensitivity": AMOUNT,
    "clip_norm": AMOUNT,
    "norm_bound": AMOUNT,
    "sigma": AMOUNT,
    "scale": AMOUNT,
    "noise_multiplier": AMOUNT,
    "variance": AMOUNT,
    "threshold_scale": AMOUNT,
    "query_scale": AMOUNT,
    "rho": AMOUNT,
    "mu": AMOUNT,
    "epsilon": AMOUNT,
    "exponent": AMOUNT,
    "delta": CHANCE,
    "rate": CHANCE,
    "keep": CHANCE,
    "include": CHANCE,
    "p": CHANCE,
    "q": CHANCE,
    "f": CHANCE,
    "p_true_bit": CHANCE,
    "q_other_bit": CHANCE,
    "decay": Sort("a number from 0 to below 1", high=1, below=True),
    "folded": FLAG,
    "monotone": FLAG,
    "once": FLAG,
    "n_public": FLAG,
    "vote": Sort("low, high and threshold", form="votes"),
    "threshold": REAL,
    "low": REAL,
    "high": REAL,
    "first_count": POSITIVE,
    "keys": WHOLE,
    "range": AMOUNT,
    "width": AMOUNT,
    "bound": AMOUNT,
    "degrees": POSITIVE,
    "dimension": WHOLE,
    "n": WHOLE,
    "size": WHOLE,
    "candidates": WHOLE,
    "queries": WHOLE,
    "cutoff": WHOLE,
    "limit": WHOLE,
    "batches": WHOLE,
    "epochs": WHOLE,
    "parts": WHOLE,
    "parts_per_unit": Sort(WHOLE.title, 1, _MOST, True, words=_OPEN_ENDED),
    "parts_by": Sort("", form="word", words=("value", "position")),
    "categories": Sort("a whole number from 2", 2, _MOST, True),
    "buckets": Sort("a whole number from 2", 2, _MOST, True),
    "hashes": Sort("a whole number from 1 to 1000", 1, 1000, True),
    "hot_bits": Sort("a whole number from 1 to 5", 1, 5, True),
    "sampled_bits": WHOLE,
    "ties": Sort("", form="word", words=("both", "split", "none")),
    "noise": Sort("", form="word", words=("laplace", "gumbel", "exponential", "gaussian")),
    "releases": Sort("", form="word", words=("index", "value", "both")),
    "event": Sort("an event", form="events"),
    "events": Sort("a list of events", form="events"),
    "inputs": Sort("a list of names", form="list"),
    "outputs": Sort("a list of names", form="list"),
    "rows": Sort("a list of rows", form="list"),
    "neighbours": Sort("a list of pairs of row numbers", form="pairs"),
}

SORTS_OF: Mapping[tuple[str, str], Sort] = {("svt", "releases"): Sort("", form="word", words=("index", "value"))}


def sort_of(kind: str, name: str) -> Sort:
    """What the field ``name`` of an event or channel may hold. Raises KeyError for a field that no kind has."""
    return SORTS_OF.get((kind, name)) or SORTS[name]
