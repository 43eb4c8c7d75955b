"""Operations on entries: JSON that a program keeps under names of its own, found by name, filter and meaning.

They are the program's: no dream reads them, and no search of the memory finds them. What is forgotten leaves them,
and secrets never enter.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Annotated, Any

from pydantic import Field, StringConstraints, field_validator

from daemon.api.access import WorkspaceAccess
from daemon.api.operations.operation import FieldsError, Request, operation
from daemon.workspace.stores import Store, utc_now
from state.entries.entry import LONGEST_NAME, LONGEST_VALUE, MOST_LABELS, EntryChange, NamespacePattern
from state.entries.fields import WHOLE, texts_of
from state.entries.filters import passes, unknown_operators
from state.errors import BusyError
from state.stores.database.connection import transaction
from state.stores.entries.entries import Entries, KeptEntry
from state.stores.entries.meanings import Meanings
from state.text.words import terms

MOST = 1_000
MOST_AT_ONCE = 200
_FAR = 2**31

Name = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_NAME)]
Labels = Annotated[tuple[Name, ...], Field(max_length=MOST_LABELS)]
FieldPath = Annotated[str, StringConstraints(max_length=LONGEST_NAME)]


class NamedEntry(Request):
    """Which entry."""

    namespace: Labels = Field(min_length=1, description="Labels, from the general to the particular")
    name: Name


class PutEntry(NamedEntry):
    """An entry to keep, in the place of the one of that name."""

    value: dict[str, Any] = Field(description="JSON of 100 KiB at most")
    fields: tuple[FieldPath, ...] = Field(
        default=(WHOLE,),
        max_length=50,
        description="Paths of what is searched by meaning: $ is the value, else title, author.name, tags[*]",
    )
    lifetime_seconds: float | None = Field(
        default=None, gt=0, le=10**10, description="It goes so long after its last use"
    )


class PutEntries(Request):
    """What is kept and deleted, all of it or nothing."""

    entries: tuple[PutEntry, ...] = Field(default=(), max_length=MOST_AT_ONCE)
    delete: tuple[NamedEntry, ...] = Field(default=(), max_length=MOST_AT_ONCE)


@dataclass(frozen=True, slots=True)
class EntriesPut:
    """How many entries are kept, durably, and how many were deleted."""

    kept: int
    deleted: int


@operation("entries_put", "/entries")
def entries_put(access: WorkspaceAccess, request: PutEntries) -> EntriesPut:
    """Keep or delete entries of a program, all of them or none, durably."""
    changes = [_clean(access, one, f"entries.{place}") for place, one in enumerate(request.entries)]
    with access.write() as store:
        spared = [_spared(store, change) for change in changes]
        spared += [EntryChange(one.namespace, one.name, None) for one in request.delete]
        with transaction(store.crystals.connection) as connection:
            store.check()
            kept, deleted = Entries(connection).change(spared, utc_now())
        if any(change.fields for change in spared):
            _embed(store, len(spared))
    return EntriesPut(kept, deleted)


class GetEntries(Request):
    """Which entries."""

    entries: tuple[NamedEntry, ...] = Field(max_length=MOST)
    use: bool = Field(default=True, description="Whether their lifetimes begin anew")


@dataclass(frozen=True, slots=True)
class ProgramEntry:
    """An entry. `score`: how near it is to what was searched for, at most 1; None when it was not compared."""

    namespace: tuple[str, ...]
    name: str
    value: dict[str, Any]
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None = None
    score: float | None = None


@dataclass(frozen=True, slots=True)
class EntriesGot:
    """The entries in the order in which they were asked for; None: there is none of that name."""

    entries: tuple[ProgramEntry | None, ...]


@operation("entries_get", "/entries/get", reads=True)
def entries_get(access: WorkspaceAccess, request: GetEntries) -> EntriesGot:
    """Entries of a program by their names."""
    now = utc_now()
    with access.read() as store:
        entries = Entries(store.crystals.connection)
        found = [entries.get(one.namespace, one.name, now) for one in request.entries]
    _use(access, [one for one in found if one is not None] if request.use else [], now)
    return EntriesGot(tuple(_shown(one) if one is not None else None for one in found))


class SearchEntries(Request):
    """Which entries, and in which order: by meaning with a query, else the latest change first."""

    namespace: Labels = Field(default=(), description="Only in it and below it; empty: everywhere")
    query: str = Field(default="", max_length=10_000, description="What they are about")
    filter: dict[str, Any] = Field(
        default_factory=dict, max_length=100, description="Fields and their values, or $eq, $ne, $gt, $gte, $lt, $lte"
    )
    limit: int = Field(default=10, ge=1, le=MOST)
    offset: int = Field(default=0, ge=0, le=_FAR)
    use: bool = Field(default=True, description="Whether the lifetimes of what is found begin anew")

    @field_validator("filter")
    @classmethod
    def _known(cls, wanted: dict[str, Any]) -> dict[str, Any]:
        if unknown := unknown_operators(wanted):
            raise ValueError(f"{unknown[0]!r:.40} is no operator")
        return wanted


@dataclass(frozen=True, slots=True)
class EntriesFound:
    """What a search found. `more`: there are more behind these. `compared`: by meaning, by words, or not at all."""

    entries: tuple[ProgramEntry, ...]
    more: bool
    compared: str


@operation("entries_search", "/entries/search", reads=True)
def entries_search(access: WorkspaceAccess, request: SearchEntries) -> EntriesFound:
    """Entries of a program by namespace, filter and meaning."""
    now = utc_now()
    if request.query:
        with suppress(BusyError), access.write() as store:
            _embed(store, MOST_AT_ONCE)  # what an erasure or another model has left to do
    with access.read() as store:
        keys, scores, compared = _ordered(store, request, now)
        found = Entries(store.crystals.connection).by_keys(keys[request.offset : request.offset + request.limit])
    _use(access, found if request.use else [], now)
    more = len(keys) > request.offset + request.limit
    return EntriesFound(tuple(_shown(one, scores.get(one.key)) for one in found), more, compared)


class ListNamespaces(Request):
    """Which namespaces."""

    starts: Labels = Field(default=(), description="The labels that they begin with; * is any one")
    ends: Labels = Field(default=(), description="The labels that they end with; * is any one")
    max_depth: int | None = Field(default=None, ge=1, le=MOST_LABELS, description="Cut off after so many labels")
    limit: int = Field(default=100, ge=1, le=MOST)
    offset: int = Field(default=0, ge=0, le=_FAR)


@dataclass(frozen=True, slots=True)
class Namespaces:
    """Namespaces that have entries, in order, each once. `more`: there are more behind these."""

    namespaces: tuple[tuple[str, ...], ...]
    more: bool


@operation("entries_namespaces", "/entries/namespaces", reads=True)
def entries_namespaces(access: WorkspaceAccess, request: ListNamespaces) -> Namespaces:
    """The namespaces of a program's entries."""
    patterns = (NamespacePattern(request.starts), NamespacePattern(request.ends, at_end=True))
    with access.read() as store:
        every = Entries(store.crystals.connection).namespaces(patterns, request.max_depth, utc_now())
    end = request.offset + request.limit
    return Namespaces(tuple(every[request.offset : end]), len(every) > end)


