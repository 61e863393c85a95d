"""One line for each thing that was looked at, and what did not hold."""

failures = []


class Failure(Exception):
    """What keeps a test from going on."""


def say(text):
    print(f"\n-- {text}", flush=True)


def check(text, holds, found=""):
    if holds:
        print(f"  ok    {text}", flush=True)
    else:
        failures.append(text)
        print(f"  FAIL  {text}\n        {found}", flush=True)
