"""SimSC: semantic correspondence with temperature learning."""

from simsc._version import __version__

__all__ = ["__version__"]
