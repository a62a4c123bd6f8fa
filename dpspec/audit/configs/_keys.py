"""A configuration as flat words with their places, each read once by a translation or refused by name."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dpspec.audit.deployment import numeric
from dpspec.audit.kinds import shown
from dpspec.spec.diagnostics import Diagnostic, SpecError

#: Words that no tool lets change rate, steps, clipping or noise. A key that is neither here nor read by the tool's translation is refused.
INERT = frozenset(
    (
        *("name", "title", "description", "comment", "notes", "note", "author", "version", "tags", "project", "project_name"),
        *("experiment", "experiment_name", "run_name", "run_id", "model", "model_name", "model_name_or_path", "model_type"),
        *("model_config", "architecture", "arch", "pretrained", "checkpoint", "checkpoint_dir", "output_dir", "save_dir"),
        *("log_dir", "logging_dir", "data_dir", "data_path", "dataset", "dataset_name", "dataset_path", "data_cache_dir"),
        *("task", "task_name", "split", "lr", "learning_rate", "lr_scheduler", "lr_scheduler_type", "lr_decay", "warmup"),
        *("warmup_steps", "warmup_ratio", "min_lr", "client_lr", "server_lr", "server_learning_rate", "local_learning_rate"),
        *("global_learning_rate", "momentum", "nesterov", "weight_decay", "beta1", "beta2", "betas", "adam_beta1"),
        *("adam_beta2", "adam_epsilon", "client_optimizer", "server_optimizer", "server_momentum", "optim", "optimizer_name"),
        *("loss", "criterion", "loss_fn", "label_smoothing", "dropout", "activation", "hidden_size", "num_layers"),
        *("num_classes", "input_dim", "output_dim", "embedding_dim", "max_length", "max_seq_length", "max_seq_len"),
        *("seq_length", "vocab_size", "device", "gpu", "gpu_id", "use_gpu", "using_gpu", "cuda", "no_cuda", "fp16", "bf16"),
        *("tf32", "mixed_precision", "precision", "amp", "compile", "num_workers", "dataloader_num_workers", "pin_memory"),
        *("prefetch", "verbose", "log_level", "logging_steps", "save_steps", "save_strategy", "save_total_limit", "eval_steps"),
        *("eval_strategy", "evaluation_strategy", "eval_batch_size", "test_batch_size", "val_batch_size", "valid_batch_size"),
        *("per_device_eval_batch_size", "evaluate_every", "frequency_of_the_test", "report_to", "wandb", "use_wandb"),
        *("enable_wandb", "wandb_project", "tensorboard", "push_to_hub", "hub_model_id", "do_eval", "do_predict", "do_train"),
        *("overwrite_output_dir", "load_best_model_at_end", "metric_for_best_model", "greater_is_better", "early_stopping"),
        *("patience", "lora", "lora_r", "lora_alpha", "lora_dropout", "target_modules", "use_lora", "peft", "rank", "r"),
        *("bias", "train_only_layer", "ema", "ema_coefficient", "averaging", "alphas", "rdp_orders", "orders"),
        *("format_version", "executors", "task_result_filters", "task_data_filters", "filters", "min_clients", "min_responses"),
        *("min_evaluate_clients", "min_available_clients", "fraction_evaluate", "federated_optimizer"),
        *("training_type", "scenario", "random_state", "partition_method", "partition_alpha", "backend", "grpc_ipconfig_path"),
        *("worker_num", "config_version", "proximal_mu", "round_timeout", "unroll_microbatches"),
        *("numerical_stability_constant", "block_size", "remove_unused_columns", "label_names", "dry_run", "resume"),
        *("resume_from_checkpoint", "tasks", "components"),
        "augmult",  # JAX-Privacy: augmentations of a record are averaged before its gradient is clipped
    )
)

#: Meanings that several words of one configuration may have, each with a value of its own.
MANY = frozenset(("mode", "clip_rule", "seed", "physical", "shuffle", "local_epochs", "local_batch"))

#: Sections that speak about something else, unless a word in them is one of the tool's.
ASIDE = frozenset(
    (
        *("model", "model_args", "network", "logging", "log", "wandb", "tracking", "tracking_args", "lora", "peft"),
        *("lora_config", "tokenizer", "lr_scheduler", "scheduler", "paths", "path", "hydra", "data_eval", "eval", "evaluation"),
        *("validation", "test", "averaging", "augmentation", "augment", "checkpointing", "checkpoint", "common_args"),
        *("environment_args", "device_args", "comm_args", "restore", "preprocessing", "image", "text", "meta", "metadata"),
        *("executors", "executor", "components", "workflows", "controllers", "resource_spec", "deploy_map"),
    )
)
_EVALUATION = frozenset(("data_eval", "eval", "evaluation", "validation", "test"))
_OPTIMIZER = frozenset(("optimizer", "optim", "adam", "adamw", "optimizer_args"))
#: What a word that could matter looks like: never passed over in a section aside.
_SMELLS = re.compile(r"noise|clip|epsilon|delta|priva|sampl|accum|batch|epoch|step|round|client|poisson|seed|sigma|dp_|_dp|budget")
_POWER = re.compile(
    r"^\s*(?:([0-9.e-]+)\s*\*\s*)?(?:1\s*/\s*\(?\s*(?:([0-9.]+)\s*\*?\s*)?(?:n|len\([a-z_.]*\))|n)\s*(?:(?:\^|\*\*)\s*\(?(-?[0-9.]+)\)?)?\s*\)?\s*$",
    re.IGNORECASE,
)


def word_of(key: object) -> str:
    """``--Max-Grad-Norm`` as ``max_grad_norm``, ``maxGradNorm`` as ``max_grad_norm``."""
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", str(key).strip().lstrip("-"))
    return text.replace("-", "_").replace(" ", "_").lower()


def leaves(data: Any, at: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every scalar or list of scalars with the words that lead to it."""
    if isinstance(data, Mapping):
        for key, value in data.items():
            yield from leaves(value, (*at, word_of(key)))
    elif isinstance(data, list) and any(isinstance(v, (Mapping, list)) for v in data):
        for value in data:
            yield from leaves(value, at)
    elif at:
        yield at, data


