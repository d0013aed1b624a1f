// The console in a browser, against a server of this checkout.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { openPage, post, startBrowser, startServer } from "./harness.js";

const views = ["live", "routes", "playground"];
let server, browser, folder;

before(async () => {
  [server, browser] = await Promise.all([startServer(), startBrowser()]);
  folder = await mkdtemp(join(tmpdir(), "consoletest-routes-"));
});
after(async () => {
  await browser?.stop();
  await server?.stop();
  await rm(folder, { recursive: true, force: true });
});

const open = (t, url = server.url, held) => openPage(t, browser, url, held);
const show = (page, view) => page.locator(`nav a[data-view=${view}]`).click();
const text = (page, selector) => page.locator(selector).innerText();
const record = (n) => JSON.stringify({ device: "d" + (n % 5), temp: n / 10 });

test("it loads, shows how to begin, and begins with the first record", async (t) => {
  const { page, asked } = await open(t);
  assert.equal(await page.title(), "Live · pushsink console");
  await page.locator("#empty").waitFor();
  assert.ok(await page.locator("#charts").isHidden());
  const curl = await page.locator("#empty-curl").textContent();
  const { stdout } = await promisify(execFile)("bash", ["-c", curl]);
  assert.match(stdout, /^HTTP\/1.1 204/);
  await page.locator("#charts").waitFor();
  assert.ok(await page.locator("#empty").isHidden());
  await page.locator("#live-sub", { hasText: /^1 record written/ }).waitFor();
  await page.locator("#health", { hasText: /^ready$/ }).waitFor();
  assert.ok(asked.some((u) => u.endsWith("/console/files/uplot.js")));
});

test("live data moves", async (t) => {
  const { page } = await open(t);
  let sending = true;
  const traffic = (async () => {
    for (let n = 0; sending; n++) {
      await post(server.url + "/v1/routes/demo/records", `[${record(n)},${record(n + 1)},{"device":"d","temp":"warm"}]`);
      await new Promise((r) => setTimeout(r, 50));
    }
  })();
  const value = (id) => page.locator(`#chart-${id} .value`);
  try {
    await value("outcomes").filter({ hasText: /[1-9].*\/s/ }).waitFor();
    const first = await text(page, "#live-sub");
    await page.waitForFunction((was) => document.querySelector("#live-sub").innerText !== was, first);
    for (const [id, form] of [["latency", /\d (µs|ms|s)/], ["durable", /\d (µs|ms|s)/], ["batch", /^[12]/], ["bytes", /\d (B|KiB)/]]) {
      await value(id).filter({ hasText: form }).waitFor();
    }
    await page.locator("#chart-outcomes .legend li", { hasText: "rejected" }).filter({ hasText: /[1-9]/ }).waitFor();
    assert.match(await text(page, "#chart-bytes .aside"), /of 64 MiB/);
    assert.match(await text(page, "#chart-streak .aside"), /of 100/);
    assert.match(await page.locator("#chart-outcomes .plot").getAttribute("aria-label"), /written [\d.]+/);
    // The picture is drawn, not only its figures.
    await page.waitForFunction(() => {
      const c = document.querySelector("#chart-outcomes canvas");
      // A copy is read: of a canvas that is read often itself the browser warns, which is a fault here.
      const copy = new OffscreenCanvas(c.width, c.height).getContext("2d", { willReadFrequently: true });
      copy.drawImage(c, 0, 0);
      const points = copy.getImageData(0, 0, c.width, c.height).data;
      let green = 0;
      for (let i = 0; i < points.length; i += 4) if (points[i + 3] > 200 && points[i + 1] > points[i] + 40) green++;
      return green > 50;
    });
  } finally {
    sending = false;
    await traffic;
  }
});

