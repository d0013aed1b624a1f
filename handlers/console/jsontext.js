// JSON as text: values keep their literals (a number is never rounded) and their places.
// A node is {kind, from, to} with members [{name, from, to, value}], items or text.

export function parse(text) {
  let i = 0;
  const fail = (at = i) => { throw new SyntaxError("not JSON at character " + at); };
  const space = () => { while (i < text.length && " \t\r\n".includes(text[i])) i++; };

  function string() {
    const from = i++;
    while (text[i] !== '"') {
      if (i >= text.length) fail();
      i += text[i] === "\\" ? 2 : 1;
    }
    i++;
    try {
      return { kind: "string", from, to: i, text: JSON.parse(text.slice(from, i)) };
    } catch {
      return fail(from);
    }
  }

  function value(depth) {
    if (depth > 1000) fail();
    space();
    const from = i;
    if (text[i] === '"') return string();
    if (text[i] === "{") {
      const node = { kind: "object", from, to: 0, members: [] };
      i++; space();
      if (text[i] === "}") { i++; node.to = i; return node; }
      for (;;) {
        space();
        if (text[i] !== '"') fail();
        const name = string();
        space();
        if (text[i++] !== ":") fail(i - 1);
        node.members.push({ name: name.text, from: name.from, to: name.to, value: value(depth + 1) });
        space();
        if (text[i] === ",") { i++; continue; }
        if (text[i++] !== "}") fail(i - 1);
        node.to = i;
        return node;
      }
    }
    if (text[i] === "[") {
      const node = { kind: "array", from, to: 0, items: [] };
      i++; space();
      if (text[i] === "]") { i++; node.to = i; return node; }
      for (;;) {
        node.items.push(value(depth + 1));
        space();
        if (text[i] === ",") { i++; continue; }
        if (text[i++] !== "]") fail(i - 1);
        node.to = i;
        return node;
      }
    }
    const word = /^(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)/.exec(text.slice(i, i + 400));
    if (!word) fail();
    i += word[0].length;
    const kind = /^[tf]/.test(word[0]) ? "bool" : word[0] === "null" ? "null" : "number";
    return { kind, from, to: i, text: word[0] };
  }

  const node = value(0);
  space();
  if (i < text.length) fail();
  return node;
}

// get follows names and indexes; undefined where they lead nowhere.
export function get(node, ...steps) {
  for (const step of steps) {
    if (!node) return undefined;
    if (node.kind === "object") node = node.members.findLast((m) => m.name === step)?.value;
    else if (node.kind === "array") node = node.items[step];
    else return undefined;
  }
  return node;
}

// find gives the place of a JSON pointer: of the value, or where it is missing, of the
// deepest value on the way to it.
export function find(node, pointer) {
  for (const raw of pointer.split("/").slice(1)) {
    const step = raw.replaceAll("~1", "/").replaceAll("~0", "~");
    const next = get(node, step);
    if (!next) return { from: node.from, to: node.to, missing: step };
    node = next;
  }
  return { from: node.from, to: node.to };
}

// charOfByte is the index in text of a byte of its UTF-8.
export function charOfByte(text, byte) {
  let bytes = 0;
  for (let i = 0; i < text.length;) {
    if (bytes >= byte) return i;
    const point = text.codePointAt(i);
    bytes += point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    i += point < 0x10000 ? 1 : 2;
  }
  return text.length;
}
