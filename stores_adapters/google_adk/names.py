"""How runs and namespaces are named, so that no app, user or session reaches another's."""


def joined(what: str, *names: str) -> str:
    """One name for several. The lengths keep "a" and "b c" apart from "a b" and "c"."""
    return f"google-adk-{what} " + " ".join(f"{len(name)} {name}" for name in names)


def labels_of(what: str, app: str, user: str | None = None) -> dict[str, str]:
    """The labels of everything of this kind that an app, or one of its users, has."""
    # A user may be the empty text, which no label is.
    labels = {"google-adk": what, "google-adk-app": f"app {app}"}
    return labels if user is None else {**labels, "google-adk-user": f"user {user}"}
