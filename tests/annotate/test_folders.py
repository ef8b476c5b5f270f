"""Files that are written whole or not at all."""

import os
import subprocess
import sys

import pytest

from spacy_bilstm_crf.annotate.folders import lock_folder, open_folder, write_file
from spacy_bilstm_crf.annotate.inputs import find_inputs
from spacy_bilstm_crf.annotate.manifest import output_paths


@pytest.fixture(params=["path", "url"])
def where(request, tmp_path):
    """A path, and the same as a URL: the way to object stores."""
    if request.param == "path":
        return str(tmp_path / "out")
    pytest.importorskip("pyarrow")
    return (tmp_path / "out").as_uri()


def test_a_file_has_its_name_when_it_is_whole(where, tmp_path):
    folder = open_folder(where)
    pending = folder.create("sub/a.txt")
    pending.stream.write(b"half")
    assert folder.names("sub") == []
    assert not (tmp_path / "out" / "sub" / "a.txt").exists()
    pending.stream.write(b" and half")
    pending.commit()
    pending.discard()
    assert folder.names("sub") == ["a.txt"]
    assert folder.read("sub/a.txt") == b"half and half"
    assert [path.name for path in (tmp_path / "out" / "sub").iterdir()] == ["a.txt"]


def test_an_earlier_file_stays_until_the_new_one_is_whole(where, tmp_path):
    folder = open_folder(where)
    write_file(folder, "a", b"old")
    pending = folder.create("a")
    pending.stream.write(b"new")
    pending.finish()
    assert folder.read("a") == b"old"
    pending.discard()
    assert folder.read("a") == b"old"
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["a"]
    write_file(folder, "a", b"new")
    assert folder.read("a") == b"new"


def test_nothing_is_left_of_a_file_that_could_not_be_written(where, tmp_path):
    folder = open_folder(where)
    with pytest.raises(TypeError):
        write_file(folder, "a", None)
    assert list((tmp_path / "out").iterdir()) == []


def test_what_killed_processes_have_begun_is_removed(where, tmp_path):
    folder = open_folder(where)
    write_file(folder, "sub/a", b"whole")
    folder.create("sub/b").finish()
    assert folder.names("sub") == ["a"]
    assert len(list((tmp_path / "out" / "sub").iterdir())) == 2
    for name in ("sub", "", "missing"):
        folder.clean(name)
    assert [path.name for path in (tmp_path / "out" / "sub").iterdir()] == ["a"]


def test_what_is_not_there(where):
    folder = open_folder(where)
    assert folder.names("missing") == []
    folder.remove("missing")
    with pytest.raises(FileNotFoundError):
        folder.read("missing")


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "out").touch()
    with pytest.raises(ValueError, match="CRF422"):
        open_folder(str(tmp_path / "out"))


@pytest.mark.skipif(os.name != "posix", reason="there is no such lock")
def test_two_runs_do_not_write_to_one_folder(tmp_path):
    code = "import sys; from spacy_bilstm_crf.annotate.folders import *\nwith lock_folder(sys.argv[1]): print('locked')"
    command = [sys.executable, "-c", code, str(tmp_path)]
    with lock_folder(str(tmp_path)):
        result = subprocess.run(command, capture_output=True, text=True)
        assert "CRF425" in result.stderr
    assert subprocess.run(command, capture_output=True, text=True).stdout == "locked\n"


def found(patterns, **options):
    return [(source.index, source.path.rpartition("/")[2], source.kind) for source in find_inputs(patterns, **options)]


@pytest.fixture
def tree(tmp_path):
    for name in ("b.txt", "a.jsonl", "sub/c.parquet", "sub/d.spacy", "sub/README.md", ".hidden.txt", "out/e.txt"):
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    return tmp_path / "in"


@pytest.mark.parametrize("is_url", [False, True])
def test_files_globs_and_folders(tree, is_url):
    if is_url:
        pytest.importorskip("pyarrow")
    root = tree.as_uri() if is_url else str(tree)
    everything = [(0, "a.jsonl", "jsonl"), (1, "b.txt", "text"), (2, "c.parquet", "parquet"), (3, "d.spacy", "spacy")]
    assert found([root], leave_out=[f"{root}/out"]) == everything
    assert found([root], leave_out=[f"{root}/out/e.txt", f"{root}/missing", f"{root}/b"]) == everything
    assert found([f"{root}/b.txt", f"{root}/*.*", f"{root}/b.txt"]) == [(0, "b.txt", "text"), (1, "a.jsonl", "jsonl")]
    assert found([f"{root}/**/c*"]) == [(0, "c.parquet", "parquet")]
    assert find_inputs([f"{root}/b.txt"])[0].n_bytes == 1
    for missing in ("missing.txt", "missing/*.txt", "sub/*.csv"):
        with pytest.raises(ValueError, match="CRF420"):
            find_inputs([f"{root}/{missing}"])
    with pytest.raises(ValueError, match="CRF421"):
        find_inputs([f"{root}/sub/README.md"])


def test_a_file_is_found_once(tree, monkeypatch):
    monkeypatch.chdir(tree)
    paths = ["b.txt", "./b.txt", "sub/../b.txt", str(tree / "b.txt"), "*.txt"]
    assert [source.path for source in find_inputs(paths)] == ["b.txt"]


def test_what_a_run_writes_is_no_input(tree, monkeypatch):
    monkeypatch.chdir(tree)
    for name in ("shards/part-00000-00000.jsonl", "_receipts/part-00000-00000.json", "errors.jsonl", "manifest.json"):
        (tree / name).parent.mkdir(exist_ok=True)
        (tree / name).write_text("{}")
    (tree.parent / "link").symlink_to(tree)
    for output in (".", str(tree), "../link/"):
        assert "shards" not in str(find_inputs(["."], leave_out=output_paths(output)))
        names = [name for _, name, _ in found(["."], leave_out=output_paths(output))]
        assert names == ["a.jsonl", "b.txt", "e.txt", "c.parquet", "d.spacy"]
    (tree / "sub" / "README.md").unlink()
    assert len(find_inputs(["**"], leave_out=output_paths("."))) == 5
    with pytest.raises(ValueError, match="CRF420"):
        find_inputs(["errors.jsonl"], leave_out=output_paths("."))
    assert output_paths("s3://b/out/?x=y")[-1] == "s3://b/out/manifest.json"


def test_a_folder_that_cannot_be_locked(tmp_path):
    (tmp_path / ".lock").mkdir()  # root may write everywhere
    with pytest.raises(ValueError, match="CRF422"), lock_folder(str(tmp_path)):
        pass


def test_a_name_with_brackets_is_a_file_first(tmp_path):
    (tmp_path / "a[1].txt").write_text("x")
    assert found([str(tmp_path / "a[1].txt")]) == [(0, "a[1].txt", "text")]
