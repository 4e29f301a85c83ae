"""The model of claiming an id across slots: it holds in every order, and it would show mistakes."""

import pytest

from tests.claim_exploring import explore
from tests.claim_model import Protocol, Wrong

SOUND = [
    "fork fork read",
    "fork create read",
    "fork create append append",
    "fork fork fork read",
    "fork fork create delete",
    "fork create delete delete append",
    "fork fork delete append",
    "fork fork delete delete read",
    "fork delete fork append",
    "fork fork delete list read",
    "fork fork forget grow list",
    "fork forget delete append sweep",
    "fork fork create sweep sweep",
    "fork create delete read sweep",
    "fork fork forget delete sweep",
]

MISTAKES = {
    "claims_first": ("fork read", "lives and has no data"),
    "removes_claim_first": ("fork create delete append", "was born while"),
    "ignores_tokens": ("fork delete fork append", "which nobody may see"),
    "sweeps_early": ("fork sweep", "sweep removes"),
    "trusts_claims": ("fork delete read", "without data"),
    "keeps_users": ("fork delete", "has the users"),
}


@pytest.mark.long
@pytest.mark.parametrize("calls", SOUND)
def test_in_every_order_each_answer_is_true_and_nothing_is_left(calls: str) -> None:
    assert explore(calls.split()) > 100


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_shows_with_the_steps_that_lead_to_it(mistake: str) -> None:
    calls, said = MISTAKES[mistake]
    with pytest.raises(Wrong, match=said) as caught:
        explore(calls.split(), Protocol(**{mistake: True}))
    assert calls.split()[0] in str(caught.value)
    explore(calls.split())  # which holds without it
