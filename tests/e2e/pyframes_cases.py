# pyframes_cases.py -- programs whose frames the raw walk must show as the interpreter itself does.
# SPDX-License-Identifier: Apache-2.0
#
# Run by each interpreter under test: `python pyframes_cases.py PROBE.so`; prints one JSON object {case: [complaints]}.
# Syntax and library of Python 3.8.
import asyncio
import contextlib
import ctypes
import functools
import gc
import json
import sys
import threading
import weakref

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


# --- calls ---------------------------------------------------------------------------------------
@case
def plain_calls():
    def inner(a, b=2, *args, **kwargs):
        check()
        return (lambda x: check(x))(a)
    inner(1)
    inner(1, 2, 3, k=4)
    functools.partial(inner, 1)()


@case
def methods_and_descriptors():
    class Thing:
        check()

        def __init__(self):
            check()

        @property
        def value(self):
            return check(1)

        @classmethod
        def make(cls):
            check()
            return cls()

        @staticmethod
        def static():
            check()

        def __getattr__(self, name):
            return check(name)

        def __enter__(self):
            return check(self)

        def __exit__(self, *exception):
            check()

        def __call__(self):
            return super().__init__() or check()

        def __eq__(self, other):
            return check(True)
    thing = Thing.make()
    thing.value
    thing.missing
    thing()
    Thing.static()
    thing == 1
    with thing as one, Thing() as two:
        check((one, two))


@case
def metaclasses():
    class Meta(type):
        def __new__(mcs, name, bases, body):
            check()
            return super().__new__(mcs, name, bases, body)

        def __call__(cls, *args):
            check()
            return super().__call__(*args)

    class Thing(metaclass=Meta):
        def __init__(self):
            check()

        def __init_subclass__(cls):
            check()

    class Sub(Thing):
        check()
    Sub()


@case
def hot_specialised_calls():
    class Point:
        def __init__(self, last):
            if last:
                check()

        def method(self, last):
            if last:
                check()

        @property
        def last(self):
            return check()

    def function(last):
        if last:
            check()
    for i in range(3000):
        last = i in (10, 2998, 2999)
        function(last)
        point = Point(last)
        point.method(last)
        if last:
            point.last
    for i in range(300):
        Point(i > 290)
        function(i > 290)


@case
def decorators():
    def wrap(argument):
        check()

        def decorate(function):
            check()

            @functools.wraps(function)
            def wrapper(*args):
                return check(function(*args))
            return wrapper
        return decorate

    @wrap(check(1))
    @wrap(
        check(2))
    def wrapped(x):
        return check(x)
    wrapped(3)


@case
def multi_line_calls():
    def take(*args, **kwargs):
        return check(take)
    take(
        1,
        take(
            2),
        k=take(),
    )
    (take
     (3)
     (4))
    x = [check(1),
         check(2), take(
             check(3))]
    return (check(x) and
            check(1) or
            check(2))


# --- generators and coroutines -------------------------------------------------------------------
@case
def generators():
    def leaf(n):
        try:
            for i in range(n):
                check()
                got = yield i
                if got:
                    check()
        except ValueError:
            check()
            yield 7
        finally:
            check()

    def outer(n):
        yield from leaf(n)
        check()
    list(outer(2))
    g = outer(5)
    next(g)
    g.send("x")
    g.throw(ValueError())
    g.close()
    sum(check(x) for x in leaf(2))
    del g
    unfinished = leaf(3)
    next(unfinished)
    del unfinished
    gc.collect()


@case
def coroutines():
    class Context:
        async def __aenter__(self):
            check()
            await asyncio.sleep(0)

        async def __aexit__(self, *exception):
            check()

    async def numbers():
        for i in range(2):
            yield check(i)

    async def leaf():
        await asyncio.sleep(0)
        check()

    async def main():
        await asyncio.gather(leaf(), leaf())
        async with Context():
            check()
        async for _ in numbers():
            check()
        check([n async for n in numbers()])
        asyncio.get_running_loop().call_soon(check)
        await asyncio.get_running_loop().run_in_executor(None, check)
        await asyncio.sleep(0)
    asyncio.run(main())


@case
def comprehensions():
    [check(x) for x in range(2)]
    {check(x) for x in range(2)}
    {x: check(x) for x in range(2)}
    [[check(y) for y in range(x)] for x in range(3)]
    [x
     for x in range(2)
     if check(True)]


