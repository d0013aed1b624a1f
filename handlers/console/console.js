import { byId, onCopy, setText } from "./dom.js";
import { span } from "./format.js";
import { Live } from "./live.js";
import { Playground } from "./playground.js";
import { Routes } from "./routes.js";
import { Poll, Server } from "./server.js";
import { base64 } from "./envelopes.js";
import { sample } from "./sample.js";

const views = ["live", "routes", "playground"];
const server = new Server();
const live = new Live();
const playground = new Playground(server);
const routes = new Routes((name) => { playground.choose(name); location.hash = "#playground"; });
let info = null;       // of /console/routes, for the process that answered
let seenAt = null;     // when the last answer came
const known = new Set();

// Views.

function view() {
  const name = views.find((v) => "#" + v === location.hash) ?? "live";
  for (const v of views) byId("view-" + v).hidden = v !== name;
  for (const a of document.querySelectorAll("nav a")) {
    if (a.dataset.view === name) a.setAttribute("aria-current", "page");
    else a.removeAttribute("aria-current");
  }
  document.title = name[0].toUpperCase() + name.slice(1) + " · pushsink console";
  if (name === "live") live.draw();
}
addEventListener("hashchange", () => { if (location.hash !== "#main") { view(); scrollTo(0, 0); } });

// Theme.

const isDark = () => document.documentElement.dataset.theme === "dark"; // theme.js sets it
function themed() {
  byId("theme").setAttribute("aria-pressed", String(isDark()));
  live.draw();
}
byId("theme").addEventListener("click", () => {
  const theme = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  try { localStorage.setItem("pushsink-theme", theme); } catch { /* for this page only, then */ }
  themed();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", themed);

// Connection.

function notice(state, head, text) {
  const box = byId("connection");
  box.hidden = state === null;
  if (state === null) return;
  box.dataset.state = state;
  setText(box.querySelector("strong"), head);
  setText(box.querySelector("span"), text);
}

class Refused extends Error {
  constructor(status) { super("answered " + status); this.status = status; }
}

async function asked(path) {
  const answer = await server.ask(path, { timeout: 10_000 });
  if (!answer.ok) throw new Refused(answer.status);
  return JSON.parse(answer.text);
}

async function seen(answer, gap) {
  if (document.body.dataset.connection === "lost") notice(null);
  if (info?.process !== answer.process) {
    const next = await asked("console/routes");
    if (next.process === answer.process) define(next, answer);
  }
  seenAt = Date.now();
  document.body.dataset.connection = "ok";
  health(answer.health);
  if (gap) live.resume = true;
  live.show(answer, info);
  routes.show(answer);
}

// define takes over what a process says of itself.
function define(next, answer) {
  const first = info === null, back = known.has(next.process);
  info = next;
  known.add(next.process);
  if (first) notice(null);
  else if (back) notice("trial", "Several instances answer.", "Each answer tells of one of them, so the charts begin anew whenever another one does.");
  else notice("trial", "Another process answers.", `It started ${span(answer.uptime)} ago: the charts begin anew.`);
  routes.define(info);
  playground.define(info);
  setText(byId("version"), "pushsink " + info.version + (info.dev ? " · dev mode, rows are lost at exit" : ""));
  emptyCurl();
}

function health({ status, reasons }) {
  const pill = byId("health");
  pill.dataset.state = status;
  setText(pill.lastElementChild, { ok: "ready", trial: "on trial", failing: "not ready" }[status] ?? status);
  const box = byId("reasons");
  box.hidden = reasons.length === 0;
  box.dataset.state = status;
  setText(box, reasons.join("\n"));
}

function failed(error, wait) {
  document.body.dataset.connection = "lost";
  const pill = byId("health");
  pill.dataset.state = "unknown";
  setText(pill.lastElementChild, "no answer");
  const again = ` Trying again every ${wait === 1 ? "second" : wait + " s"}.`;
  if (error instanceof Refused && (error.status === 401 || error.status === 403)) {
    return notice("failing", "Not signed in.", "The server wants a token that the page does not have: reach it through a proxy that adds one (docs/console.md)." + again);
  }
  if (error instanceof Refused) return notice("failing", `The server answers ${error.status}.`, "The figures below are the last that came." + again);
  const since = seenAt === null ? "There was no answer yet." : `The last answer came at ${new Date(seenAt).toLocaleTimeString("en-GB")}; the figures below are of then.`;
  notice("failing", "No connection to the server.", since + again);
}

const poll = new Poll(() => asked("console/live"), seen, failed);

byId("pause").addEventListener("click", (e) => {
  const on = !poll.paused;
  e.currentTarget.setAttribute("aria-pressed", String(on));
  setText(e.currentTarget, on ? "Resume" : "Pause");
  document.body.dataset.paused = on ? "1" : "";
  poll.pause(on);
});

// The first record.

function emptyCurl() {
  const route = info.routes.find((r) => r.default) ?? info.routes[0];
  const payload = sample(route);
  const text = typeof payload === "string" ? payload : JSON.stringify(payload);
  const push = JSON.stringify({ message: { data: base64(text), messageId: "1", publishTime: new Date().toISOString() }, subscription: "projects/p/subscriptions/s" });
  const url = new URL("v1/routes/" + encodeURIComponent(route.name) + "/push", location.href);
  const quoted = (s) => "'" + s.replaceAll("'", `'\\''`) + "'";
  setText(byId("empty-curl"), `curl -i ${quoted(url.href)} \\\n  -H 'Content-Type: application/json' \\\n  -d ${quoted(push)}`);
}

for (const b of document.querySelectorAll("[data-copy]")) onCopy(b, () => byId(b.dataset.copy).textContent);

view();
themed();
poll.kick();
