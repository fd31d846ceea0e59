// <u-try>: a conversation with the served model; its stream is shown as it arrives.

import { follow, Refused } from "./api.js";
import { clear, h, kept, keptInTab, prose, raw } from "./dom.js";
import { n, t } from "./i18n.js";
import { choices, outcome } from "./look.js";
import { saveButton } from "./saving.js";
import { asAssistant, Trace } from "./trace.js";

const TOOLS = [
  {
    type: "function",
    function: {
      name: "get_weather",
      description: "The weather at a place on a day.",
      parameters: {
        type: "object",
        properties: { city: { type: "string" }, day: { type: "string", description: "today, tomorrow, or a date" } },
        required: ["city"],
      },
    },
  },
  {
    type: "function",
    function: {
      name: "add_reminder",
      description: "Remind the user of something.",
      parameters: {
        type: "object",
        properties: { text: { type: "string" }, when: { type: "string" } },
        required: ["text", "when"],
      },
    },
  },
];

class Try extends HTMLElement {
  messages = [];
  traces = [];
  model = "";
  served = [];

  connectedCallback() {
    if (this.childElementCount) return;
    try {
      const { messages, traces } = JSON.parse(keptInTab.get("conversation"));
      this.traces = traces.map((trace) => Object.assign(new Trace(), trace));
      this.messages = messages;
    } catch {
      // there is none
    }
    this.draw();
    if (this.traces.length) this.answered();
  }

  /** Tell the other views of the answers, and keep the conversation. */
  answered() {
    keptInTab.set("conversation", JSON.stringify({ messages: this.messages, traces: this.traces }));
    this.dispatchEvent(new CustomEvent("answered", { bubbles: true, detail: { traces: this.traces } }));
  }

  set about(about) {
    this.served = about.models;
    this.model = about.model;
    if (this.models) this.listModels();
  }

  /** The models to choose from, if there are several. */
  listModels() {
    this.hint.textContent = this.model ? t("try hint", { model: this.model }) : "";
    this.models.hidden = this.served.length < 2;
    clear(this.models, field(t("model"), h("select", { onchange: ({ target }) => this.talkTo(target.value) }, this.served.map((name) => h("option", { value: name, selected: name === this.model }, name)))));
  }

  talkTo(model) {
    this.model = model;
    this.hint.textContent = t("try hint", { model });
  }

  draw() {
    this.redraw = Boolean(this.stop); // an answer that still arrives is stopped here, and shown again
    this.stop?.abort();
    this.hint = h("p", { class: "muted" });
    this.thread = h("div", { class: "thread", role: "log", "aria-label": t("conversation") });
    this.box = h("textarea", { rows: 2, "aria-label": t("say"), placeholder: t("say hint"), dir: "auto", onkeydown: (event) => this.key(event) });
    this.sendButton = h("button", { class: "primary", type: "submit" }, t("send"));
    const form = h("form", { class: "say", onsubmit: (event) => this.submit(event) }, this.box, this.sendButton);
    clear(
      this,
      h("header", { class: "look-head" }, h("div", {}, h("h2", {}, t("try")), this.hint), h("button", { onclick: () => this.restart() }, t("new"))),
      h("div", { class: "try-columns" }, h("div", { class: "talk" }, this.thread, form), this.settings()),
    );
    this.replay();
  }

  /** Show the conversation so far again, for example after a change of language. */
  replay() {
    let answer = 0;
    for (const message of this.messages) {
      if (message.role === "user") this.turn("user", message.content);
      else if (message.role === "assistant") this.finished(this.traces[answer], this.answer(this.traces[answer++]));
    }
    if (!this.messages.length) this.thread.append(h("div", { class: "ideas" }, ["idea 1", "idea 2", "idea 3"].map((key) => h("button", { onclick: () => this.say(t(key)) }, t(key)))));
  }

  restart() {
    this.stop?.abort();
    this.forgotten = this.coming;
    this.messages = [];
    this.traces = [];
    keptInTab.set("conversation", "");
    this.draw();
    this.box.focus();
  }

