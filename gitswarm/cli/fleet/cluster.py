"""Dask finds a free slot for a run, in this process or on other machines (`fleet serve`, `fleet work`). It keeps
nothing of ours."""

from __future__ import annotations

import ipaddress
import logging
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, NoReturn
from urllib.parse import urlsplit

from msgspec import Struct

from gitswarm.cli.arguments import Argument, Option
from gitswarm.cli.console import complain, err, out
from gitswarm.cli.fleet import worker
from gitswarm.cli.fleet.worker import FOLDER, version_here
from gitswarm.errors import SwarmError, UsageError

if TYPE_CHECKING:
    from distributed import Client, Security

SLOT = "run"
"""Dask's resource of which each run takes one."""

NO_DASHBOARD = "127.0.0.1:0"
"""Without one Dask listens on every interface all the same; so it gets a port on loopback, and no pages."""

WORKER_TTL = "60s"
"""A machine that says nothing for so long has lost its runs; Dask's own value is five minutes."""

ALLOWED_FAILURES = 1_000
"""Attempts are counted on the hub: Dask counts workers that died, also for what they had not begun."""

_JOIN_S = 20

CaOption = Annotated[str | None, Option("--tls-ca", metavar="FILE", help="The authority that signed all of them.")]
CertOption = Annotated[str | None, Option("--tls-cert", metavar="FILE", help="This machine's certificate.")]
KeyOption = Annotated[str | None, Option("--tls-key", metavar="FILE", help="Its key.")]


class Tls(Struct, frozen=True):
    """Files by which machines of a fleet know each other."""

    ca: str | None = None
    cert: str | None = None
    key: str | None = None

    @property
    def is_whole(self) -> bool:
        return None not in (self.ca, self.cert, self.key)

    @property
    def words(self) -> list[str]:
        """The options as Dask's commands take them."""
        given = {"--tls-ca-file": self.ca, "--tls-cert": self.cert, "--tls-key": self.key}
        return [word for name, path in given.items() if path is not None for word in (name, path)]

    def security(self) -> Security:
        from distributed import Security  # noqa: PLC0415

        files = {"tls_ca_file": self.ca, "tls_client_cert": self.cert, "tls_client_key": self.key}
        return Security(**files, require_encryption=True)


def checked_tls(address: str, tls: Tls, again: str) -> bool:
    """Whether TLS is spoken with an address, `tcp://HOST:PORT` or `tls://HOST:PORT`.

    :param again: the command up to the address, for the hint.
    :raises UsageError: it is open to others, and nothing would keep them out: who reaches a scheduler executes
        what he likes on every machine of the fleet.
    """
    parts = urlsplit(address)
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if parts.scheme not in ("tcp", "tls") or host is None or port is None:
        raise UsageError(f"{address} is no address of a scheduler", hint=f"{again}tcp://127.0.0.1:8786")
    files = [tls.ca, tls.cert, tls.key]
    missing = [path for path in files if path is not None and not Path(path).is_file()]
    if missing:
        raise UsageError(f"there is no file {missing[0]}", hint=f"ls -l {Path(missing[0]).parent}")
    if tls.is_whole:
        return True
    if any(files) or parts.scheme == "tls" or not is_loopback(host):
        raise UsageError(
            f"{address}: without TLS everybody who reaches it executes what he likes as you",
            hint=f"{again}tls://{host}:{port} --tls-ca ca.pem --tls-cert cert.pem --tls-key key.pem",
        )
    return False


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def own_address(host: str) -> str:
    """This machine's address by which it reaches a host: a worker that is told none listens on every interface."""
    need_dask()
    from distributed.utils import get_ip  # noqa: PLC0415

    return str(get_ip(host))


def need_dask() -> None:
    """
    :raises SwarmError: it is not installed.
    """
    try:
        import distributed  # noqa: F401, PLC0415 - an extra, and 0.8 s
    except ModuleNotFoundError as error:
        hint = "pip install 'git-swarm[fleet]'"
        raise SwarmError("this needs Dask (distributed), which is not installed", hint=hint) from error


