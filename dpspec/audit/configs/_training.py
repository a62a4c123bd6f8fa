"""DP-SGD by its configuration: batch and rate, steps, noise and clip with their schedules, sampler, relation, claim.

Where a word is open (what one batch is under several workers, whether sigma is a multiple of the clip, how batches are drawn) every reading
becomes a run of its own, with the condition under which it is the right one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dpspec.audit.configs._keys import Keys, refuse, word_of
from dpspec.audit.configs._run import Run, Segment, events_of, merged
from dpspec.audit.configs._tool import Configured, Tool
from dpspec.audit.deployment import Deployment, deployment_of
from dpspec.audit.kinds import shown
from dpspec.audit.words import NEIGHBOURS, relation_of

#: How words of a sampler begin, by the law of its batches. A text with words of two laws, or with one of those below, says none.
SAMPLERS = {
    "poisson": ("poisson", "bernoulli", "independent", "binomial"),
    "shuffled": ("shuf", "permut", "epoch", "reshuffl"),
    "fixed": ("fixed", "without_replacement", "uniform_subset", "uniform_without", "swor"),
    "full": ("full", "none", "all", "no_sampling", "everyone"),
    "order": ("sequential", "in_order", "cyclic", "deterministic"),
}
_DENIED = ("non", "not", "no", "never", "as", "like")
_HEDGED = ("account", "assum", "approx", "claim", "quasi", "pseudo", "with_replacement")
#: Opacus has a sampler of this name, and it draws independent coins.
_COINS = "uniform_with_replacement"
_IN_WORDS = {
    "poisson": "batches are drawn by independent coins (Poisson)",
    "shuffled": "batches are cut from a permutation",
    "fixed": "each batch is a fresh subset of fixed size",
}


@dataclass(frozen=True, slots=True)
class Choice:
    """One value of what a configuration leaves open; ``condition`` is empty when it is stated."""

    value: Any
    condition: str = ""


# -------------------------------------------------------------------------------------------------------------- batches


def devices(keys: Keys) -> int | None:
    workers, nodes = keys.whole("workers"), keys.whole("nodes")
    return None if workers is None and nodes is None else (workers or 1) * (nodes or 1)


def batches(keys: Keys, tool: Tool) -> list[Choice]:
    """The number of records behind one noisy step, by every reading."""
    logical, batch, device = keys.number("logical", 1), keys.number("batch", 1), keys.number("device_batch", 1)
    physical = keys.number("physical", 1)
    accumulation, workers = keys.whole("accumulation"), devices(keys)
    if physical is not None and device is None and batch is None and logical is None and not keys.has("rate"):
        device, physical = physical, None
    if physical is not None:
        keys.said(f"{keys.name('physical')} {physical:g} is a matter of memory: it changes no batch of the noise")
    if logical is not None:
        if accumulation is not None or workers is not None or batch is not None or device is not None:
            keys.said(f"one noisy step is on {logical:g} records; how they are computed changes nothing")
        return _logical(keys, tool, logical, device if device is not None else batch, accumulation or 1, workers or 1)
    if device is not None:
        total = device * (accumulation or 1) * (workers or 1)
        made = f"{device:g} on a device x {accumulation or 1} accumulated x {workers or 1} devices"
        keys.said(f"one noisy step is on {total:g} records: {made}")
        if batch is not None and not math.isclose(batch, total):
            raise refuse("DP672", f"{keys.name('batch')} = {batch:g}, and {made} make {total:g}")
        return [Choice(total, "" if workers is not None else "training runs on one device")]
    if batch is None:
        return [Choice(None)]
    times = (accumulation or 1) if tool.accumulates else 1
    if accumulation is not None and accumulation > 1:
        said = f"{batch:g} x {accumulation} accumulated = {batch * times:g}" if tool.accumulates else f"{batch:g}, accumulated or not"
        keys.said(f"one noisy step is on the records of all accumulated passes: {said}")
    if workers is None or workers == 1 or not tool.accumulates:
        return [Choice(batch * times)]
    name = keys.name("batch")
    return [
        Choice(batch * times, f"{name} counts the records of all {workers} workers"),
        Choice(batch * times * workers, f"{name} counts the records of one of {workers} workers"),
    ]


#: Words of a batch that say whose it is: that of all workers.
_OF_ALL = ("global", "total", "effective", "target", "init_value")


def _logical(keys: Keys, tool: Tool, logical: float, part: float | None, accumulation: int, workers: int) -> list[Choice]:
    """A stated batch of one noisy step beside the parts that it is computed in."""
    name = keys.name("logical")
    if part is not None and part * accumulation * workers != logical and (accumulation > 1 or workers > 1):
        restated = part == logical and (accumulation == 1 or not tool.accumulates)
        if not (restated or part * accumulation == logical):
            raise refuse("DP672", f"{name} = {logical:g}, and the parts make {part * accumulation * workers:g}")
    elif part is not None and workers > 1:
        return [Choice(logical)]  # the parts of all workers make it
    if workers == 1 or not tool.accumulates:
        return [Choice(logical)]
    if _says(name.replace(".", "_"), _OF_ALL):
        if part is not None:
            raise refuse("DP672", f"{name} = {logical:g}, and the parts of {workers} workers make {part * accumulation * workers:g}")
        return [Choice(logical)]
    return [
        Choice(logical, f"{name} counts the records of all {workers} workers"),
        Choice(logical * workers, f"{name} counts the records of one of {workers} workers"),
    ]


def rates(keys: Keys, tool: Tool, stated: float | None) -> list[Choice]:
    """What a stated rate is multiplied by: it may be that of one pass of several that are accumulated."""
    accumulation = keys.whole("accumulation")
    if stated is None or accumulation is None or accumulation == 1 or not tool.accumulates:
        return [Choice(1)]
    if keys.has("batch", "device_batch", "logical", "physical") and keys.has("n"):
        return [Choice(1)]  # the batch tells, and the two have to agree
    name = keys.name("rate")
    return [
        Choice(1, f"{name} is that of one noisy step"),
        Choice(accumulation, f"{name} is that of one of {accumulation} accumulated passes"),
    ]


def length(keys: Keys, tool: Tool, rate: float, n: float | None, batch: float | None) -> int:
    """Steps of the whole run; epochs have 1/rate steps, rounded up over the run (down in each epoch where the last batch is dropped). Where
    steps and epochs say two numbers and the tool does not say which wins: the larger one."""
    steps = keys.number("steps", -1)
    epochs, per = keys.number("epochs"), keys.whole("steps_per_epoch")
    drop = keys.flag("drop_last")
    if steps is not None and steps != int(steps):
        raise refuse("DP672", f"{keys.name('steps')} = {steps:g} must be a whole number")
    if steps is not None and steps > 0:
        if epochs is not None:
            of_epochs = math.ceil(epochs / rate - 1e-9)
            if abs(of_epochs - steps) > max(epochs, 1, 0.01 * steps):
                taken = int(steps) if tool.steps_win else max(int(steps), of_epochs)
                said = f"{keys.name('steps')} is {steps:g}, and {keys.name('epochs')} {epochs:g} would be {of_epochs} steps"
                keys.said(f"{said}: {taken} are taken")
                return taken
        return int(steps)
    if epochs is None:
        raise refuse("DP674", "missing: epochs, or steps")
    if epochs <= 0:
        raise refuse("DP672", f"{keys.name('epochs')} = {epochs:g} must be above 0")
    if per is not None:
        return math.ceil(epochs * per)
    if drop and n is not None and batch is not None:
        found = math.floor(n / batch + 1e-9) * math.ceil(epochs)
        keys.said(f"the last batch of an epoch is dropped: {math.floor(n / batch + 1e-9)} steps an epoch")
        return max(found, 1)
    return max(math.ceil(epochs / rate - 1e-9), 1)


def _laws(word: str, tool: Tool) -> list[str]:
    """The laws of :data:`SAMPLERS` that a text names; none where it says more than a name."""
    if _COINS in word and tool.sampler == "poisson":
        word = word.replace(_COINS, "poisson")
    if word != "no_sampling" and (_says(word, _DENIED, whole=True) or _says(word, _HEDGED)):
        return []
    return [name for name, spelt in SAMPLERS.items() if _says(word, spelt, whole=name == "full")]


def _says(text: str, words: Sequence[str], whole: bool = False) -> bool:
    """Whether one of ``words`` begins at (``whole``: is) a word of ``text``; words stand between underscores."""
    return any(f"_{w}_" in f"_{text}_" if whole else f"_{w}" in f"_{text}" for w in words)


def sampler_of(keys: Keys, tool: Tool) -> list[Choice]:
    poisson, word, shuffle = keys.flag("poisson"), keys.word("sampler"), keys.raw("shuffle")
    if word:
        found = _laws(word, tool)
        if len(found) != 1:
            raise refuse("DP672", f"unknown sampler {word!r}", f"one of {', '.join(SAMPLERS)}")
        if poisson is not None and poisson != (found == ["poisson"]):
            raise refuse("DP672", f"{keys.name('poisson')} and {keys.name('sampler')} contradict each other")
        return [Choice(found[0])]
    if poisson is True:
        return [Choice("poisson")]
    if poisson is False or shuffle not in (None, False):
        if shuffle not in (None, False, True) or keys.name("shuffle") in ("shuffle_buffer_size", "shuffle_buffer"):
            keys.said("a shuffle buffer mixes less than a permutation; batches are taken as cut from one")
        return [Choice("order" if shuffle is False else "shuffled")]
    if shuffle is False:
        return [Choice("order")]
    if tool.sampler:
        words = _IN_WORDS.get(tool.sampler, tool.sampler)
        keys.said(f"the sampler is not stated; {words} is what {tool.title} does by default", "DP615", "state sampling")
        return [Choice(tool.sampler)]
    return [Choice(name, _IN_WORDS[name]) for name in ("poisson", "shuffled")]


# ---------------------------------------------------------------------------------------------------------------- noise


@dataclass(frozen=True, slots=True)
class Noise:
    """``norm``: of what one record adds; the multiplier is noise over ``clip``. ``deviation``: an absolute standard deviation instead."""

    clip: float
    norm: float
    multiplier: Sequence[float] | None
    deviation: float | None = None
    norms: Sequence[float] = ()


_MOST_TURNS = 100_000
_LAYERED = ("layer", "param", "tensor", "block", "group")


def noises(keys: Keys, tool: Tool) -> list[Choice]:
    """Noise and clip by every reading; a multiplier of None is what is asked for."""
    clips, style = _clips(keys), keys.word("style")
    tensors = keys.whole("tensors")
    layered = any(w in style for w in _LAYERED) and not style.startswith("all_layer")
    for name, value in keys.all("mode"):
        if word_of(value) in ("none", "non_dp", "nondp", "no", "off") and name.rsplit(".", 1)[-1] in ("clipping_mode", "clipping_fn"):
            raise refuse("DP677", f"{name} {value}: this run clips nothing, and nothing is to be audited")
    keys.raw("clip_rule")
    if style and not layered and not any(w in style for w in ("flat", "all_layer", "global", "adapt", "fixed", "abadi", "automatic", "l2")):
        raise refuse("DP672", f"{keys.name('style')} {style!r} is not known", "flat, per_layer or adaptive")
    if len(clips) > 1 and style and not layered:
        raise refuse("DP672", f"{keys.name('clip')} lists {len(clips)} clips beside {keys.name('style')} {style}")
    clip = clips[0] if len(clips) == 1 else math.hypot(*clips)
    norm, layers = clip, len(clips)
    if layered and len(clips) == 1:
        layers = tensors or 0
        if not tool.split:
            if tensors is None:
                raise refuse("DP674", "missing: num_tensors, how many parts are clipped on their own", "or the list of their clips")
            norm = clips[0] * math.sqrt(tensors)
            keys.said(f"{tensors} parts clipped to {clips[0]:g} each: the whole has norm up to {norm:.6g}")
        else:
            keys.said(f"the clip {clip:g} is divided among the layers: the whole has norm up to {clip:g}")
    elif len(clips) > 1:
        norm = clip
        keys.said(f"{len(clips)} parts with clips of their own: the whole has norm up to {clip:.6g}")
    return [
        Choice(replace(noise.value, norm=norm), noise.condition)
        for noise in _levels(keys, tool, clip, norm, layers if (layered or len(clips) > 1) and not (tool.split and layered) else 1)
    ]


def _clips(keys: Keys) -> list[float]:
    value = keys.raw("clip")
    if value is None:
        return [1.0]
    name = keys.name("clip")
    if isinstance(value, list):
        if not value:
            raise refuse("DP672", f"{name} is an empty list")
        return [keys.checked(name, v, above=True) for v in value]
    return [keys.checked(name, value, above=True)]


def _levels(keys: Keys, tool: Tool, clip: float, norm: float, layers: int) -> list[Choice]:
    multiplier, deviation, sigma = keys.raw("multiplier"), keys.number("noise_std"), keys.number("sigma")
    stated = [m for m in ("multiplier", "noise_std", "sigma") if keys.has(m)]
    if len(stated) > 1:
        raise refuse("DP672", f"{' and '.join(keys.name(m) for m in stated)} both state the noise")
    if deviation is not None and not keys.has("clip"):
        raise refuse("DP674", f"missing: clip_norm, which {keys.name('noise_std')} = {deviation:g} is compared with")
    if sigma is not None and not keys.has("clip"):
        return [Choice(Noise(clip, norm, [sigma]), f"{keys.name('sigma')} is a multiple of the clip")]
    if sigma is not None:
        if clip == 1.0:
            return [Choice(Noise(clip, norm, None, sigma))]
        return [
            Choice(Noise(clip, norm, [sigma]), f"{keys.name('sigma')} is a multiple of the clip"),
            Choice(Noise(clip, norm, None, sigma), f"{keys.name('sigma')} is the standard deviation of the noise"),
        ]
    if deviation is not None:
        return [Choice(Noise(clip, norm, None, deviation))]
    if multiplier is None:
        return [Choice(Noise(clip, norm, None))]
    values = multiplier if isinstance(multiplier, list) else [multiplier]
    levels = [keys.checked(keys.name("multiplier"), v) for v in values]
    if layers == 1:
        return [Choice(Noise(clip, norm, levels))]
    per = keys.word("noise_per")
    joint = Noise(norm, norm, levels)
    # noise z c_i on part i: the ratios add up in square, sqrt(parts)/z; as noise over the whole norm that is z/sqrt(parts)
    own = Noise(norm, norm, [z / math.sqrt(layers) for z in levels])
    if per:
        if not any(w in per for w in (*_LAYERED, "joint", "whole", "all", "global")):
            raise refuse("DP672", f"{keys.name('noise_per')} {per!r}: state joint or layer")
        return [Choice(own if any(w in per for w in _LAYERED) else joint)]
    if tool.joint is not None:
        return [Choice(joint if tool.joint else own)]
    return [
        Choice(joint, "the noise is in proportion to the norm of the whole"),
        Choice(own, "the noise on each part is in proportion to its own clip"),
    ]


def _course(keys: Keys, kind: str, first: float, meaning: str, gamma: str, size: str, epochs: int) -> list[float]:
    """A quantity over the epochs by the named rule."""
    rate = keys.number(gamma)
    if kind in ("none", "constant", ""):
        return [first]
    if epochs > _MOST_TURNS:
        raise refuse("DP672", f"{meaning} over {epochs} epochs: more than {_MOST_TURNS} are not composed")
    if rate is None:
        raise refuse("DP674", f"{meaning} {kind!r} needs gamma, the factor of one change")
    if "exp" in kind:
        return _finite(meaning, lambda: [first * rate**e for e in range(epochs)])
    if "step" in kind:
        every = keys.whole(size)
        if every is None:
            raise refuse("DP674", f"{meaning} {kind!r} needs step_size, the number of epochs between changes")
        return _finite(meaning, lambda: [first * rate ** (e // every) for e in range(epochs)])
    raise refuse("DP672", f"{meaning} {kind!r} is no rule that is known", "exponential, step, or a list of one multiplier an epoch")


def _finite(meaning: str, course: Callable[[], list[float]]) -> list[float]:
    try:
        return course()
    except OverflowError:
        raise refuse("DP672", f"{meaning} grows beyond all numbers") from None


def segments(keys: Keys, noise: Noise, rate: float, steps: int) -> list[Segment]:
    """The run cut where noise over clip changes: once an epoch, by a rule or by a list."""
    kind, clip_kind = keys.word("schedule"), keys.word("clip_schedule")
    every = keys.word("every")
    if every and every not in ("epoch", "step"):
        raise refuse("DP672", f"{keys.name('every')} must be epoch or step, not {every!r}")
    span = 1 if every == "step" else _epoch(keys, rate)
    turns = math.ceil(steps / span)
    if keys.has("gamma") and not kind:
        kind = "exponential"
    clips = _course(keys, clip_kind, 1.0, "clip_scheduler", "clip_gamma", "clip_step_size", turns)
    if noise.deviation is not None:
        if kind:
            raise refuse("DP672", "a schedule of the noise needs noise_multiplier")
        levels = [noise.deviation / (noise.clip * c) for c in clips]
    else:
        assert noise.multiplier is not None
        levels = list(noise.multiplier)
        if clip_kind:
            keys.said("the noise is in proportion to the clip: its schedule changes nothing")
        if kind:
            if len(levels) > 1:
                raise refuse("DP672", f"{keys.name('multiplier')} is a list beside {keys.name('schedule')}")
            levels = _course(keys, kind, levels[0], "noise_scheduler", "gamma", "step_size", turns)
    if len(levels) == 1:
        return [Segment(steps, levels[0], rate)]
    if len(levels) not in (turns, turns + 1) and not (kind or clip_kind):
        raise refuse("DP672", f"{keys.name('multiplier')} lists {len(levels)} values for {turns} epochs")
    what = "step" if every == "step" else f"epoch of {span} steps"
    keys.said(f"noise over clip by {what}: {', '.join(f'{z:.4g}' for z in levels[:6])}{', ...' if len(levels) > 6 else ''}")
    return [Segment(min(span, steps - i * span), z, rate) for i, z in enumerate(levels[:turns])]


def _epoch(keys: Keys, rate: float) -> int:
    """Steps between two changes. Where an epoch is no whole number of steps, that which leaves the least noise: the lower number where
    noise over clip falls from turn to turn, the upper one where it rises."""
    low, near, high = math.floor(1 / rate + 1e-9), round(1 / rate), math.ceil(1 / rate - 1e-9)
    listed = keys.raw("multiplier")
    if isinstance(listed, list) and len(listed) > 1:
        levels = [keys.checked(keys.name("multiplier"), z) for z in listed]
        falls, rises = levels == sorted(levels, reverse=True), levels == sorted(levels)
    else:
        noise, clip = keys.number("gamma") or 1.0, keys.number("clip_gamma") or 1.0
        if not keys.has("noise_std", "sigma"):
            clip = 1.0  # the noise is in proportion to the clip
        falls, rises = noise <= 1.0 <= clip, noise >= 1.0 >= clip
    return max(low if falls else high if rises else near, 1)


# ------------------------------------------------------------------------------------------------------------ the whole


def claim_of(keys: Keys, tool: Tool, n: float | None, noisy: bool) -> tuple[dict[str, Any], bool]:
    """The claim, and whether only a target is stated, which the noise is still to meet."""
    epsilon, target = keys.number("epsilon", above=True), keys.number("target_epsilon", above=True)
    if epsilon is not None and target is not None and not math.isclose(epsilon, target, rel_tol=1e-3):
        keys.said(f"{keys.name('epsilon')} {epsilon:g} is the claim; the target was {target:g}")
    value = epsilon if epsilon is not None else target
    claim: dict[str, Any] = {} if value is None else {"epsilon": value}
    if keys.has("delta"):
        claim["delta"] = keys.number("delta", 0.0, 1.0, n=n)
    elif tool.delta and n is not None:
        claim["delta"] = keys.checked("delta", tool.delta, 0, 1, n=n)
        keys.said(f"delta is not stated; {tool.title} takes {tool.delta} = {claim['delta']:.4g}")
    elif value is not None:
        claim["delta"] = None
    if keys.has("accountant"):
        claim["rule"] = keys.word("accountant")
    return claim, value is not None and not noisy


def relation(keys: Keys, sampler: str) -> str:
    word = keys.raw("relation")
    if word is not None:
        found = relation_of(str(word))
        if found not in NEIGHBOURS:
            raise refuse("DP671", f"unknown neighbouring relation {shown(word)}", ", ".join(NEIGHBOURS))
        return found
    if sampler in ("shuffled", "fixed", "order"):
        keys.said("batches of fixed size: the record is compared with a zeroed one, since adding one would change the batches", "DP615")
        return "zero_out"
    return "add_remove"


def on_mean(keys: Keys) -> bool:
    word = keys.word("noise_on")
    if not word:
        return False
    sum_, mean = _says(word, ("sum", "total")), _says(word, ("mean", "averag", "avg", "divi"))
    if sum_ != mean and not _says(word, _DENIED, whole=True):
        before, after = _says(word, ("before",)), _says(word, ("after",))
        if not (before or after):
            return mean
        if before != after and (after or mean):  # before the mean it is on the sum; before the sum it is on each record
            return mean and after
    raise refuse("DP672", f"{keys.name('noise_on')} must be sum or mean, not {word!r}")


def switched_on(keys: Keys) -> None:
    on, off = keys.flag("on"), keys.flag("off")
    if on is False or off is True:
        raise refuse("DP677", f"{keys.name('on' if on is False else 'off')}: this run is not private, and nothing is to be audited")


def facts_of(keys: Keys, tool: Tool) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    fixed = keys.raw("noise_seed")
    if fixed not in (None, False):
        facts["seed"] = "fixed"
    secure, seed = keys.flag("secure"), keys.raw("seed")
    if seed is not None and not secure and fixed in (None, False):
        keys.said(
            f"{keys.name('seed')} {seed}: where the noise is drawn from the same generator, who knows the seed subtracts it",
            "DP624",
            "draw noise from a source of its own (secure_mode), or keep the seed secret",
        )
    word = keys.word("arithmetic")
    if word:
        facts["arithmetic"] = word
    return facts


def steered(keys: Keys) -> bool:
    """Whether the configuration says how a clip is to follow the records, which only an adaptive one does."""
    return any(
        _says(name.rsplit(".", 1)[-1], ("target", "clipbound", "clip_norm", "max_clipbound", "min_clipbound", "clipping_learning_rate"))
        for name, _ in keys.all("clip_rule")
    )


def count_noise(keys: Keys, style: str) -> float | None:
    """The noise on the count that adaptive clipping releases; None without adaptive clipping."""
    adaptive = keys.flag("adaptive")
    stated = keys.number("count_noise")
    if not (adaptive or "adapt" in style or stated is not None or steered(keys)) or adaptive is False:
        return None
    if stated is None:
        raise refuse(
            "DP674", "missing: count_noise_std, the noise on the count of clipped records", "an adaptive clip is a release of its own"
        )
    keys.said(f"the adaptive clip releases a count with noise {stated:g} at each step; the stated multiplier is that of both together")
    return stated


def microbatched(keys: Keys, batch: float | None) -> float:
    micro, size = keys.number("microbatches", 1), keys.number("microbatch_size", 1)
    used = keys.flag("used_microbatching")
    shared = size
    if micro is not None:
        if batch is None:
            raise refuse("DP674", f"{keys.name('microbatches')} needs the batch size")
        if micro > batch:
            raise refuse("DP672", f"{keys.name('microbatches')} = {micro:g} of a batch of {batch:g} records")
        shared = batch / micro
    if used is False or ((shared is None or shared <= 1) and used is not True):
        return 1.0
    many = f"{shared:g}" if shared is not None else "several"
    keys.said(f"{many} records share one clip: a record moves the sum by up to twice the clip", "DP622")
    return 2.0


def training(keys: Keys, tool: Tool) -> Deployment:
    """A DP-SGD run of the tool by its words."""
    switched_on(keys)
    n = keys.number("n", 1)
    noisy = keys.has("multiplier", "noise_std", "sigma")
    claim, wanted = claim_of(keys, tool, n, noisy)
    if not noisy and not wanted:
        raise refuse("DP674", "missing: noise_multiplier, or a target epsilon", "with a target alone the answer is the noise that it needs")
    style, records, facts = keys.word("style"), keys.whole("records") or 1, facts_of(keys, tool)
    counted = count_noise(keys, style)
    stated_rate, mean = keys.number("rate", 0.0, 1.0, above=True), on_mean(keys)
    levels, sizes, samplers = noises(keys, tool), batches(keys, tool), sampler_of(keys, tool)
    unit = str(keys.raw("unit") or ("user" if records > 1 else tool.unit))
    single = "" if keys.has("records") or of_a_record(unit) else f"each {unit} has one record"
    runs: list[tuple[str, Run, str]] = []
    for size, noise, sampler, passes in itertools.product(sizes, levels, samplers, rates(keys, tool, stated_rate)):
        batch = size.value
        rate = _rate(keys, tool, stated_rate, batch, n, sampler.value)
        if rate * passes.value > 1:
            raise refuse("DP672", f"{keys.name('rate')} = {rate:g} in each of {passes.value} accumulated passes: the rate is above 1")
        run = _one(keys, tool, noise.value, rate * passes.value, batch, n, mean, wanted, sampler.value)
        run = replace(run, shift=microbatched(keys, batch), count_noise=counted, records=records)
        conditions = "; ".join(c for c in (size.condition, noise.condition, sampler.condition, passes.condition, single) if c)
        runs.append((conditions, run, relation(keys, sampler.value)))
    told = _told(keys, tool, runs)
    keys.finish()
    notes = tuple(dict.fromkeys((*keys.notes, *told)))
    return configured(tool, runs, claim, unit, n, facts, notes, wanted)


def of_a_record(unit: str) -> bool:
    """Whether a unit is what the training set lists, so that one of it is one record."""
    return word_of(unit).removesuffix("_level").rstrip("s") in _RECORDS


_RECORDS = frozenset(
    (
        *("record", "example", "sample", "instance", "row", "tuple", "item", "datapoint", "data_point", "observation", "entry", "event"),
        *("image", "document", "text", "sentence", "sequence", "message", "post", "review", "session", "visit", "report"),
    )
)


def _rate(keys: Keys, tool: Tool, stated: float | None, batch: float | None, n: float | None, sampler: str) -> float:
    if sampler == "full":
        return 1.0
    if stated is not None:
        if batch is not None and n is not None and not math.isclose(stated, batch / n, rel_tol=1e-2):
            raise refuse("DP672", f"{keys.name('rate')} = {stated:g}, and {batch:g} of {n:g} records are {batch / n:g}")
        return stated
    if batch is None or n is None:
        raise refuse("DP674", "missing: sample_rate, or batch_size and the number of records")
    if batch > n:
        raise refuse("DP672", f"a batch of {batch:g} records of {n:g}: the rate is above 1")
    if tool.per_batch and sampler == "poisson" and keys.flag("drop_last"):
        found = 1 / max(math.floor(n / batch + 1e-9), 1)
        keys.said(f"{tool.title} samples at one over the number of whole batches: {found:.6g}")
        return found
    return batch / n


def _one(
    keys: Keys, tool: Tool, noise: Noise, rate: float, batch: float | None, n: float | None, mean: bool, wanted: bool, sampler: str
) -> Run:
    steps = length(keys, tool, rate, n, batch)
    if mean and noise.deviation is not None:
        size = batch if batch is not None else n * rate if n is not None else None
        if size is None:
            raise refuse("DP674", "noise on the mean needs the batch size: the sum has that many times the noise")
        keys.said(f"noise of {noise.deviation:g} on the mean of {size:g} records is noise of {noise.deviation * size:g} on their sum")
        noise = replace(noise, deviation=noise.deviation * size)
    elif mean:
        keys.said("noise and sum are divided by the same number: nothing changes")
    if wanted:
        cut = [Segment(steps, 1.0, rate)]
    else:
        cut = segments(keys, noise, rate, steps)
    if sampler == "order":
        span = max(math.floor(1 / rate + 1e-9), 1)  # a record stands in one of so many batches in a row, or is in more of them
        cut = [Segment(max(math.ceil(s.steps / span), 1), s.multiplier, 1.0) for s in cut]
    return Run(merged(cut), "full" if sampler == "order" else sampler, noise.clip, noise.norm)


def _told(keys: Keys, tool: Tool, runs: Sequence[tuple[str, Run, str]]) -> list[Any]:
    before = len(keys.notes)
    for condition, run, relation_ in runs:
        q = run.segments[0].rate
        z = ", ".join(f"{s.multiplier * run.scale * run.clip / (run.norm or run.clip) / run.shift:.6g}" for s in run.segments[:3])
        many = f" (and {len(run.segments) - 3} more levels)" if len(run.segments) > 3 else ""
        group = f", {run.records} records a unit" if run.records > 1 else ""
        said = f"read as {tool.title}: {run.sampler} batches, rate {q:.6g}, {run.steps} steps, noise over sensitivity {z}{many}{group}"
        said += f", neighbours {relation_}"
        keys.said(said + (f", if {condition}" if condition else ""))
    told = keys.notes[before:]
    del keys.notes[before:]
    return told


def configured(
    tool: Tool,
    runs: Sequence[tuple[str, Run, str]],
    claim: dict[str, Any],
    unit: str,
    n: float | None,
    facts: dict[str, Any],
    notes: Sequence[Any],
    wanted: bool,
) -> Configured:
    def built(run: Run, neighbouring: str) -> Deployment:
        setting: dict[str, Any] = {"model": "central", "unit": unit, "neighbouring": neighbouring, "sampling": run.sampler}
        if n is not None:
            setting["n"] = n
        data = {"subject": f"{tool.title} run", "setting": setting, "claim": claim, "events": events_of(run), "facts": facts}
        found = deployment_of(data, strict=False)
        return replace(found, notes=(*found.notes, *notes))

    def at(multiplier: float) -> tuple[tuple[str, Deployment], ...]:
        return tuple(
            (c, built(replace(run, segments=tuple(replace(s, multiplier=multiplier) for s in run.segments)), r)) for c, run, r in runs
        )

    readings = tuple((c, built(run, r)) for c, run, r in runs)
    first = readings[0][1]
    return Configured(
        first.subject,
        first.setting,
        first.claim,
        first.events,
        facts=first.facts,
        notes=first.notes,
        readings=readings,
        wanted=at if wanted else None,
    )
