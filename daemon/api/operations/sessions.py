"""Operations on sessions: the functions of `daemon.sessions`, with types and bounds for callers.

An operation has the parameters of its function except the stores and the current time; a draft is given by its
fields. A parameter's type and bounds depend only on its name.
"""

import sqlite3
from collections.abc import Callable
from datetime import datetime
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, Literal, get_type_hints

from annotated_types import MaxLen
from pydantic import BeforeValidator, WithJsonSchema

from daemon import sessions
from daemon.api.access import WorkspaceAccess
from daemon.api.operations.operation import Arg, Operation
from daemon.sessions.answers import Forgot
from daemon.upkeep.forget import preview_forget
from daemon.upkeep.forget_plan import ForgetRequest
from daemon.workspace.stores import Store, utc_now
from state.errors import DreamdError
from state.sessions.checks import Name, Priority, Tags, Text, from_scale
from state.sessions.page import LIMIT, MOST
from state.sessions.policies import settings_schema
from state.sessions.selection import Filters
from state.stores.database.connection import explained

Table = Annotated[dict[Text, Annotated[str, MaxLen(10_000)]], MaxLen(100)]
Importance = Annotated[float, BeforeValidator(from_scale), WithJsonSchema({"type": ["number", "string"]})]
_NONE: dict[str, Any] = {}


# Few have a description: agents read it with every tool, and most names suffice. An id has about 300 characters.
_KINDS: dict[str, Any] = {
    "session_id": Annotated[str, Arg(min_length=1, max_length=10_000)],
    "memory_id": Annotated[str, Arg(min_length=1, max_length=1_000)],
    "limit": Annotated[int, Arg(ge=1, le=MOST)],
    "cursor": Annotated[str, Arg("next_cursor before", max_length=10_000)],
    "memory_ids": Annotated[tuple[Name, ...], Arg("At most 500", max_length=500)],
    "relation_type": Annotated[Name, Arg("such as references, depends_on")],
    "target_element_id": Annotated[Name, Arg("What it is related to")],
    "metadata": Table,
    "include_expired": bool,
    "include_promoted": bool,
    "query": Annotated[str, Arg("Text that the content holds, in any case", max_length=102_400)],
    "tags": Annotated[Tags, Arg("Any of these")],
    "priority": Priority | None,
    "policy": Annotated[
        Literal["ttl", "budget", "hybrid", "bounded"],
        Arg("Who leaves: by time, by count, by tokens and importance, or by both limits"),
    ],
    "config": Annotated[dict[str, Any], Arg(max_length=100), WithJsonSchema(settings_schema())],
    "importance": Annotated[Importance, Arg("0 to 1, '7/10' or '★★'", ge=0, le=1)],
    "prompt": Annotated[str, Arg("Words; empty: everything", max_length=10_000)],
    "filters": Filters,
    "instruction": Annotated[
        str, Arg("oldest, least important, position:N, before:step_N or id:MEMORY_ID", min_length=1, max_length=1_010)
    ],
    "mode": Annotated[Literal["soft", "hard"], Arg("soft hides; hard purges for good")],
    "confirm": Annotated[bool, Arg("hard needs it")],
    "scope": Annotated[str, Arg("all, recent, important or by_tag:x", max_length=2_000)],
    "token_limit": Annotated[int, Arg(ge=1, le=10**7)],
    "strategy": Literal["recent", "important", "balanced"],
    "max_tokens": Annotated[int | None, Arg("Else the session's limit", ge=1, le=10**9)],
}
_DEFAULTS: dict[str, object] = {"metadata": _NONE, "config": _NONE, "filters": Filters()}
_DRAFT: dict[str, tuple[Any, object]] = {
    "content": (Annotated[str, Arg(min_length=1, max_length=102_400)], Parameter.empty),
    "tags": (Tags, ()),
    "metadata": (Table, _NONE),
    "agent_id": (Text, ""),
    "source": (Text, ""),
    "importance": (Annotated[Importance | None, Arg("0 to 1, '7/10' or '★★'", ge=0, le=1)], None),
    "step_index": (Annotated[int | None, Arg(ge=0, le=2**53)], None),
}


def tool(
    name: str,
    function: Callable[..., Any],
    *,
    reads: bool = False,
    limit: int = LIMIT,
    own: dict[str, tuple[Any, object]] = _NONE,
    about: str = "",
    fixed: dict[str, object] = _NONE,
    part: str = "",
    **properties: Any,  # noqa: ANN401 - those of `Operation`
) -> Operation[..., Any]:
    """Return an operation that calls the function with the stores or their connection, the arguments and the time.

    Its summary is the first line of the function's docstring, without errors. `reads`: it opens the stores read-only.
    `limit` is the default limit; `own` adds or replaces parameters for this operation alone.

    For another name of a function: `about` is its summary; `fixed` has arguments that a caller cannot give; `part`:
    it replies with this field of what the function returns.
    """
    hints, shown = get_type_hints(function), dict[str, tuple[Any, object]]()
    first, *others = signature(function).parameters.values()
    for one in others:
        if one.name == "draft":
            shown |= _DRAFT
        elif one.name == "limit":
            shown["limit"] = (_KINDS["limit"], limit)
        elif one.name in _KINDS and one.name not in fixed:
            shown[one.name] = (_KINDS[one.name], _DEFAULTS.get(one.name, one.default))
    shown |= own

    def run(access: WorkspaceAccess, **given: Any) -> Any:  # noqa: ANN401 - those of the function
        about = {name: given[name] for name in ("session_id", "memory_id") if given.get(name)}
        if "draft" in hints:
            given = {"session_id": given.pop("session_id"), "draft": sessions.Draft(**given)}
        try:
            with access.read() if reads else access.write() as store:
                of = store.connection if hints[first.name] is sqlite3.Connection else store
                reply = function(of, **given, **fixed, **({"now": utc_now()} if "now" in hints else {}))
                return getattr(reply, part) if part else reply
        except (sqlite3.Error, DreamdError) as error:
            told = error if isinstance(error, DreamdError) else explained(error, access.workspace.database)
            told.details = told.details or about
            raise told from error.__cause__ or (None if told is error else error)

    returned = get_type_hints(hints["return"])[part] if part else hints["return"]
    kinds = {name: kind for name, (kind, _) in shown.items()}
    run.__doc__ = about or (function.__doc__ or "").partition("\n")[0].partition(" Raise ")[0]
    run.__annotations__ = {"access": WorkspaceAccess, **kinds, "return": returned}
    taken = [Parameter(one, Parameter.KEYWORD_ONLY, default=default) for one, (_, default) in shown.items()]
    run.__signature__ = Signature([Parameter("access", Parameter.POSITIONAL_ONLY), *taken])  # type: ignore[attr-defined]
    return Operation(name, run, reads=reads, **properties)


