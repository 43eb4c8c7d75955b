"""`dreamd supersede` takes what a person has at hand: words of a memory, the id of a line, or an id."""

from pathlib import Path

from tests.support.running import Caller

TEA, COFFEE, CAT = "Marta drinks green tea.", "Marta drinks coffee.", "Marta has a cat called Miez."


def superseded(dreamd: Caller, here: Path) -> dict[str, str]:
    """What the next search says of each memory: which text supersedes it."""
    hits = dreamd("search", "Marta", "-w", here, "--json").json["hits"]
    return {hit["text"]: hit["superseded_by"] for hit in hits if hit["superseded_by"]}


def test_notes_are_named_by_words_of_them_and_the_next_search_says_so(dreamd: Caller, here: Path) -> None:
    for text in (COFFEE, TEA, CAT):
        assert dreamd("note", text, "-w", here).status == 0
    done = dreamd("supersede", "drinks coffee", "green TEA", "-w", here)
    assert (done.status, done.out) == (0, f"superseded: {COFFEE}\nholds: {TEA}\n")
    assert superseded(dreamd, here) == {COFFEE: TEA}
    assert dreamd("supersede", "--undo", COFFEE, TEA, "-w", here).status == 0
    assert superseded(dreamd, here) == {}


def test_a_line_of_memory_md_is_named_by_its_id_or_its_text(dreamd: Caller, here: Path) -> None:
    for text in (COFFEE, TEA):
        assert dreamd("note", text, "-w", here).status == 0
    assert dreamd("dream", "-w", here).status == 0
    ids = {text: dreamd("why", text, "-w", here, "--json").json["lines"][0]["id"] for text in (COFFEE, TEA)}
    assert dreamd("supersede", ids[COFFEE].lower(), ids[TEA], "-w", here).status == 0
    assert superseded(dreamd, here) == {COFFEE: TEA}


def test_what_names_no_memory_or_several_changes_nothing(dreamd: Caller, here: Path) -> None:
    for text in (COFFEE, TEA):
        assert dreamd("note", text, "-w", here).status == 0
    several = dreamd("supersede", "Marta drinks", TEA, "-w", here)
    assert (several.status, "means several memories" in several.err) == (2, True)
    assert COFFEE in several.err
    unknown = dreamd("supersede", "abc", "def", "-w", here)
    assert (unknown.status, "no memory has 'abc'" in unknown.err) == (1, True)
    twice = dreamd("supersede", TEA, "green tea", "-w", here)
    assert (twice.status, "both are the same memory" in twice.err) == (2, True)
    assert superseded(dreamd, here) == {}
