"""An error is told without secrets, and with dreamd's own sentences and paths as they are."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from daemon.observability.failures import failure, without_secrets
from state.errors import BusyError

NOUNS = "pw key pin token secret password pwd login code".split()
NAMES = st.builds(
    "{}{}{}".format,
    st.text("abcdefghijklmnopqrstuvwxyz0123456789_", min_size=3, max_size=8),
    st.sampled_from(("", *NOUNS)),
    st.text("abcdefghijklmnopqrstuvwxyz0123456789_", max_size=5),
)
SENTENCES = """
{} is held by process 4211 ('dreamd serve' since 2026-01-01T10:00:00Z); wait for it
{} is not in the daemon's keeping: {} is held by process 77 ('dreamd dream')
{} is open to other users (755); run 'chmod 700 {}'
{}/inbox.md: the disk is full; free some space and try again
the daemon keeps another workspace under the name 'x', and not {}
""".strip().splitlines()


@settings(max_examples=60, deadline=None)
@given(NAMES, st.sampled_from(SENTENCES), st.sampled_from(("/srv/dreamd-{}/ws", "/home/ada/{}", "~/{}/x")))
@example("pw71p7fc", SENTENCES[0], "/srv/dreamd-{}/ws")
def test_own_sentences_stand_whatever_a_folder_is_called(name: str, sentence: str, path: str) -> None:
    said = sentence.replace("{}", path.format(name))
    assert without_secrets(said) == said


@pytest.mark.parametrize(
    "said",
    [
        "the answer was: password: hunter2x9",
        "/srv/here: the line 'the token is ghp_0123456789abcdefghijABCDEFGHIJ012345'",
        "/srv/ghp_0123456789abcdefghijABCDEFGHIJ012345/x is no workspace",
        "https://ada:s3cretpw9@models.example/v1 cannot be reached",
    ],
)
def test_what_is_quoted_in_one_is_without_its_secrets(said: str) -> None:
    for told in (without_secrets(said), str(failure(BusyError(said)))):
        assert "[redacted: " in told
        assert not any(secret in told for secret in ("hunter2x9", "ghp_0", "s3cretpw9"))
