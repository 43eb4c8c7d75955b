"""Every address of a workspace to which its pages lead, as somebody comes there who follows all links."""

from collections import Counter, deque
from collections.abc import Collection, Iterator
from urllib.parse import parse_qsl, urlsplit

from daemon.pages.views import PAGES
from tests.daemon.http.running import Answer
from tests.daemon.pages.browser import Browser
from tests.daemon.pages.parsed import Parsed

# A table sorts by each column in each part of it: a few of these ways are enough.
_MOST_SORTED = 6
# Of the pages that are made of operations some of each kind: tables, curves, texts, forms.
GENERIC = (
    "gaps",
    "skills",
    "hormones",
    "crystals",
    "history",
    "memory_bootstrap",
    "memory_state",
    "feel",
    "working_memory_add",
)
EVERY = (*PAGES, *GENERIC)


def followed(
    browser: Browser, name: str, most: int = 10_000, pages: Collection[str] = EVERY
) -> Iterator[tuple[str, Answer]]:
    """Each address with its page, every page's own one first; `most` of a page. Links are followed to these pages."""
    waiting = deque(f"/w/{name}/{page}" for page in EVERY)
    known, counts = set(waiting), Counter[tuple[str, bool]]()
    while waiting:
        address = waiting.popleft()
        answer = browser.get(address)
        yield address, answer
        for found in Parsed(answer.body.decode()).addresses:
            bare = found.partition("#")[0]
            page = bare.split("/")[3].partition("?")[0]
            kind = (page, "sort" in dict(parse_qsl(urlsplit(bare).query)))
            if bare in known or page not in pages or counts[kind] >= (_MOST_SORTED if kind[1] else most):
                continue
            known.add(bare)
            counts[kind] += 1
            waiting.append(bare)