  settings() {
    this.tools = h("textarea", { rows: 14, class: "code", spellcheck: "false", value: kept.get("tools") || JSON.stringify(TOOLS, null, 2), "aria-label": t("tools"), oninput: () => this.checkTools(), dir: "ltr" });
    this.toolsWrong = h("p", { class: "error", role: "status" });
    this.choice = h("select", {}, ["auto", "required", "none"].map((value) => h("option", { value }, value)));
    this.system = h("textarea", { rows: 2, dir: "auto" });
    this.temperature = h("input", { type: "number", min: 0, max: 2, step: 0.1, placeholder: t("default") });
    this.most = h("input", { type: "number", min: 1, step: 1, placeholder: t("default") });
    this.thinks = "";
    const thinking = choices(t("thinking"), [["", t("thinking model")], ["on", t("on")], ["off", t("off")]], "", (value) => (this.thinks = value));
    this.models = h("div");
    this.listModels();
    const body = h(
      "details",
      { class: "card settings", open: matchMedia("(min-width: 900px)").matches },
      h("summary", {}, t("settings")),
      this.models,
      field(t("tools"), this.tools),
      this.toolsWrong,
      h("div", { class: "pair" }, field(t("tool choice"), this.choice), field(t("temperature"), this.temperature), field(t("max tokens"), this.most)),
      h("div", { class: "field" }, h("span", {}, t("thinking")), thinking),
      field(t("system"), this.system),
    );
    return body;
  }

  /** The tools, or null if they are invalid. */
  checkTools() {
    const text = this.tools.value.trim();
    kept.set("tools", text);
    try {
      const found = text ? JSON.parse(text) : [];
      this.toolsWrong.textContent = Array.isArray(found) ? "" : t("tools list");
      this.choice.replaceChildren(...["auto", "required", "none", ...names(found)].map((value) => h("option", { value, selected: value === this.choice.value }, value)));
      return Array.isArray(found) ? found : null;
    } catch (error) {
      this.toolsWrong.textContent = t("tools wrong", { why: error.message });
      return null;
    }
  }

  key(event) {
    const composing = event.isComposing || event.keyCode === 229; // 229: in Safari, the Enter that ends a composition
    if (event.key !== "Enter" || event.shiftKey || composing) return;
    event.preventDefault();
    this.submit(event);
  }

  submit(event) {
    event.preventDefault();
    if (this.stop) {
      this.stop.abort();
      return;
    }
    const text = this.box.value.trim();
    if (!text) return;
    this.box.value = "";
    this.say(text);
  }

  say(text) {
    this.thread.querySelector(".ideas")?.remove();
    for (const form of this.thread.querySelectorAll("form.results")) form.remove();
    this.messages.push({ role: "user", content: text });
    this.turn("user", text);
    return this.generate();
  }

  turn(role, text) {
    const node = h("article", { class: `turn ${role}`, "aria-label": t(role === "user" ? "you" : "model") }, text === undefined ? null : h("div", { class: "bubble", dir: "auto" }, ...prose(text)));
    this.thread.append(node);
    node.scrollIntoView({ block: "end" });
    return node;
  }

  body() {
    const tools = this.checkTools();
    if (tools === null) return null;
    const body = { messages: [...this.messages] };
    if (this.served.length > 1) body.model = this.model;
    if (this.system.value.trim()) body.messages.unshift({ role: "system", content: this.system.value });
    if (tools.length) {
      body.tools = tools;
      const choice = this.choice.value;
      if (choice !== "auto") body.tool_choice = ["required", "none"].includes(choice) ? choice : { type: "function", function: { name: choice } };
    }
    if (this.temperature.value !== "") body.temperature = Number(this.temperature.value);
    if (this.most.value !== "") body.max_tokens = Number(this.most.value);
    if (this.thinks) body.enable_thinking = this.thinks === "on";
    return body;
  }

