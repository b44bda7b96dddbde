#!/usr/bin/env python3
"""What a farm makes of kernels that trap, hang, write outside and lie, and of processes that die.

    tests/gpu/faults.py OUT [--bin FOLDER] [--target gpu|cpu] [--cut-off 60]

Starts a coordinator and a worker of its own, sweeps tests/gpu/faulty_kernel.py with one config a
fault, and says of each whether the farm found it and whether it named the cause; then kills the
device child, the compile child and the worker in the middle of sweeps, and stops a worker for as long
as --cut-off says. A sound sweep before and after every fault must give the same winner and a time
within 5 % (on a GPU): device and neighbours are unharmed. Prints one line a case: `name ok|WRONG what`."""
import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

from where import BIN

HERE = pathlib.Path(__file__).resolve().parent
# What a fault must be told as: the stages that may find it, and words of the message.
FAULTS = {
    1: ("traps", r"unspecified launch failure|assert|illegal instruction|trap"),
    2: ("never ends", r"did not come back"),
    3: ("writes just behind its output", r"outside|behind|red zone|bounds"),
    4: ("writes where nothing is", r"(?i)illegal address|illegal memory|signal|segmentation"),
    5: ("has one wrong tile", r"wrong|differ|other numbers|expected"),
    6: ("has one NaN", r"(?i)nan|other numbers"),
}


ENDED = ("done", "failed", "cancelled")


class Farm:
    def __init__(self, options):
        self.options, self.bin, self.out = options, options.bin.resolve(), options.out
        self.address = f"unix:{self.out}/farm.sock"
        self.processes = {}
        self.start("coordinator", [self.bin / "kiln-coordinator", "--store", self.out / "store",
                                   "--listen", self.address])
        until = time.monotonic() + 30
        while not (self.out / "farm.sock").exists() and time.monotonic() < until:
            time.sleep(0.05)
        self.start_worker()

    def start(self, name, command):
        log = (self.out / f"{name}.log").open("a")
        self.processes[name] = subprocess.Popen([str(part) for part in command], stdout=log,
                                                stderr=subprocess.STDOUT)

    def start_worker(self):
        self.start("worker", [self.bin / "kiln-worker", "--coordinator", self.address, "--devices",
                              self.options.target, "--work-dir", self.out / "work",
                              "--silence-seconds", "15"])

    def stop(self):
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            process.wait(60)

    def children(self, program):
        """Processes named `program` that the worker started."""
        listed = subprocess.run(["ps", "-e", "-o", "pid=,ppid=,comm="], capture_output=True,
                                text=True, check=True).stdout
        rows = [line.split(None, 2) for line in listed.splitlines()]
        parent = str(self.processes["worker"].pid)
        return [int(pid) for pid, ppid, name in rows if ppid == parent and program.startswith(name)]

    def tunectl(self, *arguments, check=True):
        result = subprocess.run([str(self.bin / "tunectl"), "--server", self.address, "--json",
                                 *arguments], capture_output=True, text=True, check=False)
        if check and result.returncode:
            raise RuntimeError(f"tunectl {' '.join(arguments)}: {result.stdout}{result.stderr}")
        return json.loads(result.stdout)

    def submit(self, name, faults, blocks=2048, threads=(64, 128, 256, 512)):
        configs = [{"fault": 0, "threads": count} for count in threads]
        configs += [{"fault": fault, "threads": 128} for fault in faults]
        file = self.out / f"{name}.yaml"
        file.write_text(json.dumps({  # JSON is YAML
            "name": name, "kernel": str(HERE / "faulty_kernel.py"), "target": self.options.target,
            "arguments": {"blocks": blocks}, "configs": configs, "fresh": True}))
        return self.tunectl("submit", str(file))["sweeps"][0]["sweep"]

    def ended(self, sweep, within=240.0, pause=0.2):
        """The sweep as `tunectl show` tells it, once it has ended."""
        until = time.monotonic() + within
        while time.monotonic() < until:
            shown = self.tunectl("show", sweep)
            if shown["progress"]["state"] in ENDED:
                return shown
            time.sleep(pause)
        raise TimeoutError(f"sweep {sweep} did not end in {within:.0f} s")


