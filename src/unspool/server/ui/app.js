// <u-app>: the frame around the views: which one is shown, the language, the colours, recordings, and the key.

import { ask, onKeyNeeded, Refused } from "./api.js";
import { clear, h, kept, raw, s } from "./dom.js";
import { LANGUAGES, language, speak, t } from "./i18n.js";
import { setProtocols } from "./look.js";
import { setNotices } from "./message.js";
import { readRecordings } from "./trace.js";
import "./bench.js";
import "./chips.js";
import "./reading.js";
import "./sessions.js";
import "./timeline.js";
import "./try.js";

const VIEWS = ["try", "look", "bench", "sessions"];
const THEMES = ["auto", "light", "dark"];

class App extends HTMLElement {
  async connectedCallback() {
    this.views = { try: h("u-try"), look: h("u-look"), bench: h("u-bench"), sessions: h("u-sessions") };
    this.paint(kept.get("theme", "auto"));
    this.draw();
    addEventListener("hashchange", () => this.route());
    this.addEventListener("look", ({ detail }) => this.look(detail.traces, detail.at));
    this.addEventListener("answered", ({ detail }) => this.views.look.show(detail.traces));
    this.watchDrops();
    onKeyNeeded((again) => this.askKey(again));
    await this.load();
  }

  async load() {
    try {
      this.about = await ask("/ui/about");
      document.title = `unspool · ${this.about.model}`;
      setNotices(this.about.notices);
      setProtocols(this.about.protocols);
      this.views.try.about = this.about;
      this.views.bench.about = this.about;
      this.querySelector("[data-view=sessions]").hidden = !this.about.sessions;
      const { recordings } = await ask("/ui/recordings");
      if (recordings) await this.open(recordings, "");
    } catch (error) {
      this.fail(error);
    }
  }

  draw() {
    document.documentElement.lang = language() === "zh" ? "zh-CN" : "en";
    this.main = h("main", { id: "main", tabindex: -1 });
    this.alerts = h("div", { class: "alerts", role: "alert" });
    this.tabs = VIEWS.map((name) => h("a", { href: `#${name}`, "data-view": name, hidden: name === "sessions" && !this.about?.sessions }, t(name)));
    clear(
      this,
      h("a", { class: "skip", href: "#main", onclick: (event) => this.skip(event) }, t("skip")),
      h(
        "header",
        { class: "top" },
        h("h1", {}, h("a", { class: "brand", href: "#try" }, h("img", { src: "/ui/spool.svg", alt: "", width: 26, height: 26 }), "unspool")),
        h("nav", { "aria-label": t("views") }, this.tabs),
        h("div", { class: "tools" }, this.fileButton(), this.themeButton(), this.languageButton()),
      ),
      this.alerts,
      this.main,
    );
    this.route();
  }

  skip(event) {
    event.preventDefault();
    this.main.focus();
  }

  route() {
    const asked = location.hash.slice(1);
    const name = VIEWS.includes(asked) ? asked : "try";
    for (const tab of this.tabs) {
      if (tab.dataset.view === name) tab.setAttribute("aria-current", "page");
      else tab.removeAttribute("aria-current");
    }
    if (this.main.firstChild === this.views[name]) return;
    clear(this.main, this.views[name]);
    scrollTo(0, 0);
  }

  // -- the frame's tools -----------------------------------------------------------------------------------------------

  fileButton() {
    const input = h("input", { type: "file", accept: ".jsonl,.json,.txt", hidden: true, onchange: ({ target }) => this.openFile(target.files[0]) });
    return [input, h("button", { class: "icon", title: t("open file"), "aria-label": t("open file"), onclick: () => input.click() }, icon("M4 7a2 2 0 0 1 2-2h4l2 2h6a2 2 0 0 1 2 2v8a2 2 0 0 1-2 2H6a2 2 0 0 1-2-2z"))];
  }

