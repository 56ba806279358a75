# pyframes_check.py -- compares the raw walk's frames with the interpreter's own, inside the interpreter under test.
# SPDX-License-Identifier: Apache-2.0
#
# Syntax and library of Python 3.8, as in the other pyframes_*.py.
import ctypes
import sys

CASES = {}
probe = None        # releases the GIL around the call, as ctypes and torch do
probe_gil = None    # keeps it
complaints = []
captures = 0


def case(function):
    CASES[function.__name__] = function
    return function


def load(path):
    global probe, probe_gil
    for name, loader in (("probe", ctypes.CDLL), ("probe_gil", ctypes.PyDLL)):
        library = loader(path)
        library.pyframes_capture.restype = ctypes.c_char_p
        library.pyframes_version.restype = ctypes.c_char_p
        library.pyframes_cost.restype = ctypes.c_double
        library.pyframes_text_cost.restype = ctypes.c_double
        globals()[name] = library


def frames_of(raw):
    head, *rows = raw.split(b"\x1e")[:-1]
    cut, count = (int(n) for n in head.split(b"\x1f"))
    frames = []
    for row in rows:
        file, function, line, lasti, known, key = row.split(b"\x1f")
        frames.append((file.decode("utf-8", "surrogatepass"), function.decode("utf-8", "surrogatepass"), int(line),
                       int(lasti), key))
        assert known == b"1"
    assert len(frames) == count
    return bool(cut), frames


def own(frame, most=4000):
    frames = []
    while frame and len(frames) < most:
        code = frame.f_code
        line = frame.f_lineno
        frames.append((code.co_filename, code.co_name, -1 if line is None else line, frame.f_lasti))
        frame = frame.f_back
    return frames


def compare(raw, expected, cut_expected=False):
    global captures
    captures += 1
    cut, frames = frames_of(raw)
    if cut != cut_expected:
        complaints.append("cut is %r" % cut)
    if len(frames) != len(expected):
        complaints.append("%d frames, not %d: %r" % (len(frames), len(expected), [f[:3] for f in frames[:4]]))
    for i, (seen, true) in enumerate(zip(frames, expected)):
        same = 3 if i == 0 else 4    # the innermost frame is at another call of the same line
        if seen[:same] != true[:same]:
            complaints.append("frame %d: %r, not %r" % (i, seen[:4], true))


def check(result=None):
    compare(probe.pyframes_capture(4000), own(sys._getframe()))
    compare(probe_gil.pyframes_capture(4000), own(sys._getframe()))
    return result


def run(source, filename="<exec>", **names):
    names["check"] = check
    exec(compile(source, filename, "exec"), names)
    return names
