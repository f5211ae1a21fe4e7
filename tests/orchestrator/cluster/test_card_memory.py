"""Who holds a card's memory, on cards that are only described."""

from headcount.orchestrator.cluster.card_memory import CardUse, GiB, read_cards, strangers, visible_cards

TRAINER, OTHER = (10, 20 * GiB, "ray::Slot"), (77, 40 * GiB, "python")


def card(*processes: tuple[int, int, str], used: int | None = None) -> CardUse:
    total = sum(size for _, size, _ in processes)
    return CardUse(0, 80 * GiB, total if used is None else used, processes)


def test_a_stranger_is_named_with_what_it_holds() -> None:
    found = strangers(card(TRAINER, OTHER), {10})
    assert found is not None
    assert found.share == 0.5
    assert found.words == "40.0 of 80.0 GiB are held by python 77 with 40.0 GiB"


def test_our_own_slots_are_no_strangers_and_a_desktop_s_windows_are_let_be() -> None:
    assert strangers(card(TRAINER), {10}) is None
    assert strangers(card(TRAINER, (5, GiB, "Xorg")), {10}) is None
    assert strangers(card(used=GiB), set()) is None


def test_memory_without_a_process_that_is_seen_counts_where_none_of_ours_is() -> None:
    found = strangers(card(used=40 * GiB), set())
    assert found is not None
    assert (found.share, found.words) == (0.5, "40.0 of 80.0 GiB are held by a process not seen from here")


def test_nothing_is_said_where_processes_are_numbered_otherwise() -> None:
    assert strangers(card(TRAINER, OTHER), {1, 2}) is None


def test_without_a_driver_there_are_no_cards() -> None:
    cards = read_cards()
    assert all(0 <= found.used <= found.memory for found in cards)
    assert [found.index for found in cards] == list(range(len(cards)))


def test_the_cards_that_a_process_may_use_are_told_by_number() -> None:
    assert visible_cards("1,0") == (1, 0)
    assert visible_cards(" 3 ") == (3,)
    assert visible_cards("") == visible_cards("-1") == visible_cards("GPU-a17ac54e,1") == ()
