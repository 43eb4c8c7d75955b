"""Context: what a session remembers at a prompt, its summary, its text for a prompt, and its capacity."""

from collections.abc import Mapping
from datetime import datetime

from daemon.sessions.answers import Memories, Summary, WorkingContext, memories_of, page_of
from daemon.sessions.call import call, policy_and_items, sessions_of
from daemon.workspace.stores import Store
from state.sessions.context import assemble, strategy_of
from state.sessions.page import ALL, Wanted
from state.sessions.policies.bounded import Bounded
from state.sessions.search import filters_of, matching_items
from state.sessions.stats import Capacity
from state.sessions.stats import capacity as capacity_of
from state.sessions.summarizing import scope_of
from state.sessions.summarizing import summarize as summarized

_NO_FILTERS: Mapping[str, object] = {}
_SUMMARY_TOKENS = 500


@call
def remember(
    store: Store,
    session_id: str,
    now: datetime,
    prompt: str = "",
    filters: Mapping[str, object] = _NO_FILTERS,
    wanted: Wanted = ALL,
) -> Memories:
    """What the prompt is about (empty: everything), by importance, then the newest; nothing hidden, nothing expired.

    Filters: tags, priority, agent_id, source. Raises UsageError.
    """
    sessions, passing = sessions_of(store), filters_of(filters)
    with sessions.steady():
        _, view = policy_and_items(sessions, session_id)
        return memories_of(session_id, page_of(matching_items(view, prompt, passing, now), wanted))


@call
def summarize(
    store: Store, session_id: str, now: datetime, scope: str = "all", token_limit: int = _SUMMARY_TOKENS
) -> Summary:
    """The items of the scope (all, recent, important, by_tag:x) within the limit, in whole sentences.

    The same session gives the same summary. Raises UsageError.
    """
    sessions = sessions_of(store)
    with sessions.steady():
        decides, view = policy_and_items(sessions, session_id)
        bounded = decides if isinstance(decides, Bounded) else Bounded()
        summary = summarized(view, scope_of(scope, view.step, bounded), token_limit, now)
    return Summary(summary.text, summary.tokens, tuple(item.id for item in summary.sources), scope)


@call
def context(
    store: Store, session_id: str, now: datetime, strategy: str = "balanced", max_tokens: int | None = None
) -> WorkingContext:
    """Items in the strategy's order (recent, important, balanced), up to the first that does not fit.

    Without a number of tokens the whole session's are taken. Raises UsageError.
    """
    sessions, chosen = sessions_of(store), strategy_of(strategy)
    with sessions.steady():
        _, view = policy_and_items(sessions, session_id)
        text = assemble(view, chosen, max(1, view.tokens) if max_tokens is None else max_tokens, now)
    return WorkingContext(text.text, text.tokens, tuple(item.id for item in text.items), strategy)


@call
def capacity(store: Store, session_id: str) -> Capacity:
    """How full the session is, by its policy."""
    sessions = sessions_of(store)
    with sessions.steady():
        decides, view = policy_and_items(sessions, session_id)
        return capacity_of(decides, view.count, view.tokens)
