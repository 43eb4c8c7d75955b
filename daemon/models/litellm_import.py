"""litellm import: loads the library late and keeps it quiet.

Its import takes 4 s and, left alone, reads a stray `.env` of the working directory, fetches a price table and
prints. Chosen over a client of our own because any provider is then one name in the configuration.
"""

import functools
import gc
import importlib
import logging
import os
import warnings
from collections.abc import Callable
from typing import Any, TypeAlias

Foreign: TypeAlias = Any
"""litellm, or one of its objects: its types are not followed."""

_ENVIRONMENT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # the table in the package, not the one on the web
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "LITELLM_LOCAL_BLOG_POSTS": "True",
    "LITELLM_MODE": "PRODUCTION",  # in its other mode it loads .env of the working directory
    "HF_HUB_OFFLINE": "1",  # else a tokenizer is looked up on the hub, with 23 s of retries
    "HF_HUB_DISABLE_TELEMETRY": "1",
}
_LOGGERS = ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy", "openai", "httpx", "httpcore")


@functools.cache
def load_litellm() -> Foreign:
    """Import the module so that it fetches nothing, prints and logs nothing, and reports usage to nobody.

    Its clients follow no redirect: one would take the prompt, and often the key, to whatever address an answer names.
    """
    os.environ.update(_ENVIRONMENT)
    os.environ.pop("LITELLM_LOG", None)  # its debug log has prompts and keys in it
    with warnings.catch_warnings():
        # Its answer's classes are built when the first is made; what pydantic thinks of them is for its authors.
        warnings.simplefilter("ignore")
        gc.disable()  # a quarter of the import's time is spent on looking through what is there to stay
        try:
            litellm: Foreign = importlib.import_module("litellm")
            litellm.ModelResponse()
        finally:
            gc.enable()
    litellm.telemetry = False
    litellm.suppress_debug_info = True
    litellm.drop_params = False  # with it a 422 is sent twice, and comes back as None
    handlers = importlib.import_module("litellm.llms.custom_httpx.http_handler")
    handlers.HTTPHandler.create_client = _without_redirects(handlers.HTTPHandler.create_client)
    openai = importlib.import_module("litellm.llms.openai.common_utils")
    # Every client of OpenAI's library sends through this one.
    litellm.client_session = _without_redirects(openai.BaseOpenAILLM._get_sync_http_client)()  # noqa: SLF001
    for name in _LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return litellm


def _without_redirects(make_client: Callable[..., Foreign]) -> Callable[..., Foreign]:
    """Change the factory of an HTTP client so that the client follows no redirect."""

    @functools.wraps(make_client)
    def make(*arguments: Foreign, **named: Foreign) -> Foreign:
        client = make_client(*arguments, **named)
        client.follow_redirects = False
        return client

    return make
