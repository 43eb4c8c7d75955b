"""Keys: which environment variables hold the API key of a model's provider, without the seconds that litellm takes.

Only providers that take one key are listed, as litellm reads it. For the others litellm itself says what is missing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from graphs.ports import Answer, Request
from state.budget import Spend
from state.errors import ModelError

# By the provider's name before the slash in `model.name`. Any one of the variables is enough.
PROVIDERS: Mapping[str, tuple[str, ...]] = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "openrouter": ("OPENROUTER_API_KEY", "OR_API_KEY"),
    "mistral": ("MISTRAL_API_KEY", "MISTRAL_AZURE_API_KEY"),
    "groq": ("GROQ_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "xai": ("XAI_API_KEY",),
    "cohere": ("COHERE_API_KEY", "CO_API_KEY"),
    "perplexity": ("PERPLEXITYAI_API_KEY", "PERPLEXITY_API_KEY"),
    "cerebras": ("CEREBRAS_API_KEY",),
    "deepinfra": ("DEEPINFRA_API_KEY",),
    "together_ai": ("TOGETHERAI_API_KEY", "TOGETHER_API_KEY", "TOGETHER_AI_API_KEY", "TOGETHER_AI_TOKEN"),
    "fireworks_ai": ("FIREWORKS_API_KEY", "FIREWORKS_AI_API_KEY", "FIREWORKSAI_API_KEY", "FIREWORKS_AI_TOKEN"),
}
# Of agents' programs, and of providers that need more than one key.
_OTHERS: Mapping[str, tuple[str, ...]] = {
    "claude-code": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
    "codex": ("CODEX_API_KEY", "OPENAI_API_KEY"),
    "gemini-cli": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "azure": ("AZURE_API_KEY", "AZURE_API_BASE", "AZURE_API_VERSION", "AZURE_AD_TOKEN"),
    "bedrock": ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION_NAME"),
    "huggingface": ("HUGGINGFACE_API_KEY", "HF_TOKEN"),
}
# Names that litellm knows without their provider.
_BARE = (("gpt-", "openai"), ("claude-", "anthropic"))


def variables_of(model: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of this environment that hold keys for the model, with their values."""
    provider, slash, _ = model.partition("/")
    if not slash:
        provider = next((one for begin, one in _BARE if model.startswith(begin) and model not in _OTHERS), provider)
    names = PROVIDERS.get(provider) or _OTHERS.get(provider, ())
    return {name: environment[name] for name in names if environment.get(name)}


def missing_key(model: str, environment: Mapping[str, str]) -> str:
    """Return the variable for the key of the model's provider if none is set; "" if one is, or it is unknown."""
    provider, slash, _ = model.partition("/")
    names = PROVIDERS.get(provider, ()) if slash else ()
    elsewhere = any(environment.get(f"{provider.upper()}_{end}") for end in ("API_BASE", "BASE_URL"))
    return names[0] if names and not elsewhere and not variables_of(model, environment) else ""


@dataclass(eq=False, kw_only=True)
class KeylessModel:
    """A model whose provider's key is missing: each question fails at once, and costs nothing."""

    name: str
    variable: str
    context_window: int = field(default=200_000, init=False)

    def worst_case(self, _: Request) -> Spend:
        """Return that it costs nothing."""
        return Spend()

    def ask(self, _: Request) -> Answer:
        """Raise ModelError."""
        raise ModelError(f"{self.name}: its key is missing", f"set {self.variable} in dreamd's environment.")
