"""More secrets, as they stand in files, commands and talk: a second corpus beside `redaction_corpus`.

MORE_KINDS are, by name, how a secret of the kind is drawn and the lines that it stands in; SURROUNDINGS set such
a line into what usually is around it (a transcript's JSON, Markdown, a log, a diff, a quotation). `cases` draws a
corpus of all kinds of both. Drawn at random; nobody's.
"""

import base64
import json
import random
import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.redaction_corpus import ANYWHERE, KINDS, WORDS, Draw, drawn, jwt, named, private_key

BASE32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"


def some_uuid(rng: random.Random) -> str:
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))


def typed(rng: random.Random) -> str:
    """A password of somebody who was told to use a digit or a sign."""
    word, other = rng.sample(WORDS, 2)
    forms = [
        f"{word.capitalize()}{rng.randrange(10, 9999)}{rng.choice('!?#$%&*')}",
        f"{word}{rng.choice('-_.')}{other}{rng.randrange(10, 99)}",
        f"{word[:3]}{rng.randrange(100, 999)}{other.upper()[:3]}{rng.choice('!@#')}",
        f"{word.replace('e', '3').replace('a', '4')}{rng.choice('!@$')}{rng.randrange(1970, 2030)}",
        drawn("{A12}")(rng) + str(rng.randrange(10)) + "x",
        f"{drawn('{A5}')(rng)}{rng.choice('!#%^*')}{drawn('{A6}')(rng)}{rng.randrange(10)}a",
    ]
    return rng.choice(forms)


def phrase(rng: random.Random) -> str:
    return rng.choice("- ").join(rng.sample(WORDS, rng.randrange(4, 7)))


def base32(rng: random.Random) -> str:
    return "".join(rng.choices(BASE32, k=rng.choice([16, 32])))


def code(rng: random.Random) -> str:
    draw = rng.choice(["{H5}-{H5}", "{D4} {D4}", "{H4}-{H4}-{H4}", "{D8}", "{C5}-{C5}"])
    return drawn(draw)(rng)


def codes(rng: random.Random) -> str:
    separator = rng.choice([", ", "\n", "\n- "])
    form = rng.choice(["{H5}-{H5}", "{D4}-{D4}", "{H4}-{H4}-{H4}", "{D8}", "{C5}-{C5}"])
    return separator.join(drawn(form)(rng) for _ in range(rng.randrange(4, 9)))


def encoded(draw: Draw) -> Draw:
    return lambda rng: base64.b64encode(draw(rng).encode()).decode()


def pgp(rng: random.Random) -> str:
    body = "\n".join(drawn("{B64}")(rng) for _ in range(rng.randrange(4, 12)))
    begin, end = (f"-----{word} PGP PRIVATE KEY BLOCK-----" for word in ("BEGIN", "END"))
    return f"{begin}\nVersion: GnuPG v2\n\n{body}\n={drawn('{B4}')(rng)}\n{end}"


def certificate_key(rng: random.Random) -> str:
    return base64.b64encode(private_key(rng).encode()).decode()


def _table(text: str) -> dict[str, tuple[Draw, list[str]]]:
    rows = [row.split("|") for row in text.strip().split("\n")]
    return {name.strip(): (drawn(template.strip()), ANYWHERE) for name, template in rows}


# Tokens with a form of their own.
_FORMED = _table("""
gitlab runner | glrt-{U20}
bitbucket app password | ATBB{A32}
perplexity key | pplx-{A48}
nvidia key | nvapi-{U64}
tavily key | tvly-dev-{A32}
jina key | jina_{A60}
pinecone key | pcsk_{A6}_{A60}
fireworks key | fw_{A24}
elevenlabs key | sk_{H48}
deepseek key | sk-{H32}
cerebras key | csk-{A48}
langfuse key | sk-lf-{H8}-{H4}-{H4}-{H4}-{H12}
langsmith key | lsv2_pt_{H32}_{H10}
llama cloud key | llx-{A48}
netlify token | nfp_{A36}
circleci token | CCIPAT_{A22}_{H40}
buildkite token | bkua_{H40}
pulumi token | pul-{H40}
hubspot token | pat-na1-{H8}-{H4}-{H4}-{H4}-{H12}
plaid token | access-production-{H8}-{H4}-{H4}-{H4}-{H12}
flutterwave key | FLWSECK-{H32}-X
mollie key | live_{A30}
fly token | fm2_{B120}
1password token | ops_eyJ{A200}
mapbox token | sk.eyJ{U80}.{U22}
clojars token | CLOJARS_{H60}
crates.io token | cio{A32}
nuget key | oy2{L43}
contentful token | CFPAT-{U43}
sentry token | sntrys_eyJ{A90}_{B43}
sonarqube token | squ_{H40}
postman key | PMAK-{H24}-{H34}
doppler token | dp.pt.{A43}
new relic key | NRAK-{C27}
dynatrace token | dt0c01.{C24}.{C64}
planetscale password | pscale_pw_{A43}
supabase token | sbp_{H40}
heroku key | HRKU-{U58}
google oauth token | ya29.{U120}
aws session key id | ASIA{C16}
azure devops token | {A52}JQQJ99{A18}AAAAAAAAAAAAAZDO{A4}
square token | sq0atp-{U22}
rubygems key | rubygems_{H48}
slack app token | xapp-1-A{C10}-{D13}-{H64}
asana token | 1/{D16}:{H32}
""")

