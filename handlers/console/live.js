// The Live view: what moved between two answers.
import { byId, el, setText } from "./dom.js";
import { Chart } from "./charts.js";
import { bytes, count, cut, micros, number, rate, span } from "./format.js";
import { History, quantile, since } from "./stats.js";

const look = 10_000; // milliseconds that a percentile looks back

// The ends of a record, as the chart groups them.
const ends = [
  ["written", "green", ["written"]],
  ["skipped", "grey", ["skipped"]],
  ["dropped", "amber", ["dropped"]],
  ["dead-lettered", "violet", ["dead_lettered"]],
  ["rejected", "red", ["rejected", "malformed"]],
  ["not taken now", "blue", ["overloaded", "unavailable", "deadline", "internal"]],
];
const whole = [1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000, 2000, 5000, 10_000, 20_000];
const powers = Array.from({ length: 40 }, (_, i) => 2 ** i); // of bytes
const tones = ["blue", "violet", "green", "amber", "red", "grey"];

const percentiles = [["p50", "green"], ["p90", "blue"], ["p99", "violet"]].map(([label, tone]) => ({ label, tone }));
const three = (buckets) => [quantile(buckets, 0.5), quantile(buckets, 0.9), quantile(buckets, 0.99)];
const sum = (routes, names) => routes.reduce((n, r) => n + names.reduce((m, name) => m + r.records[name], 0), 0);

export class Live {
  constructor() {
    this.history = new History(look);
    this.sink = null;
    this.charts = {
      ends: new Chart({ id: "outcomes", title: "Outcomes", note: "records a second", format: number, quiet: true, series: ends.map(([label, tone]) => ({ label, tone })) }),
      bytes: new Chart({ id: "bytes", title: "In flight", note: "bytes held, against the cap", format: bytes, steps: powers, series: [{ label: "average", tone: "blue" }, { label: "at this moment", tone: "violet" }] }),
      batch: new Chart({ id: "batch", title: "Batch size", note: "entries a request, over 10 s", format: number, steps: whole, series: [{ label: "median", tone: "green" }, { label: "p99", tone: "violet" }] }),
      latency: new Chart({ id: "latency", title: "Backend latency", note: "of a request, over 10 s", format: micros, series: percentiles }),
      durable: new Chart({ id: "durable", title: "Publish to durable", note: "of a record, over 10 s", format: micros, series: percentiles }),
      streak: new Chart({ id: "streak", title: "Rejection streak", note: "in a row, against the bound", format: number, steps: whole, series: [] }),
    };
    byId("charts").append(...Object.values(this.charts).map((c) => c.card));
    this.resume = false;
  }

  // show takes the answer of /console/live; routes is that of /console/routes.
  show(live, routes) {
    const anew = !this.history.add(live);
    const any = live.routes.some((r) => Object.values(r.records).some((n) => n > 0));
    byId("empty").hidden = any;
    const hidden = byId("charts").hidden;
    byId("charts").hidden = !any;
    if (any && hidden) this.draw();
    const total = sum(live.routes, ["written"]);
    setText(byId("live-sub"), `${count(total)} record${total === 1 ? "" : "s"} written since this process started ${span(live.uptime)} ago.`);
    this.chooseSinks(live);
    if (anew) this.forget();
    this.routeSeries(live, routes);
    this.step(live, routes);
  }

  chooseSinks(live) {
    if (!live.sinks.some((s) => s.sink === this.sink)) this.sink = live.sinks[0]?.sink ?? null;
    const box = byId("sinks");
    box.hidden = live.sinks.length < 2;
    if (box.childElementCount === live.sinks.length) return;
    box.replaceChildren(...live.sinks.map((s) => el("label", {},
      el("input", { type: "radio", name: "sink", value: s.sink, checked: s.sink === this.sink, onchange: () => {
        this.sink = s.sink;
        for (const name of ["bytes", "batch", "latency"]) this.charts[name].clear();
      } }), el("span", { text: s.sink === "bigtable" ? "Bigtable" : "Spanner" }))));
  }

  routeSeries(live, routes) {
    const names = live.routes.map((r) => r.name).slice(0, tones.length);
    const key = names.join("\n");
    if (key === this.routeKey) return;
    this.routeKey = key;
    this.charts.streak.setSeries(names.map((name, i) => ({ label: cut(name), title: name, tone: tones[i] })));
  }

  step(live, routes) {
    const { charts, history } = this;
    const { before, oldest } = history;
    const seconds = live.now / 1000;
    const s = live.sinks.find((one) => one.sink === this.sink);
    const of = (answer) => answer?.sinks.find((one) => one.sink === this.sink);

    if (this.resume && before) { // a gap where nobody looked
      for (const c of Object.values(charts)) c.add(before.now / 1000 + 0.5, c.series.map(() => null));
      this.resume = false;
    }
    const elapsed = before ? (live.now - before.now) / 1000 : 0;
    const rates = ends.map(([, , names]) => (elapsed > 0 ? (sum(live.routes, names) - sum(before.routes, names)) / elapsed : null));
    const failing = elapsed > 0 ? rates[4] + rates[5] : 0;
    charts.ends.add(seconds, rates, { value: rate(rates[0]), aside: failing > 0 ? rate(failing) + " not written" : "written" });

    if (s) {
      // Most of what is in flight comes and goes between two answers: what ended since then
      // tells its average. What does not end is seen at this moment.
      const average = elapsed > 0 ? (s.byteMicros - of(before).byteMicros) / (elapsed * 1e6) : null;
      const held = Math.max(average ?? 0, s.bytes.held);
      charts.bytes.add(seconds, [average, s.bytes.held], { value: bytes(held), aside: `of ${bytes(s.bytes.cap)}, ${count(s.entries.held)} entries now`, level: held / s.bytes.cap });
      const batch = since(of(oldest)?.batch ?? s.batch, s.batch);
      const half = quantile(batch, 0.5);
      charts.batch.add(seconds, [half, quantile(batch, 0.99)], { aside: "at most " + count(s.batchMost) });
      const times = three(since(of(oldest)?.latency ?? s.latency, s.latency));
      charts.latency.add(seconds, times, { value: micros(times[2]), aside: "p99" });
    }
    const ages = three(since(oldest?.durable ?? live.durable, live.durable));
    charts.durable.add(seconds, ages, { value: micros(ages[2]), aside: "p99" });

    const shown = live.routes.slice(0, charts.streak.series.length);
    const worst = live.routes.reduce((a, b) => (b.streak > a.streak ? b : a), live.routes[0]);
    const bound = routes?.routes.find((r) => r.name === worst?.name);
    charts.streak.add(seconds, shown.map((r) => r.streak), {
      value: number(worst?.streak ?? null),
      aside: bound?.streakBound > 0 ? "of " + count(bound.streakBound) + (bound.trips ? ", then the route stops" : ", counted only") : "no bound",
      level: bound?.streakBound > 0 ? worst.streak / bound.streakBound : null,
    });
  }

  draw() { for (const c of Object.values(this.charts)) c.draw(); }
  forget() { for (const c of Object.values(this.charts)) c.clear(); }
}
