"""What the tools are called, say and take: declarations that import only ``mcp`` and ``pydantic``.

A declaration is a function without a body: its name, docstring and signature are the tool's. What it does is the
function of the same name and arguments in ``layerlore.server.actions``, loaded after ``initialize`` was answered.
"""
