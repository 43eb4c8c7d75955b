"""Shapes of secrets that detect-secrets (1.5) lacks, sees in part, or matches in more than linear time.

Each shape has hints: plain words of which one must stand in the text (lower case) before its pattern is tried, so
that a text without secrets costs little. Patterns begin at the edge of a token and repeat over one class of
characters that the edge excludes: each character is visited a bounded number of times.
"""

import re
from dataclasses import dataclass

# The left edge of a token; an escape inside quoted JSON (\n) or an encoded "=" (%3D) is an edge as well.
_EDGE = r"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt])|(?<=%3[dD])|(?<=%20)|(?<=%22))"


@dataclass(frozen=True, slots=True)
class Shape:
    """`pattern` finds secrets of a kind; of a match, group "secret" is the secret when there is such a group."""

    kind: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]


def _token(kind: str, hints: str, pattern: str) -> Shape:
    """A key with a form of its own, recognised wherever it stands."""
    return Shape(kind, tuple(hints.split()), re.compile(_EDGE + pattern))


def _named(kind: str, hints: str, pattern: str) -> Shape:
    """A secret that is one by what stands before it."""
    return Shape(kind, tuple(hints.split()), re.compile(pattern, re.IGNORECASE))


_LONG = "{20,400}"
_UUID = r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"

