"""Tokenizer: splits texts into the ids of a model's pieces, as tokenizer.json says.

The tokenizers library does it, but takes .7 s and 290 MB to load the 250,000 pieces of multilingual-e5-small, where a
dictionary of them takes .3 s and 85 MB. So in such a model (SentencePiece's Unigram) that library only normalises a
text and splits it into words. The pieces of a word are chosen here: those with the highest sum of scores (Viterbi;
Kudo 2018, arXiv 1804.10959).
"""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

Tokenize = Callable[[Sequence[str]], list[list[int]]]

_WORDS = 1 << 14
# A character that is no piece scores this much below the worst one.
_PENALTY = 10.0


def load_tokenizer(path: Path, most_tokens: int) -> Tokenize:
    """Return the function that splits texts; it may be called from several threads."""
    from tokenizers import Tokenizer

    settings = json.loads(path.read_bytes())
    if _is_plain(settings):
        return Unigram(settings, most_tokens).ids
    whole = Tokenizer.from_file(str(path))
    whole.no_padding()
    whole.enable_truncation(max_length=most_tokens)
    return lambda texts: [one.ids for one in whole.encode_batch_fast(texts)]


def _is_plain(settings: dict[str, Any]) -> bool:
    """Return whether it is a Unigram over words, with two tokens around a text and none inside it."""
    model, around = settings["model"], settings.get("post_processor") or {}
    return (
        (model.get("type"), model.get("byte_fallback")) == ("Unigram", False)
        and (settings.get("pre_tokenizer") or {}).get("type") == "Metaspace"
        and [next(iter(one)) for one in around.get("single", ())] == ["SpecialToken", "Sequence", "SpecialToken"]
        and not settings.get("added_tokens")
    )


class Unigram:
    """A tokenizer of this kind."""

    def __init__(self, settings: dict[str, Any], most_tokens: int) -> None:
        """Take the settings in a tokenizer.json for which `_is_plain` is true."""
        from tokenizers import Tokenizer

        model = settings["model"]
        self._places = {piece: place for place, (piece, _) in enumerate(model["vocab"])}
        self._scores = [score for _, score in model["vocab"]]
        self._unknown: int = model["unk_id"]
        self._worst = min(self._scores) - _PENALTY
        self._longest = max(map(len, self._places))
        self._room = most_tokens - 2
        # The library's tokenizer without the pieces.
        empty = {**model, "unk_id": 0, "vocab": model["vocab"][:1]}
        self._rest: Any = Tokenizer.from_str(json.dumps({**settings, "model": empty}))
        self._first, self._last = self._rest.encode("").ids
        self._known: dict[str, list[int]] = {}

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of the pieces of each text, at most as many as the model takes."""
        return [[self._first, *self._of(text)[: self._room], self._last] for text in texts]

    def _of(self, text: str) -> list[int]:
        words = self._rest.pre_tokenizer.pre_tokenize_str(self._rest.normalizer.normalize_str(text))
        return [one for word, _ in words for one in self._pieces(word)]

    def _pieces(self, word: str) -> list[int]:
        # No lru_cache: it would keep this object, which is large, from being freed when the model is unloaded.
        found = self._known.get(word)
        if found is None:
            if len(self._known) >= _WORDS:
                self._known = {}
            found = self._known[word] = list(self._best(word))
        return found

    def _best(self, word: str) -> Iterator[int]:
        """Yield the pieces with the highest sum of scores."""
        length = len(word)
        # By the end of each piece: the best score up to there, where its last piece begins, and which it is.
        best = [(0.0, 0, 0), *[(float("-inf"), 0, 0)] * length]
        for start in range(length):
            so_far = best[start][0]
            for end in range(start + 1, min(start + self._longest, length) + 1):
                place = self._places.get(word[start:end])
                if place is not None and so_far + self._scores[place] > best[end][0]:
                    best[end] = (so_far + self._scores[place], start, place)
            if word[start] not in self._places and so_far + self._worst > best[start + 1][0]:
                best[start + 1] = (so_far + self._worst, start, self._unknown)
        end, path = len(best) - 1, list[int]()
        while end:
            _, end, place = best[end]
            path.append(place)
        before = None
        for place in reversed(path):  # what is unknown in a row is one
            if place != self._unknown or before != place:
                yield place
            before = place
