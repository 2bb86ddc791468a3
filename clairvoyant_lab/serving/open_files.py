"""Each client that waits is an open file, and many systems allow a process 1,024 of them unless it asks."""

from __future__ import annotations

__all__ = ["most_clients", "waiting_room"]

_SPARE = 256
"""Files kept for all else: idle connections, pass-throughs, the journal, the model's runtime."""


def waiting_room(wanted: int, slots: int) -> int:
    """Raise the limit of open files if need be, and return how many requests may wait under it.

    Parameters
    ----------
    wanted : int
        Requests that should be able to wait.
    slots : int
        Requests at the backend, each with a connection on both sides.

    Returns
    -------
    int
        At most `wanted`; less where the system allows too few files, so that a full queue is refused in
        words and those who wait are not lost for want of a connection to the backend.
    """
    try:
        import resource
    except ImportError:  # no such limit on Windows
        return wanted
    spare = _SPARE + 2 * slots
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    need = wanted + spare
    if soft == unlimited or soft >= need:
        return wanted
    allowed = need if hard == unlimited else min(need, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    except (OSError, ValueError):  # some systems allow less than they say
        allowed = soft
    return min(wanted, max(1, allowed - min(spare, allowed // 2)))


def most_clients(slots: int) -> int | None:
    """How many clients may be connected, so that files are left for the backend's connections.

    A client may keep its connection open after its answer, or after it was told that the queue is full.
    Half of what `waiting_room` spares is kept from them. None where there is no limit.
    """
    try:
        import resource
    except ImportError:  # no such limit on Windows
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return None
    return max(1, soft - min(_SPARE + 2 * slots, soft // 2) // 2)
