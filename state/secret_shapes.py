"""Shapes of secrets that detect-secrets (1.5) lacks, sees in part, or matches in more than linear time.

Each shape has hints: plain words of which one must stand in the text (lower case) before its pattern is tried, so
that a text without secrets costs little. Patterns begin at the edge of a token and repeat over one class of
characters that the edge excludes: each character is visited a bounded number of times.
"""

import functools
import re
from dataclasses import dataclass

# The left edge of a token; an escape inside quoted JSON (\n) or an encoded "=" (%3D) is an edge as well.
_EDGE = r"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt])|(?<=%3[dD])|(?<=%20)|(?<=%22))"


@functools.cache
def _compiled(source: str, flags: int) -> re.Pattern[str]:
    return re.compile(source, flags)


@dataclass(frozen=True, slots=True)
class Shape:
    """`pattern` finds secrets of a kind; of a match, group "secret" is the secret when there is such a group."""

    kind: str
    hints: tuple[str, ...]
    source: str
    flags: int = 0

    @property
    def pattern(self) -> re.Pattern[str]:
        """Compiled when a hint was met: compiling all of them takes 20 ms."""
        return _compiled(self.source, self.flags)


def token(kind: str, hints: str, pattern: str) -> Shape:
    """A key with a form of its own, recognised wherever it stands."""
    return Shape(kind, tuple(hints.split()), _EDGE + pattern)


def named(kind: str, hints: str, pattern: str) -> Shape:
    """A secret that is one by what stands before it."""
    return Shape(kind, tuple(hints.split()), pattern, re.IGNORECASE)


_LONG = "{20,400}"
UUID = r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"