def _clean(access: WorkspaceAccess, one: PutEntry, where: str) -> EntryChange:
    """The change without secrets. Raises FieldsError for a name that holds one, and for a value that is too large."""
    redaction = access.config.secrets.redaction
    if any(redaction.kinds(label) for label in (*one.namespace, one.name)):
        raise FieldsError({f"{where}.name": "a name or namespace holds a secret; call it otherwise"})
    lifetime = timedelta(seconds=one.lifetime_seconds) if one.lifetime_seconds is not None else None
    try:
        size = len(json.dumps(one.value, ensure_ascii=False, allow_nan=False))
    except ValueError as error:
        raise FieldsError({f"{where}.value": "infinity and NaN are no JSON"}) from error
    if size > LONGEST_VALUE:
        raise FieldsError({f"{where}.value": f"it has {size:,} characters, and {LONGEST_VALUE:,} at most are kept"})
    fields = tuple(dict.fromkeys(one.fields))
    return EntryChange(one.namespace, one.name, redaction.of_json(one.value), fields, lifetime)


def _spared(store: Store, change: EntryChange) -> EntryChange:
    """The change without what is forgotten. Raises FieldsError when it is named so."""
    forgotten = store.crystals.forgotten
    if not forgotten.any():
        return change
    if any(forgotten.holds(label) for label in (*change.namespace, change.name)):
        raise FieldsError({"entries.name": "a name or namespace holds what is forgotten; call it otherwise"})

    def spared(value: Any) -> Any:  # noqa: ANN401 - JSON has no better type
        if isinstance(value, str):
            return forgotten.without_forgotten(value)
        if isinstance(value, list):
            return [spared(one) for one in value]
        if isinstance(value, Mapping):
            return {name: spared(one) for name, one in value.items() if not forgotten.holds(name)}
        return value

    return EntryChange(change.namespace, change.name, spared(change.value), change.fields, change.lifetime)


