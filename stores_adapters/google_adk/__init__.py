"""Google ADK: services for sessions, memory and artifacts on any backend.

``Runner(app_name=…, agent=…, session_service=BackendSessionService(backend), …)``. Needs the extra
``google-adk``.
"""

from stores_core.extras import need

need("google.adk.sessions", extra="google-adk", field="stores_adapters.google_adk")

from stores_adapters.google_adk.artifacts import BackendArtifactService  # noqa: E402 - after need
from stores_adapters.google_adk.memory import BackendMemoryService  # noqa: E402 - after need
from stores_adapters.google_adk.sessions import BackendSessionService  # noqa: E402 - after need

__all__ = ["BackendArtifactService", "BackendMemoryService", "BackendSessionService"]
