"""Views: all pages, and those of the navigation."""

from daemon.pages.dreams import DREAMS, ONE_DREAM
from daemon.pages.find import FIND
from daemon.pages.found import CRYSTAL, SESSION
from daemon.pages.memory import LINE, MEMORY
from daemon.pages.page import Page
from daemon.pages.settings import SETTINGS
from daemon.pages.sheet import WRONG
from daemon.pages.today import FRAME, TODAY

_SHOWN = (TODAY, MEMORY, DREAMS)
FIRST = TODAY.name
PAGES: dict[str, Page] = {
    page.name: page for page in (*_SHOWN, FRAME, FIND, LINE, ONE_DREAM, CRYSTAL, SESSION, WRONG, SETTINGS)
}
NAVIGATION = tuple((page.name, page.title) for page in _SHOWN)
