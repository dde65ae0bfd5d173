"""Labels of one image carried over to many: named key-points, boxes and masks."""

from simsc.transfer.formats import read_instances
from simsc.transfer.instances import Instance, Moved
from simsc.transfer.run import transfer

__all__ = ["Instance", "Moved", "read_instances", "transfer"]
