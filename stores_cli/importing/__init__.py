"""Import of sessions that other programs keep: a reader for each format, one writer."""

from stores_cli.importing.importing import import_sessions
from stores_cli.importing.registry import FORMATS
from stores_cli.importing.reports import FileReport, Outcome, Report

__all__ = ["FORMATS", "FileReport", "Outcome", "Report", "import_sessions"]