test("nothing is asked while it is paused or hidden", async (t) => {
  const { page, asked } = await open(t);
  const polls = () => asked.filter((u) => u.endsWith("/console/live")).length;
  const quiet = async () => {
    await page.waitForTimeout(300); // what was under way
    const n = polls();
    await page.waitForTimeout(2500);
    assert.equal(polls(), n);
  };
  const goesOn = async () => {
    const n = polls();
    await page.waitForRequest((r) => r.url().endsWith("/console/live"));
    assert.ok(polls() > n);
  };
  await goesOn();
  await page.locator("#pause").click();
  assert.equal(await text(page, "#pause"), "Resume");
  await quiet();
  await page.locator("#pause").click();
  await goesOn();
  const hide = (hidden) => page.evaluate((h) => {
    Object.defineProperty(document, "hidden", { value: h, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  }, hidden);
  await hide(true);
  await quiet();
  await hide(false);
  await goesOn();
});

test("routes show their mapping as it is in the file", async (t) => {
  const { page } = await open(t);
  await show(page, "routes");
  const card = page.getByRole("article", { name: "Route demo" });
  const mapping = await card.locator("pre").innerText();
  assert.match(mapping, /^demo:\n {2}default: true\n/);
  assert.ok(mapping.includes('rowKey: "{data.?device'), mapping);
  await card.locator(".pill", { hasText: /^ok$/ }).waitFor();
  await card.locator(".counts", { hasText: /[1-9]\d* written/ }).waitFor();
  await card.getByRole("button", { name: "Try demo" }).click();
  await page.locator("#view-playground").waitFor();
});

for (const envelope of ["wrapped", "unwrapped", "structured", "binary", "plain"]) {
  test(`the playground maps, sends and reads back: ${envelope}`, async (t) => {
    const { page } = await open(t, server.url, { refusals: true });
    await show(page, "playground");
    await page.locator("#play-envelope").selectOption(envelope);
    await page.locator("#dryrun").click();
    const mutation = page.getByRole("region", { name: "Result" }).getByLabel("Mutation");
    await mutation.getByText("float64").waitFor();
    assert.match(await mutation.innerText(), /device-1#\d{19}#/);
    assert.match(await page.getByLabel("Record", { exact: true }).innerText(), /"temp": 21.5/);
    assert.match(await text(page, "#play-hint"), /really writes to Bigtable table demo/);

    await page.locator("#send").click();
    const row = page.getByLabel("Row, read back");
    await row.getByText("m:temp").waitFor();
    assert.match(await row.innerText(), /21\.5/);
    const key = /device-1#\d{19}#\S+/.exec(await row.innerText())[0];
    const answer = await (await fetch(server.url + "/v1/routes/demo/rows?decode=1&limit=1&start=" + encodeURIComponent(key))).text();
    assert.equal(JSON.parse(answer.split("\n")[0]).key, key);

    // An error stands at its place, with a caret under it, and the text can be gone to.
    await page.locator("#play-example").selectOption("type");
    await page.locator("#dryrun").click();
    const frame = page.locator("#results .frame");
    await frame.waitFor();
    assert.equal(await frame.locator("mark").innerText(), '"warm"');
    const lines = (await frame.innerText()).split("\n").map((l) => l.replace(/\s+$/, ""));
    const at = lines.findIndex((l) => l.includes('"warm"'));
    assert.equal(lines[at + 1].indexOf("^^^^^^"), lines[at].indexOf('"warm"'), lines.join("\n"));
    assert.match(await text(page, "#results .callout"), /422 type_mismatch/);
    await page.getByRole("button", { name: /^Go to it/ }).click();
    assert.equal(await page.evaluate(() => { const e = document.activeElement; return e.value.slice(e.selectionStart, e.selectionEnd); }), '"warm"');

    await page.locator("#play-example").selectOption("broken");
    await page.locator("#dryrun").click();
    await page.locator("#results .callout", { hasText: "bad_json" }).waitFor();
    assert.equal(await page.locator("#results .frame mark").innerText(), ",");
  });
}

test("the payload of a wrapped push can be edited in the clear", async (t) => {
  const { page } = await open(t);
  await show(page, "playground");
  await page.locator("#play-payload").fill('{"device": "edited €", "n": 12345678901234567890}');
  assert.equal(Buffer.from(JSON.parse(await page.locator("#play-body").inputValue()).message.data, "base64").toString(), '{"device": "edited €", "n": 12345678901234567890}');
  await page.locator("#dryrun").click();
  await page.getByLabel("Record", { exact: true }).getByText("12345678901234567890").waitFor(); // not rounded
  await page.locator("#play-body").fill('{"message":{"data":"e30="}}');
  assert.equal(await page.locator("#play-payload").inputValue(), "{}");
});

test("what a record holds stays text", async (t) => {
  const { page, faults } = await open(t, server.url, { refusals: true });
  await page.evaluate(() => { window.hit = () => { window.struck = true; }; });
  await show(page, "playground");
  const bad = `"><img src=x onerror="window.struck=true"><script>window.struck=true</script>`;
  const data = { device: bad, [bad]: bad, temp: 1.5, nested: { [bad]: [bad] } };
  const body = JSON.stringify({ message: { data: Buffer.from(JSON.stringify(data)).toString("base64"), attributes: { [bad]: bad }, messageId: bad, publishTime: "2026-11-30T08:00:00Z", orderingKey: bad }, subscription: bad });
  await page.locator("#play-body").fill(body);
  await page.locator("#send").click();
  await page.getByLabel("Row, read back").getByText("m:temp").waitFor();
  const shown = await text(page, "#results");
  assert.ok(shown.split(bad).length > 10, shown);
  await page.locator("#play-payload").fill(JSON.stringify({ ...data, temp: bad }));
  await page.locator("#dryrun").click();
  await page.locator("#results .frame mark").waitFor();
  await page.locator("#play-body").fill(bad);
  await page.locator("#dryrun").click();
  await page.locator("#results .callout", { hasText: "400" }).waitFor();
  await page.waitForTimeout(300);
  assert.equal(await page.locator("main img, main script").count(), 0);
  assert.equal(await page.evaluate(() => window.struck), undefined);
  // Markup is refused as such, whoever writes it.
  assert.equal(await page.evaluate(() => { try { document.createElement("p").innerHTML = "<b>x</b>"; return "taken"; } catch { return "refused"; } }), "refused");
  assert.ok((await page.evaluate(() => window.breaches.splice(0))).length > 0);
  assert.deepEqual(faults.splice(0).filter((f) => !f.includes("TrustedHTML")), []);
});

test("every control is reached and worked by the keyboard", async (t) => {
  const { page } = await open(t);
  for (const view of views) {
    await page.evaluate((v) => { location.hash = "#" + v; }, view);
    await page.locator("#view-" + view).waitFor();
    if (view === "playground") {
      await page.locator("#play-body").press("Control+Enter");
      await page.getByLabel("Mutation", { exact: true }).waitFor();
    }
    await page.evaluate(() => { document.activeElement?.blur(); scrollTo(0, 0); getSelection().removeAllRanges(); });
    const wanted = await page.evaluate(() => {
      const list = [...document.querySelectorAll("a[href], button:not(:disabled), select, textarea, input, [tabindex='0']")].filter((e) => e.checkVisibility());
      list.forEach((e, i) => { e.dataset.stop = i; });
      return list.length;
    });
    const reached = [];
    await page.locator(".skip").focus();
    for (let i = 0; i < wanted + 5; i++) {
      const seen = await page.evaluate(() => {
        const e = document.activeElement, s = getComputedStyle(e);
        return { stop: e.dataset.stop, marked: s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 2, what: e.outerHTML.slice(0, 80), named: e.getAttribute("aria-label") || e.labels?.[0]?.innerText || e.innerText || "" };
      });
      if (seen.stop === undefined) break;
      if (reached.includes(Number(seen.stop))) break;
      reached.push(Number(seen.stop));
      assert.ok(seen.named.trim() !== "", "no name: " + seen.what);
      if (i > 0) assert.ok(seen.marked, "focus is not seen: " + seen.what);
      await page.keyboard.press("Tab");
    }
    assert.deepEqual(reached, [...Array(wanted).keys()], view + ": in the order of the page");
  }
  await page.locator("nav a[data-view=routes]").focus();
  await page.keyboard.press("Enter");
  await page.locator("#view-routes").waitFor();
  assert.equal(await page.locator("nav a[aria-current=page]").innerText(), "Routes");
  await page.locator("#theme").focus();
  await page.keyboard.press("Space");
  assert.equal(await page.locator("#theme").getAttribute("aria-pressed"), "true");
  await page.keyboard.press("Space");
  await page.locator("nav a[data-view=playground]").focus();
  await page.keyboard.press("Enter");
  for (const key of ["Enter", "Space"]) {
    await page.evaluate(() => document.querySelector("#results").replaceChildren());
    await page.locator("#dryrun").focus();
    await page.keyboard.press(key);
    await page.getByLabel("Mutation", { exact: true }).waitFor();
  }
  await page.locator(".skip").focus();
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");
});

for (const theme of ["light", "dark"]) {
  test(`the ${theme} theme can be read`, async (t) => {
    const { page } = await open(t, server.url, { refusals: true, options: { dark: theme === "dark" } });
    assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), theme, "the system's");
    for (const view of views) {
      await show(page, view);
      if (view === "playground") {
        await page.locator("#play-example").selectOption("type");
        await page.locator("#dryrun").click();
        await page.locator("#results .frame").waitFor();
      }
      const poor = await page.evaluate(() => {
        const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
        const over = (colours) => { // painted one over the other
          canvas.clearRect(0, 0, 1, 1);
          for (const c of colours) { canvas.fillStyle = c; canvas.fillRect(0, 0, 1, 1); }
          return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
        };
        const light = (rgb) => rgb.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
        const contrast = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
        const ground = (e) => { const list = []; for (; e; e = e.parentElement) list.unshift(getComputedStyle(e).backgroundColor); return list; };
        const found = [];
        for (const e of document.querySelectorAll("body *")) {
          if (!e.checkVisibility() || !(e.matches("select, textarea") || [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()))) continue;
          const behind = ground(e);
          const ratio = contrast(over([...behind, getComputedStyle(e).color]), over(behind));
          if (ratio < 4.5) found.push(`${e.tagName}.${e.className} ${e.textContent.slice(0, 20)}: ${ratio.toFixed(2)}`);
        }
        const style = getComputedStyle(document.documentElement);
        for (const tone of ["green", "blue", "violet", "amber", "red", "grey"]) {
          const ratio = contrast(over([style.getPropertyValue("--" + tone)]), over([style.getPropertyValue("--card")]));
          if (ratio < 4.5) found.push(`line ${tone}: ${ratio.toFixed(2)}`);
        }
        const edge = contrast(over([style.getPropertyValue("--strong-line")]), over([style.getPropertyValue("--ground")]));
        if (edge < 3) found.push("edge of a field: " + edge.toFixed(2));
        return found;
      });
      assert.deepEqual(poor, [], view);
    }
    // The other one is a click away, and stays.
    const other = theme === "dark" ? "light" : "dark";
    await page.locator("#theme").click();
    assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), other);
    await page.reload();
    assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), other);
    await page.evaluate(() => localStorage.clear());
  });
}