@contextmanager
def embedded(slots: int) -> Iterator[Client]:
    """A scheduler and a worker in this process, which nobody else can reach."""
    need_dask()
    import dask  # noqa: PLC0415
    from distributed import Client, LocalCluster  # noqa: PLC0415

    dask.config.set({"distributed.scheduler.allowed-failures": ALLOWED_FAILURES})
    with (
        tempfile.TemporaryDirectory(prefix="git-swarm-fleet-") as folder,
        LocalCluster(
            n_workers=1,
            threads_per_worker=slots,
            processes=False,
            resources={SLOT: slots},
            memory_limit=0,
            local_directory=folder,
            silence_logs=logging.CRITICAL,
            dashboard_address=NO_DASHBOARD,
            worker_dashboard_address=NO_DASHBOARD,
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


@contextmanager
def joined(address: str, tls: Tls) -> Iterator[Client]:
    """A scheduler that runs.

    :raises SwarmError: it does not answer.
    """
    need_dask()
    from distributed import Client  # noqa: PLC0415

    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    security = tls.security() if tls.is_whole else None
    try:
        client = Client(address, timeout=_JOIN_S, security=security, set_as_default=False)
    except (OSError, TimeoutError) as error:
        host = urlsplit(address).hostname
        raise SwarmError(
            f"the scheduler at {address} does not answer: {error}", hint=f"git swarm fleet serve   (on {host})"
        ) from error
    with client:
        yield client


def slots_of(client: Client) -> int:
    """The slots of all workers of a scheduler."""
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    return sum(int(worker["resources"].get(SLOT, 0)) for worker in workers)


def refuse_other_versions(client: Client) -> None:
    """
    :raises SwarmError: a worker has another git-swarm than we, or none.
    """
    ours = version_here()
    for address, answer in sorted(client.run(version_here, on_error="return").items()):
        if answer != ours:
            raise other_version(address, answer if isinstance(answer, str) else "none")


def other_version(worker: str, version: str) -> SwarmError:
    ours = version_here()
    return SwarmError(
        f"the worker at {worker} has git-swarm {version}, this is {ours}: they would not understand each other",
        hint=f"pip install 'git-swarm[fleet]=={ours}'   (there; then git swarm fleet work again)",
    )


def serve(
    host: Annotated[
        str, Option(metavar="HOST", help="The address that workers reach; other than loopback needs TLS.")
    ] = ("127.0.0.1"),
    port: Annotated[int, Option(metavar="PORT", min=1, help="Its port.")] = 8786,
    tls_ca: CaOption = None,
    tls_cert: CertOption = None,
    tls_key: KeyOption = None,
) -> None:
    """Run a scheduler until Ctrl-C: it gives runs to workers, and forgets everything when it ends."""
    tls = Tls(tls_ca, tls_cert, tls_key)
    again = f"git swarm fleet serve --host {host} --port {port} --tls-ca ca.pem --tls-cert cert.pem --tls-key key.pem"
    try:
        is_tls = checked_tls(f"tcp://{host}:{port}", tls, "")
    except UsageError as error:
        raise UsageError(error.message, hint=again) from error
    words = ["scheduler", "--host", host, "--port", str(port), "--dashboard-address", NO_DASHBOARD]
    words += ["--protocol", "tls", *tls.words] if is_tls else []
    url = f"{'tls' if is_tls else 'tcp'}://{host}:{port}"
    err(f"a worker     git swarm fleet work {url}")
    err(f"the runs     git swarm fleet run --issues FILE --scheduler {url}")
    _become(
        words,
        {
            "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": WORKER_TTL,
            "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": str(ALLOWED_FAILURES),
        },
    )


def work(
    url: Annotated[str, Argument(metavar="URL", help="The scheduler: tcp://127.0.0.1:8786, tls://HOST:8786.")],
    slots: Annotated[
        int | None, Option("--slots", metavar="N", min=1, help="Runs at the same time; as many as processors.")
    ] = None,
    folder: Annotated[
        str | None,
        Option("--dir", metavar="DIR", help="Where clones of hubs are; ~/.local/state/git-swarm/fleet unless given."),
    ] = None,
    host: Annotated[
        str | None,
        Option(
            metavar="HOST", help="This machine's address, as others reach it; else the one by which it reaches URL."
        ),
    ] = None,
    tls_ca: CaOption = None,
    tls_cert: CertOption = None,
    tls_key: KeyOption = None,
) -> None:
    """Execute runs that a scheduler gives, each in a process and a worktree of its own, until Ctrl-C."""
    tls = Tls(tls_ca, tls_cert, tls_key)
    is_tls = checked_tls(url, tls, "git swarm fleet work ")
    tasks_folder = Path(folder).absolute() if folder is not None else None
    number = slots or os.cpu_count() or 1
    words = ["worker", url, "--no-nanny", "--nthreads", str(number), "--resources", f"{SLOT}={number}"]
    words += ["--memory-limit", "0", "--death-timeout", "60", "--dashboard-address", NO_DASHBOARD]
    words += tls.words if is_tls else []
    words += ["--host", host or own_address(urlsplit(url).hostname or "")]
    if tasks_folder is not None:
        tasks_folder.mkdir(parents=True, exist_ok=True)
        words += ["--local-directory", str(tasks_folder / "dask")]
    env = {"DASK_DISTRIBUTED__WORKER__PRELOAD": worker.__name__}
    _become(words, env, {FOLDER: str(tasks_folder)} if tasks_folder is not None else {})


def _become(words: Sequence[str], usual: dict[str, str], typed: Mapping[str, str] = MappingProxyType({})) -> NoReturn:
    """Takes the place of this process: there is nothing to do for us above Dask's own command.

    :param usual: variables, where the environment does not have them.
    :param typed: those that an option sets.
    """
    need_dask()
    line = [sys.executable, "-P", "-m", "dask", *words]
    out(shlex.join([*(f"{name}={value}" for name, value in {**usual, **typed}.items()), *line]))
    sys.stdout.flush()
    try:
        os.execve(line[0], line, {**usual, **os.environ, **typed})  # noqa: S606 - no shell is wanted
    except OSError as error:
        complain(f"cannot start {line[0]}: {error.strerror}")
        raise SystemExit(1) from error
