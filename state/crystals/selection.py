"""Selection: which crystals a dream reads when there are too many: the important ones, and some of every kind."""

from collections import defaultdict
from collections.abc import Iterable

from state.crystals.crystal import Crystal, Kind


def mix_kinds(crystals: Iterable[Crystal], limit: int) -> list[Crystal]:
    """At most `limit` of these, most important first, with no kind starved by the number of another.

    Half of the places are shared out equally among the kinds that are present (one each at least, while places
    last), the others go by importance alone. With limit >= 9 every kind that is present is represented.
    Equally important crystals keep their order.
    """
    ranked = sorted(crystals, key=lambda crystal: -crystal.importance)
    by_kind: dict[Kind, list[int]] = defaultdict(list)
    for place, crystal in enumerate(ranked):
        by_kind[crystal.kind].append(place)
    share = max(1, limit // (2 * max(1, len(by_kind))))
    reserved = sorted(place for places in by_kind.values() for place in places[:share])
    rest = sorted(set(range(len(ranked))) - set(reserved))
    return [ranked[place] for place in sorted([*reserved, *rest][:limit])]