class Cases:
    def __init__(self, farm):
        self.farm, self.failed, self.sound = farm, 0, None

    def say(self, name, ok, what):
        self.failed += not ok
        print(f"{name:36} {'ok' if ok else 'WRONG'}  {what}"[:400], flush=True)

    def unharmed(self, after):
        """A sound sweep gives its winner, about as fast as the first one."""
        shown = self.farm.ended(self.farm.submit(f"sound after {after}", []))
        winner = shown.get("winner")
        if not winner:
            return self.say(f"sound after {after}", False, "no winner")
        median = winner["measurement"]["median_ns"]
        self.sound = self.sound or median
        failures = [c for c in shown["candidates"] if c.get("failure")]
        near = 0.05 if self.farm.options.target == "gpu" else 1.0  # a CPU has other work
        self.say(f"sound after {after}", abs(median / self.sound - 1) < near and not failures,
                 f"{median / 1e3:.2f} us, the first {self.sound / 1e3:.2f} us, "
                 f"{len(failures)} failures")

    def fault(self, number):
        name, words = FAULTS[number]
        start = time.monotonic()
        shown = self.farm.ended(self.farm.submit(f"fault {number}", [number]))
        seconds = time.monotonic() - start
        failures = {c["config"]: c["failure"] for c in shown["candidates"] if c.get("failure")}
        found = [f for config, f in failures.items() if f"fault={number}" in config]
        others = [config for config in failures if f"fault={number}" not in config]
        message = found[0]["message"].replace("\n", " ") if found else "not noticed"
        ok = (bool(found) and not others and bool(shown.get("winner"))
              and "fault=0" in shown["winner"]["config"] and re.search(words, message) is not None)
        told = f"{found[0]['stage']}: {message}" if found else message
        self.say(f"a kernel that {name}", ok, f"{seconds:.1f} s; {told}; others failed: {others}")

    def all_at_once(self):
        shown = self.farm.ended(self.farm.submit("all faults", list(FAULTS)))
        bad = [c["config"] for c in shown["candidates"]
               if bool(c.get("failure")) != ("fault=0" not in c["config"])]
        self.say("all of them in one sweep", not bad and bool(shown.get("winner")),
                 f"winner {(shown.get('winner') or {}).get('config')}, misjudged: {bad}")

    def killed(self, name, strike, within=240.0):
        """A sweep during which `strike` does its worst; one that was over by then shows nothing."""
        sweep = self.farm.submit(name, [], blocks=8192,
                                 threads=[32 * n for n in range(1, 33)])
        start = time.monotonic()
        what = strike()
        struck = self.farm.tunectl("show", sweep)["progress"]["state"] not in ENDED
        shown = self.farm.ended(sweep, within)
        failures = [c["config"] for c in shown["candidates"] if c.get("failure")]
        self.say(name, bool(what) and struck and bool(shown.get("winner")) and not failures,
                 f"{what or 'nothing was there to kill'}{'' if struck else ', after the sweep'}; "
                 f"{time.monotonic() - start:.1f} s to the end; failed: {failures}")


def strike_child(farm, program):
    """Kills the first process of `program` that is seen."""
    def strike():
        until = time.monotonic() + 60
        while time.monotonic() < until:
            for pid in farm.children(program):
                os.kill(pid, signal.SIGKILL)
                return f"killed {program}"
            time.sleep(0.01)
        return ""
    return strike


def strike_worker(farm):
    def strike():
        time.sleep(0.3)
        farm.processes["worker"].kill()
        farm.processes["worker"].wait()
        farm.start_worker()
        return "killed and started again"
    return strike


def cut_off(farm, seconds):
    def strike():
        time.sleep(0.3)
        pid = farm.processes["worker"].pid
        os.kill(pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(pid, signal.SIGCONT)
        return f"stopped for {seconds:.0f} s"
    return strike


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--bin", type=pathlib.Path, default=BIN)
    parser.add_argument("--target", default="gpu", choices=["gpu", "cpu"])
    parser.add_argument("--cut-off", type=float, default=60.0, help="seconds")
    options = parser.parse_args()
    options.out = options.out.resolve()
    shutil.rmtree(options.out, ignore_errors=True)
    options.out.mkdir(parents=True)
    farm = Farm(options)
    cases = Cases(farm)
    try:
        cases.unharmed("nothing")
        for number in FAULTS:
            cases.fault(number)
            cases.unharmed(f"fault {number}")
        cases.all_at_once()
        cases.killed("a killed device child", strike_child(farm, "kiln-runner"))
        cases.killed("a killed compile child", strike_child(farm, "kiln-compile"))
        cases.killed("a killed worker", strike_worker(farm))
        cases.killed("a worker cut off", cut_off(farm, options.cut_off), 240 + options.cut_off)
        cases.unharmed("all that")
    finally:
        farm.stop()
    print(f"{cases.failed} wrong")
    return 1 if cases.failed else 0


if __name__ == "__main__":
    sys.exit(main())