test("it fits a small screen and stands still for who wants it", async (t) => {
  const { page } = await open(t, server.url, { options: { viewport: { width: 360, height: 740 }, still: true } });
  for (const view of views) {
    await show(page, view);
    if (view === "playground") {
      await page.locator("#dryrun").click();
      await page.getByLabel("Mutation", { exact: true }).waitFor();
    }
    const { wide, moving } = await page.evaluate(() => ({
      wide: document.documentElement.scrollWidth - innerWidth,
      moving: [...document.querySelectorAll("*")].filter((e) => getComputedStyle(e).animationName !== "none").length,
    }));
    assert.ok(wide <= 0, `${view} is ${wide} pixels too wide`);
    assert.equal(moving, 0, view);
  }
});

test("a lost connection and another process are told", async (t) => {
  let own = await startServer();
  try {
    const { page } = await open(t, own.url, { refusals: true });
    await post(own.url + "/", record(1));
    await own.stop();
    const notice = page.locator("#connection");
    await notice.getByText("No connection to the server").waitFor();
    await page.locator("#health", { hasText: "no answer" }).waitFor();
    assert.match(await notice.innerText(), /the last answer came at \d\d:/i);
    own = await startServer({ PORT: new URL(own.url).port });
    await notice.getByText("Another process answers").waitFor();
    await page.locator("#health", { hasText: "ready" }).waitFor();
  } finally {
    await own.stop();
  }
});

