"""A TCP proxy in front of a server, which cuts, stalls, or is a pooler."""

import contextlib
import socket
import struct
import threading


class Proxy:
    """Forwards to 127.0.0.1:port.

    Attributes:
        rewrite: makes of what the server says what the client hears.
    """

    def __init__(self, port):
        self._target = port
        self.rewrite = lambda data: data
        self._left = {}
        self._was_cut = False
        self._go = threading.Event()
        self._go.set()
        self._sockets = []
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def stall(self):
        self._go.clear()

    def go_on(self):
        self._go.set()

    def cut_after(self, **bytes_):
        """Cut everything once, when so many more bytes were `sent` to the server, or `answered` to clients."""
        with self._lock:
            self._left, self._was_cut = bytes_, False

    def whole(self):
        """Whether nothing was cut since that was said; it is not to be cut any more."""
        with self._lock:
            self._left = {}
            return not self._was_cut

    def cut(self):
        with self._lock:
            sockets, self._sockets = self._sockets, []
        for each in sockets:
            with contextlib.suppress(OSError):
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # as a loss, no farewell
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def close(self):
        self._go.set()
        self._listener.close()
        self.cut()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                return
            with self._lock:
                self._sockets += [client, server]
            for act, source, sink in ((self._to_server, client, server), (self._to_client, server, client)):
                thread = threading.Thread(target=self._pump, args=(act, source, sink), daemon=True)
                thread.start()

    def _pump(self, act, source, sink):
        with contextlib.suppress(OSError, ValueError):
            while data := source.recv(1 << 16):
                self._go.wait()
                act(sink, data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)

    def _to_server(self, sink, data):
        self._pass("sent", sink, data)

    def _to_client(self, sink, data):
        self._pass("answered", sink, self.rewrite(data))

    def _pass(self, side, sink, data):
        with self._lock:
            left = self._left.get(side)
            cut = left is not None and len(data) >= left
            if left is not None:
                data = data[:left]
                self._left[side] = left - len(data)
            if cut:
                self._left, self._was_cut = {}, True
        sink.sendall(data)
        if cut:
            self.cut()


def as_pooler(data):
    """What the server says when a connection begins, with a number of the backend that a pooler made up."""
    mark = data.find(b"K\x00\x00\x00")
    if mark < 0 or b"R\x00\x00\x00" not in data:
        return data
    start = mark + 5
    return data[:start] + b"\x00\x00\x30\x39" + data[start + 4 :]
