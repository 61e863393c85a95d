"""An independent oracle for decisions.

It is written from the published definition of a decision, not from the engine, and shares
nothing with it but that text. It writes the requests of `tests/data/decisions.jsonl` together
with the decisions it expects, so that the engine is compared with a second opinion and not with
its own past.

    python3 decide.py vectors > ../data/decisions.jsonl     the frozen file
    python3 decide.py random SEED COUNT > FILE              requests for a long comparison

It needs Python 3.11 and a zone database of the engine's version (`pip install tzdata==2026.5`
is 2026e; set PYTHONTZPATH to the empty string so that the machine's own is not used). Python's
mathematical functions come from the platform: a last bit may differ from the engine's, which can
in rare cases, likeliest in long windows, move a candidate by one second. No frozen vector differs.
How defaults and constraints are spelled in a decision is the engine's choice, which the vectors
freeze but this oracle did not find by itself. After a deliberate change to the file, the hash in
`tests/engine/vectors.rs` changes with it.
"""

import hashlib
import json
import math
import random
import re
import sys
from datetime import date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

TZDB = "2026e"
ATTEMPTS = 64
BELOW_ONE = math.nextafter(1.0, 0.0)
MASK = (1 << 64) - 1
WEEKDAYS = ["MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"]
MONTHS = "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split()


def parse_time(text):
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)


def show_time(moment):
    moment = moment.astimezone(timezone.utc)
    return f"{moment.year:04}-{moment.month:02}-{moment.day:02}T{moment:%H:%M:%S}Z"


UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}


def parse_duration(text):
    if text == "0":
        return 0
    return sum(int(n) * UNITS[u] for n, u in re.findall(r"(\d+)([dhms])", text))


def show_duration(seconds):
    if seconds == 0:
        return "0s"
    text = ""
    for unit, size in UNITS.items():
        if seconds >= size:
            text += f"{seconds // size}{unit}"
            seconds %= size
    return text


# The normal distribution.


def phi(t):
    return math.erfc(-t / math.sqrt(2.0)) / 2.0


def horner(coefficients, r):
    value = 0.0
    for c in reversed(coefficients):
        value = value * r + c
    return value


# Wichura 1988, AS 241, routine PPND16: numerators and denominators of the three pieces.
CENTRE = (
    [3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
     1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
     3.3430575583588128105e4, 2.5090809287301226727e3],
    [1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3,
     2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4,
     5.2264952788528545610e3],
)
MIDDLE = (
    [1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0,
     3.64784832476320460504e0, 1.27045825245236838258e0, 2.41780725177450611770e-1,
     2.27238449892691845833e-2, 7.74545014278341407640e-4],
    [1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
     1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4,
     1.05075007164441684324e-9],
)
TAIL = (
    [6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0,
     2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
     2.71155556874348757815e-5, 2.01033439929228813265e-7],
    [1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
     7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7,
     2.04426310338993978564e-15],
)


def phi_inverse(p):
    q = p - 0.5
    if abs(q) <= 0.425:
        r = 0.180625 - q * q
        return q * horner(CENTRE[0], r) / horner(CENTRE[1], r)
    r = p if q < 0 else 1.0 - p
    if r <= 0.0:
        return -math.inf if q < 0 else math.inf
    r = math.sqrt(-math.log(r))
    if r <= 5.0:
        r -= 1.6
        value = horner(MIDDLE[0], r) / horner(MIDDLE[1], r)
    else:
        r -= 5.0
        value = horner(TAIL[0], r) / horner(TAIL[1], r)
    return -value if q < 0 else value


