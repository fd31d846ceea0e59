// <u-sessions>: the runs of agents that the server records: their calls as a tree, their rows token by token.

import { ask, Refused } from "./api.js";
import { clear, h, raw } from "./dom.js";
import { n, t } from "./i18n.js";

const COLOURS = { reasoning: "reasoning", content: "content", calls: "call", markers: "marker", results: "arguments", constrained: "notice", prompt: "unsaid" };

class Sessions extends HTMLElement {
  connectedCallback() {
    this.draw();
  }

  async draw() {
    this.list = h("ul", { class: "sessions" });
    this.shown = h("div", {});
    clear(this, h("h2", {}, t("sessions")), h("p", { class: "muted" }, t("sessions says")), this.list, this.shown);
    try {
      await this.listAll();
    } catch (error) {
      this.fail(error);
    }
  }

  async listAll() {
    let found = [];
    let page;
    do {
      ({ data: page } = await ask(`/sessions${found.length ? `?after=${found.at(-1).place}` : ""}`, null));
      found = [...found, ...page];
    } while (page.length);
    if (!found.length) clear(this.list, h("li", { class: "muted" }, t("sessions none")));
    else clear(this.list, found.reverse().map((one) => h("li", {}, h("button", { onclick: () => this.open(one.id) }, one.id), ` ${one.status}`, one.reward === null ? "" : ` · ${t("reward")} ${n(one.reward, 6)}`)));
  }

  async open(id) {
    try {
      const found = await ask(`/sessions/${id}/trajectory`, null);
      clear(this.shown, this.tree(found), this.legend(), found.rows.map((row) => this.row(row)));
      this.shown.scrollIntoView({ block: "start" });
    } catch (error) {
      this.fail(error);
    }
  }

  /** Calls below each other; only where several continue one, they are indented. */
  tree(found) {
    const below = Map.groupBy(found.calls, (call) => call.parent);
    const branch = (calls) => h("ul", { class: "tree" }, calls.flatMap((call) => {
      const items = [h("li", {}, this.call(call))];
      let next = below.get(call.id) ?? [];
      for (; next.length === 1; next = below.get(next[0].id) ?? []) items.push(h("li", {}, this.call(next[0])));
      return next.length ? [...items, h("li", {}, branch(next))] : items;
    }));
    return h(
      "section",
      { class: "card" },
      h("h3", {}, found.id, h("small", { class: found.exact ? "good" : "warning" }, t(found.exact ? "exact" : "not exact"))),
      found.problems.map((problem) => h("p", { class: "warning" }, ...raw(problem))),
      branch(below.get(null) ?? []),
    );
  }

  call(call) {
    const tools = call.tool_calls.map(([name, status]) => [" · ", h("code", {}, ...raw(name)), ` (${status})`]);
    const fork = call.fork ? h("span", { class: "tag k-notice" }, t("fork", { why: call.fork })) : null;
    return [t("call says", { prompt: n(call.prompt_ids.length), output: n(call.output_ids.length) }), ` · ${call.finish_reason}`, tools, " ", fork];
  }

  legend() {
    return h("ul", { class: "legend" }, Object.entries(COLOURS).map(([kind, colour]) => h("li", { class: `k-${colour}` }, h("span", { class: "swatch" }), t(`token ${kind}`))));
  }

  /** A row: the text of each run of tokens of one kind, as the server decodes it; those to learn are underlined. */
  row(row) {
    const body = h("div", { class: "prompt tokens", tabindex: 0, dir: "ltr" });
    this.fill(body, row).catch((error) => this.fail(error));
    const counts = { learnt: n(row.loss_mask.reduce((sum, one) => sum + one, 0)), all: n(row.input_ids.length), calls: n(row.calls.length) };
    return h("section", { class: "card" }, h("h3", {}, t(`role ${row.role}`), h("small", { class: "muted" }, t("row says", counts))), body);
  }

  async fill(body, { input_ids: ids, kinds, loss_mask: mask, model }) {
    for (let at = 0, end; at < ids.length; at = end) {
      end = at + 1;
      while (end < ids.length && kinds[end] === kinds[at] && mask[end] === mask[at]) end += 1;
      const { prompt } = await ask("/detokenize", { model, tokens: ids.slice(at, end) });
      const label = t(`token ${kinds[at]}`);
      body.append(h("span", { class: `tile k-${COLOURS[kinds[at]]}${mask[at] ? " learnt" : ""}`, title: label, "data-kind": kinds[at] }, ...raw(prompt)));
    }
  }

  fail(error) {
    if (!(error instanceof Refused)) throw error;
    clear(this.shown, h("p", { class: "error", role: "alert" }, ...raw(error.message)));
  }
}

customElements.define("u-sessions", Sessions);
