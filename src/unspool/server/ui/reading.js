// <u-reading>: one way to parse an output: the dialect, the policies, and the result. The bench has one or two.

import { ask, Refused } from "./api.js";
import { after, clear, h, raw } from "./dom.js";
import { maybe, n, t } from "./i18n.js";
import { outcome } from "./look.js";
import { saveButton } from "./saving.js";
import { Trace } from "./trace.js";
import { field } from "./try.js";

class Reading extends HTMLElement {
  policy = {};
  toml = null; // the edited text
  dialect = "";
  details = null; // of the dialect

  /** The choices; `label` is A or B, or empty. */
  setUp(about, dialect, label) {
    this.about = about;
    this.dialect = dialect;
    this.label = label;
    this.draw();
    return this.load();
  }

  draw() {
    this.select = h("select", { onchange: ({ target }) => this.choose(target.value) }, this.about.dialects.map(({ name, description }) => h("option", { value: name, selected: name === this.dialect, title: description }, name)));
    this.edited = h("span", { class: "tag k-notice", hidden: this.toml === null }, t("toml edited"));
    this.about_it = h("p", { class: "muted" });
    this.policies = h("div", { class: "policies" });
    this.file = h("textarea", { class: "code", rows: 16, spellcheck: "false", dir: "ltr", "aria-label": t("toml"), oninput: () => this.edit() });
    this.checked = h("div", { role: "status" });
    this.result = h("div", { class: "result-area" });
    clear(
      this,
      h(
        "div",
        { class: "card how" },
        h("div", { class: "row" }, this.label ? h("span", { class: "badge" }, this.label) : null, field(t("dialect"), this.select), this.edited),
        this.about_it,
        h("details", {}, h("summary", {}, t("policies")), this.policies),
        h(
          "details",
          {},
          h("summary", {}, t("toml")),
          h("p", { class: "muted" }, t("toml says")),
          this.file,
          h("div", { class: "row" }, h("button", { onclick: () => this.check() }, t("toml check")), h("button", { class: "quiet", onclick: () => this.reset() }, t("toml reset"))),
          this.checked,
        ),
      ),
      this.result,
    );
  }

  async choose(name) {
    this.dialect = name;
    this.select.value = name;
    this.toml = null;
    this.policy = {};
    await this.load();
    this.changed();
  }

  async load() {
    this.details = await ask("/ui/about", { dialect: this.dialect });
    this.file.value = this.toml ?? this.details.toml;
    this.edited.hidden = this.toml === null;
    clear(this.checked);
    clear(this.about_it, this.details.description);
    clear(this.policies, Object.entries(this.about.policies).map(([name, values]) => this.policyField(name, values)));
  }

  policyField(name, values) {
    const select = h(
      "select",
      {
        onchange: ({ target }) => {
          if (target.value === "") delete this.policy[name];
          else this.policy[name] = values[Number(target.value)];
          this.changed();
        },
      },
      h("option", { value: "" }, t("policy default", { value: String(this.details.policy[name]) })),
      values.map((value, i) => h("option", { value: String(i), selected: this.policy[name] === value }, String(value))),
    );
    return h("div", {}, field(name, select), h("small", { class: "muted" }, maybe(`policy ${name}`)));
  }

  edit = after(300, () => {
    this.toml = this.file.value === this.details.toml ? null : this.file.value;
    this.edited.hidden = this.toml === null;
    this.changed();
  });

  reset() {
    this.file.value = this.details.toml;
    this.edit();
  }

  async check() {
    try {
      const { problems } = await ask("/ui/check", { toml: this.file.value });
      clear(this.checked, problems.length ? h("ul", { class: "notices" }, problems.map(({ where, what, why }) => h("li", { class: "error" }, h("code", {}, where), h("span", {}, ...raw(what)), why?.length ? h("pre", {}, ...raw(why.join("\n"))) : null))) : h("p", { class: "good" }, t("toml good")));
    } catch (error) {
      this.failed(this.checked, error);
    }
  }

  changed() {
    this.dispatchEvent(new CustomEvent("changed", { bubbles: true }));
  }

  /** Parse an output: its pieces, and the other fields of the request to `/parse`. */
  async read(pieces, given) {
    this.stop?.abort();
    const stop = (this.stop = new AbortController());
    const asked = { ...given, policy: { ...this.policy } };
    if (this.toml !== null) asked.toml = this.toml;
    asked.dialect = this.dialect;
    const trace = new Trace(asked);
    trace.chunks = pieces.map((text) => ({ text, events: [] }));
    if (given.finish_reason) trace.chunks.push({ text: "", events: [], finish_reason: given.finish_reason });
    delete asked.finish_reason;
    trace.over = true;
    const began = performance.now();
    try {
      await trace.read(stop.signal);
    } catch (error) {
      if (error.name === "AbortError") return null;
      this.failed(this.result, error);
      return null;
    }
    this.show(trace, performance.now() - began);
    return trace;
  }

  show(trace, milliseconds) {
    this.trace = trace;
    const message = h("u-message");
    const chips = h("u-chips");
    clear(
      this.result,
      h("div", { class: "card" }, h("h3", {}, t("message"), h("small", { class: "muted" }, t("read in", { milliseconds: n(milliseconds) }))), message, outcome(trace)),
      h("div", { class: "card" }, h("h3", {}, t("output")), chips),
      h("div", { class: "row" }, h("button", { onclick: () => this.dispatchEvent(new CustomEvent("look", { bubbles: true, detail: { traces: [trace], at: 0 } })) }, t("open in look")), saveButton(trace)),
    );
    message.trace = trace;
    chips.trace = trace;
  }

  failed(node, error) {
    if (!(error instanceof Refused)) throw error;
    clear(node, h("p", { class: "error", role: "alert" }, ...raw(error.message)));
  }
}

customElements.define("u-reading", Reading);
