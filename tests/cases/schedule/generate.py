"""Writes croniter.txt: cron patterns with their next five times, as croniter (PyPI, 6.2.4) and zoneinfo have them.

Run once, by hand: `pip install croniter tzdata && python generate.py > croniter.txt`. The seed makes it repeatable.

A row is `ZONE | PATTERN | AFTER | FIRST +SECONDS +SECONDS …`, or `never` where no day fits. In zones whose clocks change, croniter has rules of its own
for readings of the clock that come twice or not at all. So each row is made twice: by croniter with the zone, and by
croniter on a bare clock whose readings then get their instants from zoneinfo by the rule of this project (left out: at the
change; twice: the first time). A range of one number, such as `16-16`, is read by croniter as the whole range; the second
making says `16`. Where day of the month and weekday are both restricted, either is enough; croniter finds nothing if no
month has the day, and the second making asks for the two one by one. Where both agree, the row stands in the first part. Where they differ, it stands in the
second part with both answers and the reason.
"""

import heapq
import random
import re
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

from croniter import CroniterBadDateError, croniter

SEED = 20261116
COUNT = 5
ONE_NUMBER = re.compile(r"\b(\d+)-\1(?:/\d+)?\b")
YEARS = [2024, 2025, 2026, 2027, 2028, 2096]
ZONES = ["Europe/Paris", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "Asia/Kolkata", "Asia/Tokyo"]
MONTHS = "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split()
DAYS = "SUN MON TUE WED THU FRI SAT".split()
# Instants shortly before clocks change, and one far from any change.
CHANGES = {
    "Europe/Paris": ["2026-03-28T20:00", "2026-10-24T20:00", "2026-10-25T00:10", "2027-03-28T00:59"],
    "America/New_York": ["2026-03-08T03:00", "2026-11-01T03:00", "2026-11-01T05:20", "2027-03-14T06:59"],
    "Australia/Lord_Howe": ["2026-04-04T10:00", "2026-10-03T12:00", "2026-10-03T15:29"],
    "America/Santiago": ["2026-04-04T22:00", "2026-09-06T00:00", "2026-09-06T03:30"],
    "Asia/Kolkata": ["2026-03-29T00:00"],
    "Asia/Tokyo": ["2026-10-25T00:00"],
}
WRITTEN = """* * * * *|*/15 * * * *|0 * * * *|30 * * * *|0 9 * * MON-FRI|0 0 1 * *|0 0 * * 0|0 0 * * 7|0 0 1 1 *|0 0 29 2 *
0 0 L * *|0 0 31 * *|30 2 * * *|0 2 * * *|15 1 * * *|0 0 13 * FRI|0 0 1,15 * MON|0 12 * * FRI#2|0 12 * * 1#1|0 12 * * SAT#5
0 0 * * SUN,SAT|5-50/5 0-6,22 1 JAN,JUL *|0 0 * 2 *|59 23 31 12 *|0 9 1-7 * *|0 9 * * 5-7|0 9 * * 0-6|*/7 */5 * * *
0 0 30 4,6 *|0 0 31 1-12/2 *|10,40 2,3 * 3,10,11 *|0 0 * JAN-MAR MON|0 4 8-14 * *|0 0 28-31 * *|1-59/2 * * * *
*/30 * * * * *|0 */15 * * * *|15,45 30 2 * * *|0 0 9 * * MON-FRI|10-20/5 59 23 L * *|59 59 23 31 12 *|5 0 0 29 2 *
0 0 L 2 *|0 0 L 4,6 MON|0 12 * 2 SAT#5|0 0 29 2 MON|0 0 */10 * *|0 0 */2 * MON|0 0 1 */3 *|0 3 * * */2
0 0 30 2 *|0 0 31 4,6,9,11 *|0 0 30-31 2 *"""


def field(dice, low, high, names=None):
    def one():
        number = dice.randint(low, high)
        return names[number - low] if names and dice.random() < 0.4 else str(number)

    def span():
        first, last = sorted((dice.randint(low, high), dice.randint(low, high)))
        return f"{first}-{last}"

    kind = dice.random()
    if kind < 0.35:
        return "*"
    if kind < 0.60:
        return one()
    if kind < 0.75:
        return span()
    if kind < 0.85:
        return f"*/{dice.randint(2, max(2, (high - low) // 2))}"
    if kind < 0.92:
        return f"{span()}/{dice.randint(2, 5)}"
    return ",".join([one(), one(), span()])


def pattern(dice):
    fields = [
        field(dice, 0, 59),
        field(dice, 0, 23),
        field(dice, 1, 31) if dice.random() < 0.5 else "*",
        field(dice, 1, 12, MONTHS) if dice.random() < 0.5 else "*",
        field(dice, 0, 6, DAYS) if dice.random() < 0.5 else "*",
    ]
    if dice.random() < 0.2:
        fields.insert(0, field(dice, 0, 59))
    return " ".join(fields)