SHAPES = (
    # Models
    token("anthropic key", "sk-ant-", rf"sk-ant-[\w-]{_LONG}"),
    token("openrouter key", "sk-or-", rf"sk-or-[\w-]{_LONG}"),
    token("openai key", "sk-", r"sk-(?:(?:proj|svcacct|admin|None)-[\w-]{20,400}|[A-Za-z0-9]{32,64}(?![\w-]))"),
    token("hugging face token", "hf_ api_org_", r"(?:hf_|api_org_)[A-Za-z0-9]{30,60}"),
    token("groq key", "gsk_", r"gsk_[A-Za-z0-9]{40,80}"),
    token("xai key", "xai-", r"xai-[A-Za-z0-9]{60,120}"),
    token("replicate token", "r8_", r"r8_[A-Za-z0-9]{30,50}"),
    token("perplexity key", "pplx-", r"pplx-[A-Za-z0-9]{40,80}"),
    token("nvidia key", "nvapi-", r"nvapi-[\w-]{40,100}"),
    token("tavily key", "tvly-", r"tvly-(?:dev-|prod-)?[A-Za-z0-9]{24,60}"),
    token("jina key", "jina_", r"jina_[A-Za-z0-9_-]{40,80}"),
    token("pinecone key", "pcsk_", r"pcsk_[A-Za-z0-9_]{40,100}"),
    token("fireworks key", "fw_", r"fw_[A-Za-z0-9]{20,40}(?![\w-])"),
    token("elevenlabs key", "sk_", r"sk_[a-f0-9]{40,64}(?![A-Za-z0-9])"),
    token("cerebras key", "csk-", r"csk-[A-Za-z0-9]{40,60}"),
    token("langfuse key", "sk-lf-", rf"sk-lf-{UUID}"),
    token("llama cloud key", "llx-", r"llx-[A-Za-z0-9]{40,60}"),
    token("langsmith key", "lsv2_", r"lsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}"),
    # Code and packages
    token("github token", "github_pat_ ghp_ gho_ ghu_ ghs_ ghr_", r"(?:github_pat_|gh[pousr]_)[A-Za-z0-9_]{30,255}"),
    token("gitlab token", "glpat- gldt- glft- glsoat- glrt- glcbt- glptt- gloas-", rf"gl[a-z]{{2,5}}-[\w.-]{_LONG}"),
    token("npm token", "npm_", r"npm_[A-Za-z0-9]{36}(?![A-Za-z0-9])"),
    token("pypi token", "pypi-", r"pypi-[\w-]{50,400}"),
    token("rubygems key", "rubygems_", r"rubygems_[a-f0-9]{48}"),
    token("crates.io token", "cio", r"cio[A-Za-z0-9]{32}(?![A-Za-z0-9])"),
    token("artifactory key", "akc", r"AKC[A-Za-z0-9]{50,120}"),
    token("docker token", "dckr_", r"dckr_(?:pat|oat)_[\w-]{20,60}"),
    token("postman key", "pmak-", r"PMAK-[a-f0-9]{24}-[a-f0-9]{34}"),
    token("sentry token", "sntrys_ sntryu_", rf"sntry[su]_[\w+/=]{_LONG}"),
    token("sonarqube token", "sqp_ squ_ sqa_", r"sq[pua]_[a-f0-9]{40}"),
    token("bitbucket password", "atbb", r"ATBB[A-Za-z0-9]{28,40}(?![\w-])"),
    token("azure devops token", "azdo", r"[A-Za-z0-9]{40,60}JQQJ99[A-Za-z0-9]{10,40}AZDO[A-Za-z0-9]{4}"),
    token("circleci token", "ccipat_", r"CCIPAT_[A-Za-z0-9]{16,30}_[a-f0-9]{40}"),
    token("buildkite token", "bkua_", r"bkua_[a-f0-9]{40}"),
    token("clojars token", "clojars_", r"CLOJARS_[a-f0-9]{60}"),
    token("nuget key", "oy2", r"oy2[a-z0-9]{43}(?![A-Za-z0-9])"),
    # Clouds
    token("aws key id", "akia asia abia acca a3t", r"(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    token("aws bedrock key", "absk", r"ABSK[A-Za-z0-9+/]{109,269}={0,2}"),
    token("google key", "aiza", r"AIza[\w-]{35}(?![\w-])"),
    token("google oauth token", "ya29.", rf"ya29\.[\w.-]{_LONG}"),
    token("google client secret", "gocspx-", r"GOCSPX-[\w-]{28}"),
    token("azure client secret", "q~", r"[\w.~]{3}\dQ~[\w.~-]{31,34}(?![\w.~-])"),
    token("digitalocean token", "dop_v1_ doo_v1_ dor_v1_", r"do[opr]_v1_[a-f0-9]{64}"),
    token("heroku key", "hrku-", r"HRKU-[\w-]{36,80}"),
    token("vault token", "hvs. hvb. hvr.", r"hv[sbr]\.[\w-]{24,300}"),
    token("terraform token", "atlasv1", r"[A-Za-z0-9]{14}\.atlasv1\.[\w-]{60,80}"),
    token("doppler token", "dp.pt. dp.st. dp.ct. dp.sa.", r"dp\.(?:pt|st|ct|sa|scim|audit)\.[\w.-]{40,80}"),
    token("cloudflare origin key", "v1.0-", r"v1\.0-[a-f0-9]{24}-[a-f0-9]{146}"),
    token("netlify token", "nfp_", r"nfp_[A-Za-z0-9]{32,60}"),
    token("pulumi token", "pul-", r"pul-[a-f0-9]{40}(?![A-Za-z0-9])"),
    token("fly token", "fm2_ fm1", r"fm[12][ar]?_[A-Za-z0-9+/]{40,2000}={0,2}"),
    token("1password token", "ops_eyj", r"ops_eyJ[\w-]{80,4000}"),
    token("tailscale key", "tskey-", r"tskey-[a-z]{2,10}-[\w-]{16,120}"),
    token("databricks token", "dapi", r"dapi[a-f0-9]{32}(?:-\d)?(?![A-Za-z0-9])"),
    token("planetscale token", "pscale_", r"pscale_(?:tkn|pw|oauth)_[\w.-]{32,80}"),
    token("supabase token", "sbp_ sb_secret_", r"(?:sbp_[a-f0-9]{40}|sb_secret_[\w-]{20,60})"),
    token("grafana token", "glsa_ glc_", r"(?:glsa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}|glc_[A-Za-z0-9+/]{32,400}={0,2})"),
    token("new relic key", "nrak- nral-", r"NRA[KL]-[A-Za-z0-9]{27,50}"),
    token("dynatrace token", "dt0c01.", r"dt0c01\.[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    # Chat, mail, office
    token(
        "slack token",
        "xoxb- xoxp- xoxa- xoxr- xoxs- xoxc- xoxd- xoxe xapp-",
        r"(?:xox[a-z](?:\.xox[bp])?|xapp)-[\w%-]{10,300}",
    ),
    named(
        "slack webhook",
        "hooks.slack.com",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[\w/+-]{20,120})",
    ),
    named(
        "discord webhook", "/api/webhooks/", r"discord(?:app)?\.com/api/webhooks/(?P<secret>\d{15,22}/[\w-]{40,100})"
    ),
    token("telegram token", ":", r"\d{8,10}:AA[\w-]{33}(?![\w-])"),
    token("twilio key", "sk", r"SK[a-f0-9]{32}(?![A-Za-z0-9])"),
    token("sendgrid key", "sg.", r"SG\.[\w-]{16,32}\.[\w-]{16,64}"),
    token("mailgun key", "key-", r"key-[a-f0-9]{32}(?![A-Za-z0-9])"),
    token("notion token", "ntn_ secret_", r"(?:ntn_[A-Za-z0-9]{40,60}|secret_[A-Za-z0-9]{43})(?![A-Za-z0-9])"),
    token("linear key", "lin_api_ lin_oauth_", r"lin_(?:api|oauth)_[A-Za-z0-9]{32,70}"),
    token("figma token", "figd_", r"figd_[\w-]{30,60}"),
    token("atlassian token", "atatt3 atctt3", r"AT[AC]TT3[\w=-]{60,400}"),
    token("airtable token", "pat", r"pat[A-Za-z0-9]{14}\.[a-f0-9]{64}"),
    token("dropbox token", "sl.", r"sl\.(?:u\.)?[\w-]{120,400}"),
    token("hubspot token", "pat-", rf"pat-(?:na|eu)\d-{UUID}"),
    token("contentful token", "cfpat-", r"CFPAT-[\w-]{40,60}"),
    token("asana token", "/", r"[012]/\d{12,20}:[a-f0-9]{32}(?![A-Za-z0-9])"),
    token("mapbox token", "sk.eyj", r"sk\.eyJ[\w-]{20,400}\.[\w-]{16,60}"),
    # Money
    token(
        "stripe key",
        "sk_live_ sk_test_ rk_live_ rk_test_ whsec_",
        r"(?:[sr]k_(?:live|test|prod)_[A-Za-z0-9]{16,250}|whsec_[A-Za-z0-9+/=]{24,80})",
    ),
    token("square token", "sq0 eaaa", r"(?:sq0[a-z]{3}-[\w-]{22,50}|EAAA[\w-]{60})(?![\w-])"),
    token("shopify token", "shpat_ shpca_ shppa_ shpss_ shptka_", r"shp(?:at|ca|pa|ss|tka)_[a-fA-F0-9]{32}"),
    token("braintree token", "access_token$", r"access_token\$(?:production|sandbox)\$[a-z0-9]{16}\$[a-f0-9]{32}"),
    token("plaid token", "access-", rf"access-(?:production|development|sandbox)-{UUID}"),
    token("flutterwave key", "flwseck", r"FLWSECK(?:_TEST)?-[A-Za-z0-9]{20,60}-X(?![\w-])"),
    token("mollie key", "live_ test_", r"(?:live|test)_[A-Za-z0-9]{30}(?![A-Za-z0-9])"),
    # Keys and tokens of no one house
    token("json web token", "eyj", r"eyJ[\w-]{8,8000}\.[\w-]{8,20000}(?:\.[\w-]{0,4000}){1,3}"),
    token("age key", "age-secret-key-1", r"AGE-SECRET-KEY-1[A-Z0-9]{58}"),
    token("wallet key", "xprv zprv yprv", r"[xyz]prv[1-9A-HJ-NP-Za-km-z]{100,112}"),
    token("facebook token", "eaa", r"EAA[A-Z][A-Za-z0-9]{80,300}"),
)

_PLACEHOLDER = re.compile(
    r"[<{(\[%]|\$[A-Za-z_{(]|@[A-Za-z]+@?$|.{0,200}(?:example|placeholder|change[-_]?me|x{5}|\*{3}|\.{3}|…|•{3}"
    r"|your[-_ ]|[-_]here$|insert[-_ ]|redacted|\{\{|\$\{)",
    re.IGNORECASE,
)
_PLAIN_WORDS = """
password passwd passphrase pass secret token apikey api_key api-key key credential credentials none null nil undefined
true false required optional string str bool int bytes object any unknown default empty missing invalid wrong hidden
masked sensitive admin root user username test testing dummy sample todo tbd n/a unset disabled enabled text hash
hashed encrypted decoded encoded value values self this client server request response return await async function
const let var new generated rotated expired expires revoked stored needed correct incorrect strong weak
"""
_NO_SECRETS = frozenset(_PLAIN_WORDS.split())


def is_placeholder(value: str) -> bool:
    """Whether a value stands for a secret without being one: a variable, a template, dots, a plain word."""
    word = value.strip("\"'`.,;:!?")
    return word.casefold() in _NO_SECRETS or len(set(word)) <= 2 or bool(_PLACEHOLDER.match(word))
