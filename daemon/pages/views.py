"""Views: all pages, and those of the navigation."""

from daemon.api.operations.operation import AnyOperation
from daemon.api.operations.table import OPERATIONS
from daemon.pages.dreams import DREAMS, ONE_DREAM
from daemon.pages.memory import LINE, MEMORY
from daemon.pages.page import Page
from daemon.pages.search import CRYSTAL, SEARCH
from daemon.pages.sessions import SESSION, SESSIONS
from daemon.pages.sheet import FORGET
from daemon.pages.today import FRAME, NOW, REVIEW


def _without_page() -> list[AnyOperation]:
    return [one for one in OPERATIONS.values() if one.remote and one.name not in PAGES]


SETTINGS = Page("settings", "Settings", lambda _: {"operations": _without_page()})


# In the order of their worth.
_SHOWN = (REVIEW, NOW, MEMORY, DREAMS, SEARCH, SESSIONS, FORGET, SETTINGS)
FIRST = NOW.name
PAGES: dict[str, Page] = {page.name: page for page in (*_SHOWN, FRAME, LINE, ONE_DREAM, CRYSTAL, SESSION)}
NAVIGATION = tuple((page.name, page.title) for page in _SHOWN)
