"""The memory as resources: views of what the tools answer, for people and programs that read rather than call."""
