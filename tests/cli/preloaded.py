"""A process that has imported the command line already and forks for each command.

Each command still has a process, a directory and an environment of its own. It only does not spend
half a second on imports, a hundred times over. Argument: the descriptor of the socket on which
requests come: JSON, with standard input, output and error as descriptors.
"""

import json
import os
import socket
import sys

from valetkey.cli.main import COMMANDS, main


def serve(requests: socket.socket) -> None:
    while True:
        message, streams, _, _ = socket.recv_fds(requests, 1 << 20, 3)
        if not message:
            return
        pid = os.fork()
        if pid == 0:
            requests.close()
            become(json.loads(message), streams)
        for stream in streams:
            os.close(stream)
        _, status = os.waitpid(pid, 0)
        requests.sendall(json.dumps(os.waitstatus_to_exitcode(status)).encode())


def become(request: dict[str, object], streams: list[int]) -> None:
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.chdir(str(request["here"]))
    os.environ.clear()
    os.environ.update(request["environment"])  # type: ignore[call-overload]
    sys.argv = ["valetkey", *request["arguments"]]  # type: ignore[misc]
    main()


if __name__ == "__main__":
    for listed in COMMANDS:
        listed.command()
    serve(socket.socket(fileno=int(sys.argv[1])))
