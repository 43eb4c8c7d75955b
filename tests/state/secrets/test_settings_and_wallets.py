"""Settings and wallets: names of settings that hold a secret, those that hold none, and the words of wallets."""

import base64
import random
import re
import string
import uuid

import pytest
from mnemonic import Mnemonic

from state.secrets.redaction import redact
from tests.state.secrets.test_redaction import SHA, drawn
from tests.support.cases import cases

CASES = cases(__file__)


@pytest.mark.parametrize("frame", CASES["the_value_of_a_setting_goes"])
def test_the_value_of_a_setting_goes(frame: str) -> None:
    text = frame.format(
        base64=base64.b64encode(random.Random(3).randbytes(32)).decode(),
        uuid=uuid.UUID(int=7**40),
        capitals=drawn(29, string.ascii_uppercase + string.digits),
        hex=drawn(40, "0123456789abcdef"),
        mixed=drawn(32),
        numbers=",".join(str(byte) for byte in random.Random(4).randbytes(64)),
    )
    redacted = redact(text.replace("⟦", "").replace("⟧", "")).text
    assert not [secret for secret in re.findall("⟦(.*?)⟧", text) if secret in redacted], redacted


@pytest.mark.parametrize(
    "text",
    [
        "password=settings.database.password",
        "token = request.cookies.session_token",
        f"public key: {base64.b64encode(random.Random(5).randbytes(32)).decode()}",
        f"pk_live_{drawn(60)}",
        f"cache_key_{SHA}",
        f"request id req_{drawn(24)}",
        '<string name="password">Password</string>',
        "session_id: " + str(uuid.UUID(int=5**50)),
        "kind: ConfigMap\ndata:\n  user: bWFybWFsYWRl\n",
        "| name | meaning |\n|---|---|\n| db_password | of the database |\n| jwt_secret | thirty characters |",
        "abandon hope all ye who enter here, for the words of this sentence are all too common",
        "apple banana cherry orange tomato lemon grape melon peach papaya mango kiwi berries and nuts",
    ],
)
def test_a_setting_that_names_no_secret_stays(text: str) -> None:
    assert redact(text).text == text


@pytest.mark.parametrize("language", Mnemonic.list_languages())
@pytest.mark.parametrize("strength", [128, 256])
def test_the_words_of_a_wallet_go_in_every_language_and_layout(language: str, strength: int) -> None:
    words = Mnemonic(language).to_mnemonic(random.Random(strength).randbytes(strength // 8)).split()
    for layout in (" ".join(words), "\n".join(f"{number}. {word}" for number, word in enumerate(words, 1))):
        left = redact(layout).text.replace("[redacted: seed phrase]", "")
        assert len(left.split()) <= 2, left
    assert redact(f"wallet: {', '.join(words)}").text == "wallet: [redacted: seed phrase]"


@pytest.mark.timeout(60)
def test_a_numbered_list_that_is_too_short_for_a_wallet_costs_no_minutes() -> None:
    text = "the seed phrase:\n" + "\n".join(f"- {number}.  apple" for number in range(10, 20))
    assert redact(text).text == text
