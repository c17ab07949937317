"""Which directory is the home, and when it is refused."""

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from jobq.app import App
from jobq.errors import InvalidInput, StoreError, UnsafeHome
from jobq.home import Home, is_trusted, locate, refuse_own_place, state_directory, trust


def home_at(path, source):
    return Home(str(path), source)


@pytest.fixture
def user(tmp_path):
    """A user's directory and the environment of that user."""
    user = tmp_path / "user"
    user.mkdir(mode=0o700)
    return user


@pytest.fixture
def environ(user):
    return {"HOME": str(user)}


def made(path: Path, mode: int = 0o700) -> Path:
    path.mkdir(parents=True)
    path.chmod(mode)
    return path


def test_what_was_asked_for_goes_before_everything(user, environ, monkeypatch):
    monkeypatch.chdir(user)
    made(user / ".jobq")
    environ["JOBQ_HOME"] = "/other"
    assert locate("x", environ, str(user)) == home_at(user / "x", "--home")
    assert locate(None, environ, str(user)) == home_at(Path("/other"), "JOBQ_HOME")


def test_an_empty_variable_is_none(user, environ):
    assert locate(None, {**environ, "JOBQ_HOME": ""}, str(user)).source == "default"


@pytest.mark.parametrize("state", ["", "relative/state"])
def test_the_default_is_the_users_state_directory(user, environ, state):
    home = locate(None, {**environ, "XDG_STATE_HOME": state}, str(user))
    assert home == home_at(user / ".local" / "state" / "jobq", "default")
    assert not home.exists()


def test_the_state_directory_is_where_xdg_says(environ):
    assert state_directory({**environ, "XDG_STATE_HOME": "/state"}) == "/state/jobq"


def test_on_macos_it_is_where_macos_has_it(user, environ, monkeypatch):
    monkeypatch.setattr("sys.platform", "darwin")
    assert Path(state_directory(environ)) == user / "Library" / "Application Support" / "jobq"


def test_a_new_home_survives_loss_of_power_with_all_that_was_made_above_it(user, monkeypatch):
    synced = []
    monkeypatch.setattr("jobq.files.sync_directory", lambda path: synced.append((path, os.listdir(path))))
    home_at(user / "state" / "jobq", "default").create()
    assert synced == [(str(user), ["state"]), (str(user / "state"), ["jobq"])]


def test_a_home_can_be_made_where_one_may_not_look(user, monkeypatch):
    def forbidden(path):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr("jobq.files.sync_directory", forbidden)
    home_at(user / "jobq", "--home").create()
    assert home_at(user / "jobq", "--home").exists()


