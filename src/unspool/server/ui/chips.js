// <u-chips>: the raw output as the engine sent it, coloured by kind; a click on a chunk explains it.

import { clear, h, raw } from "./dom.js";
import { n, t } from "./i18n.js";
import { KINDS, kindOf, tiles } from "./trace.js";

const AT_ONCE = 3000; // chunks
const LONGEST = 4000; // characters of a chunk that are shown

class Chips extends HTMLElement {
  set trace(trace) {
    this.chunks = [...tiles(trace)];
    this.grain = trace.grain;
    this.shown = 0;
    this.list = h("div", { class: "chips", role: "listbox", "aria-label": t("output"), dir: "ltr" });
    this.panel = h("div", { class: "panel", "aria-live": "polite" });
    this.list.addEventListener("pointerover", ({ target }) => this.pick(target));
    this.list.addEventListener("focusin", ({ target }) => this.pick(target));
    this.list.addEventListener("click", ({ target }) => this.pick(target));
    this.list.addEventListener("keydown", (event) => this.key(event));
    clear(this, h("p", { class: "muted grain" }, `${t(`chip ${this.grain}`, { tokens: n(count(trace)), chunks: n(trace.chunks.length) })}${t("chips say")}`), legend(), h("div", { class: "chips-and-panel" }, h("div", {}, this.list), this.panel));
    if (!trace.text) this.list.append(h("p", { class: "muted" }, t("output empty")));
    this.more();
    const first = this.list.querySelector(".chip");
    if (first) {
      first.tabIndex = 0;
      this.explain(0);
    }
  }

  more() {
    const next = this.chunks.slice(this.shown, this.shown + AT_ONCE);
    this.list.append(...next.map((chunk) => chip(chunk, this.grain)));
    this.shown += next.length;
    const left = this.chunks.length - this.shown;
    if (!left) return;
    const button = h("button", {
      class: "quiet",
      onclick: () => {
        button.remove();
        this.more();
      },
    }, t("more chunks", { count: n(left) }));
    this.list.append(button);
  }

  pick(target) {
    const found = target.closest?.(".chip");
    if (found) this.explain(Number(found.dataset.index));
  }

  key(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 10, ArrowUp: -10, Home: -Infinity, End: Infinity }[event.key];
    const here = event.target.closest(".chip");
    if (!step || !here) return;
    event.preventDefault();
    const all = [...this.list.querySelectorAll(".chip")];
    const to = all[Math.min(Math.max(all.indexOf(here) + step, 0), all.length - 1)];
    here.tabIndex = -1;
    to.tabIndex = 0;
    to.focus();
  }

  /** Explain in the panel what became of a chunk. */
  explain(index) {
    if (this.at === index && this.panel.childElementCount) return;
    this.at = index;
    for (const one of this.list.querySelectorAll(".chip.picked")) mark(one, false);
    const here = this.list.querySelector(`.chip[data-index="${index}"]`);
    if (here) mark(here, true);
    const { chunk, start, end } = this.chunks[index];
    clear(this.panel, explained(chunkName(this.grain, index, chunk), chunk, start, end));
  }

  /** Scroll a chunk into view, and explain it. */
  show(index) {
    const at = Math.min(index, this.chunks.length - 1);
    while (at >= this.shown) {
      this.list.querySelector("button")?.remove();
      this.more();
    }
    this.explain(at);
    this.list.querySelector(`.chip[data-index="${at}"]`)?.scrollIntoView({ block: "center" });
  }
}

function mark(node, picked) {
  node.classList.toggle("picked", picked);
  node.setAttribute("aria-selected", String(picked));
}

/** "Token 4", if chunks are tokens; the last chunk may hold only the finish reason. */
function chunkName(grain, index, chunk) {
  if (!chunk.text && chunk.finish_reason) return t("the end");
  return t(grain === "token" ? "token" : "chunk", { number: n(index + 1) });
}

