"""What is masked, and how. The secrets are made up at run time, so that no scanner takes this file for a leak."""

import base64
import json
import random
import re
import string
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memstrata.memory.redaction import Redactor, mask_without_key

LETTERS = {
    "a": string.ascii_letters + string.digits,
    "h": "0123456789abcdef",
    "w": string.ascii_letters + string.digits + "_-",
    "u": string.ascii_uppercase + string.digits,
    "l": string.ascii_lowercase + string.digits,
    "d": string.digits,
    "b": string.ascii_letters + string.digits + "+/",
    "m": "qpzry9x8gf2tvdw0s3jn54khce6mua7l".upper(),
    "z": "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",
}

# <a36> stands for 36 random letters and digits, <id> for a UUID; the secret is all of it, or what stands in « ».
FORMATS = [
    ("openai-key", "sk-<a20>T3BlbkFJ<a20>"),
    ("openai-key", "sk-proj-<w120>"),
    ("openai-key", "sk-svcacct-<w60>"),
    ("openai-key", "sk-admin-<w60>"),
    ("openai-key", "sk-<h32>"),
    ("anthropic-key", "sk-ant-api03-<w93>AA"),
    ("anthropic-key", "sk-ant-oat01-<w86>"),
    ("openrouter-key", "sk-or-v1-<h64>"),
    ("langfuse-key", "sk-lf-<id>"),
    ("google-api-key", "AIza<w35>"),
    ("google-oauth-token", "ya29.<w100>"),
    ("google-client-secret", "GOCSPX-<w28>"),
    ("google-refresh-token", "1//0<w60>"),
    ("hugging-face-token", "hf_<a34>"),
    ("replicate-token", "r8_<a37>"),
    ("groq-key", "gsk_<a52>"),
    ("perplexity-key", "pplx-<a48>"),
    ("xai-key", "xai-<a80>"),
    ("fireworks-key", "fw_<a24>"),
    ("cerebras-key", "csk-<l48>"),
    ("nvidia-key", "nvapi-<w64>"),
    ("tavily-key", "tvly-<a32>"),
    ("langsmith-key", "lsv2_pt_<h32>_<h10>"),
    ("pinecone-key", "pcsk_<a6>_<a63>"),
    ("firecrawl-key", "fc-<h32>"),
    ("together-key", "tgp_v1_<w43>"),
    ("elevenlabs-key", "sk_<h48>"),
    ("databricks-token", "dapi<h32>"),
    ("aws-access-key-id", "AKIA<m16>"),
    ("aws-access-key-id", "ASIA<m16>"),
    ("aws-secret-key", "aws_secret_access_key = «<b40>»"),
    ("aws-secret-key", 'AWS_SECRET_ACCESS_KEY="«<b40>»"'),
    ("aws-session-token", "aws_session_token=«<b200>==»"),
    ("alibaba-access-key-id", "LTAI<a20>"),
    ("tencent-secret-id", "AKID<a32>"),
    ("digitalocean-token", "dop_v1_<h64>"),
    ("heroku-key", "HRKU-AA<w58>"),
    ("fly-token", "fo1_<w43>"),
    ("render-key", "rnd_<a32>"),
    ("netlify-token", "nfp_<a40>"),
    ("supabase-token", "sbp_<h40>"),
    ("supabase-token", "sb_secret_<w31>"),
    ("planetscale-token", "pscale_tkn_<w43>"),
    ("planetscale-token", "pscale_pw_<w43>"),
    ("neon-key", "napi_<l64>"),
    ("cloudflare-key", "v1.0-<h24>-<h146>"),
    ("tailscale-key", "tskey-auth-<a12>-<a32>"),
    ("github-token", "ghp_<a36>"),
    ("github-token", "gho_<a36>"),
    ("github-token", "ghu_<a36>"),
    ("github-token", "ghs_<a36>"),
    ("github-token", "ghr_<a36>"),
    ("github-token", "github_pat_<a22>_<a59>"),
    ("gitlab-token", "glpat-<w20>"),
    ("gitlab-token", "gldt-<w20>"),
    ("gitlab-token", "glrt-<w20>"),
    ("bitbucket-password", "ATBB<a32>"),
    ("atlassian-token", "ATATT3<w180>=<u8>"),
    ("buildkite-token", "bkua_<h40>"),
    ("circleci-token", "CCIPAT_<a22>_<h40>"),
    ("sonar-token", "squ_<h40>"),
    ("pulumi-token", "pul-<h40>"),
    ("terraform-token", "<a14>.atlasv1.<w67>"),
    ("vault-token", "hvs.<w92>"),
    ("doppler-token", "dp.pt.<a43>"),
    ("npm-token", "npm_<a36>"),
    ("pypi-token", "pypi-AgEIcHlwaS5vcmc<w150>"),
    ("rubygems-key", "rubygems_<h48>"),
    ("crates-token", "cio<a32>"),
    ("nuget-key", "oy2<l43>"),
    ("docker-token", "dckr_pat_<w27>"),
    ("artifactory-key", "AKCp<a69>"),
    ("stripe-key", "sk_live_<a24>"),
    ("stripe-key", "rk_live_<a99>"),
    ("webhook-signing-secret", "whsec_<b32>"),
    ("shopify-token", "shpat_<h32>"),
    ("square-token", "sq0atp-<w22>"),
    ("plaid-token", "access-production-<id>"),
    ("easypost-key", "EZAK<a54>"),
    ("shippo-token", "shippo_live_<h40>"),
    ("slack-token", "xoxb-<d12>-<d13>-<a24>"),
    ("slack-token", "xoxp-<d12>-<d12>-<d12>-<h32>"),
    ("slack-token", "xapp-1-A<u10>-<d13>-<h64>"),
    ("slack-webhook", "https://hooks.slack.com/services/«T<u10>/B<u10>/<a24>»"),
    ("discord-token", "MT<a24>.<w6>.<w38>"),
    ("discord-webhook", "https://discord.com/api/webhooks/«<d19>/<w68>»"),
    ("teams-webhook", "https://acme.webhook.office.com/webhookb2/«<id>@<id>/IncomingWebhook/<h32>/<id>»"),
    ("telegram-token", "<d10>:AA<w33>"),
    ("twilio-key", "SK<h32>"),
    ("sendgrid-key", "SG.<w22>.<w43>"),
    ("mailgun-key", "key-<h32>"),
    ("mailchimp-key", "<h32>-us21"),
    ("brevo-key", "xkeysib-<h64>-<a16>"),
    ("resend-key", "re_<a8>_<a24>"),
    ("hubspot-token", "pat-na1-<id>"),
    ("facebook-token", "EAA<a160>"),
    ("grafana-token", "glsa_<a32>_<h8>"),
    ("grafana-token", "glc_<b120>"),
    ("new-relic-key", "NRAK-<u27>"),
    ("new-relic-key", "<h32>FFFFNRAL"),
    ("sentry-token", "sntryu_<h64>"),
    ("dynatrace-token", "dt0c01.<u24>.<u64>"),
    ("honeycomb-key", "hcaik_<l58>"),
    ("posthog-key", "phx_<a43>"),
    ("linear-key", "lin_api_<a40>"),
    ("notion-token", "ntn_<d11><a35>"),
    ("notion-token", "secret_<a43>"),
    ("airtable-token", "pat<a14>.<h64>"),
    ("asana-token", "1/<d16>:<h32>"),
    ("figma-token", "figd_<w40>"),
    ("clickup-token", "pk_<d8>_<u32>"),
    ("contentful-token", "CFPAT-<w43>"),
    ("postman-key", "PMAK-<h24>-<h34>"),
    ("age-secret-key", "AGE-SECRET-KEY-1<m58>"),
    ("onepassword-token", "ops_eyJ<b400>"),
    ("wallet-private-key", "xprv<z107>"),
    ("jwt", "eyJ<w33>.eyJ<w60>.<w43>"),
    ("bearer-token", "Authorization: Bearer «<a40>»"),
    ("bearer-token", "Authorization: token «<h40>»"),
    ("assigned-secret", "MISTRAL_API_KEY=«<a32>»"),
    ("assigned-secret", '"client_secret": "«<a40>»"'),
    ("azure-shared-key", "AccountName=acme;AccountKey=«<b86>==»;EndpointSuffix=core.windows.net"),
    ("signed-url", "https://acme.blob.core.windows.net/c?sv=2024-08-04&sig=«<a43>%3D»"),
    ("azure-client-secret", "<a3>8Q~<a34>"),
    ("azure-key", "<a52>JQQJ99<a26>"),
    ("url-password", "postgresql://app:«<a16>»@db.example.com:5432/app?sslmode=require"),
    ("url-password", "mysql://root:«<a8>!$<a4>»@127.0.0.1/shop"),
    ("url-password", "mongodb+srv://reader:«<a12>»@cluster0.example.mongodb.net/test"),
    ("url-password", "redis://:«<a20>»@cache:6379/0"),
    ("url-password", "amqps://guest:«<a12>»@rabbit:5671/vhost"),
    ("url-password", "https://deploy:«p@<a10>»@git.example.com/x.git"),
    ("connection-password", "Server=tcp:db,1433;User Id=sa;Password=«<a12>!»;Encrypt=True"),
    ("connection-password", "host=localhost dbname=app user=app password=«<a14>» sslmode=disable"),
    ("connection-password", "jdbc:mysql://db/shop?user=root&password=«<a12>»&useSSL=true"),
    ("connection-password", "cache.example.net:6380,password=«<a43>=»,ssl=True,abortConnect=False"),
    ("connection-password", "machine api.example.com login bob password «<a12>»\nmachine b login c"),
    ("curl-password", "curl -s -u admin:«<a12>» https://api.example.com/x"),
    ("private-key", "-----BEGIN RSA PRIVATE KEY-----\n<b64>\n<b64>\n<b21>=\n-----END RSA PRIVATE KEY-----"),
    ("private-key", "-----BEGIN OPENSSH PRIVATE KEY-----\n<b70>\n<b70>\n-----END OPENSSH PRIVATE KEY-----"),
    (
        "private-key",
        "-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: GnuPG v2 - x\n\n<b64>\n=<b4>\n-----END PGP PRIVATE KEY BLOCK-----",
    ),
    ("private-key", "-----BEGIN PRIVATE KEY-----\\n<b64>\\n<b64>\\n-----END PRIVATE KEY-----"),
    ("private-key", "-----BEGIN EC PRIVATE KEY-----\n<b64>\n<b64>"),
    ("private-key", "Private-Lines: 2\n«<b64>\n<b40>»\nPrivate-MAC: 00"),
]


