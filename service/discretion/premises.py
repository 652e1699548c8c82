"""What the settings point to, looked at before anything starts: folders, the store, keys, certificates.

A path that cannot be meant ends the start with one sentence that names its setting, instead of a service that everybody
relies on and that refuses each upload and each training. What may pass is none of that: a full disk, a store that does
not answer, a folder of a worker's store that is not mounted yet. Each command is asked only for what it uses.
"""

import errno
import importlib.util
import ssl
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from discretion import errors, shelves, signing, stores
from discretion.settings import Cluster, Settings

# Of a path that stays wrong until somebody names another or changes its rights.
_NOT_MEANT: Final = {
    errno.EACCES,
    errno.EEXIST,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EPERM,
    errno.EROFS,
}


def check(found: Settings, command: str) -> None:
    """Refuse what `command` could not work with; folders that it writes to are made."""
    for look in _USED[command]:
        look(found)


def fault(found: Settings, command: str) -> str:
    """What is refused, in words; for whoever could use it at the start and no longer can."""
    try:
        check(found, command)
    except errors.InvalidSetting as refusal:
        return str(refusal)
    return "it can be used again."


def _data(found: Settings) -> None:
    _written("DATA", found.data)


def _work(found: Settings) -> None:
    _written("WORK" if found.work != found.data / "work" else "DATA", found.work)


def _heads(found: Settings) -> None:
    _written("HEADS" if found.heads != found.data / "heads" else "DATA", found.heads)


def _own_store(found: Settings) -> None:
    """Of the service, which makes the folder if there is none."""
    _stored(found, _written)


def _store(found: Settings) -> None:
    """Of those who read what the service has stored."""
    _stored(found, _listed)


def _stored(found: Settings, look: Callable[[str, Path], None]) -> None:
    shelf = shelves.opened(found)
    shelf.close()
    if isinstance(shelf.store, stores.Folder):
        look("DATA" if found.store is None else "STORE", shelf.store.root)


def _signing_key(found: Settings) -> None:
    try:
        given = found.signing_key is not None or found.signing_key_file.exists()
    except OSError as trouble:
        return _refuse("DATA", trouble)
    if given:  # else whoever first needs one makes it
        signing.current(found)


def _cluster(found: Settings) -> None:
    if found.cluster is None:
        return
    if importlib.util.find_spec("distributed") is None:
        raise errors.InvalidSetting('DISCRETION_CLUSTER needs Dask; install it: pip install "discretion[cluster]"')
    _certificates(found.cluster)


def _own_cluster(found: Settings) -> None:
    """Of commands that are about one; before Dask is imported."""
    if found.cluster is None:
        raise errors.InvalidSetting("DISCRETION_CLUSTER is not set; it names the scheduler: tls://host:8786")
    _cluster(found)


def _certificates(found: Cluster) -> None:
    """Whether they have ended, and whom they convince, is found out when the scheduler is asked."""
    files = {"CA": found.ca_file, "CERTIFICATE": found.certificate_file, "KEY": found.key_file}
    for name, path in files.items():
        try:
            path.read_bytes()
        except OSError as trouble:
            raise errors.InvalidSetting(
                f"The file named by DISCRETION_CLUSTER_{name}_FILE cannot be read: {trouble.strerror}."
            ) from None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for name in ("CA", "CERTIFICATE"):
        try:
            context.load_verify_locations(files[name])
        except (ssl.SSLError, ValueError):
            raise errors.InvalidSetting(
                f"The file named by DISCRETION_CLUSTER_{name}_FILE holds no certificate in PEM."
            ) from None
    try:  # a password is given so that nobody is asked for one
        context.load_cert_chain(found.certificate_file, found.key_file, password="")
    except (ssl.SSLError, ValueError):
        raise errors.InvalidSetting(
            "The file named by DISCRETION_CLUSTER_KEY_FILE must hold, in PEM and without a password, the key of the "
            "certificate named by DISCRETION_CLUSTER_CERTIFICATE_FILE."
        ) from None


def _written(name: str, folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as trouble:
        _refuse(name, trouble)


def _listed(name: str, folder: Path) -> None:
    """Whether it is there is asked later, and again: a disk that is away may come back."""
    try:
        next(folder.iterdir(), None)
    except FileNotFoundError:
        pass
    except OSError as trouble:
        _refuse(name, trouble)


def _refuse(name: str, trouble: OSError) -> None:
    if trouble.errno in _NOT_MEANT:
        raise errors.InvalidSetting(
            f"DISCRETION_{name} must name a folder that this program can use, and that one it cannot: "
            f"{trouble.strerror}."
        ) from None


_USED: Final[dict[str, tuple[Callable[[Settings], None], ...]]] = {
    "serve": (_data, _work, _heads, _own_store, _signing_key, _cluster),
    "work": (_heads, _store, _signing_key, _cluster),
    "migrate": (_data,),
    "cluster schedule": (_own_cluster,),
    "cluster work": (_store, _own_cluster),
    "cluster check": (_own_cluster,),
}