def iterator(pattern, start):
    return croniter(pattern, start, second_at_beginning=True, max_years_between_matches=60)


def by_croniter(pattern, zone, after):
    times = iterator(pattern, after.astimezone(ZoneInfo(zone)))
    try:
        return [times.get_next(datetime).astimezone(timezone.utc) for _ in range(COUNT)]
    except CroniterBadDateError:
        return []


def turn(reading, zone):
    """When a reading of the clock has its turn."""
    at = reading.replace(tzinfo=ZoneInfo(zone), fold=0).astimezone(timezone.utc)
    if at.astimezone(ZoneInfo(zone)).replace(tzinfo=None) == reading:
        return at
    # Left out: the change is where the offset becomes another one.
    low, high = at - timedelta(hours=26), at
    offset = low.astimezone(ZoneInfo(zone)).utcoffset()
    while high - low > timedelta(seconds=1):
        middle = low + (high - low) // 2
        same = middle.astimezone(ZoneInfo(zone)).utcoffset() == offset
        low, high = (middle, high) if same else (low, middle)
    return high.replace(microsecond=0)


def stream(pattern, start):
    times = iterator(pattern, start)
    try:
        while True:
            yield times.get_next(datetime).replace(tzinfo=None)
    except CroniterBadDateError:
        return


def readings(pattern, start):
    *times, day, month, weekday = ONE_NUMBER.sub(r"\1", pattern).split()
    parts = [(day, weekday)] if "*" in (day, weekday) else [(day, "*"), ("*", weekday)]
    return heapq.merge(*(stream(" ".join([*times, d, month, w]), start) for d, w in parts))


def by_rule(pattern, zone, after):
    """The turns of a bare clock's readings, from some hours before, without those that are past and without doubles.

    A pattern for every hour has its turn again where clocks show an hour for the second time."""
    start = after.astimezone(ZoneInfo(zone)).replace(tzinfo=None) - timedelta(hours=3)
    is_hourly = pattern.split()[-4] == "*"
    # A reading's second turn may come after the first turns of later ones: look beyond the hours that come twice.
    ahead = COUNT * 4 + (4 * 3600 if is_hourly and len(pattern.split()) == 6 else 0)
    times = set()
    for reading in readings(pattern, start.replace(tzinfo=timezone.utc)):
        again = [reading.replace(tzinfo=ZoneInfo(zone), fold=1).astimezone(timezone.utc)] if is_hourly else []
        times.update(at for at in [turn(reading, zone), *again] if at > after)
        if len(times) >= ahead:
            break
    return sorted(times)[:COUNT]


def reason(pattern, zone, after, croniter_says, rule_says):
    if not croniter_says:
        return "either the day of the month or the weekday is enough"
    if ONE_NUMBER.search(pattern):
        return "a range of one number is that number, not the whole range"
    until = max(croniter_says[-1], rule_says[-1])
    offsets = [(t.astimezone(ZoneInfo(zone)).utcoffset()) for t in (after - timedelta(hours=3), until + timedelta(hours=3))]
    if offsets[0] < offsets[1]:
        return "clocks go forward: a reading that is left out has its turn at the change"
    assert offsets[0] > offsets[1], "only clocks that change are a reason to differ"
    return "clocks go back: a reading that comes twice has its turn the first time only"


def shown(times):
    if not times:
        return "never"
    steps = [f"+{int((b - a).total_seconds())}" for a, b in zip(times, times[1:])]
    return " ".join([times[0].strftime("%Y-%m-%dT%H:%M:%SZ"), *steps])


def instant(text):
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc)


def rows(dice):
    written = [p for line in WRITTEN.split("\n") for p in line.split("|")]
    made = []
    while len(made) < 250:
        candidate = pattern(dice)
        if candidate not in made and candidate not in written:
            made.append(candidate)
    for p in written + made:
        for year in dice.sample(YEARS, 2):
            yield "UTC", p, instant(f"{year}-01-01T00:00") + timedelta(seconds=dice.randint(0, 366 * 86400))
    for zone in ZONES:
        for p in written + dice.sample(made, 40):
            yield zone, p, instant(dice.choice(CHANGES[zone]))


def main():
    agreed, apart = [], []
    for zone, p, after in rows(random.Random(SEED)):
        head = f"{zone} | {p} | {after.strftime('%Y-%m-%dT%H:%M:%SZ')}"
        croniter_says, rule_says = by_croniter(p, zone, after), by_rule(p, zone, after)
        if croniter_says == rule_says:
            agreed.append(f"{head} | {shown(rule_says)}")
        else:
            why = reason(p, zone, after, croniter_says, rule_says)
            apart.append(f"{head} | {shown(rule_says)} | croniter: {shown(croniter_says)} | {why}")
    print("# croniter and this project agree")
    print("\n".join(sorted(agreed)))
    print("# croniter has another rule; the first answer is the one to give")
    print("\n".join(sorted(apart)))


main()
