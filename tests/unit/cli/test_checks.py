"""What `doctor` looks at."""

from jobq import filesystem
from jobq_json import directory


def test_doctor_names_every_network_file_system_that_the_json_store_refuses():
    assert directory._NETWORK <= filesystem.NETWORK
