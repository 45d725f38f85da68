"""Colours and type, once for the page and its figures.

Each colour has a light and a dark value. Figures are drawn in the light ones; inside the page their SVG refers to the
name instead (`var(--train)`), so a figure follows the reader's colour scheme as the text does. Hues are told apart
with any colour vision: blue, vermillion, green of the Okabe–Ito set, darkened until they carry text. They mean train,
val and test wherever they stand, and nothing else; a mistake is purple.
"""

from __future__ import annotations

from typing import Any

#: name -> (light, dark); every light value is unique, because SVG colours are found again by it
COLOURS: dict[str, tuple[str, str]] = {
    "ground": ("#f4f6f8", "#0e1217"),
    "card": ("#ffffff", "#161b22"),
    "raised": ("#f9fafb", "#1c222b"),
    "ink": ("#1a2029", "#e7ebf0"),
    "soft": ("#5a6675", "#9ba7b6"),
    "line": ("#dce1e8", "#2d3641"),
    "train": ("#0072b2", "#5db7f0"),
    "val": ("#c05300", "#ff9f5c"),
    "test": ("#007f5f", "#45cfa3"),
    "miss": ("#8a3a9b", "#dba4ea"),
    "error": ("#b3261e", "#ff8a80"),
    "warning": ("#8f6200", "#e5b94c"),
    "note": ("#55606e", "#a3aebb"),
}
LIGHT = {name: light for name, (light, _) in COLOURS.items()}

FULL, HALF = 10.0, 4.75  # widths of a figure in inches: a whole card, or one of two side by side

MATPLOTLIB: dict[str, Any] = {
    "figure.facecolor": LIGHT["card"],
    "axes.facecolor": "none",
    "savefig.facecolor": LIGHT["card"],
    "font.family": "DejaVu Sans",  # comes with matplotlib, so a PNG is the same on every machine
    "font.size": 8.5,
    "text.color": LIGHT["ink"],
    "text.parse_math": False,  # a column may be called "cost in $ and $"
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 8.0,
    "axes.titlecolor": LIGHT["ink"],
    "axes.labelcolor": LIGHT["soft"],
    "axes.labelsize": 8.5,
    "axes.edgecolor": LIGHT["line"],
    "axes.linewidth": 0.9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "grid.color": LIGHT["line"],
    "grid.linewidth": 0.6,
    "xtick.color": LIGHT["soft"],
    "ytick.color": LIGHT["soft"],
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "xtick.major.size": 0.0,
    "ytick.major.size": 0.0,
    "xtick.minor.size": 0.0,
    "ytick.minor.size": 0.0,
    "lines.linewidth": 1.6,
    "lines.solid_capstyle": "round",
    "legend.frameon": False,
    "legend.fontsize": 8.0,
    "legend.handlelength": 1.4,
    "legend.columnspacing": 1.4,
    "legend.borderaxespad": 0.0,
    "svg.fonttype": "none",  # text stays text: the page's own font, searchable
}


def _variables(scheme: int) -> str:
    return "".join(f"--{name}:{pair[scheme]};" for name, pair in COLOURS.items())


