"""Decides which addresses may be connected to. A name is resolved once, and the connection uses the checked
address."""

import asyncio
import ipaddress
import socket
from typing import Final

from ..regex import Regex

_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_UNICAST: Final = ipaddress.IPv6Network("2000::/3")  # the IPv6 range that is assigned to the public internet
_CLOUDS: Final = tuple(
    map(ipaddress.IPv4Network, ("168.63.129.16/32", "161.26.0.0/16", "166.8.0.0/14", "192.0.0.0/24"))
)
"""Addresses that lead to a cloud's own services when a machine in it asks, and that Python, in some versions, takes for
public: Azure's platform (https://learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16), IBM
Cloud's network, and Oracle's metadata at 192.0.0.192, among the IANA's addresses for protocols (RFC 6890)."""
_MAPPINGS: Final = 3  # how deep IPv4 addresses inside IPv6 addresses are looked for

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


_HOST: Final = Regex(r"(\*|(?:\*\.)?[\w.-]+|\[[0-9a-f:.]+\])(?::([1-9][0-9]{0,4}))?|([0-9a-f]*:[0-9a-f]*:[0-9a-f:.]*)")


def read_host(text: str) -> tuple[str, str]:
    """Read a rule for hosts, such as ``*.example.com``: its name, and its port or ``""``; a `ValueError` names what is
    allowed."""
    found = _HOST.fullmatch(text.lower())
    if found is None or int(found[2] or 1) > 65_535:
        raise ValueError(f"{text!r} is not a host; allowed are HOST, *.HOST and *, each also with :PORT")
    return (found[1] or found[3]).strip("[]"), found[2] or ""


class AddressRefused(Exception):
    """An address to which no connection is allowed; the message says why."""


def is_public(address: str) -> bool:
    """Whether an address belongs to the public internet. If it contains an IPv4 address, that must be public too."""
    try:
        found: Address = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    for _ in range(_MAPPINGS):
        if not found.is_global or found.is_multicast or any(found in network for network in _CLOUDS):
            return False
        if isinstance(found, ipaddress.IPv6Address) and found not in _UNICAST and found not in _NAT64:
            return False
        inner = _inner(found)
        if inner is None:
            return True
        found = inner
    return False


def _inner(address: Address) -> ipaddress.IPv4Address | None:
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)


async def resolve(host: str, port: int, *, private: bool = False) -> list[str]:
    """The addresses of a host, a name or an address without brackets. `AddressRefused` if there is none, or if one
    of them is not public and must be: a name with both kinds is an attack."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise AddressRefused(f"{host} cannot be resolved: {getattr(error, 'strerror', None) or error}") from None
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    if not private:
        for address in addresses:
            if not is_public(address):
                raise AddressRefused(f"{host} leads to {address}, which is not a public address")
    return addresses