def _forget(
    store: Store, session_id: str, instruction: str, now: datetime, mode: str = "soft", *, confirm: bool = False
) -> Forgot:
    """Forget, and count what forgetting the texts everywhere would erase."""

    def occurrences(store: Store, text: str, now: datetime) -> dict[str, int]:
        return {trace.place: trace.count for trace in preview_forget(store, ForgetRequest(text), now).traces}

    return sessions.forget(store, session_id, instruction, now, mode, confirm=confirm, traces=occurrences)


TOOLS, _KEPT = "sessions", "state promoted_to_id relations"
add = tool(
    "working_memory_add",
    sessions.add,
    agents=TOOLS,
    hint="What you juggle now goes to working_memory_add: it lives in its session, and ends.",
    item_fields="",
    adds=True,
    own={"priority": (Annotated[Priority, Arg("Kept for 1, 4, 12 or 24 hours")], Parameter.empty)},
)
get = tool("working_memory_get", sessions.get, agents=TOOLS, item_fields=_KEPT)
list_memories = tool("working_memory_list", sessions.list_memories, reads=True, agents=TOOLS)
promote = tool("working_memory_promote", sessions.promote, agents=TOOLS)
clear = tool("working_memory_clear_session", sessions.clear_session, agents=TOOLS)
stats = tool("working_memory_stats", sessions.stats, reads=True, agents=TOOLS)
expire = tool("working_memory_expire", sessions.expire, agents=TOOLS)
extend_ttl = tool("working_memory_extend_ttl", sessions.extend_ttl, agents=TOOLS)
list_pending = tool("working_memory_list_pending", sessions.list_pending, reads=True, agents=TOOLS, item_fields="")
bulk_promote = tool("working_memory_bulk_promote", sessions.bulk_promote, long=True, agents=TOOLS)
relation_add = tool("working_memory_relation_add", sessions.relation_add, agents=TOOLS, adds=True)
search = tool("working_memory_search", sessions.search, reads=True, agents=TOOLS)

open_ = tool("session_open", sessions.session_open, agents=TOOLS)
close = tool("session_close", sessions.close_session, agents=TOOLS, hint="Close the session at its end.")
memorize = tool(
    "memory_memorize",
    sessions.memorize,
    adds=True,
    own={
        "priority": (Priority, "medium"),
        "token_count": (Annotated[int | None, Arg("Else it is estimated", ge=1, le=10**9)], None),
    },
)
reassess = tool("memory_reassess", sessions.reassess)
remember = tool("memory_remember", sessions.remember, reads=True)
forget = tool("memory_forget", _forget, agents=TOOLS, erases=True)
summarize = tool("memory_summarize", sessions.summarize, reads=True)
context = tool("memory_context", sessions.context, reads=True, agents=TOOLS)
recall = tool(
    "memory_recall",
    sessions.recall,
    agents=TOOLS,
    item_fields=f"{_KEPT} state_reason",
    limit=10,
    own={"query": (Annotated[str, Arg("Words of it; empty: the latest", max_length=10_000)], "")},
)
restore = tool("memory_restore", sessions.restore)
preview = tool("session_preview", sessions.preview, reads=True, limit=10)
sweep = tool("session_sweep", sessions.sweep)


events = tool(
    "session_events",
    sessions.session_events,
    reads=True,
    own={
        "limit": (Annotated[int, Arg(ge=1, le=10_000)], LIMIT),
        "cursor": (Annotated[int | None, Arg("key of the last event that is known", ge=0, le=2**53)], None),
        "memory_id": (Annotated[str | None, Arg(min_length=1, max_length=1_000)], None),
    },
)
session_list = tool("session_list", sessions.session_list, reads=True, agents=TOOLS)

session_summary = tool("session_summary", sessions.session_summary, reads=True)

# Other names of the list: what each has, what is said of it, and for agents the fields of its items.
export, list_expired, list_promoted, session_archive = (
    tool(
        name,
        sessions.list_memories,
        about=f"Return what {about}.",
        fixed={"which": which, "include_expired": True, "include_promoted": True},
        reads=True,
        agents=TOOLS if fields else "",
        item_fields=fields,
    )
    for name, which, about, fields in (
        ("working_memory_export", "kept", "is in the set, or left it as a long-term record", _KEPT),
        ("working_memory_list_expired", "expired", "has expired and waits for the cleanup", "state"),
        ("working_memory_list_promoted", "promoted", "is a long-term record too", f"{_KEPT} promoted_at"),
        ("session_archive", "left", "left the set and can be restored, the latest to come first", ""),
    )
)
capacity = tool(
    "memory_capacity", sessions.stats, about="Return how full the session is.", part="capacity", reads=True
)
