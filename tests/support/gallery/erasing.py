"""Operations that take lines away, at once or little by little, and that use up notes without saying them."""

from typing import Any

from tests.support.model_characters import eroding, evicting, inputs_of, lines_of


def _notes(request: dict[str, Any]) -> list[str]:
    return [name for name, _, _ in inputs_of(request) if name[0] == "N"]


def _evict(line: str, topic: str = "things") -> dict[str, Any]:
    return {"op": "evict", "line": line, "topic": topic, "cites": [line]}


def one_line_a_dream(request: dict[str, Any], _number: int) -> dict[str, Any]:
    """Takes one line away, the first that may be."""
    free = [name for name, pinned, text in lines_of(request) if not pinned and "search:" not in text]
    return {"operations": [_evict(name) for name in free[:1]], "consumed": _notes(request)}


def twenty_evictions(request: dict[str, Any], _number: int) -> dict[str, Any]:
    """Takes as many lines away as an answer may."""
    free = [name for name, pinned, text in lines_of(request) if not pinned and "search:" not in text]
    return {"operations": [_evict(name, "") for name in free[:20]], "consumed": _notes(request)}


def evicting_the_newest(request: dict[str, Any], _number: int) -> dict[str, Any]:
    """Takes the last ten lines away, which are the newest."""
    free = [name for name, pinned, _ in lines_of(request) if not pinned]
    return {"operations": [_evict(name) for name in free[-10:]], "consumed": _notes(request)}


def evicting_pinned(request: dict[str, Any], _number: int) -> dict[str, Any]:
    """Takes every pinned line away, and every pointer."""
    theirs = [name for name, pinned, text in lines_of(request) if pinned or "search:" in text]
    return {"operations": [_evict(name) for name in theirs], "consumed": _notes(request)}


def out_and_in(request: dict[str, Any], _number: int) -> dict[str, Any]:
    """Takes the same five lines away and writes them again, in every dream."""
    lines = [(name, text) for name, pinned, text in lines_of(request) if not pinned][:5]
    operations = [_evict(name) for name, _ in lines]
    operations += [{"op": "add", "section": "The Niche", "text": text, "cites": [name]} for name, text in lines]
    return {"operations": operations, "consumed": _notes(request)}


def out_and_in_by_turns(request: dict[str, Any], _number: int) -> dict[str, Any]:
    """Writes five lines once more in one dream, and takes them away in the next."""
    again = [name for name, _, text in lines_of(request) if text.endswith(" again")]
    if again:
        return {"operations": [_evict(name) for name in again], "consumed": _notes(request)}
    lines = [(name, text) for name, pinned, text in lines_of(request) if not pinned and "search:" not in text][:5]
    operations = [
        {"op": "add", "section": "Active Context", "text": f"{text} again", "cites": [name]} for name, text in lines
    ]
    return {"operations": operations, "consumed": _notes(request)}


def everything_into_one(request: dict[str, Any], _number: int) -> dict[str, Any]:
    """Merges every line into one."""
    names = [name for name, _, _ in lines_of(request)]
    merge = {
        "op": "merge",
        "section": "The Bond",
        "lines": names,
        "text": "The user has many habits.",
        "cites": names,
    }
    return {"operations": [merge], "consumed": _notes(request)}


def pairs_into_halves(request: dict[str, Any], _number: int) -> dict[str, Any]:
    """Merges lines by twos, and keeps the first half of the words of each."""
    lines = [(name, text) for name, pinned, text in lines_of(request) if not pinned and "search:" not in text]
    operations = []
    for (one, text), (other, more) in zip(lines[::2], lines[1::2], strict=False):
        halves = [" ".join(said.split()[: len(said.split()) // 2 + 1]) for said in (text, more)]
        operations.append(
            {
                "op": "merge",
                "section": "Active Context",
                "lines": [one, other],
                "text": " and ".join(halves),
                "cites": [one, other],
            }
        )
    return {"operations": operations, "consumed": _notes(request)}


def ten_into_one(request: dict[str, Any], _number: int) -> dict[str, Any]:
    """Merges ten lines into a line of all their first words."""
    lines = [(name, text) for name, pinned, text in lines_of(request) if not pinned and "search:" not in text][:10]
    text = "; ".join(" ".join(said.split()[:4]) for _, said in lines)
    names = [name for name, _ in lines]
    merge = {"op": "merge", "section": "Active Context", "lines": names, "text": text, "cites": names}
    return {"operations": [merge], "consumed": _notes(request)}


def consuming_all(request: dict[str, Any], _number: int) -> dict[str, Any]:
    """Says nothing, and names everything as read."""
    return {"operations": [], "consumed": [name for name, _, _ in inputs_of(request)]}


def consuming_the_unknown(request: dict[str, Any], _number: int) -> dict[str, Any]:
    """Names notes as read that are not there, lines, and a thousand more."""
    names = [name for name, _, _ in lines_of(request)]
    return {"operations": [], "consumed": [*names, *(f"N{at}" for at in range(500, 1500)), "*", "all", ""]}


def nothing_at_all(_request: dict[str, Any], _number: int) -> dict[str, Any]:
    """No operations, and nothing read."""
    return {"operations": [], "consumed": []}


KINDS = (
    evicting,
    eroding,
    one_line_a_dream,
    twenty_evictions,
    evicting_the_newest,
    evicting_pinned,
    out_and_in,
    out_and_in_by_turns,
    everything_into_one,
    pairs_into_halves,
    ten_into_one,
    consuming_all,
    consuming_the_unknown,
    nothing_at_all,
)
