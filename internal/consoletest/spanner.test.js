// The playground on a Spanner route, against the Spanner emulator. Where that is absent the
// tests are skipped, and with REQUIRE_EMULATORS=1 they fail.
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { openPage, startBrowser, startServer } from "./harness.js";
import { spannerBinary, startSpanner } from "./spannerdb.js";

const ddl = [
  "CREATE TABLE Orders (OrderId STRING(36) NOT NULL, Total NUMERIC, Note STRING(8), SeenAt TIMESTAMP) PRIMARY KEY (OrderId)",
  "CREATE TABLE OrderLines (OrderId STRING(36) NOT NULL, LineNo INT64 NOT NULL, Sku STRING(20)) PRIMARY KEY (OrderId, LineNo), INTERLEAVE IN PARENT Orders ON DELETE CASCADE",
];
const routes = `routes:
  orders:
    where: data.?kind.orValue("") != "heartbeat"
    spanner:
      table: Orders
      columns: {OrderId: data.id, Total: data.total, SeenAt: message.publishTime}
      columnsFrom: data
      deleteWhen: has(data.cancelled)
      children:
        - {table: OrderLines, each: data.lines, columns: {OrderId: data.id, LineNo: index, Sku: value.sku}}
`;

let absent = null, database, server, browser, folder;

before(async () => {
  let binary;
  try { binary = await spannerBinary(); } catch (e) {
    if (process.env.REQUIRE_EMULATORS === "1") throw new Error("REQUIRE_EMULATORS=1 and the Spanner emulator is absent: " + e.message);
    absent = `SKIPPED, NOT TESTED: the Spanner emulator is absent (${e.message}); install the Google Cloud CLI with its emulators`;
    console.log(`\n!!! ${absent}\n`);
    return;
  }
  folder = await mkdtemp(join(tmpdir(), "consoletest-spanner-"));
  const file = join(folder, "routes.yaml");
  await writeFile(file, routes);
  const serving = startSpanner(binary, ddl).then(async (d) => {
    database = d;
    server = await startServer({ PUSHSINK_ROUTES_FILE: file, PUSHSINK_AUTH: "none", PUSHSINK_EXPOSE: "console,dryrun,rows", PUSHSINK_SPANNER_DATABASE: d.database, SPANNER_EMULATOR_HOST: d.host });
  });
  const results = await Promise.allSettled([serving, startBrowser().then((b) => { browser = b; })]);
  for (const r of results) if (r.status === "rejected") throw r.reason;
});
after(async () => {
  await browser?.stop();
  await server?.stop();
  await database?.stop();
  if (folder) await rm(folder, { recursive: true, force: true });
});

// playground opens the page there; 4xx answers are allowed.
async function playground(t) {
  const { page } = await openPage(t, browser, server.url, { refusals: true });
  await page.locator("nav a[data-view=playground]").click();
  const result = page.getByRole("region", { name: "Result" });
  const region = (name) => result.getByRole("region", { name, exact: true });
  return {
    page, result, region,
    put: (payload) => page.locator("#play-payload").fill(typeof payload === "string" ? payload : JSON.stringify(payload)),
    press: async (button) => {
      await result.evaluate((e) => e.replaceChildren());
      await page.getByRole("button", { name: button, exact: true }).click();
      await result.locator("h2").first().waitFor();
    },
    // cells are a table's, row by row; the header's first.
    cells: (locator) => locator.evaluate((e) => [...e.querySelectorAll("tr")].map((row) => [...row.children].map((c) => c.innerText.trim()))),
  };
}

const check = (name, body) => test(name, async (t) => (absent ? t.skip(absent) : body(t)));

