r"""Secrets that are known by the words around them: headers, commands, sentences, lists of recovery codes.

Written like the shapes of secret_shapes.py. `_Q` is a quote, with the backslashes of JSON in JSON before it.
"""

import re
from collections.abc import Iterator

from state.secret_shapes import UUID, named

_Q = r"\\{0,7}[\"'`]?"
_IS = r"\s{0,3}(?:[:=]|\bis\b|→|->)\s{0,3}"
# A word that nobody says: with a digit or a sign in it.
_CHOSEN = r"(?=[^\s\"'`|]{0,60}?[\d!@#$%^&*])"
_WORD = r"[^\s\"'`|\\]{4,100}"

PHRASES = (
    # Headers
    named(
        "authorization",
        "authorization bearer",
        rf"(?:authorization{_Q}\s{{0,4}}[:=]\s{{0,4}}{_Q}(?:bearer|basic|token|apikey|digest|bot)?\s{{0,4}}"
        r"|(?<![\w-])bearer[ \t]{1,4})"
        r"(?P<secret>(?=\S{0,400}?\d|(?-i:[A-Za-z+/]{0,100}[a-z][A-Z]))[A-Za-z0-9+/._~=-]{16,4000})",
    ),
    named(
        "cookie",
        "cookie:",
        r"(?<![\w-])(?:set-)?cookie:[ \t]{0,4}"
        r"(?P<secret>[\w.%-]{1,80}=[^\s\"';]{12,1000}(?:;[ \t]?[\w.%-]{1,80}=[^\s\"';]{1,400}){0,40})",
    ),
    # Commands
    named(
        "cookie",
        "curl",
        rf"\bcurl\b[^\n]{{0,300}}?\s(?:-b|--cookie)[ =]{_Q}(?P<secret>[\w.%-]{{1,80}}=[^\s\"'\\]{{12,1000}})",
    ),
    named(
        "command-line password",
        "curl wget http",
        rf"\b(?:curl|wget|https?)\b[^\n]{{0,300}}?\s(?:-u|--user)[ =]?{_Q}[\w.@+-]{{1,80}}:(?P<secret>{_WORD})",
    ),
    named(
        "command-line password",
        "mysql mariadb sshpass mongo",
        rf"\b(?:mysql\w*|mariadb\w*|sshpass|mongo\w*)\b[^\n]{{0,200}}?\s-p ?{_Q}(?P<secret>(?!-){_WORD})",
    ),
    named(
        "command-line password",
        "login",
        r"\b(?:docker|podman|buildah|skopeo|registry|az|oc|cf|crane|oras)\s{1,2}login\b[^\n]{0,200}?\s-p[ =]?"
        rf"{_Q}(?P<secret>(?!-){_WORD})",
    ),
    named(
        "command-line password",
        "redis-cli",
        rf"\bredis-cli\b[^\n]{{0,200}}?\s(?:-a|--pass)[ =]{_Q}(?P<secret>{_WORD})",
    ),
    named("command-line password", "ssh-keygen", rf"\bssh-keygen\b[^\n]{{0,200}}?\s-[NP] ?{_Q}(?P<secret>{_WORD})"),
    named(
        "command-line password",
        "htpasswd",
        rf"\bhtpasswd\s+-\w*b\w*\s+\S{{1,200}}\s+\S{{1,80}}\s+{_Q}(?P<secret>{_WORD})",
    ),
    named("command-line password", "pass:", rf"\s-pass(?:in|out)?[ =]{_Q}pass:(?P<secret>{_WORD})"),
    named(
        "command-line password",
        "echo printf",
        rf"\b(?:echo|printf)\s{{1,2}}(?:-n\s{{1,2}})?{_Q}(?P<secret>{_WORD}){_Q}\s{{0,2}}\|[^\n]{{0,80}}?"
        r"(?:sudo\s+-S|--password-stdin|--stdin|chpasswd|passwd)",
    ),
    named(
        "command-line password",
        "sqlplus oracle",
        r"(?:sqlplus|jdbc:oracle:thin:)\s{0,3}[\w.]{1,60}/(?P<secret>[^\s/@\"']{4,100})@",
    ),
    # Files
    named("netrc password", "login", r"\blogin\s{1,4}\S{1,100}[\s>+]{1,8}password\s{1,4}(?P<secret>\S{4,200})"),
    named(
        "password",
        ":",
        r"(?:(?<![\w.*:/\\-])|(?<=\\n))(?:[\w.-]{1,100}|\*):(?:\d{4,5}|\*):(?:\w{1,60}|\*):\w{1,60}:(?P<secret>(?=\S{0,99}?(?:\d|(?-i:[a-z][A-Z])))[^\s:\"\'\\`<>]{6,100})(?=[\s\"\'\\`]|$)",
    ),
    named("password", "requirepass masterauth", rf"\b(?:requirepass|masterauth)\s{{1,4}}{_Q}(?P<secret>{_WORD})"),
    named(
        "password",
        "identified by",
        rf"\bidentified\s+(?:with\s+\w+\s+)?by\s+(?:password\s+)?\\{{0,7}}[\"'](?P<secret>{_WORD})",
    ),
    named("password", "securestring", rf"\bConvertTo-SecureString\s+(?:-String\s+)?{_Q}(?P<secret>(?!-){_WORD})"),
    named("password", ".login(", rf"\.login\(\s?{_Q}[^\s\"',]{{1,80}}{_Q},\s?{_Q}(?P<secret>{_CHOSEN}{_WORD}){_Q}\)"),
    named(
        "registry password",
        "auth",
        r"\"auth\\{0,7}\"\s{0,3}:\s{0,3}\\{0,7}\"(?P<secret>(?=[^\"]{0,400}(?-i:[A-Z0-9]))[a-z0-9+/]{12,600}={0,2})",
    ),
    named(
        "signed url", "sig= signature=", r"[?&](?:sig|x-amz-signature|x-goog-signature)=(?P<secret>[\w%+/=-]{32,600})"
    ),
    named("webhook", "webhook.office.com", r"webhook\.office\.com/webhookb2/(?P<secret>[\w@/-]{40,300})"),
    named(
        "webhook",
        "hooks.zapier hook.make maker.ifttt hook.eu",
        r"(?:hooks\.zapier\.com/hooks/catch/|hook\.(?:\w{2,4}\.)?make\.com/|maker\.ifttt\.com/\S{1,80}/with/key/)(?P<secret>[\w/-]{8,100})",
    ),
    named("heroku key", "heroku", rf"heroku[\w .-]{{0,30}}{_Q}\s{{0,3}}[:=]\s{{0,3}}{_Q}(?P<secret>{UUID})"),
    named(
        "one-time password secret",
        "otp 2fa mfa authenticator",
        rf"(?:otpauth://\S{{1,200}}[?&]secret=|(?:otp|2fa|mfa|authenticator)[\s_-]{{0,2}}(?:secret|key|seed)(?:[\s_-]key)?{_Q}{_IS}{_Q})"
        r"(?P<secret>(?-i:[A-Z2-7]{16,64}))(?![\w-])",
    ),
    # Talk
    named(
        "password",
        "pass pw",
        r"\b(?:user(?:name)?|login|account|admin)\b[ :=]{1,3}\S{1,60}[,;/ ]{1,3}(?:and )?(?:pass|pw|pwd)[ :=]{1,3}"
        rf"{_Q}(?P<secret>{_CHOSEN}{_WORD})",
    ),
    named(
        "password",
        "cred login",
        rf"\b(?:creds?|credentials?|logins?)(?: are| is|:| =) {{0,3}}{_Q}[\w.@+-]{{1,60}} {{0,2}}[:/] {{0,2}}"
        r"(?P<secret>(?=[^\s\"'`|/]{0,60}?[\d!@#$%^&*])[^\s\"'`|/\\,;]{6,100})",
    ),
    named(
        "password",
        "password passphrase",
        r"(?<!\S)(?:\\{0,7}[\"'`(])?"
        r"(?P<secret>(?=[^\s\"'`]{0,60}?[\d!@#$%^&*])(?=[^\s\"'`]{0,60}?[a-z])[^\s\"'`:=()<>/\\]{6,100})"
        r"\\{0,7}[\"'`)]? (?:is|as|was|for) (?:the|my|our|your|its|a) (?:\w{1,12} )?(?:password|passphrase)"
        r"(?![ -]?(?:hash|field|manager|polic|length|of a)|\w)",
    ),
    named(
        "pin",
        "pin passcode",
        r"(?<![\w-])(?:pin|passcode|pin[- ](?:code|number))(?:\s{0,2}[:=]\s{0,2}|\s{1,2}(?:is|was)\s{1,2})"
        r"(?P<secret>\d{4,8})(?![\w.-])",
    ),
    named(
        "seed phrase",
        "seed mnemonic recovery",
        rf"(?:seed(?: phrase)?|mnemonic|recovery (?:phrase|words)){_Q}{_IS}{_Q}"
        r"(?P<secret>(?:[a-z]{3,8} ){11,23}[a-z]{3,8})",
    ),
    named(
        "wallet key",
        "private wallet",
        rf"(?:private|wallet)[ _-]?(?:key)?{_Q}{_IS}{_Q}(?P<secret>(?:0x)?[0-9a-f]{{64}})(?![0-9a-z])",
    ),
)

