"""Permanently limits this process to the system calls that computing needs; all others fail with EPERM.

A filter for Linux's seccomp (https://docs.kernel.org/userspace-api/seccomp_filter.html), an allow-list: no new
processes or threads, no programs, no sockets, no signals to others. It runs inside the sandbox, where the package
cannot be imported.
"""

import ctypes
import platform
import struct
from typing import Final

__all__ = ["MACHINES", "lock"]

_ALLOWED_X86_64: Final = (
    # read, write, close, stat, fstat, lstat, poll, lseek, mmap, mprotect, munmap, brk
    *(0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12),
    # rt_sigaction, rt_sigprocmask, rt_sigreturn, ioctl (on its own pipes), pread64, readv, writev
    *(13, 14, 15, 16, 17, 19, 20),
    # access, select, sched_yield, mremap, madvise, dup, nanosleep, getpid, exit, uname, fcntl
    *(21, 23, 24, 25, 28, 32, 35, 39, 60, 63, 72),
    # getcwd, readlink, gettimeofday, getrlimit, getrusage, sysinfo, times, getuid, getgid, geteuid, getegid
    *(79, 89, 96, 97, 98, 99, 100, 102, 104, 107, 108),
    # sigaltstack, arch_prctl, gettid, futex, sched_getaffinity, getdents64, set_tid_address, clock_gettime, getres
    *(131, 158, 186, 202, 204, 217, 218, 228, 229),
    # clock_nanosleep, exit_group, openat, newfstatat, readlinkat, faccessat, set_robust_list, getrandom, membarrier
    *(230, 231, 257, 262, 267, 269, 273, 318, 324),
    # statx, rseq, faccessat2
    *(332, 334, 439),
)
_ALLOWED_AARCH64: Final = (
    # getcwd, dup, fcntl, ioctl, faccessat, openat, close, getdents64, lseek, read, write, readv, writev, pread64
    *(17, 23, 25, 29, 48, 56, 57, 61, 62, 63, 64, 65, 66, 67),
    # pselect6, ppoll, readlinkat, newfstatat, fstat, exit, exit_group, set_tid_address, futex, set_robust_list
    *(72, 73, 78, 79, 80, 93, 94, 96, 98, 99),
    # nanosleep, clock_gettime, clock_getres, clock_nanosleep, sched_getaffinity, sched_yield
    *(101, 113, 114, 115, 123, 124),
    # sigaltstack, rt_sigaction, rt_sigprocmask, rt_sigreturn, times, uname, getrlimit, getrusage, gettimeofday
    *(132, 134, 135, 139, 153, 160, 163, 165, 169),
    # getpid, getuid, geteuid, getgid, getegid, gettid, sysinfo, brk, munmap, mremap, mmap, mprotect, madvise
    *(172, 174, 175, 176, 177, 178, 179, 214, 215, 216, 222, 226, 233),
    # getrandom, membarrier, statx, rseq, faccessat2
    *(278, 283, 291, 293, 439),
)
MACHINES: Final = {"x86_64": (0xC000003E, _ALLOWED_X86_64), "aarch64": (0xC00000B7, _ALLOWED_AARCH64)}
"""By machine: the architecture's number in audit.h, and the allowed system calls."""

_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06  # BPF_LD|W|ABS, BPF_JMP|JEQ|K, BPF_RET|K
_KILL, _REFUSE, _ALLOW = 0x8000_0000, 0x0005_0001, 0x7FFF_0000  # KILL_PROCESS, ERRNO|EPERM, ALLOW
_NUMBER, _ARCH = 0, 4  # offsets in struct seccomp_data
_SET_NO_NEW_PRIVS, _SET_SECCOMP, _FILTER = 38, 22, 2


def program(architecture: int, allowed: tuple[int, ...]) -> bytes:
    """The filter program. Calls of another architecture end the process; calls that are not listed fail."""
    steps = [(_LOAD, 0, 0, _ARCH), (_EQUAL, 1, 0, architecture), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, _NUMBER)]
    for number in allowed:
        steps += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ALLOW)]
    steps.append((_RETURN, 0, 0, _REFUSE))
    return b"".join(struct.pack("HBBI", *step) for step in steps)


def lock() -> None:
    """Apply the filter to this process.

    Raises:
        OSError: the kernel refuses, or the machine is not one of `MACHINES`.
    """
    machine = platform.uname().machine
    if machine not in MACHINES:
        raise OSError(f"no list of system calls for {machine}")
    code = program(*MACHINES[machine])
    held = ctypes.create_string_buffer(code, len(code))
    described = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(held))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(_SET_SECCOMP, _FILTER, described, 0, 0):
        raise OSError(ctypes.get_errno(), "the kernel refuses the filter of system calls")
