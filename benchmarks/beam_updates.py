"""Facts that change in long conversations: whether the search gives the newer statement before the older one.

    python -m benchmarks.beam_updates [--conversations FILE] [--updates FILE]

Chats of BEAM (Tavakoli et al., 2025), each a workspace of its own, each turn a crystal; for each question about an
updated or contradicted fact the turns of the older and the newer statement. Of the pairs of which both stand among
the first ten hits, the share whose newer one stands first. The data is not part of this project: it is read from the
two files named, else from DREAMD_BEAM and DREAMD_BEAM_UPDATES, else from ../shared/data beside the repository.
"""

import argparse
import json
import os
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from benchmarks.retrieval import Conversation, opened, read
from state.stores.crystals.search import Searched, search
from state.stores.vectors.embedder import Embedder, Unavailable, open_embedder

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"
FIRST = 10


def places(hits: list[str], turns: list[str], ids: dict[str, str]) -> list[int]:
    """Return where these turns stand among the hits."""
    return [hits.index(ids[turn]) for turn in turns if ids.get(turn) in hits]


def measure(chats: Path, updates: list[dict[str, Any]], embedder: Embedder, folder: Path) -> dict[str, list[str]]:
    """Return for each ability what became of its pairs: newer, older, missed. A pair within one turn has no order."""
    found = defaultdict[str, list[str]](list)
    samples = json.loads(chats.read_text("utf-8"))
    for sample, conversation in zip(samples, read(chats), strict=True):
        number, ids = int(conversation.name.rsplit("-", 1)[1]), ids_of(sample, conversation)
        place = folder / str(number)
        place.mkdir()
        with opened(conversation, embedder, place) as workspace:
            searched = Searched(workspace.crystals, embedder, workspace.index)
            for one in (one for one in updates if one["chat"] == number and one["older"] != one["newer"]):
                asked = search(searched, one["question"], conversation.now, limit=FIRST).hits
                hits = [hit.crystal.id for hit in asked]
                old, new = sorted((one["older"], one["newer"]), key=lambda turns: max(map(_order, turns)))
                before, after = (places(hits, turns, ids) for turns in (old, new))
                outcome = "missed" if not (before and after) else "newer" if min(after) < min(before) else "older"
                found[one["ability"]].append(outcome)
    return found


def ids_of(sample: dict[str, Any], conversation: Conversation) -> dict[str, str]:
    """Return the crystal (id) of each turn, by the turn's own id."""
    told = sample["conversation"]
    numbers = sorted(int(key.split("_")[1]) for key in told if key.removeprefix("session_").isdigit())
    turns = [turn["dia_id"] for number in numbers for turn in told[f"session_{number}"]]
    return {turn: crystal.id for turn, crystal in zip(turns, conversation.crystals, strict=True)}


def _order(turn: str) -> tuple[int, int]:
    session, number = turn.removeprefix("D").split(":")
    return int(session), int(number)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--conversations", type=Path, default=_named("DREAMD_BEAM", "beam-dev.json"))
    parser.add_argument("--updates", type=Path, default=_named("DREAMD_BEAM_UPDATES", "beam-dev-updates.json"))
    arguments = parser.parse_args()
    for path in (arguments.conversations, arguments.updates):
        if not path.is_file():
            raise SystemExit(f"{path} is not there; name the data files")
    updates = json.loads(arguments.updates.read_text("utf-8"))
    with tempfile.TemporaryDirectory() as name:
        embedder = open_embedder(Path(name) / "model")
        if isinstance(embedder, Unavailable):
            raise SystemExit(embedder.reason)
        found = measure(arguments.conversations, updates, embedder, Path(name))
    found["all"] = [outcome for outcomes in found.values() for outcome in outcomes]
    for ability, outcomes in found.items():
        newer, both = outcomes.count("newer"), len(outcomes) - outcomes.count("missed")
        share = f"{newer / both:.2f}" if both else "-"
        print(f"{ability:26} newer first {newer} of {both} with both within {FIRST} ({share}); {len(outcomes)} asked")


def _named(variable: str, file: str) -> Path:
    return Path(os.environ.get(variable) or BESIDE / file)


if __name__ == "__main__":
    main()
