// Makes elements. Text is never parsed as markup.

const PROPERTIES = new Set(["value", "checked", "disabled", "open", "selected", "hidden", "readOnly", "indeterminate"]);

/** An element with attributes, listeners (`onclick`) and children; strings become text. */
export function h(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (PROPERTIES.has(name)) node[name] = value;
    else if (name === "class") node.className = value;
    else if (value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** The same in SVG. */
export function s(tag, props = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(props)) if (value !== undefined) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

// Characters that are invisible, or that change how others are shown.
const TURNING = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/;
const ODD = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/;

function name(character) {
  return "U+" + character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
}

function spelled(text, odd) {
  const nodes = [];
  let plain = "";
  for (const character of text) {
    if (odd.test(character)) {
      if (plain) nodes.push(plain);
      plain = "";
      nodes.push(h("span", { class: "odd", title: name(character) }, name(character)));
    } else {
      plain += character;
    }
  }
  if (plain) nodes.push(plain);
  return nodes;
}

/** Text with direction overrides spelled out, because they would reorder the text around them. */
export function prose(text) {
  return TURNING.test(text) ? spelled(text, TURNING) : [text];
}

/** Text with every invisible character spelled out. */
export function raw(text) {
  return ODD.test(text) ? spelled(text, ODD) : [text];
}

/** Append text to an element; a long stream becomes one node, not thousands. */
export function extend(node, text) {
  const last = node.lastChild;
  if (!TURNING.test(text) && last && last.nodeType === Node.TEXT_NODE) last.appendData(text);
  else node.append(...prose(text));
}

/** Text of any length; only its beginning is shown until the user asks for the rest. */
export function long(text, more, most = 60000) {
  if (text.length <= most) return raw(text);
  const button = h("button", { class: "quiet", onclick: () => button.replaceWith(...raw(text.slice(most))) }, more(text.length - most));
  return [...raw(text.slice(0, most)), button];
}

export function clear(node, ...children) {
  node.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** Debounce a function: it runs once, this many milliseconds after the last call. */
export function after(milliseconds, work) {
  let timer;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...given), milliseconds);
  };
}

/** Run at the next frame, or soon after if the page is hidden and draws no frames. */
export function soon(work) {
  let done = false;
  const once = () => {
    if (done) return;
    done = true;
    work();
  };
  requestAnimationFrame(once);
  setTimeout(once, 100);
}

export function download(filename, text, type = "application/jsonl") {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = h("a", { href: url, download: filename });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

class Kept {
  constructor(storage) {
    this.storage = storage;
  }

  get(key, otherwise = "") {
    try {
      return this.storage().getItem(`unspool.${key}`) ?? otherwise;
    } catch {
      return otherwise; // storage is switched off
    }
  }

  set(key, value) {
    try {
      this.storage().removeItem(`unspool.${key}`); // nothing stays of what is too large
      this.storage().setItem(`unspool.${key}`, value);
    } catch {
      // storage is switched off or full: the value holds until the page is closed
    }
  }
}

/** Choices, kept in the browser. */
export const kept = new Kept(() => localStorage);
/** What a tab keeps until it is closed, also when it is loaded again. */
export const keptInTab = new Kept(() => sessionStorage);
