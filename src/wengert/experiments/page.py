"""``report.html``: one page that needs nothing but itself, light or dark as the reader has it."""

from __future__ import annotations

from html import escape

from .report import MISSED, REACHED, Check, Figure, Report, Section, machine

_MARKS = {REACHED: "✓", MISSED: "✗"}


def page(report: Report) -> str:
    """The whole page as HTML."""
    facts = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"
        for name, value in machine().items()
    )
    links = "".join(
        f'<a href="#{escape(section.name)}">{escape(section.name)}</a>'
        for section in report.sections
    )
    quick = (
        '<p class="quick">One seed, and the largest sizes left out. '
        "<code>wengert reproduce --full</code> adds seeds, folds, sizes and peers.</p>"
    )
    sections = "\n".join(_section(section) for section in report.sections)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>wengert reproduce</title><style>{_STYLE}</style></head><body>\n"
        f"<header><h1>wengert reproduce</h1>\n<dl>{facts}</dl><nav>{links}</nav></header>\n"
        f"<main>{quick if report.quick else ''}{_overview(report)}\n{sections}</main>\n"
        "</body></html>\n"
    )


def _overview(report: Report) -> str:
    """What the papers reached and whether wengert did, for all experiments at once."""
    rows = [
        f'<tr class="{_kind(check)}"><td><a href="#{escape(section.name)}">'
        f"{escape(section.name)}</a></td><td>{escape(check.what)}</td>"
        f"<td>{escape(check.show(check.got))}</td><td>{escape(_bound(check))}</td>"
        f"<td>{_verdict(check)}</td></tr>"
        for section in report.sections
        for check in section.checks
    ]
    if not rows:
        return ""
    return (
        '<div class="table"><table class="overview"><caption>Beside the papers</caption>\n'
        "<thead><tr><th>experiment</th><th>what</th><th>wengert</th><th>wanted</th><th></th></tr>"
        f"</thead>\n<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _kind(check: Check) -> str:
    return check.status.replace(" ", "-")


def _bound(check: Check) -> str:
    return f"{'at least' if check.at_least else 'at most'} {check.show(check.wanted)}"


def _verdict(check: Check) -> str:
    said = f": {check.remark}" if check.remark else ""
    return escape(f"{_MARKS[check.status]} {check.status}{said}")


def _section(section: Section) -> str:
    state = "" if section.complete else " <em>(not finished)</em>"
    made_by = f" <code>{escape(section.command)}</code>" if section.command else ""
    tables = "\n".join(table.html(made_by) for table in section.tables)
    checks = "".join(
        f'<li class="{_kind(check)}">{escape(check.text())}</li>' for check in section.checks
    )
    notes = "\n".join(f"<p>{escape(note)}</p>" for note in section.notes)
    figures = "\n".join(_figure(figure) for figure in section.figures)
    data = f'<p class="data">Data: {escape(section.data)}</p>' if section.data else ""
    return (
        f'<section id="{escape(section.name)}">\n<h2>{escape(section.title)}{state}'
        f"<small>{section.seconds:.1f} s</small></h2>\n<p>{escape(section.about)}</p>\n{data}"
        f"{tables}\n<ul>{checks}</ul>\n{notes}\n"
        f'<div class="figures">{figures}</div>\n</section>'
    )


def _figure(figure: Figure) -> str:
    kind = ' class="wide"' if figure.wide else ""
    return (
        f"<figure{kind}><div>{figure.svg}</div>"
        f"<figcaption>{escape(figure.caption)}</figcaption></figure>"
    )


_LIGHT = (
    "--paper:#fdfcfa;--ink:#20242a;--soft:#667080;--rule:#dcdfe4;--card:#ffffff;--other:#b3bac4;"
    "--good:#1f7a45;--bad:#b3261e;--c0:#c8501e;--c1:#2f6db5;--c2:#3a8f5c;--c3:#8a5bb8;--c4:#b8860b;"
    "--c5:#1f93a0;--c6:#c2457f;--c7:#7a7f87"
)
_DARK = (
    "--paper:#16191d;--ink:#e4e7eb;--soft:#99a3b0;--rule:#343b44;--card:#1d2126;--other:#59636f;"
    "--good:#6fcf97;--bad:#ff8a80;--c0:#ff8f5c;--c1:#74b0f4;--c2:#7fcf9d;--c3:#c3a0ec;--c4:#e3bb55;"
    "--c5:#62ced9;--c6:#f08cb8;--c7:#aab1ba"
)
_COLOURS = "".join(f".c{n}{{stroke:var(--c{n})}}.f{n}{{fill:var(--c{n})}}" for n in range(8))
_STYLE = (
    f":root{{{_LIGHT};color-scheme:light dark}}"
    f"@media(prefers-color-scheme:dark){{:root{{{_DARK}}}}}"
    "*{box-sizing:border-box}"
    "body{margin:0;background:var(--paper);color:var(--ink);"
    "font:15px/1.55 system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}"
    "header,main{max-width:1080px;margin:0 auto;padding:0 24px}"
    "header{padding-top:36px}h1{font-size:28px;margin:0 0 12px;letter-spacing:-.01em}"
    "h2{font-size:20px;margin:0 0 6px}h2 small{font-weight:400;font-size:13px;color:var(--soft);"
    "margin-left:10px}"
    "dl{display:flex;flex-wrap:wrap;gap:6px 26px;margin:0}dl div{display:flex;gap:7px}"
    "dt{color:var(--soft)}dd{margin:0}"
    "nav{display:flex;flex-wrap:wrap;gap:8px;margin:18px 0 0}"
    "nav a{padding:3px 12px;border:1px solid var(--rule);border-radius:14px;text-decoration:none}"
    "a{color:var(--c1)}code{font:12.5px ui-monospace,Menlo,Consolas,monospace;color:var(--soft)}"
    ".quick{border-left:3px solid var(--c4);padding-left:12px;color:var(--soft)}"
    "section{margin:34px 0;padding-top:26px;border-top:1px solid var(--rule)}"
    ".data{color:var(--soft);margin:0 0 8px}"
    ".table{overflow-x:auto;margin:16px 0}"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:13.5px}"
    "caption{text-align:left;padding:0 0 6px;color:var(--ink);font-weight:600}"
    "caption code{font-weight:400;display:block}"
    "td,th{border-bottom:1px solid var(--rule);padding:5px 12px;text-align:right;"
    "white-space:nowrap}th{color:var(--soft);font-weight:500;vertical-align:bottom}"
    "td:first-child,th:first-child{text-align:left;padding-left:2px}"
    "tr.own td{font-weight:650;color:var(--c0)}"
    ".overview td:nth-child(2),.overview th:nth-child(2),.overview td:last-child{text-align:left;"
    "white-space:normal}"
    "tr.reached td:last-child{color:var(--good)}tr.not-reached td:last-child{color:var(--bad)}"
    "ul{padding:0;list-style:none;margin:8px 0}li{margin:2px 0;color:var(--soft)}"
    "li.reached{color:var(--good)}li.not-reached{color:var(--bad)}"
    ".figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(460px,1fr));gap:18px}"
    "@media(max-width:1000px){.figures{grid-template-columns:minmax(0,1fr)}}"
    "figure{margin:0;padding:14px;background:var(--card);border:1px solid var(--rule);"
    "border-radius:8px;min-width:0}figure.wide{grid-column:1/-1}figure>div{overflow-x:auto}"
    ".wide>div{max-height:720px;overflow:auto}"
    "figcaption{color:var(--soft);font-size:13px;margin-top:8px}"
    "svg.chart{max-width:100%;height:auto;font-size:11px}svg.chart text{fill:var(--ink)}"
    "svg.chart .title{font-weight:600;font-size:12.5px}svg.chart .small{fill:var(--soft);"
    "font-size:10px}.grid{stroke:var(--rule);stroke-width:1}.axis{stroke:var(--soft);"
    "stroke-width:1}.reference{stroke:var(--soft);stroke-width:1;stroke-dasharray:2 3}"
    ".line{fill:none;stroke-width:1.9;stroke-linejoin:round}.band{opacity:.16}"
    f".other{{fill:var(--other)}}{_COLOURS}"
)
