"""The nouns of state/secrets/plain_nouns.txt, which short commands read instead of the files of all languages.

python -m tests.state.secrets.plain_nouns      writes it anew, when a language has another noun
"""

from state.secrets.languages import Noun, vocabulary
from state.secrets.policy import NOUNS


def written() -> str:
    """The file as the languages have it: the nouns in ASCII, without what only a secret opens."""
    nouns = (key for key, noun in vocabulary().nouns.items() if noun is not Noun.THING and key.isascii())
    return "".join(f"{key}\n" for key in sorted(nouns))


if __name__ == "__main__":
    NOUNS.write_text(written(), encoding="ascii")