  async generate() {
    const body = this.body();
    if (body === null) {
      this.tools.closest("details").open = true;
      this.tools.focus();
      return;
    }
    const trace = new Trace();
    trace.request = body;
    this.coming = trace;
    const message = this.answer(trace);
    const waiting = h("p", { class: "muted waiting" }, t("waiting"));
    message.parentElement.append(waiting);
    message.parentElement.setAttribute("aria-busy", "true"); // screen readers wait until it is complete
    this.stop = new AbortController();
    this.sendButton.textContent = t("stop");
    try {
      await follow("/ui/chat", body, (line) => {
        trace.take(line);
        if (line.events?.length) {
          waiting.remove();
          message.add(line.events);
        }
      }, this.stop.signal);
    } catch (error) {
      if (error.name === "AbortError") trace.cancelled = true;
      else if (error instanceof Refused) {
        waiting.remove();
        this.messages.pop();
        message.parentElement.append(h("p", { class: "error", role: "alert" }, `${t("refused")}: `, ...raw(error.message)));
        return;
      } else throw error;
    } finally {
      this.stop = null;
      this.sendButton.textContent = t("send");
      message.parentElement.removeAttribute("aria-busy");
      waiting.remove();
      message.flush();
    }
    if (this.forgotten === trace) return;
    this.messages.push(asAssistant(trace));
    this.traces.push(trace);
    trace.from = this.messages.findLast(({ role }) => role === "user")?.content.slice(0, 40) ?? "";
    if (this.redraw) this.draw();
    else this.finished(trace, message);
    this.answered();
  }

  answer(trace) {
    const message = h("u-message");
    this.turn("assistant").append(message);
    if (trace?.chunks.length) message.trace = trace;
    return message;
  }

  /** The line below an answer. */
  finished(trace, message) {
    const usage = trace.counted;
    const seconds = trace.last?.at ?? trace.chunks.at(-1)?.at ?? 0;
    const cost = usage ? h("small", { class: "muted" }, t("tell", { tokens: n(usage.completion_tokens), seconds: n(seconds, 2) })) : null;
    const look = h("button", { onclick: () => this.dispatchEvent(new CustomEvent("look", { bubbles: true, detail: { traces: this.traces, at: this.traces.indexOf(trace) } })) }, t("look at it"));
    message.parentElement.append(...outcome(trace), h("footer", { class: "row" }, look, saveButton(trace), cost));
    if (trace === this.traces.at(-1)) this.askResults(trace, message.parentElement);
    this.thread.lastElementChild.scrollIntoView({ block: "end" });
  }

  askResults(trace, turn) {
    const calls = asAssistant(trace).tool_calls;
    if (!calls || !trace.over || trace.error) return;
    const labels = calls.map((call, i) => t("result", { name: call.function.name }) + (calls.length > 1 ? ` (${i + 1})` : ""));
    const boxes = calls.map(() => h("textarea", { rows: 2, class: "code", dir: "auto", placeholder: t("result hint") }));
    turn.append(h(
      "form",
      {
        class: "results",
        onsubmit: (event) => {
          event.preventDefault();
          event.target.remove();
          calls.forEach((call, i) => {
            this.messages.push({ role: "tool", tool_call_id: call.id, content: boxes[i].value });
            turn.append(h("div", { class: "part result" }, h("span", { class: "tag k-arguments" }, t("result", { name: call.function.name })), h("pre", { dir: "auto" }, ...prose(boxes[i].value))));
          });
          this.generate();
        },
      },
      calls.map((call, i) => field(labels[i], boxes[i])),
      h("button", { class: "primary" }, t("send results")),
    ));
  }
}

function names(tools) {
  return Array.isArray(tools) ? tools.map((tool) => tool?.function?.name).filter((name) => typeof name === "string") : [];
}

export function field(label, control) {
  return h("label", { class: "field" }, h("span", {}, label), control);
}

customElements.define("u-try", Try);
