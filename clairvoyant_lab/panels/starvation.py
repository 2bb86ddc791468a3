"""The τ panel: what a starvation timeout does to short and to long requests (Clairvoyant, 3.4 and 5.6)."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from clairvoyant_lab.errors import ParameterError, unknown_name
from clairvoyant_lab.lengths import LengthClass
from clairvoyant_lab.panels.controls import Choice, Control, LogSlider, Slider
from clairvoyant_lab.panels.panel import Panel, View

if TYPE_CHECKING:
    from clairvoyant_lab.simulation.replicates import Percentiles, Replicates

__all__ = ["day_panel", "tau_panel"]

_SLIDERS = ("starvation_timeout_s", "rho", "cs2", "promotion")
_REPLICATES = "from clairvoyant_lab.simulation.replicates import Replicates"
_RULES = {
    "oldest first (section 3.4)": "oldest",
    "smallest key first": "shortest",
    "only predicted long": "long_only",
}


def tau_panel(
    *,
    starvation_timeout_s: float | None = 60.0,
    rho: float = 0.74,
    cs2: float = 0.2,
    promotion: str = "oldest",
    sliders: tuple[str, ...] | None = None,
    n: int = 2_000,
    replicates: int = 5,
    seed: int = 42,
    accuracy: float = 0.95,
    profile: str | None = None,
    work: Replicates | None = None,
    work_code: str = "",
) -> Panel:
    """Make the panel: short and long requests under FCFS, SJF with τ, and SJF without a limit.

    Parameters
    ----------
    starvation_timeout_s : float or None
        Where τ starts; None is no limit.
    rho : float
        Load.
    cs2 : float
        Squared coefficient of variation of service times within each class.
    promotion : str
        Promotion rule (see `serial_policy`).
    sliders : tuple of str, optional
        Which of the four can be moved; the others stay as given. All by default; with a profile C_s² is
        the profile's, with traces of one's own only τ and the promotion rule are free.
    n, replicates, seed : int
        Requests in a trace, and traces with seeds `seed`, `seed + 1`, ...; every setting sees the same
        random numbers.
    accuracy : float
        Ranking accuracy of the score (eq. 2).
    profile : str, optional
        A hardware profile's service times in place of the mix of section 5.6.
    work : Replicates, optional
        Traces of one's own in place of the mix of section 5.6; they fix load and C_s².
    work_code : str
        Python lines that bind the same traces to `work`, for "copy as code".

    Returns
    -------
    Panel
    """
    known: tuple[str, ...] = _SLIDERS
    if work is not None:
        known = ("starvation_timeout_s", "promotion")
    elif profile is not None:
        known = ("starvation_timeout_s", "rho", "promotion")
    sliders = known if sliders is None else sliders
    for name in sliders:
        if name not in known:
            raise unknown_name("sliders", name, known)
    if work is not None and not work_code:
        raise ParameterError("work_code", work_code, "give the lines that make `work`, for copy as code")
    controls: dict[str, Control] = {
        "starvation_timeout_s": LogSlider(
            "starvation_timeout_s", "timeout τ (s)", starvation_timeout_s, 1.0, 1_000.0, "no limit"
        ),
        "rho": Slider("rho", "load ρ", rho, 0.3, 0.95, 0.01),
        "cs2": Slider("cs2", "C_s² within a class", cs2, 0.0, 3.0, 0.1),
        "promotion": Choice("promotion", "who is promoted", promotion, _RULES),
    }
    fixed: dict[str, Any] = {
        "starvation_timeout_s": starvation_timeout_s,
        "rho": rho,
        "cs2": cs2,
        "promotion": promotion,
        "n": n,
        "replicates": replicates,
        "seed": seed,
        "accuracy": accuracy,
        "profile": profile,
    }
    own_ends = None if work is None else (work.percentiles("fcfs"), work.percentiles("sjf"))

    def draw(**moved: Any) -> View:
        values = {**fixed, **moved}
        tau_s, rule = values.pop("starvation_timeout_s"), values.pop("promotion")
        if work is not None and own_ends is not None:
            return _draw(work, own_ends, tau_s, rule)
        return _draw(_work(**values), _ends(**values), tau_s, rule)

    def code(**moved: Any) -> str:
        values = {**fixed, **moved}
        tau_s, rule = values.pop("starvation_timeout_s"), values.pop("promotion")
        return _code(work_code or _mix_code(**values), tau_s, rule)

    return Panel("Starvation timeout τ", [controls[name] for name in sliders], draw, code)


def day_panel(
    model: str = "sharegpt",
    profile: str = "m1",
    *,
    starvation_timeout_s: float | None = 120.0,
    rho: float = 0.74,
    n: int = 2_000,
    replicates: int = 5,
    seed: int = 42,
) -> Panel:
    """Make the panel on days of real prompts at a machine's pace (`bench.day.days`).

    Parameters
    ----------
    model, profile : str
        Predictor and machine.
    starvation_timeout_s : float or None
        Where τ starts.
    rho, n, replicates, seed
        Load, requests in a day, days, and the seed of the first.
    """
    from clairvoyant_lab.bench.day import days

    seeds = range(seed, seed + replicates)
    work_code = (
        "from clairvoyant_lab.bench.day import days\n\n"
        f"work = days({model!r}, {profile!r}, rho={rho!r}, n={n!r}, seeds={seeds!r})"
    )
    work = days(model, profile, rho=rho, n=n, seeds=seeds)
    return tau_panel(starvation_timeout_s=starvation_timeout_s, work=work, work_code=work_code)


@functools.lru_cache(maxsize=16)
def _work(
    n: int, rho: float, cs2: float, seed: int, replicates: int, accuracy: float, profile: str | None
) -> Replicates:
    from clairvoyant_lab.simulation.profiles import hardware_profile
    from clairvoyant_lab.simulation.replicates import Replicates
    from clairvoyant_lab.simulation.workloads import paper_mix

    service = paper_mix(cs2=cs2) if profile is None else hardware_profile(profile).service_model()
    seeds = range(seed, seed + replicates)
    return Replicates.poisson(n, service, rho=rho, seeds=seeds, accuracy=accuracy)


@functools.lru_cache(maxsize=64)
def _ends(**setting: Any) -> tuple[Percentiles, Percentiles]:
    work = _work(**setting)
    return work.percentiles("fcfs"), work.percentiles("sjf")


def _draw(
    work: Replicates,
    ends: tuple[Percentiles, Percentiles],
    starvation_timeout_s: float | None,
    promotion: str,
) -> View:
    from clairvoyant_lab.figures.settings import tau_effect
    from clairvoyant_lab.scheduling.serial import serial_policy

    fcfs, sjf = ends
    guarded = work.percentiles(serial_policy("sjf", starvation_timeout_s, promotion))
    numbers: list[tuple[object, ...]] = [("time in system (s)", "FCFS", "SJF with τ", "SJF")]
    for length_class in (LengthClass.SHORT, LengthClass.LONG):
        for q in guarded.q:
            cells = [result.mean_of(length_class, q) for result in (fcfs, guarded, sjf)]
            numbers.append((f"{length_class.label} P{q:g}", *(f"{cell:.1f}" for cell in cells)))
    promoted = float(guarded.promoted_share[0].mean())
    numbers.append(("promoted", "", f"{promoted:.0%}", ""))
    return View(
        tau_effect(fcfs, guarded, sjf),
        _sentence(starvation_timeout_s, promotion, promoted, fcfs, guarded),
        numbers,
    )


def _sentence(
    tau_s: float | None, promotion: str, promoted: float, fcfs: Percentiles, guarded: Percentiles
) -> str:
    short = 1.0 - guarded.mean_of(LengthClass.SHORT, 50) / fcfs.mean_of(LengthClass.SHORT, 50)
    long = guarded.mean_of(LengthClass.LONG, 99) / fcfs.mean_of(LengthClass.LONG, 99) - 1.0
    effect = f"against FCFS, the median short request is {_faster(short)} and the long P99 {_change(long)}."
    if tau_s is None:
        return (
            f"No limit: nobody is promoted, a long request waits as long as short ones keep coming; {effect}"
        )
    who = {
        "oldest": "whoever has waited longest goes first",
        "shortest": "of those who waited longer, the one with the smallest key goes first",
        "long_only": "of those who waited longer, only requests predicted long are promoted",
    }[promotion]
    return f"Once a request has waited {tau_s:.3g} s, {who}. That happens to {promoted:.0%} of them; {effect}"


def _faster(gain: float) -> str:
    if abs(gain) < 0.005:
        return "as fast as under it"
    return f"{gain:.0%} faster" if gain > 0 else f"{-gain:.0%} slower"


def _change(growth: float) -> str:
    if abs(growth) < 0.005:
        return "stays the same"
    return f"is {growth:.0%} longer" if growth > 0 else f"is {-growth:.0%} shorter"


def _mix_code(
    *, n: int, rho: float, cs2: float, seed: int, replicates: int, accuracy: float, profile: str | None
) -> str:
    home, service = "workloads import paper_mix", f"paper_mix(cs2={cs2!r})"
    if profile is not None:
        home, service = "profiles import hardware_profile", f"hardware_profile({profile!r}).service_model()"
    imports = sorted([f"from clairvoyant_lab.simulation.{home}", _REPLICATES])
    seeds = f"range({seed}, {seed + replicates})"
    return "\n".join(
        [
            *imports,
            "",
            f"service = {service}",
            f"work = Replicates.poisson({n}, service, rho={rho!r}, seeds={seeds}, accuracy={accuracy!r})",
        ]
    )


def _code(work_code: str, starvation_timeout_s: float | None, promotion: str) -> str:
    return f"""\
import clairvoyant_lab as cl
from clairvoyant_lab.figures.settings import tau_effect
from clairvoyant_lab.figures.show import show
{work_code.rstrip()}
guarded = cl.serial_policy("sjf", starvation_timeout_s={starvation_timeout_s!r}, promotion={promotion!r})
figure = tau_effect(work.percentiles("fcfs"), work.percentiles(guarded), work.percentiles("sjf"))
show(figure)
"""
