"""What the oracle raises where a store must refuse."""


class Refused(Exception):
    """The contract prescribes an InvalidRequestError; the text says why."""
