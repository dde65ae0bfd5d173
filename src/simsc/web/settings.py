"""What the server offers, and its limits."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field

MEGABYTE = 2**20
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_HOST = re.compile(r"(\[(?P<address>[0-9a-f:.]{2,45})\]|(?P<name>[a-z0-9_.-]{1,253}))(:[0-9]{1,5})?", re.ASCII)
ANY_ADDRESS = frozenset({"0.0.0.0", "::", ""})


@dataclass(frozen=True)
class Settings:
    """Limits and names; the defaults suit a machine of one's own.

    Attributes:
        models: offered models by label, the first is the default; what each stands for is what ``simsc.load`` takes.
        hosts: names under which the server may be addressed; a page of another name cannot be led here by its DNS.
        any_address: also answer to every numeric address, for a server that listens on all interfaces.
        max_upload: bytes of one image file.
        max_pixels: pixels of one image; larger ones are refused before they are decoded.
        max_images: images kept at once, of all users together.
        memory: bytes of pixels and features kept at once.
        loaded_models: models kept in memory at once.
        patience: seconds a request waits for its turn before it is told that the server is busy.
        max_waiting: requests that may wait for their turn; one more is told so at once.
        body_seconds: seconds within which the next part of a request has to arrive.
    """

    models: dict[str, str] = field(default_factory=dict)
    hosts: frozenset[str] = LOOPBACK
    any_address: bool = False
    max_upload: int = 20 * MEGABYTE
    max_pixels: int = 40_000_000
    max_images: int = 256
    memory: int = 512 * MEGABYTE
    loaded_models: int = 2
    patience: float = 30.0
    max_waiting: int = 128
    body_seconds: float = 20.0

    def allows_host(self, header: str) -> bool:
        """Whether a request with that ``Host`` header is meant for this server.

        >>> settings = Settings()
        >>> [settings.allows_host(host) for host in ("localhost:8000", "[::1]:8000", "evil.example", "192.168.0.7")]
        [True, True, False, False]
        """
        name = host_name(header)
        return name in self.hosts or (self.any_address and _is_address(name))


def host_name(header: str) -> str:
    """The name in a ``Host`` header, without port and brackets; empty where it is not of that form.

    >>> host_name("[::1]:8000"), host_name("LocalHost:80"), host_name("localhost:80@evil.example")
    ('::1', 'localhost', '')
    """
    found = _HOST.fullmatch(header.lower())
    return (found["address"] or found["name"]) if found else ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
