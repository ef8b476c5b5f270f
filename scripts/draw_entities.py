"""Draw a text with the entities that a model finds in it, as an SVG file."""

import re
from pathlib import Path
from xml.etree import ElementTree

import spacy
import typer
from spacy.displacy.render import DEFAULT_LABEL_COLORS
from spacy.tokens import Doc

WIDTH, MARGIN = 720, 20
FONT_SIZE, LINE_HEIGHT = 16, 40
# Advance of a character of a monospaced font, as a share of its size.
ADVANCE = 0.6
LABEL_SCALE = 0.65
PADDING = 6
OTHER_COLOR = "#dddddd"


def main(
    model: str = typer.Argument(..., help="Name or path of a pipeline"),
    text: str = typer.Argument(..., help="Text to find entities in"),
    output: Path = typer.Argument(..., help="SVG file to write", dir_okay=False),
) -> None:
    """Run the pipeline on the text and draw the result."""
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(draw(spacy.load(model)(text)), encoding="utf8")


def draw(doc: Doc) -> str:
    """Draw a text with its entities marked and labelled.

    doc (Doc): A processed text.
    RETURNS (str): An SVG document.
    """
    svg = ElementTree.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "role": "img"})
    ElementTree.SubElement(svg, "title").text = describe(doc)
    sheet = {"width": "100%", "height": "100%", "rx": "8", "fill": "#ffffff", "stroke": "#d0d7de"}
    ElementTree.SubElement(svg, "rect", sheet)
    x, y = float(MARGIN), MARGIN + LINE_HEIGHT / 2
    for words, label, space in split(doc):
        width = measure(words) + (measure(label, LABEL_SCALE) + 3 * PADDING if label else 0)
        x += measure(space)
        if space and x + width > WIDTH - MARGIN:
            x, y = float(MARGIN), y + LINE_HEIGHT
        if label:
            add_box(svg, x, y, width, DEFAULT_LABEL_COLORS.get(label, OTHER_COLOR))
            add_text(svg, words, x + PADDING, y)
            add_text(svg, label, x + measure(words) + 2 * PADDING, y, LABEL_SCALE)
        else:
            add_text(svg, words, x, y)
        x += width
    svg.set("viewBox", f"0 0 {WIDTH} {y + LINE_HEIGHT / 2 + MARGIN:.0f}")
    ElementTree.indent(svg)
    return ElementTree.tostring(svg, encoding="unicode") + "\n"


def describe(doc: Doc) -> str:
    """Say in words what the drawing shows, for those who cannot see it.

    doc (Doc): A processed text.
    RETURNS (str): The text and its entities.
    """
    return f"{doc.text} Entities: {', '.join(f'{ent.text} ({ent.label_})' for ent in doc.ents)}."


def split(doc: Doc) -> list[tuple[str, str, str]]:
    """Cut a text into what is drawn in one piece: entities whole, the rest at its spaces.

    doc (Doc): A processed text.
    RETURNS (list[tuple[str, str, str]]): The pieces, the label of each, which is empty outside of entities, and the
        space before it.
    """
    pieces = []
    end = 0
    for ent in doc.ents:
        pieces.extend(split_words(doc.text[end : ent.start_char]))
        pieces.append((ent.text, ent.label_, " " if doc.text[: ent.start_char][-1:].isspace() else ""))
        end = ent.end_char
    return [*pieces, *split_words(doc.text[end:])]


def split_words(text: str) -> list[tuple[str, str, str]]:
    """Cut a text without entities at its spaces.

    text (str): The text.
    RETURNS (list[tuple[str, str, str]]): The pieces as `split` gives them.
    """
    return [(word, "", " " if space else "") for space, word in re.findall(r"(\s*)(\S+)", text)]


def measure(text: str, scale: float = 1.0) -> float:
    """Return the width of a text.

    text (str): The text.
    scale (float): Its size, against the usual one.
    RETURNS (float): Width in pixels.
    """
    return len(text) * FONT_SIZE * ADVANCE * scale


def add_box(svg: ElementTree.Element, x: float, y: float, width: float, color: str) -> None:
    """Add the box that marks an entity.

    svg (Element): The drawing.
    x (float): Its left edge.
    y (float): Its middle.
    width (float): Its width.
    color (str): Its color.
    """
    height = LINE_HEIGHT * 0.75
    box = {"x": x, "y": y - height / 2, "width": width, "height": height, "rx": 5}
    ElementTree.SubElement(svg, "rect", {name: f"{value:.1f}" for name, value in box.items()} | {"fill": color})


def add_text(svg: ElementTree.Element, text: str, x: float, y: float, scale: float = 1.0) -> None:
    """Add a text of a known width, whatever font the viewer has.

    svg (Element): The drawing.
    text (str): The text.
    x (float): Its left edge.
    y (float): The middle of its line.
    scale (float): Its size, against the usual one.
    """
    # Half of a capital letter's height below the middle, since not every viewer knows about other baselines.
    baseline = y + 0.35 * FONT_SIZE * scale
    numbers = {"x": x, "y": baseline, "font-size": FONT_SIZE * scale, "textLength": measure(text, scale)}
    attributes = {name: f"{value:.1f}" for name, value in numbers.items()}
    style = {"font-family": "monospace", "fill": "#1f2328"}
    if scale != 1.0:
        style["font-weight"] = "bold"
    ElementTree.SubElement(svg, "text", attributes | style).text = text


if __name__ == "__main__":
    typer.run(main)
