"""``python -m fastcep.parallel DESCRIPTOR``: an instance in a process of its own, with the socket that it inherits."""

import socket
import sys

from fastcep.parallel.channel import Channel
from fastcep.parallel.instance import serve

if __name__ == "__main__":
    serve(Channel(socket.socket(fileno=int(sys.argv[1])), maps=True))
