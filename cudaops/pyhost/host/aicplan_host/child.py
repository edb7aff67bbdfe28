"""What a child process of a hosted collector finds instead of its helper."""

import json
import os
import sys

from .compiled import keep
from .environment import PlainDevice
from .filling import Unfilled
from .fresh import read_source_of
from .helper import hook_helper
from .offering import connected
from .ports import own_ports
from .preparing import Bench
from .spool import Sink

VISIBLE = "CUDA_VISIBLE_DEVICES"


def install_child():
    """Gives a child process of a hosted collector the same helper."""
    keep()
    settings = json.loads(os.environ["AICPLAN_CHILD"])
    index = settings["device"]
    visible = os.environ.get(VISIBLE, "")
    if settings["uuid"] and visible.isdigit() and visible != settings["visible"]:
        # The collector has numbered the devices that it sees, and the driver numbers those of the machine.
        os.environ[VISIBLE] = settings["uuid"]
    kind = PlainDevice("cuda" if index >= 0 else "cpu")
    bench = Bench(kind, settings["measure"], lambda level, text: print(text, file=sys.stderr), connected(settings["relay"]))
    own_ports()
    read_source_of([settings["root"]] if settings["root"] else [])
    spool = os.environ["AICPLAN_SPOOL"]
    hook_helper(settings["root"], bench, Sink(spool=spool), Unfilled(spool))
