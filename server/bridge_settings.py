"""With which key ``layerlore bridge`` comes to a memory that is served elsewhere."""

from pydantic import Field, SecretStr, model_validator

from layerlore.server.settings_section import Name, Section


class BridgeSettings(Section):
    """The key is never an argument: others on the machine see those."""

    key: SecretStr = Field(default=SecretStr(""), description="The key; best as LAYERLORE_BRIDGE__KEY.")
    key_file: Name = Field(default="", description="A file with the key.")
    ca_file: Name = Field(default="", description="A PEM file of the authorities to trust, else the system's.")

    @model_validator(mode="after")
    def _fits_together(self) -> "BridgeSettings":
        if self.key.get_secret_value() and self.key_file:
            raise ValueError("key and key_file are two ways to give one key: one of them is allowed")
        return self