def made_up(template: str, seed: int) -> tuple[str, str, str]:
    """What stands before the secret, the secret, and what stands after it."""
    rng = random.Random(f"{template}{seed}")

    def fill(slot: re.Match[str]) -> str:
        if slot[0] == "<id>":
            return str(uuid.UUID(int=rng.getrandbits(128), version=4))
        letters = LETTERS[slot[1]]
        text = rng.choices(letters, k=int(slot[2]))
        # Providers' random parts may end in "-" or "+", but then nobody can tell where they end: not here.
        text[-1] = rng.choice([letter for letter in letters if letter.isalnum()])
        return "".join(text)

    filled = re.sub(r"<([a-z])(\d+)>|<id>", fill, template)
    before, secret, after = re.split("[«»]", filled) if "«" in filled else ("", filled, "")
    return before, secret, after


@pytest.fixture
def redactor() -> Redactor:
    return Redactor(b"an installation's key")


def test_the_list_covers_sixty_formats_and_more() -> None:
    assert len({template for _, template in FORMATS}) == len(FORMATS) >= 100
    assert len({kind for kind, _ in FORMATS}) >= 60


@pytest.mark.parametrize(("kind", "template"), FORMATS)
def test_a_secret_is_masked_and_the_text_around_it_stays(redactor: Redactor, kind: str, template: str) -> None:
    for seed in range(5):
        before, secret, after = made_up(template, seed)
        for left, right in [("", ""), ("see ", " there"), ("keys:\n", "\nthat was it"), ("密钥", "。")]:
            masked, count = redactor.text(left + before + secret + after + right)
            assert count == 1
            start, end = left + before, after + right
            assert masked[: len(start)] == start
            assert masked[len(masked) - len(end) :] == end
            assert re.fullmatch(rf"\[masked:{kind}:[0-9a-f]{{8}}\]", masked[len(start) : len(masked) - len(end)])
            assert secret not in masked


