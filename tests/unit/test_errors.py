"""The tree of errors: every class has its exit code and a message made of its facts."""

import pytest

from jobq import errors
from jobq.errors import (
    Conflict,
    DuplicateJob,
    InvalidInput,
    JobChanged,
    JobNotFound,
    JobqError,
    JobsUnsuccessful,
    Misuse,
    NotFound,
    NotSupported,
    PluginError,
    StoreError,
    UnknownKey,
    WaitTimeout,
    WorkerNotFound,
    WrongState,
)

EXIT_CODES = {
    JobqError: 70,
    InvalidInput: 1,
    Misuse: 1,
    NotFound: 3,
    Conflict: 4,
    StoreError: 5,
    PluginError: 6,
    JobsUnsuccessful: 7,
    WaitTimeout: 124,
}


def tree(root=JobqError):
    return [root, *(each for child in root.__subclasses__() for each in tree(child))]


def test_every_error_of_the_module_is_in_the_tree():
    public = {value for name, value in vars(errors).items() if isinstance(value, type) and not name.startswith("_")}
    assert {each for each in public if each.__module__ == errors.__name__} <= set(tree())


@pytest.mark.parametrize("error", tree(), ids=lambda error: error.__name__)
def test_an_error_has_the_exit_code_of_its_branch(error):
    branch = next(each for each in error.__mro__ if each in EXIT_CODES)
    assert error.exit_code == EXIT_CODES[branch]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (InvalidInput("timeout", -1, "must be positive"), "timeout: -1 must be positive"),
        (InvalidInput("", "x\n", "is no JSON", line=3), r"line 3: 'x\n' is no JSON"),
        (InvalidInput("id", "a" * 200, "is too long").at_line(7), "line 7: id: '" + "a" * 78 + "… is too long"),
        (JobNotFound("abc"), "no job 'abc'"),
        (JobNotFound("abc", "did you mean abcd?"), "no job 'abc' (did you mean abcd?)"),
        (JobNotFound("\x1b[2J"), r"no job '\x1b[2J'"),
        (WorkerNotFound("w"), "no worker 'w' on this host; `jobq worker list` shows them"),
        (UnknownKey("x"), "no setting 'x'; `jobq config list` shows all"),
        (UnknownKey("x", "did you mean y?"), "no setting 'x'; did you mean y?"),
        (DuplicateJob(["a"]), "job a exists already"),
        (DuplicateJob(iter("ab")), "jobs a, b exist already"),
        (DuplicateJob(map(str, range(12))), "jobs 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more exist already"),
        (WrongState("a", "dead", "cancel"), "cannot cancel job a: it is dead"),
        (
            WrongState("a", "pending", "retry", ("failed", "dead")),
            "cannot retry job a: it is pending, not failed or dead",
        ),
        (
            WrongState("a", "pending", "retry", ("failed", "dead", "cancelled")),
            "cannot retry job a: it is pending, not failed, dead or cancelled",
        ),
        (WrongState("a", "pending", "retry", ("dead",)), "cannot retry job a: it is pending, not dead"),
        (JobChanged("a"), "job a was changed by somebody else meanwhile"),
        (NotSupported("no locks here"), "no locks here"),
    ],
)
def test_a_message_is_made_of_the_facts(error, message):
    assert str(error) == message


def test_the_facts_can_be_asked_for():
    error = InvalidInput("timeout", -1, "must be positive", line=2)
    assert (error.field, error.value, error.rule, error.line) == ("timeout", -1, "must be positive", 2)
    assert DuplicateJob(iter("ab")).ids == ("a", "b")
    assert (JobNotFound("a", "b").job_id, JobNotFound("a", "b").hint) == ("a", "b")
    wrong = WrongState("a", "dead", "cancel")
    assert (wrong.job_id, wrong.state, wrong.verb) == ("a", "dead", "cancel")


def test_a_huge_field_is_cut_as_a_huge_value_is():
    """A key of a megabyte that no job has was told whole."""
    told = str(InvalidInput("x" * (1 << 20), "y" * (1 << 20), "is no field"))
    assert len(told) < 200
    assert told.endswith("is no field")
