"""What a dream reads of the workspace's files."""

from pathlib import Path

from daemon.dream.snapshot import snapshot
from state.dream import Reason
from tests.support.working import AT, working


def test_the_constraints_are_read_with_their_numbers_and_without_the_marks_of_lists(tmp_path: Path) -> None:
    with working(tmp_path / "agent") as store:
        store.workspace.genome.write_text(
            "# Genome\n\n- 2FA must stay on\n* 30 days is the longest retention\n1. Never push to main\n"
            "12) Answer in English\n3.5 GB is the most memory\n-5 degrees is too cold\n**Never** lie\n-\n\n"
        )
        constraints = snapshot(store, (), (), "d", Reason.MANUAL, AT).genome
    assert constraints == (
        "2FA must stay on",
        "30 days is the longest retention",
        "Never push to main",
        "Answer in English",
        "3.5 GB is the most memory",
        "-5 degrees is too cold",
        "**Never** lie",
    )
