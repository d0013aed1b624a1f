// The Routes view: each route with its mapping and how it stands.
import { byId, copyButton, el, pill, setText } from "./dom.js";
import { yaml } from "./paint.js";
import { count } from "./format.js";

const policies = { fail: "answered 422, delivered again", drop: "acknowledged and counted", deadLetter: "published as a dead letter" };
const sinks = { bigtable: "Bigtable", spanner: "Spanner" };
const envelopes = { auto: "any", wrapped: "wrapped push", unwrapped: "unwrapped push", cloudevents: "CloudEvent" };

export class Routes {
  constructor(onTry) { this.onTry = onTry; this.cards = new Map(); }

  // define takes the answer of /console/routes.
  define(info) {
    this.cards.clear();
    byId("route-list").replaceChildren(...info.routes.map((r) => this.card(r)));
  }

  card(r) {
    const state = pill("unknown", "…");
    const fact = (name, ...value) => el("div", {}, el("dt", { text: name }), el("dd", {}, ...value));
    const streak = el("span", { text: "–" });
    const bar = el("div", { class: "meter", role: "meter", "aria-label": "Streak of rejections", "aria-valuemin": "0", "aria-valuemax": String(Math.max(1, r.streakBound)), "aria-valuenow": "0" }, el("i"));
    const counts = el("ul", { class: "counts" });
    const reasons = el("div", { class: "callout", hidden: true });
    this.cards.set(r.name, { r, state, streak, bar, counts, reasons });
    return el("article", { class: "card route", "aria-label": "Route " + r.name },
      el("header", {},
        el("h2", { text: r.name }), r.default && el("span", { class: "tag", text: "default" }), state,
        el("span", { class: "push" }),
        el("button", { type: "button", text: "Try it", "aria-label": "Try " + r.name + " in the playground", onclick: () => this.onTry(r.name) })),
      reasons,
      el("div", { class: "route-in" },
        el("div", {},
          el("dl", { class: "facts" },
            fact("Sink", sinks[r.sink]),
            fact("Table", r.table ? el("code", { text: r.table }) : el("em", { text: "named by each record" })),
            r.instance && fact(r.sink === "spanner" ? "Database" : "Instance", el("code", { text: r.instance })),
            fact("Input", r.format + ", envelope: " + envelopes[r.envelope]),
            fact("On reject", el("code", { text: r.onReject }), " " + policies[r.onReject]),
            r.deadLetterTopic && fact("Topic", el("code", { text: r.deadLetterTopic })),
            fact("Streak", streak, bar)),
          counts),
        el("div", { class: "copyable" }, yaml(r.mapping), copyButton(() => r.mapping))));
  }

  // show takes the answer of /console/live.
  show(live) {
    for (const l of live.routes) {
      const c = this.cards.get(l.name);
      if (!c) continue;
      c.state.dataset.state = l.health.status;
      setText(c.state.lastChild, l.health.status);
      c.reasons.hidden = l.health.reasons.length === 0;
      c.reasons.dataset.state = l.health.status;
      setText(c.reasons, l.health.reasons.join("\n"));
      const bound = c.r.streakBound;
      setText(c.streak, bound > 0 ? `${count(l.streak)} of ${count(bound)}` + (c.r.trips ? ", then it stops" : ", counted only") : `${count(l.streak)}, no bound`);
      c.bar.hidden = bound <= 0;
      c.bar.setAttribute("aria-valuenow", String(l.streak));
      c.bar.firstChild.style.width = Math.min(100, (100 * l.streak) / Math.max(1, bound)) + "%";
      c.bar.dataset.level = l.streak >= 0.9 * bound ? "high" : l.streak >= 0.6 * bound ? "mid" : "low";
      const some = Object.entries(l.records).filter(([name, n]) => n > 0 || name === "written");
      const key = JSON.stringify(some);
      if (key === c.key) continue;
      c.key = key;
      c.counts.replaceChildren(...some.map(([name, n]) => el("li", {}, el("b", { text: count(n) }), " " + name.replace("_", "-"))));
    }
  }
}
