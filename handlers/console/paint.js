// Text with colours: JSON with its literals kept, YAML as it is in the file, and the place
// of an error with a caret under it.
import { el } from "./dom.js";

const most = 3000; // pieces of one block: a record may have 16 MiB, a page should not

// json lays a node out, a member a line.
export function json(node) {
  const code = el("code", { class: "json" });
  let pieces = 0;
  const put = (text, kind) => {
    if (++pieces > most) return;
    code.append(kind ? el("span", { class: "t-" + kind, text: clip(text, 20_000) }) : text);
  };
  const walk = (n, indent) => {
    if (pieces > most) return;
    const list = n.kind === "object" ? n.members : n.kind === "array" ? n.items : null;
    if (!list) return put(n.kind === "string" ? JSON.stringify(n.text) : n.text, n.kind);
    const [open, close] = n.kind === "object" ? "{}" : "[]";
    if (list.length === 0) return put(open + close);
    put(open);
    list.forEach((item, i) => {
      put((i ? "," : "") + "\n" + indent + "  ");
      if (n.kind === "object") {
        put(JSON.stringify(item.name), "name");
        put(": ");
        walk(item.value, indent + "  ");
      } else walk(item, indent + "  ");
    });
    put("\n" + indent + close);
  };
  walk(node, "");
  if (pieces > most) code.append(el("span", { class: "t-comment", text: "\n… the rest is not shown" }));
  return el("pre", { class: "code", tabindex: "0" }, code);
}

const clip = (text, n) => (text.length > n ? text.slice(0, n) + "…" : text);

const yamlToken = /(^|\s)(#.*$)|("(?:[^"\\]|\\.)*"|'[^']*')|([A-Za-z_][\w.-]*)(?=:(?:\s|$))/g;

export function yaml(text) {
  const code = el("code");
  for (const line of text.trimEnd().split("\n")) {
    let at = 0;
    for (const m of line.matchAll(yamlToken)) {
      const start = m.index + (m[1] ?? "").length;
      code.append(line.slice(at, start));
      code.append(el("span", { class: m[2] ? "t-comment" : m[3] ? "t-string" : "t-name", text: m[2] ?? m[3] ?? m[4] }));
      at = m.index + m[0].length;
    }
    code.append(line.slice(at) + "\n");
  }
  return el("pre", { class: "code", tabindex: "0" }, code);
}

// frame shows the lines around [from, to) of text, with carets and the message under the place.
export function frame(text, from, to, message) {
  from = Math.min(from, text.length);
  const lines = text.split("\n");
  let number = 0, start = 0;
  while (number < lines.length - 1 && start + lines[number].length < from) start += lines[number++].length + 1;
  const column = from - start;
  const width = Math.max(1, Math.min(to - from, lines[number].length - column));
  const pre = el("pre", { class: "frame", tabindex: "0", "data-line": number + 1, "data-column": column + 1 });
  const gutter = String(Math.min(lines.length, number + 3)).length;
  for (let i = Math.max(0, number - 3); i <= Math.min(lines.length - 1, number + 2); i++) {
    const row = el("span", { class: i === number ? "line at" : "line" },
      el("span", { class: "gutter", "aria-hidden": "true", text: String(i + 1).padStart(gutter) }));
    if (i !== number) {
      row.append(clip(lines[i], 160));
      pre.append(row, "\n");
      continue;
    }
    const left = Math.max(0, column - 80), end = column + Math.min(width, 80);
    row.append((left ? "…" : "") + lines[i].slice(left, column));
    row.append(el("mark", { text: lines[i].slice(column, end) || " " }));
    row.append(clip(lines[i].slice(end), 80));
    const pad = lines[i].slice(left, column).replace(/[^\t]/g, " ");
    pre.append(row, "\n", el("span", { class: "line caret" },
      el("span", { class: "gutter", text: " ".repeat(gutter) }),
      (left ? " " : "") + pad, el("b", { text: "^".repeat(Math.max(1, end - column)) }), " " + message), "\n");
  }
  return pre;
}
