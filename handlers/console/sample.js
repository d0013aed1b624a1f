// A first record for a route, guessed from the paths that its mapping reads.

const path = /\bdata((?:\.\??[A-Za-z_]\w*)+)(\()?/g;

function guess(name, line) {
  const as = /\bas:\s*(\w+)/.exec(line)?.[1];
  if (as === "float64" || as === "float32") return 21.5;
  if (as === "int64" || as === "int32") return 42;
  if (as === "bool") return true;
  if (as === "bytes") return "aGVsbG8=";
  if (/(^|_)(ts|time|timestamp|date)$|(At|Time)$/i.test(name)) return new Date().toISOString();
  if (/total|price|amount|temp|value|score|lat|lon|mag/i.test(name)) return 12.5;
  if (/count|qty|quantity|size|age|number|lineno/i.test(name)) return 3;
  return name + "-1";
}

// sample gives a payload for the route: an object, or text where it reads no JSON.
export function sample(route) {
  if (route.format !== "json") return "hello";
  const out = {};
  const put = (steps, value) => {
    let at = out;
    for (const step of steps.slice(0, -1)) {
      if (typeof at[step] !== "object" || at[step] === null) at[step] = {};
      at = at[step];
    }
    if (!(steps.at(-1) in at)) at[steps.at(-1)] = value;
  };
  const lines = route.mapping.split("\n").map((line) => line.replace(/(^|\s)#.*$/, ""));
  for (const line of lines) {
    for (const m of line.matchAll(path)) {
      const steps = m[1].split(".").slice(1).map((s) => s.replace("?", ""));
      if (m[2]) steps.pop(); // a function of the value
      if (steps.length === 0) continue;
      if (new RegExp("each:\\s*data" + m[1].replaceAll("?", "\\?") + "\\b").test(line)) {
        const fields = [...line.matchAll(/\bvalue\.([A-Za-z_]\w*)/g)].map(([, f]) => [f, guess(f, "")]);
        put(steps, fields.length ? [Object.fromEntries(fields)] : { first: guess("first", line) });
      } else put(steps, guess(steps.at(-1), /(rowKey|table|instance|key):/.test(line) ? "" : line));
    }
  }
  return Object.keys(out).length ? out : { id: "a1", note: "hello" };
}

// spoil makes of a good payload the text that an example wants.
export function spoil(payload, example) {
  if (typeof payload === "string") return example === "missing" ? "" : payload;
  const copy = structuredClone(payload);
  const names = Object.keys(copy);
  const number = names.find((n) => typeof copy[n] === "number");
  if (example === "type") copy[number ?? names.at(-1)] = number ? "warm" : { not: "a value" };
  if (example === "missing") delete copy[names[0]];
  const text = JSON.stringify(copy, null, 2);
  return example === "broken" ? text.replace(/,?\n\}$/, ",,\n}") : text;
}
