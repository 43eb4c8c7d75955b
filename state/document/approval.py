"""Approval: which operations apply by themselves, which need the owner's approval, and which are refused."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from state.document.operations import Action
from state.document.sections import SectionName

# The kinds of operations with a rule of their own.
RULED = (Action.ADD, Action.REVISE, Action.MERGE, Action.EVICT)
_MODE = "mode"
# Other kinds of operations follow the rule of one of these.
_KINDS = {
    Action.MOVE: Action.REVISE,
    Action.WEIGH: Action.REVISE,
    Action.CLOSE: Action.EVICT,
    Action.RECALL: Action.ADD,
    Action.LEARN: Action.ADD,
}


class Approval(StrEnum):
    """What happens to an operation; members are ordered from lenient to strict."""

    AUTO = "auto"
    ASK = "ask"
    NEVER = "never"


class Heard(StrEnum):
    """What a dream does with notes an agent wrote after it had read a page or a tool's output."""

    MARK = "mark"
    ASK = "ask"
    LEAVE = "leave"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule that applies to an operation; `name` is its key below `dream.approve`, or "mode"."""

    name: str
    approval: Approval

    @property
    def words(self) -> str:
        """Return the line of the configuration that sets the rule."""
        return "dream.mode: propose" if self.name == _MODE else f"dream.approve.{self.name}: {self.approval}"


@dataclass(frozen=True, slots=True)
class SectionRule:
    """The approval of one kind of operation on a section, unless the operation cites the owner."""

    section: SectionName
    action: Action
    approval: Approval


@dataclass(frozen=True, slots=True)
class Policy:
    """The owner's rules: per kind of operation, for lines written by hand, and per section.

    If several rules apply to an operation, the strictest counts. `asks_all` (dream.mode: propose): every operation
    needs approval, and no line is evicted for lack of room.
    """

    add: Approval = Approval.AUTO
    revise: Approval = Approval.AUTO
    merge: Approval = Approval.AUTO
    evict: Approval = Approval.AUTO
    by_hand: Approval = Approval.AUTO
    sections: tuple[SectionRule, ...] = ()
    heard: Heard = Heard.MARK
    asks_all: bool = False

    def rule_of(
        self,
        action: Action,
        sections: Iterable[SectionName],
        *,
        by_hand: bool,
        by_owner: bool,
    ) -> Rule:
        """Return the strictest rule for an operation of this kind on lines of these sections.

        `by_hand`: it removes or changes a line that the owner wrote; `by_owner`: it cites something the owner said.
        """
        kind = _KINDS.get(action, action)
        rules = [Rule(kind.value, Approval(getattr(self, kind.value)))]
        rules += [Rule(_MODE, Approval.ASK)] if self.asks_all else []
        rules += [Rule("by_hand", self.by_hand)] if by_hand else []
        if not by_owner:
            concerned = set(sections)
            rules += [
                Rule(f"sections.{one.section.value}", one.approval)
                for one in self.sections
                if one.action is kind and one.section in concerned
            ]
        return max(rules, key=lambda rule: list(Approval).index(rule.approval))
