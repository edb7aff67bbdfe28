"""Starts the worker: Python runs this file of a zip or of a folder."""

import sys

from aicplan_host.loop import main

if __name__ == "__main__":
    sys.exit(main())
