"""What masking leaves alone: ordinary texts, look-alikes, payloads; and the limits within which it works."""

import base64
import json
import random
import string
import uuid
from collections.abc import Callable

import pytest
from growth import grows_in_step
from hypothesis import given
from hypothesis import strategies as st

from layerlore.memory.secrets.redaction import MAX_DEPTH, Redactor
from layerlore.storage.core.errors import LimitExceeded

WORDS = {
    "en": "the server request database review token secret password key account function returns error please update"
    " meeting tomorrow because customer deployment authentication internationalization branch pipeline",
    "de": "die Datenbank Überprüfung möglich Schlüssel Passwort Kennwort Verschlüsselungsverfahren Größe bitte morgen"
    " Zugangsberechtigung ändern wegen Straße",
    "fr": "la clé secrète mot de passe été données réunion demain parce que très où garçon s'il vous plaît",
    "es": "la contraseña clave año mañana reunión datos niño servidor porque también corazón",
    "ru": "ключ пароль сервер база данных завтра встреча потому что ошибка запрос ответ",
    "ja": "秘密 鍵 パスワード データベース 会議 明日 サーバー エラー お願いします",
    "zh": "密钥 密码 数据库 服务器 明天 会议 错误 请求 因为",
    "ar": "مفتاح كلمة المرور قاعدة البيانات غدا اجتماع خادم",
}


