"""A report as one HTML file: nothing is fetched, nothing is executed, and what agents wrote is text."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from gitswarm.cli.console import duration, harmless, money
from gitswarm.cli.reports.model import CostLine
from gitswarm.cli.reports.page import Bars, Block, Commands, Items, Line, Page, Part, Section, Table, Text

_GOOD = ("landed", "approved", "succeeded")
_BAD = ("failed", "rejected", "not proven")
_TAGS = {"code": "code", "strong": "strong"}
_BAR, _ROW, _NAME, _SAID = 260, 20, 240, 90
_LEAST = 0.01

_STYLE = """\
:root { color-scheme: light dark; --line: #8884; --good: #1a7f37; --bad: #cf222e; --mid: #9a6700; --bar: #4c8bf5; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; overflow-wrap: anywhere; } h2 { font-size: 1.15rem; margin-top: 2rem; }
h1::before { content: ""; display: inline-block; width: .7em; height: .7em; border-radius: 50%; margin-right: .5em; }
.good h1::before { background: var(--good); } .bad h1::before { background: var(--bad); }
.mid h1::before { background: var(--mid); }
table { border-collapse: collapse; width: 100%; } th { text-align: left; font-weight: 600; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .6rem .3rem 0; vertical-align: top; }
td { overflow-wrap: anywhere; min-width: 5rem; } td strong { white-space: nowrap; } svg { margin-top: 1rem; }
code, pre { font: 13px/1.5 ui-monospace, monospace; overflow-wrap: anywhere; } pre { white-space: pre-wrap; }
svg text { font: 12px ui-monospace, monospace; fill: currentColor; } rect { fill: var(--bar); }
rect.cost { fill: var(--mid); } summary { cursor: pointer; margin-top: 1rem; }
"""


def html_of(page: Page) -> str:
    tone = "good" if page.state in _GOOD else "bad" if page.state in _BAD else "mid"
    title = "".join(part.text for part in page.title)
    body = [f"<h1>{_inline(page.title)}</h1>", *map(_block, page.head), *map(_section, page.sections)]
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            '<head><meta charset="utf-8">',
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
            '<meta name="viewport" content="width=device-width">',
            f"<title>{_said(title)}</title>",
            f"<style>\n{_STYLE}</style></head>",
            f'<body class="{tone}">',
            *body,
            "</body></html>\n",
        ]
    )


def _section(section: Section) -> str:
    body = "\n".join(map(_block, section.blocks))
    title = _said(section.title)
    if section.folded:
        return f"<details><summary>{title}</summary>\n{body}\n</details>"
    return f"<h2>{title}</h2>\n{body}"


def _block(block: Block) -> str:
    match block:
        case Text(line):
            return f"<p>{_inline(line)}</p>"
        case Items(lines):
            return "<ul>\n" + "".join(f"<li>{_inline(line)}</li>\n" for line in lines) + "</ul>"
        case Table(headings, rows):
            head = "".join(f"<th>{_said(heading)}</th>" for heading in headings)
            told = "".join(f"<tr>{''.join(f'<td>{_inline(cell)}</td>' for cell in row)}</tr>\n" for row in rows)
            return f"<table>\n<tr>{head}</tr>\n{told}</table>"
        case Commands(lines):
            return f"<pre>{_said(chr(10).join(_command(*line) for line in lines))}</pre>"
        case Bars(lines):
            return _bars(lines)


def _command(claim: str, command: str) -> str:
    return f"# {' '.join(claim.split())}\n{' '.join(command.splitlines())}"


def _inline(line: Line) -> str:
    return "".join(map(_part, line)).strip() or "-"


def _part(part: Part) -> str:
    tag = _TAGS.get(part.kind)
    return f"<{tag}>{_said(part.text)}</{tag}>" if tag and part.text else _said(part.text)


def _said(text: str) -> str:
    return escape(harmless(text))


def _bars(lines: Sequence[CostLine]) -> str:
    """Time of each step, and below it its cost, each as a part of the longest; those that show are shown."""
    longest = max((line.duration_ms for line in lines), default=0) or 1
    dearest = max((line.cost_usd or 0.0 for line in lines), default=0.0)
    shown = [
        line for line in lines if line.duration_ms >= longest * _LEAST or (line.cost_usd or 0.0) > dearest * _LEAST
    ]
    rows = []
    for index, line in enumerate(shown):
        top = index * _ROW
        took = line.duration_ms / longest * _BAR
        cost = (line.cost_usd or 0.0) / dearest * _BAR if dearest else 0.0
        said = f"{duration(line.duration_ms)}, {money(line.cost_usd)}"
        rows += [
            f'<text x="0" y="{top + 13}">{_said(line.name)}</text>',
            f'<rect x="{_NAME}" y="{top + 3}" width="{took:.1f}" height="7"></rect>',
            f'<rect class="cost" x="{_NAME}" y="{top + 11}" width="{cost:.1f}" height="5"></rect>',
            f'<text x="{_NAME + _BAR + 10}" y="{top + 13}">{said}</text>',
        ]
    width, height = _NAME + _BAR + 10 + _SAID + 60, (len(shown) + 1) * _ROW
    if len(shown) < len(lines):
        more = f"{len(lines) - len(shown)} more took and cost less than a hundredth of that"
        rows.append(f'<text x="0" y="{len(shown) * _ROW + 13}">{more}</text>')
    label = "time (above) and cost (below) of each step"
    return f'<svg role="img" aria-label="{label}" width="{width}" height="{height}">\n' + "\n".join(rows) + "\n</svg>"