def test_the_surroundings_stay_in_code_and_in_json(redactor: Redactor) -> None:
    _, token, _ = made_up("ghp_<a36>", 0)
    for template in [
        "x = '{}'",
        "({})",
        "`{}`.",
        "{}, {}",
        "a={}&b=1",
        "<b>{}</b>",
        "{}\r\n",
        "https://x.example/{}/y",
    ]:
        mark = redactor.text(token)[0]
        assert redactor.text(template.format(token, token))[0] == template.format(mark, mark)


@pytest.mark.parametrize("escape", ["\\n", "\\t", "\\u0022", "%3D", "%20"])
@pytest.mark.parametrize("template", ["sk-proj-<w60>", "ghp_<a36>", "AKIA<m16>", "eyJ<w33>.eyJ<w60>.<w43>"])
def test_a_token_behind_an_escape_is_masked(redactor: Redactor, escape: str, template: str) -> None:
    _, token, _ = made_up(template, 1)
    masked, count = redactor.text("key" + escape + token)
    assert count == 1
    assert masked.startswith("key" + escape + "[masked:")


def test_equal_secrets_leave_equal_marks_and_others_do_not(redactor: Redactor) -> None:
    (_, one, _), (_, other, _) = made_up("ghp_<a36>", 1), made_up("ghp_<a36>", 2)
    first, again, different = redactor.text(f"{one} {one} {other}")[0].split(" ")
    assert first == again != different
    assert Redactor(b"another installation's key").text(one)[0] != first


