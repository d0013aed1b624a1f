// A message in each envelope that the push endpoint takes, and the payload out of one.
import { get, parse } from "./jsontext.js";

let sent = 0;

export function base64(text) {
  let binary = "";
  for (const byte of new TextEncoder().encode(text)) binary += String.fromCharCode(byte);
  return btoa(binary);
}

export function fromBase64(text) {
  const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return new TextDecoder().decode(Uint8Array.from(binary, (c) => c.charCodeAt(0)));
}

// compose gives the headers, one a line, and the body of a message that holds payload.
export function compose(envelope, payload) {
  const id = "console-" + Date.now().toString(36) + "-" + ++sent;
  const now = new Date().toISOString();
  const subscription = "projects/p/subscriptions/console";
  const json = "content-type: application/json";
  const indented = payload.replaceAll("\n", "\n  ");
  const valid = (() => { try { parse(payload); return true; } catch { return false; } })();
  switch (envelope) {
    case "wrapped":
      return [json, JSON.stringify({ message: { data: base64(payload), attributes: { origin: "console" }, messageId: id, publishTime: now }, subscription }, null, 2)];
    case "unwrapped":
      return [[`x-goog-pubsub-message-id: ${id}`, `x-goog-pubsub-publish-time: ${now}`, `x-goog-pubsub-subscription-name: ${subscription}`, "origin: console"].join("\n"), payload];
    case "binary":
      return [[json, "ce-specversion: 1.0", `ce-id: ${id}`, "ce-source: //console", "ce-type: example.record", `ce-time: ${now}`].join("\n"), payload];
    case "structured": {
      const head = JSON.stringify({ specversion: "1.0", id, source: "//console", type: "example.record", time: now }, null, 2).slice(0, -2);
      return ["content-type: application/cloudevents+json",
        valid ? `${head},\n  "datacontenttype": "application/json",\n  "data": ${indented}\n}` : `${head},\n  "datacontenttype": "application/json",\n  "data_base64": "${base64(payload)}"\n}`];
    }
    default:
      return [json, payload];
  }
}

// payloadOf finds the payload of a body: {text}, and where it stands in the body as it is,
// its place: {text, from}. null where there is none to be seen.
export function payloadOf(envelope, body) {
  if (envelope !== "wrapped" && envelope !== "structured") return { text: body, from: 0 };
  let node;
  try { node = parse(body); } catch { return null; }
  for (const steps of envelope === "wrapped" ? [["message", "data"]] : [["data_base64"], ["data", "message", "data"]]) {
    const data = get(node, ...steps);
    if (data?.kind !== "string") continue;
    try { return { text: fromBase64(data.text), data }; } catch { return null; }
  }
  const data = envelope === "structured" ? get(node, "data") : undefined;
  return data ? { text: body.slice(data.from, data.to), from: data.from } : null;
}

// headersOf reads "name: value" lines. The error names the line, which is not shown.
export function headersOf(text) {
  const headers = new Headers();
  text.split("\n").forEach((line, i) => {
    if (line.trim() === "") return;
    const at = line.indexOf(":");
    if (at < 1) throw new Error(`line ${i + 1} of the headers is not "name: value"`);
    try {
      headers.append(line.slice(0, at).trim(), line.slice(at + 1).trim());
    } catch {
      throw new Error(`line ${i + 1} of the headers is none that HTTP allows`);
    }
  });
  return headers;
}
