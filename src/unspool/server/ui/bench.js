// <u-bench>: paste a model's output, and see how it is parsed.

import { ask, Refused } from "./api.js";
import { after, clear, h, raw } from "./dom.js";
import { t } from "./i18n.js";
import { field } from "./try.js";

const CUT = "✂";
const CUTS = ["whole", "every", "words", "random", "hand"];

class Bench extends HTMLElement {
  seed = 1;
  comparing = false;
  state = { text: "", cuts: "words", size: 4, stage: "", reason: "stop", choice: "auto", tools: "", prompt: "" };

  set about(info) {
    this.info = info;
    this.draw();
  }

  async draw() {
    const { state } = this;
    this.text = h("textarea", { class: "code raw", rows: 10, spellcheck: "false", value: state.text, placeholder: t("raw hint"), "aria-label": t("raw"), dir: "ltr", oninput: () => this.later() });
    this.examples = h("select", { "aria-label": t("example"), onchange: ({ target }) => this.example(target.value) });
    this.detected = h("p", { class: "muted", role: "status" });
    this.a = h("u-reading", { onchanged: () => this.onReading() });
    this.b = this.comparing ? h("u-reading", { onchanged: () => this.run() }) : null;
    this.verdict = h("p", { class: "verdict", role: "status" });
    clear(
      this,
      h("header", { class: "look-head" }, h("div", {}, h("h2", {}, t("bench")), h("p", { class: "muted" }, t("bench hint")))),
      h(
        "div",
        { class: `bench-grid${this.b ? " two" : ""}` },
        h(
          "div",
          { class: "card input" },
          h("div", { class: "row" }, this.examples, h("button", { onclick: () => this.detect() }, t("detect")), h("label", { class: "check", title: t("compare says") }, h("input", { type: "checkbox", checked: this.comparing, onchange: ({ target }) => this.compare(target.checked) }), t("compare"))),
          this.detected,
          this.text,
          this.options(),
        ),
        this.verdict,
        this.a,
        this.b,
      ),
    );
    await this.a.setUp(this.info, this.dialectA ?? this.info.dialects.find(({ name }) => name === this.info.dialect)?.name ?? this.info.dialects[0].name, this.b ? t("a") : "");
    if (this.b) await this.b.setUp(this.info, this.dialectB ?? this.a.dialect, t("b"));
    this.listExamples();
    if (this.text.value) this.run();
    else await this.example(this.richest());
  }

  options() {
    const { state } = this;
    this.controls = {};
    const keep = (name, node) => {
      this.controls[name] = node;
      node.addEventListener("input", () => {
        state[name] = node.value;
        this.later();
      });
      return node;
    };
    const select = (name, values) => keep(name, h("select", {}, values.map(([value, text]) => h("option", { value, selected: state[name] === value }, text))));
    this.size = keep("size", h("input", { type: "number", min: 1, max: 1000, value: String(state.size) }));
    this.sizeField = field(t("cut size"), this.size);
    this.toolsWrong = h("p", { class: "error", role: "status" });
    this.tools = keep("tools", h("textarea", { class: "code", rows: 6, spellcheck: "false", value: state.tools, placeholder: t("json unknown"), dir: "ltr" }));
    this.cutSays = h("small", { class: "muted" });
    return [
      h(
        "div",
        { class: "pair" },
        field(t("cuts"), select("cuts", CUTS.map((cut) => [cut, t(`cut ${cut}`)]))),
        this.sizeField,
        h("div", { class: "field" }, this.cutSays, h("div", { class: "row" }, h("button", { class: "quiet", onclick: () => this.recut() }, t("cut again")), h("button", { class: "quiet", onclick: () => this.cutHere() }, t("cut here")))),
      ),
      h(
        "div",
        { class: "pair" },
        field(t("begins"), select("stage", [["", t("begins default")], ...this.info.stages.map((stage) => [stage, stage])])),
        field(t("reason"), select("reason", ["stop", "length", "content_filter"].map((reason) => [reason, reason]))),
        field(t("tool choice"), select("choice", ["auto", "required", "none"].map((choice) => [choice, choice]))),
      ),
      h("details", {}, h("summary", {}, t("tools")), this.tools, this.toolsWrong, field(t("prompt optional"), keep("prompt", h("textarea", { class: "code", rows: 3, value: state.prompt, dir: "ltr" })))),
    ];
  }

  // -- the source of the text ------------------------------------------------------------------------------------------

  listExamples() {
    const options = this.a.details.examples.map((example, i) => h("option", { value: String(i) }, `${i + 1}. ${summary(example)}`));
    clear(this.examples, h("option", { value: "" }, t("example pick")), options);
  }

  /** The example that shows the most. */
  richest() {
    const rich = ({ tool_calls: calls, reasoning, content }) => 2 * Math.min(calls.length, 3) + 2 * Boolean(reasoning) + Boolean(content);
    const all = this.a.details.examples;
    return String(all.reduce((best, example, i) => (rich(example) > rich(all[best]) ? i : best), 0));
  }

  async example(value) {
    if (value === "") return;
    const one = this.a.details.examples[Number(value)];
    if (!one) return;
    Object.assign(this.state, { stage: one.stage ?? "", tools: JSON.stringify(this.a.details.tools, null, 2), prompt: "" });
    this.set({ text: one.raw[0] });
    this.shownExample = this.text.value;
    this.examples.value = value;
  }

  /** Change the text, and parse it. */
  set(changes) {
    Object.assign(this.state, changes);
    this.text.value = this.state.text;
    for (const [name, node] of Object.entries(this.controls)) node.value = this.state[name];
    this.run();
  }

