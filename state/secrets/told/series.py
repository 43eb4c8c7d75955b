"""Series of secrets: recovery codes, and the words of a wallet, one behind the other after what they are called."""

import re
from collections.abc import Iterator

from state.secrets.languages import vocabulary
from state.text.patterns import late_pattern

# Between two codes of a list: line ends (JSON's too), bullets, quotes, commas, the marks of a quotation or a diff.
_BETWEEN = late_pattern(
    r"(?:\\{1,7}[nrt]|[\s,;|、，;·•>+*\"'`\[\](/-]|\d{1,2}[.):][ \t]|<[^<>\n]{1,20}>|und|and|et|y|e|и|和){1,24}"
)
_LEAD = late_pattern(r"(?:[^\n:：]{0,80}[:：=→]|[^\n\d:：]{0,40})")
_CODE = late_pattern(
    r"(?=[^\s]{0,12}\d|\S{4,5} \S{0,5}\d|[A-Z]{4,6}-[A-Z]{4,6}\b|[a-z]{4,6}-[a-z]{4,6}\b)"
    r"(?:[0-9A-Za-z]{3,8}(?:-[0-9A-Za-z]{3,8}){1,7}|\d{3,6}(?: \d{3,6}){1,7}|(?=\S{0,5}\d"
    r"|\S{4,5} \S{0,5}\d)(?:[0-9a-z]{4} [0-9a-z]{4}|[0-9a-z]{5} [0-9a-z]{5})|\d{6,12}|[0-9a-z]{8,24}"
    r"|[0-9A-Z]{6,24}|[0-9A-Za-z]{8,24})(?![\w.-]*\w)"
)
_DATE = late_pattern(r"(?:19|20)\d\d-\d\d-\d\d|\d\d-\d\d-(?:19|20)\d\d")
# Words, and marks of a list, are read in one way alone: in several, ten of them in a row would take minutes.
_SIGN = r"[\u3400-\u9fff]"
_ITEM = rf"(?>[^\W\d_]{{2,12}}|{_SIGN})"
_GAP = r"(?>(?:\s|\\n|[,;、，|.·•>*\"'`\[\]()-]|\d{1,2}[.):]?[ \t]?){1,12})"
_RUN = late_pattern(rf"{_ITEM}(?:{_GAP}{_ITEM}){{10,25}}|{_SIGN}(?:(?:{_GAP})?{_SIGN}){{10,25}}")
_SENTENCE = late_pattern(r"[.!?] [A-Z]|, [a-z]+ [a-z]+ ")
_NUMBERED = late_pattern(r"\d{1,2}[.):]")
_NEXT = late_pattern(r"[:：=\n]|\\n")
_LONGEST = 900


def codes(text: str, end: int, limit: int) -> Iterator[tuple[int, int]]:
    """Start and end of each of the codes that stand behind "recovery codes" or the like."""
    at = end
    lead = _LEAD.match(text, at, min(limit, at + 90))
    for begin in dict.fromkeys((at, lead.end() if lead else at)):
        at, found = begin, False
        while (between := _BETWEEN.match(text, at)) and (code := _CODE.match(text, between.end())):
            at = code.end()
            if not _DATE.fullmatch(code[0]):
                found = True
                yield code.start(), at
        if found:
            return


def phrase(text: str, end: int) -> Iterator[tuple[int, int]]:
    """Start and end of the words of a wallet behind "seed phrase" or the like: a dozen words that are no sentence."""
    at = end
    stop = min(len(text), end + 160)
    for _ in range(3):
        run = _RUN.search(text, at, end + _LONGEST)
        if run is None or run.start() >= stop:
            return
        words = re.findall(_ITEM, run[0])
        start = _first(run, words)
        if start is not None:
            yield start, run.end()
            return
        following = _NEXT.search(text, run.start() + 1, stop)
        if following is None:
            return
        at = following.end()


def _first(run: re.Match[str], words: list[str]) -> int | None:
    """Where the words of a wallet begin in a run of words, if they do."""
    small = vocabulary().small
    if _SENTENCE.search(run[0]) and not _NUMBERED.search(run[0]):
        return None
    lowered = [word.lower() for word in words]
    if (
        sum(word in small for word in lowered if len(word) > 1) > len(words) // 6
        or len(set(lowered)) < len(lowered) - 2
    ):
        return None
    if sum(word != low for word, low in zip(words, lowered, strict=True)) > 1:
        return None
    return run.start()
