// A trace: one output, chunk by chunk. Every view shows one, and a recording holds one or more.

import { ask } from "./api.js";

export const KINDS = ["reasoning", "content", "call", "arguments", "marker"];

const KIND_OF = {
  reasoning_start: "marker",
  reasoning_delta: "reasoning",
  reasoning_end: "marker",
  content_delta: "content",
  tool_call_start: "call",
  tool_call_delta: "arguments",
  tool_call_end: "marker",
  markup: "marker",
  notice: "notice",
  finish: "finish",
};

export function kindOf(event) {
  return KIND_OF[event.type] ?? "marker";
}

export class Trace {
  constructor(asked = {}) {
    this.asked = asked;
    this.request = null; // the body of the chat request, if there was one
    this.chunks = [];
    this.last = null; // the last line of the stream
    this.error = null;
    this.usage = null;
    this.over = false; // the stream has ended; otherwise it was cut, or still runs
    this.message = null;
    this.from = "";
  }

  /** Take a line of a stream, or of a recording. */
  take(line) {
    const { type, ...rest } = line;
    if (type === "request") this.asked = rest;
    else if (type === "chunk") this.chunks.push({ text: "", events: [], ...rest });
    else if (type === "end") this.last = rest;
    else if (type === "error") this.error = rest;
    else if (type === "done") this.usage = rest.usage;
    this.over ||= type === "done" || type === "error" || type === "cancelled";
    if (type === "cancelled") this.cancelled = true;
  }

  get text() {
    return this.chunks.map((chunk) => chunk.text).join("");
  }

  /** What a chunk is: "token" or "tokens" if the engine sent ids, else "chunk"; "cut" if it came from no engine. */
  get grain() {
    const said = this.chunks.filter(({ text, token_ids }) => text || token_ids?.length);
    if (said.length && said.every(({ token_ids }) => token_ids?.length)) return said.every(({ token_ids }) => token_ids.length === 1) ? "token" : "tokens";
    return this.chunks.some(({ at }) => at !== undefined) ? "chunk" : "cut";
  }

  *events() {
    for (let i = 0; i < this.chunks.length; i++) for (const event of this.chunks[i].events) yield [event, i];
    if (this.last) for (const event of this.last.events) yield [event, this.chunks.length];
  }

  get notices() {
    return [...this.events()].filter(([event]) => event.type === "notice");
  }

  get finish() {
    const finish = this.last?.events.find((event) => event.type === "finish");
    return finish ? finish.reason : "";
  }

  get counted() {
    return this.usage ?? this.chunks.findLast((chunk) => chunk.usage)?.usage ?? null;
  }

  /** The fields that `/parse` and its siblings need to parse the same output in the same way. */
  asParse() {
    const { dialect, reasoning, toml, tools, tool_choice, stage, prompt, policy } = this.asked;
    const reasons = this.chunks.map((chunk) => chunk.finish_reason).filter(Boolean);
    const body = {
      pieces: this.chunks.map(({ text, stage }) => (stage ? { text, stage } : text)),
      finish_reason: reasons.at(-1) ?? "stop",
    };
    if (toml) body.toml = toml;
    else if (dialect) body.dialect = dialect;
    if (reasoning) body.reasoning = reasoning;
    if (tools) {
      body.tools = tools.map((tool) => (tool.function ? tool : { type: "function", function: tool }));
      if (tool_choice) body.tool_choice = tool_choice;
    }
    if (stage) body.stage = stage;
    if (typeof prompt === "string") body.prompt = prompt;
    if (policy && Object.keys(policy).length) body.policy = policy;
    return body;
  }

  /** Parse the pieces on the server, which returns the events of each. */
  async read(signal) {
    const result = await ask("/parse", { ...this.asParse(), format: "steps" }, signal);
    result.steps.slice(0, -1).forEach((step, i) => Object.assign(this.chunks[i], { held: undefined }, step));
    this.last = result.steps.at(-1);
    this.message = result.message;
    this.begins = result.stage;
    this.named = result.dialect;
    return this;
  }

  /** The lines of a recording, in ASCII, as `unspool parse` and `--engine replay:` read them. */
  recording() {
    const { special, constrained, ...asked } = this.asked;
    const lines = [{ type: "request", ...asked }];
    for (const { events, stands, held, ...chunk } of this.chunks) lines.push({ type: "chunk", ...chunk });
    const at = this.chunks.at(-1)?.at ?? 0;
    if (this.error) lines.push({ type: "error", at, message: this.error.message, status: this.error.status ?? 500 });
    else if (this.cancelled) lines.push({ type: "cancelled", at });
    return lines.map((line) => ascii(JSON.stringify(line)) + "\n").join("");
  }
}

function ascii(text) {
  return text.replace(/[\u007f-\uffff]/g, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
}

/** The traces in a recording's text. Throws if it is no recording. */
export function readRecordings(text) {
  const traces = [];
  for (const [i, line] of text.split("\n").entries()) {
    if (!line.trim()) continue;
    let entry;
    try {
      entry = JSON.parse(line);
    } catch (error) {
      throw new Error(`${i + 1}: ${error.message}`);
    }
    if (entry?.type === "request") traces.push(new Trace());
    else if (!traces.length || !["chunk", "error", "cancelled"].includes(entry?.type)) throw new Error(`${i + 1}: ${String(entry?.type)}`);
    traces.at(-1).take(entry);
  }
  if (!traces.length) throw new Error("0");
  for (const trace of traces) trace.over = true;
  return traces;
}

/** The tiles of a chunk: its text, cut where events end; each with its event, and the chunk where that began. */
export function* tiles(trace) {
  const said = [];
  for (const [event, chunk] of trace.events()) if (event.end > event.start) said.push({ event, chunk });
  let at = 0;
  let next = 0;
  for (const [index, chunk] of trace.chunks.entries()) {
    const points = Array.from(chunk.text);
    const found = [];
    let i = 0;
    while (i < points.length) {
      while (next < said.length && said[next].event.end <= at + i) next++;
      const one = said[next];
      const inside = one && one.event.start <= at + i;
      const stop = inside ? one.event.end : one ? one.event.start : Infinity;
      const end = Math.min(points.length, stop - at);
      found.push({ text: points.slice(i, end).join(""), start: at + i, end: at + end, said: inside ? one : null });
      i = end;
    }
    yield { index, chunk, start: at, end: at + points.length, tiles: found };
    at += points.length;
  }
}

/** A message of chat completions, for the next request of the conversation. */
export function asAssistant(trace) {
  const message = { role: "assistant", content: "" };
  const calls = [];
  let reasoning = "";
  for (const [event] of trace.events()) {
    if (event.type === "content_delta") message.content += event.text;
    else if (event.type === "reasoning_delta") reasoning += event.text;
    else if (event.type === "tool_call_start") calls.push({ id: event.id, type: "function", function: { name: event.name, arguments: "" } });
    else if (event.type === "tool_call_delta") calls[event.index].function.arguments += event.arguments;
  }
  if (reasoning) message.reasoning_content = reasoning;
  if (calls.length) message.tool_calls = calls;
  return message;
}
