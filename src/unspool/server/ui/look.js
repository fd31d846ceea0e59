// <u-look>: one output, from the prompt to the bytes that clients get.

import { ask, Refused } from "./api.js";
import { clear, h, long, raw } from "./dom.js";
import { n, t } from "./i18n.js";
import { meaningOf } from "./message.js";
import { copyButton, saveButton } from "./saving.js";

const SECTIONS = ["prompt", "output", "timeline", "message", "notices", "protocols", "grammar"];

class Look extends HTMLElement {
  traces = [];
  at = 0;

  /** Show traces: the answers of a conversation, or the recordings of a file. */
  show(traces, at = traces.length - 1) {
    this.traces = traces;
    this.at = at;
    this.draw();
  }

  connectedCallback() {
    this.draw();
  }

  draw() {
    const trace = this.traces[this.at];
    if (!trace) {
      clear(this, h("section", { class: "nothing" }, h("h2", {}, t("look nothing")), h("p", {}, t("look how"))));
      return;
    }
    this.trace = trace;
    this.chips = h("u-chips");
    clear(this, this.head(trace), this.contents(), this.sections(trace));
  }

  head(trace) {
    const characters = trace.chunks.reduce((sum, chunk) => sum + chunk.text.length, 0);
    const events = [...trace.events()].length;
    const picker = h(
      "select",
      { "aria-label": t("several recordings"), onchange: ({ target }) => this.show(this.traces, Number(target.value)) },
      this.traces.map((one, i) => h("option", { value: String(i), selected: i === this.at }, `${t("look latest")} ${i + 1}${one.from ? ` · ${one.from}` : ""}`)),
    );
    return h(
      "header",
      { class: "look-head" },
      h("div", {}, h("h2", {}, t("look")), h("p", { class: "muted" }, t("overview", { dialect: trace.named ?? trace.asked.dialect ?? "", chunks: n(trace.chunks.length), characters: n(characters), events: n(events) }))),
      h("div", { class: "row" }, this.traces.length > 1 ? picker : null, saveButton(trace)),
    );
  }

  contents() {
    return h("nav", { class: "contents", "aria-label": t("sections") }, SECTIONS.map((name) => h("button", {
      class: "quiet",
      onclick: () => this.querySelector(`#s-${name}`).scrollIntoView({ behavior: "smooth", block: "start" }),
    }, t(name))));
  }

  sections(trace) {
    const timeline = h("u-timeline", { onchunk: ({ detail }) => this.go(detail) });
    const message = h("u-message");
    const notices = this.notices(trace);
    const protocols = h("div", {});
    const grammar = h("div", {});
    const made = [
      section("prompt", t("prompt says"), prompt(trace)),
      section("output", "", this.chips),
      section("timeline", t("timeline says"), timeline),
      section("message", "", message, outcome(trace)),
      section("notices", "", notices),
      section("protocols", t("protocols says"), protocols),
      section("grammar", t("grammar says"), grammar),
    ];
    queueMicrotask(() => {
      this.chips.trace = trace;
      timeline.trace = trace;
      message.trace = trace;
    });
    whenSeen(protocols, () => showProtocols(protocols, trace));
    whenSeen(grammar, () => showGrammar(grammar, trace));
    return made;
  }

  notices(trace) {
    const found = trace.notices;
    if (!found.length) return h("p", { class: "muted" }, t("notices none"));
    return h("ul", { class: "notices" }, found.map(([event, chunk]) => h(
      "li",
      {},
      h("span", { class: "tag k-notice" }, event.kind),
      event.detail ? h("code", { dir: "auto" }, ...raw(event.detail)) : null,
      h("span", {}, meaningOf(event.kind)),
      h("button", { class: "quiet", onclick: () => this.go(chunk) }, t("notice at", { at: event.start, chunk: Math.min(chunk + 1, trace.chunks.length) })),
    )));
  }

  go(chunk) {
    if (this.trace.chunks.length) this.chips.show(chunk);
  }
}

function section(name, says, ...children) {
  return h("section", { id: `s-${name}`, class: "card" }, h("h3", {}, t(name)), says ? h("p", { class: "muted" }, says) : null, children);
}

/** The finish reason and the usage, below the answer's text. */
export function outcome(trace) {
  const parts = [];
  if (trace.error) parts.push(h("p", { class: "error", role: "alert" }, `${t("failed")}: `, ...raw(trace.error.message)));
  else if (trace.cancelled) parts.push(h("p", { class: "warning" }, t("stopped")));
  else if (!trace.over) parts.push(h("p", { class: "warning", role: "alert" }, t("cut")));
  if (trace.finish) parts.push(h("p", { class: "muted" }, t("finished", { reason: trace.finish })));
  return parts;
}

function whenSeen(node, work) {
  const watch = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    watch.disconnect();
    work();
  }, { rootMargin: "200px" });
  node.append(h("p", { class: "muted" }, t("loading")));
  watch.observe(node);
}

// -- the prompt -------------------------------------------------------------------------------------------------------

