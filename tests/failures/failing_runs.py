"""Runs a program with the n-th use of one kind of call failing, for one n after the other, and judges what comes of it.

The rule: each run ends by itself, with a success or with an error that says something; it leaves no file of its own behind; what it
was to write is there whole, or what was there before is.
"""
import functools
import os
import random
import shutil
import subprocess

LONG = os.environ.get("SPARCL_TEST_LONG") == "1"
SEED = int(os.environ.get("SPARCL_TEST_SEED", "1"))
SECONDS = 60  # for one run; the slowest takes one
# Numbers for each kind of call in the long tier, drawn if there are more: `status` has 60,000 on a machine with many records.
LONG_MOST = 3000
LONG_MOST_FROM_THEN_ON = 300  # if all later uses fail, too: the service then waits for its time limit of 20 s

# Libraries that end the process, or crash, where their own allocations fail: UCX, NCCL, hwloc, libnuma and OpenSSL do.
SPARED = "libuc,libnccl,libhwloc,libnuma,libcrypto,libcuda,libudev"

KINDS = ("allocation", "map", "write", "read", "sync", "rename", "open", "truncate", "close", "thread", "socket", "send", "receive",
         "folder")


class Case:
    """A command line, and what it works on: `fresh()` fills an empty folder, in which it runs."""

    def __init__(self, name, arguments, fresh=lambda: None, outputs=(), may_exit=(0, 1), normal=0, env=None, seen=lambda content: content):
        self.name = name
        self.arguments = arguments
        self.fresh = fresh
        self.outputs = outputs  # files and folders that a success writes
        self.may_exit = may_exit
        self.normal = normal  # exit code where nothing fails
        self.env = env or {}
        self.seen = seen  # what of an output's content is the same in each run


def content(path):
    """All bytes below a path; None where nothing is."""
    if os.path.isdir(path):
        return {name: content(os.path.join(path, name)) for name in sorted(os.listdir(path))}
    if not os.path.lexists(path):
        return None
    with open(path, "rb") as file:
        return file.read()


class Runner:
    def __init__(self, shim, folder, log=print):
        self.shim = shim
        self.folder = folder
        self.log = functools.partial(log, flush=True)
        self.faults = []
        self.runs = 0

    def start_anew(self, case):
        for name in os.listdir("."):
            shutil.rmtree(name) if os.path.isdir(name) and not os.path.islink(name) else os.remove(name)
        case.fresh()

    def run(self, case, kind, at, always):
        env = {**os.environ, "SPARCL_DEBUG": "off", "SPARCL_TIMEOUT_S": "20", **case.env}
        env.update(LD_PRELOAD=self.shim, SPARCL_TEST_FAIL_KIND=kind, SPARCL_TEST_FAIL_AT=str(at), SPARCL_TEST_FAIL_SPARED=SPARED,
                   SPARCL_TEST_FAIL_ALWAYS="1" if always else "0")
        if at == 0:
            env["SPARCL_TEST_FAIL_COUNT"] = os.path.join(self.folder, "count")
        try:
            done = subprocess.run(case.arguments, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS,
                                  close_fds=False)
        except subprocess.TimeoutExpired as late:
            return None, late.stdout or b"", late.stderr or b""
        self.runs += 1
        return done.returncode, done.stdout, done.stderr

    def judge(self, case, code, out, err, before, after):
        if code is None:
            return f"did not end in {SECONDS} s"
        if code < 0:
            return f"ended by signal {-code}"
        if code not in case.may_exit:
            return f"exit code {code}"
        if code != 0 and len(err.strip()) < 10:
            return "an error without a text"
        if code != 0 and b"--json" in [os.fsencode(each) for each in case.arguments] and b'"ok":false' not in out:
            return "an error without its JSON"
        found = {name: content(name) for name in sorted(os.listdir("."))}
        for name in set(found) - set(before) - set(case.outputs):
            if os.fsencode(name) not in err:  # what may be of use to the user is kept, and named
                return f"left {name} behind"
        for name in set(before) - set(case.outputs):
            if found.get(name) != before[name]:
                return f"changed {name}"
        held, old, new = ([case.seen(each.get(name)) for name in case.outputs] for each in (found, before, after))
        if code == 0 and held != new:
            return f"a success without the right {' and '.join(case.outputs)}"
        if held not in (old, new):
            return f"{' and '.join(case.outputs)} partially written"
        return None

    def numbers(self, count, most, name, always):
        if LONG:
            most = LONG_MOST_FROM_THEN_ON if always else LONG_MOST
        if count <= most:
            return range(1, count + 1)
        draw = random.Random(f"{SEED} {name}")
        part = count / most
        return sorted({int(i * part + draw.random() * part) + 1 for i in range(most)})

    def try_case(self, case, most):
        """most: of numbers for each kind of call, in the quick tier."""
        self.start_anew(case)
        before = {name: content(name) for name in os.listdir(".")}
        code, out, err = self.run(case, "none", 0, False)
        after = {name: content(name) for name in os.listdir(".")}
        if code != case.normal:
            self.faults.append(f"{case.name}: exit code {code} where nothing fails: {err[-400:].decode(errors='replace')}")
            return
        for kind in KINDS:
            self.try_kind(case, kind, most if kind == "allocation" else max(most // 4, 2), before, after)

    def try_kind(self, case, kind, most, before, after):
        self.start_anew(case)
        self.run(case, kind, 0, False)
        with open(os.path.join(self.folder, "count")) as file:
            count = int(file.read())
        ends = {}
        tried = 0
        for always in (False, True):
            drawn = self.numbers(count, most, f"{case.name} {kind} {always}", always)
            # In any draw: where it is decided what an input is, and what is cleaned up at the end.
            for at in sorted({*drawn, *({2, count} if count >= 2 and not always else ())}):
                self.start_anew(case)
                code, out, err = self.run(case, kind, at, always)
                tried += 1
                fault = self.judge(case, code, out, err, before, after)
                ends[code if fault is None else fault] = ends.get(code if fault is None else fault, 0) + 1
                if fault is not None:
                    self.faults.append(f"{case.name}: {kind} {at}{' and later ones' if always else ''} of {count}: {fault}: "
                                       f"{err[-300:].decode(errors='replace').strip()}")
        if tried:
            self.log(f"{case.name}: {kind}: {count} uses, {tried} runs: " + ", ".join(f"{end}: {n}" for end, n in ends.items()))

    def report(self):
        print(f"{self.runs} runs, {len(self.faults)} faults")
        for fault in self.faults[:60]:
            print(fault)
        return 1 if self.faults else 0
