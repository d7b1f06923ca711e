"""Runs a program in the network namespace of this process, whose only way out is a port of the loopback address.

A Unix socket of the host takes its connections out of the namespace. Arguments: the socket, the port, the program and its
arguments. The program takes the place of this process; the relay ends with it.
"""

import ctypes
import fcntl
import os
import signal
import socket
import struct
import sys
import threading

SIOCSIFFLAGS = 0x8914
IFF_UP = 1
PR_SET_PDEATHSIG = 1


def enable_loopback():
    """A new namespace has a loopback interface, which is down."""
    request = struct.pack("16sH22x", b"lo", IFF_UP)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, request)


def pump(source, sink):
    try:
        while data := source.recv(1 << 16):
            sink.sendall(data)
    except OSError:
        pass
    try:
        # The other direction may still have data.
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def relay(listener, path):
    while True:
        inside, _ = listener.accept()
        outside = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            outside.connect(path)
        except OSError:
            # As a proxy that has stopped.
            inside.close()
            continue
        for ends in ((inside, outside), (outside, inside)):
            threading.Thread(target=pump, args=ends, daemon=True).start()


def main():
    path, port, program = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    enable_loopback()
    listener = socket.create_server(("127.0.0.1", port), backlog=128)
    parent = os.getpid()
    if os.fork():
        listener.close()
        os.execvp(program[0], program)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return
    # A test waits until the output of the program is closed.
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    relay(listener, path)


main()