function prompt(trace) {
  const { prompt: text, special = [], messages, media = [] } = trace.asked;
  const stage = trace.begins ? h("p", {}, `${t("stage")}: `, h("code", {}, trace.begins)) : null;
  if (Array.isArray(text)) return [h("p", {}, t("prompt ids", { count: n(text.length) })), stage];
  if (typeof text !== "string") {
    if (!messages?.length) return [h("p", {}, t("prompt unknown")), stage];
    return [h("p", {}, t("prompt none")), h("pre", { class: "prompt", tabindex: 0, dir: "ltr" }, coloured(JSON.stringify(messages, null, 2), [])), stage];
  }
  const body = h("pre", { class: "prompt", tabindex: 0, dir: "ltr" }, pictured(text, special, media));
  return [body.querySelector("mark:not([title])") ? h("p", { class: "muted" }, t("prompt special")) : null, body, stage];
}

/** A prompt with its media behind their placeholders; their places count characters, not units of UTF-16. */
function pictured(text, special, media) {
  if (!media.length) return coloured(text, special);
  const characters = [...text];
  let at = 0;
  const parts = media.flatMap((medium) => {
    const before = characters.slice(at, Math.max(at, medium.end)).join("");
    at = Math.max(at, medium.end);
    return [...coloured(before, special), picture(medium)];
  });
  return [...parts, ...coloured(characters.slice(at).join(""), special)];
}

function picture({ kind, type, sha256 = "", url = "" }) {
  const label = `${kind} ${type} ${sha256.slice(0, 12)}`;
  if (!/^data:image\/(png|jpeg|gif|webp);base64,/.test(url)) return h("mark", { title: label }, `[${kind}]`);
  return h("img", { class: "medium", src: url, alt: label, title: label });
}

function coloured(text, special) {
  if (!special.length) return long(text, (count) => t("more", { count: n(count) }));
  const longest = [...special].sort((a, b) => b.length - a.length);
  const pattern = new RegExp(`(${longest.map((token) => token.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&")).join("|")})`);
  return text.split(pattern).flatMap((part, i) => (i % 2 ? h("mark", {}, ...raw(part)) : long(part, (count) => t("more", { count: n(count) }))));
}

// -- protocols --------------------------------------------------------------------------------------------------------

let protocols = [];

export function setProtocols(names) {
  protocols = names;
}

const NAMES = { chat: "Chat completions", responses: "Responses", messages: "Messages", "ag-ui": "AG-UI", mindie: "MindIE", candle: "candle" };

function showProtocols(node, trace) {
  let name = protocols[0];
  let form = "stream";
  let result = null;
  const size = h("small", { class: "muted" });
  const bytes = h("pre", { class: "bytes", tabindex: 0, dir: "ltr" });
  const draw = () => {
    size.textContent = t("bytes", { count: n(new TextEncoder().encode(result[form]).length) });
    clear(bytes, long(result[form], (count) => t("more", { count: n(count) })));
  };
  const load = async () => {
    try {
      result = await ask("/ui/protocol", { ...trace.asParse(), protocol: name });
      draw();
    } catch (error) {
      clear(bytes, failure(error));
    }
  };
  const tabs = choices(t("protocol"), protocols.map((one) => [one, NAMES[one] ?? one]), name, (chosen) => {
    name = chosen;
    load();
  });
  const forms = choices(t("protocols"), ["stream", "whole"].map((one) => [one, t(one)]), form, (chosen) => {
    form = chosen;
    if (result) draw();
  });
  clear(node, h("div", { class: "row" }, tabs, forms, size, copyButton(() => result?.[form] ?? "")), bytes);
  load();
}

/** Radio buttons in a row. */
export function choices(label, options, chosen, take) {
  const group = `g${Math.random().toString(36).slice(2)}`;
  return h(
    "div",
    { class: "choices", role: "radiogroup", "aria-label": label },
    options.map(([value, text]) => h("label", {}, h("input", { type: "radio", name: group, value, checked: value === chosen, onchange: () => take(value) }), h("span", {}, text))),
  );
}

function failure(error) {
  if (!(error instanceof Refused)) throw error;
  return h("p", { class: "error", role: "alert" }, ...raw(error.message));
}

// -- the grammar ------------------------------------------------------------------------------------------------------

async function showGrammar(node, trace) {
  try {
    const found = trace.request ? await ask("/ui/prompt", trace.request) : await ask("/ui/grammar", grammarOf(trace));
    if (!found.grammar) {
      clear(node, h("p", { class: "muted" }, t("grammar none")));
      return;
    }
    clear(node, trace.asked.constrained === false ? h("p", { class: "muted" }, t("grammar free")) : null, forms(found.grammar));
  } catch (error) {
    clear(node, failure(error));
  }
}

function grammarOf(trace) {
  const { pieces, finish_reason, ...body } = trace.asParse();
  return body;
}

function forms(grammar) {
  const body = h("pre", { class: "bytes", tabindex: 0, dir: "ltr" });
  let shown = "";
  const draw = (form) => {
    const { grammar: text, error } = grammar[form];
    shown = typeof text === "string" ? text : JSON.stringify(text, null, 2);
    if (error) clear(body, h("span", { class: "error" }, ...raw(error)));
    else clear(body, long(shown, (count) => t("more", { count: n(count) })));
  };
  draw("lark");
  return [h("div", { class: "row" }, choices(t("grammar form"), Object.keys(grammar).map((form) => [form, form]), "lark", draw), copyButton(() => shown)), body];
}

customElements.define("u-look", Look);
