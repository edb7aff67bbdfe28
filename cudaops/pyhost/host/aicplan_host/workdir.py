"""The folder that hosted collectors work in, and the folders of workers that died."""

import contextlib
import fcntl
import getpass
import glob
import importlib.util
import os
import re
import shutil
import stat
import tempfile
import time

# Children find this file through PYTHONPATH before their own first import.
SITE = """import importlib.machinery, importlib.util, os, sys, traceback
_here = os.path.dirname(os.path.abspath(__file__))
_rest = [p for p in sys.path if os.path.abspath(p or ".") != _here]
_spec = importlib.machinery.PathFinder.find_spec("sitecustomize", _rest)
if _spec is not None and _spec.loader is not None:
    _spec.loader.exec_module(importlib.util.module_from_spec(_spec))
if os.environ.get("AICPLAN_SPOOL"):
    sys.path.append(os.environ["AICPLAN_HOST_FILE"])
    try:
        from aicplan_host.child import install_child
        install_child()
    except Exception:
        traceback.print_exc()
"""


# How the folders of workers begin, and those that are without their name yet.
PREFIX = "aicplan-worker-"
UNNAMED = "aicplan-new-"

# Age in seconds above which a folder without a final name is an orphan of a killed
# worker. A living worker renames its folder at once.
UNNAMED_AGE = 24 * 3600


def archive():
    """What holds this package: the zip file that the engine wrote, or a folder."""
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def own_folder(base, slot):
    """A new folder, and the lock that this worker holds while it lives."""
    sweep_workdirs(base)
    while True:
        new = tempfile.mkdtemp(prefix=UNNAMED, dir=base)
        # Collectors look for "context" in the whole path of a perf file.
        if "context" not in os.path.basename(new):
            break
        os.rmdir(new)
    # Who holds the lock is alive; the folder gets its name once it is held.
    lock = os.open(os.path.join(new, "lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    with contextlib.suppress(OSError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    named = os.path.join(os.path.dirname(new), os.path.basename(new).replace(UNNAMED, "%s%s-" % (PREFIX, slot)))
    os.rename(new, named)
    return named, lock


# Sockets of engines and of multiprocessing lie in the temporary folder, under names of
# up to 37 characters, and the whole path has 107 at most.
LONGEST = 68


def own_temporary(folder):
    """Has this process and its children put temporary files into a folder of their
    own: collectors leave theirs behind, under names that no other process uses."""
    own = os.path.join(folder, "tmp")
    if len(os.fsencode(own)) > LONGEST:
        return
    os.mkdir(own, 0o700)
    with contextlib.suppress(Exception):  # the user has no name
        _keep_compiled(tempfile.gettempdir(), own, getpass.getuser())
    os.environ["TMPDIR"] = tempfile.tempdir = own


def _keep_compiled(shared, own, user):
    """Leaves what is compiled where the next worker finds it: torch's, whose code has
    the path in it, and that of the CuTe DSL, whose folder others choose by version
    unless it is set."""
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.join(shared, "torchinductor_" + re.sub(r'[\\/:*?"<>|]', "_", user)))
    of_user = os.path.join(shared, user)
    if os.path.isdir(of_user) or importlib.util.find_spec("cutlass") is not None:
        os.makedirs(of_user, exist_ok=True)
        os.symlink(of_user, os.path.join(own, user))


def remove_workdir(folder):
    """Removes the lock last, so that a half-removed folder is still recognised by
    the next worker."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if name != "lock":
                shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(folder, name))
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(folder, "lock"))
        os.rmdir(folder)


def _old(folders):
    """Those that have been without their name for too long."""
    out = []
    for folder in folders:
        with contextlib.suppress(OSError):  # it has its name by now
            if time.time() - os.stat(folder).st_mtime > UNNAMED_AGE:
                out.append(folder)
    return out


def _own(folder):
    """Reports whether a folder is one of this user, and not a link."""
    try:
        found = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def sweep_workdirs(base):
    """Removes the folders of killed workers, whose locks are free. No other program
    creates folders with this name. Links and folders of other users stay."""
    begin = os.path.join(glob.escape(base), "")
    for folder in glob.glob(begin + PREFIX + "*-????????") + _old(glob.glob(begin + UNNAMED + "????????")):
        if not _own(folder):
            continue
        # A folder has its name once its lock is held, so one without anything in
        # it is what a removal, or its making, that was cut short has left.
        with contextlib.suppress(OSError):
            os.rmdir(folder)
            continue
        try:
            fd = os.open(os.path.join(folder, "lock"), os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            continue  # another worker removed it
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_workdir(folder)
        except OSError:
            pass  # its worker lives, or the file system knows no locks
        finally:
            os.close(fd)
