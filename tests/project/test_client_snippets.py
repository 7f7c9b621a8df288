"""What docs/clients.md shows of the clients for TypeScript is what the tests of the clients run."""

import json
import re

from source_tree import ROOT

NODE = ROOT / "tests" / "interop" / "node"
SECTION = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8").partition("\n## TypeScript\n")[2]


def test_the_guide_shows_every_typescript_client_as_it_runs() -> None:
    shown = re.findall(r"^```js\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL)
    assert {path.read_text(encoding="utf-8") for path in (NODE / "clients").glob("*.mjs")} <= set(shown)


def test_the_guide_names_the_versions_that_the_typescript_clients_run_with() -> None:
    installed = json.loads((NODE / "package.json").read_text(encoding="utf-8"))["dependencies"]
    named = dict(re.findall(r"`((?:@[\w-]+/)?[\w-]+)` ([\d.]+)", SECTION))
    assert len(named) > 6
    assert named.items() <= installed.items()
