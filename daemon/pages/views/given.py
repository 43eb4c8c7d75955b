"""Given: what an agent would be given at session start now, and what agents were given before."""

from daemon.api.operations.request import Nothing
from daemon.api.operations.search import last_bootstraps, memory_bootstrap
from daemon.pages.page import Ask, Page, Replies

_SHOWN = 20


def _read(ask: Ask, _: Nothing) -> Replies:
    return {
        "memory_bootstrap": ask(memory_bootstrap, receipt="none"),
        "bootstraps": ask(last_bootstraps, limit=_SHOWN),
    }


PAGE = Page("given", "Given", _read, live=True, under="now")
