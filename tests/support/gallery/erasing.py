"""Operations that take lines away, at once or little by little, and that use up notes without saying them."""

from typing import Any

from tests.support.gallery.kinds import Kind, Request, add, answer, evict, lines, merge, notes, pairs, table
from tests.support.model_characters import eroding, evicting, inputs_of, lines_of


def _ids(request: Request) -> list[str]:
    return [name for name, _, _ in lines_of(request)]


def _first_half(text: str) -> str:
    return " ".join(text.split()[: len(text.split()) // 2 + 1])


def out_and_in(request: Request, _number: int) -> dict[str, Any]:
    """Takes the same five lines away and writes them again, in every dream."""
    five = [(name, text) for name, pinned, text in lines_of(request) if not pinned][:5]
    again = [add(text, name, section="The Niche") for name, text in five]
    return answer([*(evict(name) for name, _ in five), *again], notes(request))


def out_and_in_by_turns(request: Request, _number: int) -> dict[str, Any]:
    """Writes five lines once more in one dream, and takes them away in the next."""
    if again := [name for name, _, text in lines_of(request) if text.endswith(" again")]:
        return answer([evict(name) for name in again], notes(request))
    five = [add(f"{text} again", name, section="Active Context") for name, text in lines(request)[:5]]
    return answer(five, notes(request))


def pairs_into_halves(request: Request, _number: int) -> dict[str, Any]:
    """Merges lines by twos, and keeps the first half of the words of each."""
    merges = [
        merge([one, other], f"{_first_half(text)} and {_first_half(more)}")
        for (one, text), (other, more) in pairs(request)
    ]
    return answer(merges, notes(request))


def ten_into_one(request: Request, _number: int) -> dict[str, Any]:
    """Merges ten lines into a line of all their first words."""
    ten = lines(request)[:10]
    text = "; ".join(" ".join(said.split()[:4]) for _, said in ten)
    return answer([merge([name for name, _ in ten], text)], notes(request))


KINDS: tuple[Kind, ...] = (
    *(evicting, eroding, out_and_in, out_and_in_by_turns, pairs_into_halves, ten_into_one),
    *table({
        "one line a dream: Takes one line away, the first that may be.": lambda r, _: answer(
            [evict(name) for name, _ in lines(r)[:1]], notes(r)
        ),
        "twenty evictions: Takes as many lines away as an answer may.": lambda r, _: answer(
            [evict(name, "") for name, _ in lines(r)[:20]], notes(r)
        ),
        "evicting the newest: Takes the last ten lines away, which are the newest.": lambda r, _: answer(
            [evict(name) for name, pinned, _ in lines_of(r) if not pinned][-10:], notes(r)
        ),
        "evicting pinned: Takes every pinned line away, and every pointer.": lambda r, _: answer(
            [evict(name) for name, pinned, text in lines_of(r) if pinned or "search:" in text], notes(r)
        ),
        "everything into one: Merges every line into one.": lambda r, _: answer(
            [merge(_ids(r), "The user has many habits.", "The Bond")], notes(r)
        ),
        "consuming all: Says nothing, and names everything as read.": lambda r, _: answer(
            [], [name for name, _, _ in inputs_of(r)]
        ),
        "consuming the unknown: Names notes as read that are not there, lines, and more.": lambda r, _: answer(
            [], [*_ids(r), *(f"N{at}" for at in range(500, 1500)), "*", "all", ""]
        ),
        "nothing at all: No operations, and nothing read.": lambda _r, _n: answer([], []),
    }),
)  # fmt: skip
