"""Model: the configured model of a dream, behind the ceilings of its workspace and of all workspaces."""

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from daemon.config.paths import spent_folder
from daemon.config.settings import day_start
from daemon.dream.answers import messages_of, without_secrets
from daemon.models.litellm_model import LitellmModel
from daemon.workspace.stores import Asked, Store, utc_now
from graphs.ports import Answer, Model, Request
from state.budget import Spend, check_day
from state.codec import decode, encode
from state.errors import ModelError
from state.stores.history.daily_spend import daily_spend
from state.stores.history.ledger import Call

if TYPE_CHECKING:
    from collections.abc import Callable

    from daemon.models.metered import Call as PaidCall
    from daemon.models.metered import PricedModel


def model_for(store: Store, dream: str) -> Model | None:
    """Return the configured model, its calls replayed, recorded and limited; None when none is configured."""
    name = store.config.model.name
    if name is None:
        return None
    from daemon.models.errors import lost_answer
    from daemon.models.metered import Metered

    together = daily_spend(spent_folder(os.environ))

    def allow(about_to: Spend) -> None:
        check_day(store.config.daemon.limits, today=together.of(utc_now()), about_to=about_to)
        lost = lost_answer(name, about_to, store.config.model.max_output_tokens, 0.0)
        most = Call("", name, encode(lost), usable=False, tokens=about_to.tokens, usd=about_to.usd)
        store.asking(Asked(dream, most))

    def record(call: "PaidCall") -> None:
        spend = call.spend
        answer = replace(call.answer, text=without_secrets(call.answer.text, store.redaction))
        kept = Call(
            digest=call.digest,
            model=answer.model,
            reply=encode(answer),
            usable=call.usable,
            tokens=spend.tokens,
            usd=spend.usd,
            request=messages_of(call.request),
        )
        store.ledger.record_call(dream, kept, utc_now())
        together.add(spend, utc_now())
        store.asking(None)

    def replay(digest: str) -> Answer | None:
        known = store.ledger.replay(dream, digest)
        return decode(Answer, known) if known is not None else None

    return Metered(
        _model(store, name),
        store.config.limits.ceilings,
        record=record,
        replay=replay,
        today=lambda: store.ledger.spent(since=day_start(utc_now())),
        before=store.ledger.spent(dream=dream),
        allow=allow,
    )


def _model(store: Store, name: str) -> "PricedModel":
    from daemon.models.headless import AGENTS, HeadlessModel

    section = store.config.model
    seconds, tokens = section.timeout_seconds, section.max_output_tokens
    if name in AGENTS:
        return HeadlessModel(name, timeout_seconds=seconds, max_output_tokens=tokens)
    return _StoresModel(
        store.hide, name, api_base=section.api_base, timeout_seconds=seconds, max_output_tokens=tokens
    )


class _StoresModel(LitellmModel):
    """A model whose errors are those that `Store.hide` makes of them."""

    def __init__(self, hide: "Callable[[ModelError], ModelError]", name: str, **settings: Any) -> None:  # noqa: ANN401
        super().__init__(name, **settings)
        self._hide = hide

    def ask(self, request: Request) -> Answer:
        """Return one answer, with text in it."""
        try:
            return super().ask(request)
        except ModelError as error:
            hidden = self._hide(error)
        raise hidden
