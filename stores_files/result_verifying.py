"""Reading every tool result of a tenant, and listing what is damaged."""

from stores_core.errors import StoreError
from stores_files.layout import RESULTS
from stores_files.names import name_of
from stores_files.places import Place
from stores_files.result_folders import StoredResult, read_result
from stores_files.storage import Tenant
from stores_files.verifying import Findings


def verify_results(tenant: Tenant, findings: Findings) -> None:
    """Every result with its text and its rest, and what is in the folders that is not ours."""
    with tenant.entered() as place:
        names = sorted(place.disk.names(place[RESULTS])) if place else []
    for name in names:
        with tenant.entered() as place:
            if place is not None:
                _verify_result(place, tenant, name, findings)


def _verify_result(place: Place, tenant: Tenant, name: str, findings: Findings) -> None:
    disk, id = place.disk, name
    try:
        with (
            disk.opened(disk.open_folder(place[RESULTS], name)) as folder,
            disk.locked(folder, tenant.storage.lock_timeout, shared=True),
        ):
            stored = StoredResult.read(place, folder)
            findings.checked["tool_results"] += 1
            id = stored.ref
            if name_of(id) != name:
                findings.add("tool_results", id, "its folder has the name of another result")
            elif not tenant.result_listing.lists(place.folder, (id, stored.generation)):
                findings.add("tool_results", id, "it is not listed; `repair` lists it again")
            read_result(place, stored, folder)
    except NotADirectoryError:
        findings.add("files", name, "a strange thing among the results; it was left alone")
    except FileNotFoundError:
        if disk.identity_of(place[RESULTS], name) is not None:  # else it was deleted meanwhile
            findings.add("files", name, "a folder among the results without a result.json")
    except StoreError as error:
        findings.add("tool_results", id, str(error))
    except OSError as error:
        findings.add("tool_results", id, f"it cannot be read ({type(error).__name__})")