# --- code from text ------------------------------------------------------------------------------
@case
def executed_code():
    run("check()\n\n\ndef f():\n    check()\n\n    check(\n        1)\n\nf()\nclass C:\n\n    check()\n")
    eval("check()", {"check": check})
    eval(compile("(lambda:\n\n check())()", "made/up.py", "eval"), {"check": check})
    run("if 1:\n" + "\n" * 700 + "    check()\n" + "\n" * 100000 + "    check()\n", "far.py")
    run("x = [" + "\n1," * 400 + "\ncheck()]\ncheck()", "long.py")


@case
def odd_names():
    for name in ("Привет.py", "日本語.py", "naïve.py", "\U0001f40d.py", "raw\udcff.py", "", "a" * 900, "y" * 255 + "é"):
        run("def f():\n check()\nf()", name)
    run("def функция():\n check()\nfunktión = lambda: функция()\nfunktión()\nclass 名:\n def 前(s):\n  check()\n名().前()")


@case
def replaced_code():
    class Name(str):
        pass

    def original():
        check()
    replacements = [dict(co_name=Name("subclass")), dict(co_name=Name("під")), dict(co_filename=Name("/x/\U0001f40d")),
                    dict(co_firstlineno=90000), dict(co_name="\udc80"), dict(co_name="x" * 300)]
    broken = "co_linetable" if sys.version_info >= (3, 10) else "co_lnotab"
    replacements += [{broken: b""}, {broken: b"\x01"}] if sys.version_info < (3, 11) else []
    for change in replacements:
        original.__code__ = original.__code__.replace(**change)
        original()


# --- the C boundary ------------------------------------------------------------------------------
@case
def c_boundaries():
    import re
    CALLBACK = ctypes.CFUNCTYPE(None)
    probe.pyframes_call(CALLBACK(check))
    probe_gil.pyframes_call(CALLBACK(lambda: probe.pyframes_call(CALLBACK(check))))
    sorted([3, 1, 2], key=lambda x: check(x))
    list(map(check, [1, 2]))
    list(filter(lambda x: check(x), [1]))
    re.sub("a", lambda m: check("b"), "aa")
    functools.reduce(lambda a, b: check(a + b), [1, 2, 3])
    max([1, 2], key=check)
    json.dumps(object(), default=lambda o: check("x"))


@case
def destructors_and_gc_callbacks():
    class Dying:
        def __del__(self):
            check()
    Dying()
    thing = Dying()
    weak = weakref.ref(thing, lambda r: check())
    del thing

    def on_collect(phase, info):
        if len(seen) < 40:
            seen.append(phase)
            check()
    seen = []
    thresholds = gc.get_threshold()
    gc.callbacks.append(on_collect)
    gc.set_threshold(1, 1, 1)
    try:
        cycle = Dying()
        cycle.me = cycle
        del cycle
        gc.collect()

        def churn(n):
            return [{"a": [n]} for _ in range(n)]
        for n in range(50):
            churn(n)
    finally:
        gc.callbacks.remove(on_collect)
        gc.set_threshold(*thresholds)
    if not seen:
        complaints.append("no collection seen")
    return weak


@case
def tracing():
    def traced(n):
        x = n + 1
        check()
        return x

    def tracer(frame, event, argument):
        if frame.f_code is traced.__code__:
            check()
            return tracer
    for setter in (sys.settrace, sys.setprofile):
        setter(tracer)
        try:
            traced(1)
        finally:
            setter(None)


# --- statements ----------------------------------------------------------------------------------
@case
def exceptions_and_with():
    @contextlib.contextmanager
    def manager():
        check()
        try:
            yield check(1)
        finally:
            check()

    def failing():
        try:
            check()
            raise KeyError
        except KeyError as error:
            check(error)
            try:
                1 / 0
            except (ZeroDivisionError,
                    check(ValueError)):
                check()
        else:
            check()
        finally:
            check()
        for _ in range(2):
            try:
                continue
            finally:
                check()
        try:
            return check()
        finally:
            check()
    failing()
    with manager() as a, \
            manager():
        check(a)
    with contextlib.suppress(RuntimeError):
        with manager():
            raise RuntimeError