def _embed(store: Store, count: int) -> None:
    embedder = store.embedder()
    if embedder is not None:
        Meanings(store.crystals.connection, embedder).embed(count)


def _ordered(store: Store, request: SearchEntries, now: datetime) -> tuple[list[int], dict[int, float], str]:
    """The rows that are wanted in their order, how near they are to the query, and how that was compared."""
    entries, prefix = Entries(store.crystals.connection), request.namespace
    if not request.query and not request.filter:
        return entries.latest_keys(prefix, now, request.offset + request.limit + 1), {}, ""
    if not request.query:
        chosen = (key for key, value in entries.latest(prefix, now) if passes(value, request.filter))
        return list(islice(chosen, request.offset + request.limit + 1)), {}, ""
    latest = dict.fromkeys(entries.latest_keys(prefix, now))
    if request.filter:
        latest = {key: None for key, value in entries.latest(prefix, now) if passes(value, request.filter)}
    embedder = store.embedder()
    if embedder is not None:
        near = Meanings(store.crystals.connection, embedder).nearest(request.query, prefix, now)
        scores, compared = {key: score for key, score in near.items() if key in latest}, "meaning"
    else:
        scores, compared = _by_words(entries, request, now, latest), "words"
    return [*scores, *(key for key in latest if key not in scores)], scores, compared


def _by_words(
    entries: Entries, request: SearchEntries, now: datetime, latest: Mapping[int, None]
) -> dict[int, float]:
    """How many of the query's words each entry has, of all of them."""
    wanted = set(terms(request.query))
    scores = {
        key: len(wanted.intersection(terms(" ".join(texts_of(value, (WHOLE,)))))) / max(1, len(wanted))
        for key, value in entries.latest(request.namespace, now)
        if key in latest
    }
    return dict(sorted(((key, score) for key, score in scores.items() if score), key=lambda pair: -pair[1]))


def _use(access: WorkspaceAccess, found: list[KeptEntry], now: datetime) -> None:
    """Begin their lifetimes anew, unless another process holds the workspace: then they go when they would have."""
    used = [one.key for one in found if one.lifetime is not None]
    if used:
        with suppress(BusyError), access.write() as store:
            store.check()
            Entries(store.crystals.connection).use(used, now)


def _shown(kept: KeptEntry, score: float | None = None) -> ProgramEntry:
    entry = kept.entry
    return ProgramEntry(
        entry.namespace, entry.name, entry.value, entry.created_at, entry.updated_at, entry.expires_at, score
    )
