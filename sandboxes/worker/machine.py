"""What is done to a process beneath Python: its system calls and its clock."""

import contextlib
import os
import resource
import struct
import sys

from vdso import clock_code, functions_of

STREAM = 3
"""The descriptor on which a leaf is spoken to, and the zygote before it."""


class Machine:
    """What is done to a process beneath Python: its system calls and its clock."""

    X86, ARM = "x86_64", "aarch64"
    LEFT = {
        X86: {
            "brk": 12, "exit": 60, "exit_group": 231, "futex": 202, "madvise": 28, "mremap": 25, "munmap": 11,
            "restart_syscall": 219, "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15,
            "sched_yield": 24, "sigaltstack": 131,
        },
        ARM: {
            "brk": 214, "exit": 93, "exit_group": 94, "futex": 98, "madvise": 233, "mremap": 216,
            "munmap": 215, "restart_syscall": 128, "rt_sigaction": 134, "rt_sigprocmask": 135,
            "rt_sigreturn": 139, "sched_yield": 124, "sigaltstack": 132,
        },
    }  # fmt: skip
    """System calls that are left to a leaf."""
    STREAMS = {X86: {"read": 0, "write": 1}, ARM: {"read": 63, "write": 64}}
    """Left for its stream, and for /dev/null below it."""
    MAPS = {X86: {"mmap": 9, "mprotect": 10}, ARM: {"mmap": 222, "mprotect": 226}}
    """Left for memory that is not to be executed."""
    SAME = {
        X86: {"getpid": 39, "getppid": 110, "gettid": 186, "nanosleep": 35, "clock_nanosleep": 230},
        ARM: {"getpid": 172, "getppid": 173, "gettid": 178, "nanosleep": 101, "clock_nanosleep": 115},
    }
    """Answered with 0 at once, in every leaf alike."""

    def __init__(self):
        self.kind = os.uname().machine if sys.platform == "linux" else ""
        self.libc = self.program = None
        self.held = []  # what a filter that was assembled consists of
        with contextlib.suppress(ImportError, OSError, AttributeError):
            import ctypes

            self.ctypes, libc = ctypes, ctypes.CDLL(None, use_errno=True)
            libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
            libc.getauxval.restype, libc.getauxval.argtypes = ctypes.c_ulong, [ctypes.c_ulong]
            libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
            self.libc = libc
        self.seals = self.kind in self.LEFT and self.libc is not None
        if self.seals:
            self.program = self.assemble(self.leaf_rules())

    def prctl(self, option, *arguments):
        """The system call; -1 where the C library cannot be called."""
        if self.libc is None:
            return -1
        return self.libc.prctl(option, *arguments, *[0] * (4 - len(arguments)))

    def assemble(self, rows):
        """The address of a filter as the kernel takes it."""
        text = self.ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *row) for row in rows))
        program = struct.pack("HxxxxxxP", len(rows), self.ctypes.addressof(text))
        self.held += [text, self.ctypes.create_string_buffer(program)]
        return self.ctypes.addressof(self.held[-1])

    def forbid_exec(self):
        """Refuse to become another program: it would be dumpable again, within reach of other episodes.

        A filter on top of the container's, which must let its first process be executed.
        """
        if self.seals:
            execve, execveat = {self.X86: (59, 322), self.ARM: (221, 281)}[self.kind]
            rows = [(0x20, 0, 0, 0), (0x15, 1, 0, execve), (0x15, 0, 1, execveat)]
            self.prctl(38, 1)  # PR_SET_NO_NEW_PRIVS
            self.prctl(22, 2, self.assemble([*rows, (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)]))

    def leaf_rules(self):
        """The filter of a leaf: what is not named above is refused with EPERM."""
        refuse, allow, same, kill = 0x00050001, 0x7FFF0000, 0x00050000, 0x80000000
        arch = {self.X86: 0xC000003E, self.ARM: 0xC00000B7}[self.kind]
        rows = [(0x20, 0, 0, 4), (0x15, 1, 0, arch), (0x06, 0, 0, kill), (0x20, 0, 0, 0)]
        for number in self.SAME[self.kind].values():
            rows += [(0x15, 0, 1, number), (0x06, 0, 0, same)]
        for number in self.LEFT[self.kind].values():
            rows += [(0x15, 0, 1, number), (0x06, 0, 0, allow)]
        for number in self.STREAMS[self.kind].values():  # unless the descriptor is a higher one
            rows += [(0x15, 0, 4, number), (0x20, 0, 0, 16), (0x25, 1, 0, STREAM)]
            rows += [(0x06, 0, 0, allow), (0x06, 0, 0, refuse)]
        for number in self.MAPS[self.kind].values():  # unless PROT_EXEC is among the rights
            rows += [(0x15, 0, 4, number), (0x20, 0, 0, 32), (0x45, 1, 0, 4)]
            rows += [(0x06, 0, 0, allow), (0x06, 0, 0, refuse)]
        return [*rows, (0x06, 0, 0, refuse)]

    def seal(self):
        """Give up the processor's clock and nearly every system call, for good.

        Raises:
            OSError: The kernel does not take the filter; this process must not go on.
        """
        self.prctl(26, 2)  # PR_SET_TSC, PR_TSC_SIGSEGV; not every machine knows it
        if self.prctl(22, 2, self.program) != 0:  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
            raise OSError(self.ctypes.get_errno(), "the kernel does not take the filter of a leaf")

    def fix_clock(self, seconds):
        """Let every clock of this process and its children stand still, whatever name it is reached by.

        Clocks are read from the vDSO, a page of code that the kernel lends to each process, without a system
        call. This writes other code over this process's copy of it.
        """
        codes = clock_code(self.kind == self.X86, seconds)
        # The zygote looks at what came of it.
        with contextlib.suppress(OSError, ValueError, KeyError, struct.error):
            self.overwrite(codes)

    def overwrite(self, codes):
        """Put code in the place of functions of the vDSO, by their names."""
        ctypes, libc = self.ctypes, self.libc
        start = libc.getauxval(33)  # AT_SYSINFO_EHDR
        if not start:
            raise OSError("there is no vDSO")
        places, size = functions_of(lambda at, n: ctypes.string_at(start + at, n))
        page = resource.getpagesize()
        length = (size + page - 1) // page * page
        if libc.mprotect(start, length, 3) != 0:  # PROT_READ, PROT_WRITE
            raise OSError(ctypes.get_errno(), "the vDSO cannot be written to")
        for name, code in codes.items():
            at, room = places.get(name, (0, 0))
            if at and len(code) <= room:
                ctypes.memmove(start + at, code, len(code))
        if libc.mprotect(start, length, 5) != 0:  # PROT_READ, PROT_EXEC
            os._exit(70)  # nothing that looks at a clock would work any more
