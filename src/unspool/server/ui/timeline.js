// <u-timeline>: when the text of each event arrived, and when the event was emitted.

import { clear, h, s } from "./dom.js";
import { eventLine } from "./chips.js";
import { n, t } from "./i18n.js";
import { KINDS, kindOf } from "./trace.js";

const MOST = 4000; // events in the picture
const LANES = [...KINDS, "notice"];
const LANE = 22;
const LEFT = 96;
const WIDTH = 1000;
const LOGGED = 400;

class Timeline extends HTMLElement {
  set trace(trace) {
    const bars = [...placed(trace)].slice(0, MOST);
    clear(this, picture(trace, bars, (chunk) => this.dispatchEvent(new CustomEvent("chunk", { detail: chunk, bubbles: true }))), log(trace));
  }
}

/** Each event with the chunk in which its text arrived, and the chunk after which it was emitted. */
function* placed(trace) {
  const ends = [];
  let at = 0;
  for (const chunk of trace.chunks) ends.push((at += Array.from(chunk.text).length));
  let first = 0;
  let seen = 0;
  for (const [event, emitted] of trace.events()) {
    if (event.type === "finish") continue;
    if (event.start < seen) first = 0;
    seen = event.start;
    while (first < ends.length - 1 && ends[first] <= event.start) first++;
    yield { event, from: Math.min(first, emitted), to: emitted };
  }
}

function picture(trace, bars, go) {
  const count = Math.max(trace.chunks.length + 1, 2);
  const x = (chunk) => LEFT + (chunk / count) * (WIDTH - LEFT);
  const height = (LANES.length + 1) * LANE + 18;
  const view = s("svg", { viewBox: `0 0 ${WIDTH} ${height}`, class: "timeline", role: "img", "aria-label": t("timeline") });
  LANES.forEach((kind, i) => {
    const label = s("text", { x: 0, y: i * LANE + 15, class: "lane" });
    label.textContent = t(kind);
    view.append(label, s("line", { x1: LEFT, x2: WIDTH, y1: (i + 1) * LANE, y2: (i + 1) * LANE, class: "rule" }));
  });
  for (const { event, from, to } of bars) {
    const lane = LANES.indexOf(kindOf(event));
    const width = Math.max(x(to + 1) - x(from) - (count < 300 ? 1.5 : 0), 1.5);
    const bar = s("rect", { x: x(from), y: lane * LANE + 4, width, height: LANE - 8, rx: 2, class: `bar f-${kindOf(event)}${to > from ? " late" : ""}` });
    const title = s("title");
    title.textContent = `${event.type} ${event.start}–${event.end}: ${t("chunk", { number: from + 1 })} → ${to + 1}`;
    bar.append(title);
    bar.addEventListener("click", () => go(from));
    view.append(bar);
  }
  view.append(...heldBars(trace, x, LANES.length * LANE), ...scale(count, x, height));
  return h("div", { class: "timeline-frame", tabindex: 0 }, view);
}

/** How much was held back after each chunk. */
function heldBars(trace, x, top) {
  const label = s("text", { x: 0, y: top + 15, class: "lane" });
  label.textContent = t("held");
  const sizes = trace.chunks.map(({ held }) => (held ? held.end - held.start : 0));
  const most = Math.max(1, ...sizes.slice(0, MOST));
  const bars = sizes.slice(0, MOST).flatMap((size, i) => {
    if (!size) return [];
    const height = 2 + (size / most) * (LANE - 6);
    return [s("rect", { x: x(i), y: top + LANE - height, width: Math.max(x(i + 1) - x(i) - 1, 1), height, class: "bar f-held" })];
  });
  return [label, ...bars];
}

function scale(count, x, height) {
  const step = Math.max(1, Math.ceil(count / 10));
  const marks = [];
  for (let i = 0; i < count - 1; i += step) {
    const mark = s("text", { x: x(i), y: height - 2, class: "mark" });
    mark.textContent = n(i + 1);
    marks.push(mark);
  }
  return marks;
}

function log(trace) {
  const rows = [];
  for (const [event, chunk] of trace.events()) {
    if (rows.length === LOGGED) break;
    rows.push([event, chunk]);
  }
  const when = (chunk) => (trace.chunks[chunk]?.at === undefined ? "" : t("at", { seconds: n(trace.chunks[chunk].at, 3) }));
  return h(
    "details",
    {},
    h("summary", {}, t("timeline log")),
    h("ol", { class: "log", tabindex: 0 }, rows.map(([event, chunk]) => {
      const line = eventLine(event);
      line.prepend(h("small", { class: "when" }, chunk < trace.chunks.length ? `${chunk + 1} ${when(chunk)}` : t("the end")));
      return line;
    })),
  );
}

customElements.define("u-timeline", Timeline);
