#!/usr/bin/env python3
"""Compares Kron's nominal times with those of croniter.

    croniter_diff.py PATH_TO_EXAMPLE_BINARY [COUNT]

PATH_TO_EXAMPLE_BINARY is the built `next_after` example of kron-core; COUNT (100,000 by default)
is how many (pattern, zone, instant) triples are tried. Needs the packages of requirements.txt.

The generator is seeded, so every run says the same. Where the two differ, a third evaluation, the
plain reference below, must side with Kron, and the difference must be one of those named in
REASONS; anything else is printed and makes the exit code 1. A reason that never occurs is an error
too, since nobody would notice that it no longer applies.
"""

import datetime as dt
import multiprocessing
import random
import subprocess
import sys
import zoneinfo
from collections import Counter

# The zone tables of the pinned package, never the machine's.
zoneinfo.reset_tzpath(to=[])

from croniter import CroniterBadDateError, croniter  # noqa: E402

REASONS = {
    "gap": "Kron moves a wall time that a gap jumped over forward by the gap's length; croniter "
    "takes the gap's end, or drops it when the hour field is a bare `*`.",
    "fold": "Kron runs a repeated wall time once, the first time, unless the hour field allows all "
    "24 hours; croniter runs it in both passes.",
    "special day narrows": "Kron joins two restricted day fields by OR, also when one is `MON#2` or "
    "`15W`; croniter applies these on both sides of its OR, which makes it an AND.",
    "full field": "Kron, as Vixie, calls a day field unrestricted only if its text begins with `*`; "
    "croniter also when it lists every value, as `0-6` does, and then wants both fields.",
}

UTC = dt.timezone.utc
ZONES = [
    "UTC", "Europe/Paris", "Europe/London", "America/New_York", "America/St_Johns",
    "America/Havana", "America/Sao_Paulo", "Australia/Lord_Howe", "Australia/Sydney",
    "Antarctica/Troll", "Asia/Kolkata", "Asia/Kathmandu", "Asia/Tehran", "Asia/Beirut",
    "Pacific/Apia", "Pacific/Chatham",
]
MONTHS = "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split()
WEEKDAYS = "SUN MON TUE WED THU FRI SAT".split()
BOUNDS = {"second": (0, 59), "minute": (0, 59), "hour": (0, 23), "day": (1, 31),
          "month": (1, 12), "weekday": (0, 6)}
FIRST = int(dt.datetime(1975, 1, 1, tzinfo=UTC).timestamp())
LAST = int(dt.datetime(2094, 12, 31, tzinfo=UTC).timestamp())
INSTANTS_PER_PATTERN = 10
CHUNK_PATTERNS = 500


class Field:
    """The text of a field and the values it stands for."""

    def __init__(self, rng, name, every):
        low, high = BOUNDS[name]
        self.name, self.special = name, None
        if rng.random() < every:
            self.text, self.values = "*", set(range(low, high + 1))
            return
        names = {"month": [None] + MONTHS, "weekday": WEEKDAYS}.get(name)
        named = names is not None and rng.random() < 0.4
        show = (lambda value: names[value]) if named else str
        items, self.values = [], set()
        for _ in range(1 if rng.random() < 0.7 else rng.randint(2, 4)):
            kind = rng.random()
            if kind < 0.5:
                value = rng.randint(low, high)
                items.append(show(value))
                self.values.add(value)
            elif kind < 0.7:
                step = rng.randint(2, min(high - low, 30))
                items.append(f"*/{step}")
                self.values |= set(range(low, high + 1, step))
            else:
                start = rng.randint(low, high - 1)
                end = rng.randint(start + 1, high)
                step = rng.randint(1, end - start) if rng.random() < 0.4 else 1
                items.append(f"{show(start)}-{show(end)}" + (f"/{step}" if step > 1 else ""))
                self.values |= set(range(start, end + 1, step))
        self.text = ",".join(items)


