// The Playground: a message in, and out comes the record, the mutation or the error at its
// place; sent for real, its row is read back.
import { byId, el, setText } from "./dom.js";
import { bytes } from "./format.js";
import { base64, compose, headersOf, payloadOf } from "./envelopes.js";
import { charOfByte, find, get, parse } from "./jsontext.js";
import { frame, json } from "./paint.js";
import { sample, spoil } from "./sample.js";

const option = (word) => el("code", { text: "PUSHSINK_EXPOSE=" + word });

export class Playground {
  constructor(server) {
    this.server = server;
    this.info = null;
    this.body = byId("play-body");
    this.headers = byId("play-headers");
    byId("play-route").addEventListener("change", () => { this.suit(); this.fill(); });
    for (const id of ["play-envelope", "play-example"]) byId(id).addEventListener("change", () => this.fill());
    this.payload = byId("play-payload");
    this.body.addEventListener("input", () => { this.size(); this.decode(); });
    this.payload.addEventListener("input", () => this.encode());
    byId("compose").addEventListener("submit", (e) => { e.preventDefault(); this.run(() => this.dryrun()); });
    byId("send").addEventListener("click", () => this.run(() => this.send()));
    byId("compose").addEventListener("keydown", (e) => {
      if (e.key !== "Enter" || !(e.ctrlKey || e.metaKey)) return;
      e.preventDefault();
      this.run(() => this.dryrun());
    });
  }

  // define takes the answer of /console/routes.
  define(info) {
    this.info = info;
    const select = byId("play-route"), chosen = select.value;
    select.replaceChildren(...info.routes.map((r) => el("option", { value: r.name, text: r.name, selected: r.name === chosen || (!chosen && r.default) })));
    byId("dryrun").disabled = !info.exposed.dryrun;
    const missing = byId("not-exposed");
    missing.replaceChildren();
    if (!info.exposed.dryrun) missing.append("The dry run is off: start the server with ", option("console,dryrun"), " to see what a record becomes before it is sent. ");
    if (!info.exposed.rows) missing.append("Rows can't be read back: that needs ", option("console,rows"), ".");
    missing.hidden = info.exposed.dryrun && info.exposed.rows;
    this.suit();
    if (this.body.value === "") this.fill();
    else {
      this.size();
      this.decode();
    }
  }

  // choose takes a route from elsewhere in the page.
  choose(name) {
    byId("play-route").value = name;
    this.suit();
    this.fill();
  }

  get route() { return this.info.routes.find((r) => r.name === byId("play-route").value) ?? this.info.routes[0]; }
  get envelope() { return byId("play-envelope").value; }

  // suit picks an envelope that the route takes, and says what sending does.
  suit() {
    const r = this.route;
    const takes = { wrapped: ["wrapped"], unwrapped: ["unwrapped"], cloudevents: ["structured", "binary"] }[r.envelope];
    if (takes && !takes.includes(this.envelope)) byId("play-envelope").value = takes[0];
    const where = r.table ? `${r.sink === "spanner" ? "Spanner" : "Bigtable"} table ${r.table}` : "the table that the record names";
    setText(byId("play-hint"), `Send really writes to ${where}${this.info.dev ? " (in memory)" : ""}, as a delivered message would.`);
  }

  fill() {
    const [headers, body] = compose(this.envelope, spoil(sample(this.route), byId("play-example").value));
    this.headers.value = headers;
    this.headers.rows = Math.max(1, headers.split("\n").length);
    this.body.value = body;
    this.decode();
    this.key = "console-" + crypto.getRandomValues(new Uint32Array(2)).join("-");
    this.size();
  }

  // decode shows what the body's data holds, encode puts what was typed there back into it.
  decode() {
    byId("play-data").hidden = this.envelope !== "wrapped";
    const found = payloadOf(this.envelope, this.body.value);
    this.payload.disabled = !found?.data;
    this.payload.value = found?.data ? found.text : "";
  }

