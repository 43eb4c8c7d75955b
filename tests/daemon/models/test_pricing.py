"""An estimate of tokens against litellm's bundled tokenizer."""

import json

import pytest

from daemon.models.litellm_import import load_litellm
from daemon.models.pricing import estimate_tokens


@pytest.mark.parametrize(
    "text",
    [
        "The user prefers short answers and wants a report every morning before nine. " * 20,
        "Die Nutzerin bevorzugt kurze Antworten und möchte jeden Morgen einen Bericht. " * 20,
        "- [2026-03-12T14:30:00Z] (importance: 0.8) Deployed the API; one flaky test mended.\n" * 20,
        json.dumps([{"id": f"cr_0f9a{n:02d}", "op": "add", "cites": ["N12", "N13"]} for n in range(30)]),
        "def rank(gaps: Sequence[Gap], mood: Hormones) -> list[Gap]:\n    return sorted(gaps)\n" * 20,
        "我们今天在会议上讨论了新的计划，用户更喜欢简短的回答。" * 20,
        "ユーザーは短い回答を好みます。毎朝レポートを受け取りたい。" * 20,
        "يفضل المستخدم الإجابات القصيرة ويريد تلقي تقرير كل صباح." * 20,
        "Пользователь предпочитает короткие ответы и хочет отчёт." * 20,
        "🎉🚀🔥✅" * 50,
        " ".join(str(n * 7919) for n in range(300)),
    ],
)
def test_an_estimate_is_near_what_a_tokenizer_counts(text: str) -> None:
    counted = len(load_litellm().encoding.encode(text))
    assert 0.7 * counted <= estimate_tokens(text) <= 1.6 * counted


def test_no_text_is_no_token() -> None:
    assert estimate_tokens("") == 0
