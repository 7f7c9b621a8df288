"""Development only: makes the folders at the repository's root importable as ``layerlore.*`` (the wheel has them for real).

The path serves the interpreter; the links beside this file serve tools that read paths, such as mypy and editors.
"""

import os

_root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# The second has what lies beside those folders in the wheel, the third the tests that are published, ``conformance``.
__path__ = [_root, os.path.join(_root, ".dev", "wheel"), os.path.join(_root, "tests")]

from layerlore.server.process.version import VERSION  # noqa: E402 - found through the path above

__version__ = VERSION