  encode() {
    const found = payloadOf(this.envelope, this.body.value);
    if (!found?.data) return;
    this.body.value = this.body.value.slice(0, found.data.from) + JSON.stringify(base64(this.payload.value)) + this.body.value.slice(found.data.to);
    this.size();
  }

  size() { setText(byId("play-size"), bytes(new TextEncoder().encode(this.body.value).length)); }

  // run lets one request go on at a time, and shows what went wrong with it.
  async run(what) {
    if (!this.info || this.busy) return;
    this.busy = true;
    const buttons = [byId("dryrun"), byId("send")];
    for (const b of buttons) b.setAttribute("aria-disabled", "true");
    byId("results").setAttribute("aria-busy", "true");
    try {
      await what();
    } catch (e) {
      this.show(card("Not sent", callout("failing", String(e.message))));
    } finally {
      this.busy = false;
      for (const b of buttons) b.removeAttribute("aria-disabled");
      byId("results").removeAttribute("aria-busy");
    }
  }

  show(...cards) { byId("results").replaceChildren(...cards); }

  // message is what will be sent: headers of its own for a plain record, whose key and time
  // are then those of the dry run.
  message() {
    const headers = headersOf(this.headers.value);
    if (this.envelope === "plain") {
      if (!headers.has("idempotency-key")) headers.set("idempotency-key", this.key);
      if (!headers.has("content-type")) headers.set("content-type", "application/json");
    }
    return { headers, body: this.body.value };
  }

  path(end) { return "v1/routes/" + encodeURIComponent(this.route.name) + "/" + end; }

  // explained asks the dry run: {node} of its answer or {failed}, the cards of its refusal.
  async explained(m) {
    const answer = await this.server.ask(this.path("dryrun"), { method: "POST", ...m });
    if (answer.ok) return { node: parse(answer.text) };
    return { failed: this.refusal(answer, "Dry run", m) };
  }

  async dryrun() {
    const m = this.message();
    const { node, failed } = await this.explained(m);
    this.show(...(failed ?? explanation(node)));
  }

  async send() {
    const m = this.message();
    const plain = this.envelope === "plain";
    let node;
    if (this.info.exposed.dryrun) {
      const first = await this.explained(m);
      node = first.node;
      const time = get(node, "record", "publishTime");
      if (plain && time) m.headers.set("pushsink-time", time.text);
    }
    const answer = await this.server.ask(this.path(plain ? "records" : "push"), { method: "POST", ...m });
    if (!answer.ok) return this.show(...this.refusal(answer, "Answer", m));
    const cards = [card("Answer", callout("ok", answer.status === 204 ? "204: durable, or skipped, dropped or dead-lettered by the route's own rules. The message is acknowledged." : answer.status + ": every record is durable or was settled by the route's own rules."))];
    cards.push(await this.rows(node));
    if (node) cards.push(...explanation(node));
    this.show(...cards);
  }

  // rows reads back the row that the mutation names.
  async rows(node) {
    const title = "Row, read back";
    const say = (...text) => card(title, el("p", { class: "hint" }, ...text));
    const r = this.route;
    if (get(node, "skipped")) return say("The mapping skips this record: nothing was written.");
    if (r.sink === "spanner") return say("Rows of a Spanner route are read with SQL: ", el("code", { id: "play-sql", text: `SELECT * FROM ${r.table}` }));
    if (!this.info.exposed.rows) return say("Reading rows is off: it needs ", option("console,rows"), ".");
    if (!this.info.exposed.dryrun) return say("Which row it became is told by the dry run, which is off: it needs ", option("console,rows,dryrun"), ".");
    const row = get(node, "bigtable");
    if (!row) return say("The dry run did not say which row it became.");
    const key = get(row, "key")?.text, raw = get(row, "keyBase64")?.text;
    const start = raw === undefined ? encodeURIComponent(key) : escaped(raw);
    // From the key to just behind it: that one row.
    let query = `rows?decode=1&limit=1&start=${start}&end=${start}%00`;
    if (!r.table) query += "&table=" + encodeURIComponent(get(row, "table").text);
    if (!r.instance && get(row, "instance")) query += "&instance=" + encodeURIComponent(get(row, "instance").text);
    const answer = await this.server.ask(this.path(query), {});
    if (!answer.ok) return say(problemOf(answer).detail);
    const line = answer.text.split("\n")[0];
    if (!line) return say("There is no such row: the record deleted it, or a rule of the table collected it.");
    return card(title, ...rowTable(parse(line)));
  }

