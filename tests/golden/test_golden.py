"""Stores that were written once open for ever; what a newer jobq put into them survives an older one's rewrites."""

import json
import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from zlib import crc32

import pytest

import jobq_json
from jobq import lifecycle
from jobq.errors import DuplicateJob, NewerFormat, StoreMoved
from jobq.executor import Kind, Outcome
from jobq.notices import Notice
from jobq.store import Ended, Query, Wanted
from jobq.testing import START, make_context, make_info, make_job, make_settings, new
from jobq_json import manifest
from jobq_json.lines import seal
from jobq_json.manifest import FORMAT, FORMAT_WITH_NOTICE

GOLDEN = Path(__file__).parent
STORES = sorted(path.parent.name for path in GOLDEN.glob("*/held.json"))
NOTICED = ["format-2-leaving", "format-2-leaving-in-the-journal"]
UNKNOWN = {"colour": {"name": "blue", "of": [1, None, "é"]}, "shape": "round"}
(PROVIDER,) = jobq_json.jobq_stores()


class Golden:
    """A copy of a golden store."""

    def __init__(self, name, home):
        shutil.copytree(GOLDEN / name, home)
        self.home, self.queue = home, home / "queue"
        for path in (home, self.queue):
            path.chmod(0o700)
        for path in self.queue.iterdir():
            path.chmod(0o600)
        self.held = json.loads((home / "held.json").read_text())
        self.stores = []

    def open(self):
        self.stores.append(PROVIDER.make(make_settings(), make_context(self.home)))
        return self.stores[-1]

    def records(self):
        return [job.record() for job in self.open().find(Query())]

    def seal(self, name, old, new):
        """Change a text in a line of a file, with the checksum that the line then has."""
        lines = (self.queue / name).read_bytes().split(b"\n")
        for number, line in enumerate(lines):
            if old in line:
                lines[number] = seal((line[:-18] + b"}").replace(old, new).decode())
        (self.queue / name).write_bytes(b"\n".join(lines))


def _golden(request, tmp_path):
    made = Golden(request.param, tmp_path / "home")
    yield made
    for store in made.stores:
        store.close()


golden = pytest.fixture(_golden, params=[name for name in STORES if name not in NOTICED], name="golden")
every = pytest.fixture(_golden, params=STORES, name="every")
noticed = pytest.fixture(_golden, params=NOTICED, name="noticed")


def test_every_format_so_far_has_a_store():
    formats = {json.loads((GOLDEN / name / "queue" / "queue.json").read_text())["format"] for name in STORES}
    assert formats == set(range(FORMAT, FORMAT_WITH_NOTICE + 1))


