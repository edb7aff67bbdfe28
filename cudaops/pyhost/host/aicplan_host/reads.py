"""What an op may read of the stages before it."""

import collections

# stage is the address, dir the run's output folder, files what the stage wrote
# there: absolute paths.
Read = collections.namedtuple("Read", "stage dir files")


def reads_of(message):
    return [Read(r["stage"], r["dir"], tuple(r.get("files") or ())) for r in message.get("reads") or ()]
