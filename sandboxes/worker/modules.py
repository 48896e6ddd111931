"""What a leaf finds imported: it can open no file, so it imports nothing else."""

import codecs
import contextlib
import re
import sys

PRELOAD = {
    "_thread", "abc", "array", "ast", "asyncio", "atexit", "base64", "binascii", "bisect", "builtins",
    "calendar", "cmath", "codecs", "collections", "collections.abc", "contextlib", "contextvars", "copy",
    "copyreg", "csv", "ctypes", "dataclasses", "datetime", "decimal", "difflib", "dis", "email",
    "encodings", "enum", "errno", "fcntl", "fnmatch", "fractions", "functools", "gc", "glob", "graphlib",
    "gzip", "hashlib", "heapq", "hmac", "html", "inspect", "io", "itertools", "json", "keyword",
    "linecache", "locale", "logging", "marshal", "math", "mmap", "numbers", "opcode", "operator", "os",
    "os.path", "pathlib", "pickle", "platform", "posix", "pprint", "pty", "queue", "random", "re",
    "reprlib", "resource", "secrets", "select", "selectors", "shlex", "shutil", "signal", "socket",
    "sqlite3", "stat", "statistics", "string", "struct", "subprocess", "symtable", "sys", "sysconfig",
    "tempfile", "termios", "textwrap", "threading", "time", "token", "tokenize", "traceback",
    "tracemalloc", "types", "typing", "unicodedata", "urllib.parse", "uuid", "warnings", "weakref",
    "zlib", "zoneinfo",
}  # fmt: skip
"""Imported ahead when the source imports them anywhere."""
LATER = {
    "collections": ("copy", "heapq"),
    "datetime": ("_strptime",),
    "enum": ("warnings",),
    "fractions": ("decimal",),
    "functools": ("types", "typing", "weakref"),
    "hashlib": ("_blake2", "_md5", "_sha1", "_sha256", "_sha3", "_sha512"),
    "operator": ("functools",),
    "re": ("warnings",),
    "time": ("_strptime",),
    "uuid": ("hashlib", "socket"),
}
"""What these import at the first use of some function of theirs, which in a leaf would come too late."""
ALWAYS = ("warnings", "linecache", "tracemalloc", "traceback")
"""What the interpreter itself imports when it warns."""
ZONES = []
"""Time zones that were read ahead, held so that they stay known."""


def load_modules(code):
    """Import the modules that a compiled source imports anywhere, and read the time zones that it names."""
    named, texts = mentioned(code)
    for name in (*ALWAYS, *sorted(PRELOAD & named)):
        for one in (name, *LATER.get(name, ())):
            with contextlib.suppress(ImportError):  # this installation lacks it: so do its leaves
                __import__(one)
    if "hashlib" in sys.modules:
        sys.modules["hashlib"].sha256(b"").hexdigest()  # OpenSSL reads its settings at the first use
    known = sys.modules["encodings.aliases"].aliases
    known = {*known, *known.values(), "idna", "punycode", "raw_unicode_escape", "unicode_escape", "utf_8_sig"}
    for text in sorted(one for one in texts if one.lower().replace("-", "_") in known):
        with contextlib.suppress(LookupError, ImportError):
            codecs.lookup(text)
    if "zoneinfo" in named:
        for text in sorted(one for one in texts if re.fullmatch(r"[A-Za-z][\w+/-]{0,60}", one)):
            with contextlib.suppress(Exception):  # not the name of a zone
                ZONES.append(sys.modules["zoneinfo"].ZoneInfo(text))


def mentioned(code):
    """The modules that a compiled source imports, and the texts in it."""
    opcode = __import__("opcode")
    asked, wide = opcode.opmap["IMPORT_NAME"], opcode.opmap["EXTENDED_ARG"]
    named, texts, todo = set(), set(), [code]
    while todo:
        one = todo.pop()
        if isinstance(one, tuple):
            todo += one
        elif isinstance(one, str):
            texts.add(one)
        elif hasattr(one, "co_code"):
            todo += one.co_consts
            high, words = 0, one.co_code
            for at in range(0, len(words), 2):
                argument = high | words[at + 1]
                if words[at] == asked:
                    named.add(one.co_names[argument])
                high = argument << 8 if words[at] == wide else 0
    return named, texts
