"""What the benchmarks share: getting peers, a place on a disk, and the table."""
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
CACHE = os.path.abspath(os.environ.get("KRON_CACHE") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "kron"))
PEERS = os.path.join(CACHE, "bench")
MEMORY_FILE_SYSTEMS = ("tmpfs", "ramfs", "devtmpfs")


def say(text):
    print(text, flush=True)


def progress(text):
    print(text, file=sys.stderr, flush=True)


class Missing(Exception):
    """A peer cannot be had, and why."""


# ---- getting and building

def fetch(*command, **options):
    """Runs what gets something; says why when it fails."""
    try:
        done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=900, **options)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Missing(f"`{' '.join(command[:3])}`: {error}") from error
    if done.returncode != 0:
        lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
        raise Missing(f"`{' '.join(command[:3])}`: {' '.join(lines[-2:])[:300]}")
    return done.stdout


def kept(name, wanted, make):
    """A directory of the cache that holds `wanted`; made anew when it holds something else."""
    place = os.path.join(PEERS, name)
    mark = os.path.join(place, ".holds")
    if os.path.exists(mark) and open(mark).read() == wanted:
        return place
    shutil.rmtree(place, ignore_errors=True)
    os.makedirs(place)
    make(place)
    with open(mark, "w") as file:
        file.write(wanted)
    return place


def debian(package, program):
    found = shutil.which(os.path.basename(program))
    if found:
        return found

    def make(place):
        fetch("sh", "-c", f"apt-get -qq update; apt-get download {package} && dpkg -x {package}_*.deb .", cwd=place)

    return os.path.join(kept(package, package, make), program)


def version_of(program, *arguments):
    done = subprocess.run([program, *arguments], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.stdout.strip().splitlines()[0] if done.stdout.strip() else ""


def cargo(directory, target, *arguments):
    environment = dict(os.environ, CARGO_TARGET_DIR=target)
    fetch(os.path.join(ROOT, "scripts", "own-builds"), target)
    fetch("cargo", "build", "--quiet", "--release", "--locked", *arguments, cwd=directory, env=environment)
    return os.path.join(target, "release")


def file_system(path):
    """The kind of the file system that a path is on."""
    best = ("", "")
    with open("/proc/self/mountinfo") as file:
        for line in file:
            fields, rest = line.split(" - ", 1)
            point = fields.split()[4].encode().decode("unicode_escape")
            inside = path == point or path.startswith(point.rstrip("/") + "/")
            if inside and len(point) >= len(best[0]):
                best = (point, rest.split()[0])
    return best[1]


def place_for(wanted):
    candidates = [wanted] if wanted else [tempfile.gettempdir(), "/var/tmp"]
    for candidate in candidates:
        path = os.path.realpath(candidate)
        kind = file_system(path)
        if kind not in MEMORY_FILE_SYSTEMS:
            return path, kind
    sys.exit(f"error: {candidates[-1]} is not on a disk but on {kind}; name another with `--dir`")


class Place:
    """A directory that goes when it is left."""

    def __init__(self, below):
        self.below = below

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="kron-bench-", dir=self.below)
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)


class Table:
    def __init__(self, last=""):
        self.rows = []
        self.last = last

    def add(self, what, measured, other, ratios, goal="", met=None, note="", digits=2):
        middle = statistics.median(ratios)
        show = lambda value: f"{value:,.{digits}f}"
        spread = f"{show(min(ratios))}–{show(max(ratios))}" if len(ratios) > 1 else ""
        verdict = "" if met is None else "met" if met(middle) else "**not met**"
        self.rows.append((what, measured, other, show(middle), spread, goal, verdict, note))

    def print(self):
        say(f"\n| | Kron | beside it | ratio | spread | goal | | {self.last} |")
        say("|---|--:|--:|--:|--:|--:|---|--:|")
        for row in self.rows:
            say("| " + " | ".join(row) + " |")


def median(values):
    return statistics.median(values)


def stop(process):
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
