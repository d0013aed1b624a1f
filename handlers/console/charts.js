// One chart in its card. The drawing is uPlot's; the legend is ours, so that the figures can
// be read without the picture.
/* global uPlot */
import { el, setText } from "./dom.js";

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const sync = () => uPlot.sync("console");

export class Chart {
  // series: [{label, tone, title}], tone being the name of a colour, title what a label that
  // was cut is in full. All but the first are drawn only where they are not at rest (quiet).
  // format turns a figure into text, steps are the distances that the lines of the scale may
  // have.
  constructor({ id, title, note, series, format, steps, quiet = false }) {
    Object.assign(this, { id, title, note, series, format, steps, quiet });
    this.data = [[], ...series.map(() => [])];
    this.hover = null;
    this.box = el("div", { class: "plot", role: "img", "aria-label": title });
    this.value = el("span", { class: "value", text: "–" });
    this.aside = el("span", { class: "aside" });
    this.legend = el("ul", { class: "legend" });
    this.meter = el("div", { class: "meter" }, el("i"));
    this.card = el("article", { class: "card chart", id: "chart-" + id, "aria-labelledby": "t-" + id },
      el("header", {}, el("h2", { id: "t-" + id, text: title }), el("span", { class: "now" }, this.value, this.aside)),
      this.meter, this.box, this.legend);
    if (note) this.card.querySelector("h2").append(el("small", { text: note }));
    this.setSeries(series);
    this.resized = new ResizeObserver(() => this.plot?.setSize(this.size()));
    this.resized.observe(this.box);
  }

  setSeries(series) {
    this.series = series;
    this.data = [this.data[0], ...series.map((_, i) => this.data[i + 1] ?? this.data[0].map(() => null))];
    this.keys = series.map((s) => {
      const figure = el("b", { text: "–" });
      return { figure, item: el("li", {}, el("i", { "data-tone": s.tone, "aria-hidden": "true" }), el("span", { text: s.label, title: s.title }), figure) };
    });
    this.legend.replaceChildren(...this.keys.map((k) => k.item));
    this.draw();
  }

  size() { return { width: Math.max(80, this.box.clientWidth), height: 148 }; }

  // draw makes the plot anew: at first, and when the theme changed.
  draw() {
    if (!this.box.isConnected) return;
    this.plot?.destroy();
    const axis = { stroke: colour("--muted"), font: "11px Inter, sans-serif", grid: { stroke: colour("--grid"), width: 1 }, ticks: { show: false } };
    this.plot = new uPlot({
      ...this.size(),
      padding: [8, 24, 0, 0],
      legend: { show: false },
      cursor: { sync: { key: sync().key }, points: { size: 6 }, drag: { x: false, y: false }, y: false },
      scales: { x: { time: true, range: (_, min, max) => [Math.max(Math.min(min, max - 60), max - 300), max] },
        y: { range: (_, __, max) => [0, max > 0 ? max * 1.15 : 1] } },
      axes: [
        { ...axis, size: 26, gap: 6, space: 70, values: (_, ticks) => ticks.map((t) => new Date(t * 1000).toLocaleTimeString("en-GB")) },
        { ...axis, size: 58, gap: 8, space: 34, incrs: this.steps,
          values: (_, ticks) => ticks.map((t) => this.format(t)) },
      ],
      series: [{}, ...this.series.map((s, i) => ({
        label: s.label, stroke: colour("--" + s.tone), width: 1.6, spanGaps: false,
        fill: i === 0 ? colour("--" + s.tone + "-fill") : undefined,
        points: { size: 4, fill: colour("--" + s.tone) },
      }))],
      hooks: { setCursor: [(u) => { this.hover = u.cursor.idx; this.figures(); }] },
    }, this.data, this.box);
    this.figures();
  }

  // add appends a moment: null where nothing was measured.
  add(seconds, values, { value, aside = "", level = null } = {}) {
    this.data[0].push(seconds);
    values.forEach((v, i) => this.put(this.data[i + 1], v ?? null, i));
    while (this.data[0][0] < seconds - 300) for (const column of this.data) column.shift();
    setText(this.value, value ?? this.format(values[0] ?? null));
    setText(this.aside, aside);
    this.meter.toggleAttribute("data-none", level === null);
    if (level !== null) {
      this.meter.firstChild.style.width = Math.min(100, level * 100) + "%";
      this.meter.dataset.level = level >= 0.9 ? "high" : level >= 0.6 ? "mid" : "low";
    }
    this.plot?.setData(this.data);
    this.figures();
  }

  // put appends a figure; a line that rests at zero is not drawn over the others'.
  put(column, v, i) {
    if (this.quiet && i > 0) {
      if (v === 0 && !column.at(-1)) v = null;
      else if (v > 0 && column.length > 0 && column.at(-1) === null) column[column.length - 1] = 0;
    }
    column.push(v);
  }

  // figures writes the legend: of the moment under the pointer, else of the last one.
  figures() {
    const last = this.data[0].length - 1;
    const at = this.hover ?? last;
    this.keys.forEach((k, i) => {
      const v = this.at(i, at);
      setText(k.figure, this.format(v));
      k.item.toggleAttribute("data-idle", !v);
    });
    const said = this.series.map((s, i) => (s.title ?? s.label) + " " + this.format(this.at(i, last))).join(", ");
    this.box.setAttribute("aria-label", this.title + ": " + said);
  }

  at(series, moment) {
    const v = this.data[series + 1][moment] ?? null;
    return v === null && this.quiet && series > 0 && (this.data[1][moment] ?? null) !== null ? 0 : v;
  }

  clear() {
    for (const column of this.data) column.length = 0;
    this.plot?.setData(this.data);
    this.figures();
  }
}
