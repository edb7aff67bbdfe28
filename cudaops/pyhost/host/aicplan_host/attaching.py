"""Files that an op leaves with its case."""

import base64
import os
import shutil
import tempfile

from .errors import HostError

LIMIT = 1 << 20  # bytes that travel in a message; what is larger goes as a file


class Attachments:
    """What the case at work has attached so far."""

    def __init__(self, folder):
        self.folder = folder or ""  # where the engine takes files from
        self._list = []

    def add(self, name, content, media_type):
        """content is bytes, a text, or the path (os.PathLike) of a file, which is
        copied."""
        if not isinstance(name, str) or not name or name in (".", "..") or "/" in name or "\\" in name:
            raise HostError("an attachment is called %r; its name is that of a file, without folders" % (name,))
        if any(a["name"] == name for a in self._list):
            raise HostError("the case has attached %s already" % name)
        entry = {"name": name, "media_type": str(media_type)}
        if isinstance(content, str):
            content = content.encode("utf-8", "surrogateescape")
        if isinstance(content, (bytes, bytearray, memoryview)):
            content = bytes(content)
            if len(content) <= LIMIT:
                entry["data"] = base64.b64encode(content).decode("ascii")
            else:
                entry["file"] = self._file(name, lambda f: f.write(content))
        elif isinstance(content, os.PathLike):
            try:
                with open(content, "rb") as source:
                    entry["file"] = self._file(name, lambda f: shutil.copyfileobj(source, f))
            except OSError as err:
                raise HostError("the attachment %s cannot be read: %s" % (name, err)) from None
        else:
            raise HostError("the attachment %s is a %s; give bytes, a text or a pathlib.Path" % (name, type(content).__name__))
        self._list.append(entry)

    def _file(self, name, write):
        if not self.folder:
            raise HostError("the attachment %s has more than %d bytes, and this worker has no folder for files" % (name, LIMIT))
        os.makedirs(self.folder, exist_ok=True)
        handle, path = tempfile.mkstemp(suffix="-" + name[-80:], dir=self.folder)
        with os.fdopen(handle, "wb") as f:
            write(f)
        return os.path.basename(path)

    def take(self):
        """The fields of the message that ends the case; the next case has none."""
        out, self._list = self._list, []
        return {"attachments": out} if out else {}
