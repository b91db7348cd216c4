"""A drawing of lines, marks and words, written twice: as SVG, and as PNG by Pillow, which torchvision brings.

It is for charts of a few hundred shapes. What says more than one kind of thing has marks of several forms,
which can be told apart in grey.
"""

from __future__ import annotations

import dataclasses
import html
import math
from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

Point = tuple[float, float]
SIZE, INK, SCALE = 11, "#222222", 2
"""Points of a font, the colour of what has no other, and pixels of the PNG for one unit."""
FORMS: dict[str, Sequence[Point]] = {
    "square": ((-3.5, -3.5), (3.5, -3.5), (3.5, 3.5), (-3.5, 3.5)),
    "circle": tuple(
        (4 * math.cos(math.pi * one / 12), 4 * math.sin(math.pi * one / 12)) for one in range(24)
    ),
    "triangle": ((0, -5), (4.5, 3.5), (-4.5, 3.5)),
}
_ANCHORS = {"start": "ls", "middle": "ms", "end": "rs"}


@dataclasses.dataclass
class _Line:
    points: Sequence[Point]
    colour: str
    width: float

    def svg(self) -> str:
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in self.points)
        return f'<polyline points="{path}" fill="none" stroke="{self.colour}" stroke-width="{self.width}"/>'

    def paint(self, image: Image.Image) -> None:
        points = [(SCALE * x, SCALE * y) for x, y in self.points]
        ImageDraw.Draw(image).line(points, self.colour, round(SCALE * self.width), joint="curve")


@dataclasses.dataclass
class _Mark:
    points: Sequence[Point]
    colour: str

    def svg(self) -> str:
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in self.points)
        return f'<polygon points="{path}" fill="{self.colour}"/>'

    def paint(self, image: Image.Image) -> None:
        ImageDraw.Draw(image).polygon([(SCALE * x, SCALE * y) for x, y in self.points], self.colour)


@dataclasses.dataclass
class _Words:
    at: Point
    words: str
    anchor: str
    size: int
    is_upwards: bool

    def svg(self) -> str:
        x, y = self.at
        place = f'transform="translate({x:.1f} {y:.1f}) rotate({-90 if self.is_upwards else 0})"'
        words = html.escape(self.words)
        return (
            f'<text {place} text-anchor="{self.anchor}" font-size="{self.size}" fill="{INK}">{words}</text>'
        )

    def paint(self, image: Image.Image) -> None:
        font = ImageFont.load_default(SCALE * self.size)
        x, y = (SCALE * one for one in self.at)
        if not self.is_upwards:
            ImageDraw.Draw(image).text((x, y), self.words, INK, font, _ANCHORS[self.anchor])
            return
        wide = math.ceil(font.getlength(self.words))
        mask = Image.new("L", (wide, 2 * SCALE * self.size))
        ImageDraw.Draw(mask).text((0, 1.5 * SCALE * self.size), self.words, 255, font, "ls")
        mask = mask.rotate(90, expand=True)
        below = {"start": 0.0, "middle": 0.5, "end": 1.0}[self.anchor] * wide - wide
        image.paste(INK, (round(x - 1.5 * SCALE * self.size), round(y + below)), mask)


class Drawing:
    """Units are those of a screen; the vertical axis points downwards."""

    def __init__(self, width: int, height: int) -> None:
        """White."""
        self.width, self.height = width, height
        self._shapes: list[_Line | _Mark | _Words] = []

    def line(self, points: Sequence[Point], colour: str = INK, width: float = 1.0) -> None:
        """Through these points."""
        self._shapes.append(_Line(points, colour, width))

    def mark(self, at: Point, form: str, colour: str) -> None:
        """One of :data:`FORMS`."""
        self._shapes.append(_Mark([(at[0] + x, at[1] + y) for x, y in FORMS[form]], colour))

    def words(
        self, at: Point, words: str, anchor: str = "start", size: int = SIZE, upwards: bool = False
    ) -> None:
        """``at`` is on the line that letters stand on: its start, middle or end."""
        self._shapes.append(_Words(at, words, anchor, size, upwards))

    def write(self, stem: Path) -> None:
        """``stem.svg`` and ``stem.png``; an end of these two that the path has already is not doubled."""
        stem = stem.with_suffix("") if stem.suffix in (".svg", ".png") else stem
        stem.parent.mkdir(parents=True, exist_ok=True)
        Path(f"{stem}.svg").write_text(self._svg())
        image = Image.new("RGB", (SCALE * self.width, SCALE * self.height), "#ffffff")
        for one in self._shapes:
            one.paint(image)
        image.save(f"{stem}.png", optimize=True)

    def _svg(self) -> str:
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
            'font-family="sans-serif"><rect width="100%" height="100%" fill="#fff"/>'
        )
        return "\n".join([head, *(one.svg() for one in self._shapes), "</svg>\n"])
