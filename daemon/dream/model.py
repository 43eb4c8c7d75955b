"""Model: the configured model of a dream, limited by the ceilings of its workspace and of all workspaces."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from daemon.config.paths import spent_folder
from daemon.config.settings import Config, ModelSection, day_start
from daemon.dream.answers import messages_of, without_secrets
from daemon.models.litellm_model import LitellmModel
from daemon.workspace.stores import utc_now
from graphs.ports import Answer, Model, Request
from state.budget import Spend, check_day
from state.codec import decode, encode
from state.errors import ModelError
from state.stores.history.daily_spend import DailySpend
from state.stores.history.ledger import Call, Ledger

if TYPE_CHECKING:
    from daemon.models.metered import Call as PaidCall
    from daemon.models.metered import PricedModel


@dataclass(frozen=True, slots=True)
class Asked:
    """A model call that a dream is about to make, and its highest possible cost."""

    dream: str
    most: Call


@dataclass(frozen=True, slots=True)
class Listener:
    """Callbacks of whoever runs a dream.

    `asked` gets each model call before it is made, and None once it is recorded; `unread` gets the problems of
    transcripts that could not be read; `hide` returns the error to raise in place of a model's error.
    """

    asked: Callable[[Asked | None], None] = lambda _: None
    unread: Callable[[tuple[str, ...]], None] = lambda _: None
    hide: Callable[[ModelError], ModelError] = lambda error: error


def model_for(config: Config, ledger: Ledger, dream: str, listener: Listener) -> Model | None:
    """Return the configured model, with its calls replayed, recorded and limited; None if none is configured."""
    name = config.model.name
    if name is None:
        return None
    from daemon.models.errors import lost_answer
    from daemon.models.metered import Metered

    together = DailySpend(spent_folder(os.environ))

    def allow(about_to: Spend) -> None:
        check_day(config.daemon.limits, today=together.of(utc_now()), about_to=about_to)
        lost = lost_answer(name, about_to, config.model.max_output_tokens, 0.0)
        most = Call("", name, encode(lost), usable=False, tokens=about_to.tokens, usd=about_to.usd)
        listener.asked(Asked(dream, most))

    def record(call: "PaidCall") -> None:
        spend = call.spend
        answer = replace(call.answer, text=without_secrets(call.answer.text, config.redaction))
        kept = Call(
            digest=call.digest,
            model=answer.model,
            reply=encode(answer),
            usable=call.usable,
            tokens=spend.tokens,
            usd=spend.usd,
            request=messages_of(call.request),
        )
        ledger.record_call(dream, kept, utc_now())
        together.add(spend, utc_now())
        listener.asked(None)

    def replay(digest: str) -> Answer | None:
        known = ledger.replay(dream, digest)
        return decode(Answer, known) if known is not None else None

    return Metered(
        _model(config.model, name, listener),
        config.limits.ceilings,
        record=record,
        replay=replay,
        today=lambda: ledger.spent(since=day_start(utc_now())),
        before=ledger.spent(dream=dream),
        allow=allow,
    )


def _model(section: ModelSection, name: str, listener: Listener) -> "PricedModel":
    from daemon.models.headless import AGENTS, HeadlessModel

    seconds, tokens = section.timeout_seconds, section.max_output_tokens
    if name in AGENTS:
        return HeadlessModel(name, timeout_seconds=seconds, max_output_tokens=tokens)
    return _HidingModel(
        listener.hide, name, api_base=section.api_base, timeout_seconds=seconds, max_output_tokens=tokens
    )


class _HidingModel(LitellmModel):
    """A model that raises what `Listener.hide` makes of its errors."""

    def __init__(self, hide: Callable[[ModelError], ModelError], name: str, **settings: Any) -> None:  # noqa: ANN401
        super().__init__(name, **settings)
        self._hide = hide

    def ask(self, request: Request) -> Answer:
        """Return one non-empty answer."""
        try:
            return super().ask(request)
        except ModelError as error:
            hidden = self._hide(error)
        raise hidden
