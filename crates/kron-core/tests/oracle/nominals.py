"""An independent oracle for nominal times.

It tries every wall time of every day and asks the zone database what became of each, which is
slow and hard to get wrong; the engine walks bit sets. It shares nothing with the engine but the
published rules.

    python3 nominals.py vectors > ../data/nominals.jsonl    the frozen file
    python3 nominals.py random SEED COUNT > FILE            patterns for a long comparison

It needs Python 3.11 and a zone database of the engine's version (`pip install tzdata==2026.5`
is 2026e; set PYTHONTZPATH to the empty string so that the machine's own is not used). After a
deliberate change to the file, the hash in `tests/engine/vectors.rs` changes with it.
"""

import calendar
import hashlib
import json
import random
import re
import sys
from datetime import date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

UTC = timezone.utc
DAYS = "SUN MON TUE WED THU FRI SAT".split()
MONTHS = "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split()
NICKNAMES = {
    "@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0", "@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
#        hash name  low   high  last value of `H`, names and the value of the first
FIELDS = {
    "second": (0, 59, 59, [], 0),
    "minute": (0, 59, 59, [], 0),
    "hour": (0, 23, 23, [], 0),
    "dom": (1, 31, 28, [], 0),
    "month": (1, 12, 12, MONTHS, 1),
    "dow": (0, 6, 6, DAYS, 0),
    "year": (1970, 2199, 2199, [], 0),
}


def value(field, text):
    names, base = FIELDS[field][3:]
    return names.index(text.upper()) + base if text.upper() in names else int(text)


def plain(field, text, identity):
    """The values of one item without `L`, `W` or `#`."""
    low, high, hashed_high = FIELDS[field][:3]
    body, _, step = text.partition("/")
    step = int(step) if step else None
    if body.startswith("H"):
        digest = hashlib.sha256(f"{identity}\nH\n{field}".encode()).digest()
        h = int.from_bytes(digest[:8], "big")
        lo, hi = low, hashed_high
        if body != "H":
            lo, hi = (value(field, end) for end in body[2:-1].split("-"))
        if step:
            return set(range(lo + h % step, hi + 1, step))
        return {lo + h % (hi - lo + 1)}
    if body == "*":
        return set(range(low, high + 1, step or 1))
    first, dash, last = body.partition("-")
    first = value(field, first)
    last = value(field, last) if dash else first
    if field == "dow":
        # Sunday closes a week as well as opening one.
        if dash and last == 0 and first > 0:
            last = 7
        return {day % 7 for day in range(first, last + 1, step or 1)}
    return set(range(first, last + 1, step or 1))


def whole(field, text, identity):
    values = set()
    for item in text.split(","):
        values |= plain(field, item, identity)
    return values


def weekday(day):
    return day.isoweekday() % 7


def dom_matches(text, day, identity):
    length = calendar.monthrange(day.year, day.month)[1]
    for item in text.split(","):
        if item == "?":
            return True
        if item == "LW":
            target = max(d for d in range(1, length + 1)
                         if weekday(day.replace(day=d)) not in (0, 6))
        elif item == "L":
            target = length
        elif item.startswith("L-"):
            target = length - int(item[2:])
        elif item.endswith("W"):
            wanted = int(item[:-1])
            if wanted > length:
                continue
            # The working day of the same month with the smallest distance.
            working = [d for d in range(1, length + 1)
                       if weekday(day.replace(day=d)) not in (0, 6)]
            target = min(working, key=lambda d: abs(d - wanted))
        else:
            if day.day in plain("dom", item, identity):
                return True
            continue
        if day.day == target:
            return True
    return False


def dow_matches(text, day, identity):
    length = calendar.monthrange(day.year, day.month)[1]
    for item in text.split(","):
        if item == "?":
            return True
        if "#" in item or re.fullmatch(r"(\d|[A-Za-z]{3})L", item):
            name, _, nth = item.partition("#")
            if not nth:
                name, nth = item[:-1], "L"
            if weekday(day) != value("dow", name) % 7:
                continue
            if (day.day + 7 > length) if nth == "L" else ((day.day + 6) // 7 == int(nth)):
                return True
        elif weekday(day) in plain("dow", item, identity):
            return True
    return False


class Schedule:
    def __init__(self, expression, identity="any"):
        self.identity = identity
        options = dict(re.findall(r"@(tz|dst)\(([^)]*)\)", expression))
        pattern = re.sub(r"\s*@(tz|dst)\([^)]*\)", "", expression).strip()
        fields = NICKNAMES.get(pattern, pattern).split()
        self.zone = ZoneInfo(options.get("tz", "UTC"))
        dst = dict(part.strip().split("=") for part in options.get("dst", "").split(",") if part)
        self.gap = dst.get("gap", "shift")
        if len(fields) == 5:
            fields = ["0", *fields]
        if len(fields) == 6:
            fields = [*fields, "*"]
        second, minute, hour, self.dom, month, self.dow, year = fields
        self.seconds = sorted(whole("second", second, identity))
        self.minutes = sorted(whole("minute", minute, identity))
        self.hours = sorted(whole("hour", hour, identity))
        self.months = whole("month", month, identity)
        self.years = whole("year", year, identity) if year != "*" else None
        self.both = self.dow.startswith("+")
        self.dow = self.dow.removeprefix("+")
        self.either = (
            not self.both and self.dom[0] not in "*?" and self.dow[0] not in "*?"
        )
        self.overlap = dst.get("overlap", "auto")
        if self.overlap == "auto":
            self.overlap = "both" if len(self.hours) == 24 else "first"

    def day_matches(self, day):
        if day.month not in self.months or (self.years and day.year not in self.years):
            return False
        by_dom = dom_matches(self.dom, day, self.identity)
        by_dow = dow_matches(self.dow, day, self.identity)
        return (by_dom or by_dow) if self.either else (by_dom and by_dow)

    def instants(self, wall):
        """The instants at which a wall time counts: none, one or two."""
        passes = [
            (wall - wall.replace(tzinfo=self.zone, fold=fold).utcoffset()).replace(tzinfo=UTC)
            for fold in (0, 1)
        ]
        real = [t for t in passes if t.astimezone(self.zone).replace(tzinfo=None, fold=0) == wall]
        if not real:
            # Read with the offset before the gap, it lies as far behind the gap's end as it
            # was meant to lie behind the gap's beginning.
            return [passes[0]] if self.gap == "shift" else []
        if len(set(real)) == 1:
            return real[:1]
        return {"first": [min(real)], "last": [max(real)], "both": real}[self.overlap]

    def after(self, moment, count, until=None):
        found = []
        day = moment.date() - timedelta(days=3)
        last = until or date(2199, 12, 28)
        while day <= last:
            # Two days more may still bring an earlier instant.
            if len(found) >= count and day > sorted(found)[count - 1].date() + timedelta(days=3):
                break
            if self.day_matches(day):
                for hour in self.hours:
                    for minute in self.minutes:
                        for second in self.seconds:
                            wall = datetime(day.year, day.month, day.day, hour, minute, second)
                            for t in self.instants(wall):
                                if t > moment and t not in found:
                                    found.append(t)
            day += timedelta(days=1)
        return sorted(found)[:count]


def parse_time(text):
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)


def show_time(moment):
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def vectors():
    rows = []

    def row(note, expression, after, count=3, identity=None, ends=False):
        schedule = Schedule(expression, identity or "any")
        found = schedule.after(parse_time(after), count + ends)
        entry = {"note": note, "expression": expression}
        if identity:
            entry["identity"] = identity
        entry["after"] = after
        entry["nominals"] = [show_time(t) for t in found]
        if ends:
            assert len(found) <= count, note
            entry["ends"] = True
        rows.append(entry)

    paris = "@tz(Europe/Paris)"
    spring, autumn = "2026-03-27T12:00:00Z", "2026-10-23T12:00:00Z"
    row("a daily time in the gap is shifted", f"30 2 * * * {paris}", spring)
    row("a daily time in the gap is dropped", f"30 2 * * * {paris} @dst(gap=skip)", spring)
    row("the last second before the gap", f"59 59 1 * * * {paris}", spring)
    row("the gap's first second", f"0 2 * * * {paris}", spring)
    row("the gap's last second", f"59 59 2 * * * {paris}", spring)
    row("the first second behind the gap", f"0 3 * * * {paris}", spring)
    row("a shifted time that meets another is one period", f"30 2,3 * * * {paris}", spring, 6)
    row("shifted times between others", f"*/20 2-3 * * * {paris}", "2026-03-29T00:00:00Z", 6)
    row("hourly through the gap", f"0 * * * * {paris}", "2026-03-28T22:59:59Z", 5)
    row("hourly through the gap, skipping", f"0 * * * * {paris} @dst(gap=skip)",
        "2026-03-28T22:59:59Z", 5)
    row("a repeated time fires the first time", f"30 2 * * * {paris}", autumn)
    for overlap in ("first", "last", "both", "auto"):
        row(f"a repeated daily time, {overlap}", f"30 2 * * * {paris} @dst(overlap={overlap})",
            autumn, 4)
        row(f"every half hour through the fold, {overlap}",
            f"*/30 * * * * {paris} @dst(overlap={overlap})", "2026-10-24T23:30:00Z", 8)
    row("both ends of the repeated hour", f"0,59 2 * * * {paris} @dst(overlap=both)",
        "2026-10-24T12:00:00Z", 5)
    row("the second after the repeated hour", f"0 3 * * * {paris} @dst(overlap=both)",
        "2026-10-24T12:00:00Z", 2)
    row("hours 0-23 are all hours", f"30 0-23 * * * {paris}", "2026-10-24T22:00:00Z", 6)
    row("all hours but one are not", f"30 0-22 * * * {paris}", "2026-10-24T22:00:00Z", 6)

    york = "@tz(America/New_York)"
    row("New York's gap", f"30 2 * * * {york}", "2026-03-07T00:00:00Z")
    row("New York's gap, skipping", f"30 2 * * * {york} @dst(gap=skip)", "2026-03-07T00:00:00Z")
    row("New York's fold, both", f"30 1 * * * {york} @dst(overlap=both)", "2026-10-31T00:00:00Z", 4)
    row("New York's fold, last", f"30 1 * * * {york} @dst(overlap=last)", "2026-10-31T00:00:00Z")
    row("every five minutes into New York's fold", f"*/5 * * * * {york}",
        "2026-11-01T05:50:00Z", 4)

    howe = "@tz(Australia/Lord_Howe)"
    row("a gap of half an hour", f"15 2 * * * {howe}", "2026-10-02T00:00:00Z")
    row("a gap of half an hour, skipping", f"15 2 * * * {howe} @dst(gap=skip)",
        "2026-10-02T00:00:00Z")
    row("a fold of half an hour, both", f"45 1 * * * {howe} @dst(overlap=both)",
        "2026-04-03T00:00:00Z", 4)
    row("quarters through a fold of half an hour", f"*/15 * * * * {howe}",
        "2026-04-04T14:20:00Z", 8)
    row("quarters through a gap of half an hour", f"*/15 * * * * {howe}",
        "2026-10-03T15:00:00Z", 6)
    row("hours through a fold of half an hour", f"0 * * * * {howe}", "2026-04-04T12:30:00Z", 5)

    apia = "@tz(Pacific/Apia)"
    row("a day that never was, shifted onto the next", f"0 3 * * * {apia}",
        "2011-12-28T00:00:00Z", 4)
    row("a day that never was, skipped", f"0 3 * * * {apia} @dst(gap=skip)",
        "2011-12-28T00:00:00Z", 4)
    row("only on the day that never was", f"0 3 30 12 * {apia}", "2010-12-31T00:00:00Z")
    row("only on the day that never was, skipping", f"0 3 30 12 * {apia} @dst(gap=skip)",
        "2010-12-31T00:00:00Z")
    row("Fridays around the day that never was", f"0 12 * * FRI {apia}", "2011-12-20T00:00:00Z", 4)

    row("Casablanca goes back before Ramadan", "30 2 * * * @tz(Africa/Casablanca)",
        "2026-02-13T00:00:00Z", 4)
    row("Casablanca goes back before Ramadan, both",
        "30 2 * * * @tz(Africa/Casablanca) @dst(overlap=both)", "2026-02-13T00:00:00Z", 4)
    row("Casablanca goes forward after Ramadan", "30 2 * * * @tz(Africa/Casablanca)",
        "2026-03-20T00:00:00Z", 4)
    row("Troll's gap of two hours", "30 1,2,3 * * * @tz(Antarctica/Troll)",
        "2026-03-28T12:00:00Z", 5)
    row("Troll's fold of two hours, both", "30 1,2 * * * @tz(Antarctica/Troll) @dst(overlap=both)",
        "2026-10-24T12:00:00Z", 6)
    row("Troll's fold of two hours, hourly", "0 * * * * @tz(Antarctica/Troll)",
        "2026-10-24T22:30:00Z", 6)
    row("Sao Paulo's midnight that never was", "@daily @tz(America/Sao_Paulo)",
        "2018-11-02T12:00:00Z")
    row("Sao Paulo's midnight that never was, skipping",
        "@daily @tz(America/Sao_Paulo) @dst(gap=skip)", "2018-11-02T12:00:00Z")
    row("Sao Paulo's evening twice", "30 23 * * * @tz(America/Sao_Paulo) @dst(overlap=both)",
        "2018-02-16T12:00:00Z", 4)
    row("Kathmandu at +05:45", "0 0 * * * @tz(Asia/Kathmandu)", "2026-03-01T00:00:00Z")
    row("Dublin's negative saving", "30 1 * * * @tz(Europe/Dublin)", "2026-03-27T12:00:00Z")
    row("Paris past the end of the table", f"30 2 * * * {paris}", "2080-03-30T00:00:00Z")
    row("Paris past the end of the table, both", f"30 2 * * * {paris} @dst(overlap=both)",
        "2080-10-26T00:00:00Z", 4)

    row("leap days over 2100", "0 0 29 2 *", "2095-01-01T00:00:00Z", 3)
    row("leap day Mondays", "0 0 29 2 +MON", "2026-01-01T00:00:00Z", 2)
    row("the 31st", "0 0 31 * *", "2026-01-01T00:00:00Z", 7)
    row("the last day", "0 0 L * *", "2027-12-31T12:00:00Z", 4)
    row("three before the last day", "0 0 L-3 * *", "2027-12-31T12:00:00Z", 4)
    row("thirty before the last day: only long months", "0 0 L-30 * *", "2026-01-15T00:00:00Z", 4)
    row("the last working day", "0 0 LW * *", "2026-01-01T00:00:00Z", 12)
    row("the working day nearest the 15th", "0 0 15W * *", "2026-01-01T00:00:00Z", 12)
    row("the 1st is a Saturday: never back a month", "0 0 1W * *", "2026-07-15T00:00:00Z", 4)
    row("the 31st is a Sunday: never into the next month", "0 0 31W * *",
        "2026-04-30T12:00:00Z", 3)
    row("W in a list", "0 0 1W,15W,L * *", "2026-08-01T00:00:00Z", 5)
    row("second Mondays", "0 9 * * MON#2", "2026-01-01T00:00:00Z", 4)
    row("fifth Fridays", "0 9 * * FRI#5", "2026-01-01T00:00:00Z", 4)
    row("last Fridays", "0 9 * * FRI#L", "2026-01-01T00:00:00Z", 4)
    row("last Fridays by number", "0 9 * * 5L", "2026-01-01T00:00:00Z", 4)
    row("last Sundays by 7", "0 9 * * 7L", "2026-01-01T00:00:00Z", 3)
    row("either day field", "0 0 13 * FRI", "2026-02-01T00:00:00Z", 6)
    row("both day fields by +", "0 0 13 * +FRI", "2026-01-01T00:00:00Z", 4)
    row("both day fields by an asterisk", "0 0 */2 * MON", "2026-03-01T00:00:00Z", 5)
    row("both day fields by an asterisk on the right", "0 0 1-7 * */2", "2026-03-01T00:00:00Z", 5)
    row("an asterisk in a list's front", "0 0 *,L * MON", "2026-03-01T00:00:00Z", 3)
    row("a spelled-out range restricts", "0 0 1-31/2 * MON", "2026-03-01T00:00:00Z", 6)
    row("a question mark as day of month", "0 0 ? * TUE", "2026-03-01T00:00:00Z", 3)
    row("a question mark as day of week", "0 0 10 * ?", "2026-03-01T00:00:00Z", 3)
    row("names and a range through Sunday", "0 0 * JAN,jul FRI-SUN", "2026-01-10T00:00:00Z", 4)
    row("0 and 7 are Sunday", "0 0 * * 0,7", "2026-03-01T00:00:00Z", 2)
    row("seconds", "15,45 30 6 * * *", "2026-03-01T06:30:15Z", 3)
    row("steps in seconds", "*/25 59 23 31 12 *", "2026-01-01T00:00:00Z", 4)
    row("a year field", "0 0 0 1 1 * 2027,2030-2031", "2026-06-01T00:00:00Z", 3, ends=True)
    row("a year in the past", "0 0 0 1 1 * 2020", "2026-06-01T00:00:00Z", 0, ends=True)
    row("years by step", "0 0 12 29 2 * */4", "2095-01-01T00:00:00Z", 2)
    for nickname in NICKNAMES:
        row(f"{nickname}", nickname, "2026-03-01T00:00:00Z", 2)
    for identity in ("a", "prod/db-backup", "données"):
        row(f"H of {identity}", "H H * * *", "2026-03-01T00:00:00Z", 2, identity=identity)
        row(f"H in every field of {identity}", "H H H H H *", "2026-03-01T00:00:00Z", 2,
            identity=identity)
        row(f"H as day of week of {identity}", "0 0 * * H", "2026-03-01T00:00:00Z", 2,
            identity=identity)
        row(f"H ranges of {identity}", "H(0-29) H(22-23) * * H(1-5)", "2026-03-01T00:00:00Z", 2,
            identity=identity)
        row(f"H steps of {identity}", "H/15 H(8-17)/4 * * *", "2026-03-01T00:00:00Z", 6,
            identity=identity)
        row(f"H among others of {identity}", "0,H 0 * * *", "2026-03-01T00:00:00Z", 4,
            identity=identity)
    return rows


def random_row(rng, zones):
    def item(low, high):
        first = rng.randint(low, high)
        return rng.choice([
            str(first), f"{first}-{rng.randint(first, high)}", f"*/{rng.randint(2, high)}",
            f"{first},{rng.randint(low, high)}",
            f"{first}-{rng.randint(first, high)}/{rng.randint(1, 7)}",
        ])

    minute = rng.choice(["0", "30", item(0, 59), item(0, 59), "H"])
    hour = rng.choice(["*", item(0, 23), item(0, 3), "2", "1-3", "H", "0-23"])
    dom = rng.choice(["*", "*", "*", "?", item(1, 31), "L", "LW", f"{rng.randint(1, 31)}W",
                      f"L-{rng.randint(1, 30)}", "*/2", "1,L", "H"])
    month = rng.choice(["*", "*", "*", item(1, 12)])
    dow = rng.choice(["*", "*", "*", "?", item(0, 6), f"{rng.choice(DAYS)}#{rng.randint(1, 4)}",
                      f"{rng.choice(DAYS)}#L", "FRI-SUN", "*/2", "+MON-FRI", "5L", "H"])
    expression = f"{minute} {hour} {dom} {month} {dow}"
    if rng.random() < 0.2:
        expression = f"{rng.choice(['0', '59', '*/20', '7,31'])} {expression}"
    expression += f" @tz({rng.choice(zones)})"
    gap = rng.choice(["shift", "skip"])
    expression += f" @dst(gap={gap},overlap={rng.choice(['first', 'last', 'both', 'auto'])})"
    zone = ZoneInfo(re.search(r"@tz\(([^)]*)\)", expression)[1])
    moment = datetime(1975, 1, 1, tzinfo=UTC) + timedelta(seconds=rng.randint(0, 90 * 31536000))
    if rng.random() < 0.8:
        # Near a change of the clock, if the next years have one.
        probe = moment
        for _ in range(400):
            later = probe + timedelta(days=1)
            if later.astimezone(zone).utcoffset() != probe.astimezone(zone).utcoffset():
                moment = probe - timedelta(seconds=rng.randint(0, 90000))
                break
            probe = later
    identity = f"job-{rng.randint(0, 99)}"
    found = Schedule(expression, identity).after(
        moment, 25, until=(moment + timedelta(days=rng.choice([5, 40]))).date())
    # Only those that no unscanned day could come before.
    return {"note": "", "expression": expression, "identity": identity,
            "after": show_time(moment),
            "nominals": [show_time(t) for t in found if t < moment + timedelta(days=3)]}


def main():
    if sys.argv[1:2] == ["random"]:
        import zoneinfo

        rng = random.Random(int(sys.argv[2]))
        zones = sorted(z for z in zoneinfo.available_timezones() if z not in ("localtime", "Factory"))
        rows = (random_row(rng, zones) for _ in range(int(sys.argv[3])))
    else:
        rows = vectors()
    for entry in rows:
        print(json.dumps(entry, ensure_ascii=False))


if __name__ == "__main__":
    main()