class Benign:
    """Made-up ordinary texts: each method is one sort, filled from a seeded source of chance."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def chars(self, letters: str, length: int) -> str:
        return "".join(self.rng.choices(letters, k=length))

    def hex(self, length: int) -> str:
        return self.chars("0123456789abcdef", length)

    def word(self, language: str = "en") -> str:
        return self.rng.choice(WORDS[language].split())

    def name(self) -> str:
        return self.rng.choice("_-.").join(self.word() for _ in range(self.rng.randint(2, 5)))

    def id(self) -> str:
        return str(uuid.UUID(int=self.rng.getrandbits(128), version=4))

    def when(self) -> str:
        r = self.rng.randint
        return f"20{r(10, 30)}-{r(1, 12):02}-{r(1, 28):02}T{r(0, 23):02}:{r(0, 59):02}:{r(0, 59):02}.{r(0, 999999):06}Z"

    def prose(self) -> str:
        language = self.rng.choice(list(WORDS))
        joint = "" if language in ("ja", "zh") else " "
        return joint.join(self.word(language) for _ in range(self.rng.randint(5, 60))) + self.rng.choice(".?!。")

    def python(self) -> str:
        a, b, c = (self.name().replace("-", "_").replace(".", "_") for _ in range(3))
        return self.rng.choice(
            [
                f"def {a}({b}: str, password: str = '') -> None:\n    self.{c} = {b}[{self.rng.randint(0, 9)}]  # sk-{a}\n",
                f"{a}_token = os.environ['{b.upper()}_API_KEY']\nclient = Client(api_key={a}_token, timeout=30)\n",
                f"connect(host={a}, user={b}, password={c}, port=5432)\n",
                f"secret_key = settings.{a}.{b}_v2\nassert secret_key == load_secret({c!r})\n",
            ]
        )

    def javascript(self) -> str:
        a, b = self.word(), self.word()
        return (
            f"const {a}Key = `${{process.env.{b.upper()}_TOKEN}}`;\nfetch(`https://${{host}}:${{port}}/{a}/${{{b}}}@2x`, "
            f'{{headers: {{Authorization: `Bearer ${{{a}Key}}`, "x-api-key": config.{b}ApiKey}}}});'
        )

    def log(self) -> str:
        return "\n".join(
            f"{self.when()} {self.rng.choice(['INFO', 'ERROR'])} [{self.hex(16)}] module={self.name()} "
            f"user={self.word()} request_id={self.id()} took={self.rng.random():.3f}s trace={self.hex(32)}"
            for _ in range(3)
        )

    def traceback(self) -> str:
        path = "/".join(self.name() for _ in range(3))
        return (
            f'Traceback (most recent call last):\n  File "/usr/lib/python3.11/{path}.py", line {self.rng.randint(1, 999)}, '
            f"in {self.word()}\n    raise KeyError({self.name()!r})\nKeyError: {self.id()!r} at 0x{self.hex(12)}"
        )

    def url(self) -> str:
        host = f"{self.word()}.example.{self.rng.choice(['com', 'org', 'de'])}"
        return self.rng.choice(
            [
                f"https://{host}:8443/{self.name()}/{self.id()}?page={self.rng.randint(1, 99)}&v={self.hex(40)}#{self.word()}",
                f"postgres://{host}:5432/{self.word()} and redis://{host}:6379/0, mail me@{host}",
                f"https://medium.com/@{self.word()}/{self.word()}-{self.word()}-{self.hex(12)}",
                f"git clone git@{host}:{self.word()}/{self.word()}.git && ssh://deploy@{host}:2222/x",
                f"https://cdn.jsdelivr.net/npm/{self.word()}@{self.rng.randint(1, 9)}.2.1/dist/{self.word()}.min.js",
            ]
        )

    def hashes(self) -> str:
        digest = base64.b64encode(self.rng.randbytes(48)).decode()
        return f'commit {self.hex(40)}\nmd5 {self.hex(32)} sha256:{self.hex(64)} integrity sha384-{digest} etag W/"{self.hex(16)}"'

    def image(self) -> str:
        payload = base64.b64encode(self.rng.randbytes(self.rng.randint(200, 3000))).decode()
        return f"![{self.word()}](data:image/png;base64,{payload})"

    def json(self) -> str:
        fields = {
            "id": self.id(),
            "token_count": self.rng.randint(0, 10**6),
            "next_page_token": None,
            "key": self.name(),
        }
        fields |= {"created_at": self.when(), "tags": [self.word(), self.word()], "etag": self.hex(32), "secret": False}
        return json.dumps(fields, indent=self.rng.choice([None, 2]))

    def markdown(self) -> str:
        return (
            f"# {self.prose()}\n\n- [ ] **{self.word()}**: `{self.name()}`\n- [link](https://example.com/{self.name()})\n\n"
            f"| key | token |\n|---|---|\n| {self.word()} | {self.rng.randint(1, 10**9)} |\n\n```sh\nmake {self.word()}\n```\n"
        )

    def shell(self) -> str:
        return self.rng.choice(
            [
                f"docker run -u 1000:1000 -e API_KEY=$API_KEY -p 8080:80 {self.word()}/{self.word()}@sha256:{self.hex(64)}",
                f"export {self.word().upper()}_TOKEN=$(cat /run/secrets/{self.name()}) && curl -u $USER:$PASS https://x.example",
                f"kubectl get secret {self.name()} -o jsonpath='{{.data.password}}' | base64 -d",
                f"grep -rn 'password=' src/ | head -{self.rng.randint(1, 50)}; psql -h localhost -U {self.word()} -d app",
            ]
        )

    def versions(self) -> str:
        r = self.rng.randint
        return "\n".join(
            f"{self.name()}=={r(0, 9)}.{r(0, 30)}.{r(0, 9)}rc{r(1, 9)} --hash=sha256:{self.hex(64)}" for _ in range(4)
        )

    def placeholder(self) -> str:
        return self.rng.choice(
            [
                f"{self.word().upper()}_API_KEY=YOUR_API_KEY  # or sk-... or <your-{self.word()}-key>",
                f"token: ghp_{'x' * 36}\nkey: sk-{'x' * 48}\nslack: xoxb-your-{self.word()}-token",
                f"postgresql://${{DB_USER}}:${{DB_PASSWORD}}@{self.word()}:5432/app",
                f"Server={self.word()};User Id=sa;Password={{your_password}};",
                f"Authorization: Bearer <{self.word()}>\nX-Api-Key: ****************",
                f"sk-proj-your-{self.word()}-key-goes-here and AIza... and AKIA...",
            ]
        )

    def path(self) -> str:
        return f"C:\\Users\\{self.word()}\\npm_{self.name()}\\{self.name()}.pem\n/etc/ssl/private/{self.name()}/{self.hex(40)}.key"

    def identifiers(self) -> str:
        camel = "".join(self.word().capitalize() for _ in range(4))
        return f"{camel}V2 hf_hub_{self.name()} npm_config_{self.name()} sk-{self.name()} task-{self.id()} key-{self.name()} {camel.upper()}"

    def sorts(self) -> list[Callable[[], str]]:
        code = [self.python, self.javascript, self.log, self.traceback, self.json, self.shell, self.identifiers]
        return [
            *code,
            self.prose,
            self.url,
            self.hashes,
            self.image,
            self.markdown,
            self.versions,
            self.placeholder,
            self.path,
        ]


@pytest.fixture
def redactor() -> Redactor:
    return Redactor(b"an installation's key")


def test_of_a_thousand_benign_texts_at_most_two_in_a_hundred_are_touched(redactor: Redactor) -> None:
    sorts = Benign(seed=7).sorts()
    texts = [sorts[number % len(sorts)]() for number in range(1000)]
    assert len(set(texts)) > 900
    touched = [masked for text in texts if (masked := redactor.text(text)[0]) != text]
    assert len(touched) <= 20, touched[:5]


@pytest.mark.parametrize(
    "text",
    [
        "export OPENAI_API_KEY=sk-...",
        "OPENAI_API_KEY=YOUR_API_KEY",
        "sk-proj-your-key-goes-here-please",
        "sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "glpat-your_personal_access_token",
        "xoxb-your-bot-token-here",
        "postgres://${DB_USER}:${DB_PASSWORD}@${DB_HOST}/app",
        "postgres://user:<password>@localhost/app",
        "postgres://user:****@localhost/app",
        "mysql://user:%s@localhost/app",
        "redis://user:{password}@localhost",
        "https://example.com:8080/path@2x.png",
        "git@github.com:someone/project.git, ssh://git@host:22/x",
        "Server=db;User Id=sa;Password=$(SqlPassword);",
        "connect(host=host, user=user, password=password)",
        "def connect(user=None,password=None):",
        "Authorization: Bearer <token>",
        "The bearer authentication scheme and basic authentication",
        "Basic information, basic functionality, basic requirements",
        "A file begins with -----BEGIN PRIVATE KEY----- and ends with -----END PRIVATE KEY-----, mostly.",
        "-----BEGIN PUBLIC KEY-----\nMFwwDQYJKoZIhvcNAQEBBQADSwAwSAJBAK8Q\n-----END PUBLIC KEY-----",
        "api_key = get_api_key_from_environment_v2()",
        "secret: projects/1234567/secrets/database-url/versions/3",
        "the task-sk-very-long-branch-name-with-many-words-2024 branch",
        "cache_key=user:1234:profile:settings:2024-01-15",
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "token count: 123456789012345678901234567890",
    ],
)
def test_placeholders_and_look_alikes_stay(redactor: Redactor, text: str) -> None:
    assert redactor.text(text) == (text, 0)


def nested(depth: int) -> list[object]:
    value: list[object] = []
    for _ in range(depth - 1):
        value = [value]
    return value


def test_json_may_be_64_deep_and_not_65(redactor: Redactor) -> None:
    assert redactor.json(nested(MAX_DEPTH))[1] == 0
    with pytest.raises(LimitExceeded, match="64"):
        redactor.json(nested(MAX_DEPTH + 1))


def test_base64_of_images_stays(redactor: Redactor) -> None:
    payload = "".join(random.Random(0).choices(string.ascii_letters + string.digits + "+/", k=200_000)) + "=="
    image = {"url": f"data:image/png;base64,{payload}", "data": payload, "urlsafe": payload.translate({43: 45, 47: 95})}
    assert redactor.json(image) == (image, 0)


@given(st.text())
def test_a_text_without_secrets_comes_back_as_it_is(text: str) -> None:
    assert Redactor(b"k").text(text) == (text, 0)


@pytest.mark.parametrize(
    "unit",
    [
        "a",
        "-",
        "sk-",
        "sk-a-",
        "eyJaaaaaaaaaa.",
        "ghp_aaaaaaaaaaaaaaaaaaaaaaaa ",
        "%AAAAAAAAAAAAAAAAAAAAAA",
        "fio-u-aB3-",
        "ATATT3aaaa=",
        "://a:",
        "://a:b@c password=",
        "user=a;pwd=b(",
        "curl -u a:",
        "bearer%20",
        "api_key=a.",
        "-----BEGIN PRIVATE KEY-----\n",
        "-----BEGIN A ",
        "[masked:jwt]ghp_",
    ],
)
def test_work_grows_in_step_with_the_text_whatever_it_is(redactor: Redactor, unit: str) -> None:
    needles = "private key bearer secret token= curl sig= "

    assert grows_in_step(lambda length: redactor.text(needles + unit * (length // len(unit))), 128 * 1024)
