"""The rules of working memory, as the settings describe them."""

from layerlore.memory.document_rules import DocumentRules, WorkingMemoryRules
from layerlore.memory.json_schema import check_schema
from layerlore.server.settings import DocumentSettings, SettingsError, WorkingMemorySettings
from layerlore.storage.errors import InvalidInput


def working_memory_rules(settings: WorkingMemorySettings) -> WorkingMemoryRules:
    """The rules, their schemas checked. Raises SettingsError."""
    largest = settings.max_bytes
    return WorkingMemoryRules(
        max_bytes=largest,
        read_only=settings.read_only,
        thread=_rules(settings.thread, "working_memory.thread", largest),
        resource=_rules(settings.resource, "working_memory.resource", largest),
    )


def _rules(settings: DocumentSettings, where: str, largest: int) -> DocumentRules:
    size = len(settings.template.encode())
    if size > largest:
        raise SettingsError(f"{where}.template: {size:,} bytes; working_memory.max_bytes is {largest:,}")
    if settings.json_schema:
        try:
            check_schema(settings.json_schema, f"{where}.json_schema")
        except InvalidInput as error:
            raise SettingsError(str(error)) from None
    return DocumentRules(settings.format, settings.template, settings.json_schema or None)
