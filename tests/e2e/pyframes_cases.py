# pyframes_cases.py -- programs whose frames the raw walk must show as the interpreter itself does.
# SPDX-License-Identifier: Apache-2.0
#
# Run by each interpreter under test: `python pyframes_cases.py PROBE.so`; prints one JSON object {case: [complaints]}.
import asyncio
import contextlib
import ctypes
import functools
import gc
import json
import os
import re
import sys
import threading
import weakref

import pyframes_check as checks
import pyframes_keys  # noqa: F401 (registers its cases)
from pyframes_check import CASES, case, check, compare, complaints, own, run


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
    table = "co_linetable" if sys.version_info >= (3, 10) else "co_lnotab"
    no_line = b"\xff" if sys.version_info >= (3, 11) else b"\xfe\x80"    # from 3.10; before, just another table
    replacements += [{table: b""}, {table: no_line * 100}]
    for change in replacements:
        original.__code__ = original.__code__.replace(**change)
        original()


# --- the C boundary ------------------------------------------------------------------------------
@case
def c_boundaries():
    CALLBACK = ctypes.CFUNCTYPE(None)
    checks.probe.pyframes_call(CALLBACK(check))
    checks.probe_gil.pyframes_call(CALLBACK(lambda: checks.probe.pyframes_call(CALLBACK(check))))
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
        if len(seen) < 400:
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
            kept = [{"a": [n]} for _ in range(n)]
            return lambda: (kept, n)    # making their cells can start a collection before the first instruction
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
        for most in (0, 1, 2, 20, 50):
            compare(checks.probe.pyframes_capture(most), own(sys._getframe(), most), True)
        depth = len(own(sys._getframe()))
        compare(checks.probe.pyframes_capture(depth), own(sys._getframe()))
        compare(checks.probe.pyframes_capture(depth - 1), own(sys._getframe(), depth - 1), True)
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
        checks.probe.pyframes_text_cut(ctypes.c_size_t(size), file, function)
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


@case
def fork_and_child():
    check()
    pid = os.fork()
    if not pid:
        check()
        os._exit(1 if complaints else 0)
    if os.waitpid(pid, 0)[1]:
        complaints.append("wrong in the child")


def cost():
    """Nanoseconds to walk 20 frames of 20 code objects, and to read their texts."""
    lines = "\n".join("    x%d = n + %d" % (i, i) for i in range(18))
    source = "".join("def f%d(n):\n%s\n    if n:\n        return f%d(n)\n    return n\n" % (i, lines, i + 1) for i in range(20))
    names = run(source + "def f20(n):\n    return measure()\n", "/srv/project/package/cost.py", measure=lambda: (
        checks.probe.pyframes_cost(20, 20000), checks.probe.pyframes_text_cost(20, 200)))
    return names["f0"](1)


def main():
    checks.load(sys.argv[1])
    results = {}
    for name in CASES:
        complaints.clear()
        before = checks.captures
        try:
            CASES[name]()
        except Exception as error:
            complaints.append("%s: %s" % (type(error).__name__, error))
        if not name.startswith(("keys", "cut")) and checks.captures == before:
            complaints.append("nothing was compared")
        results[name] = complaints[:5]
    walk, text = cost()
    print(json.dumps({"cases": results, "captures": checks.captures, "walk_ns": walk, "text_ns": text,
                      "state": checks.probe.pyframes_state(), "version": checks.probe.pyframes_version().decode()}))


if __name__ == "__main__":
    main()
