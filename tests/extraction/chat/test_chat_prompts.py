"""The texts sent to a model, as they are rendered."""

import re
import subprocess
import sys

import pytest
from jinja2 import UndefinedError

from layerlore.prompts import FOLDER, render

NAMES = sorted(path.stem for path in FOLDER.glob("*.txt"))


def test_a_prompt_comes_with_its_name_and_version() -> None:
    prompt = render("repair", wrong="it is not a JSON object", schema={"type": "object"})
    assert re.fullmatch(r"repair/\d+", prompt.version)
    assert "cannot be used: it is not a JSON object\n" in prompt.text
    assert prompt.text.endswith('{"type": "object"}')


@pytest.mark.parametrize("name", NAMES)
def test_every_prompt_says_its_name_and_version_in_its_first_line(name: str) -> None:
    first = (FOLDER / f"{name}.txt").read_text(encoding="utf-8").split("\n")[0]
    assert re.match(rf"\{{# {name}/[1-9]\d*: .+ #\}}$", first), first


def test_a_value_that_is_missing_and_one_that_is_too_many_are_errors() -> None:
    with pytest.raises(UndefinedError, match="wrong"):
        render("repair", schema={})
    with pytest.raises(TypeError, match="no place for worng"):
        render("repair", worng="x", wrong="x", schema={})


def test_a_name_that_there_is_no_prompt_of_is_an_error() -> None:
    for name in ("nothing", "../pyproject", "/etc/passwd"):
        with pytest.raises(LookupError):
            render(name)


def test_values_are_put_in_as_they_are() -> None:
    said = "{{ schema }} {% raw %} {# x #} <b>&amp;</b> \"'\n\n  tail"
    assert said in render("repair", wrong=said, schema={}).text
    assert '{"a": "<é&>"}' in render("repair", wrong="", schema={"a": "<é&>"}).text


def test_a_program_that_renders_nothing_does_not_load_the_template_engine() -> None:
    code = (
        "import sys, layerlore.prompts as p; print('jinja2' in sys.modules);"
        "p.render('json_answer', schema={}); print('jinja2' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["False", "True"]
