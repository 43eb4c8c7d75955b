"""A policy: the strictest of the rules that concern an operation counts."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from state.document.approval import RULED, Approval, Policy, SectionRule

from state.document.operations import Action
from state.document.sections import SectionName

AUTO, ASK, NEVER = Approval
approvals = st.sampled_from(Approval)
# What another kind of operation is ruled as.
KINDS = {
    Action.MOVE: Action.REVISE,
    Action.WEIGH: Action.REVISE,
    Action.CLOSE: Action.EVICT,
    Action.RECALL: Action.ADD,
    Action.LEARN: Action.ADD,
}
policies = st.builds(
    Policy,
    approvals,
    approvals,
    approvals,
    approvals,
    approvals,
    st.lists(st.builds(SectionRule, st.sampled_from(SectionName), st.sampled_from(RULED), approvals)).map(tuple),
)


@given(policies, st.sampled_from(Action), st.sampled_from(SectionName), st.booleans(), st.booleans())
def test_the_strictest_rule_that_concerns_it_counts(
    policy: Policy,
    action: Action,
    section: SectionName,
    by_hand: bool,  # noqa: FBT001 - drawn
    by_owner: bool,  # noqa: FBT001 - drawn
) -> None:
    kind = KINDS.get(action, action)
    concerned = {Approval(getattr(policy, kind.value))}
    concerned |= {policy.by_hand} if by_hand else set()
    concerned |= {
        one.approval for one in policy.sections if not by_owner and (one.section, one.action) == (section, kind)
    }
    rule = policy.rule_of(action, [section], by_hand=by_hand, by_owner=by_owner)
    expected = NEVER if NEVER in concerned else ASK if ASK in concerned else AUTO
    assert rule.approval is expected
    asking = replace(policy, asks_all=True).rule_of(action, [section], by_hand=by_hand, by_owner=by_owner)
    assert asking.approval is (NEVER if NEVER in concerned else ASK)


def test_the_rule_says_by_which_key_it_stands() -> None:
    policy = Policy(by_hand=ASK, sections=(SectionRule(SectionName.BOND, Action.REVISE, NEVER),))
    sections = [SectionName.BOND]
    assert policy.rule_of(Action.ADD, sections, by_hand=False, by_owner=False).name == "add"
    assert policy.rule_of(Action.MERGE, sections, by_hand=True, by_owner=True).name == "by_hand"
    rule = policy.rule_of(Action.REVISE, sections, by_hand=True, by_owner=False)
    assert rule.name == "sections.The Bond"