CSS = (
    f":root{{color-scheme:light dark;{_variables(0)}}}\n"
    f"@media (prefers-color-scheme:dark){{:root{{{_variables(1)}}}}}\n"
    "@media print{:root{" + _variables(0) + "}}"
    """
:root{--font:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;
 --mono:ui-monospace,SFMono-Regular,Menlo,Consolas,"Liberation Mono",monospace}
*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--ink);font:15px/1.55 var(--font);
 font-variant-numeric:tabular-nums;overflow-wrap:anywhere;-webkit-text-size-adjust:100%}
a{color:var(--train);text-decoration:none}a:hover{text-decoration:underline}
a:focus-visible,button:focus-visible,summary:focus-visible,.scroll:focus-visible{outline:2px solid var(--train);
 outline-offset:2px;border-radius:4px}
.wrap{max-width:1080px;margin:0 auto;padding:28px 20px 56px}
.brand{display:flex;align-items:center;gap:9px;font-weight:650;letter-spacing:.01em;color:var(--soft);font-size:14px}
.brand svg{width:18px;height:18px;flex:none}
.brand nav{margin-left:auto;display:flex;flex-wrap:wrap;gap:4px 18px;font-weight:500}
.brand nav a{color:var(--soft)}
h1{font-size:30px;line-height:1.2;letter-spacing:-.018em;margin:26px 0 6px;font-weight:680}
h2{font-size:19px;letter-spacing:-.008em;margin:40px 0 14px;font-weight:660}
h3{font-size:14px;margin:0 0 10px;font-weight:650}
p{margin:0 0 12px}
.soft{color:var(--soft)}.small{font-size:13px}
.card{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:20px 22px;min-width:0}
.grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,440px),1fr));gap:16px}
.grid>.wide{grid-column:1/-1}.hero.alone{grid-template-columns:1fr}
.hero{display:grid;grid-template-columns:minmax(0,1.15fr) minmax(0,2fr);gap:16px;margin-top:20px}
.score{display:flex;flex-direction:column;justify-content:center}
.score .name{color:var(--soft);font-size:13.5px}
.score .value{font-size:46px;line-height:1.12;font-weight:700;letter-spacing:-.025em;color:var(--of);margin:2px 0}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(125px,1fr));gap:16px 12px}
.tile .name{color:var(--soft);font-size:12.5px}
.tile .value{font-size:18px;line-height:1.3;font-weight:650;letter-spacing:-.01em}
.tile .more{color:var(--soft);font-size:12.5px}
.verdict{font-size:17px;line-height:1.5;margin:16px 0 0;max-width:72ch}
figure{margin:0}
figure .plate{overflow-x:auto}
figure svg{display:block;width:100%;height:auto}
figure.full svg{min-width:600px}
figure svg *{stroke-linejoin:round;stroke-linecap:butt}
figcaption{color:var(--soft);font-size:13px;margin-top:10px;max-width:115ch}
.scroll{overflow:auto;margin:0 -6px;padding:0 6px}.scroll.cut{max-height:430px}
.below{margin:10px 0 0}
table{border-collapse:collapse;width:100%;font-size:13.5px}
th{white-space:nowrap;font-weight:600;color:var(--soft);text-align:left;font-size:12.5px;vertical-align:bottom}
thead th{position:sticky;top:0;background:var(--card);box-shadow:inset 0 -1px var(--line)}
th,td{padding:6px 12px 6px 0}
td{border-top:1px solid var(--line);vertical-align:middle;overflow-wrap:break-word}
thead+tbody tr:first-child td{border-top:0}
th.num,td.num{text-align:right;white-space:nowrap}
th:last-child,td:last-child{padding-right:2px}
th.last,td.last{padding-left:14px}
.name-cell{max-width:260px;min-width:64px;overflow-wrap:anywhere}
.range{display:block;color:var(--soft);font-size:12px}
.bar{display:inline-block;width:64px;height:7px;border-radius:4px;background:var(--line);margin-left:9px;overflow:hidden}
.bar i{display:block;height:100%;background:var(--of)}
.features{color:var(--soft);font-size:12.5px;line-height:1.45;min-width:190px;overflow-wrap:anywhere}
.features b{color:var(--ink);font-weight:550}
.features svg,.features img{display:block}
.features img{image-rendering:pixelated;width:44px;border-radius:3px}
.miss{color:var(--miss)}
.words{font-size:13px;line-height:1.45;min-width:150px;overflow-wrap:anywhere}
.text{white-space:pre-wrap;font-size:14px;line-height:1.7;max-width:100ch}.text b{font-weight:550}
.text sub{font-size:11px;margin:0 3px}
.token{background:color-mix(in srgb,var(--miss) var(--a),transparent);border-radius:3px}
.dot{display:inline-block;width:9px;height:9px;border-radius:50%;margin-right:7px;background:var(--of)}
.finding{display:grid;grid-template-columns:84px minmax(0,1fr);gap:4px 14px;padding:14px 0;
 border-top:1px solid var(--line)}
.finding:first-child{border-top:0;padding-top:0}.finding:last-child{padding-bottom:0}
.finding p{margin:2px 0 0}.finding strong{font-weight:620}
.chip{display:inline-block;font-size:12px;font-weight:620;line-height:1;padding:5px 9px;border-radius:99px;
 color:var(--of);border:1px solid var(--of);white-space:nowrap;justify-self:start;align-self:start}
pre,code{font-family:var(--mono);font-size:12.8px}
pre{margin:0;white-space:pre-wrap;background:var(--raised);border:1px solid var(--line);border-radius:8px;
 padding:13px 15px; line-height:1.55;max-height:460px;overflow:auto}
.copy{position:relative;margin-bottom:18px}.copy:last-child{margin-bottom:0}
.copy pre{padding-right:76px}
.copy button{position:absolute;right:9px;top:8px;font:600 12px/1 var(--font);color:var(--soft);background:var(--card);
 border:1px solid var(--line);border-radius:6px;padding:6px 9px;cursor:pointer}
.copy button:hover{color:var(--ink)}
details{border-top:1px solid var(--line)}details:first-of-type{border-top:0}
summary{cursor:pointer;padding:11px 0;font-weight:600;font-size:14px}
details>.body{padding:0 0 14px 16px}
.config td{overflow-wrap:anywhere}.config td:first-child{color:var(--soft);width:180px;vertical-align:top}
.config .config{margin:-6px 0}
.config tr:first-child>td{border-top:0}
footer{margin-top:44px;padding-top:16px;border-top:1px solid var(--line);color:var(--soft);font-size:12.5px}
@media (max-width:760px){.hero{grid-template-columns:1fr}h1{font-size:24px}.wrap{padding:18px 14px 40px}
 .card{padding:16px}.brand nav{display:none}.finding{grid-template-columns:1fr}.config td:first-child{width:110px}}
@media print{body{font-size:12px}.card,figure{break-inside:avoid}.scroll,pre{max-height:none}
 .copy button,.brand nav{display:none}}
"""
)
