"""Addresses of databases, as a spec may write them: without a credential, of a kind that is known.

A spec is shared, printed, hashed into plans and shown in editors, so an address says where records are and not by whose leave: users and
passwords come from the environment of the process that reads (``PGUSER``, ``PGPASSWORD``, ``PGPASSFILE``, ``PGSERVICE``, as every client of
PostgreSQL takes them). An address that is refused is never repeated as it stands.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

SERVERS: Final = ("postgresql", "postgres")
FILES: Final = ("sqlite", "duckdb")
KINDS: Final = (*SERVERS, *FILES)
#: What may stand behind the question mark of a server's address: none of it is anybody's secret.
PARAMETERS: Final = ("host", "port", "sslmode", "sslrootcert", "connect_timeout")

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")
_SECRET: Final = re.compile(r"pass(word|wd|phrase)?\s*=|://[^\s/@]*:[^\s/@]*@", re.IGNORECASE)
_FROM_ENVIRONMENT: Final = "credentials come from the environment alone: PGUSER and PGPASSWORD, or PGPASSFILE; take them out of the spec"
_KNOWN: Final = "postgresql://HOST/DATABASE, sqlite:///FILE or duckdb:///FILE; of any other, hand rows over: plan.run(an Arrow reader)"


def scheme(url: str) -> str:
    """The kind of database, in lower case; empty where the text is no address."""
    found = _SCHEME.match(url)
    return found[1].lower() if found else ""


def file_of(url: str) -> str | None:
    """The file behind ``sqlite:///records.db`` (relative to the spec) or ``sqlite:////data/records.db``; None for servers."""
    return unquote(url.partition(":///")[2]) if scheme(url) in FILES else None


def shown(text: str) -> str:
    """An address as messages may repeat it: without user, password and parameters. Other text as it is."""
    found = _SCHEME.match(text)
    if not found:
        return text
    place = text[found.end() :].lstrip("/").partition("?")[0].partition("#")[0].rpartition("@")[2]
    return f"{found[1]}://{place}"


def refusal(url: str, query: str) -> tuple[str, str] | None:
    """What is wrong with an address and its query, and the remedy; None where nothing is."""
    kind = scheme(url)
    if not kind:
        return "`query` asks a database, and what stands before it is no address of one", _KNOWN
    if kind not in KINDS:
        return f"there is no reader of {kind.partition('+')[0]} databases", _KNOWN
    try:
        parts = urlsplit(url)
        named = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        return f"the address of the {kind} database cannot be read", _KNOWN
    if "@" in unquote(url):
        return "the address of the database holds a user or a password", _FROM_ENVIRONMENT
    wrong = [name for name, _ in named if name not in PARAMETERS]
    if any(name.lower() in ("user", "password", "passfile", "sslpassword", "sslkey", "service", "options") for name in wrong):
        return "the address of the database holds a credential", _FROM_ENVIRONMENT
    if wrong or parts.fragment:
        return "the address of the database has a parameter that is not known", f"known: {', '.join(PARAMETERS)}"
    if kind in FILES and (named or not url.partition(":")[2].startswith("///") or not file_of(url)):
        return (
            f"the address of a {kind} database is {kind}:///FILE",
            f"{kind}:///r.db lies beside the spec, {kind}:////data/r.db does not",
        )
    if _SECRET.search(query):
        return "the query holds a password", _FROM_ENVIRONMENT
    if not query.strip().rstrip(";").strip():
        return "the query is empty", 'query "select age, income from people"'
    return None


#: Words of a query that look at several rows at once, or that two passes may answer differently.
_SEVERAL: Final = re.compile(
    r"\b(group\s+by|join|over|distinct|limit|fetch|offset|union|intersect|except|having|recursive|tablesample|lateral)\b|\brandom\s*\(",
    re.IGNORECASE,
)


def several(query: str) -> tuple[str, ...]:
    """The words by which a query may let one row of a table move several of its result; that there is none proves nothing (views)."""
    return tuple(dict.fromkeys(re.sub(r"\s+", " ", word[0].lower()).rstrip("( ") for word in _SEVERAL.finditer(query)))
