"""Secrets go, everything else stays. Every secret here is drawn at random by the test itself."""

import base64
import functools
import gc
import hashlib
import json
import random
import re
import string
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from mnemonic import Mnemonic

from state.secrets import languages, rules
from state.secrets.redaction import redact
from state.text.languages.loader import rows_of
from tests.support.cases import cases

CASES = cases(__file__)
FILES = Path(languages.__file__).parent.glob("languages/*.json")

ALNUM = string.ascii_letters + string.digits


def drawn(length: int, alphabet: str = ALNUM, seed: int = 1) -> str:
    return "".join(random.Random(seed).choices(alphabet, k=length))


FORMED = {
    "anthropic key": "sk-ant-api03-" + drawn(95),
    "openai key": "sk-proj-" + drawn(120),
    "hugging face token": "hf_" + drawn(34),
    "github token": "ghp_" + drawn(36),
    "gitlab token": "glpat-" + drawn(20),
    "npm token": "npm_" + drawn(36),
    "aws key id": "AKIA" + drawn(16, string.ascii_uppercase),
    "google key": "AIza" + drawn(35),
    "slack token": "xoxb-123456789012-1234567890123-" + drawn(24),
    "stripe key": "sk_live_" + drawn(24),
    "sendgrid key": f"SG.{drawn(22)}.{drawn(43)}",
    "telegram token": "1234567890:AA" + drawn(33),
    "discord token": f"M{drawn(25)}.{drawn(6)}.{drawn(27)}",
    "age key": "AGE-SECRET-KEY-1" + drawn(58, string.ascii_uppercase),
    "vault token": "hvs." + drawn(90),
    "sumup key": "sup_sk_" + drawn(32),
    "matrix token": f"syt_YWRh_{drawn(20)}_{drawn(6)}",
    "disk recovery key": "-".join(drawn(6, string.digits, seed) for seed in range(8)),
}


@pytest.mark.parametrize(("kind", "secret"), FORMED.items())
def test_a_key_with_a_form_of_its_own_goes_wherever_it_stands(kind: str, secret: str) -> None:
    for frame in ("{}", "the key is {}.", '{{"value": "{}"}}', "a=1&x={}&y=2", "text\\n{}", "({})", "`{}`, then"):
        before, after = frame.replace("{{", "{").replace("}}", "}").split("{}")
        assert redact(before + secret + after).text == f"{before}[redacted: {kind}]{after}"


def test_findings_tell_kind_and_place_in_the_given_text() -> None:
    secret = FORMED["npm token"]
    redacted = redact(f"use {secret} twice: {secret}")
    assert [(one.kind, one.start, one.end) for one in redacted.found] == [
        ("npm token", 4, 4 + len(secret)),
        ("npm token", 12 + len(secret), 12 + 2 * len(secret)),
    ]


@pytest.mark.parametrize(("text", "expected"), CASES["what_was_chosen_as_a_password_goes"])
def test_what_was_chosen_as_a_password_goes(text: str, expected: str) -> None:
    assert redact(text).text == expected


@pytest.mark.parametrize("frame", CASES["what_looks_drawn_at_random_behind_a_telling_name_goes"])
@pytest.mark.parametrize("secret", [drawn(32), drawn(40, string.hexdigits.lower()), str(uuid.UUID(int=7**40))])
def test_what_looks_drawn_at_random_behind_a_telling_name_goes(frame: str, secret: str) -> None:
    text = redact(frame.format(secret)).text
    assert secret not in text
    assert "[redacted: " in text


def test_a_private_key_goes_whole() -> None:
    body = "\n".join(drawn(64, ALNUM + "+/", seed) for seed in range(8))
    key = f"-----BEGIN OPENSSH PRIVATE KEY-----\n{body}\n-----END OPENSSH PRIVATE KEY-----"
    assert redact(f"a\n{key}\nb").text == "a\n[redacted: private key]\nb"
    assert redact(json.dumps({"private_key": key})).text == '{"private_key": "[redacted: private key]"}'
    adjoining = FORMED["disk recovery key"] + key
    assert redact(adjoining).text == "[redacted: disk recovery key][redacted: private key]"
    cut = redact(key[:300] + "\n\nand so on").text
    assert cut.startswith("[redacted: private key]")
    assert cut.endswith("and so on")
    assert body[:20] not in cut


