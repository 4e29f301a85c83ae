"""Cursors: opaque outside, checked on return.

A backend makes and reads plain positions. The front seals each one with a keyed BLAKE2b over the
storage, the tenant, the operation and the filters, so that a cursor from anywhere else, or one with
a changed bit, is refused alike on every backend. The seal keeps mistakes out, not attackers: a
forged position would show nothing that listing from the start does not.
"""

import base64
import binascii
import hashlib
import hmac

from stores_core.codec import canonical
from stores_core.errors import InvalidRequestError
from stores_core.shape import Request, Response

_TAG = 12
_LONGEST = 4_096
_NOT_A_FILTER = frozenset({"cursor", "limit", "timeout", "at"})


def of(request: Request) -> str:
    """The cursor that a request carries, or ""."""
    return request.__dict__.get("cursor", "")


def next_of(response: Response) -> str:
    """The cursor that an answer carries, or ""."""
    return response.__dict__.get("next_cursor", "")


def seal_of(place: str, request: Request) -> bytes:
    """The key that seals cursors of this query at this place."""
    filters = {name: item for name, item in request.__dict__.items() if name not in _NOT_A_FILTER}
    text = f"{place}\0{canonical(filters)}"
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=32).digest()


def sealed(position: str, seal: bytes) -> str:
    """The opaque form of a backend's position."""
    data = position.encode()
    return base64.urlsafe_b64encode(_tag(data, seal) + data).rstrip(b"=").decode()


def opened(cursor: str, seal: bytes) -> str:
    """The position in a cursor. Raises InvalidRequestError for one that was not sealed so."""
    if len(cursor) <= _LONGEST and cursor.isascii():
        try:
            raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), b"-_", validate=True)
        except binascii.Error:
            raw = b""
        tag, data = raw[:_TAG], raw[_TAG:]
        if data and hmac.compare_digest(tag, _tag(data, seal)):
            position = data.decode()
            if sealed(position, seal) == cursor:
                return position
    raise InvalidRequestError(
        field="cursor",
        found="one that this store did not make for this query",
        allowed='"" or the next_cursor of the same query on the same store and tenant',
    )


def _tag(data: bytes, seal: bytes) -> bytes:
    return hashlib.blake2b(data, key=seal, digest_size=_TAG).digest()
