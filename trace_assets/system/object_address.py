"""Where in an object store something lies: `s3://bucket/prefix`, and nothing secret in it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from trace_assets.errors import InputError

SCHEMES = {"s3": "Amazon S3 or what speaks its protocol", "gs": "Google Cloud Storage", "az": "Azure Blob"}
CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and, for another endpoint, AWS_ENDPOINT_URL",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
_PREFIX = re.compile(r"[A-Za-z0-9._=+-]+(/[A-Za-z0-9._=+-]+)*")


@dataclass(frozen=True)
class Address:
    """A place in an object store.

    Attributes:
        scheme: A key of `SCHEMES`.
        bucket: Bucket or container.
        prefix: What all names begin with, without slashes at its ends; empty for the whole bucket.
    """

    scheme: str
    bucket: str
    prefix: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}" + (f"/{self.prefix}" if self.prefix else "")


def is_address(text: str) -> bool:
    """Whether a text is meant as an address of an object store, and not as a folder.

    >>> is_address("s3://bucket/study"), is_address("/shared/study"), is_address("s3:/bucket")
    (True, False, False)
    """
    return "://" in text


def parse_address(text: str) -> Address:
    """Read an address.

    Raises:
        InputError: It is none, or holds credentials. They are not repeated in the sentence.

    >>> parse_address("s3://bucket/studies/shop/")
    Address(scheme='s3', bucket='bucket', prefix='studies/shop')
    """
    try:
        parts = urlsplit(text)
    except ValueError as error:
        raise InputError(f"the address cannot be read ({error}); write s3://BUCKET/PREFIX.") from error
    if "@" in parts.netloc or parts.query or parts.fragment:
        names = CREDENTIALS.get(parts.scheme, "its variables")
        raise InputError(
            f"an address of {parts.scheme or 'a store'} holds neither user, password nor parameters: "
            "they would be seen by whoever sees the command. Give s3://BUCKET/PREFIX, and credentials by "
            f"{names}."
        )
    if parts.scheme not in SCHEMES:
        known = ", ".join(f"{name}:// ({what})" for name, what in SCHEMES.items())
        raise InputError(f"'{text}' is neither a folder nor an object store; there are {known}.")
    prefix = parts.path.strip("/")
    words = prefix.split("/")
    if not _BUCKET.fullmatch(parts.netloc) or (prefix and not _PREFIX.fullmatch(prefix)) or ".." in words:
        raise InputError(
            f"'{text}' cannot be an address: write {parts.scheme}://BUCKET/PREFIX with letters, digits, "
            "'.', '_', '=', '+' and '-'."
        )
    return Address(parts.scheme, parts.netloc, prefix)
