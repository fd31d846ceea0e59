// Saves a view as a recording.

import { download, h } from "./dom.js";
import { t } from "./i18n.js";

export function saveButton(trace, label = t("save")) {
  return h("button", { class: "save", onclick: () => download("unspool-recording.jsonl", trace.recording()) }, label);
}

/** A button that copies a text, if the browser allows it. */
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