@case
def loops_and_expressions():
    n = 0
    while check(n < 3):
        n += check(1)
    assert check(True), \
        check("message")
    f"{check(1)} {check(2)}"
    text = f"""
    {check(1)}
    {check(2)}
    """
    a = b = check(1) if check(text) else check(2)
    x = {check("k"):
         check(a)}
    x[check("k")] = check(b)
    del x[check("k")]


# --- depth and threads ---------------------------------------------------------------------------
@case
def deep_recursion_keeps_the_innermost():
    def down(n):
        if n:
            return down(n - 1)
        check()
        for most in (0, 1, 2, 20, 55):
            compare(probe.pyframes_capture(most), own(sys._getframe(), most), True)
        depth = len(own(sys._getframe()))
        compare(probe.pyframes_capture(depth), own(sys._getframe()))
        compare(probe.pyframes_capture(depth - 1), own(sys._getframe(), depth - 1), True)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(5000)
    down(50)
    down(2000)
    sys.setrecursionlimit(limit)


@case
def threads_see_their_own_frames():
    def worker(n):
        for i in range(30):
            if n % 2:
                run("\n" * n + "def f%d():\n  check()\nf%d()" % (i, i))
            [check(x) for x in range(2)]
    threads = [threading.Thread(target=worker, args=(n,)) for n in range(6)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    for thread in threads:
        thread.start()
    check()
    for thread in threads:
        thread.join()
    sys.setswitchinterval(interval)


@case
def cut_texts_end_at_a_character():
    def measure(size):
        file, function = ctypes.create_string_buffer(b"\xff" * 64), ctypes.create_string_buffer(b"\xff" * 64)
        probe.pyframes_text_cut(ctypes.c_size_t(size), file, function)
        return file.value.decode(), function.raw
    measure.__code__ = measure.__code__.replace(co_filename="aé日\U0001f40d!")
    whole = "aé日\U0001f40d!"
    for size in range(1, 16):
        text, function = measure(size)
        if not whole.startswith(text) or len(text.encode()) > size - 1 or len(text.encode()) < min(size - 4, 11):
            complaints.append("size %d: %r" % (size, text))
        end = min(size, len("measure") + 1)
        if function[:end] != b"measure"[:end - 1] + b"\0" or set(function[end:63]) != {255}:
            complaints.append("size %d: %r" % (size, function))


# --- keys ----------------------------------------------------------------------------------------
class Keys:
    """Remembers each key's text and complains if the same key comes back with another."""

    def __init__(self):
        self.known = {}
        self.stale = 0
        self.addresses = set()

    def take(self):
        for frame in frames_of(probe.pyframes_capture(2))[1]:
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
    body = "    a = 1; b = 2; c = 3\n    d = 4\n    e = [a,\n b, c]\n" * 6
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
        return frames_of(probe.pyframes_capture(1))[1][0]
    first = place()
    if any(place() != first for _ in range(1000)):
        complaints.append("the key of one place changes")


@case
def fork_and_child():
    import os
    check()
    pid = os.fork()
    if not pid:
        check()
        os._exit(1 if complaints else 0)
    if os.waitpid(pid, 0)[1]:
        complaints.append("wrong in the child")


def cost():
    lines = "\n".join("    x%d = n + %d" % (i, i) for i in range(18))
    source = "".join("def f%d(n):\n%s\n    if n:\n        return f%d(n)\n    return n\n" % (i, lines, i + 1) for i in range(20))
    names = run(source + "def f20(n):\n    return measure()\n", "cost.py", measure=lambda: (
        probe.pyframes_cost(20, 20000), probe.pyframes_text_cost(20, 200)))
    return names["f0"](1)


def main():
    load(sys.argv[1])
    results = {}
    for name in CASES:
        complaints.clear()
        before = captures
        try:
            CASES[name]()
        except Exception as error:
            complaints.append("%s: %s" % (type(error).__name__, error))
        if not name.startswith(("keys", "cut")) and captures == before:
            complaints.append("nothing was compared")
        results[name] = complaints[:5]
    walk, text = cost()
    print(json.dumps({"cases": results, "captures": captures, "walk_ns": walk, "text_ns": text,
                      "state": probe.pyframes_state(), "version": probe.pyframes_version().decode()}))


if __name__ == "__main__":
    main()
