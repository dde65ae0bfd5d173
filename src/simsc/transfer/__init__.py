"""Labels of a few images carried over to many: named key-points, boxes and masks."""

from simsc.transfer.instances import Category, Instance, Labelled, Moved
from simsc.transfer.reading import read_instances
from simsc.transfer.run import transfer

__all__ = ["Category", "Instance", "Labelled", "Moved", "read_instances", "transfer"]
