// Quantities as people read them. null is "–": nothing was measured.

const none = "–";
const plain = new Intl.NumberFormat("en");

// cut takes out the middle of a long name: names of a kind begin alike and end in what tells
// them apart.
export const cut = (name) => (name.length > 20 ? name.slice(0, 8) + "…" + name.slice(-11) : name);

export const count = (n) => (n === null || n === undefined ? none : plain.format(n));

const digits = (v) => (v >= 100 ? v.toFixed(0) : v >= 10 ? v.toFixed(1) : v.toFixed(2)).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");

export function number(v) {
  if (v === null || v === undefined) return none;
  if (v >= 1e6) return digits(v / 1e6) + "M";
  if (v >= 1e4) return digits(v / 1e3) + "k";
  return v >= 1000 ? plain.format(Math.round(v)) : digits(v);
}

export const rate = (v) => (v === null || v === undefined ? none : number(v) + "/s");

export function bytes(v) {
  if (v === null || v === undefined) return none;
  let unit = 0;
  while (v >= 1024 && unit < 4) { v /= 1024; unit++; }
  return digits(v) + " " + ["B", "KiB", "MiB", "GiB", "TiB"][unit];
}

// micros is a time given in microseconds.
export function micros(v) {
  if (v === null || v === undefined) return none;
  if (v < 1000) return digits(v) + " µs";
  if (v < 1e6) return digits(v / 1e3) + " ms";
  if (v < 120e6) return digits(v / 1e6) + " s";
  if (v < 7200e6) return digits(v / 60e6) + " min";
  return v < 172800e6 ? digits(v / 3600e6) + " h" : digits(v / 86400e6) + " d";
}

// span is a time given in milliseconds, in its two largest units.
export function span(ms) {
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  let s = Math.floor(ms / 1000);
  const parts = [];
  for (const [name, size] of units) {
    if (parts.length === 2) break;
    if (s >= size || (name === "s" && parts.length === 0)) {
      parts.push(Math.floor(s / size) + " " + name);
      s %= size;
    } else if (parts.length > 0) break;
  }
  return parts.join(" ");
}