def refuse(code: str, message: str, help: str = "") -> SpecError:
    return SpecError([Diagnostic(code, "error", message, help)])


class Keys:
    """The words of one configuration. ``words``: of the tool, by what they mean; a word may be a path of several (``noise.std_relative``).

    Every reading names what is meant, and :meth:`finish` refuses what nobody has read.
    """

    def __init__(self, data: Mapping[str, Any], words: Mapping[str, Sequence[str]], inert: Sequence[str] = ()) -> None:
        self.inert = frozenset(inert)
        self.found: dict[str, list[tuple[str, Any]]] = {}
        self.rest: list[tuple[tuple[str, ...], Any]] = []
        self.read: set[str] = set()
        self.notes: list[Diagnostic] = []
        by_path = {tuple(w.split(".")): meaning for meaning, spelt in words.items() for w in spelt}
        self.known = sorted({".".join(p) for p in by_path})
        for at, value in leaves(data):
            meaning = None if set(at[:-1]) & _EVALUATION else self._meaning(at, by_path)
            if meaning is None or value is None:
                if meaning is None or len(at) == 1:
                    self.rest.append((at, value))
                continue
            self.found.setdefault(meaning, []).append((".".join(at), value))
        self._agree()

    @staticmethod
    def _meaning(at: tuple[str, ...], by_path: Mapping[tuple[str, ...], str]) -> str | None:
        if at[-1] in ("eps", "epsilon") and set(at[:-1]) & _OPTIMIZER:
            return None  # Adam's
        for size in range(len(at), 0, -1):
            meaning = by_path.get(at[-size:])
            if meaning is not None:
                return meaning
        return None

    def _agree(self) -> None:
        for meaning, places in self.found.items():
            if meaning in MANY:
                continue
            first = numeric(places[0][1])
            for place, value in places[1:]:
                other = numeric(value)
                both = isinstance(first, (int, float)) and isinstance(other, (int, float))
                if not (math.isclose(first, other, rel_tol=1e-3) if both else first == other):
                    raise refuse(
                        "DP672", f"{places[0][0]} = {shown(places[0][1])} and {place} = {shown(value)} say two things about one ({meaning})"
                    )

    def has(self, *meanings: str) -> bool:
        return any(m in self.found for m in meanings)

    def raw(self, meaning: str) -> Any:
        if meaning not in self.found:
            return None
        self.read.add(meaning)
        return self.found[meaning][0][1]

    def all(self, meaning: str) -> list[tuple[str, Any]]:
        """Every word of this meaning with its value."""
        self.read.add(meaning)
        return self.found.get(meaning, [])

    def name(self, meaning: str) -> str:
        return self.found[meaning][0][0] if meaning in self.found else meaning

    def number(self, meaning: str, low: float = 0.0, high: float = math.inf, above: bool = False, n: float | None = None) -> float | None:
        """A finite number within bounds, or None when the configuration has none. ``n``: what ``1/n`` in its text stands for."""
        value = self.raw(meaning)
        if value is None:
            return None
        return self.checked(self.name(meaning), value, low, high, above, n)

    def checked(
        self, name: str, value: Any, low: float = 0.0, high: float = math.inf, above: bool = False, n: float | None = None
    ) -> float:
        number = numeric(value)
        if isinstance(number, str) and n is not None:
            number = of_n(number, n)
        if isinstance(number, bool) or not isinstance(number, (int, float)):
            raise refuse("DP672", f"{name} must be a number, not {shown(value)}")
        if not (math.isfinite(number) and low <= number <= high) or (above and number == low):
            bound = f"above {low:g}" if above else f"from {low:g}"
            raise refuse(
                "DP672", f"{name} = {shown(value)} is out of range: a finite number {bound}" + (f" to {high:g}" if high < math.inf else "")
            )
        return float(number)

    def whole(self, meaning: str, low: int = 1) -> int | None:
        value = self.number(meaning, low)
        if value is None:
            return None
        if value != int(value):
            raise refuse("DP672", f"{self.name(meaning)} = {value:g} must be a whole number")
        return int(value)

    def flag(self, meaning: str) -> bool | None:
        value = self.raw(meaning)
        if value is None or isinstance(value, bool):
            return value
        word = str(value).strip().lower()
        if word in ("yes", "y", "true", "on", "1"):
            return True
        if word in ("no", "n", "false", "off", "0", "none"):
            return False
        raise refuse("DP672", f"{self.name(meaning)} must be yes or no, not {shown(value)}")

    def word(self, meaning: str) -> str:
        value = self.raw(meaning)
        return "" if value is None else word_of(value)

    def said(self, message: str, code: str = "DP648", help: str = "") -> None:
        """One line of the translation (DP648), or a warning."""
        self.notes.append(Diagnostic(code, "info" if code == "DP648" else "warning", message, help))

    def finish(self) -> None:
        """Refuse every key that nothing has read."""
        faults = [
            Diagnostic("DP671", "error", f"{places[0][0]} ({meaning}) has no effect that is modelled here", "describe the run as events")
            for meaning, places in self.found.items()
            if meaning not in self.read
        ]
        faults += self.unknown()
        if faults:
            raise SpecError(faults)
        if self.inert:
            self.said(f"taken at their word to have no effect: {', '.join(sorted(self.inert))}", "DP606")

    def unknown(self) -> list[Diagnostic]:
        """The keys that are no words of the tool, of anything without effect, nor named as inert."""
        faults = []
        for at, value in self.rest:
            if self._passes(at, value):
                continue
            near = difflib.get_close_matches(at[-1], self.known, 1, 0.8)
            help = f"did you mean {near[0]!r}?" if near else "if it changes neither noise, clipping, batches nor steps, list it under inert"
            faults.append(Diagnostic("DP671", "error", f"unknown key {'.'.join(at)!r}: nothing that is known reads it", help))
        return faults

    def _passes(self, at: tuple[str, ...], value: Any) -> bool:
        dotted = ".".join(at)
        if at[-1] in INERT or dotted in self.inert or at[-1] in self.inert or at[0] == "inert":
            return True
        if set(at[:-1]) & _EVALUATION or value is None:
            return True
        if set(at[:-1]) & _OPTIMIZER and (at[-1] in ("eps", "epsilon", "type", "kind") or not _SMELLS.search(at[-1])):
            return True
        return bool(set(at[:-1]) & ASIDE) and not _SMELLS.search(at[-1])


def of_n(text: str, n: float) -> float | str:
    """``1/n``, ``1/(2n)``, ``n^-1.1`` and the like as numbers; other text unchanged."""
    match = _POWER.match(text)
    if match is None:
        return text
    factor, divisor, power = match.groups()
    top = float(factor) if factor else 1.0
    inverse = "/" in text
    exponent = float(power) if power else 1.0
    base = float(n**exponent)
    return top / (float(divisor or 1.0) * base) if inverse else top * base
