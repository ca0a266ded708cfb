"""The locks, their installer, and the licences of what they contain."""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import subprocess
import venv
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

from deploy import install, licences
from src.base.providers import PROVIDERS
from tests.pages import ROOT, page

LISTS = sorted(file.stem for file in ROOT.glob("requirements*.txt"))
PIN = re.compile(r"^([A-Za-z][\w.-]*)(?:\[\w+\])?==([^\s;]+)(?: ; ([^\\\n]+))?", re.MULTILINE)
ENTRY = re.compile(
    r"[a-z][\w.-]*==\S+(?: ; [^\\]+)? \\\n(    --hash=sha256:[0-9a-f]{64}( \\)?\n)+"
)


def pins(file: Path) -> dict[str, str]:
    """The versions of a list or a lock, by the name in its normal form."""
    return {
        name.lower().replace("_", "-"): number for name, number, _ in PIN.findall(file.read_text())
    }


@pytest.mark.parametrize("name", LISTS)
def test_the_locks_have_what_the_lists_ask_for(name: str) -> None:
    asked, locked = pins(ROOT / f"{name}.txt"), pins(ROOT / f"{name}.lock")
    assert {each: locked.get(each) for each in asked} == asked, "run make lock"
    assert asked


@pytest.mark.parametrize("name", LISTS)
def test_every_locked_package_has_hashes(name: str) -> None:
    text = (ROOT / f"{name}.lock").read_text()
    assert not ENTRY.sub("", text)


def test_the_locks_agree_with_each_other_and_with_what_is_tested() -> None:
    chosen: dict[str, str] = {}
    for name in LISTS:
        for package, number in pins(ROOT / f"{name}.lock").items():
            assert chosen.setdefault(package, number) == number, f"{package}: run make lock"
    text = "".join((ROOT / f"{name}.lock").read_text() for name in LISTS)
    for package, number in chosen.items():
        if not re.search(rf"^{package}==\S+ ; ", text, re.MULTILINE):  # for another platform
            assert version(package) == number, f"{package} is another here: run make test"


def test_providers_that_are_installed_are_refreshed() -> None:
    """Both are, where tests run; each provider beside OpenAI has its list and its lock."""
    assert install.choose_locks(dev=False) == [
        "requirements", "requirements-anthropic", "requirements-google",
    ]  # fmt: skip
    assert install.choose_locks(dev=True)[-1] == "requirements-dev"
    extra = {f"requirements-{name.partition('_')[0]}" for name in PROVIDERS if name != "openai"}
    assert extra == set(install.choose_locks(dev=False)) - {"requirements"}


def write_wheel(folder: Path, name: str, number: str) -> str:
    """Write a package of one empty module; return the hash of its file."""
    info = f"{name}-{number}.dist-info"
    contents = {
        f"{name}.py": "",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for path, text in contents.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
        record += f"{path},sha256={digest.decode()},{len(text)}\n"
    file = folder / f"{name}-{number}-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as archive:
        for path, text in contents.items():
            archive.writestr(path, text)
        archive.writestr(f"{info}/RECORD", f"{record}{info}/RECORD,,\n")
    return hashlib.sha256(file.read_bytes()).hexdigest()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of one package, with a Python that has pip and nothing else."""
    (tmp_path / "deploy").mkdir()
    shutil.copy(ROOT / "deploy/install.py", tmp_path / "deploy")
    right = write_wheel(tmp_path, "pomni_sample", "1.0")
    write_wheel(tmp_path, "pomni_sample", "2.0")
    (tmp_path / "requirements.txt").write_text("pomni_sample\n")
    (tmp_path / "requirements.lock").write_text(f"pomni_sample==1.0 --hash=sha256:{right}\n")
    (tmp_path / "requirements-setup.lock").write_text("uv==0 --hash=sha256:" + "0" * 64 + "\n")
    venv.create(tmp_path / "venv", with_pip=False)
    [packages] = (tmp_path / "venv").glob("lib/*/site-packages")
    tools = tmp_path / "tools"
    tools.mkdir()
    import pip

    (tools / "pip").symlink_to(Path(pip.__file__).parent)
    (packages / "tools.pth").write_text(f"{tools}\n")
    return tmp_path


def run_install(project: Path) -> tuple[int, str, str]:
    python = project / "venv/bin/python"
    end = subprocess.run(
        [python, project / "deploy/install.py"], capture_output=True, text=True, check=False,
        env={"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(project), "PIP_CONFIG_FILE": "/dev/null"},
    )  # fmt: skip
    script = "from importlib.metadata import distributions as found; "
    script += "print(*[each.version for each in found(name='pomni_sample')])"
    shown = subprocess.run([python, "-c", script], capture_output=True, text=True, check=True)
    assert end.stdout == ""
    return end.returncode, end.stderr, shown.stdout.strip()


def test_the_lock_is_installed_also_without_uv(project: Path) -> None:
    assert run_install(project) == (0, "", "1.0")


def test_a_lock_that_does_not_fit_is_told_in_a_sentence_and_replaced_by_its_list(
    project: Path,
) -> None:
    lock = project / "requirements.lock"
    lock.write_text(lock.read_text().replace("1.0", "1.5"))
    assert run_install(project) == (0, f"{install.FALLBACK}\n", "2.0")


def test_a_file_with_another_hash_is_refused_and_nothing_is_installed(project: Path) -> None:
    write_wheel(project, "pomni_sample", "1.0")
    with zipfile.ZipFile(project / "pomni_sample-1.0-py3-none-any.whl", "a") as archive:
        archive.writestr("pomni_sample_more.py", "")
    status, words, installed = run_install(project)
    assert status == 1 and "DO NOT MATCH THE HASHES" in words and installed == ""


def test_the_page_has_the_licences_of_the_packages() -> None:
    section = page("dependencies.md").text.partition(licences.BEGIN)[2].partition(licences.END)[0]
    assert section == f"\n{licences.write_section()}", "run make licences"
    assert "not stated" not in section
