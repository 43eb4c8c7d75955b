"""The table of pages, and which of them stand in the navigation, in the order of their worth."""

from daemon.pages.page import AnyPage
from daemon.pages.views import dream, dreams, forget, frame, given, line, memory, now, review, search, settings
from daemon.pages.views.tables import crystal, crystals, gaps, hormones, sessions, skills

FIRST = "now"
_SHOWN: tuple[AnyPage, ...] = (
    review.PAGE,
    now.PAGE,
    memory.PAGE,
    dreams.PAGE,
    search.PAGE,
    crystals.PAGE,
    sessions.PAGE,
    gaps.PAGE,
    skills.PAGE,
    hormones.PAGE,
    forget.PAGE,
    settings.PAGE,
)
_OTHERS: tuple[AnyPage, ...] = (frame.PAGE, line.PAGE, dream.PAGE, crystal.PAGE, given.PAGE, sessions.SESSION)

PAGES: dict[str, AnyPage] = {page.name: page for page in (*_SHOWN, *_OTHERS)}
NAVIGATION = tuple((page.name, page.title) for page in _SHOWN)