@pytest.mark.parametrize("notice", [[], ["leaving"]], ids=["plain", "leaving"])
def test_what_is_written_now_is_written_as_one_of_them(tmp_path, notice):
    """Else there is a new form, which wants a golden store of its own."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    subprocess.run([sys.executable, str(GOLDEN / "make.py"), str(home), *notice], check=True)
    made = {path.name: path.read_bytes() for path in (home / "queue").iterdir()}
    assert made in [{path.name: path.read_bytes() for path in (GOLDEN / name / "queue").iterdir()} for name in STORES]


def test_it_holds_what_it_held(every):
    golden = every
    assert golden.records() == golden.held["jobs"]
    store = golden.open()
    assert getattr(store.notice(), "state", None) == golden.held.get("notice")
    counts = store.counts(now=START)
    assert {state: number for state, number in counts.states.items() if number} == golden.held["counts"]
    assert (counts.paused, counts.damaged) == (golden.held["paused"], 0)
    assert store.check() == []
    assert store.repair() == []


def test_a_notice_is_heeded_and_can_be_taken_down(noticed):
    store = noticed.open()
    assert store.notice() == Notice(state="leaving", url="json:new")
    with pytest.raises(StoreMoved):
        store.add(new(make_job("more")), now=START)
    store.post(None, before=store.notice(), now=START)
    assert noticed.records() == noticed.held["jobs"]
    noticed.open().add(new(make_job("more")), now=START)


def test_a_notice_survives_the_loss_of_the_manifest(noticed):
    (noticed.queue / "queue.json").unlink()
    assert any("built again" in each for each in noticed.open().repair())
    assert noticed.open().notice() == Notice(state="leaving", url="json:new")
    assert noticed.records() == noticed.held["jobs"]


def test_a_jobq_that_knows_no_notices_leaves_a_store_with_one_alone(noticed, monkeypatch):
    monkeypatch.setattr(manifest, "FORMAT_WITH_NOTICE", FORMAT)  # all that one looks at is the number
    before = {path.name: path.read_bytes() for path in noticed.queue.iterdir()}
    for act in (noticed.records, lambda: noticed.open().add(new(make_job("x")), now=START), noticed.open().repair):
        with pytest.raises(NewerFormat, match="format 2"):
            act()
    assert {name: (noticed.queue / name).read_bytes() for name in before} == before


def test_it_is_worked_on_as_any_other(golden):
    store = golden.open()
    for job in golden.held["jobs"]:
        with pytest.raises(DuplicateJob):
            golden.open().add(new(make_job(job["id"])), now=START)
    store.add(new(make_job("more", priority=1000)), now=START)
    presence = store.join(make_info())
    claims = store.claim(presence, wanted=Wanted(queues=("default",)), limit=9, now=START).claims
    assert [claim.job.id for claim in claims] == ["more", "old-plain", "new-plain"]
    presence.close()
    for number in (1, 2):
        assert store.access.compact()
        assert golden.open().check() == [], number
    (lost,) = {claim.worker for _, held in golden.open().lost(now=START) for claim in held if claim.job.id == "running"}
    assert lost == "worker0000000001"
    taken = {claim.job.id for claim in claims}
    after = {record["id"]: record for record in golden.records() if record["id"] not in taken}
    assert after == {job["id"]: job for job in golden.held["jobs"] if job["id"] not in taken}


def test_unknown_fields_survive_every_rewrite(golden):
    store = golden.open()
    presence = store.join(make_info())
    assert store.access.compact()
    for kind in (Kind.FAILURE, Kind.SUCCESS):
        now = START if kind is Kind.FAILURE else START.replace(hour=23)
        claims = store.claim(presence, wanted=Wanted(queues=("new",)), limit=2, now=now).claims
        assert {claim.job.id for claim in claims} == {"old-unknown", "new-unknown"}
        outcome = Outcome(kind=kind, finished=now)
        changes = [lifecycle.after(claim, outcome, now=now, delay=lambda *_: timedelta(0)) for claim in claims]
        store.finish(presence, [Ended(*pair) for pair in zip(claims, changes, strict=True)], now=now)
        assert store.access.compact()
        for name in ("old-unknown", "new-unknown"):
            record = golden.open().get(name).record()
            assert {field: record[field] for field in UNKNOWN} == UNKNOWN
    presence.close()
    assert record["state"] == "completed"


@pytest.mark.parametrize("newer", ["manifest", "change"])
def test_what_a_newer_jobq_wrote_is_refused_as_such_and_left_as_it_is(golden, newer):
    if newer == "change":
        golden.seal("journal-2.jsonl", b'"op":"pause"', b'"op":"fold"')
    else:
        path = golden.queue / "queue.json"
        text = path.read_text().replace('"format": 1', '"format": 99')
        body, _, _ = text.rpartition(",\n")
        path.write_text(f'{body},\n  "crc": "{crc32(body.encode()):08x}"\n}}\n')
    before = {path.name: path.read_bytes() for path in golden.queue.iterdir()}
    for act in (
        golden.records,
        lambda: golden.open().repair(),
        lambda: golden.open().counts(now=START),
        lambda: golden.open().check(),
    ):
        with pytest.raises(NewerFormat, match="newer jobq"):
            act()
    assert {name: (golden.queue / name).read_bytes() for name in before} == before


def test_a_generation_of_a_newer_jobq_is_not_mended_where_its_manifest_is_gone(golden):
    """It was taken for one of this jobq's own: only the manifest's format was looked at."""
    golden.seal("jobs-2.jsonl", b'"jobq":"end","format":1', b'"jobq":"end","format":99')
    (golden.queue / "queue.json").unlink()
    before = {path.name: path.read_bytes() for path in golden.queue.iterdir()}
    with pytest.raises(NewerFormat, match="format 99"):
        golden.open().repair()
    assert {name: (golden.queue / name).read_bytes() for name in before} == before