class TestFound:
    """A `.jobq` found by walking up."""

    def test_one_that_was_trusted_is_the_home_of_everything_below(self, user, environ):
        local = made(user / "project" / ".jobq")
        below = made(user / "project" / "a" / "b")
        trust(local, environ)
        assert locate(None, environ, str(below)) == home_at(local, "found")
        assert locate(None, environ, str(user)).source == "default"

    def test_one_that_came_with_an_archive_is_refused_with_the_way_out(self, user, environ):
        local = made(user / "cloned" / ".jobq")
        with pytest.raises(UnsafeHome, match=f"jobq init --trust {local}"):
            locate(None, environ, str(user / "cloned"))

    def test_it_is_not_used_through_a_copy_of_what_it_is_trusted_by(self, user, environ):
        """Trust is for one directory at one place: another one moved there, or the same moved, is not trusted."""
        local = made(user / "project" / ".jobq")
        trust(local, environ)
        local.rename(user / "elsewhere")
        made(local)
        assert not is_trusted(local, environ)
        (user / "elsewhere").rename(user / "project" / "b")
        assert not is_trusted(user / "project" / "b", environ)

    def test_another_users_list_does_not_count(self, user, environ, tmp_path):
        local = made(user / "project" / ".jobq")
        trust(local, environ)
        other = made(tmp_path / "other")
        with pytest.raises(UnsafeHome):
            locate(None, {"HOME": str(other)}, str(user / "project"))

    def test_the_search_ends_at_the_users_home(self, tmp_path, user, environ):
        made(tmp_path / ".jobq")
        assert locate(None, environ, str(made(user / "project"))).source == "default"

    def test_the_search_does_not_leave_the_file_system(self, user, environ, monkeypatch):
        made(user / ".jobq")
        project = made(user / "mount" / "project")
        real = os.stat

        def other_device(path, *args, **kwargs):
            facts = real(path, *args, **kwargs)
            if str(path) == str(user):
                values = list(facts)
                values[2] += 1
                return os.stat_result(values)
            return facts

        monkeypatch.setattr("os.stat", other_device)
        assert locate(None, environ, str(project)).source == "default"

    def test_trust_is_remembered_once_and_survives_more(self, user, environ):
        first, second = made(user / "a" / ".jobq"), made(user / "b" / ".jobq")
        for local in (first, second, first):
            trust(local, environ)
        assert is_trusted(first, environ)
        assert is_trusted(second, environ)
        listed = Path(state_directory(environ)) / "trusted"
        assert len(listed.read_text().splitlines()) == 2
        assert listed.stat().st_mode & 0o777 == 0o600

    def test_one_that_comes_to_stand_in_its_place_is_not_trusted_whatever_its_inode(self, user, environ):
        """An inode's number is used again; here it is even the same directory, emptied and filled with other things."""
        local = made(user / "project" / ".jobq")
        trust(local, environ)
        (local / "token").unlink()
        assert not is_trusted(local, environ)
        for token in ("", "0" * 32, "x"):
            (local / "token").write_text(token)
            assert not is_trusted(local, environ)

    def test_the_token_is_new_private_and_the_one_of_an_archive_is_not_kept(self, user, environ):
        local = made(user / "project" / ".jobq")
        (local / "token").write_text("0" * 32)
        trust(local, environ)
        token = (local / "token").read_text()
        assert len(token) == 32
        assert token != "0" * 32
        assert (local / "token").stat().st_mode & 0o777 == 0o600
        trust(local, environ)
        assert (local / "token").read_text() == token

    def test_a_token_that_is_no_file_of_ours_is_none(self, user, environ):
        local = made(user / "project" / ".jobq")
        trust(local, environ)
        kept = (local / "token").rename(user / "kept")
        (local / "token").symlink_to(kept)
        assert not is_trusted(local, environ)
        (local / "token").unlink()
        os.mkfifo(local / "token")
        assert not is_trusted(local, environ)
        trust(local, environ)
        assert is_trusted(local, environ)

    def test_trusting_it_anew_forgets_the_token_before(self, user, environ):
        local = made(user / "project" / ".jobq")
        for _ in range(3):
            trust(local, environ)
            (local / "token").unlink()
        trust(local, environ)
        assert len((Path(state_directory(environ)) / "trusted").read_text().splitlines()) == 1

    @pytest.mark.parametrize("name", ["a\x85b", "a\u2028b", "a\nb", "a b", os.fsdecode(b"a\xffb")])
    def test_a_name_of_any_form_is_one_line_of_the_list(self, user, environ, name):
        local = made(user / name / ".jobq")
        other = made(user / "other" / ".jobq")
        trust(local, environ)
        trust(other, environ)
        assert is_trusted(local, environ)
        assert locate(None, environ, str(local.parent)) == home_at(local, "found")
        assert (Path(state_directory(environ)) / "trusted").read_bytes().count(b"\n") == 2

    def test_a_torn_line_counts_for_nothing(self, user, environ):
        local = made(user / "project" / ".jobq")
        trust(local, environ)
        listed = Path(state_directory(environ)) / "trusted"
        listed.write_bytes(listed.read_bytes()[:-1])
        assert not is_trusted(local, environ)

    def test_those_trusted_at_once_are_all_remembered(self, user, environ):
        homes = [made(user / f"p{number}" / ".jobq") for number in range(16)]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda path: trust(path, environ), homes))
        assert all(is_trusted(path, environ) for path in homes)

    def test_a_link_that_leads_nowhere_is_told_as_such(self, user, environ):
        (user / ".jobq").symlink_to(user / "nowhere")
        with pytest.raises(UnsafeHome, match=r"\.jobq is not a real directory"):
            locate(None, environ, str(user))

    def test_where_others_could_exchange_it_nothing_is_trusted(self, user, environ):
        local = made(made(user / "open", 0o777) / ".jobq")
        with pytest.raises(UnsafeHome, match="may be changed by everybody"):
            trust(local, environ)
        assert not (local / "token").exists()

    def test_a_link_planted_for_the_list_is_refused(self, user, environ):
        local = made(user / "project" / ".jobq")
        made(Path(state_directory(environ)))
        (Path(state_directory(environ)) / "trusted").symlink_to(user / "planted")
        with pytest.raises(UnsafeHome):
            locate(None, environ, str(local.parent))