  async detect() {
    try {
      const { candidates } = await ask("/ui/detect", { output: this.text.value });
      const best = candidates[0];
      clear(this.detected, best ? t("detected", best) : t("detect nothing"));
      if (best) await this.a.choose(best.dialect);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      clear(this.detected, h("span", { class: "error" }, ...raw(error.message)));
    }
  }

  compare(on) {
    this.comparing = on;
    this.state.text = this.text.value;
    this.dialectA = this.a.dialect;
    this.draw();
  }

  async onReading() {
    if (this.a.dialect !== this.dialectA) {
      this.dialectA = this.a.dialect;
      this.listExamples();
      // Another dialect has another format: its own example shows more than a text that it cannot parse.
      const untouched = !this.text.value || this.text.value === this.shownExample;
      if (untouched && this.a.details.examples.length) {
        await this.example(this.richest());
        return;
      }
    }
    this.run();
  }

  // -- parsing ---------------------------------------------------------------------------------------------------------

  later = after(250, () => this.run());

  recut() {
    this.seed += 1;
    if (this.state.cuts !== "random") this.set({ cuts: "random", text: this.text.value });
    else this.run();
  }

  cutHere() {
    const at = this.text.selectionStart;
    this.text.setRangeText(CUT, at, this.text.selectionEnd, "end");
    this.text.focus();
    this.set({ cuts: "hand", text: this.text.value });
    this.text.setSelectionRange(at + 1, at + 1);
  }

  pieces() {
    const { cuts } = this.state;
    const text = this.text.value;
    const size = Math.max(1, Number(this.state.size) || 4);
    if (cuts === "hand") return text.split(CUT);
    if (cuts === "whole") return [text];
    if (cuts === "words") return text.match(/\s?[\p{L}\p{N}_]+|\s+|[^\s\p{L}\p{N}_]{1,2}/gu) ?? [""];
    return [...cutBy(Array.from(text), cuts === "every" ? () => size : random(this.seed, size))];
  }

  given() {
    const given = { finish_reason: this.state.reason };
    if (this.state.stage) given.stage = this.state.stage;
    if (this.state.prompt) given.prompt = this.state.prompt;
    const text = this.tools.value.trim();
    if (text) given.tools = JSON.parse(text);
    if (text && this.state.choice !== "auto") given.tool_choice = this.state.choice;
    return given;
  }

  async run() {
    this.state.text = this.text.value;
    this.sizeField.hidden = !["every", "random"].includes(this.state.cuts);
    this.cutSays.textContent = this.state.cuts === "hand" ? t("cut hand says", { mark: CUT }) : "";
    let given;
    try {
      given = this.given();
      this.toolsWrong.textContent = "";
    } catch (error) {
      this.toolsWrong.textContent = t("tools wrong", { why: error.message });
      return;
    }
    const pieces = this.pieces();
    const found = await Promise.all([this.a, this.b].filter(Boolean).map((reading) => reading.read(pieces, { ...given })));
    this.judge(...found);
    await this.advise(found[0]);
  }

  /** Name another dialect if this one has no marker in the output, and that one has. */
  async advise(trace) {
    const plain = trace && [...trace.events()].every(([{ type }]) => type === "content_delta" || type === "finish");
    if (!plain || !this.text.value.trim() || this.a.toml !== null) {
      if (this.advised) clear(this.detected);
      this.advised = "";
      return;
    }
    const asked = `${this.a.dialect} ${this.text.value}`;
    if (this.advised === asked) return;
    this.advised = asked;
    const { candidates } = await ask("/ui/detect", { output: this.text.value });
    const best = candidates.find(({ dialect }) => dialect !== this.a.dialect);
    if (this.advised !== asked) return;
    clear(this.detected, best ? [t("nothing fits", { dialect: this.a.dialect, other: best.dialect, reason: best.reason }), " ", h("button", { class: "quiet", onclick: () => this.a.choose(best.dialect) }, t("read with", { other: best.dialect }))] : null);
  }

  judge(a, b) {
    if (!this.b || !a || !b) {
      clear(this.verdict);
      return;
    }
    const parts = ["reasoning", "content", "tool_calls", "notices"].filter((part) => JSON.stringify(same(a.message[part])) !== JSON.stringify(same(b.message[part])));
    const names = { reasoning: "reasoning", content: "content", tool_calls: "call", notices: "notices" };
    this.verdict.className = `verdict ${parts.length ? "differ" : "good"}`;
    clear(this.verdict, parts.length ? t("differ", { what: parts.map((part) => t(names[part])).join(", ") }) : t("same"));
  }
}

/** The message without generated ids, for comparisons. */
function same(part) {
  return Array.isArray(part) ? part.map(({ name, arguments: json, status, kind, detail, start }) => ({ name, json, status, kind, detail, start })) : part;
}

function summary({ content, reasoning, tool_calls: calls }) {
  const parts = [];
  if (reasoning) parts.push(t("reasoning"));
  if (calls.length) parts.push(calls.map((call) => call.name).join(", "));
  if (content) parts.push(content.replace(/\s+/g, " ").slice(0, 40));
  return parts.join(" · ");
}

function* cutBy(points, size) {
  let at = 0;
  while (at < points.length) {
    const step = size();
    yield points.slice(at, at + step).join("");
    at += step;
  }
}

/** Random sizes around an average; the same seed gives the same sizes. */
function random(seed, size) {
  let state = seed * 2654435761;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return 1 + Math.floor((state / 2 ** 32) * (2 * size - 1));
  };
}

customElements.define("u-bench", Bench);
