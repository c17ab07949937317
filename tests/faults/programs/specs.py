"""What is enqueued under each number: commands and handlers, quick and slow ones, some that fail once."""

from pathlib import Path

HOWS = ("quick", "sleep", "quick", "fail", "sleep")


def how(number):
    """What this job does (see the programs beside this)."""
    return HOWS[number // 2 % len(HOWS)]


def spec(history, number):
    """The fields of this job. Every third has an id of its own; the number stands in its tags."""
    seconds = number % 7 / 100
    fields = {"tags": [f"n{number}"], "queue": f"q{number % 2}", "priority": number % 3}
    if number % 3 == 0:
        fields["id"] = f"own-{number}"
    if number % 2:
        fields |= {"handler": "recorded", "payload": {"history": str(history), "how": how(number)}}
        if how(number) == "sleep":
            fields["payload"]["seconds"] = seconds
    else:
        fields["command"] = ["sh", str(Path(__file__).parent / "job"), str(history), how(number), str(seconds)]
    return fields