class TestRefused:
    """A home must be a real directory, ours, closed to others, in a place that others cannot exchange."""

    @pytest.mark.parametrize("mode", [0o750, 0o701, 0o770, 0o777])
    def test_open_to_others(self, tmp_path, mode):
        home = home_at(made(tmp_path / "home", mode), "--home")
        with pytest.raises(UnsafeHome, match=f"mode {mode:04o}.*chmod 700"):
            home.exists()
        with pytest.raises(UnsafeHome):
            home.create()

    def test_a_link_or_a_file(self, tmp_path):
        made(tmp_path / "real")
        (tmp_path / "link").symlink_to("real")
        (tmp_path / "file").touch(0o600)
        for name in ("link", "file"):
            with pytest.raises(UnsafeHome, match="not a real directory"):
                home_at(tmp_path / name, "--home").exists()

    def test_somebody_elses(self, tmp_path, monkeypatch):
        path = made(tmp_path / "home")
        owner = os.geteuid()
        monkeypatch.setattr("os.geteuid", lambda: owner + 1)
        with pytest.raises(UnsafeHome, match="belongs to user"):
            home_at(path, "--home").exists()

    def test_in_a_directory_that_everybody_may_change(self, tmp_path):
        open_to_all = made(tmp_path / "open", 0o777)
        with pytest.raises(UnsafeHome, match="may be changed by everybody"):
            home_at(open_to_all / "home", "--home").create()
        assert list(open_to_all.iterdir()) == [], "nothing was made there"

    @pytest.mark.parametrize("absolute", [True, False])
    def test_behind_a_link_to_a_place_that_everybody_may_change(self, tmp_path, absolute):
        """Every directory on the way counts: where the link stands, where it leads, and what that passes."""
        open_to_all = made(tmp_path / "open", 0o777)
        made(open_to_all / "closed" / "deep")
        made(tmp_path / "safe")
        (tmp_path / "safe" / "link").symlink_to(
            open_to_all / "closed" / "deep" if absolute else "../open/closed/../closed/deep"
        )
        home = home_at(tmp_path / "safe" / "link" / "home", "--home")
        with pytest.raises(UnsafeHome, match=f"{open_to_all}, which .*, may be changed by everybody"):
            home.create()
        open_to_all.chmod(0o700)
        home.create()
        assert home.exists()

    def test_behind_links_in_a_circle(self, tmp_path):
        (tmp_path / "a").symlink_to("b")
        (tmp_path / "b").symlink_to("a")
        with pytest.raises(StoreError):
            home_at(tmp_path / "a" / "home", "--home").create()

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
    @pytest.mark.parametrize("link", [False, True])
    def test_in_a_directory_of_somebody_else(self, tmp_path, link):
        theirs = made(tmp_path / "theirs")
        home = home_at(made(theirs / "mine") / "home", "--home")
        home.create()
        if link:
            (tmp_path / "link").symlink_to(theirs)
            home = home_at(tmp_path / "link" / "mine" / "home", "--home")
            os.chown(tmp_path / "link", 12345, 12345, follow_symlinks=False)
        else:
            os.chown(theirs, 12345, 12345)
        with pytest.raises(UnsafeHome, match="belongs to user 12345"):
            home.exists()

    def test_a_group_may_change_what_is_above(self, tmp_path):
        """Where each user has a group of its own, a umask of 002 is common."""
        home = home_at(made(tmp_path / "group", 0o775) / "home", "--home")
        home.create()
        assert home.exists()

    def test_a_sticky_directory_will_do(self, tmp_path):
        sticky = made(tmp_path / "sticky", 0o1777)
        home = home_at(sticky / "home", "--home")
        home.create()
        assert home.exists()

    def test_one_that_cannot_be_made_is_an_error_of_the_store(self, tmp_path):
        (tmp_path / "file").touch()
        with pytest.raises(StoreError):
            home_at(tmp_path / "file" / "home", "--home").create()


