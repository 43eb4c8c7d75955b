"""The nouns of state/secrets/plain_nouns.txt, which short commands read instead of the files of all languages.

python -m tests.state.secrets.plain_nouns      writes it anew, when a language has another noun
"""

from itertools import groupby

from state.secrets.languages import Noun, vocabulary
from state.secrets.policy import NOUNS, SHORT


def written() -> str:
    """The file as the languages have it: the nouns in ASCII, a line for each first letter.

    Left out is what only a secret opens, and a long noun in which another long one stands: that one is found there.
    """
    nouns = sorted(key for key, noun in vocabulary().nouns.items() if noun is not Noun.THING and key.isascii())
    long = [key for key in nouns if len(key) > SHORT]
    needed = [key for key in nouns if len(key) <= SHORT or not any(one in key for one in long if one != key)]
    return "".join(" ".join(keys) + "\n" for _, keys in groupby(needed, key=lambda key: key[0]))


if __name__ == "__main__":
    NOUNS.write_text(written(), encoding="ascii")
