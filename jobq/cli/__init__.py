"""The command line: `jobq`. One file a group of commands, each imported only when one of its commands runs."""