def position(name, params, mode, width, u):
    if name == "uniform":
        return u
    if name == "skewEarly":
        return math.pow(u, float(params["shape"]))
    if name == "skewLate":
        return 1.0 - math.pow(1.0 - u, float(params["shape"]))
    if name == "exponential":
        rate = float(params["lambda"])
        early = -math.log1p(u * math.expm1(-rate)) / rate
        return early if params["dir"] == "early" else 1.0 - early
    nominal = {"after": 0, "around": (width + 1) // 2, "before": width}[mode]
    mean = {"nominal": float(nominal), "start": 0.0, "mid": width / 2.0, "end": float(width)}
    m = mean[params["mu"]]
    sigma = params["sigma"]
    s = width / 6.0 if sigma == "W/6" else float(parse_duration(sigma))
    a = phi(-m / s)
    b = phi((width - m) / s)
    return (m + s * phi_inverse(a + u * (b - a))) / width


def complete(record, mode, width):
    """The distribution with defaults filled in, as a decision shows it."""
    name = record["name"]
    params = dict(record.get("params") or {})
    if name in ("skewEarly", "skewLate"):
        params.setdefault("shape", 2)
    if name == "exponential":
        params.setdefault("lambda", 1)
        params.setdefault("dir", "early")
    if name == "normal":
        params.setdefault("mu", "nominal" if mode == "around" else "mid")
        # A default that is no whole number of seconds, or less than the one second that sigma
        # must have, cannot be written as a duration that a request may carry.
        whole = width > 0 and width % 6 == 0
        params.setdefault("sigma", show_duration(width // 6) if whole else "W/6")
        if params["sigma"] != "W/6":
            params["sigma"] = show_duration(parse_duration(params["sigma"]))
    for key in ("shape", "lambda"):
        if key in params:
            number = float(params[key])
            params[key] = int(number) if number == int(number) else number
    return {"name": name, "params": params}


# Constraints.


def clauses(value):
    if value is None:
        return []
    if isinstance(value, str):
        value = [value]
    return [c.strip() for text in value for c in text.split(";") if c.strip()]


def number(text, names, base):
    text = text.strip().upper()
    return names.index(text) + base if text in names else int(text)


def in_list(text, value, names, base):
    for item in text.split(","):
        ends = [number(end, names, base) for end in item.split("-")]
        first, last = ends[0], ends[-1]
        if (first <= value <= last) if first <= last else (value >= first or value <= last):
            return True
    return False


def in_weekdays(text, weekday):
    """Numbers count from Sunday, which is 0 and 7; `weekday` is 1 to 7 from Monday."""
    for item in text.split(","):
        ends = [number(end, WEEKDAYS, 1) for end in item.split("-")]
        first, last = ends[0], ends[-1]
        if last < first:
            last += 7
        if weekday % 7 in {day % 7 for day in range(first, last + 1)}:
            return True
    return False


def minutes_of(text):
    hours, minutes = text.strip().split(":")
    return int(hours) * 60 + int(minutes)


def matches(kind, text, wall):
    if kind == "hours":
        return in_list(text, wall.hour, [], 0)
    if kind == "months":
        return in_list(text, wall.month, MONTHS, 1)
    if kind == "dom":
        return in_list(text, wall.day, [], 0)
    if kind == "dow":
        return in_weekdays(text, wall.isoweekday())
    if kind == "between":
        minute = wall.hour * 60 + wall.minute
        for item in text.split(","):
            first, last = map(minutes_of, item.split("-"))
            if (first <= minute <= last) if first <= last else (minute >= first or minute <= last):
                return True
        return False
    for item in text.split(","):
        first, _, last = item.partition("..")
        if date.fromisoformat(first) <= wall.date() <= date.fromisoformat(last or first):
            return True
    return False


def allowed(constraints, wall):
    kinds = {}
    for clause in clauses(constraints.get("only")):
        kind, _, text = clause.partition("=")
        kind, text = kind.strip(), text.strip()
        found = matches(kind, text, wall)
        kind = "date" if kind == "dates" else kind
        kinds[kind] = kinds.get(kind, False) or found
    if not all(kinds.values()):
        return False
    for clause in clauses(constraints.get("avoid")):
        kind, _, text = clause.partition("=")
        if matches(kind.strip(), text.strip(), wall):
            return False
    return True


def decide(request, applied=None):
    """The decision; `applied` is the canonical form of the constraints, worked out by hand."""
    nominal = parse_time(request["nominal_time"])
    zone_name = request.get("timezone", "UTC")
    zone = ZoneInfo(zone_name)
    mode = request.get("window_mode", "after")
    width = parse_duration(request.get("window_duration", "0s"))
    lead = {"after": 0, "around": -(-width // 2), "before": width}[mode]
    start = nominal - timedelta(seconds=lead)
    distribution = complete(request.get("distribution", {"name": "uniform"}), mode, width)
    strategy = request.get("seed_strategy", "stable")
    salt = request.get("salt", "")
    wall = nominal.astimezone(zone)
    year, week, _ = wall.isocalendar()
    period_id = show_time(nominal)
    key = {
        "stable": period_id,
        "daily": f"{wall.year:04}-{wall.month:02}-{wall.day:02}",
        "weekly": f"{year:04}-W{week:02}",
        "fixed": "fixed",
    }[strategy]
    digest = hashlib.sha256(f"{request['identity']}\n{key}\n{salt}".encode())
    state = int.from_bytes(digest.digest()[:8], "big")
    constraints = request.get("constraints", {})
    chosen, attempts = None, 0
    if width == 0:
        if allowed(constraints, wall):
            chosen = nominal
    else:
        while chosen is None and attempts < ATTEMPTS:
            attempts += 1
            state = (state + 0x9E3779B97F4A7C15) & MASK
            z = state
            z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
            z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
            u = ((z ^ (z >> 31)) >> 11) / 2.0**53
            x = position(distribution["name"], distribution["params"], mode, width, u)
            x = min(max(x, 0.0), BELOW_ONE)
            offset = min(math.floor(x * (width + 1)), width)
            candidate = start + timedelta(seconds=offset)
            if allowed(constraints, candidate.astimezone(zone)):
                chosen = candidate
    return {
        "period_id": period_id,
        "nominal_time": period_id,
        "window_start": show_time(start),
        "window_end": show_time(start + timedelta(seconds=width)),
        "chosen_time": chosen and show_time(chosen),
        "unschedulable": chosen is None,
        "reason": None if chosen else "no candidate accepted within MaxAttempts",
        "timezone": zone_name,
        "distribution": distribution,
        "seed_strategy": strategy,
        "salt": salt,
        "period_key": key,
        "seed_hash": digest.hexdigest(),
        "attempts": attempts,
        "constraints_applied": applied or {"only": [], "avoid": []},
        "tzdb": TZDB,
    }


# The frozen vectors.


def vectors():
    rows = []

    def row(note, only=None, avoid=None, **request):
        request.setdefault("identity", "prod/db-backup")
        request.setdefault("nominal_time", "2026-03-01T00:00:00Z")
        applied = None
        if only or avoid:
            # Each side is a list of (as written, canonical).
            sides = {"only": only or [], "avoid": avoid or []}
            request["constraints"] = {k: [w for w, _ in v] for k, v in sides.items() if v}
            applied = {k: [c for _, c in v if c] for k, v in sides.items()}
        rows.append((note, request, decide(request, applied)))

    def spread(name, window="3h", mode="after", **params):
        record = {"name": name, "params": params} if params else {"name": name}
        return {"distribution": record, "window_duration": window, "window_mode": mode}

    row("golden: uniform over three hours", salt="backup", **spread("uniform"),
        timezone="UTC", seed_strategy="stable")
    row("golden: skewLate 2.5 around ninety minutes", identity="msgs/paris", salt="msgs",
        nominal_time="2026-03-02T09:00:00Z", timezone="Europe/Paris",
        **spread("skewLate", "90m", "around", shape=2.5), seed_strategy="stable")

    row("everything by default: the nominal time")
    row("an identity that is not ASCII", identity="données/été", salt="日本", **spread("uniform"))
    row("an identity with blanks at its ends", identity=" job ", salt=" ", **spread("uniform"))
    row("composed é, which differs from decomposed", identity="é", **spread("uniform"))
    row("decomposed é, which differs from composed", identity="e\u0301", **spread("uniform"))
    row("a salt with a percent sign is literal", salt="%H-%m-%%", **spread("uniform"))

    for mode in ("after", "around", "before"):
        for window in ("0s", "1s", "2s", "59s", "1h", "1h1s", "366d"):
            row(f"{mode} {window}", **spread("uniform", window, mode))
    row("around an odd length across a year's end", nominal_time="2027-01-01T00:00:00Z",
        **spread("uniform", "25h1s", "around"))
    row("before a leap day's midnight", nominal_time="2028-03-01T00:00:00Z",
        **spread("uniform", "1d", "before"))
    row("a nominal time before 1970", nominal_time="1969-12-31T23:59:59Z",
        **spread("uniform", "1h", "around"))
    row("a nominal time far ahead", nominal_time="2199-12-31T12:00:00Z", **spread("uniform"))

    for name in ("skewEarly", "skewLate"):
        row(f"{name} by default", **spread(name))
        for shape in (0.01, 0.5, 1, 2, "2.0", 3.75, 100, "100"):
            row(f"{name} shape {shape!r}", **spread(name, shape=shape))
    for direction in ("early", "late"):
        for rate in (0.01, 1, "2.5", 37, 100):
            row(f"exponential {direction} lambda {rate!r}",
                **spread("exponential", **{"lambda": rate, "dir": direction}))
    row("exponential by default", **spread("exponential"))
    row("exponential with only a direction", **spread("exponential", dir="late"))
    row("exponential over a second", **spread("exponential", "1s"))

    for mode in ("after", "around", "before"):
        row(f"normal by default, {mode}", **spread("normal", "3h", mode))
        row(f"normal by default, {mode}, odd length", **spread("normal", "1h1s", mode))
        for mu in ("nominal", "start", "mid", "end"):
            row(f"normal {mu}, {mode}", **spread("normal", "1h1s", mode, mu=mu, sigma="5m"))
    row("normal by default without a window", **spread("normal", "0s"))
    row("normal with the smallest sigma", **spread("normal", "3h", mu="mid", sigma="1s"))
    row("normal with the largest sigma", **spread("normal", "3h", mu="end", sigma="30h"))
    row("normal at a far end with a narrow sigma", **spread("normal", "366d", mu="end", sigma="1s"))
    row("normal over one second", **spread("normal", "1s"))
    row("normal with a sigma written otherwise", **spread("normal", mu="start", sigma="90m"))

    midnight = [
        ("Asia/Tokyo", "2026-12-31T15:00:00Z", "the new year begins"),
        ("Asia/Tokyo", "2026-12-31T14:59:59Z", "the old year's last second"),
        ("Pacific/Kiritimati", "2027-01-03T10:00:00Z", "ISO week 1 begins, 14 hours ahead"),
        ("Pacific/Kiritimati", "2027-01-03T09:59:59Z", "ISO week 53 of 2026 ends"),
        ("America/New_York", "2027-01-01T04:30:00Z", "still 2026"),
        ("America/New_York", "2025-12-29T05:00:00Z", "ISO 2026 begins in December 2025"),
        ("Europe/Paris", "2026-03-29T00:30:00Z", "the day of a gap"),
        ("Asia/Kathmandu", "2026-03-01T18:15:00Z", "midnight at +05:45"),
        ("America/St_Johns", "2026-03-02T03:29:59Z", "the last second at -03:30"),
        ("Pacific/Apia", "2011-12-30T10:00:00Z", "the day after the skipped day"),
    ]
    for zone, nominal, what in midnight:
        for strategy in ("daily", "weekly"):
            row(f"{strategy} in {zone}: {what}", nominal_time=nominal, timezone=zone,
                seed_strategy=strategy, salt="s", **spread("uniform", "2h"))
    row("fixed ignores the period", seed_strategy="fixed", **spread("uniform"))
    row("fixed, another period, the same offset", seed_strategy="fixed",
        nominal_time="2026-07-14T03:00:00Z", **spread("uniform"))
    row("stable in a zone is still UTC", timezone="Asia/Tokyo", **spread("uniform"))
    row("a link is recorded as written", timezone="US/Eastern", seed_strategy="daily",
        **spread("uniform"))

    kinds = [
        ("hours=22-4", "hours=22-4"),
        ("hours=3,2,1", "hours=1-3"),
        ("dow=fri-mon", "dow=FRI-MON"),
        ("dow=0,6", "dow=SAT,SUN"),
        ("months=NOV-2", "months=NOV-FEB"),
        ("dom=1,28-31", "dom=1,28-31"),
        ("between=22:30-04:00", "between=22:30-04:00"),
        ("between=09:00-09:00", "between=09:00-09:00"),
        ("date=2026-03-03", "date=2026-03-03"),
        ("dates=2026-03-02..2026-03-04", "dates=2026-03-02..2026-03-04"),
    ]
    for index, (written, canonical) in enumerate(kinds):
        for side in ("only", "avoid"):
            row(f"{side} {written}", identity=f"constrained/{index}", timezone="Europe/Paris",
                **{side: [(written, canonical)]}, **spread("uniform", "4d"))
    row("two kinds must both match", timezone="America/New_York",
        only=[("between=09:00-16:59", "between=09:00-16:59"), ("dow=MON-FRI", "dow=MON-FRI")],
        **spread("uniform", "7d"))
    row("one kind twice is an alternative; both sides", timezone="Europe/Paris",
        only=[("hours=9", "hours=9,17"), ("hours=17", None)],
        avoid=[("dow=SUN", "dow=SUN")], **spread("uniform", "7d"))
    row("date and dates are one kind", timezone="Asia/Tokyo",
        only=[("date=2026-03-02", "date=2026-03-02"),
              ("dates=2026-03-05..2026-03-06", "dates=2026-03-05..2026-03-06")],
        **spread("uniform", "7d"))
    row("constraints in the wall time of a gap's day", timezone="Europe/Paris",
        nominal_time="2026-03-28T23:00:00Z", only=[("hours=2-3", "hours=2,3")],
        **spread("uniform", "6h"))
    row("constraints in both passes of a repeated hour", timezone="Europe/Paris",
        nominal_time="2026-10-24T22:00:00Z", only=[("between=02:00-02:59", "between=02:00-02:59")],
        **spread("uniform", "6h"))
    row("unschedulable: an hour outside the window", only=[("hours=12", "hours=12")],
        **spread("uniform"))
    row("unschedulable: skewed away from what is allowed", only=[("between=02:59-02:59",
        "between=02:59-02:59")], **spread("skewEarly", shape=100))
    row("unschedulable: everything avoided", avoid=[("dow=0-6", "dow=MON-SUN")],
        **spread("normal", "3h", "around"))
    row("no window, refused: no attempt", only=[("hours=12", "hours=12")])
    row("no window, allowed: no attempt", only=[("hours=0", "hours=0")])
    row("no window, avoided in its zone", timezone="Asia/Kathmandu",
        avoid=[("between=05:45-05:45", "between=05:45-05:45")])
    row("only in a half-hour shift's zone", timezone="Australia/Lord_Howe",
        nominal_time="2026-04-04T14:00:00Z",
        only=[("between=01:30-01:59", "between=01:30-01:59")], **spread("uniform", "3h"))
    return rows


# Requests at random.


def random_request(rng, zones):
    def duration(low, high):
        return f"{rng.randint(low, high)}s"

    width = rng.choice([0, 1, 2, rng.randint(3, 90), rng.randint(60, 7200),
                        rng.randint(3600, 172800), rng.randint(86400, 366 * 86400)])
    name = rng.choice(["uniform", "skewEarly", "skewLate", "exponential", "normal"])
    params = {}
    knob = lambda: rng.choice([0.01, 100, round(10 ** rng.uniform(-2, 2), 3), rng.randint(1, 100)])
    if name.startswith("skew") and rng.random() < 0.8:
        params["shape"] = knob()
    if name == "exponential":
        if rng.random() < 0.8:
            params["lambda"] = knob()
        if rng.random() < 0.8:
            params["dir"] = rng.choice(["early", "late"])
    if name == "normal" and width:
        if rng.random() < 0.8:
            params["mu"] = rng.choice(["nominal", "start", "mid", "end"])
        if rng.random() < 0.7:
            params["sigma"] = duration(1, rng.choice([10 * width, max(1, width // 3)]))
    moment = datetime(1990, 1, 1, tzinfo=timezone.utc)
    # Not beyond 2037, where Python trusts a zone's rule and a reader its table.
    moment += timedelta(seconds=rng.randint(0, 47 * 365 * 86400))
    if rng.random() < 0.3:
        moment = moment.replace(minute=0, second=0)
    request = {
        "identity": rng.choice(["a", "prod/db", "é/ü", "x" * 100]) + str(rng.randint(0, 10**6)),
        "nominal_time": show_time(moment),
        "timezone": rng.choice(zones),
        "window_mode": rng.choice(["after", "around", "before"]),
        "window_duration": f"{width}s" if width else "0",
        "distribution": {"name": name, "params": params},
        "seed_strategy": rng.choice(["stable", "daily", "weekly", "fixed"]),
        "salt": rng.choice(["", "s", "salt %H"]),
    }

    def clause():
        day = lambda: moment.date() + timedelta(days=rng.randint(-3, 3))
        wrap = lambda low, high: f"{rng.randint(low, high)}-{rng.randint(low, high)}"
        kind = rng.choice(["hours", "dow", "months", "dom", "between", "date", "dates"])
        if kind == "hours":
            return "hours=" + rng.choice([wrap(0, 23), f"{rng.randint(0, 23)},{wrap(0, 23)}"])
        if kind == "dow":
            one = lambda: rng.choice(WEEKDAYS)
            return "dow=" + rng.choice([f"{one()}-{one()}", f"{one()},{rng.randint(0, 7)}"])
        if kind == "months":
            return f"months={rng.choice(MONTHS)}-{rng.randint(1, 12)}"
        if kind == "dom":
            first = rng.randint(1, 31)
            return f"dom={first}-{rng.randint(first, 31)}"
        if kind == "between":
            at = lambda: f"{rng.randint(0, 23):02}:{rng.randint(0, 59):02}"
            return f"between={at()}-{at()}"
        first = day()
        if kind == "date":
            return f"date={first}"
        return f"dates={first}..{first + timedelta(days=rng.randint(0, 3))}"

    if rng.random() < 0.5:
        request["constraints"] = {}
        for side in ("only", "avoid"):
            if rng.random() < 0.6:
                request["constraints"][side] = [clause() for _ in range(rng.randint(1, 2))]
    return request


def main():
    out = lambda value: print(json.dumps(value, ensure_ascii=False))
    if sys.argv[1:2] == ["random"]:
        import zoneinfo

        rng = random.Random(int(sys.argv[2]))
        zones = sorted(z for z in zoneinfo.available_timezones() if z not in ("localtime", "Factory"))
        for _ in range(int(sys.argv[3])):
            request = random_request(rng, zones)
            out({"request": request, "decision": decide(request)})
    else:
        for note, request, decision in vectors():
            out({"note": note, "request": request, "decision": decision})


if __name__ == "__main__":
    main()
