"""Lines of JSON on descriptors: requests as they are read, replies as they are written."""

import json
import os
import socket

NAME = "<environment>"
"""What a module's file is called in its code."""
encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def printable(text, limit=4000):
    """Text that survives UTF-8, cut to `limit` characters."""
    return text[:limit].encode("utf-8", "backslashreplace").decode()


def describe(error):
    """One line on an exception of the environment, with the lines of its source that led there."""
    try:
        text = f"{type(error).__name__}: {error}"
    except BaseException:
        text = f"{type(error).__name__} (its message cannot be shown)"
    where, frame = [], error.__traceback__
    while frame is not None:
        code = frame.tb_frame.f_code
        if code.co_filename == NAME:
            where.append(f"line {frame.tb_lineno} in {code.co_name}")
        frame = frame.tb_next
    return printable(text + (f" ({', '.join(where[-8:])})" if where else ""))


def ok(request, value):
    """The reply line to a request; a value that is not JSON is the environment's fault."""
    try:
        return f'{{"id":{request["id"]},"ok":{encode(value)}}}\n'.encode()
    except BaseException as error:
        return err(
            request, "environment", f"{request['op']} returned what JSON cannot hold: {describe(error)}"
        )


def err(request, kind, text):
    """The reply line that reports a failure."""
    return (encode({"id": request["id"], "err": kind, "msg": printable(text)}) + "\n").encode()


def write_all(fd, data):
    """Write every byte."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


class Lines:
    """Requests read from a descriptor, and the descriptors sent along with them."""

    def __init__(self, fd, sock=None):
        self.fd, self.sock, self.rest = fd, sock, b""

    def next(self):
        """The next request and its descriptors; `(None, [])` at the end of the stream."""
        chunks, fds, data = [self.rest], [], self.rest
        while b"\n" not in data:
            if self.sock is None:
                data = os.read(self.fd, 65536)
            else:
                data, new, _flags, _address = socket.recv_fds(self.sock, 65536, 1)
                fds += new
            if not data:
                return None, fds
            chunks.append(data)
        line, self.rest = b"".join(chunks).split(b"\n", 1)
        return json.loads(line), fds