def test_the_mark_is_an_hmac_of_the_secret_alone(redactor: Redactor) -> None:
    before, secret, after = made_up("https://deploy:«<a20>»@git.example.com/x", 0)
    there = redactor.text(before + secret + after)[0]
    elsewhere = redactor.text(f"redis://:{secret}@cache:6379")[0]
    assert re.findall(r"\[.*?\]", there) == re.findall(r"\[.*?\]", elsewhere)


def test_a_known_token_keeps_its_kind_inside_of_a_url_or_a_header(redactor: Redactor) -> None:
    _, token, _ = made_up("ghp_<a36>", 0)
    mark = redactor.text(token)[0]
    for template in ["https://x-access-token:{}@github.com/a/b", "Authorization: Bearer {}", "API_TOKEN={}"]:
        assert redactor.text(template.format(token)) == (template.format(mark), 1)


def test_of_secrets_inside_of_one_another_the_outer_one_is_masked(redactor: Redactor) -> None:
    _, token, _ = made_up("ghp_<a36>", 0)
    masked, count = redactor.text(f"https://me:{token}.{token}@host/x")
    assert count == 1
    assert re.fullmatch(r"https://me:\[masked:url-password:[0-9a-f]{8}\]@host/x", masked)


def test_a_mark_is_never_part_of_a_secret(redactor: Redactor) -> None:
    mark = redactor.text(made_up("ghp_<a36>", 0)[1])[0]
    for text in [f"https://me:a{mark}b@host/x", f"https://me:{mark}@host/x", f"host=db password={mark}x sslmode=on"]:
        assert redactor.text(text) == (text, 0)


def test_a_secret_that_another_one_hid_is_masked_too(redactor: Redactor) -> None:
    _, token, _ = made_up("ghp_<a36>", 0)
    text = f"host=db password={'a' * 256}{token}"
    masked, count = redactor.text(text)
    assert count == 2
    assert masked.endswith(redactor.text(token)[0])
    assert redactor.text(masked) == (masked, 0)


def test_basic_credentials_are_known_by_what_they_decode_to(redactor: Redactor) -> None:
    credentials = base64.b64encode(b"admin:" + made_up("<a12>", 0)[1].encode()).decode()
    for template in ["Authorization: Basic {}", '{{"auths": {{"ghcr.io": {{"auth": "{}"}}}}}}']:
        masked, count = redactor.text(template.format(credentials))
        assert count == 1
        assert credentials not in masked
    assert redactor.text("Authorization: Basic " + base64.b64encode(b"no pair").decode())[1] == 0


def test_text_after_a_key_block_that_was_cut_stays(redactor: Redactor) -> None:
    _, block, _ = made_up("-----BEGIN RSA PRIVATE KEY-----\n<b64>\n<b64>", 0)
    masked, count = redactor.text(block + "\n\nIs this key still valid?")
    assert count == 1
    assert masked.endswith("\n\nIs this key still valid?")


