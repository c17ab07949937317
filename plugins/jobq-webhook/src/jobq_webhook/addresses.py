"""Which addresses messages may be sent to: a host's name is looked up once, and every address of it judged.

The rules are those of the IANA registries of special-purpose addresses (RFC 6890), stated here where Python's own
`is_global` says otherwise, or says one thing in one version and another in the next.
"""

from __future__ import annotations

import socket
from enum import Enum
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING

from jobq_webhook.errors import NotAllowed, NotDelivered

if TYPE_CHECKING:
    from jobq_webhook.targets import Target


class Reach(Enum):
    """How far an address reaches: the whole network, one's own, or no receiver of messages at all."""

    PUBLIC = "public"
    PRIVATE = "private"
    NEVER = "never"


_PRIVATE = tuple(
    map(
        ip_network, ("10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "::1", "fc00::/7")
    )
)
_CREDENTIALS = frozenset(map(ip_address, ("169.254.169.254", "100.100.100.200", "fd00:ec2::254")))
"""Where machines in a cloud ask for their own: no receiver is there, whatever else is allowed."""
_NAT64 = ip_network("64:ff9b::/96")
_UNICAST = ip_network("2000::/3")
_ODD = tuple(
    map(ip_network, ("192.0.0.0/24", "192.88.99.0/24", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"))
)
"""Protocol assignments, documentation, and the tunnels 6to4 and Teredo, which lead to addresses that they hide."""


def reach(address: IPv4Address | IPv6Address) -> Reach:
    """How far an address reaches; one that holds an IPv4 address, as that one."""
    if isinstance(address, IPv6Address):
        address = IPv6Address(int(address))  # without its scope
        embedded = address.ipv4_mapped
        if address in _NAT64:
            embedded = IPv4Address(int(address) & 0xFFFFFFFF)
        if embedded is not None:
            return reach(embedded)
    if address in _CREDENTIALS:
        return Reach.NEVER
    if any(address in network for network in _PRIVATE):
        return Reach.PRIVATE
    if isinstance(address, IPv6Address) and address not in _UNICAST:
        return Reach.NEVER
    odd = address.is_multicast or address.is_reserved or any(address in network for network in _ODD)
    return Reach.PUBLIC if address.is_global and not odd else Reach.NEVER


def resolve(target: Target, *, allow_private: bool) -> list[str]:
    """The addresses of a target's host, in the system's order, each of them allowed.

    Whoever connects must use these: to look the name up again might give others.

    Args:
        target: where a message is to go.
        allow_private: whether private addresses may be used, and there plain HTTP.

    Raises:
        NotAllowed: one of the addresses may not be used; then none may.
        NotDelivered: the name cannot be looked up.
    """
    try:
        found = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise NotDelivered(f"{target.host} cannot be looked up: {error.strerror or error}") from None
    except UnicodeError:
        raise NotAllowed(f"{target.host} is no name that can be looked up") from None
    addresses = list(dict.fromkeys(str(info[4][0]) for info in found))
    for text in addresses:
        far = reach(ip_address(text))
        which = f"{target.host} is {'an address' if text == target.host else text}"
        if far is Reach.NEVER or (far is Reach.PRIVATE and not allow_private):
            hint = " without webhook.allow-private" if far is Reach.PRIVATE else ""
            raise NotAllowed(f"{which}, where no message is sent{hint}")
        if far is Reach.PUBLIC and target.scheme != "https":
            raise NotAllowed(f"{which}, where no message is sent without TLS: it is public")
    return addresses
