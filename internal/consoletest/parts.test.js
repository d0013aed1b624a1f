// The console's parts that need no browser.
import assert from "node:assert/strict";
import { test } from "node:test";

const files = new URL("../../handlers/console/", import.meta.url);
const load = (name) => import(new URL(name, files));
const { History, quantile, since } = await load("stats.js");
const { charOfByte, find, get, parse } = await load("jsontext.js");
const { bytes, cut, micros, number, span } = await load("format.js");
const { compose, fromBase64, headersOf, payloadOf } = await load("envelopes.js");
const { sample, spoil } = await load("sample.js");

test("a long name keeps its two ends", () => {
  assert.equal(cut("telemetry"), "telemetry");
  assert.equal(cut("x".repeat(20)), "x".repeat(20));
  assert.equal(cut("pumps-of-the-plant-number-3"), "pumps-of…nt-number-3");
});

test("what moved is the difference, bucket by bucket", () => {
  assert.deepEqual(since([[1, 2, 5], [4, 5, 1]], [[1, 2, 7], [2, 3, 1], [4, 5, 1]]), [[1, 2, 2], [2, 3, 1]]);
  assert.deepEqual(since([], []), []);
});

test("a percentile lies in its bucket, and nothing has none", () => {
  assert.equal(quantile([], 0.5), null);
  assert.equal(quantile([[3, 4, 10]], 0.99), 3);
  assert.equal(quantile([[100, 200, 1], [1000, 2000, 99]], 0.01), 200);
  const p99 = quantile([[100, 200, 98], [1000, 2000, 2]], 0.99);
  assert.ok(p99 > 1000 && p99 <= 2000, String(p99));
});

test("a history looks back as far as it should, and forgets another process", () => {
  const h = new History(10_000);
  for (let now = 0; now <= 60_000; now += 1000) assert.ok(h.add({ process: "a", now }));
  assert.equal(h.last.now, 60_000);
  assert.equal(h.before.now, 59_000);
  assert.equal(h.oldest.now, 50_000);
  assert.equal(h.add({ process: "b", now: 61_000 }), false);
  assert.equal(h.oldest, undefined);
});

test("JSON keeps its literals and its places", () => {
  const text = '{"a": [1, {"b/c": 12345678901234567890, "x~y": 1.50}], "é\\n": "ö", "n": null}';
  const node = parse(text);
  assert.equal(get(node, "a", 1, "b/c").text, "12345678901234567890");
  for (const [pointer, want] of [["/a/1/b~1c", "12345678901234567890"], ["/a/1/x~0y", "1.50"], ["/é\n", '"ö"'], ["/n", "null"], ["", text]]) {
    const at = find(node, pointer);
    assert.equal(text.slice(at.from, at.to), want, pointer);
  }
  assert.equal(find(node, "/a/7").missing, "7");
  for (const bad of ["", "{", "[1,]", '{"a":1,}', "01", "1 2", '"\n"', "nul", '{"a" 1}', '"\\x"', "[".repeat(5000)]) assert.throws(() => parse(bad), SyntaxError, bad);
});

test("a byte is found in text of wide characters", () => {
  const text = 'a é € 😀 "x"';
  for (let i = 0; i < text.length; i++) {
    if (/[\uDC00-\uDFFF]/.test(text[i])) continue;
    assert.equal(charOfByte(text, Buffer.byteLength(text.slice(0, i))), i);
  }
  assert.equal(charOfByte(text, 1000), text.length);
});

test("quantities are short", () => {
  assert.deepEqual([bytes(0), bytes(1023), bytes(1536), bytes(64 << 20)], ["0 B", "1023 B", "1.5 KiB", "64 MiB"]);
  assert.deepEqual([micros(null), micros(410), micros(2090), micros(23_000_000)], ["–", "410 µs", "2.09 ms", "23 s"]);
  assert.deepEqual([number(0), number(0.97), number(1234), number(12_345), number(3_000_000), number(100)], ["0", "0.97", "1,234", "12.3k", "3M", "100"]);
  assert.deepEqual([span(0), span(62_000), span(3_600_000), span(90_061_000)], ["0 s", "1 min 2 s", "1 h", "1 d 1 h"]);
});

test("each envelope gives its payload back", () => {
  const payload = '{\n  "name": "€ 😀"\n}';
  for (const envelope of ["wrapped", "unwrapped", "structured", "binary", "plain"]) {
    const [headers, body] = compose(envelope, payload);
    headersOf(headers);
    const found = payloadOf(envelope, body);
    assert.equal(JSON.stringify(JSON.parse(found.text)), JSON.stringify(JSON.parse(payload)), envelope);
    if (found.from !== undefined) assert.equal(body.slice(found.from, found.from + found.text.length), found.text);
  }
  assert.equal(payloadOf("structured", compose("structured", "not {json").at(1)).text, "not {json");
  assert.equal(fromBase64("4oKs"), "€");
  assert.throws(() => headersOf("a: b\nnonsense"), /line 2/);
  assert.throws(() => headersOf("a: b\r\nc: d\u0000"), /line 2/);
});

test("a first record is guessed from the mapping", () => {
  const mapping = `telemetry:
  where: data.kind != "heartbeat"   # data.comment is none
  bigtable:
    rowKey: "{data.?device.orValue('x')}#{reverseMillis(timestamp(data.ts))}"
    set:
      - {family: m, column: temp, value: data.temp, as: float64}
      - {family: m, column: on, value: data.state.on, as: bool}
      - {family: t, each: data.tags, column: "{key}", value: value, as: string}
  spanner:
    children:
      - {table: L, each: data.lines, columns: {Sku: value.sku, Qty: value.qty}}`;
  const got = sample({ format: "json", mapping });
  assert.deepEqual(Object.keys(got), ["kind", "device", "ts", "temp", "state", "tags", "lines"]);
  assert.equal(got.temp, 21.5);
  assert.equal(got.state.on, true);
  assert.equal(typeof got.tags.first, "string");
  assert.equal(got.lines[0].qty, 3);
  assert.ok(!Number.isNaN(Date.parse(got.ts)));
  assert.equal(JSON.parse(spoil(got, "type")).temp, "warm");
  assert.equal(JSON.parse(spoil(got, "missing")).kind, undefined);
  assert.throws(() => JSON.parse(spoil(got, "broken")));
});
