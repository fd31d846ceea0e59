// The page's texts in two languages.

import { kept } from "./dom.js";
import { en } from "./en.js";
import { zh } from "./zh.js";

const TEXTS = { en, zh };
export const LANGUAGES = { en: "English", zh: "中文" };

let current = kept.get("language") || (navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en");
if (!(current in TEXTS)) current = "en";

export function language() {
  return current;
}

export function speak(name) {
  current = name;
  kept.set("language", name);
}

/** A text by its key, with `{name}` filled in. */
export function t(key, values = {}) {
  const text = TEXTS[current][key] ?? en[key] ?? key;
  return text.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

/** A text by its key, or nothing if there is none. */
export function maybe(key) {
  return TEXTS[current][key] ?? en[key] ?? "";
}

export function n(value, digits = 0) {
  return new Intl.NumberFormat(current, { maximumFractionDigits: digits }).format(value);
}
