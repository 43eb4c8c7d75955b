"""Lines without a secret: prose that talks of passwords, code, logs, hashes, identifiers, digests, placeholders."""

import base64
import hashlib
import json
import random
import uuid

from benchmarks.redaction_corpus import WORDS, drawn
from benchmarks.redaction_wild import SURROUNDINGS

_SUBJECTS = (
    "the daemon,our parser,a worker,the bridge,Douglas,the reviewer,that test,the new index,a client,the queue"
)
_VERBS = "keeps,drops,reads,writes,renames,merges,rejects,measures,explains,forgets,retries,caches,loads,prints"
_OBJECTS = (
    "the token count,every password field,an access token that expired,the secret of good tests,its API keys page"
    ",the login form,a private key file,two credentials,the session,public keys,a bearer of bad news,max_tokens"
    ",authorization in general,the key idea,the cookie banner,a password reset,the tokenizer,the passphrase prompt"
)
_TAILS = (
    "after the release.,in 250 ms.,before Friday,when version 2.3.1 is out,because of #4812,for 12 users,at 10:42"
    ",on port 8080,— and that is fine,(see docs/login.md),by 17 %,under Python 3.11,again and again"
    ",as agreed on 2026-03-14"
)
SUBJECTS, VERBS, OBJECTS, TAILS = (text.split(",") for text in (_SUBJECTS, _VERBS, _OBJECTS, _TAILS))


def _forms(rng: random.Random) -> list[str]:
    sha1 = hashlib.sha1(rng.randbytes(8), usedforsecurity=False).hexdigest()
    sha256 = hashlib.sha256(rng.randbytes(8)).hexdigest()
    some = str(uuid.UUID(int=rng.getrandbits(128)))
    word, other = rng.sample(WORDS, 2)
    number = rng.randrange(1, 10**6)
    return [
        f"commit {sha1}",
        f"fix({word}): keep the {other} order ({sha1[:7]})",
        f"sha256:{sha256}  {word}.tar.gz",
        f'"integrity": "sha512-{base64.b64encode(rng.randbytes(64)).decode()}"',
        f"request_id={some} status=200 duration_ms={number}",
        f'<img src="data:image/png;base64,{base64.b64encode(rng.randbytes(300)).decode()}">',
        f"password = getpass.getpass('{word}')",
        "api_key = os.environ['API_KEY']",
        f"token = self.{word}.next_token()",
        "password: str | None = None",
        "API_KEY=<your-api-key>",
        'password: "********"',
        "export DB_PASSWORD=${DB_PASSWORD}",
        "OPENAI_API_KEY=your-key-here",
        'const token = req.headers["x-api-key"];',
        "if not password: raise ValueError('password is required')",
        f"the password is stored as a bcrypt hash since version {number % 9}.2",
        "secret: projects/42/secrets/db/versions/3",
        f"max_tokens: {number}, tokens used: {number // 3}",
        f"next_page_token: {sha1[:20]}",
        f"def {word}_{other}(token: Token, secret: bytes) -> {word.capitalize()}:",
        f"https://{word}.test/{other}/{number}?page={number % 7}&sort=name",
        f"git clone https://git.test:8443/@{word}/{other}.git",
        f"{word}@{other}.test wrote: see {number}",
        f"docker run -u 1000:1000 {word}:{number % 90}.1",
        f"{number},{word},{other},{number * 3},2026-03-{number % 28 + 1:02}",
        f"kubectl get secret {word}-{other} -o yaml",
        f"assert tokens == ['{word}', '{other}']",
        "Authorization: Bearer $TOKEN",
        "the bearer token is sent in the Authorization header",
        f"class {word.capitalize()}TokenProvider(CredentialProvider):",
        f"/home/{word}/.ssh/id_ed25519.pub  SHA256:{base64.b64encode(rng.randbytes(32)).decode().rstrip('=')}",
        f"password_hash = hash_password({word})",
        f"- secret_name: {word}-{other}-tls",
        f"image: registry.test/{word}@sha256:{sha256}",
        f"forgot your password? write to {word}@{other}.test",
        f"0x{sha256[:40]} is the contract's address",
        f"the key point: {word} before {other}, always",
        f"{word}Key: {other}",
        f"token bucket of size {number % 100}, refill 5/s",
    ]


