"""Synthetic memories for the benchmarks: seeded, in English of our own making, as many as wanted.

A text is one to three sentences about one of 24 themes. Its words are as unequal as those of people: common ones
stand in thousands of texts, and a long tail of names, hosts and numbers in one or two. Vectors are drawn about a
centre for the theme and one for the thing that the text is about, so that a hundred thousand crystals need no
embedding model; they are kept under the real model's name, so that real queries are answered among them.
"""

import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from daemon.workspace.searching import embed_waiting, embedder_of
from daemon.workspace.stores import Store
from state.crystals.crystal import Crystal, Origin, Source
from state.crystals.salience import salience
from state.scratch import Note
from state.stores.database.connection import transaction
from state.stores.vectors.calibration import Calibration
from state.trust import Trust

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BEGINNING = datetime(2024, 1, 1, tzinfo=UTC)
TURNS = 20  # in a session
_BATCH = 2_000
_SPEAKERS = ("Mira", "Agent")

# theme: things, what is done with them
_THEMES = {
    "deployment": (
        "gateway certificate cluster rollout canary ingress manifest",
        "rolled back renewed scaled drained",
    ),
    "database": ("replica index migration vacuum backup schema cursor", "restored rebuilt compacted partitioned"),
    "billing": ("invoice refund ledger discount subscription receipt voucher", "refunded settled disputed reissued"),
    "garden": ("tomato compost trellis seedling orchard hedge greenhouse", "pruned watered transplanted mulched"),
    "kitchen": ("sourdough stock skillet lentil marinade oven pickle", "baked simmered salted fermented"),
    "travel": ("itinerary ferry visa hostel luggage platform passport", "booked postponed rebooked packed"),
    "music": ("cello rehearsal chorus metronome setlist tuning refrain", "rehearsed transposed recorded tuned"),
    "cycling": ("derailleur saddle puncture climb chainring headwind spoke", "trued greased climbed patched"),
    "research": ("hypothesis dataset ablation baseline annotation citation corpus", "replicated annotated tabulated"),
    "design": ("palette mockup typeface margin wireframe icon contrast", "sketched aligned cropped recoloured"),
    "hiring": ("candidate interview offer referral shortlist onboarding panel", "interviewed shortlisted onboarded"),
    "security": ("token firewall audit keyring sandbox exploit passphrase", "rotated revoked hardened quarantined"),
    "health": ("physiotherapy prescription allergy checkup insomnia vitamin stretch", "prescribed diagnosed iced"),
    "school": ("homework recital syllabus exam classroom essay timetable", "graded enrolled revised excused"),
    "renovation": ("plaster radiator skylight plumbing tile banister insulation", "plastered tiled sanded insulated"),
    "finance": ("mortgage pension dividend tax deduction portfolio interest", "deducted refinanced declared hedged"),
    "writing": (
        "chapter outline metaphor deadline manuscript footnote editor",
        "drafted proofread trimmed footnoted",
    ),
    "sailing": ("mainsail harbour tide anchor buoy rigging regatta", "moored reefed charted hoisted"),
    "photography": ("aperture tripod darkroom portrait lens negative exposure", "developed framed cropped exposed"),
    "support": ("ticket escalation outage workaround queue complaint hotline", "escalated triaged reopened resolved"),
    "testing": (
        "fixture regression coverage flake snapshot harness assertion",
        "bisected skipped parametrised fuzzed",
    ),
    "networking": ("router subnet latency packet resolver tunnel handshake", "rerouted throttled traced peered"),
    "volunteering": ("shelter fundraiser raffle soup donation roster leaflet", "donated organised leafleted sorted"),
    "chess": ("gambit endgame bishop clock tournament opening blunder", "sacrificed castled resigned analysed"),
}
_QUALITIES = [
    "old",
    "new",
    "spare",
    "broken",
    "second",
    "northern",
    "shared",
    "blue",
    "noisy",
    "fragile",
    "temporary",
    "heavy",
    "silent",
    "late",
    "cheap",
]
_PLACES = [
    "the office",
    "the cellar",
    "the staging host",
    "the workshop",
    "town",
    "the studio",
    "the main site",
    "the attic",
]
_DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_SYLLABLES = [
    "ba",
    "bri",
    "cor",
    "da",
    "del",
    "fen",
    "gar",
    "hol",
    "ja",
    "ker",
    "lin",
    "mar",
    "nov",
    "or",
    "pel",
    "quin",
    "ros",
    "sta",
    "tor",
    "um",
    "vel",
    "wen",
    "yar",
    "zel",
]
_FORMS = (
    "{person} {verb} the {quality} {thing} in {place} on {day}.",
    "The {thing} from {person} was {verb} after {number} hours, and the {other} was not.",
    "I prefer the {quality} {thing} over the {other} whenever {person} is around.",
    "We decided to keep {name} for the {thing}, since the {other} failed on {day}.",
    "{person} said that the {thing} at {name} needs another {other} within {number} days.",
    "Next time the {thing} breaks, ask {person} for the {quality} {other} from {name}.",
    "Our goal is a {quality} {thing} without any {other} by {day}, in {number} steps at most.",
    "The {quality} {other} near {place} belongs to {person}, who {verb} it twice.",
    "Nobody had {verb} the {thing} since {name} moved to {place}.",
    "Entry {number} says that the {other} was {verb}; {person} keeps the list on {name}.",
)