_SAID = [
    "the password is {s}",
    "my password's {s}",
    "user: what was it? assistant: the admin password is {s}, I think",
    "password for the router → {s}",
    "The new root password is now {s}.",
    "I set the password to {s} yesterday",
    "we changed the wiki password to {s}",
    "login: bob / password: {s}",
    "user bob, pass {s}",
    "creds: admin / {s}",
    "credentials are admin:{s}",
    "username: admin, password: {s}, host: db1",
    "(pw: {s})",
    "| password | {s} |",
    "- **Password:** `{s}`",
    "PW={s}",
    "Passwort: {s}",
    "das Passwort für den Server ist {s}",
    "le mot de passe est {s}",
    "la contraseña es {s}",
    "la password è {s}",
    "use {s} as the password",
    "'{s}' is the password of the staging box",
    "Password: {s}\nUser: admin",
    "the wifi password at the office is {s}",
]
_FILES = [
    "DB_PASSWORD={s}",
    "export PGPASSWORD='{s}'",
    'password = "{s}"',
    "password: {s}",
    "  password: '{s}'  # staging",
    '  "password": "{s}",',
    '{{"user": "bot", "password": "{s}"}}',
    "spring.datasource.password={s}",
    'define("DB_PASSWORD", "{s}");',
    "ENV MYSQL_ROOT_PASSWORD={s}",
    "      POSTGRES_PASSWORD: {s}",
    "ALTER USER app WITH PASSWORD '{s}';",
    "CREATE USER 'app'@'%' IDENTIFIED BY '{s}';",
    'conn = psycopg.connect(host="db", user="app", password="{s}")',
    "smtp.login('bot@shop.test', '{s}')  # password of the bot",
    '$password = ConvertTo-SecureString "{s}" -AsPlainText -Force',
    'var opts = &Options{{Password: "{s}"}}',
    'password => "{s}",',
    '<property name="password" value="{s}"/>',
    'admin_password   = "{s}"  # terraform.tfvars',
    'psk="{s}"',
    "requirepass {s}",
]
_COMMANDS = [
    "curl -u admin:{s} https://shop.test/api",
    "curl --user bot:{s} -X POST https://shop.test/hook",
    "wget --user=bot --password={s} https://shop.test/file",
    "mysql -u root -p'{s}' shop",
    "PGPASSWORD={s} psql -h db -U app shop",
    "sshpass -p '{s}' ssh root@10.0.0.4",
    "redis-cli -h cache -a {s} ping",
    "mongosh -u root -p {s} --authenticationDatabase admin",
    "docker login -u bot -p {s} registry.test",
    "echo '{s}' | docker login -u bot --password-stdin registry.test",
    "openssl rsa -in key.pem -passin pass:{s}",
    "gpg --batch --passphrase {s} -d backup.gpg",
    "htpasswd -b .htpasswd admin {s}",
    "ssh-keygen -t ed25519 -N '{s}' -f id_ed25519",
    "az login --service-principal -u app -p {s}",
    "helm upgrade shop ./chart --set db.password={s}",
    "kubectl create secret generic db --from-literal=password={s}",
    "ansible-playbook site.yml -e 'become_password={s}'",
    "echo {s} | sudo -S apt update",
]
_KEYS = ("MISTRAL_API_KEY", "DD_API_KEY", "cohere_api_key", "algoliaAdminKey", "TOGETHER_API_KEY", "JENKINS_TOKEN")


def _address(scheme: str) -> list[str]:
    return [
        f"{scheme}://app:{{s}}@db.shop.test/shop",
        f"DATABASE_URL={scheme}://app:{{s}}@10.0.0.5:5432/shop?ssl=1",
        f'"url": "{scheme}://root:{{s}}@localhost/x",',
        f"connects to {scheme}://svc:{{s}}@db, then migrates",
        f"url: '{scheme}://app:{{s}}@[::1]:5432/shop'",
    ]


