"""Batch policies: whom to admit to at most B running requests, under a limit alpha on unequal progress.

A batch policy is a small frozen value. Three kinds carry it out:

* *continuous* (`fcfs`, `sjf`) and *static* (`ljf`) admission,
* *staged* rules (`isjl` and its kin, `slack`, `robust`, `online`), see `scheduling.rules`,
* *planned* schedules: a function lays down every start itself.

How a planned policy enters `simulate_batch`
--------------------------------------------
A planner is named in `PLANNERS` as ``"module:function"`` and imported at first use. It is called as

    plan(lengths, batch_size, alpha, *, release_steps=None, upper_bounds=None, **options) -> BatchPlan

with `lengths` int64[n] (positive, checked), `alpha` an int >= 0 or None, `release_steps` and
`upper_bounds` int64[n] or None (checked: release >= 0, upper bound >= length), and the options that
`batch_policy` stored (defaults filled in, `reorder` left out). It returns a `BatchPlan`: `start_steps`
int64[n] in the order of `lengths`, and, if it knows them, `lower_bound_steps` (a proven bound on every fair
makespan), `method` (which of its ways won) and `details` (figures for the summary). `simulate_batch` trusts
no planner: it measures the starts, refuses a schedule over capacity or before a release, and says where
the fairness limit was broken. A user's own function works the same way without being named anywhere:
`batch_policy(my_function, alpha=100)`; it may return a bare array of starts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clairvoyant_lab.errors import ParameterError, unknown_name

__all__ = [
    "BATCH_POLICIES",
    "PLANNERS",
    "BatchPlan",
    "BatchPolicy",
    "batch_policy",
    "check_alpha",
    "check_batch_size",
    "check_steps",
    "plan_schedule",
]

Steps = NDArray[np.int64]

# name -> does it need alpha, does it promise fairness for that alpha
_TRAITS: dict[str, tuple[bool, bool]] = {
    "fcfs": (False, False),
    "sjf": (False, False),
    "ljf": (False, True),
    "isjl": (True, True),
    "isjl_b2": (True, True),
    "isjl_literal": (True, False),
    "isjl_unguarded": (True, False),
    "slack": (True, True),
    "cohort": (True, True),
    "robust": (True, True),
    "online": (True, True),
}
BATCH_POLICIES = tuple(_TRAITS)

# policies whose schedule is laid down by a planner; see the module's docstring
PLANNERS = {"cohort": "clairvoyant_lab.scheduling.cohort:plan"}

# options a policy takes beside alpha, with their defaults
_REORDER: dict[str, object] = {"reorder": False}
_OPTIONS: dict[str, dict[str, object]] = {
    "cohort": {"effort": 1, "seed": 0, "externality_weight": 0.0, **_REORDER},
    **dict.fromkeys(("ljf", "isjl", "isjl_b2", "slack"), _REORDER),
}


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """Every start of a schedule, and what its maker knows about it.

    Parameters
    ----------
    start_steps : ndarray of int64, shape (n,)
        First step of each job, 0-based, in the order of the lengths.
    lower_bound_steps : int, optional
        A proven lower bound on the makespan of every alpha-fair schedule of the instance.
    method : str, optional
        Which way of planning won.
    details : mapping
        Further figures to show with the result.
    sequence : ndarray of int64, shape (n,), optional
        Jobs by ascending start; only the built-in rules' is believed, it saves a sort.
    """

    start_steps: Steps
    lower_bound_steps: int | None = None
    method: str | None = None
    details: Mapping[str, object] = field(default_factory=dict)
    sequence: Steps | None = field(default=None, repr=False)


@dataclass(frozen=True)
class BatchPolicy:
    """A rule for forming batches; make it with `batch_policy`.

    Parameters
    ----------
    name : str
        One of `BATCH_POLICIES`, or the name of the user's function.
    alpha : int, optional
        Largest allowed difference of progress among running jobs, in tokens (eq. 1 of the ISJL paper).
        None: not limited and not checked.
    options : tuple of (str, object)
        Further parameters of the policy, sorted by name.
    function : callable, optional
        A user's planner.
    """

    name: str
    alpha: int | None = None
    options: tuple[tuple[str, object], ...] = ()
    function: Callable[..., BatchPlan | ArrayLike] | None = field(default=None, repr=False)

    @property
    def promises_fairness(self) -> bool:
        """Whether every schedule of this policy keeps to its alpha, whatever the instance."""
        return self.function is None and self.alpha is not None and _TRAITS[self.name][1]

    @property
    def label(self) -> str:
        """The policy as figures name it, such as `isjl(100)`."""
        name = f"{self.name}, reordered" if self.option("reorder") else self.name
        return name if self.alpha is None else f"{name}({self.alpha})"

    def option(self, name: str) -> object:
        """Value of an option, None where the policy has none of that name."""
        return dict(self.options).get(name)


def batch_policy(
    name: str | Callable[..., BatchPlan | ArrayLike], alpha: int | None = None, **options: object
) -> BatchPolicy:
    """Make a batch policy.

    Parameters
    ----------
    name : str or callable
        `fcfs`, `sjf`: continuous batching in order of arrival, or shortest first. `ljf`: the B longest in
        static batches (Algorithm 1). `isjl`: Algorithm 3 in the reading that is fair at every step;
        `isjl_b2`: Algorithm 2, for a batch size of 2; `isjl_literal`, `isjl_unguarded`: exhibits that may
        break alpha. `slack`: packs that never outlast alpha, no hold. `robust`: `isjl` planned on upper
        bounds (3.4). `online`: `isjl` over what has been released (3.5). `cohort`: our planner.
        Or a function: see the module's docstring.
    alpha : int, optional
        Largest allowed progress gap in tokens; needed by all but `fcfs`, `sjf` and `ljf`, which take it
        only to have it checked.
    **options
        `cohort`: effort=1, seed=0, externality_weight=0.0. `ljf`, `isjl`, `isjl_b2`, `slack`, `cohort`:
        reorder=False; True puts the stages of a backlog into the order of least mean completion, which
        changes neither makespan nor externality nor fairness. For a function: passed on to it.

    Returns
    -------
    BatchPolicy

    Raises
    ------
    ParameterError
        For an unknown name or option, a missing or negative alpha.
    """
    limit = None if alpha is None else check_alpha(alpha)
    if callable(name):
        return BatchPolicy(
            name=getattr(name, "__name__", type(name).__name__),
            alpha=limit,
            options=tuple(sorted(options.items())),
            function=name,
        )
    if name not in _TRAITS:
        raise unknown_name("name", name, BATCH_POLICIES)
    if _TRAITS[name][0] and limit is None:
        raise ParameterError(
            "alpha", None, f"{name} needs a progress limit: give a whole number of tokens >= 0"
        )
    known = _OPTIONS.get(name, {})
    for key in options:
        if key not in known:
            raise (
                unknown_name("option", key, known)
                if known
                else ParameterError(key, options[key], f"{name} takes no options beside alpha")
            )
    if not isinstance(options.get("reorder", False), bool):
        raise ParameterError("reorder", options["reorder"], "give True or False")
    return BatchPolicy(name=name, alpha=limit, options=tuple(sorted({**known, **options}.items())))


def plan_schedule(
    policy: BatchPolicy,
    lengths: Steps,
    batch_size: int,
    release_steps: Steps | None = None,
    upper_bounds: Steps | None = None,
) -> BatchPlan:
    """Starts of all jobs under a policy, for arguments that have been checked (see `check_steps`)."""
    plan = _plan(policy, lengths, batch_size, release_steps, upper_bounds)
    if policy.function is not None or not policy.option("reorder"):
        return plan
    if release_steps is not None or upper_bounds is not None:
        raise ParameterError("reorder", True, "needs a backlog of known lengths, no releases or bounds")
    from clairvoyant_lab.scheduling.reorder import reorder_stages

    return replace(plan, start_steps=reorder_stages(plan.start_steps, lengths), sequence=None)


def _plan(
    policy: BatchPolicy,
    lengths: Steps,
    batch_size: int,
    release_steps: Steps | None,
    upper_bounds: Steps | None,
) -> BatchPlan:
    if policy.function is None and policy.name not in PLANNERS:
        from clairvoyant_lab.scheduling.rules import rule_schedule

        starts, sequence = rule_schedule(
            policy.name, lengths, batch_size, policy.alpha, release_steps, upper_bounds
        )
        return BatchPlan(starts, sequence=sequence)
    planner = policy.function
    if planner is None:
        module, _, attribute = PLANNERS[policy.name].partition(":")
        planner = getattr(import_module(module), attribute)
    extra: dict[str, Any] = dict(policy.options)
    if policy.function is None:
        extra.pop("reorder", None)
    if policy.function is None or release_steps is not None:
        extra["release_steps"] = release_steps
    if policy.function is None or upper_bounds is not None:
        extra["upper_bounds"] = upper_bounds
    plan = planner(lengths, batch_size, policy.alpha, **extra)
    return plan if isinstance(plan, BatchPlan) else BatchPlan(np.asarray(plan))


def check_alpha(alpha: object) -> int:
    """Return alpha as an int, or refuse it: it counts tokens, so it is whole and not negative."""
    whole = _whole(alpha)
    if whole is None or whole < 0:
        raise ParameterError("alpha", alpha, "give a whole number of tokens >= 0")
    if whole > 2**40:
        raise ParameterError(
            "alpha", alpha, "give at most 2**40; a limit beyond the longest job limits nothing"
        )
    return whole


def check_batch_size(batch_size: object) -> int:
    """Return the batch size as an int, or refuse it."""
    whole = _whole(batch_size)
    if whole is None or whole < 1:
        raise ParameterError("batch_size", batch_size, "give a whole number of slots >= 1")
    return whole


def check_steps(
    field_name: str,
    values: ArrayLike,
    *,
    at_least: int,
    n: int | None = None,
    floor: Steps | None = None,
) -> Steps:
    """Return values as int64[n], or refuse them with the index of the first bad one.

    Parameters
    ----------
    field_name : str
        Name of the argument.
    values : array_like of int, shape (n,)
        Whole numbers (floats that are whole are taken).
    at_least : int
        Smallest accepted value.
    n : int, optional
        The number of values there must be.
    floor : ndarray of int64, shape (n,), optional
        Smallest accepted value of each entry: the job's length.
    """
    given = np.asarray(values)
    if given.ndim != 1 or given.size == 0:
        raise ParameterError(field_name, values, "give a one-dimensional list with at least one job")
    if n is not None and given.size != n:
        raise ParameterError(field_name, f"{given.size} values", f"give one value for each of the {n} jobs")
    if given.dtype.kind not in "iuf" or (isinstance(values, list | tuple) and bool in set(map(type, values))):
        # text, booleans, objects: look at each as it was given, before numpy made them alike
        entries = list(values) if isinstance(values, list | tuple) else given.tolist()
        for index, value in enumerate(entries):
            if _whole(value) is None:
                raise ParameterError(f"{field_name}[{index}]", value, "give a whole number of tokens")
        given = np.asarray([float(value) for value in entries])
    if given.dtype.kind in "iu" and given.min() >= at_least and given.max() <= 2**40:
        bad = np.zeros(0, dtype=bool)
    else:
        with np.errstate(invalid="ignore"):
            bad = ~((given >= at_least) & (given <= 2**40) & (given == np.floor(given)))
    if bad.any():
        index = int(np.flatnonzero(bad)[0])
        raise ParameterError(
            f"{field_name}[{index}]",
            given[index].item(),
            f"give a whole number from {at_least} to 2**40",
        )
    steps: Steps = given.astype(np.int64)
    if floor is not None and (steps < floor).any():
        index = int(np.flatnonzero(steps < floor)[0])
        raise ParameterError(
            f"{field_name}[{index}]",
            int(steps[index]),
            f"give at least the job's length, {int(floor[index])}",
        )
    return steps


def _whole(value: object) -> int | None:
    if isinstance(value, bool | np.bool_):
        return None
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return int(value)
    return None