class Workload:
    """Texts and vectors that follow from a seed; each has a number, and asking twice gives the same."""

    def __init__(self, seed: int, width: int = 384) -> None:
        import numpy as np

        self._seed = seed
        self._width = width
        self._centres = np.random.default_rng(seed).standard_normal((len(_THEMES), 8, width)).astype("<f4")
        self._names = sorted({_name(random.Random(f"{seed}/name/{number}")) for number in range(40_000)})
        random.Random(f"{seed}/names").shuffle(self._names)

    def text(self, kind: str, number: int) -> tuple[str, int]:
        """Make a text; return it with the number of its theme."""
        rng = random.Random(f"{self._seed}/{kind}/{number}")
        theme = rng.randrange(len(_THEMES))
        sentences = [self._sentence(rng, theme) for _ in range(rng.choice((1, 1, 2, 2, 3)))]
        return " ".join(sentences), theme

    def notes(self, batch: int, count: int, now: datetime) -> list[Note]:
        """Make notes of the last hour; none is in two batches."""
        return [
            Note(
                text=self.text("note", batch * count + number)[0],
                at=(now - timedelta(seconds=2 * (count - number))).replace(microsecond=0),
                importance=0.3 + 0.1 * (number % 7),
            )
            for number in range(count)
        ]

    def crystals(self, start: int, count: int) -> Iterator[tuple[Crystal, int]]:
        """Make turns of conversations, each with the number of its theme."""
        for number in range(start, start + count):
            text, theme = self.text("turn", number)
            session, position = divmod(number, TURNS)
            at = BEGINNING + timedelta(minutes=7 * number)
            guess = salience(text, Trust.OWNER)
            speaker = _SPEAKERS[number % 2]
            yield (
                Crystal(
                    text=text,
                    origin=Origin.SESSION,
                    created_at=at,
                    kind=guess.kind,
                    importance=guess.importance,
                    trust=Trust.OWNER if number % 2 == 0 else Trust.AGENT,
                    context=f"{speaker}, {at:%d %B %Y}",
                    speaker=speaker,
                    session=f"session-{session}",
                    position=position,
                    source=Source(f"transcripts/session-{session}.jsonl", position + 1, position + 1),
                ),
                theme,
            )

    def vectors(self, start: int, themes: list[int]) -> "NDArray[np.float32]":
        """Make one unit vector for each of these themes, cosine about .3 to others of its theme and 0 to the rest."""
        import numpy as np

        rng = np.random.default_rng((self._seed, start))
        things = rng.integers(1, 8, len(themes))
        drawn = self._centres[themes, 0] + self._centres[themes, things]
        drawn = drawn + 1.2 * rng.standard_normal((len(themes), self._width))
        return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True), dtype="<f4")

    def _sentence(self, rng: random.Random, theme: int) -> str:
        things, verbs = (words.split() for words in list(_THEMES.values())[theme])
        thing, other = rng.sample(things, 2)
        return rng.choice(_FORMS).format(
            person=self._rare(rng).title(),
            name=self._rare(rng),
            thing=thing,
            other=other,
            verb=rng.choice(verbs),
            quality=rng.choice(_QUALITIES),
            place=rng.choice(_PLACES),
            day=rng.choice(_DAYS),
            number=rng.randrange(2, 400),
        )

    def _rare(self, rng: random.Random) -> str:
        """Pick a name; the n-th comes about n times as seldom as the first."""
        return self._names[int(len(self._names) ** rng.random()) - 1]


class Prepared:
    """An embedder that knows the vectors beforehand."""

    width = 384
    calibration = Calibration()

    def __init__(self, name: str = "prepared") -> None:
        self.name = name
        self.vectors: dict[str, NDArray[np.float32]] = {}

    def embed(self, texts: Sequence[str], *, questions: bool = False) -> "NDArray[np.float32]":  # noqa: ARG002
        import numpy as np

        return np.stack([self.vectors[text] for text in texts])


def fill(store: Store, workload: Workload, crystals: int) -> None:
    """Bring the store to so many crystals, all taken in by earlier dreams, with vectors, and ChromaDB told."""
    model = embedder_of(store)
    if model is None:
        raise SystemExit("; ".join(store.notices))
    embedder = Prepared(model.name)
    number = store.crystals.count()
    while (missing := crystals - store.crystals.count()) > 0:
        batch = list(workload.crystals(number, min(_BATCH, missing)))
        vectors = workload.vectors(number, [theme for _, theme in batch])
        number += len(batch)
        embedder.vectors = {one.indexed_text: vector for (one, _), vector in zip(batch, vectors, strict=True)}
        _write(store, [crystal for crystal, _ in batch], embedder)
    embed_waiting(store)


def _write(store: Store, crystals: list[Crystal], embedder: Prepared) -> None:
    ids = [crystal.id for crystal in crystals]
    with transaction(store.connection):
        store.crystals.learn(crystals)
        store.crystals.mark_dreamt(ids, 0)
    store.crystals.vectors.embed_pending(embedder, len(crystals))


def _name(rng: random.Random) -> str:
    return "".join(rng.choice(_SYLLABLES) for _ in range(rng.randint(2, 4)))