class Pattern:
    """A pattern in both dialects, and what it means."""

    def __init__(self, rng):
        self.second = Field(rng, "second", 0.02) if rng.random() < 0.2 else None
        self.minute = Field(rng, "minute", 0.12)
        self.hour = Field(rng, "hour", 0.35)
        self.day = Field(rng, "day", 0.45)
        self.month = Field(rng, "month", 0.65)
        self.weekday = Field(rng, "weekday", 0.5)
        if rng.random() < 0.07:
            self.day.special, self.day.text, self.day.values = "last", "L", set()
        elif rng.random() < 0.05:
            self.day.special = ("nearest", rng.randint(1, 28))
            self.day.text, self.day.values = f"{self.day.special[1]}W", set()
        weekday_croniter = self.weekday.text
        if rng.random() < 0.1:
            number, nth = rng.randint(0, 6), rng.randint(1, 6)
            self.weekday.special, self.weekday.values = (number, nth), set()
            self.weekday.text = f"{number}#{nth if nth < 6 else 'L'}"
            weekday_croniter = f"{number}#{nth}" if nth < 6 else f"L{number}"
        both = self.day.text != "*" and self.weekday.text != "*"
        special = self.weekday.special or self.day.special
        self.day_or = not (both and rng.random() < (0.8 if special else 0.2))
        stars = self.day.text[0] == "*" or self.weekday.text[0] == "*"
        self.either = self.day_or and both and not stars
        head = [self.second.text] if self.second else []
        head += [self.minute.text, self.hour.text, self.day.text, self.month.text]
        plus = "" if self.day_or else "+"
        self.kron = " ".join(head + [plus + self.weekday.text])
        self.croniter = " ".join(head + [weekday_croniter])

    def iterator(self, start):
        # With `implement_cron_bug` croniter, too, lets `*/2` narrow the other day field.
        return croniter(self.croniter, start, ret_type=float, day_or=self.day_or,
                        implement_cron_bug=True, second_at_beginning=self.second is not None,
                        expand_from_start_time=False)

    def times(self):
        seconds = sorted(self.second.values) if self.second else [0]
        return [(h, m, s) for h in sorted(self.hour.values)
                for m in sorted(self.minute.values) for s in seconds]

    def matches(self, date):
        if date.month not in self.month.values:
            return False
        first_of_next = (date.replace(day=28) + dt.timedelta(days=4)).replace(day=1)
        last = (first_of_next - dt.timedelta(days=1)).day
        weekday = date.isoweekday() % 7
        by_day = date.day in self.day.values
        if self.day.special == "last":
            by_day = date.day == last
        elif self.day.special:
            by_day = date.day == nearest_weekday(date, self.day.special[1], last)
        by_weekday = weekday in self.weekday.values
        if self.weekday.special:
            number, nth = self.weekday.special
            in_place = date.day + 7 > last if nth == 6 else (date.day + 6) // 7 == nth
            by_weekday = weekday == number and in_place
        return (by_day or by_weekday) if self.either else (by_day and by_weekday)


def nearest_weekday(date, day, last):
    for shift in (0, -1, 1, -2, 2):
        if 1 <= day + shift <= last and date.replace(day=day + shift).isoweekday() <= 5:
            return day + shift
    raise AssertionError("every month has weekdays")


def instants(wall, zone, twice):
    """The instants a wall time stands for, as Kron treats gaps and folds."""
    first = wall.replace(tzinfo=zone)
    second = first.replace(fold=1)
    a, b = (int(t.astimezone(UTC).timestamp()) for t in (first, second))
    if a == b:
        return [a]
    if a > b:
        # A gap: read with the offset from before it, the time lands behind it by its length.
        return [a]
    return [a, b] if twice else [a]


def reference(pattern, zone, t):
    """The first instant after `t`, looking at every wall time in turn."""
    twice = len(pattern.hour.values) == 24
    date = dt.datetime.fromtimestamp(t, zone).date() - dt.timedelta(days=2)
    best, stop = None, None
    times = pattern.times()
    while date.year < 2600 and (stop is None or date <= stop):
        if pattern.matches(date):
            for h, m, s in times:
                wall = dt.datetime(date.year, date.month, date.day, h, m, s)
                for instant in instants(wall, zone, twice):
                    if instant > t and (best is None or instant < best):
                        best = instant
            if best is not None and stop is None:
                stop = date + dt.timedelta(days=3)
        date += dt.timedelta(days=1)
    return best


def changes(zone):
    """Instants at which the zone's offset changes, with the change in seconds."""
    offset = lambda t: int(dt.datetime.fromtimestamp(t, zone).utcoffset().total_seconds())
    found, step = [], 7 * 86_400
    before, t = offset(FIRST), FIRST
    while t < LAST + 366 * 86_400:
        after = offset(t + step)
        if after != before:
            low, high = t, t + step
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if offset(middle) == before else (low, middle)
            found.append((high, after - before))
        before, t = after, t + step
    return found


