// <u-message>: an answer for people: reasoning folded, text, calls as cards, and notices where they occurred.

import { clear, extend, h, long, prose, soon } from "./dom.js";
import { maybe, n, t } from "./i18n.js";

let meanings = {};

/** What notices mean; the texts come from the server. */
export function setNotices(texts) {
  meanings = texts;
}

export function meaningOf(kind) {
  return maybe(`notice ${kind}`) || meanings[kind] || "";
}

const PREVIEW = 90;
const SHOWN = 200000; // characters of a part; longer ones make the page slow

class Message extends HTMLElement {
  queue = [];
  part = null;
  calls = new Map();

  connectedCallback() {
    this.classList.add("message");
  }

  reset() {
    this.queue = [];
    this.part = null;
    this.calls = new Map();
    clear(this);
  }

  /** Take events; they are shown at the next frame, so that a fast stream costs no more than a slow one. */
  add(events) {
    if (!events.length) return;
    if (!this.queue.length) soon(() => this.flush());
    for (const event of events) this.queue.push(event); // a whole output may have more events than a call takes arguments
  }

  flush() {
    const events = this.queue;
    this.queue = [];
    for (const event of joined(events)) this.show(event);
  }

  /** Show a whole trace. */
  set trace(trace) {
    this.reset();
    this.queue = [...trace.events()].map(([event]) => event);
    this.flush();
    if (!this.childElementCount) this.append(h("p", { class: "muted" }, t("empty message")));
  }

  show(event) {
    switch (event.type) {
      case "reasoning_delta":
        return this.text("reasoning", event.text);
      case "content_delta":
        return this.text("content", event.text);
      case "reasoning_end":
        this.part = null;
        return undefined;
      case "tool_call_start":
        this.part = null;
        return this.call(event);
      case "tool_call_delta":
        return this.calls.get(event.index)?.grow(event.arguments);
      case "tool_call_end":
        return this.calls.get(event.index)?.end(event);
      case "notice":
        return this.notice(event);
      default:
        return undefined;
    }
  }

  text(kind, text) {
    if (this.part?.kind !== kind) this.part = kind === "reasoning" ? this.openReasoning() : this.openContent();
    this.part.put(text);
  }

  openContent() {
    const body = h("div", { class: "part content", dir: "auto" });
    this.append(body);
    return { kind: "content", put: limited(body) };
  }

  openReasoning() {
    const preview = h("span", { class: "preview", dir: "auto" });
    const count = h("span", { class: "muted count" });
    const body = h("div", { class: "body", dir: "auto" });
    const summary = h("summary", {}, h("span", { class: "tag k-reasoning" }, t("reasoning")), count, preview);
    this.append(h("details", { class: "part reasoning" }, summary, body));
    const put = limited(body);
    let size = 0;
    let tail = "";
    return {
      kind: "reasoning",
      put(text) {
        size += text.length;
        tail = (tail + text).slice(-PREVIEW);
        put(text);
        count.textContent = t("characters", { count: n(size) });
        clear(preview, prose((size > PREVIEW ? "…" : "") + tail.replace(/\s+/g, " ")));
      },
    };
  }

  call({ index, id, name, known }) {
    const status = h("span", { class: "status", "aria-live": "polite" });
    const body = h("pre", { class: "arguments", dir: "ltr" });
    const card = h(
      "article",
      { class: "part call", "data-id": id, "aria-label": `${t("call")} ${name}` },
      h("header", {}, h("span", { class: "tag k-call" }, t("call")), h("strong", { dir: "auto" }, ...prose(name)), known === false ? h("span", { class: "status invalid" }, t("unknown tool")) : null, h("code", { class: "muted id" }, ...prose(id)), status),
      body,
    );
    this.append(card);
    let text = "";
    const put = limited(body);
    this.calls.set(index, {
      name,
      id,
      card,
      grow(piece) {
        text += piece;
        put(piece);
      },
      end({ status: how }) {
        status.className = `status ${how}`;
        status.textContent = t(how);
        card.classList.add("over", how);
        const pretty = how === "invalid" ? null : readable(text);
        if (pretty !== null) clear(body, long(pretty, (count) => t("more", { count: n(count) }), SHOWN));
      },
    });
  }

  notice({ kind, detail }) {
    this.append(
      h("p", { class: "part notice", title: meaningOf(kind) }, h("span", { class: "tag k-notice" }, kind), detail ? h("code", { dir: "auto" }, ...prose(detail)) : null, h("span", { class: "muted" }, meaningOf(kind))),
    );
  }
}

/** Merge consecutive deltas of one kind. */
function* joined(events) {
  let last = null;
  for (const event of events) {
    const field = event.type === "tool_call_delta" ? "arguments" : "text";
    if (last && last.type === event.type && event.type.endsWith("_delta") && last.index === event.index) {
      last.parts.push(event[field]);
      continue;
    }
    if (last) yield whole(last);
    last = { ...event, field, parts: [event[field] ?? ""] };
  }
  if (last) yield whole(last);
}

function whole({ parts, field, ...event }) {
  return event.type.endsWith("_delta") ? { ...event, [field]: parts.join("") } : event;
}

/** A function that appends text to an element; of very long text, the rest waits until the user asks for it. */
function limited(body) {
  let shown = 0;
  let rest = [];
  let button = null;
  return (text) => {
    const room = Math.max(SHOWN - shown, 0);
    const now = text.slice(0, room);
    shown += now.length;
    if (now) extend(body, now);
    if (text.length <= room) return;
    rest.push(text.slice(room));
    const count = rest.reduce((sum, piece) => sum + piece.length, 0);
    if (!button) {
      button = h("button", {
        class: "quiet",
        onclick() {
          button.remove();
          body.append(...prose(rest.join("")));
          shown = -Infinity;
          rest = [];
          button = null;
        },
      });
      body.after(button);
    }
    button.textContent = t("more", { count: n(count) });
  };
}

function readable(text) {
  if (text.length > SHOWN) return null;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return null; // it is shown unchanged
  }
}

customElements.define("u-message", Message);