def _hard(rng: random.Random) -> list[str]:
    """What looks most like a secret and is none."""
    word, other = rng.sample(WORDS, 2)
    number = rng.randrange(1, 10**6)
    hexed, some = rng.randbytes(16).hex(), str(uuid.UUID(int=rng.getrandbits(128)))
    base = base64.b64encode(rng.randbytes(90)).decode()
    return [
        f"toolu_01{drawn('{A22}')(rng)} returned in {number % 900} ms",
        f'"id": "msg_01{drawn("{A22}")(rng)}", "model": "some-model-4-5"',
        f"chatcmpl-{drawn('{A29}')(rng)} finished: stop",
        f'etag: "{hexed}"',
        f"trace_id={hexed} span_id={hexed[:16]} msg='{word} opened'",
        f"session_id: {some}",
        f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA{drawn('{B43}')(rng)} {word}@{other}",
        f"-----BEGIN CERTIFICATE-----\n{base[:64]}\n{base[64:]}\n-----END CERTIFICATE-----",
        f"-----BEGIN PUBLIC KEY-----\n{base[:64]}\n-----END PUBLIC KEY-----",
        f"    --hash=sha256:{hexed}{hexed} \\\\",
        f'"resolved": "https://registry.test/{word}/-/{word}-{number % 9}.2.1.tgz",',
        f"e.exports=function(t){{var n=t.{word},r=t.token;return n&&r?n.{other}(r):null}}",
        f"!function(){{var a={number},b='{hexed[:12]}';window.{word}=a+b}}();",
        "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "aws_access_key_id = AKIAIOSFODNN7EXAMPLE",
        "OPENAI_API_KEY=sk-...",
        "token: ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "postgres://user:password@localhost:5432/app",
        "mysql://root:${MYSQL_ROOT_PASSWORD}@db/shop",
        "        env:\n          NPM_TOKEN: ${{ secrets.NPM_TOKEN }}",
        "  password = var.db_password",
        "password VARCHAR(255) NOT NULL,",
        "    password:\n      type: string\n      minLength: 12",
        "'password' => 'required|string|confirmed',",
        '<input type="password" name="password" autocomplete="current-password">',
        '"password.reset.title": "Choose a new password"',
        "secretKeyRef:\n  name: shop-db\n  key: password",
        f"the password policy wants {number % 20 + 8} characters, one of them a digit",
        "my password manager is the only one that knows the password",
        "never write the password into the repository; ask the vault",
        "the recovery codes are printed and kept in the safe",
        "she asked whether the backup code works twice",
        "Passwords are hashed with argon2id before they are stored",
        "das Passwort wird nie gespeichert, nur sein Hash",
        "le mot de passe est obligatoire",
        f"if token.kind == Kind.{word.upper()}: yield token",
        f"tokens = tokenizer.encode('{word} {other}')",
        f"secret = hmac.new(key, {word}.encode(), 'sha256')",
        "def check_password_hash(pwhash: str, password: str) -> bool:",
        f"const {{ accessToken, refreshToken }} = await {word}Client.login(credentials)",
        f"private readonly {word}Token: InjectionToken<{word.capitalize()}Service>",
        "assert response.json()['detail'] == 'Invalid token'",
        'curl -H "Authorization: Bearer $TOKEN" https://shop.test/api',
        "docker run -p 8080:80 -e MODE=test registry.test/shop:1.4",
        f"https://video.test/watch?v={drawn('{U11}')(rng)}&t={number % 90}s",
        f"https://docs.test/{word}?utm_source={other}&utm_campaign=spring-{number % 30}",
        f"Traceback: {word}.py:{number % 400}: in {other}_token",
        f"12:{number % 60:02}:45.{number % 1000:03} [{word}] authenticated as {other}",
        f"fe80::{hexed[:4]}:{hexed[4:8]}:{hexed[8:12]}:{hexed[12:16]}%eth0",
        f"cache key: {word}:{other}:{number}",
        f"primary key ({word}_id, {other}_id), foreign key ({word}) references {other}",
        f"press any key to continue, or the {word} key for help",
        f"S3 key: {word}/{other}/2026/03/{number}.parquet",
        f"idempotency-key: {some}",
        f"csrf protection uses a token per form; see {word}.md",
        f"pass {word} as the first argument and {other}2 as the second",
        f"all 1{number % 900} tests pass in {number % 60} s",
        f"login: {word}, then open {other}/index.html",
        f"# {word.capitalize()} and its keys",
        "0000000000000000000000000000000000000000",
        f"| {word} | {number} | {other} | password field |",
        f"git@github.test:{word}/{other}.git",
        f"npm install {word}-{other}@{number % 9}.0.1 --save-dev",
        f"export const {word.upper()}_TOKEN_LIMIT = {number};",
        f"{json.dumps({'token_type': 'bearer', 'expires_in': number, 'scope': word})}",
    ]


def harmless(rng: random.Random) -> str:
    """A line without a secret."""
    kind = rng.random()
    if kind < 0.3:
        return " ".join([rng.choice(SUBJECTS), rng.choice(VERBS), rng.choice(OBJECTS), rng.choice(TAILS)])
    line = rng.choice(_forms(rng) if kind < 0.6 else _hard(rng))
    return SURROUNDINGS[rng.choice(list(SURROUNDINGS))](line) if rng.random() < 0.5 else line
