"""Labels: each is written by one worker, one value after another, so its values have an order."""

from conformance_tests.histories.lifetimes import Life
from conformance_tests.histories.logs import HistoryFaultError
from conformance_tests.histories.recording import Outcome, Record
from conformance_tests.histories.sweeping import Claim, sweep


def check_labels(life: Life) -> None:
    """Raises HistoryFaultError where a label shows a value that was not there at that time."""
    updates: dict[str, list[Record]] = {}
    for call in sorted(life.calls, key=lambda call: call.called):
        if call.operation == "update" and call.outcome in (Outcome.OK, Outcome.UNKNOWN):
            updates.setdefault(call.sent.label, []).append(call)
    headers = [
        call
        for call in life.calls
        if call.operation in ("get", "load") and call.answer is not None and call.answer.found
    ]
    for label in {label for call in headers for label in _labels(call)} - updates.keys():
        shown = next(call for call in headers if label in _labels(call))
        raise HistoryFaultError("label", f"nobody sent the label {label} here", shown)
    for label, sent in updates.items():
        places = {update.sent.value: place for place, update in enumerate(sent, 1)}
        claims = [
            Claim(update, [(place - 1, place - 1)], gives=place)
            for place, update in enumerate(sent, 1)
        ]
        for call in headers:
            value = _labels(call).get(label)
            place = 0 if value is None else places.get(value, -1)
            if place < 0:
                raise HistoryFaultError("label", f"{label}={value} was not sent here", call)
            claims.append(Claim(call, [(place, place)]))
        late = sweep(claims)
        if late is not None:
            text = f"{label} was seen or set out of order"
            raise HistoryFaultError("label", text, late.before, late.claim.record)


def _labels(call: Record) -> dict[str, int]:
    return {} if call.answer is None else dict(call.answer.labels)