test("several instances and a missing token are told", async (t) => {
  const { page } = await open(t, server.url, { refusals: true });
  let turn = 0;
  await page.route(/\/console\/(live|routes)$/, async (route) => {
    const live = route.request().url().endsWith("live");
    if (live) turn++;
    const answer = await (await route.fetch()).json();
    await route.fulfill({ json: { ...answer, process: "p" + (turn % 2) } });
  });
  await page.locator("#connection").getByText("Several instances answer").waitFor();
  await page.unrouteAll({ behavior: "wait" });
  await page.route(/\/console\/live$/, (route) => route.fulfill({ status: 401, body: "{}" }));
  await page.locator("#connection").getByText("Not signed in").waitFor();
});

test("what is not exposed is said by the option's name, and a failing route why", async (t) => {
  const routes = join(folder, "routes.yaml");
  await writeFile(routes, `routes:
  # <script>window.struck=true</script>
  telemetry:
    default: true
    onReject: drop   # <img src=x onerror=window.struck=true>
    bigtable:
      table: readings
      rowKey: "{data.device}"
      set:
        - {family: m, column: temp, value: data.temp, as: float64}
  events:
    input: {envelope: unwrapped}
    bigtable:
      table: "events-{data.day}"
      rowKey: "{data.id}"
      set:
        - {family: m, column: kind, value: data.kind, as: string}
`);
  const own = await startServer({ PUSHSINK_ROUTES_FILE: routes, PUSHSINK_AUTH: "none", PUSHSINK_EXPOSE: "console", PUSHSINK_BIGTABLE_PROJECT: "p", PUSHSINK_BIGTABLE_INSTANCE: "i", BIGTABLE_EMULATOR_HOST: "127.0.0.1:1" });
  try {
    const { page } = await open(t, own.url, { refusals: true });
    await show(page, "playground");
    const said = await text(page, "#not-exposed");
    assert.match(said, /PUSHSINK_EXPOSE=console,dryrun/);
    assert.match(said, /PUSHSINK_EXPOSE=console,rows/);
    assert.ok(await page.locator("#dryrun").isDisabled());
    await page.locator("#play-route").selectOption("events");
    assert.equal(await page.locator("#play-envelope").inputValue(), "unwrapped");
    await page.locator("#play-route").selectOption("telemetry");
    await page.locator("#send").click();
    await page.locator("#results .callout", { hasText: "503" }).waitFor();
    await show(page, "routes");
    const card = page.getByRole("article", { name: "Route telemetry" });
    await card.locator(".pill", { hasText: "failing" }).waitFor();
    assert.match(await card.locator(".callout").innerText(), /route telemetry: /);
    assert.match(await card.innerText(), /of 100, then it stops/);
    assert.match(await card.locator("pre").innerText(), /<img src=x/);
    assert.match(await page.getByRole("article", { name: "Route events" }).innerText(), /named by each record/);
    await show(page, "live");
    await page.locator("#reasons", { hasText: "telemetry" }).waitFor();
    await page.locator("#health", { hasText: "not ready" }).waitFor();
    assert.equal(await page.evaluate(() => window.struck), undefined);
  } finally {
    await own.stop();
  }
});