  themeButton() {
    const which = kept.get("theme", "auto");
    const paths = { auto: "M12 3a9 9 0 1 0 0 18zM12 3a9 9 0 0 1 0 18", light: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.5 1.5M17.5 17.5 19 19M5 19l1.5-1.5M17.5 6.5 19 5", dark: "M20 14A8.5 8.5 0 0 1 10 4a8.5 8.5 0 1 0 10 10z" };
    const label = t("theme", { which: t(which) });
    const button = h("button", {
      class: "icon",
      title: label,
      "aria-label": label,
      onclick: () => {
        this.paint(THEMES[(THEMES.indexOf(kept.get("theme", "auto")) + 1) % THEMES.length]);
        button.replaceWith(this.themeButton());
        this.querySelector(".tools button:nth-of-type(2)").focus();
      },
    }, icon(paths[which]));
    return button;
  }

  paint(theme) {
    kept.set("theme", theme);
    document.documentElement.dataset.theme = theme;
  }

  languageButton() {
    const other = Object.keys(LANGUAGES).find((name) => name !== language());
    return h("button", { class: "language", lang: other === "zh" ? "zh-CN" : "en", onclick: () => this.turnTo(other) }, LANGUAGES[other]);
  }

  turnTo(name) {
    speak(name);
    this.draw();
    for (const view of Object.values(this.views)) if (view.childElementCount) view.draw();
    this.querySelector(".language").focus();
  }

  // -- recordings ------------------------------------------------------------------------------------------------------

  watchDrops() {
    let depth = 0;
    const files = (event) => event.dataTransfer?.types.includes("Files");
    addEventListener("dragenter", (event) => {
      if (!files(event)) return;
      depth += 1;
      this.dataset.drop = t("drop here");
    });
    addEventListener("dragleave", (event) => {
      if (files(event) && --depth <= 0) delete this.dataset.drop;
    });
    addEventListener("dragover", (event) => files(event) && event.preventDefault());
    addEventListener("drop", (event) => {
      if (!files(event)) return;
      event.preventDefault();
      depth = 0;
      delete this.dataset.drop;
      this.openFile(event.dataTransfer.files[0]);
    });
  }

  async openFile(file) {
    if (file) await this.open(await file.text(), file.name);
  }

  async open(text, from) {
    let traces;
    try {
      traces = readRecordings(text);
    } catch (error) {
      this.alert(t("not a recording", { why: error.message }));
      return;
    }
    try {
      for (const trace of traces) {
        trace.from = trace.asked.messages?.findLast?.(({ role }) => role === "user")?.content?.slice?.(0, 40) || from;
        await trace.read();
      }
      this.look(traces, 0);
    } catch (error) {
      this.fail(error);
    }
  }

  look(traces, at) {
    this.views.look.show(traces, at);
    if (location.hash === "#look") this.route();
    else location.hash = "#look";
    scrollTo(0, 0);
  }

  // -- errors, and the API key -----------------------------------------------------------------------------------------

  fail(error) {
    if (!(error instanceof Refused)) throw error;
    this.alert(error.message);
  }

  alert(text) {
    const line = h("p", { class: "error" }, ...raw(text), h("button", { class: "quiet", "aria-label": t("close"), onclick: () => line.remove() }, "×"));
    clear(this.alerts, line);
  }

  askKey(again) {
    return new Promise((resolve) => {
      const input = h("input", { type: "password", autocomplete: "off", "aria-label": t("key title"), required: true });
      const dialog = h(
        "dialog",
        {
          class: "key",
          onclose: () => {
            const given = dialog.returnValue === "ok" ? input.value.trim() : "";
            dialog.remove();
            resolve(given || null);
          },
        },
        h(
          "form",
          {
            onsubmit: (event) => {
              event.preventDefault();
              dialog.close("ok");
            },
          },
          h("h2", {}, t("key title")),
          h("p", {}, t("key ask")),
          again ? h("p", { class: "error" }, t("key wrong")) : null,
          input,
          h("div", { class: "row end" }, h("button", { type: "button", onclick: () => dialog.close("") }, t("cancel")), h("button", { class: "primary" }, t("key enter"))),
        ),
      );
      this.append(dialog);
      dialog.showModal();
    });
  }
}

function icon(path) {
  return s("svg", { viewBox: "0 0 24 24", width: 20, height: 20, "aria-hidden": "true", class: "glyph" }, s("path", { d: path }));
}

customElements.define("u-app", App);
