"""A generated corpus: secrets of many kinds, the lines they stand in, and lines without any."""

import base64
import json
import random
import string
import uuid
from collections.abc import Callable

ALNUM = string.ascii_letters + string.digits
HEX = "0123456789abcdef"
URL64 = ALNUM + "-_"
B64 = ALNUM + "+/"
LOWER = string.ascii_lowercase

Draw = Callable[[random.Random], str]


def drawn(template: str) -> Draw:
    """A template such as "ghp_{A36}" (36 letters and digits)."""
    alphabets = {
        "A": ALNUM,
        "H": HEX,
        "U": URL64,
        "B": B64,
        "C": string.ascii_uppercase + string.digits,
        "D": string.digits,
        "L": LOWER,
        "M": string.ascii_letters,
    }

    def draw(rng: random.Random) -> str:
        parts = template.split("{")
        out = [parts[0]]
        for part in parts[1:]:
            spec, rest = part.split("}", 1)
            out.append("".join(rng.choices(alphabets[spec[0]], k=int(spec[1:]))) + rest)
        return "".join(out)

    return draw


def jwt(rng: random.Random) -> str:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    claims = {"sub": str(rng.randrange(10**9)), "iat": rng.randrange(10**9, 2 * 10**9)}
    return f"{part({'alg': 'HS256', 'typ': 'JWT'})}.{part(claims)}.{drawn('{U43}')(rng)}"


def private_key(rng: random.Random) -> str:
    kind = rng.choice(["RSA ", "EC ", "OPENSSH ", ""])
    body = "\n".join(drawn("{B64}")(rng) for _ in range(rng.randrange(4, 20)))
    return f"-----BEGIN {kind}PRIVATE KEY-----\n{body}\n{drawn('{B30}')(rng)}==\n-----END {kind}PRIVATE KEY-----"


_WORDS = """
river lamp copper window anchor velvet thunder pencil marble orbit saddle walnut harbor cobalt ember falcon garnet
hollow island jasper kettle lantern meadow needle oyster pepper quartz ribbon saffron timber umber violet willow
yonder zephyr bridge canyon drift engine fabric glacier hammer
"""
WORDS = _WORDS.split()


def password(rng: random.Random) -> str:
    kind = rng.randrange(5)
    if kind == 0:
        return rng.choice(WORDS).capitalize() + rng.choice("!@#$%&*") + str(rng.randrange(10, 9999))
    if kind == 1:
        return "".join(rng.choices(ALNUM + "!@#%^*_+=", k=rng.randrange(10, 24))) + rng.choice(string.digits) + "a"
    if kind == 2:
        return rng.choice(WORDS) + str(rng.randrange(10, 9999))
    if kind == 3:
        return "-".join(rng.sample(WORDS, 4)) + f"-{rng.randrange(10, 99)}"
    return rng.choice(WORDS).replace("e", "3").replace("o", "0") + rng.choice("!?$&") + rng.choice(WORDS) + "7"


# Settings in which a token with a form of its own may stand.
ANYWHERE = [
    "The key for the staging account is {s}, keep it out of the repository.",
    "I pasted {s} into the console and it worked",
    "{s}",
    "export SERVICE_TOKEN={s}",
    'client = Client("{s}")',
    "  value: {s}",
    '{{"name": "ci", "value": "{s}"}}',
    '{{\\"text\\": \\"use\\n{s}\\"}}',
    "curl -H 'X-Key: {s}' https://service.test/v1/items",
    "2026-03-01T10:00:00Z INFO started with credential {s} (retry 1)",
    "- [ ] rotate `{s}` before Friday",
    "https://service.test/callback?state=7&value={s}&next=/home",
    "Use ({s}) for now.",
]
NAMED = [
    "{n}={s}",
    "export {n}='{s}'",
    '{n} = "{s}"',
    "{n}: {s}",
    '  "{n}": "{s}",',
    '{{\\"{n}\\": \\"{s}\\"}}',
    "os.environ['{n}'] = '{s}'",
    "docker run -e {n}={s} image:latest",
    "const config = {{ {n}: '{s}' }};",
    "<{n}>{s}</{n}>",
]
SAID = [
    "the password is {s}",
    "The password for the staging database is {s}.",
    "password: {s}",
    "Password for wiki: {s}",
    'login("admin", password="{s}")',
    "DB_PASSWORD={s}",
    'smtp_password = "{s}"',
    '"password": "{s}"',
    "mysql -u root --password={s} shop",
    "my wifi password is {s}, please remember it",
    "log in as admin with password {s}",
    "rotated the root password from {s} to a new one",
    "Das Passwort lautet {s}",
    "wifi pw: {s}",
    "password → {s}",
    "passwd={s}",
    "POSTGRES_PASSWORD: '{s}'",
]


def named(*names: str) -> list[str]:
    return [form.replace("{n}", name) for name in names for form in NAMED]


