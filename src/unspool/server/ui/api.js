// Requests to the page's own server; the page makes no others.

import { t } from "./i18n.js";

export class Refused extends Error {
  /** An error response. */
  constructor(status, message, param = null) {
    super(message);
    this.status = status;
    this.param = param;
  }
}

let key = "";
let askKey = async () => null;

/** Set the function that asks the user for the API key; it returns null if they give none. */
export function onKeyNeeded(ask) {
  askKey = ask;
}

async function send(path, body, signal) {
  for (;;) {
    const headers = { "Content-Type": "application/json" };
    if (key) headers.Authorization = `Bearer ${key}`;
    let answer;
    try {
      answer = await fetch(path, { ...(body === null ? {} : { method: "POST", body: JSON.stringify(body) }), headers, signal });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Refused(0, t("no server"));
    }
    if (answer.ok) return answer;
    if (answer.status === 401) {
      const given = await askKey(key !== "");
      if (given === null) throw new Refused(401, t("key missing"));
      key = given;
      continue;
    }
    throw await refusal(answer);
  }
}

async function refusal(answer) {
  const text = await answer.text();
  try {
    const { error } = JSON.parse(text);
    return new Refused(answer.status, error.message, error.param ?? null);
  } catch {
    return new Refused(answer.status, text.slice(0, 500) || answer.statusText);
  }
}

/** POST, or GET if the body is null, and return the JSON of the response. */
export async function ask(path, body = {}, signal = undefined) {
  return (await send(path, body, signal)).json();
}

/** Call `take` with the JSON of each frame of a stream as it arrives. */
export async function follow(path, body, take, signal) {
  const answer = await send(path, body, signal);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let parts = [];
  for (;;) {
    let piece;
    try {
      piece = await reader.read();
    } catch (error) {
      if (error.name === "AbortError") throw error;
      return; // the connection was lost: the reader sees that the stream has no end
    }
    if (piece.done) return;
    parts.push(piece.value);
    if (!piece.value.includes("\n")) continue;
    const frames = parts.join("").split("\n\n");
    parts = [frames.pop()];
    for (const frame of frames) if (frame.startsWith("data: ")) take(JSON.parse(frame.slice(6)));
  }
}
