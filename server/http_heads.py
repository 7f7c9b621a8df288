"""A request's head, as everything behind reads it: bounded, and its values without the white space around them.

uvicorn leaves the space behind a value where it is, which is no part of it (RFC 9110, 5.5), so that `Mcp-Name: plan `
named another tool than the body. And it puts no limit on a head, while its parser joins a header piece by piece: 40 MB
of one kept the whole server busy for seconds, from anybody who could connect, since no credential has been looked at by
then.
"""

from http import HTTPStatus

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES = 64 * 1024
"""How much may come in without a head becoming complete or a body going on; what comes with one read is let pass."""

_STATUS = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
_REFUSAL = (
    f"HTTP/1.1 {_STATUS.value} {_STATUS.phrase}\r\n"
    "content-type: text/plain; charset=utf-8\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
).encode()


class BoundedHeads(HttpToolsProtocol):
    """uvicorn's protocol, answering 431 and hanging up once a head, or the trailer of a body in chunks, is too long."""

    _waiting = 0
    _went_on = False

    def data_received(self, data: bytes) -> None:
        self._went_on = False
        super().data_received(data)
        self._waiting = 0 if self._went_on else self._waiting + len(data)
        if self._waiting > MAX_HEAD_BYTES and not self.transport.is_closing():
            self.transport.write(_REFUSAL)
            self.transport.close()

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value.strip(b" \t"))

    def on_headers_complete(self) -> None:
        self._went_on = True
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._went_on = True
        super().on_body(body)