KINDS: dict[str, tuple[Draw, list[str]]] = {
    "openai project key": (drawn("sk-proj-{U74}T3BlbkFJ{U74}"), ANYWHERE),
    "openai old key": (drawn("sk-{A20}T3BlbkFJ{A20}"), ANYWHERE),
    "anthropic key": (drawn("sk-ant-api03-{U93}AA"), ANYWHERE),
    "openrouter key": (drawn("sk-or-v1-{H64}"), ANYWHERE),
    "hugging face token": (drawn("hf_{M34}"), ANYWHERE),
    "groq key": (drawn("gsk_{A52}"), ANYWHERE),
    "xai key": (drawn("xai-{A80}"), ANYWHERE),
    "replicate token": (drawn("r8_{A37}"), ANYWHERE),
    "github token": (drawn("ghp_{A36}"), ANYWHERE),
    "github fine-grained": (drawn("github_pat_{A22}_{A59}"), ANYWHERE),
    "gitlab token": (drawn("glpat-{U20}"), ANYWHERE),
    "npm token": (drawn("npm_{A36}"), ANYWHERE),
    "pypi token": (drawn("pypi-AgEIcHlwaS5vcmc{U150}"), ANYWHERE),
    "docker token": (drawn("dckr_pat_{U27}"), ANYWHERE),
    "aws key id": (drawn("AKIA{C16}"), ANYWHERE),
    "aws secret key": (drawn("{B40}"), named("AWS_SECRET_ACCESS_KEY", "aws_secret_access_key", "secretAccessKey")),
    "google key": (drawn("AIza{U35}"), ANYWHERE),
    "google client secret": (drawn("GOCSPX-{U28}"), ANYWHERE),
    "gcp service account": (
        private_key,
        ['{{"type": "service_account", "private_key": "{s}", "client_email": "bot@project.test"}}'],
    ),
    "azure storage key": (
        drawn("{B86}=="),
        [
            "DefaultEndpointsProtocol=https;AccountName=shop;AccountKey={s};EndpointSuffix=core.test",
            "AccountKey={s}",
            'AZURE_STORAGE_ACCOUNT_KEY="{s}"',
        ],
    ),
    "azure client secret": (drawn("{A3}8Q~{A34}"), ANYWHERE),
    "slack token": (drawn("xoxb-{D12}-{D13}-{A24}"), ANYWHERE),
    "slack webhook": (
        drawn("T{C9}/B{C9}/{A24}"),
        ["https://hooks.slack.com/services/{s}", "hook: https://hooks.slack.com/services/{s}."],
    ),
    "stripe key": (drawn("sk_live_{A24}"), ANYWHERE),
    "stripe webhook secret": (drawn("whsec_{A32}"), ANYWHERE),
    "twilio key": (drawn("SK{H32}"), ANYWHERE),
    "sendgrid key": (drawn("SG.{U22}.{U43}"), ANYWHERE),
    "mailgun key": (drawn("key-{H32}"), ANYWHERE),
    "mailchimp key": (drawn("{H32}-us12"), ANYWHERE),
    "telegram token": (drawn("{D10}:AA{U33}"), ANYWHERE),
    "discord token": (drawn("M{A25}.{U6}.{U38}"), ANYWHERE),
    "digitalocean token": (drawn("dop_v1_{H64}"), ANYWHERE),
    "shopify token": (drawn("shpat_{H32}"), ANYWHERE),
    "databricks token": (drawn("dapi{H32}"), ANYWHERE),
    "vault token": (drawn("hvs.{U90}"), ANYWHERE),
    "tailscale key": (drawn("tskey-auth-{A12}CNTRL-{A32}"), ANYWHERE),
    "linear key": (drawn("lin_api_{A40}"), ANYWHERE),
    "notion token": (drawn("ntn_{A46}"), ANYWHERE),
    "figma token": (drawn("figd_{U40}"), ANYWHERE),
    "grafana token": (drawn("glsa_{A32}_{H8}"), ANYWHERE),
    "atlassian token": (drawn("ATATT3{U180}"), ANYWHERE),
    "json web token": (jwt, ANYWHERE),
    "age key": (drawn("AGE-SECRET-KEY-1{C58}"), ANYWHERE),
    "private key": (private_key, ["{s}", "here is the key:\n{s}\nthanks", 'key = """{s}"""']),
    "bearer": (
        drawn("{U40}"),
        [
            "Authorization: Bearer {s}",
            "curl -H 'Authorization: Bearer {s}' https://a.test",
            '"authorization": "Bearer {s}"',
        ],
    ),
    "basic authorization": (drawn("{B32}"), ["Authorization: Basic {s}", '-H "Authorization: Basic {s}"']),
    "connection string": (
        drawn("{A16}"),
        [
            "postgres://app:{s}@db.internal:5432/shop",
            "DATABASE_URL=mysql://root:{s}@10.0.0.5/shop?ssl=1",
            "redis://:{s}@cache:6379/0",
            "mongodb+srv://bot:{s}@cluster0.x.test/db",
            "amqp://guest:{s}@rabbit:5672//",
            "Server=db;Database=shop;User Id=sa;Password={s};Encrypt=true",
        ],
    ),
    "password": (password, SAID),
    "api key without form": (
        drawn("{A32}"),
        [
            *named("API_KEY", "apiKey", "SERVICE_API_KEY", "client_secret", "auth_token", "ACCESS_TOKEN"),
            *(
                "my api key is {s}",
                "X-Api-Key: {s}",
                "https://a.test/v1?api_key={s}&page=2",
                "tool --api-key {s} run",
            ),
        ],
    ),
    "hexadecimal secret": (drawn("{H40}"), named("SECRET_KEY", "webhookSecret", "SIGNING_KEY", "session_token")),
    "uuid secret": (lambda rng: str(uuid.UUID(int=rng.getrandbits(128))), named("CLIENT_SECRET", "api_key")),
    "curl password": (password, ["curl -u admin:{s} https://a.test/api", "curl -s --user 'bot:{s}' http://a.test"]),
}
