"""The demonstration: match, adapt, report."""

from simsc.demo.run import run_demo

__all__ = ["run_demo"]
