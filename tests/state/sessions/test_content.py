import pytest

from state.errors import UsageError
from state.sessions.content import checked, tokens_of


def test_content_is_one_character_to_a_hundred_kilobytes() -> None:
    assert checked("x") == "x"
    assert checked(" ") == " "
    assert len(checked("x" * 102_400)) == 102_400
    assert len(checked("é" * 51_200)) == 51_200
    for text in ("", "x" * 102_401, "é" * 51_200 + "x", "half \ud800"):
        with pytest.raises(UsageError, match="content: "):
            checked(text)


def test_tokens_are_about_those_of_a_model_and_never_none() -> None:
    assert tokens_of("Anna lives in Bonn.") == 6
    assert tokens_of("internationalization") == 5
    assert tokens_of("東京都") == 3
    assert tokens_of(" ") == 1
    assert tokens_of("\x00") == 1
