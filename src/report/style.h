// SPDX-License-Identifier: Apache-2.0
// style.h -- the style sheet of the report. The colours of lines can be told apart by people who confuse red and green
// (after Okabe and Ito), in light and in dark.
#pragma once

namespace tutti::report {

constexpr const char* kStyle = R"(
:root { --text: #1c2430; --soft: #5b6675; --back: #f6f7f9; --card: #fff; --line: #dde2e8; --mark: #fff3d6;
  --c0: #0072b2; --c1: #d55e00; --c2: #009e73; --c3: #cc79a7; --c4: #8a6d00; --c5: #3aa0d8; --c6: #6b4fa0; --c7: #4d4d4d; }
@media (prefers-color-scheme: dark) { :root { --text: #e6e9ee; --soft: #9aa5b4; --back: #14181e; --card: #1d232b;
  --line: #333c48; --mark: #4a3d18; --c0: #56b4e9; --c1: #ff9046; --c2: #2fcf9f; --c3: #e7a3c8; --c4: #f0d043;
  --c5: #9cd5f5; --c6: #b79cf0; --c7: #c4c4c4; } }
body { margin: 0 auto; max-width: 1240px; padding: 1.5rem; color: var(--text); background: var(--back);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: 0 0 1rem; } h2 { font-size: 1.15rem; margin: 2rem 0 .7rem; }
small { color: var(--soft); font-weight: normal; }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(430px, 1fr)); gap: 1rem; }
figure, .wide { margin: 0; padding: .8rem 1rem; background: var(--card); border: 1px solid var(--line); border-radius: 8px; }
.wide { overflow-x: auto; }
figcaption { font-weight: 600; margin-bottom: .3rem; }
svg { width: 100%; height: auto; display: block; }
.tick { font: 11px system-ui, sans-serif; fill: var(--soft); }
.grid { stroke: var(--line); } .axis { stroke: var(--soft); }
.line { fill: none; stroke-width: 1.8; stroke-linejoin: round; } .faint { opacity: .4; stroke-width: 1; }
.line.dashed { stroke-dasharray: 6 4; }
.legend { font-size: .85rem; color: var(--soft); } .key { margin-right: .9rem; white-space: nowrap; }
.swatch { display: inline-block; width: 14px; height: 0; border-top: 3px solid; margin-right: .35rem; vertical-align: middle; }
.swatch.dashed { border-top-style: dashed; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .3rem .7rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--soft); font-weight: 600; white-space: nowrap; }
td { white-space: nowrap; } td.text { white-space: pre-wrap; overflow-wrap: anywhere; } tr.differs td { background: var(--mark); }
.c0 { stroke: var(--c0); border-color: var(--c0); } .c1 { stroke: var(--c1); border-color: var(--c1); }
.c2 { stroke: var(--c2); border-color: var(--c2); } .c3 { stroke: var(--c3); border-color: var(--c3); }
.c4 { stroke: var(--c4); border-color: var(--c4); } .c5 { stroke: var(--c5); border-color: var(--c5); }
.c6 { stroke: var(--c6); border-color: var(--c6); } .c7 { stroke: var(--c7); border-color: var(--c7); }
.mark { fill: var(--card); stroke-width: 1.6; }
@media print { body { max-width: none; background: #fff; } figure { break-inside: avoid; } }
)";

}  // namespace tutti::report