_STANDING: dict[str, tuple[Draw, list[str]]] = {
    "password in talk": (typed, _SAID),
    "password in a file": (typed, _FILES),
    "password on a command line": (typed, _COMMANDS),
    "postgresql address": (typed, _address("postgresql")),
    "mysql address": (typed, _address("mysql+pymysql")),
    "mongodb address": (typed, _address("mongodb+srv")),
    "redis address": (drawn("{A24}"), [*_address("rediss"), "redis://default:{s}@cache:6379/0", "redis://:{s}@c/0"]),
    "amqp address": (drawn("{A18}"), _address("amqps")),
    "sql server": (
        typed,
        [
            "Server=tcp:db,1433;Database=shop;User ID=app;Password={s};Encrypt=True;",
            "Driver={{ODBC Driver 18}};Server=db;UID=app;PWD={s}",
            "jdbc:sqlserver://db:1433;databaseName=shop;user=app;password={s};",
            "mssql://sa:{s}@db/shop",
        ],
    ),
    "oracle": (
        drawn("{A14}7q"),
        [
            "jdbc:oracle:thin:app/{s}@//db:1521/XE",
            "sqlplus app/{s}@//db:1521/XE",
            "jdbc:oracle:thin:@db:1521:XE?user=app&password={s}",
        ],
    ),
    "jdbc": (typed, ["jdbc:postgresql://db/shop?user=app&password={s}", "jdbc:mysql://db/s?password={s}&user=a"]),
    "token in a git address": (
        drawn("{A24}"),
        ["git clone https://bot:{s}@git.test/a/b.git", "origin\thttps://{s}@git.test/a/b.git (fetch)"],
    ),
    "pgpass line": (drawn("{A14}"), ["db.shop.test:5432:shop:app:{s}", "*:*:*:postgres:{s}"]),
    "netrc": (
        drawn("{A14}"),
        ["machine git.test login bot password {s}", "machine a.test\n  login b\n  password {s}"],
    ),
    "npmrc": (
        some_uuid,
        ["//registry.npmjs.org/:_authToken={s}", "//npm.shop.test/:_authToken={s}", "npm config set _authToken {s}"],
    ),
    "docker config": (
        encoded(drawn("bot:{A24}")),
        ['{{"auths": {{"https://index.docker.io/v1/": {{"auth": "{s}"}}}}}}', '"auth": "{s}"'],
    ),
    "pypirc": (drawn("pypi-AgEIcHlwaS5vcmc{U150}"), ["[pypi]\nusername = __token__\npassword = {s}", ANYWHERE[0]]),
    "kubeconfig key": (certificate_key, ["    client-key-data: {s}", '"client-key-data":"{s}"']),
    "kubeconfig token": (jwt, ["    token: {s}", "kubectl --token={s} get pods"]),
    "kubernetes secret": (
        encoded(typed),
        ["kind: Secret\ndata:\n  password: {s}", "data:\n  db-password: {s}\nkind: Secret"],
    ),
    "pgp private key": (pgp, ["{s}", "my key:\n\n{s}\n\nkeep it", "cat > key.asc <<EOF\n{s}\nEOF"]),
    "totp secret": (
        base32,
        [
            "otpauth://totp/Shop:bob?secret={s}&issuer=Shop",
            "TOTP_SECRET={s}",
            "2FA secret: {s}",
            "totp secret is {s}",
        ],
    ),
    "recovery codes": (
        codes,
        ["Recovery codes:\n{s}\n", "recovery codes: {s}", "backup codes:\n- {s}", "my backup codes are {s}"],
    ),
    "recovery code": (code, ["recovery code: {s}", "the backup code is {s}", "Recovery code {s} still works"]),
    "ssh passphrase": (
        phrase,
        ['the passphrase of my ssh key is "{s}"', "passphrase: {s}", "SSH_PASSPHRASE='{s}'", 'passphrase = "{s}"'],
    ),
    "seed phrase": (
        lambda rng: " ".join(rng.choice(WORDS) for _ in range(rng.choice([12, 24]))),
        ["seed phrase: {s}", 'the recovery phrase is "{s}"', 'mnemonic = "{s}"'],
    ),
    "teams webhook": (
        lambda rng: f"{some_uuid(rng)}@{some_uuid(rng)}/IncomingWebhook/{drawn('{H32}')(rng)}/{some_uuid(rng)}",
        ["https://shop.webhook.office.com/webhookb2/{s}", "hook = 'https://shop.webhook.office.com/webhookb2/{s}'"],
    ),
    "google chat webhook": (
        drawn("{U43}"),
        ["https://chat.googleapis.com/v1/spaces/AAA/messages?key=abc&token={s}", "?threadKey=1&token={s}"],
    ),
    "discord webhook": (
        drawn("{D18}/{U68}"),
        ["https://discord.com/api/webhooks/{s}", "url: discord.com/api/webhooks/{s}"],
    ),
    "webhook secret": (
        drawn("{H40}"),
        ["webhook secret: {s}", "GITHUB_WEBHOOK_SECRET={s}", '"webhookSecret": "{s}"'],
    ),
    "cookie": (
        drawn("{A32}"),
        [
            "Cookie: sessionid={s}; theme=dark",
            "Set-Cookie: session={s}; Path=/; HttpOnly",
            "curl -b 'session={s}' https://a.test",
        ],
    ),
    "header": (
        drawn("{A36}"),
        [
            "X-API-Key: {s}",
            "curl -H 'X-Auth-Token: {s}' https://a.test",
            'headers = {{"Authorization": "Bearer {s}"}}',
            "authorization: token {s}",
            "Proxy-Authorization: Basic {s}",
            '-H "PRIVATE-TOKEN: {s}"',
        ],
    ),
    "key known by its name": (drawn("{A32}"), named(*_KEYS)),
    "signed url": (drawn("{A43}%3D"), ["https://b.test/o?sv=2024-01-01&sp=r&sig={s}", "x?X-Amz-Signature={s}&y=1"]),
}
MORE_KINDS: dict[str, tuple[Draw, list[str]]] = _FORMED | _STANDING


