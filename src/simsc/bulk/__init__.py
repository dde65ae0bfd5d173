"""From two images to a billion pairs: manifests matched into Parquet shards, and collections that answer queries."""

from simsc.bulk.job import Outcome, Resources, bulk
from simsc.bulk.worker import SCHEMA, Settings

__all__ = ["SCHEMA", "Outcome", "Resources", "Settings", "bulk"]
