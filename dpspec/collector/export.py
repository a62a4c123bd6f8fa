"""The client file of a plan: what a device needs and no more."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn

from dpspec.client.device import CHANNELS, FORMAT, VERSION, ClientError, Device, coins_of, load
from dpspec.client.frame import MOST_ROUNDS
from dpspec.compiler.draft import ReleaseDraft
from dpspec.compiler.plan import Plan, protected
from dpspec.executor.bind import bound_problem, missing, values
from dpspec.models.features import form as feature_form
from dpspec.numeric.rules import forms as rule_forms
from dpspec.privacy.channels.protocol import Channel
from dpspec.privacy.forms import mechanism_json, noise_of
from dpspec.privacy.schedule import Leaf, draws
from dpspec.spec.diagnostics import Diagnostic, SpecError


def refuse(message: str, help: str = "") -> NoReturn:
    raise SpecError([Diagnostic("DP418", "error", message, help)])


def client_form(plan: Plan) -> dict[str, Any]:
    """The JSON form of the client file.

    Raises :class:`~dpspec.spec.diagnostics.SpecError` (DP418), which names what stands against a client: a model with a curator, a draw of
    the server, an algorithm or a channel that devices do not run, encodings of columns.
    """
    draft = plan.draft
    data = draft.analysis.data
    if draft.analysis.privacy.model not in ("nldp", "sldp"):
        refuse(f"in the model {draft.analysis.privacy.model} a curator sees the records: there is no client", "privacy nldp, or sldp")
    if data.encode or data.intercept:
        refuse("the plan encodes columns, or adds an intercept, and a client has no encoder", "state the domain of the encoded record")
    if draft.analysis.privacy.labels_only:
        refuse("`labels only` leaves x public, beside which the server reads each single report: it is no sum")
    if draft.analysis.privacy.public is not None:
        refuse("the algorithm reads public records beside the reports, which a collector does not load")
    found = [_draws(draft, release, several=len(draft.releases) > 1) for release in draft.releases]
    rounds = {at for at, _, _ in found}
    if len(rounds) > 1 or (len(found) > 1 and rounds != {1}):
        refuse("several releases with rounds ask other users in each of them", "one release with rounds a plan")
    forms = [form for _, part, _ in found for form in part]
    labelled = any(y for _, _, y in found)
    columns = tuple(getattr(data.source, "columns", ()))
    d = int(draft.facts.get("features", draft.facts["d"]))
    body: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "plan": plan.sha256,
        "rounds": rounds.pop(),
        "record": {
            "d": d,
            "y": labelled,
            "columns": list(columns) if len(columns) == d else [],
            "missing": missing(draft),
        },
        "enforce": {"x": _rules(draft, "x", d), "y": _rules(draft, "y", 1) if labelled else []},
        "protects": protected(draft.analysis),
        "draws": forms,
    }
    found_form: dict[str, Any] = json.loads(json.dumps(body, allow_nan=False))
    return found_form


def device_of(plan: Plan) -> Device:
    """The device of a plan, as its clients read it; without a limit, since the plan is one's own."""
    try:
        return load(client_form(plan), epsilon=1e300, delta=0.5)
    except ClientError as problem:
        refuse(f"the plan has no client: {problem}")


def _rules(draft: Any, variable: str, width: int) -> list[dict[str, Any]]:
    from dpspec.data.enforce import rules_of

    env = {**values(draft), "n": draft.facts["n"], "d": draft.facts["d"]}
    found = rule_forms(rules_of(draft.analysis.data, variable, width, env).rules)
    if any(rule["kind"] == "map" and any(key is None for key, _ in rule["pairs"]) for rule in found):
        refuse(f"the labels of {variable} are words, and a client's record is made of numbers", "map numbers")
    return found


def _draws(draft: Any, release: ReleaseDraft, *, several: bool) -> tuple[int, list[dict[str, Any]], bool]:
    """Rounds, the forms of the draws, and whether they need y."""
    name = release.release.name
    if release.release.part is not None:
        refuse(f"release {name!r} reads a part of the records, and a client does not know in which part it is", "a plan for each part")
    features = _features(draft, release)
    forms: list[dict[str, Any]] = []
    rounds: set[int] = set()
    labelled = False
    for draw, leaf in draws(release.tree).items():
        channel = _channel(f"{name}.{draw}", leaf)
        if draw not in features:
            refuse(
                f"release {name!r}: {release.module.CARD.id} has clients, and none for the draw {draw!r} as it is planned",
                "a loss by its name (logistic, squared, huber...), of which a device has the slope",
            )
        feature, level = features[draw], float(release.calibrated.levels[draw])
        rounds.add(leaf.total // leaf.each)
        labelled |= feature.needs_y
        forms.append(
            {
                "name": f"{name}.{draw}" if several else draw,
                "count": leaf.each,
                "feature": feature_form(feature),
                "channel": mechanism_json(channel),
                "level": level,
                "noise": noise_of(channel, level),
                "coins": coins_of(channel, level),
            }
        )
    if len(rounds) != 1 or max(rounds) > MOST_ROUNDS:
        refuse(f"release {name!r}: its draws are not made in the same rounds, or in too many")
    if rounds != {1} and any(form["count"] > 1 for form in forms):
        refuse(f"release {name!r}: several reports a user and several rounds at once")
    return rounds.pop(), forms, labelled


def _features(draft: Any, release: ReleaseDraft) -> Mapping[str, Any]:
    id = release.module.CARD.id
    make = getattr(release.module, "client", None)
    if make is None:
        why = getattr(release.module, "NO_CLIENT", "its file has no map of a single record (`client`)")
        refuse(f"release {release.release.name!r}: devices do not run {id}: {why}", f"clients run {', '.join(supported())}")
    found: Mapping[str, Any] = make(bound_problem(draft, release), release.tunables)
    return found


def supported() -> tuple[str, ...]:
    """The ids of the algorithms that have a client."""
    from dpspec.algorithms.registry import all_modules

    return tuple(m.CARD.id for m in all_modules() if hasattr(m, "client"))


def _channel(name: str, leaf: Leaf) -> Channel:
    mechanism = leaf.draw.mechanism
    if leaf.draw.per != "user" or not isinstance(mechanism, Channel) or leaf.sampling is not None:
        refuse(f"the draw {name!r} ({mechanism.kind}) is the server's own, on records that it sees")
    if mechanism.kind not in CHANNELS:
        refuse(f"the draw {name!r}: devices do not run the channel {mechanism.kind}")
    return mechanism