def _claude(line: str) -> str:
    message = {"role": "user", "content": [{"type": "text", "text": line}]}
    return json.dumps({"type": "user", "sessionId": "5f0c", "message": message}, ensure_ascii=False)


def _twice(line: str) -> str:
    return json.dumps({"type": "tool_result", "content": json.dumps({"stdout": line, "code": 0})})


SURROUNDINGS: dict[str, Callable[[str], str]] = {
    "alone": lambda line: line,
    "a transcript's JSON": _claude,
    "JSON in JSON": _twice,
    "a fenced block": lambda line: f"Try this:\n\n```\n{line}\n```\n\nand tell me.",
    "prose": lambda line: f"We met on Tuesday about the release. {line} After that we went home.",
    "a quotation": lambda line: "\n".join(f"> {part}" for part in line.split("\n")),
    "a log": lambda line: f"2026-03-01T10:00:00.123Z INFO [worker-3] {line}",
    "a diff": lambda line: "\n".join(f"+{part}" for part in line.split("\n")),
    "a list": lambda line: "- first\n- " + line.replace("\n", "\n  ") + "\n- last",
    "Windows line ends": lambda line: "first\r\n" + line.replace("\n", "\r\n") + "\r\nlast\r\n",
}


@dataclass(frozen=True, slots=True)
class Case:
    """A secret of a kind and a text that it stands in. `written`: as it stands there."""

    kind: str
    surroundings: str
    text: str
    written: str


def cases(rng: random.Random, rounds: int) -> Iterator[Case]:
    """Every kind of both corpora in every surroundings, so many times."""
    for kind, (draw, forms) in (KINDS | MORE_KINDS).items():
        for name in [*SURROUNDINGS] * rounds:
            secret = draw(rng)
            text = SURROUNDINGS[name](rng.choice(forms).format(s=secret))
            yield Case(kind, name, text, _written(secret, name))


def is_left(case: Case, text: str) -> bool:
    """Whether the secret, or half of one of its lines, is still in the text."""
    for line in re.split(r"\n|\\+n", case.written):
        line = line.strip("+> -,\r")  # noqa: PLW2901
        half = max(6, len(line) // 2)
        if len(line) >= 4 and (line[:half] in text or line[-half:] in text):
            return True
    return False


def _written(secret: str, surroundings: str) -> str:
    if surroundings == "a transcript's JSON":
        return json.dumps(secret, ensure_ascii=False)[1:-1]
    if surroundings == "JSON in JSON":
        return json.dumps(json.dumps(secret)[1:-1])[1:-1]
    prefix = {"a quotation": "\n> ", "a diff": "\n+", "a list": "\n  ", "Windows line ends": "\r\n"}.get(surroundings)
    return secret.replace("\n", prefix) if prefix else secret