def test_a_json_web_token_goes_with_its_signature() -> None:
    def part(value: dict[str, str]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    token = f"{part({'alg': 'HS256', 'typ': 'JWT'})}.{part({'sub': '1234567890'})}.{drawn(43)}"
    assert redact(f"got {token} back").text == "got [redacted: json web token] back"


SHA = hashlib.sha256(b"x").hexdigest()


@pytest.mark.parametrize(
    "text",
    [
        f"commit {SHA[:40]}",
        f"picture AIza{drawn(60)}.png",
        f"sha256:{SHA}  dist.tar.gz",
        f"image: registry.test/app@sha256:{SHA}",
        f"request {uuid.UUID(int=5**50)} took 12 ms",
        f"![](data:image/png;base64,{base64.b64encode(random.Random(1).randbytes(3000)).decode()})",
        '"integrity": "sha512-' + base64.b64encode(random.Random(2).randbytes(64)).decode() + '"',
        "API_KEY=<your-api-key>",
        "OPENAI_API_KEY=your-key-here",
        "AKIAIOSFODNN7EXAMPLE",
        'password: "********"',
        "export DB_PASSWORD=${DB_PASSWORD}",
        "postgres://user:${PASSWORD}@db/x",
        "postgres://user:<password>@db/x",
        "password = getpass.getpass('Password')",
        "token = request.headers['x-token']",
        "api_key = settings.api_key",
        "password: str | None = None",
        "def login(password: str, token: Token) -> Secret:",
        "max_tokens: 4096 and 12000 tokens used",
        "the password is required and the token is base64-encoded",
        "the password must have 12 characters",
        "secret: projects/42/secrets/db/versions/3",
        "password_hash = hash_password(word)",
        "GPIO pin is 1234 on the board",
        "Die Pin-Belegung steht auf Seite 1234",
        "Passwort vergessen? Dann setze es zurück.",
        "password: your-password-here",
        "the max token count is 128000 and the cache key is user:42",
        "https://social.test:8443/@douglas/post",
        "-----BEGIN PRIVATE KEY----- is how a key file begins",
        "docker run -u 1000:1000 app",
        "the key idea: tokens are cheap, secrets are not",
        "pin the version to 1234",
        f'pin-sha256="{base64.b64encode(random.Random(3).randbytes(32)).decode()}"; max-age=5184000',
        "com.shop.passwords:core:2.0.0-rc.1+build.9392",
        "- uses: docker/login-action@v3\n  with:\n    password: ${{ secrets.TOKEN }}",
        'keyring.set_password("shop-sync", user, new)',
        'ref = vault.secret("kv/data/payments#stripe")',
        '"password.forgot": "忘记密码？"',
        "https://shop.test/s?keywords=keyboard&qid=4749411904",
        "the invoice has customer no. 57937482, contract V-0741886, and no pin",
        "Server=SQL03;Database=Claims;Integrated Security=SSPI (no password)",
        "the most used password is still 123456",
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
        "    with suppress(KeyError):\n        pass\n    total = compute(lines)\n    following = advance_iterator",
        "'password' => 'required|string|min:8',",
        'fields = ("password", "password2")',
        "ウイスキー: Yamazaki18を3本",
        "キーボードはKeychron8K2です",
        r'mask_key = b"\x01\x02\x03\x04"',
        "apple banana cherry orange tomato lemon grape melon peach papaya mango kiwi berries and nuts",
    ],
)
def test_what_only_looks_like_a_secret_stays(text: str) -> None:
    assert redact(text).text == text


ANSWERED = "User has answered your questions: {}. You can now continue with the user's answers in mind."
QUESTIONS = (
    "Which password policy applies?",
    "Which PIN header do we use?",
    "Which key of the piano sticks?",
    "Where are the API keys kept?",
    "Which password hash should we use?",
    "Welches Passwort soll die Demo haben?",
    "Which database should the invoices use?",
    "哪个密码管理器？",
)


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("frame", [ANSWERED, 'Ada asked again: {}, "Which region?"="eu-north-1"'])
def test_a_question_for_a_secret_is_none(question: str, frame: str) -> None:
    text = redact(frame.format(f'"{question}"="the one of page 3"')).text
    assert f'"{question}"="' in text
    assert text.endswith(frame[-9:].removeprefix("{}"))


def test_an_answer_is_judged_with_its_own_question() -> None:
    asked = ("What is the PIN of the door?", "4711"), ("Welches Passwort hat die Demo?", "Sommer2024!")
    region = ("Which region holds the backups?", "eu-north-1")
    for given in (asked[:1], asked[1:], asked, asked[::-1], (region, *asked), (*asked, region)):
        text = redact(ANSWERED.format(", ".join(f'"{question}"="{answer}"' for question, answer in given))).text
        assert all(question in text for question, _ in given)
        assert not any(answer in text for _, answer in given if (_, answer) != region)
        assert ("eu-north-1" in text) is (region in given)


def test_a_string_that_is_allowed_stays() -> None:
    secret = FORMED["npm token"]
    assert redact(f"demo {secret}", allow=[secret]).text == f"demo {secret}"
    assert secret not in redact(f"demo {secret}", allow=["something else"]).text


def test_nothing_of_a_secret_stays_in_memory() -> None:
    def kept(secret: str) -> list[str]:
        caches = [one for one in gc.get_objects() if isinstance(one, functools._lru_cache_wrapper)]
        keys = [key for cache in caches for key in gc.get_referents(cache)]
        texts = [*keys, *(one for key in keys if not isinstance(key, str) for one in gc.get_referents(key))]
        return [text for text in texts if isinstance(text, str) and secret in text]

    for secret, frame in (
        ("Kauz-" + "4410!b", "das Passwort ist jetzt {}"),
        ("wiese" + "nkauz", "passphrase: {} im mai"),
    ):
        assert secret not in redact(frame.format(secret)).text
        assert kept(secret) == []


def test_what_finds_secrets_is_loaded_only_for_a_text_that_may_hold_one() -> None:
    run = (
        "import sys, daemon.cli.note, state.secrets.policy as policy\n"
        "policy.DEFAULT.of('port is 8080, says Ada')\n"
        "assert not {'re2', 'state.secrets.redaction'} & set(sys.modules)\n"
        "policy.DEFAULT.of('the key of the host is 4711')\n"
        "import state.secrets.rules as rules\n"
        "assert rules.every.cache_info().currsize == 0"
    )
    subprocess.run([sys.executable, "-c", run], check=True)


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


@pytest.mark.parametrize("file", sorted(FILES), ids=lambda file: file.stem)
def test_a_language_has_every_row_and_no_other(file: Path) -> None:
    rows = rows_of(file)
    assert sorted(rows) == sorted(languages.ROWS)
    assert all(words and all(isinstance(word, str) and word for word in words) for words in rows.values())


def test_each_rule_compiles_and_has_keywords() -> None:
    assert len(rules.every()) > 600
    assert all(rule.pattern and rule.keywords for rule in rules.every())
