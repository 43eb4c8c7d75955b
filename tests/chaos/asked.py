"""The model that a trial's dreams ask."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.chaos.trial import Trial
from tests.support.scripted_model import Script, ScriptedModel


@contextmanager
def asking(trial: Trial, script: Script) -> Iterator[ScriptedModel]:
    """Every dream asks this model, until the end of the block."""
    with ScriptedModel(script) as server:
        before = dict(trial.environment)
        trial.environment |= {"DREAMD_MODEL__NAME": "openai/gpt-4o-mini", "DREAMD_MODEL__API_BASE": server.url}
        try:
            yield server
        finally:
            trial.environment = before
