"""Long logs of notes: what is counted, shown and taken in at once does not grow with them."""

import time
import tracemalloc
from pathlib import Path

import pytest

from daemon.ingest.notes import absorb_notes
from daemon.workspace.stores import Store, utc_now
from state.stores.disk.workspace import contained, init_workspace
from tests.support.committing import opened
from tests.support.notes import pending


def test_a_long_log_is_counted_up_to_a_thousand_and_shown_from_its_end(store: Store) -> None:
    store.workspace.scratch.write_text("".join(f"- note {n}\n  and more\n" for n in range(30_000)))
    count, newest = store.notes.count(), store.notes.newest(1_000)
    assert (str(count), count.notes) == ("1,000+", 1_000)
    assert newest.more
    numbers = [int(note.text.split()[1]) for note in newest.notes]
    assert numbers == list(range(numbers[0], 30_000))
    assert 20 < len(numbers) < 60


def peak_of_taking_in(folder: Path, lines: int) -> int:
    """The most memory, in bytes, that a daemon holds at once that takes notes of a long log in, and shows them."""
    workspace = init_workspace(contained(folder))
    with workspace.scratch.open("w", encoding="utf-8") as file:
        file.writelines(f"- note {number} is about the garden of house {number}\n" for number in range(lines))
    with opened(workspace) as store:
        tracemalloc.start()
        for _ in range(2):  # a thousand each
            absorb_notes(store, utc_now())
            store.notes.count()
            store.notes.newest(10_000)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert pending(store) == [f"note {n} is about the garden of house {n}" for n in range(2_000)]
    return peak


@pytest.mark.full
@pytest.mark.timeout(900)
def test_of_a_million_lines_no_more_is_held_and_read_at_once_than_of_a_few_thousand(tmp_path: Path) -> None:
    peaks, seconds = list[int](), list[float]()
    for lines in (2_500, 1_000_000):
        began = time.monotonic()
        peaks.append(peak_of_taking_in(tmp_path / f"{lines}", lines))
        seconds.append(time.monotonic() - began)
    assert peaks[1] < 1.2 * peaks[0]  # the log itself has 400 times as much
    assert seconds[1] < 3 * seconds[0]