  // refusal shows why a message was refused, and where in it.
  refusal(answer, title, m) {
    const p = problemOf(answer);
    const head = callout("failing", el("strong", { text: answer.status + (p.code ? " " + p.code : "") }), " ", p.detail);
    const place = this.place(p, answer.status, m.body);
    if (!place) return [card(title, head)];
    const parts = [head, el("p", { class: "hint", text: place.what }), frame(place.text, place.from, place.to, place.note)];
    const inBody = place.inBody !== undefined;
    if (inBody || this.envelope === "wrapped") {
      const area = inBody ? this.body : this.payload, from = inBody ? place.inBody : place.from;
      parts.push(el("button", { type: "button", text: inBody ? "Go to it in the body" : "Go to it in the payload", onclick: () => {
        area.focus();
        area.setSelectionRange(from, from + Math.max(1, place.to - place.from));
      } }));
    }
    return [card(title, ...parts)];
  }

  // place finds where in the payload, or in the body, a problem is.
  place(p, status, body) {
    const payload = status === 400 && this.envelope !== "plain" ? null : payloadOf(this.envelope, body);
    const text = payload ? payload.text : body;
    const what = payload && payload.from === undefined ? "In the payload, decoded:" : payload?.from ? "In the event's data:" : "In the body:";
    const inBody = (from) => (payload ? (payload.from === undefined ? undefined : payload.from + from) : from);
    const byte = /at byte (\d+)/.exec(p.detail);
    if (byte) {
      const from = charOfByte(text, Number(byte[1]));
      return { text, from, to: from + 1, note: "here", what, inBody: inBody(from) };
    }
    if (!p.pointer) return null;
    let node;
    try { node = parse(text); } catch { return null; }
    const at = find(node, p.pointer);
    if (at.missing !== undefined) return { text, from: at.from, to: at.from + 1, note: `${p.pointer} is not in here`, what, inBody: inBody(at.from) };
    return { text, ...at, note: p.pointer, what, inBody: inBody(at.from) };
  }
}

function problemOf(answer) {
  try {
    const p = JSON.parse(answer.text);
    const only = p.errors?.length === 1 ? p.errors[0] : p;
    return { code: p.code ?? "", detail: p.detail ?? answer.text, pointer: only.pointer ?? p.pointer };
  } catch {
    return { code: "", detail: "an answer that is no problem document" };
  }
}

const escaped = (raw) => [...atob(raw)].map((c) => "%" + c.charCodeAt(0).toString(16).padStart(2, "0")).join("");

const card = (title, ...children) => el("section", { class: "card", "aria-label": title }, el("h2", { text: title }), ...children);
const callout = (state, ...children) => el("div", { class: "callout", "data-state": state }, ...children);