def test_json_masks_values_and_keys_at_any_depth_and_copies_only_then(redactor: Redactor) -> None:
    _, token, _ = made_up("ghp_<a36>", 0)
    mark = redactor.text(token)[0]
    value = {"a": [1, None, True, {"b": f"use {token}"}], token: 2.5}
    before = json.dumps(value)
    assert redactor.json(value) == ({"a": [1, None, True, {"b": f"use {mark}"}], mark: 2.5}, 2)
    assert json.dumps(value) == before
    benign = {"a": ["b", {"c": 1}]}
    assert redactor.json(benign)[0] is benign
    assert redactor.json(None) == (None, 0)


def test_json_takes_the_name_of_a_value_as_its_context(redactor: Redactor) -> None:
    _, secret, _ = made_up("<a40>", 0)
    masked, count = redactor.json({"env": {"MISTRAL_API_KEY": secret, "BUILD": secret}})
    assert count == 1
    assert masked["env"]["MISTRAL_API_KEY"].startswith("[masked:assigned-secret:")
    assert masked["env"]["BUILD"] == secret
    assert redactor.json(masked) == (masked, 0)


def test_json_loses_no_entry_when_a_mark_is_already_a_key(redactor: Redactor) -> None:
    _, token, _ = made_up("ghp_<a36>", 0)
    mark = redactor.text(token)[0]
    for value in [{token: 1, mark: 2}, {mark: 2, token: 1}]:
        masked, count = redactor.json(value)
        assert count == 1
        assert sorted(masked.values()) == [1, 2]


def test_without_a_key_the_mark_names_the_kind_only(redactor: Redactor) -> None:
    _, token, _ = made_up("ghp_<a36>", 0)
    masked = mask_without_key(f"failed: {token}")
    assert masked == "failed: [masked:github-token]"
    assert redactor.text(masked) == (masked, 0)


def test_an_empty_key_is_refused() -> None:
    with pytest.raises(ValueError, match="key"):
        Redactor(b"")


def test_lone_surrogates_are_no_obstacle(redactor: Redactor) -> None:
    masked, count = redactor.text("https://u:\ud800pass1@host and \udfff")
    assert count == 1
    assert masked.endswith("@host and \udfff")


SECRETS = st.builds(lambda pick, seed: made_up(pick[1], seed), st.sampled_from(FORMATS), st.integers(0, 99))
SEAMS = (
    r"[masked: [masked:jwt] [masked:jwt:12345678] ] : :// @ host= password= ; ghp_ sk- eyJ . - _ a aB3 Bearer api_key="
    r" secret: %3D \n -----BEGIN -----"
)
# Whatever may disturb a seam: pieces of secrets, of marks, of contexts, and what parts them.
PIECES = st.one_of(
    SECRETS.map("".join),
    SECRETS.map(lambda parts: parts[1]),
    SECRETS.map(lambda parts: parts[1][: len(parts[1]) // 2]),
    st.sampled_from(SEAMS.split()),
    st.text(max_size=5),
)


@given(st.lists(PIECES, max_size=8), st.sampled_from(["", " ", "\n", "-", "_"]))
def test_masking_what_is_masked_changes_nothing(pieces: list[str], joint: str) -> None:
    redactor = Redactor(b"k")
    text = joint.join(pieces)
    masked, count = redactor.text(text)
    assert (count == 0) == (masked == text)
    assert redactor.text(masked) == (masked, 0)
    unkeyed = mask_without_key(text)
    assert mask_without_key(unkeyed) == unkeyed
    in_json = redactor.json({text: [text]})[0]
    assert redactor.json(in_json) == (in_json, 0)


@given(st.lists(st.tuples(st.text(alphabet="aeiou ?!\n,é漢字🙂", max_size=20), SECRETS), max_size=5))
def test_only_the_secrets_change(pairs: list[tuple[str, tuple[str, str, str]]]) -> None:
    text = "".join(f"{benign}\n{before}{secret}{after}\n.\n" for benign, (before, secret, after) in pairs)
    masked, count = Redactor(b"k").text(text)
    assert count == len(pairs)
    stays = "".join(
        f"{re.escape(benign)}\n{re.escape(before)}MARK{re.escape(after)}\n\\.\n" for benign, (before, _, after) in pairs
    )
    assert re.fullmatch(stays.replace("MARK", r"\[masked:[a-z0-9-]+:[0-9a-f]{8}\]"), masked)
