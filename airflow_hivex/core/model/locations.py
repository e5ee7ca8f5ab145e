"""Locations below the root of a cluster's file system: texts. Only :meth:`Root.real` asks a file system."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

# A colon inside a relative location, as in "hour:5", does not make a URI of it.
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?:/(?:/([^/]*))?)(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Root:
    """The root of a file system: ``scheme`` in lower case, and the names that lead to it."""

    scheme: str
    authority: str
    names: tuple[str, ...]

    @property
    def uri(self) -> str:
        """Return the root as a URI; no slash at its end unless it is the top of the file system."""
        return self.join("")

    def join(self, relative: str) -> str:
        """Return the URI of a location that :meth:`relative` gave."""
        path = "/".join((*self.names, relative) if relative else self.names)
        return f"{self.scheme}://{self.authority}/{path}" if path or not self.authority else self._top

    @property
    def _top(self) -> str:
        return f"{self.scheme}://{self.authority}"

    def relative(self, location: str) -> str | None:
        """Return ``location`` as names below this root; None when it lies outside.

        A path without a scheme that starts with a slash is one of this file system.
        """
        whole = _split(location)
        if whole is None:
            names = _names(location)
            if names is None or not location.startswith("/"):
                return None if names is None else "/".join(names)
        else:
            scheme, authority, names = whole
            if (scheme, authority.lower()) != (self.scheme, self.authority.lower()):
                return None
        if names is None or names[: len(self.names)] != self.names:
            return None
        return "/".join(names[len(self.names) :])

    def real(self, relative: str) -> str | None:
        """Return the location to which symbolic links lead from one; None outside of this root, or without links.

        Asks the file system of this machine, as only local roots have such links.
        """
        if self.scheme != "file":
            return None
        top = Path("/", *self.names).resolve()
        found = top.joinpath(relative).resolve()
        return "/".join(found.relative_to(top).parts) if found.is_relative_to(top) else None

    def overlaps(self, other: Root) -> bool:
        """Return whether one root is the other, or lies below it."""
        depth = min(len(self.names), len(other.names))
        return (
            self.scheme == other.scheme
            and self.authority.lower() == other.authority.lower()
            and self.names[:depth] == other.names[:depth]
        )


def parse_root(filesystem: str) -> Root | None:
    """Return the root that a URI or an absolute path stands for; None when it is neither."""
    whole = _split(filesystem)
    if whole is None:
        names = _names(filesystem) if filesystem.startswith("/") else None
        return None if names is None else Root("file", "", names)
    scheme, authority, names = whole
    return None if names is None or (scheme == "file" and authority) else Root(scheme, authority, names)


def _split(uri: str) -> tuple[str, str, tuple[str, ...] | None] | None:
    found = _URI.fullmatch(uri)
    if not found:
        return None
    scheme, authority, path = found[1].lower(), found[2] or "", found[3]
    if scheme == "file" and authority.lower() == "localhost":
        authority = ""
    return scheme, authority, _names(path)


def _names(path: str) -> tuple[str, ...] | None:
    """Return the names along a path; None when it goes up, as a link could lead anywhere from there."""
    names = tuple(name for name in path.split("/") if name not in ("", "."))
    return None if ".." in names else names