// explanation shows a dry run's answer: the mutation, then the record.
function explanation(node) {
  const cards = [];
  if (get(node, "skipped")) {
    const reason = get(node, "reason")?.text;
    cards.push(card("Mutation", callout("trial", reason === "where" ? "Skipped: the route's where is false. It is acknowledged and counted, and nothing is written." : "Skipped: the mapping makes nothing of it. It is acknowledged and counted.")));
  } else if (get(node, "bigtable")) cards.push(card("Mutation", ...rowMutation(get(node, "bigtable"))));
  else if (get(node, "spanner")) cards.push(card("Mutation", ...groupMutation(get(node, "spanner"))));
  const record = get(node, "record");
  const facts = el("dl", { class: "facts" });
  for (const m of record?.members ?? []) {
    if (m.name === "data" || m.value.kind === "object") continue;
    facts.append(el("div", {}, el("dt", { text: m.name }), el("dd", {}, el("code", { text: m.value.text }))));
  }
  const parts = [facts];
  const attributes = get(record, "attributes");
  if (attributes) parts.push(el("h3", { text: "Attributes" }), json(attributes));
  const data = get(record, "data");
  if (data) parts.push(el("h3", { text: "Data" }), json(data));
  cards.push(card("Record", ...parts));
  return cards;
}

const literal = (n) => (n === undefined ? "" : n.kind === "string" ? n.text : n.kind === "object" || n.kind === "array" ? json(n) : n.text);

function table(heads, rows) {
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": heads.join(", ") },
    el("table", {}, el("thead", {}, el("tr", {}, ...heads.map((h) => el("th", { scope: "col", text: h })))),
      el("tbody", {}, ...rows.slice(0, 500).map((cells) => el("tr", {}, ...cells.map((c) => el("td", {}, c)))))));
}

const code = (text) => el("code", { text });
const name = (n, member) => get(n, member)?.text ?? (get(n, member + "Base64") ? "base64 " + get(n, member + "Base64").text : "");

function rowMutation(row) {
  const facts = el("dl", { class: "facts" });
  for (const [label, text] of [["instance", get(row, "instance")?.text], ["table", get(row, "table")?.text], ["row key", name(row, "key")]]) {
    if (text) facts.append(el("div", {}, el("dt", { text: label }), el("dd", {}, code(text))));
  }
  const rows = (get(row, "mutations")?.items ?? []).map((m) => {
    const { name: op, value } = m.members[0];
    return [op, code([get(value, "family")?.text, name(value, "column")].filter((s) => s !== undefined && s !== "").join(":")),
      get(value, "as")?.text ?? "", shown(get(value, "value")), get(value, "timestamp")?.text ?? ""];
  });
  return [facts, table(["Operation", "Cell", "As", "Value", "Time"], rows)];
}

const shown = (n) => {
  const v = literal(n);
  return typeof v === "string" ? el("code", { class: n ? "t-" + n.kind : "", text: v }) : v;
};

function groupMutation(group) {
  const parts = [];
  const key = get(group, "dedupKey")?.text;
  if (key !== undefined) parts.push(el("dl", { class: "facts" }, el("div", {}, el("dt", { text: "counts once as" }), el("dd", {}, code(key)))));
  for (const m of get(group, "mutations")?.items ?? []) {
    const { name: op, value } = m.members[0];
    parts.push(el("h3", {}, op + " ", code(get(value, "table")?.text ?? "")));
    const members = (from) => get(value, from)?.members ?? [];
    const named = members("columnsFrom").length > 0;
    const columns = ["columns", "columnsFrom"].flatMap((from) => members(from).map((c) => [code(c.name), shown(c.value), ...(named ? [from === "columns" ? "" : "by name"] : [])]));
    parts.push(table(named ? ["Column", "Value", "From"] : ["Column", "Value"], columns));
  }
  parts.push(el("p", { class: "hint", text: "Constraints are the database's: what does not keep them is refused when it is sent." }));
  return parts;
}

function rowTable(row) {
  const cells = get(row, "cells")?.items ?? [];
  return [el("dl", { class: "facts" }, el("div", {}, el("dt", { text: "row key" }), el("dd", {}, code(name(row, "key"))))),
    table(["Cell", "Value", "Time"], cells.map((c) => [code(get(c, "family").text + ":" + name(c, "column")), shown(get(c, "value")), get(c, "timestamp").text]))];
}
