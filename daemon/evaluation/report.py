"""Report: the figures of all arms on one life, for a person and as JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from daemon.evaluation.arms import Arm, Lived, Setting, live
from daemon.evaluation.life import Life
from daemon.evaluation.measures import MEASURES, Figure, Measure, difference, figure, outcomes
from state.budget import Spend

TITLES = {
    Arm.NOTES: "no dream",
    Arm.DREAM: "dream",
    Arm.MODEL: "dream, model",
    Arm.REWRITE: "rewrite",
}


@dataclass(frozen=True, slots=True)
class ArmReport:
    """One arm: its figures by the measure's name, without those that it has nothing for.

    `judged` has what each measure says of each fact, by its id. `unsettled`: the share of lines that a second dream
    on the last day's notes changes.
    """

    arm: str
    figures: dict[str, Figure]
    judged: dict[str, dict[str, float]]
    unsettled: float | None
    refused: int
    seconds: float
    spent: Spend


@dataclass(frozen=True, slots=True)
class Difference:
    """How much more one arm has than another, fact by fact."""

    measure: str
    arm: str
    than: str
    figure: Figure

    @property
    def is_certain(self) -> bool:
        """Whether the interval leaves zero out."""
        return self.figure.low > 0 or self.figure.high < 0


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that was measured. `seed` is that of the intervals; `tokens` the budget of what is read."""

    life: str
    days: int
    notes: int
    facts: int
    changing: int
    tokens: int
    seed: int
    embeddings: bool
    arms: tuple[ArmReport, ...]
    differences: tuple[Difference, ...]


def evaluate(setting: Setting, seed: int) -> Report:
    """Live the life in every way and measure. Raises what an arm fails with."""
    arms = (Arm.NOTES, Arm.DREAM, *([Arm.MODEL] if setting.with_model else []), Arm.REWRITE)
    from state.stores.vectors.embedder import Unavailable

    embeds = not isinstance(setting.embedding.get(), Unavailable)
    return report(setting.life, {arm: live(arm, setting) for arm in arms}, setting.tokens, seed, embeddings=embeds)


def report(life: Life, lived: dict[Arm, Lived], tokens: int, seed: int, *, embeddings: bool) -> Report:
    """The figures of what the arms have; dreams are compared with the others, paired by fact."""
    judged = {
        arm: {measure.name: outcomes(measure, life.facts, one.memory) for measure in MEASURES}
        for arm, one in lived.items()
    }
    arms = tuple(
        ArmReport(
            arm.value,
            {name: found for name, values in judged[arm].items() if (found := figure(list(values.values()), seed))},
            judged[arm],
            one.memory.unsettled,
            one.refused,
            one.seconds,
            one.spent,
        )
        for arm, one in lived.items()
    )
    dreams = [arm for arm in (Arm.DREAM, Arm.MODEL) if arm in lived]
    pairs = [(dream, arm) for dream in dreams for arm in lived if arm not in (dream, Arm.MODEL)]
    differences = tuple(
        Difference(measure.name, arm.value, than.value, found)
        for arm, than in pairs
        for measure in MEASURES
        if (found := difference(judged[arm][measure.name], judged[than][measure.name], seed))
    )
    return Report(
        life=life.name,
        days=len(life.days),
        notes=sum(map(len, life.days)),
        facts=len(life.facts),
        changing=sum(bool(fact.superseded) for fact in life.facts),
        tokens=tokens,
        seed=seed,
        embeddings=embeddings,
        arms=arms,
        differences=differences,
    )


def table(found: Report) -> tuple[list[str], list[list[str]]]:
    """Headers and rows: a figure with its interval for each measure and arm, "-" where there is none."""
    headers = ["", "", *(TITLES[Arm(one.arm)] for one in found.arms)]
    rows = [
        [measure.title, "↑" if measure.more else "↓", *(_cell(measure, one.figures) for one in found.arms)]
        for measure in MEASURES
        if any(measure.name in one.figures for one in found.arms)
    ]
    settled = ["-" if one.unsettled is None else _per_cent(one.unsettled) for one in found.arms]
    rows.append(["lines that the last day's notes, dreamt again, change", "↓", *settled])
    return headers, rows


def compared(found: Report) -> Iterator[str]:
    """A line for each difference that the interval leaves no doubt of."""
    titles = {measure.name: measure for measure in MEASURES}
    for one in found.differences:
        if one.is_certain:
            measure, value = titles[one.measure], one.figure
            numbers = _interval(measure, value, signed=True)
            better = "better" if (value.mean > 0) is measure.more else "worse"
            yield f"{TITLES[Arm(one.arm)]} against {TITLES[Arm(one.than)]}: {measure.title}: {numbers}, {better}"


def _cell(measure: Measure, figures: dict[str, Figure]) -> str:
    found = figures.get(measure.name)
    return "-" if found is None else _interval(measure, found)


def _interval(measure: Measure, found: Figure, *, signed: bool = False) -> str:
    numbers: Sequence[float] = (found.mean, found.low, found.high)
    sign = "+" if signed else ""
    if measure.name == "lines":
        mean, low, high = (f"{number:{sign}.2f}" for number in numbers)
    else:
        mean, low, high = (f"{100 * number:{sign}.0f}" for number in numbers)
        mean += " %"
    return f"{mean} [{low}, {high}]"


def _per_cent(share: float) -> str:
    return f"{100 * share:.0f} %"
