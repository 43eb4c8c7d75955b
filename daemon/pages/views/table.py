"""The table of pages, and which of them stand in the navigation, in the order of their worth."""

from daemon.pages.page import AnyPage
from daemon.pages.views import dream, dreams, frame, given, line, memory, now, review, settings

FIRST = "now"
_SHOWN: tuple[AnyPage, ...] = (review.PAGE, now.PAGE, memory.PAGE, dreams.PAGE, settings.PAGE)
_OTHERS: tuple[AnyPage, ...] = (frame.PAGE, line.PAGE, dream.PAGE, given.PAGE)

PAGES: dict[str, AnyPage] = {page.name: page for page in (*_SHOWN, *_OTHERS)}
NAVIGATION = tuple((page.name, page.title) for page in _SHOWN)
