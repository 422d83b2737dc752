"""Ends the processes of a cluster when the process that started them is gone.

Run as a script, never imported: ``python -I -S reaper.py FOLDER``. Each line of standard input is
the id of a process to watch over. The end of standard input means that the owner closed the
cluster or died, even by SIGKILL; then the processes are killed and the folder is removed.
"""

import os
import shutil
import signal
import sys


def main() -> None:
    """Reads ids until the owner is gone, then ends what they name."""
    watched = []
    for line in sys.stdin:
        try:
            watched.append(_handle(int(line)))
        except ProcessLookupError:
            continue
    for handle in watched:
        _kill(handle)
    shutil.rmtree(sys.argv[1], ignore_errors=True)


def _handle(pid: int) -> tuple[int, int | None]:
    """The id and, where the system has it, a descriptor that outlives the id's next use."""
    return pid, os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None


def _kill(handle: tuple[int, int | None]) -> None:
    pid, descriptor = handle
    try:
        if descriptor is None:
            os.kill(pid, signal.SIGKILL)
        else:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    except ProcessLookupError:
        return


if __name__ == "__main__":
    main()
