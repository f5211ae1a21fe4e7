"""When a trial is given up."""

import math

from headcount.orchestrator.search.pruning import pruned_at

EARLIER = [{10: 4.0 + n, 20: 3.0 + n, 30: 2.0 + n, 40: 1.0 + n} for n in range(5)]
"""The median at step 20 is 5.0, at step 30 it is 4.0."""


def test_it_is_given_up_at_the_first_step_from_the_middle_on_where_it_is_behind_the_median() -> None:
    assert pruned_at({10: 9.0, 20: 5.1, 30: 9.0}, EARLIER, 20, 40) == 20
    assert pruned_at({10: 9.0, 20: 5.0, 30: 4.1}, EARLIER, 20, 40) == 30
    assert pruned_at({20: math.inf}, EARLIER, 20, 40) == 20


def test_it_goes_on_where_it_is_not_behind_at_the_end_and_before_five_others() -> None:
    assert pruned_at({10: 9.0, 20: 5.0, 30: 4.0}, EARLIER, 20, 40) is None
    assert pruned_at({40: 9.0}, EARLIER, 20, 40) is None
    assert pruned_at({20: 9.0, 30: 9.0}, EARLIER[:4], 20, 40) is None
    assert pruned_at({20: 9.0}, [*EARLIER[:4], {10: 1.0}], 20, 40) is None
