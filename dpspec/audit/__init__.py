"""Deployments, ours or anybody's, against what they state.

:func:`audit` reads a file or object of any known format and answers with an :class:`AuditResult`; :func:`audit_static` and
:func:`audit_exact` are its two halves. Empirical lower bounds are in :mod:`dpspec.audit.empirical`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpspec.audit.cases import CaseVerdict
    from dpspec.audit.deployment import Deployment
    from dpspec.audit.matrices import ExactResult
    from dpspec.audit.registry import Row
    from dpspec.audit.verdict import AuditResult
    from dpspec.spec.diagnostics import SpecError

__all__ = ["audit", "audit_all", "audit_exact", "audit_static", "load", "template"]


def audit_static(deployment: Deployment) -> AuditResult:
    """Recompute the guarantee of a description and judge its claim. See :func:`dpspec.audit.static.audit_static`; a plan or record of
    this product is judged by the schedule that it carries (:mod:`dpspec.audit.plans`), a training configuration by every reading of its
    words (:mod:`dpspec.audit.configs`)."""
    from dpspec.audit.configs import Configured
    from dpspec.audit.configs._judge import judge as by_readings
    from dpspec.audit.plans import Planned, judge
    from dpspec.audit.static import audit_static as run

    if isinstance(deployment, Configured):
        return by_readings(deployment)
    return judge(deployment) if isinstance(deployment, Planned) else run(deployment)


def audit_exact(channel: Any) -> ExactResult:
    """The exact privacy of a channel or matrix of conditional probabilities. See :func:`dpspec.audit.exact.audit_exact`."""
    from dpspec.audit.exact import audit_exact as run

    return run(channel)


def load(path: str | Path, tool: str = "") -> Deployment:
    """A file as a deployment: description (YAML or JSON), channel matrix (CSV or JSON), training configuration, registry entry, plan or
    record. ``tool``: the tool whose configuration it is, where its words do not tell.

    Raises :class:`~dpspec.spec.diagnostics.SpecError` (DP67x) with every fault when the file cannot be used.
    """
    from dpspec.audit.deployment import Claim, Deployment, Setting, deployment_of
    from dpspec.audit.exact import load_channel
    from dpspec.audit.importers import import_document, kind_of
    from dpspec.audit.yamlread import read_yaml
    from dpspec.spec.diagnostics import Diagnostic, SpecError

    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError([Diagnostic("DP670", "error", f"{file} cannot be read: {error}")], path=str(file)) from None
    if file.suffix.lower() == ".csv":
        setting = Setting(model="local", unit="report", neighbouring="local_replace")
        return Deployment(file.name, setting, Claim(), channel=load_channel(text, str(file)))
    read = read_yaml(text, str(file))
    data = read.data
    if isinstance(data, list):
        data = {"rows": data}
    if not isinstance(data, Mapping):
        raise SpecError([Diagnostic("DP677", "error", "the document is empty: nothing to audit")], path=str(file), text=text)
    try:
        if not tool and kind_of(data) == "deployment":
            found = deployment_of(data, spans=read.spans, path=str(file))
            return replace(found, samples=tuple(str(file.parent / s) for s in found.samples))
        return import_document(data, file.name, tool)
    except SpecError as error:
        raise SpecError(error.diagnostics, path=str(file), text=text) from None
    except _UNFORESEEN as error:
        raise _unusable(error, str(file), "read") from error


#: What code that takes a well-formed document raises on another one.
_UNFORESEEN = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)


def _unusable(error: Exception, path: str, doing: str) -> SpecError:
    """The last net: a document in which a field has a kind or size that no check above has named."""
    from dpspec.spec.diagnostics import Diagnostic, SpecError

    missing = (
        f"the field {error.args[0]!r} is missing" if isinstance(error, KeyError) and error.args else str(error) or type(error).__name__
    )
    help = "docs/audit.md lists what each field takes; plans and records are to be as dpspec wrote them"
    return SpecError([Diagnostic("DP672", "error", f"the document cannot be {doing}: {missing}", help)], path=path)


def audit(subject: str | Path | Mapping[str, Any] | Deployment | Any, tool: str = "") -> AuditResult:
    """Audit a file (path), a document (mapping in any known format), a :class:`Deployment`, a channel or a matrix. ``tool``: the tool whose
    configuration a file or mapping is, where its words do not tell.

    Raises :class:`~dpspec.spec.diagnostics.SpecError` when it cannot be used; ``result.exit_code`` is 0 or 1 otherwise.
    """
    from dpspec.audit.deployment import ChannelSpec, Claim, Deployment, Setting
    from dpspec.audit.importers import import_document

    if isinstance(subject, Deployment):
        deployment = subject
    elif isinstance(subject, (str, Path)):
        deployment = load(subject, tool)
    elif isinstance(subject, Mapping):
        deployment = import_document(subject, tool=tool)
    else:
        spec = subject if isinstance(subject, ChannelSpec) else ChannelSpec("matrix", {"rows": _rows(subject)})
        deployment = Deployment("channel", Setting(model="local", unit="report", neighbouring="local_replace"), Claim(), channel=spec)
    try:
        result = audit_static(deployment)
    except _UNFORESEEN as error:
        raise _unusable(error, str(subject) if isinstance(subject, (str, Path)) else "", "judged") from error
    return _with_samples(result, deployment) if deployment.samples else result


def audit_all(path: str | Path) -> list[Row] | list[CaseVerdict] | None:
    """The verdicts on a document of several deployments: rows of a registry (a file, or a folder of entries) or of a catalogue of cases; an
    entry that cannot be read says so and stops no other. None: the document is one deployment."""
    from dpspec.audit.cases import verdicts
    from dpspec.audit.registry import folder, rows_of
    from dpspec.audit.yamlread import read_yaml_all

    file = Path(path)
    if file.is_dir():
        return folder(file)
    if file.suffix.lower() == ".csv":
        return None
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None  # load says why
    documents = [d for d in read_yaml_all(text, str(file)) if d is not None]
    data = documents[0] if len(documents) == 1 else documents
    if isinstance(data, Mapping) and isinstance(data.get("cases"), list):
        return verdicts(data["cases"])
    return rows_of(data) or None


def template(kind: str) -> str:
    """A commented description of this kind, which audits as it stands. Raises :class:`~dpspec.spec.diagnostics.SpecError` (DP676)."""
    from dpspec.audit.templates import template as of

    return of(kind)


def _with_samples(result: AuditResult, deployment: Deployment) -> AuditResult:
    """The empirical lower bound beside the proofs. It can refute, and it never turns a verdict into ``holds``."""
    from dpspec.audit.empirical import audit_samples
    from dpspec.spec.diagnostics import Diagnostic

    claim = deployment.claim
    found = audit_samples(
        *deployment.samples, claim=claim.epsilon, delta=claim.delta or 0.0, mu=claim.mu if claim.epsilon is None else None
    )
    if found.verdict != "violated":
        return replace(result, empirical=found.to_json())
    message = f"samples show epsilon of at least {found.epsilon_lower:.5g} at confidence {found.confidence:g}"
    findings = (*result.findings, Diagnostic("DP601", "error", message))
    return replace(result, empirical=found.to_json(), verdict="violated", findings=findings, loose=None)


def _rows(matrix: Any) -> Any:
    return matrix.tolist() if hasattr(matrix, "tolist") else matrix


class _Callable(ModuleType):
    """This package, which is ``dpspec.audit`` from its first import on, where the function of that name had been: both are called alike."""

    def __call__(self, subject: Any, tool: str = "") -> AuditResult:
        return audit(subject, tool)


sys.modules[__name__].__class__ = _Callable
