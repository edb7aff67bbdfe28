"""Compiles nothing, and reports that it begins to."""