SHAPES = (
    # Models
    _token("anthropic key", "sk-ant-", rf"sk-ant-[\w-]{_LONG}"),
    _token("openrouter key", "sk-or-", rf"sk-or-[\w-]{_LONG}"),
    _token("openai key", "sk-", r"sk-(?:(?:proj|svcacct|admin|None)-[\w-]{20,400}|[A-Za-z0-9]{32,64}(?![\w-]))"),
    _token("hugging face token", "hf_ api_org_", r"(?:hf_|api_org_)[A-Za-z0-9]{30,60}"),
    _token("groq key", "gsk_", r"gsk_[A-Za-z0-9]{40,80}"),
    _token("xai key", "xai-", r"xai-[A-Za-z0-9]{60,120}"),
    _token("perplexity key", "pplx-", r"pplx-[A-Za-z0-9]{40,80}"),
    _token("replicate token", "r8_", r"r8_[A-Za-z0-9]{30,50}"),
    _token("langsmith key", "lsv2_", r"lsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}"),
    # Code and packages
    _token("github token", "github_pat_ ghp_ gho_ ghu_ ghs_ ghr_", r"(?:github_pat_|gh[pousr]_)[A-Za-z0-9_]{30,255}"),
    _token("gitlab token", "glpat- gldt- glft- glsoat- glrt- glcbt- glptt- gloas-", rf"gl[a-z]{{2,5}}-[\w.-]{_LONG}"),
    _token("npm token", "npm_", r"npm_[A-Za-z0-9]{36}(?![A-Za-z0-9])"),
    _token("pypi token", "pypi-", r"pypi-[\w-]{50,400}"),
    _token("rubygems key", "rubygems_", r"rubygems_[a-f0-9]{48}"),
    _token("crates.io token", "cio", r"cio[A-Za-z0-9]{32}(?![A-Za-z0-9])"),
    _token("artifactory key", "akc", r"AKC[A-Za-z0-9]{50,120}"),
    _token("docker token", "dckr_", r"dckr_(?:pat|oat)_[\w-]{20,60}"),
    _token("postman key", "pmak-", r"PMAK-[a-f0-9]{24}-[a-f0-9]{34}"),
    _token("sentry token", "sntrys_ sntryu_", rf"sntry[su]_[\w+/=]{_LONG}"),
    _token("sonarqube token", "sqp_ squ_ sqa_", r"sq[pua]_[a-f0-9]{40}"),
    # Clouds
    _token(
        "aws key id", "akia asia abia acca a3t", r"(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])"
    ),
    _token("aws bedrock key", "absk", r"ABSK[A-Za-z0-9+/]{109,269}={0,2}"),
    _token("google key", "aiza", r"AIza[\w-]{35}(?![\w-])"),
    _token("google oauth token", "ya29.", rf"ya29\.[\w.-]{_LONG}"),
    _token("google client secret", "gocspx-", r"GOCSPX-[\w-]{28}"),
    _token("azure client secret", "q~", r"[\w.~]{3}\dQ~[\w.~-]{31,34}(?![\w.~-])"),
    _token("digitalocean token", "dop_v1_ doo_v1_ dor_v1_", r"do[opr]_v1_[a-f0-9]{64}"),
    _token("heroku key", "hrku-", r"HRKU-[\w-]{36,80}"),
    _token("vault token", "hvs. hvb. hvr.", r"hv[sbr]\.[\w-]{24,300}"),
    _token("terraform token", "atlasv1", r"[A-Za-z0-9]{14}\.atlasv1\.[\w-]{60,80}"),
    _token("doppler token", "dp.pt. dp.st. dp.ct. dp.sa.", r"dp\.(?:pt|st|ct|sa|scim|audit)\.[\w.-]{40,80}"),
    _token("cloudflare origin key", "v1.0-", r"v1\.0-[a-f0-9]{24}-[a-f0-9]{146}"),
    _token("tailscale key", "tskey-", r"tskey-[a-z]{2,10}-[\w-]{16,120}"),
    _token("databricks token", "dapi", r"dapi[a-f0-9]{32}(?:-\d)?(?![A-Za-z0-9])"),
    _token("planetscale token", "pscale_", r"pscale_(?:tkn|pw|oauth)_[\w.-]{32,80}"),
    _token("supabase token", "sbp_ sb_secret_", r"(?:sbp_[a-f0-9]{40}|sb_secret_[\w-]{20,60})"),
    _token("grafana token", "glsa_ glc_", r"(?:glsa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}|glc_[A-Za-z0-9+/]{32,400}={0,2})"),
    _token("new relic key", "nrak- nral-", r"NRA[KL]-[A-Za-z0-9]{27,50}"),
    _token("dynatrace token", "dt0c01.", r"dt0c01\.[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    # Chat, mail, office
    _token(
        "slack token",
        "xoxb- xoxp- xoxa- xoxr- xoxs- xoxc- xoxd- xoxe xapp-",
        r"(?:xox[a-z](?:\.xox[bp])?|xapp)-[\w%-]{10,300}",
    ),
    _named(
        "slack webhook",
        "hooks.slack.com",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[\w/+-]{20,120})",
    ),
    _named(
        "discord webhook", "/api/webhooks/", r"discord(?:app)?\.com/api/webhooks/(?P<secret>\d{15,22}/[\w-]{40,100})"
    ),
    _token("telegram token", ":", r"\d{8,10}:AA[\w-]{33}(?![\w-])"),
    _token("twilio key", "sk", r"SK[a-f0-9]{32}(?![A-Za-z0-9])"),
    _token("sendgrid key", "sg.", r"SG\.[\w-]{16,32}\.[\w-]{16,64}"),
    _token("mailgun key", "key-", r"key-[a-f0-9]{32}(?![A-Za-z0-9])"),
    _token("notion token", "ntn_ secret_", r"(?:ntn_[A-Za-z0-9]{40,60}|secret_[A-Za-z0-9]{43})(?![A-Za-z0-9])"),
    _token("linear key", "lin_api_ lin_oauth_", r"lin_(?:api|oauth)_[A-Za-z0-9]{32,70}"),
    _token("figma token", "figd_", r"figd_[\w-]{30,60}"),
    _token("atlassian token", "atatt3 atctt3", r"AT[AC]TT3[\w=-]{60,400}"),
    _token("airtable token", "pat", r"pat[A-Za-z0-9]{14}\.[a-f0-9]{64}"),
    _token("dropbox token", "sl.", r"sl\.(?:u\.)?[\w-]{120,400}"),
    # Money
    _token(
        "stripe key",
        "sk_live_ sk_test_ rk_live_ rk_test_ whsec_",
        r"(?:[sr]k_(?:live|test|prod)_[A-Za-z0-9]{16,250}|whsec_[A-Za-z0-9+/=]{24,80})",
    ),
    _token("square token", "sq0 eaaa", r"(?:sq0[a-z]{3}-[\w-]{22,50}|EAAA[\w-]{60})(?![\w-])"),
    _token("shopify token", "shpat_ shpca_ shppa_ shpss_ shptka_", r"shp(?:at|ca|pa|ss|tka)_[a-fA-F0-9]{32}"),
    _token("braintree token", "access_token$", r"access_token\$(?:production|sandbox)\$[a-z0-9]{16}\$[a-f0-9]{32}"),
    # Keys and tokens of no one house
    _token("json web token", "eyj", r"eyJ[\w-]{8,8000}\.[\w-]{8,20000}(?:\.[\w-]{0,4000}){1,3}"),
    _token("age key", "age-secret-key-1", r"AGE-SECRET-KEY-1[A-Z0-9]{58}"),
    _token("wallet key", "xprv zprv yprv", r"[xyz]prv[1-9A-HJ-NP-Za-km-z]{100,112}"),
    _token("facebook token", "eaa", r"EAA[A-Z][A-Za-z0-9]{80,300}"),
    # By what stands before them
    _named(
        "authorization",
        "authorization bearer",
        r"(?:authorization[\"']?\s{0,4}[:=]\s{0,4}[\"']?(?:bearer|basic|token|apikey|digest|bot)?\s{0,4}"
        r"|(?<![\w-])bearer[ \t]{1,4})"
        r"(?P<secret>(?=\S{0,400}?\d|(?-i:[A-Za-z+/]{0,100}[a-z][A-Z]))[A-Za-z0-9+/._~=-]{16,4000})",
    ),
    _named(
        "cookie",
        "cookie:",
        r"(?<![\w-])(?:set-)?cookie:[ \t]{0,4}"
        r"(?P<secret>[\w.%-]{1,80}=[^\s\"';]{12,1000}(?:;[ \t]?[\w.%-]{1,80}=[^\s\"';]{1,400}){0,40})",
    ),
    _named(
        "command-line password",
        "curl wget http",
        r"\b(?:curl|wget|https?)\b[^\n]{0,300}?\s(?:-u|--user)[ =]?[\"']?[\w.@+-]{1,80}:(?P<secret>[^\s\"']{4,200})",
    ),
    _named(
        "command-line password",
        "mysql mariadb sshpass",
        r"(?:mysql|mysqldump|mariadb|sshpass)\b[^\n]{0,200}?\s-p ?[\"']?(?P<secret>[^\s\"'-][^\s\"']{3,100})",
    ),
    _named("netrc password", "login", r"\blogin\s{1,4}\S{1,100}\s{1,4}password\s{1,4}(?P<secret>\S{4,200})"),
    _named(
        "signed url", "sig= signature=", r"[?&](?:sig|x-amz-signature|x-goog-signature)=(?P<secret>[\w%+/=-]{32,600})"
    ),
    _named(
        "pin",
        "pin passcode",
        r"(?<![\w-])(?:pin|passcode|pin[- ](?:code|number))(?:\s{0,2}[:=]\s{0,2}|\s{1,2}(?:is|was)\s{1,2})"
        r"(?P<secret>\d{4,8})(?![\w.-])",
    ),
    _named(
        "seed phrase",
        "seed mnemonic recovery",
        r"(?:seed(?: phrase)?|mnemonic|recovery (?:phrase|words))[\"']?\s{0,3}(?:[:=]|\bis\b)\s{0,3}[\"']?"
        r"(?P<secret>(?:[a-z]{3,8} ){11,23}[a-z]{3,8})",
    ),
    _named(
        "wallet key",
        "private wallet",
        r"(?:private|wallet)[ _-]?(?:key)?[\"']?\s{0,3}(?:[:=]|\bis\b)\s{0,3}[\"']?"
        r"(?P<secret>(?:0x)?[0-9a-f]{64})(?![0-9a-z])",
    ),
    _named("heroku key", "heroku", rf"heroku[\w .-]{{0,30}}[\"']?\s{{0,3}}[:=]\s{{0,3}}[\"']?(?P<secret>{_UUID})"),
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
