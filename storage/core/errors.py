"""Errors whose text may reach a caller.

LayerloreError
├── InvalidInput        the arguments are wrong; the text says what is allowed
│   └── LimitExceeded   a size or count is over its limit; the text names the limit
├── NotFound            no such thing in the caller's scope (foreign and unknown look the same)
├── Conflict            what is stored contradicts the request
└── StorageUnavailable  the database cannot serve now; trying again may help
    ├── StorageBusy     it serves others, and this call waited too long for its turn; trying again helps
    │   └── TenantElsewhere  the tenant is on another cluster, or on its way there
    ├── DatabaseTooNew  a newer layerlore wrote this database
    └── DatabaseTooOld  an earlier layerlore wrote this database, and it has to be carried over

Everything else that is raised is a defect: its text stays in the log.
"""


class LayerloreError(Exception):
    """The error, in words that a caller, or the model behind it, can act on."""


class InvalidInput(LayerloreError):
    pass


class LimitExceeded(InvalidInput):
    pass


class QuotaExceeded(LimitExceeded):
    """As much is stored as a tenant or a resource may store."""


class NotFound(LayerloreError):
    pass


class Conflict(LayerloreError):
    pass


class StorageUnavailable(LayerloreError):
    pass


class StorageBusy(StorageUnavailable):
    """``retry_after``: after how many seconds the call may be tried again."""

    def __init__(self, text: str, retry_after: float) -> None:
        self.retry_after = retry_after
        super().__init__(f"{text}; try again in {retry_after:g} s")


class TenantElsewhere(StorageBusy):
    """This cluster does not serve the tenant, or not now, while the tenant is moved."""

    def __init__(self, retry_after: float) -> None:
        super().__init__("the memory of this tenant is being moved to another cluster", retry_after)


class DatabaseTooNew(StorageUnavailable):
    pass


class DatabaseTooOld(StorageUnavailable):
    pass