def random_instant(rng, moved):
    kind = rng.random()
    if kind < 0.5 and moved:
        near = rng.choice([2, 5_400, 10_800, 2 * 86_400])
        t = rng.choice(moved)[0] + rng.randint(-near, near)
    elif kind < 0.7:
        month = dt.datetime(rng.randint(1975, 2094), rng.randint(1, 12), 1, tzinfo=UTC)
        t = int(month.timestamp()) + rng.randint(-86_400, 86_400)
    elif kind < 0.8:
        march = dt.datetime(rng.randint(1975, 2094), 3, 1, tzinfo=UTC)
        t = int(march.timestamp()) - rng.randint(0, 2 * 86_400)
    else:
        t = rng.randint(FIRST, LAST)
    return min(max(t, FIRST), LAST)


def text(t):
    if t is None:
        return "never"
    return dt.datetime.fromtimestamp(t, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def reason(pattern, t, kron, theirs, moved):
    nearest = pattern.day.special not in (None, "last")
    if pattern.either and (pattern.weekday.special or nearest):
        return "special day narrows"
    full = len(pattern.weekday.values) == 7 or len(pattern.day.values) == 31
    if pattern.either and full:
        return "full field"
    if theirs is None or kron is None:
        return None
    # Differences lie within a day of a change between the question and the later answer.
    later = max(kron, theirs)
    near = [(at, by) for at, by in moved if t - 86_400 <= at <= later + 86_400]
    for at, by in near:
        if by > 0 and any(at <= answer <= at + by for answer in (kron, theirs)):
            return "gap"
    for at, by in near:
        if by < 0 and any(at + by <= answer < at - by for answer in (t, kron, theirs)):
            return "fold"
    return None


def compare(job):
    """One chunk: its counts and the differences nobody can explain."""
    binary, seed, triples = job
    rng = random.Random(seed)
    zones = {}
    asked, lines = [], []
    while len(asked) < triples:
        pattern, name = Pattern(rng), rng.choice(ZONES)
        if name not in zones:
            zone = zoneinfo.ZoneInfo(name)
            zones[name] = (zone, changes(zone))
        for _ in range(min(INSTANTS_PER_PATTERN, triples - len(asked))):
            t = random_instant(rng, zones[name][1])
            asked.append((pattern, name, t))
            lines.append(f"{pattern.kron}\t{name}\t{text(t)}\n")
    ran = subprocess.run([binary], input="".join(lines), capture_output=True, text=True, check=True)
    answers = ran.stdout.splitlines()
    if len(answers) != len(asked):
        raise SystemExit(f"{len(asked)} questions, {len(answers)} answers")

    counts, unexplained, current = Counter(), [], None
    for (pattern, name, t), kron_text in zip(asked, answers):
        zone, moved = zones[name]
        start = dt.datetime.fromtimestamp(t, zone)
        try:
            if current is None or current[0] is not pattern:
                current = (pattern, pattern.iterator(start))
            theirs = int(current[1].get_next(float, start_time=start))
        except CroniterBadDateError:
            theirs = None
        if kron_text == text(theirs):
            counts["agreed"] += 1
            continue
        kron = None
        if kron_text != "never":
            if kron_text.startswith("error"):
                unexplained.append((pattern.kron, name, text(t), kron_text, text(theirs), ""))
                continue
            parsed = dt.datetime.strptime(kron_text, "%Y-%m-%dT%H:%M:%SZ")
            kron = int(parsed.replace(tzinfo=UTC).timestamp())
        why = reason(pattern, t, kron, theirs, moved)
        expected = reference(pattern, zone, t)
        if why is None or expected != kron:
            unexplained.append(
                (pattern.kron, name, text(t), kron_text, text(theirs), text(expected)))
        else:
            counts[why] += 1
    return counts, unexplained


def main():
    if len(sys.argv) not in (2, 3):
        raise SystemExit(__doc__)
    binary = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) == 3 else 100_000
    chunk = CHUNK_PATTERNS * INSTANTS_PER_PATTERN
    jobs = [(binary, 1_000 + i, min(chunk, count - i * chunk))
            for i in range((count + chunk - 1) // chunk)]
    counts, unexplained = Counter(), []
    with multiprocessing.Pool(2) as pool:
        for some, others in pool.imap(compare, jobs):
            counts += some
            unexplained += others
    print(f"{count} triples, {counts['agreed']} agreed")
    for name, why in REASONS.items():
        print(f"  {name}: {counts[name]}. {why}")
    for pattern, zone, t, kron, theirs, expected in unexplained[:20]:
        print(f"unexplained: `{pattern}` in {zone} after {t}: Kron {kron}, croniter {theirs}, "
              f"reference {expected}")
    if unexplained:
        raise SystemExit(f"{len(unexplained)} unexplained differences")
    unused = [name for name in REASONS if count >= 100_000 and not counts[name]]
    if unused:
        raise SystemExit(f"reasons that never occurred: {', '.join(unused)}")


if __name__ == "__main__":
    main()
