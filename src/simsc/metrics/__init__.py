"""PCK, as pure functions and as a metric; and the named protocols that say how it is measured."""