_CODES = re.compile(
    r"(?:recovery|backup|rescue|emergency|scratch|2fa|mfa|one-time)[ _-](?:codes?|keys?)[\"'`*]{0,3}"
    r"(?:[ \t]{0,2}[:=]|[ \t](?:is|are|was|were))?(?=[\s\\\"'`:\[])",
    re.IGNORECASE,
)
# Between two codes of a list: line ends (JSON's too), bullets, quotes, commas, the marks of a quotation or a diff.
_BETWEEN = re.compile(r"(?:\\{1,7}[nrt]|[\s,;>+*\"'`\[\]\\-]|\d{1,2}[.)][ \t]){1,24}")
_CODE = re.compile(
    r"(?=[^\s]{0,12}\d|[A-Z]{4,6}-[A-Z]{4,6}\b)"
    r"(?:[0-9A-Za-z]{4,6}(?:-[0-9A-Za-z]{4,6}){1,4}|\d{3,4}(?: \d{3,4}){1,3}|\d{6,12}|[0-9a-z]{8,16})(?![\w.-]*\w)"
)


def recovery_codes(text: str, lowered: str) -> Iterator[tuple[str, int, int]]:
    """Kind, start and end of each of the codes that stand behind "recovery codes" or the like."""
    if "code" not in lowered and "key" not in lowered:
        return
    for head in _CODES.finditer(text):
        at = head.end()
        while (between := _BETWEEN.match(text, at)) and (code := _CODE.match(text, between.end())):
            at = code.end()
            yield "recovery code", code.start(), at
