"""Changes of a step's text: of what runs and when, and of where values lie, not of what a first run computes.

So each of them is legal and gives the same bits, or breaks a law. A mutation takes the lines of a step's body
and a generator of random numbers, and gives other lines, or None where there is nothing to change.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

Lines = list[str]
Mutation = Callable[[Lines, Random], Lines | None]
NAME = re.compile(r"%[\w.$#-]+")
RUN = re.compile(r"rk\.(?:run|launch) (again )?(overwrite )?@(\"[^\"]+\"|[\w.$-]+)\(([^)]*)\)")
NEAR = 6
"""How far a line is moved, at most."""


def _places(lines: Lines, pattern: str) -> list[int]:
    return [place for place, line in enumerate(lines) if re.search(pattern, line)]


def _edited(pattern: str, new: str | Callable[[re.Match[str], Random, Lines], str | None]) -> Mutation:
    """One match of a pattern becomes something else."""

    def edit(lines: Lines, dice: Random) -> Lines | None:
        places = _places(lines, pattern)
        if not places:
            return None
        place = dice.choice(places)
        found = re.search(pattern, lines[place])
        text = new if isinstance(new, str) else new(found, dice, lines)
        if text is None:
            return None
        line = lines[place][: found.start()] + text + lines[place][found.end() :]
        return [*lines[:place], line, *lines[place + 1 :]]

    return edit


def _lost(pattern: str) -> Mutation:
    def lose(lines: Lines, dice: Random) -> Lines | None:
        places = _places(lines, pattern)
        gone = dice.choice(places) if places else None
        return None if gone is None else [*lines[:gone], *lines[gone + 1 :]]

    return lose


def _twice(pattern: str) -> Mutation:
    def repeat(lines: Lines, dice: Random) -> Lines | None:
        places = _places(lines, pattern)
        if not places:
            return None
        place = dice.choice(places)
        later = dice.randint(place + 1, min(place + NEAR, len(lines)))
        return [*lines[:later], lines[place], *lines[later:]]

    return repeat


def _moved(pattern: str) -> Mutation:
    def move(lines: Lines, dice: Random) -> Lines | None:
        places = _places(lines, pattern)
        if not places:
            return None
        place = dice.choice(places)
        target = dice.randint(max(place - NEAR, 0), min(place + NEAR, len(lines) - 1))
        rest = [*lines[:place], *lines[place + 1 :]]
        return None if target == place else [*rest[:target], lines[place], *rest[target:]]

    return move


def _types(lines: Lines) -> dict[str, str]:
    """The type of every value that some line makes or reads by itself."""
    types = {}
    for line in lines:
        found = RUN.search(line)
        if found:
            listed = _listed(re.search(r" : \((.*)\) -> ", line)[1])
            types.update(zip(NAME.findall(found[4]), listed, strict=False))
    return types


def _listed(text: str) -> list[str]:
    """The types of a list: their commas are inside of brackets."""
    depth, parts = 0, [""]
    for letter in text:
        depth += (letter in "<([") - (letter in ">)]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def _other_operand(lines: Lines, dice: Random) -> Lines | None:
    """A second run reads another value of the same type."""
    places = [place for place in _places(lines, RUN.pattern) if RUN.search(lines[place])[1]]
    if not places:
        return None
    place = dice.choice(places)
    # What was read before has been made before.
    types = _types(lines[: place + 1])
    found = RUN.search(lines[place])
    operands = NAME.findall(found[4])
    if not operands:
        return None
    old = dice.randrange(len(operands))
    alike = sorted(n for n, t in types.items() if t == types.get(operands[old]) and n != operands[old])
    if not alike:
        return None
    operands[old] = dice.choice(alike)
    line = lines[place][: found.start(4)] + ", ".join(operands) + lines[place][found.end(4) :]
    return [*lines[:place], line, *lines[place + 1 :]]


def _second_run(lines: Lines, dice: Random) -> Lines | None:
    """A node runs once more, and what it makes is dropped."""
    places = _places(lines, r"= rk\.run @")
    if not places:
        return None
    place = dice.choice(places)
    target = dice.randint(place + 1, min(place + 3 * NEAR, len(lines)))
    results, call = lines[place].split(" = ", 1)
    names = [f"%chaos{n}" for n, _ in enumerate(results.split(","))]
    if ":" in results:
        return None
    made = re.sub(r" loc\(.*", "", call.rsplit(" -> ", 1)[1])
    types = _listed(made.strip("()") if made.startswith("(") else made)
    call = call.replace("rk.run @", "rk.run again @")
    drops = [f"    rk.drop {name} : {kind}" for name, kind in zip(names, types, strict=False)]
    return [*lines[:target], f"    {', '.join(names)} = {call}", *drops, *lines[target:]]


def _other_place(found: re.Match[str], dice: Random, lines: Lines) -> str:
    """An address of somebody else, or a little beside."""
    known = sorted({int(one) for line in lines for one in re.findall(r"arena\[(\d+)\]", line)})
    mine = int(found[2])
    return f"{found[1]}{dice.choice([*known, mine + 4, mine + 64, max(mine - 64, 0)])}{found[3]}"


def _other_buffer(found: re.Match[str], dice: Random, lines: Lines) -> str | None:
    """Another buffer of the same type."""
    types = dict(
        re.search(r"(%\S+) = rk\.buffer \S+ : (.*?)(?: loc|$)", line).groups()
        for line in lines
        if "rk.buffer" in line
    )
    alike = sorted(n for n, t in types.items() if t == types.get(found[2]) and n != found[2])
    return f"{found[1]}{dice.choice(alike)}{found[3]}" if alike else None


SCHEDULED: dict[str, Mutation] = {
    "a drop is lost": _lost(r"rk\.drop "),
    "a drop comes twice": _twice(r"rk\.drop "),
    "a drop is moved": _moved(r"rk\.drop "),
    "a run is moved": _moved(r"rk\.run "),
    "a second run is lost": _lost(r"rk\.run again "),
    "a first run is lost": _lost(r"rk\.run @"),
    "a run comes twice": _twice(r"rk\.run "),
    "a second run is added": _second_run,
    "`again` is lost": _edited(r"rk\.run again ", "rk.run "),
    "`again` is added": _edited(r"rk\.run @", "rk.run again @"),
    "`overwrite` is lost": _edited(
        r"rk\.run (again )?overwrite ", lambda found, *_: f"rk.run {found[1] or ''}"
    ),
    "`overwrite` is added": _edited(
        r"rk\.run (again )?@", lambda found, *_: f"rk.run {found[1] or ''}overwrite @"
    ),
    "a second run reads something else": _other_operand,
}
LOWERED: dict[str, Mutation] = {
    "a place is moved": _edited(r"(rk\.buffer arena\[)(\d+)(\])", _other_place),
    "a workspace is moved": _edited(r"(workspace \[)(\d+)(,)", _other_place),
    "a launch is moved": _moved(r"rk\.launch "),
    "a launch is lost": _lost(r"rk\.launch "),
    "a launch comes twice": _twice(r"rk\.launch "),
    "`again` is lost": _edited(r"rk\.launch again ", "rk.launch "),
    "`again` is added": _edited(r"rk\.launch @", "rk.launch again @"),
    "`overwrite` is lost": _edited(
        r"rk\.launch (again )?overwrite ", lambda found, *_: f"rk.launch {found[1] or ''}"
    ),
    "`overwrite` is added": _edited(
        r"rk\.launch (again )?@", lambda found, *_: f"rk.launch {found[1] or ''}overwrite @"
    ),
    "a launch writes elsewhere": _edited(r"(into\(.*?)(%[\w.$#-]+)(.*?\))", _other_buffer),
    "a second launch reads something else": _other_operand,
    "a state is not saved": _lost(r"rk\.save_state "),
    "a state is not loaded": _lost(r"rk\.load_state "),
    "a state is moved": _moved(r"rk\.(save|load)_state "),
}


def _smaller(name: str) -> Callable[[str, Random], str | None]:
    def shrink(text: str, dice: Random) -> str | None:
        found = re.search(rf"\b{name} = (\d+) : i64", text)
        if found is None or int(found[1]) < 128:
            return None
        less = int(found[1]) - dice.choice([64, 128, int(found[1]) // 2 // 64 * 64])
        return text[: found.start(1)] + str(less) + text[found.end(1) :]

    return shrink


HEADER = {f"{name} is smaller": _smaller(re.escape(name)) for name in ("rk.arena", "rk.budget")}
"""Changes of what stands above the lines."""


def mutated(stage: str, text: str, kind: str, dice: Random) -> str | None:
    """The text of a step with one change of this kind; None where there is nothing to change."""
    if kind in HEADER:
        return HEADER[kind](text, dice)
    head, body, tail = split(text)
    lines = (SCHEDULED if stage == "scheduled" else LOWERED)[kind](body, dice)
    return None if lines is None or lines == body else "\n".join([*head, *lines, *tail])


def kinds(stage: str) -> list[str]:
    """The kinds of changes that there are at a stage."""
    return [*(SCHEDULED if stage == "scheduled" else LOWERED), *HEADER]


def split(text: str) -> tuple[Lines, Lines, Lines]:
    """What stands before the first line of the step, its lines up to the return, and the rest."""
    lines = text.split("\n")
    first = next(place for place, line in enumerate(lines) if "func.func @step" in line) + 1
    last = next(place for place in range(first, len(lines)) if re.match(r"    return\b", lines[place]))
    return lines[:first], lines[first:last], lines[last:]
