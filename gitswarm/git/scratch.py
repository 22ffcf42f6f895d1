"""A repository for one command, beside the user's: what is fetched there goes with it, and need not be whole."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gitswarm.git.process import Git
from gitswarm.git.reader import RepositoryReader

_PREFIX = "scratch-"
_ABANDONED_S = 86_400.0


@contextmanager
def scratch_repository(repository: RepositoryReader) -> Iterator[Path]:
    """The folder of a bare repository that has the objects of this one, and none of its refs."""
    import shutil  # noqa: PLC0415 - reading commands import this module, and few come here
    import tempfile  # noqa: PLC0415

    repository.swarm_dir.mkdir(exist_ok=True)
    for left in repository.swarm_dir.glob(f"{_PREFIX}*"):
        if time.time() - left.stat().st_mtime > _ABANDONED_S:  # its process was killed
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=repository.swarm_dir, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        Git(repository.env).output("init", "--quiet", "--bare", "--template=", name)
        info = folder / "objects" / "info"
        info.mkdir(exist_ok=True)
        (info / "alternates").write_text(f"{repository.common_dir / 'objects'}\n", encoding="utf-8")
        shallow = repository.common_dir / "shallow"
        if shallow.exists():
            shutil.copy(shallow, folder)
        # How the remote is reached: credentials, proxies, keys. Of an included file git takes no layout.
        with (folder / "config").open("a", encoding="utf-8") as config:
            config.write(f"[include]\n\tpath = {_quoted(repository.common_dir / 'config')}\n[core]\n\tbare = true\n")
        yield folder


def _quoted(path: Path) -> str:
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
