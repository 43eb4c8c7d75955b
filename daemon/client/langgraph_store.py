"""LangGraph store: what LangGraph's agents keep across threads, in a workspace (`BaseStore`, durable at return).

It is imported where LangGraph is, and never by `daemon.client` itself.
"""

import asyncio
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    validate_op_namespace,
)

from daemon.api.tables.entries import (
    MOST,
    MOST_AT_ONCE,
    GetEntries,
    ListNamespaces,
    NamedEntry,
    ProgramEntry,
    PutEntries,
    PutEntry,
    SearchEntries,
    entries_get,
    entries_namespaces,
    entries_put,
    entries_search,
)
from daemon.client.client import Client
from daemon.client.request import made
from state.entries.fields import WHOLE

# The daemon takes bodies of 1 MiB.
_MOST_BYTES = 900_000


class DreamdStore(BaseStore):
    """The entries of a workspace as LangGraph's store, over a client; threads may share it.

    Searches by meaning compare with the daemon's own model: `fields` are the paths that are compared unless `put`
    names others in `index` (`["$"]`: the whole value). `ttl` is as LangGraph has it, in minutes; what has expired is
    never returned. A batch answers its reads from before its writes, and its writes are durable when it returns: all
    or none of up to 200 of them and 900 KB.
    """

    supports_ttl = True

    def __init__(self, client: Client, *, fields: Sequence[str] = (WHOLE,), ttl: TTLConfig | None = None) -> None:
        self._client = client
        self._fields = tuple(fields)
        self.ttl_config = ttl

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """The results of these operations, in their order."""
        every = list(ops)
        for op in every:
            validate_op_namespace(op)
        results: list[Result] = [None] * len(every)
        gets = [(place, op) for place, op in enumerate(every) if isinstance(op, GetOp)]
        for use in (True, False):
            several = [(place, op) for place, op in gets if op.refresh_ttl is use]
            for begin in range(0, len(several), MOST):
                part = several[begin : begin + MOST]
                for (place, _), item in zip(part, self._got([op for _, op in part], use=use), strict=True):
                    results[place] = item
        for place, op in enumerate(every):
            if isinstance(op, SearchOp):
                results[place] = self._found(op)
            elif isinstance(op, ListNamespacesOp):
                results[place] = self._namespaces(op)
        for request in _requests(self._put(op) for op in every if isinstance(op, PutOp)):
            self._client.ask(entries_put, request)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """The same in a thread, so that the loop goes on."""
        return await asyncio.to_thread(self.batch, list(ops))

    def _got(self, ops: list[GetOp], *, use: bool) -> Iterator[Item | None]:
        names = tuple(made(NamedEntry, namespace=op.namespace, name=op.key) for op in ops)
        for found in self._client.ask(entries_get, GetEntries(entries=names, use=use)).entries:
            yield Item(**_fields_of(found)) if found is not None else None

    def _found(self, op: SearchOp) -> list[SearchItem]:
        asked = made(
            SearchEntries,
            namespace=tuple(op.namespace_prefix),
            query=op.query or "",
            filter=op.filter or {},
            limit=min(op.limit, MOST),
            offset=op.offset,
            use=op.refresh_ttl,
        )
        return [
            SearchItem(**_fields_of(found), score=found.score)
            for found in self._client.ask(entries_search, asked).entries
        ]

    def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        conditions = op.match_conditions or ()
        ends = {one.match_type: tuple(one.path) for one in conditions}
        if len(ends) < len(conditions):
            raise ValueError("a listing has one prefix and one suffix at most")
        asked = made(
            ListNamespaces,
            starts=ends.get("prefix", ()),
            ends=ends.get("suffix", ()),
            max_depth=op.max_depth,
            limit=min(op.limit, MOST),
            offset=op.offset,
        )
        return list(self._client.ask(entries_namespaces, asked).namespaces)

    def _put(self, op: PutOp) -> PutEntry | NamedEntry:
        if op.value is None:
            return made(NamedEntry, namespace=op.namespace, name=op.key)
        fields = self._fields if op.index is None else op.index or ()
        return made(
            PutEntry,
            namespace=op.namespace,
            name=op.key,
            value=dict(op.value),
            fields=tuple(fields),
            lifetime_seconds=op.ttl * 60 if op.ttl is not None else None,
        )


def _fields_of(found: ProgramEntry) -> dict[str, Any]:
    return {
        "namespace": found.namespace,
        "key": found.name,
        "value": found.value,
        "created_at": found.created_at,
        "updated_at": found.updated_at,
    }


def _requests(changes: Iterable[PutEntry | NamedEntry]) -> Iterator[PutEntries]:
    """The writes in as few requests as the daemon takes, the last of each name alone."""
    last = {(change.namespace, change.name): change for change in changes}
    part, size = list[PutEntry | NamedEntry](), 0
    for change in last.values():
        length = len(json.dumps(change.model_dump(mode="json")))
        if part and (len(part) == MOST_AT_ONCE or size + length > _MOST_BYTES):
            yield _request(part)
            part, size = [], 0
        part.append(change)
        size += length
    if part:
        yield _request(part)


def _request(changes: list[PutEntry | NamedEntry]) -> PutEntries:
    puts = tuple(one for one in changes if isinstance(one, PutEntry))
    return PutEntries(entries=puts, delete=tuple(one for one in changes if not isinstance(one, PutEntry)))
