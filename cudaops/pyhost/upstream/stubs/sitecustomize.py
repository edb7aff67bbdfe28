"""Stands in for the frameworks that collectors import, and for a GPU.

Python loads this module at its start where its folder is on PYTHONPATH, in the
worker and in the processes that collectors start. AICPLAN_STUB holds, as JSON:

    root      the checkout: its modules are steered (see steering)
    modules   the packages that are stood in for, and all of their submodules
    versions  distributions and their versions
    sm        the compute capability, such as [9, 0]
"""

import json
import os

if os.environ.get("AICPLAN_STUB"):
    import aicplan_stub

    aicplan_stub.install(json.loads(os.environ["AICPLAN_STUB"]))
