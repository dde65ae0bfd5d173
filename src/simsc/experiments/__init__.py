"""One experiment per table and figure of the paper; see :mod:`simsc.experiments.listing`."""
