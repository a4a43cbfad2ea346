"""The kernel cache rejects planted, damaged or foreign files before use, and writes files atomically."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fastcep.kernels.cache import Cache, CacheError, Entry, default_folder

KEY = "0123456789abcdef0123456789abcdef"
ENTRY = Entry(KEY, {"numba": "1"}, "symbol", bytes(range(256)) * 10)


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "kernels")


def file(cache: Cache, key: str = KEY) -> Path:
    return cache.folder / f"{key}.kernel"


def test_what_is_put_is_got_also_by_another_process_of_the_user(cache: Cache) -> None:
    assert cache.get(KEY) is None
    cache.put(ENTRY)
    assert cache.get(KEY) == ENTRY
    assert Cache(cache.folder).get(KEY) == ENTRY
    assert cache.folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in cache.folder.iterdir()} == {0o600}


@pytest.mark.parametrize("position", [0, 7, 8, 20, 39, 40, 44, 60, 200, -1])
def test_one_changed_bit_anywhere_is_refused(cache: Cache, position: int) -> None:
    cache.put(ENTRY)
    data = bytearray(file(cache).read_bytes())
    data[position] ^= 1
    file(cache).write_bytes(data)
    assert cache.get(KEY) is None
    assert not file(cache).exists(), "it is removed, so that it is compiled again"


@pytest.mark.parametrize("size", [0, 5, 8, 43, 44, 100, 1000])
def test_a_truncated_file_is_refused(cache: Cache, size: int) -> None:
    cache.put(ENTRY)
    file(cache).write_bytes(file(cache).read_bytes()[:size])
    assert cache.get(KEY) is None
    assert not file(cache).exists()


def test_a_file_made_with_another_secret_is_refused(cache: Cache, tmp_path: Path) -> None:
    other = Cache(tmp_path / "other")
    other.put(ENTRY)
    file(cache).write_bytes(file(other).read_bytes())
    assert cache.get(KEY) is None


def test_a_true_file_under_another_name_is_refused(cache: Cache) -> None:
    cache.put(ENTRY)
    wrong = "f" * 32
    file(cache, wrong).write_bytes(file(cache).read_bytes())
    assert cache.get(wrong) is None
    assert cache.get(KEY) == ENTRY


def test_a_link_or_a_file_that_others_can_write_to_is_refused(cache: Cache, tmp_path: Path) -> None:
    cache.put(ENTRY)
    aside = tmp_path / "aside"
    file(cache).rename(aside)
    file(cache).symlink_to(aside)
    assert cache.get(KEY) is None
    assert aside.exists()
    cache.put(ENTRY)
    file(cache).chmod(0o666)
    assert cache.get(KEY) is None


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_folder_that_others_can_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(CacheError, match="others can write"):
        Cache(folder)
    assert list(folder.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir(mode=0o700)
    os.chown(folder, 12345, 12345)
    with pytest.raises(CacheError, match="another user"):
        Cache(folder)


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kernels").write_text("")
    with pytest.raises(CacheError, match="cannot create the folder"):
        Cache(tmp_path / "kernels")


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 33])
def test_a_damaged_secret_is_replaced_and_what_it_signed_refused(cache: Cache, content: bytes) -> None:
    cache.put(ENTRY)
    (cache.folder / "secret").write_bytes(content)
    again = Cache(cache.folder)
    assert again.get(KEY) is None
    again.put(ENTRY)
    assert Cache(cache.folder).get(KEY) == ENTRY


def test_a_secret_that_others_could_read_is_replaced(cache: Cache) -> None:
    secret = cache.folder / "secret"
    before = secret.read_bytes()
    secret.chmod(0o644)
    Cache(cache.folder)
    assert secret.read_bytes() != before
    assert secret.stat().st_mode & 0o777 == 0o600


def test_processes_that_make_the_secret_at_once_agree(tmp_path: Path) -> None:
    for number in range(20):
        with ThreadPoolExecutor(8) as threads:
            caches = list(threads.map(Cache, [tmp_path / str(number)] * 8))
        for cache in caches:
            cache.put(ENTRY)
            assert [other.get(KEY) for other in caches] == [ENTRY] * 8


def test_a_secret_replaced_meanwhile_is_read_again(cache: Cache) -> None:
    (cache.folder / "secret").write_bytes(b"damaged")
    Cache(cache.folder).put(ENTRY)
    assert cache.get(KEY) == ENTRY


def test_a_full_disk_leaves_nothing_half_written(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        cache.put(ENTRY)
    assert [path.name for path in cache.folder.iterdir()] == ["secret"]


def test_the_kernels_used_longest_ago_go_first(cache: Cache) -> None:
    keys = [f"{number:032x}" for number in range(4)]
    for age, key in enumerate(keys):
        cache.put(Entry(key, {}, "symbol", b"x" * 1000))
        os.utime(file(cache, key), (1000 + age, 1000 + age))
    assert cache.get(keys[0]) is not None, "a use makes it the youngest"
    size = file(cache, keys[0]).stat().st_size
    assert cache.trim(2 * size) == 2
    assert [cache.has(key) for key in keys] == [True, False, False, True]
    assert cache.trim(2 * size) == 0


def test_a_kernel_that_could_not_be_compiled_is_remembered_for_a_day(cache: Cache) -> None:
    cache.put(Entry(KEY, {}, error="RuntimeError: no"))
    entry = cache.get(KEY)
    assert entry is not None
    assert entry.error == "RuntimeError: no"
    old = time.time() - 2 * 86_400
    os.utime(file(cache), (old, old))
    assert cache.get(KEY) is None


def test_where_the_folder_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FASTCEP_CACHE_DIR", str(tmp_path / "x"))
    assert default_folder() == tmp_path / "x"
    monkeypatch.delenv("FASTCEP_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "fastcep"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_folder() == Path.home() / ".cache" / "fastcep"
