"""The bars of GPU workers. Run through tests/bars.sh.

What needs a device is read from its committed results: tests/bench/results/gpu_workers_CARD.txt (the
lines of tests/gpu/timing.py and faults.py), gpu_winners_CARD.txt (winners.py), gpu_main_job_CARD.txt
(main_job.sh), gpu_spaces_CARD.txt (tests/bench/recommender/exhaustive.py, of what tests/gpu/exhaust.py
timed) and gpu_several_CARD.txt (several.py). They name the commit that they measured, and are refused
once compiler/ or worker/ changed since. Of machines with more GPUs than were had, what devices that are
simulated make of it (several_gpus_*.txt, of tests/bench/worker/several_gpus.py) is told."""
import re
import sys

from common import ROOT, Skipped, at_least, at_most, ctest, main, run
from gpu_compiler import device_result

WORKERS, MAIN_JOB, WINNERS, SEVERAL = "gpu_workers", "gpu_main_job", "gpu_winners", "gpu_several"
SPACES, SHAPES = "gpu_spaces", 9


def lines(pattern, name=WORKERS):
    found = re.findall(pattern, device_result(name), re.M)
    if not found:
        raise Skipped(f"no such line in {name}_*.txt")
    return found


def sweeps():
    ended, of = map(int, lines(r"^(\d+) of (\d+) sweeps ended with a winner$", MAIN_JOB)[-1])
    return f"{ended}/{of}", "all", ended == of


def all_ok(pattern):
    """Lines `name ok|SHORT|WRONG ...` whose name fits."""
    def measure():
        told = lines(rf"^(?:{pattern}) +(ok|SHORT|WRONG) ")
        return f"{told.count('ok')}/{len(told)}", "all", told.count("ok") == len(told)
    return measure


def worst(pattern, judge, bar, pick):
    return lambda: judge(pick(map(float, lines(rf"^{pattern} ([-+0-9.]+)", WINNERS))), bar)


def drift():
    return at_most(max(abs(float(d)) for d in lines(r"^drift_\S+ (\S+)", WINNERS)), 0.015)


def ranked(name, pick, bar):
    """Of Kiln's recommender over the exhaustive spaces: the mean over shapes, or the least."""
    def measure():
        mean, least, count = lines(rf"^{name} (\S+) least (\S+) of (\d+)$", SPACES)[-1]
        if int(count) < SHAPES:
            raise Skipped(f"exhaustive spaces of {count} of {SHAPES} shapes")
        return at_least(float({"mean": mean, "least": least}[pick]), bar)
    return measure


def simulated(count, bar):
    """What simulated devices make of so many, for the lack of real ones."""
    for path in sorted((ROOT / "tests/bench/results").glob("several_gpus_*.txt")):
        text = path.read_text()
        ratio = re.search(rf"^several_gpus_{count} (\S+) simulated", text, re.M)
        commit = re.search(r"^commit: (\w+)", text, re.M)
        if ratio and commit:
            yield (f"; simulated: {ratio[1]} times one GPU's throughput, the bar is {bar} "
                   f"({path.name}, commit {commit[1]})")


def several_gpus(count, word, bar):
    def measure():
        try:
            return at_least(min(map(float, lines(rf"^several_gpus_{count} (\S+)", SEVERAL))), bar)
        except Skipped as why:
            raise Skipped(f"machine of {word} GPUs: {why}{''.join(simulated(count, bar))}") from why
    return measure


def bundle():
    """MiB of the archive that deploy/package.sh makes."""
    run(["deploy/package.sh"])
    size = (ROOT / "build/package/kiln-linux-x86_64.tar.xz").stat().st_size
    return at_most(size / 2 ** 20, 40)


BARS = {
    "sweeps_end": sweeps,
    "seconds_to_winner": worst(r"winner_seconds_\S+", at_most, 5, max),
    "gpu_idle": worst(r"gpu_idle_\S+", at_most, 0.25, max),
    "triton_ratio": worst(r"triton_ratio_\S+", at_least, 5, min),
    "same_winner": worst(r"same_winner_\S+", at_least, 1, min),
    "stored_time_drift": drift,
    "recommender_top16": ranked("kiln_top16", "mean", 0.97),
    "recommender_top1": ranked("kiln_first", "mean", 0.90),
    "recommender_least": ranked("kiln_first", "least", 0.6),
    "timing_sources": all_ok(r"(?:copy|product)_[0-9a-z]+"),
    "copy": all_ok(r"copy_\w+_driver"),
    "faults": all_ok(r"(?:a |an |all |sound ).*?"),
    "two_gpus": several_gpus(2, "two", 1.9),
    "four_gpus": several_gpus(4, "four", 3.6),
    "bundle_mib": bundle,
    "bundle_messages": lambda: ctest(["-R", "package_test|gpu_device_test|devices_test"]),
}


if __name__ == "__main__":
    sys.exit(main(BARS, sys.argv[1:]))