check("a message becomes a record, a mutation group and rows", async (t) => {
  const { page, region, put, press, cells } = await playground(t);
  assert.match(await page.locator("#play-hint").innerText(), /really writes to Spanner table Orders/);
  // The guessed example is one that the route takes.
  const guessed = JSON.parse(await page.locator("#play-payload").inputValue());
  assert.deepEqual(Object.keys(guessed).filter((k) => ["id", "total", "lines"].includes(k)).sort(), ["id", "lines", "total"]);

  await put('{"id": "o-1", "total": 12345678901234567890.123456789, "note": "€ now", "extra": 1, "lines": [{"sku": "A-7"}, {"sku": "B-1"}]}');
  await press("Dry run");
  const mutation = region("Mutation");
  assert.deepEqual(await mutation.locator("h3").allInnerTexts(), ["insertOrUpdate Orders", "insertOrUpdate OrderLines", "insertOrUpdate OrderLines"]);
  const [head, ...columns] = await cells(mutation.locator("table").first());
  assert.deepEqual(head, ["Column", "Value", "From"]);
  const by = Object.fromEntries(columns.map(([column, ...rest]) => [column, rest]));
  assert.deepEqual(by.OrderId, ["o-1", ""]);
  assert.deepEqual(by.Total, ["12345678901234567890.123456789", ""], "to the last digit");
  assert.deepEqual(by.note, ["€ now", "by name"]);
  assert.deepEqual(await cells(mutation.locator("table").nth(2)), [["Column", "Value"], ["OrderId", "o-1"], ["LineNo", "1"], ["Sku", "B-1"]]);
  assert.match(await region("Record").innerText(), /"sku": "B-1"/);
  assert.deepEqual(await database.query("SELECT OrderId FROM Orders"), [], "a dry run writes nothing");

  await press("Send");
  assert.match(await region("Answer").innerText(), /204: durable/);
  // The rows are read with the very statement that the page names.
  const sql = await page.locator("#play-sql").innerText();
  const rows = await database.query(sql);
  const published = JSON.parse(await page.locator("#play-body").inputValue()).message.publishTime;
  assert.deepEqual(rows, [["o-1", "12345678901234567890.123456789", "€ now", published]]);
  assert.deepEqual(await database.query("SELECT LineNo, Sku FROM OrderLines ORDER BY LineNo"), [["0", "A-7"], ["1", "B-1"]]);

  await put({ id: "o-1", cancelled: true });
  await press("Send");
  assert.match(await region("Mutation").locator("h3").first().innerText(), /^delete Orders/);
  assert.deepEqual(await database.query(sql), []);
  await put({ kind: "heartbeat" });
  await press("Send");
  assert.match(await region("Mutation").innerText(), /Skipped: the route's where is false/);
});

check("what the mapping and the database refuse stands at its place", async (t) => {
  const { page, result, region, put, press } = await playground(t);
  // caret holds the marked text to what stands above the caret.
  const caret = async (want, after = "") => {
    const frame = result.locator(".frame");
    assert.equal(await frame.locator("mark").innerText(), want);
    const lines = (await frame.innerText()).split("\n").map((l) => l.replace(/\s+$/, ""));
    const at = lines.findIndex((l) => l.includes(after + want));
    assert.equal(lines[at + 1].indexOf("^".repeat(want.length)), lines[at].indexOf(after + want) + after.length, lines.join("\n"));
  };
  await put('{"id": "o-2", "total": 1,, "lines": []}');
  await press("Dry run");
  assert.match(await region("Dry run").innerText(), /422 bad_json/);
  await caret(",", "1,");

  // The column's type is the database's, and known to a dry run.
  await put('{"id": "o-2",\n "total": "warm",\n "lines": []}');
  await press("Dry run");
  assert.match(await region("Dry run").innerText(), /422 type_mismatch/);
  await caret('"warm"');
  await press("Send");
  assert.match(await region("Answer").innerText(), /422 type_mismatch/);
  await caret('"warm"');
  await page.getByRole("button", { name: "Go to it in the payload" }).click();
  assert.equal(await page.evaluate(() => { const e = document.activeElement; return e.value.slice(e.selectionStart, e.selectionEnd); }), '"warm"');

  await put('{"id": "o-2",\n "note": "longer than eight",\n "lines": []}');
  await press("Send");
  assert.match(await region("Answer").innerText(), /422/);
  await caret('"longer than eight"');

  // Without its key the database refuses the row: no place in it, but the reason.
  await put({ total: 1, lines: [] });
  await press("Dry run");
  assert.match(await region("Mutation").innerText(), /refused when it is sent/);
  await press("Send");
  assert.match(await region("Answer").innerText(), /422 constraint .*NOT NULL/);
  assert.deepEqual(await database.query("SELECT OrderId FROM Orders WHERE OrderId = 'o-2'"), []);
});

check("the route's card names table and database", async (t) => {
  const { page } = await openPage(t, browser, server.url);
  await page.locator("nav a[data-view=routes]").click();
  const card = await page.getByRole("article", { name: "Route orders" }).innerText();
  assert.match(card, /Spanner/);
  assert.ok(card.includes(database.database), card);
});
