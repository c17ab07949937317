"""Well-known Python queues beside jobq: each at the settings its own documentation recommends, in one run, in turn.

    tox -e bench-peers -- [--recovery] [--rounds N] [--json FILE] [NAME...]

One file a peer. `peer.py` has what is measured and how; `jobs.py` and `client.py` run in the peer's own processes.
"""
