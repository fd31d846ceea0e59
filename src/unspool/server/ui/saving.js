// What saves a view as a recording.

import { download, h } from "./dom.js";
import { t } from "./i18n.js";

export function saveButton(trace, label = t("save")) {
  return h("button", { class: "save", onclick: () => download("unspool-recording.jsonl", trace.recording()) }, label);
}

/** What copies a text, where the browser lets a page do so. */
export function copyButton(text) {
  if (!navigator.clipboard) return null;
  const button = h("button", {
    class: "quiet",
    onclick: async () => {
      await navigator.clipboard.writeText(text());
      button.textContent = t("copied");
      setTimeout(() => (button.textContent = t("copy")), 1500);
    },
  }, t("copy"));
  return button;
}
