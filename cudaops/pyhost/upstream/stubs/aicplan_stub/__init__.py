"""Stand-ins for GPU frameworks: every name exists, every call answers an unknown.

    unknown   a value about which nothing is known
    steering  the checkout's own code where it branches on unknown values
    fakes     what is known: torch's dtypes and devices, the GPU, versions
    imports   the modules
    hosting   the device that collectors get
"""


def install(settings):
    """Makes the interpreter find the stand-ins. See sitecustomize for settings."""
    from . import fakes, hosting, imports, steering

    imports.install(settings["modules"], fakes.known(settings))
    steering.install(settings["root"])
    hosting.install()
