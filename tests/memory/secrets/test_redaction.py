"""What is masked, and how. The secrets are made up at run time, so that no scanner takes this file for a leak."""

import base64
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from secret_formats import FORMATS, made_up

from layerlore.memory.secrets.redaction import Redactor, mask_without_key


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
    assert count >= 1
    assert token not in masked
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


def test_json_takes_a_masked_name_for_no_context_of_its_value(redactor: Redactor) -> None:
    tokens = (made_up("ghp_<a36>", seed)[1] for seed in range(1000))
    # A digest without a letter leaves "token" as the last word of the mark.
    token = next(each for each in tokens if redactor.text(each)[0][:-1].rpartition(":")[2].isdigit())
    masked, count = redactor.json({token: "0000000¡"})
    assert count == 1
    assert redactor.json(masked) == (masked, 0)


def test_json_takes_the_name_around_a_mark_as_the_context_of_its_value(redactor: Redactor) -> None:
    masked, count = redactor.json({"[masked:x password": "hunter2hunter2", "[masked:url] password": "hunter3hunter3"})
    assert (count, "hunter" in str(masked)) == (2, False)


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