@pytest.mark.parametrize("mask", [0, 0o777])
def test_a_new_home_is_private_whatever_the_umask(tmp_path, mask):
    home = home_at(tmp_path / "a" / "home", "--home")
    (tmp_path / "a").mkdir(mode=0o700)
    before = os.umask(mask)
    try:
        home.create()
        home.create()
    finally:
        os.umask(before)
    assert home.path.stat().st_mode & 0o777 == 0o700


def test_missing_directories_above_it_are_made(tmp_path):
    home = home_at(tmp_path / "a" / "b" / "home", "--home")
    home.create()
    assert home.exists()


@pytest.mark.parametrize("mask", [0, 0o777])
def test_what_is_made_above_a_home_is_private_whatever_the_umask(tmp_path, mask):
    before = os.umask(mask)
    try:
        home_at(tmp_path / "a" / "b" / "home", "--home").create()
    finally:
        os.umask(before)
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("a", "a/b", "a/b/home")] == [0o700] * 3


def test_a_directory_of_other_things_is_no_home_and_its_mode_no_business_of_ours(tmp_path):
    other = made(tmp_path / "documents", 0o755)
    (other / "letter.txt").write_text("dear")
    with pytest.raises(UnsafeHome, match="holds other things and nothing of jobq"):
        home_at(other, "--home").exists()
    mine = made(tmp_path / "mine")
    (mine / "config.toml").write_text("")
    (mine / "notes.txt").write_text("")
    assert home_at(mine, "--home").exists()
    assert home_at(made(tmp_path / "empty"), "--home").exists()
    begun = made(tmp_path / "begun")
    (begun / ".config.toml.0123.new").write_text("")
    assert home_at(begun, "--home").exists()


def test_an_empty_directory_is_known_by_its_mark_from_the_first_write_on(tmp_path):
    app = App(home=str(made(tmp_path / "home")))
    app.create_home()
    (tmp_path / "home" / "queue.of-another-store").touch()
    assert home_at(tmp_path / "home", "--home").exists()
    app.create_home()
    app.close()


@pytest.mark.parametrize("url", ["", ".", "workers", "queue/../output", "cache/x", "config.toml", "./workers/"])
def test_a_store_is_not_where_the_home_keeps_other_things(tmp_path, url):
    home = str(tmp_path / "home")
    with pytest.raises(InvalidInput, match="is for other things of this home"):
        refuse_own_place(home, f"{home}/{url}", f"json:{url}")
    (tmp_path / "link").symlink_to("home")
    with pytest.raises(InvalidInput):
        refuse_own_place(home, f"{tmp_path}/link/{url}", f"json:{url}")


@pytest.mark.parametrize("path", ["home/queue", "home/sub/output", "home2", "outputs", "x/workers"])
def test_a_store_is_anywhere_else(tmp_path, path):
    refuse_own_place(str(tmp_path / "home"), str(tmp_path / path), "json:x")
