"""Written for versions before the installed one; must not be run at all."""

raise AssertionError("imported although __compat__ excludes this version")

__compat__ = "trtllm>=1.0.0,<1.3.0rc20"
