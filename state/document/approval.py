"""Approval: which operations apply by themselves, which wait for the owner, and which are refused."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from state.document.operations import Action
from state.document.sections import SectionName

# The kinds of operations that have rules of their own.
RULED = (Action.ADD, Action.REVISE, Action.MERGE, Action.EVICT)
_MODE = "mode"
# What a rule for another kind of operation is meant for as well.
_KINDS = {Action.MOVE: Action.REVISE, Action.CLOSE: Action.EVICT, Action.RECALL: Action.ADD, Action.LEARN: Action.ADD}


class Approval(StrEnum):
    """What becomes of an operation; the later the member, the stricter."""

    AUTO = "auto"
    ASK = "ask"
    NEVER = "never"


class Heard(StrEnum):
    """What a dream does with what an agent noted after it had read a page or a tool's answer."""

    MARK = "mark"
    ASK = "ask"
    LEAVE = "leave"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a policy that concerns an operation; `name` is its key below `dream.approve`, or "mode"."""

    name: str
    approval: Approval

    @property
    def words(self) -> str:
        """Return the line of the configuration that says so."""
        return "dream.mode: propose" if self.name == _MODE else f"dream.approve.{self.name}: {self.approval}"


@dataclass(frozen=True, slots=True)
class SectionRule:
    """What becomes of one kind of operation on a section that cites nothing of the owner's."""

    section: SectionName
    action: Action
    approval: Approval


@dataclass(frozen=True, slots=True)
class Policy:
    """The owner's rules: one for each kind of operation, for lines written by hand, and for sections.

    Of several rules that concern an operation the strictest counts. `asks_all` (dream.mode: propose): nothing
    applies unasked, and no line leaves for want of room.
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

        `by_hand`: it removes or changes a line that the owner wrote; `by_owner`: it cites what the owner said.
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
