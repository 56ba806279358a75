# pyframes_keys.py -- equal keys mean equal file, function and line, also when code objects die and addresses return.
# SPDX-License-Identifier: Apache-2.0
import sys

import pyframes_check as checks
from pyframes_check import case, complaints, frames_of, run


class Keys:
    """Remembers each key's text and complains if the same key comes back with another."""

    def __init__(self):
        self.known = {}
        self.stale = 0
        self.addresses = set()

    def take(self):
        for frame in frames_of(checks.probe.pyframes_capture(2))[1]:
            if self.known.setdefault(frame[4], frame[:3]) != frame[:3]:
                self.stale += 1
            self.addresses.add(frame[4][:16])
        return 1

    def end(self, made):
        if self.stale:
            complaints.append("%d stale keys in %d functions" % (self.stale, made))
        if len(self.addresses) > made // 2:
            complaints.append("addresses were hardly reused: the storm proves nothing")


def storm(source, filename=lambda i: "<storm>", rounds=20000):
    keys = Keys()
    for i in range(rounds):
        run(source(i), filename(i), take=keys.take)
    keys.end(rounds)


@case
def keys_survive_a_storm_of_functions():
    storm(lambda i: "def f():\n" + "\n" * (i % 5000) + "    take()\nf()")


@case
def keys_see_a_difference_in_the_middle():
    body = "" if sys.version_info < (3, 12) else "    a = 1; b = 2\n    e = [a,\n b]\n" * 3
    storm(lambda i: "def f():\n" + body + "\n" * (i % 50) + "    take()\n" + "\n" * (50 - i % 50) + body + "f()", rounds=4000)


@case
def keys_see_another_file_name():
    storm(lambda i: "def f():\n    take()\nf()", lambda i: "<made %05d>" % i)


@case
def keys_see_another_function_name():
    storm(lambda i: "def f%05d():\n    take()\nf%05d()" % (i, i))


@case
def keys_are_equal_for_the_same_place():
    def place():
        return frames_of(checks.probe.pyframes_capture(1))[1][0]
    first = place()
    if any(place() != first for _ in range(1000)):
        complaints.append("the key of one place changes")
