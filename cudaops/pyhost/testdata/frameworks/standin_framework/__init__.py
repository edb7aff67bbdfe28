"""A framework of nothing, for tests."""

__version__ = "1.3.0rc20"
