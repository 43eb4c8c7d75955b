"""Every detector: what scans a text of a note, a turn, an item or a page, as a function of that text alone."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from daemon.ingest.formats.own_answers import is_own_answer, is_own_call
from daemon.pages.templates import prose
from graphs.extractive import lines_of
from state.crystals.salience import salience
from state.document.document import parse, render
from state.document.pointer import candidates, parse_pointer, topic_of
from state.forgetting.cutting import Cut, sentences
from state.forgetting.folded import fold
from state.forgetting.known import Known, Target, rows_of, spans, without
from state.scratch import parse_notes, plain_text
from state.search.dates import periods_in
from state.search.query import content_words, names_in, read_question
from state.secrets.policy import is_plain
from state.secrets.redaction import redact
from state.signals.curiosity import gap_of_search, questions_in
from state.signals.felt import feelings_in
from state.signals.skills import short_name
from state.text.chunks import chunk, tokens
from state.text.line import as_line, without_count
from state.text.words import content_terms, normalise, numbers, terms
from state.trust import Trust

Detector = Callable[[str], object]

_NOW = datetime(2026, 3, 12, tzinfo=UTC)
_LONG = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
_SHORT, _PHRASE, _WHOLE = (Target.of(text) for text in ("a", "prefers short answers", _LONG))
_SALT = "00" * 16


_BURIED = Known(
    _SALT, frozenset(row for target in (_SHORT, Target.of("the"), _PHRASE, _WHOLE) for row in rows_of(_SALT, target))
)


DETECTORS: Mapping[str, Detector] = {
    "as_line": as_line,
    "as_line whole": lambda text: as_line(text, len(text) + 1),
    "without_count": without_count,
    "questions_in": questions_in,
    "missed": gap_of_search,
    "feelings_in": feelings_in,
    "salience": lambda text: salience(text, Trust.OWNER),
    "spans": lambda text: spans(text, [_SHORT, _PHRASE, _WHOLE]),
    "sentences": sentences,
    "without sentences": lambda text: without(text, [_SHORT, _PHRASE, _WHOLE], Cut.SENTENCES),
    "without words": lambda text: without(text, [_SHORT, _PHRASE], Cut.WORDS),
    "found": _BURIED.found,
    "buried without": _BURIED.without,
    "masked": _BURIED.masked,
    "fold": fold,
    "normalise": normalise,
    "terms": terms,
    "content_terms": content_terms,
    "numbers": numbers,
    "chunk": chunk,
    "tokens": tokens,
    "lines_of": lines_of,
    "periods_in": lambda text: periods_in(text, _NOW),
    "read_question": lambda text: read_question(text, ("Anna",), _NOW),
    "content": content_words,
    "names_in": names_in,
    "parse_notes": lambda text: parse_notes(text, _NOW),
    "plain_text": plain_text,
    "parse": lambda text: render(parse(text)),
    "lines": lambda text: [(block.key, block.pinned) for part in parse(text).parts for block in part.lines],
    "candidates": lambda text: candidates(text, {}),
    "parse_pointer": parse_pointer,
    "topic_of": topic_of,
    "short_name": short_name,
    "is_plain": is_plain,
    "redact": redact,
    "redact a setting": lambda text: redact(f"password: {text}"),
    "redact a quoted setting": lambda text: redact(f'api_key = "{text}"'),
    "redact what is told": lambda text: redact(f"the password of the printer is {text}"),
    "redact a wallet": lambda text: redact(f"seed phrase: {text}"),
    "is_own_answer": is_own_answer,
    "is_own_call": lambda text: is_own_call("Bash", {"command": text}),
    "prose": lambda text: prose(text, len(text)),
}