function count(trace) {
  return trace.chunks.reduce((sum, { token_ids }) => sum + (token_ids?.length ?? 0), 0);
}

function chip({ index, chunk, tiles: parts, end }, grain) {
  const held = chunk.held && chunk.held.end === end;
  const names = [...new Set(parts.map((part) => (part.said ? t(kindOf(part.said.event)) : t("unsaid"))))];
  const notices = chunk.events.filter((event) => event.type === "notice");
  const seen = parts.length ? parts.map(tile) : [h("span", { class: "tile" }, "∅")];
  return h(
    "span",
    {
      class: `chip${held ? " held" : ""}${parts.length ? "" : " blank"}`,
      "data-index": index,
      role: "option",
      tabindex: -1,
      "aria-selected": "false",
      "aria-label": `${seen.map((node) => node.textContent).join("")} · ${[chunkName(grain, index, chunk), ...names, ...(held ? [t("held")] : [])].join(", ")}`,
    },
    seen,
    notices.map(() => h("span", { class: "flag", title: t("notice") }, "!")),
  );
}

function tile({ text, said }) {
  const kind = said ? kindOf(said.event) : "unsaid";
  const shown = text.length > LONGEST ? text.slice(0, LONGEST) + "…" : text;
  const parts = shown.split("\n");
  const nodes = parts.flatMap((part, i) => (i ? [h("span", { class: "newline" }, "↵"), "\n", ...raw(part)] : raw(part)));
  return h("span", { class: `tile k-${kind}` }, nodes);
}

function legend() {
  return h("ul", { class: "legend" }, [...KINDS, "unsaid"].map((kind) => h("li", {}, h("span", { class: `swatch k-${kind}` }), t(kind))), h("li", {}, h("span", { class: "swatch held" }), t("held")));
}

/** All that is known about a chunk, as a list. */
function explained(name, chunk, start, end) {
  const rows = [
    [t("offsets"), `${start}–${end}`],
    chunk.token_ids?.length ? [t("tokens"), chunk.token_ids.join(", ")] : null,
    [t("raw"), h("code", {}, ...raw(JSON.stringify(chunk.text.slice(0, 300))))],
    [t("gave"), chunk.events.length ? h("ul", { class: "events" }, chunk.events.slice(0, 60).map(eventLine)) : h("em", {}, t("gave none"))],
    [t("held"), chunk.held ? heldText(chunk.held) : t("held none")],
    chunk.stands ? [t("stands"), chunk.stands] : null,
  ];
  return [
    h("h4", {}, name, chunk.at === undefined ? null : h("small", {}, t("at", { seconds: n(chunk.at, 3) }))),
    h("dl", {}, rows.filter(Boolean).map(([term, value]) => [h("dt", {}, term), h("dd", {}, value)])),
  ];
}

function heldText(held) {
  const lines = [`${held.start}–${held.end}: ${t(`held ${held.why}`)}`];
  if (held.may_be?.length) lines.push(h("span", { class: "may" }, `${t("may be")} `, held.may_be.map((marker) => h("code", {}, ...raw(marker)))));
  return lines;
}

export function eventLine(event) {
  const { type, start, end, token_start, token_end, ...rest } = event;
  const span = start === undefined ? "" : `${start}–${end}`;
  const fields = Object.entries(rest).filter(([, value]) => value !== null && value !== "");
  return h(
    "li",
    {},
    h("span", { class: `tag k-${kindOf(event)}` }, type),
    h("small", { class: "muted" }, span),
    fields.map(([name, value]) => h("span", { class: "field" }, h("small", {}, name), h("code", { dir: "auto" }, ...raw(shorten(typeof value === "string" && name !== "id" ? JSON.stringify(value) : String(value)))))),
  );
}

function shorten(text) {
  return text.length > 160 ? `${text.slice(0, 160)}…` : text;
}

customElements.define("u-chips", Chips);
