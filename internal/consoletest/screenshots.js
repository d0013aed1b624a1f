// Writes docs/console-light.png and docs/console-dark.png, with traffic: make console-screenshots.
import { mkdir } from "node:fs/promises";
import { post, startBrowser, startServer } from "./harness.js";

const out = process.argv[2] ?? "out";
const seconds = Number(process.env.SECONDS_OF_TRAFFIC ?? 75);
await mkdir(out, { recursive: true });
const server = await startServer();
const browser = await startBrowser();
let running = true;

// Devices that send readings at an uneven rate, a few of them bad, in pushes and in batches.
async function traffic() {
  let n = 0;
  for (let t = 0; running; t++) {
    const rate = 14 + 9 * Math.sin(t / 40) + 5 * Math.sin(t / 13) + 4 * Math.random();
    const pushes = Array.from({ length: Math.round(rate) }, () => {
      n++;
      const data = { device: "pump-" + (n % 40), temp: n % 97 === 0 ? "warm" : 20 + (n % 50) / 10, note: "n" + n };
      return post(server.url + "/", JSON.stringify({ message: { data: btoa(JSON.stringify(data)), messageId: String(n), publishTime: new Date(Date.now() - 40 - Math.random() * 300).toISOString() }, subscription: "projects/p/subscriptions/s" })).then((r) => r.arrayBuffer());
    });
    if (t % 6 === 0) pushes.push(post(server.url + "/v1/routes/demo/records", JSON.stringify(Array.from({ length: 60 }, (_, i) => ({ device: "meter-" + i, temp: 18 + i / 10 })))).then((r) => r.arrayBuffer()));
    await Promise.all(pushes);
    await new Promise((r) => setTimeout(r, 90));
  }
}

try {
  const sending = traffic();
  const page = browser.context.pages()[0];
  await page.setViewportSize({ width: 1320, height: 800 });
  await page.goto(server.url + "/");
  await page.locator("#charts").waitFor();
  await new Promise((r) => setTimeout(r, seconds * 1000));
  for (const theme of ["light", "dark"]) {
    await page.evaluate((t) => { if (document.documentElement.dataset.theme !== t) document.getElementById("theme").click(); }, theme);
    for (const view of (process.env.VIEWS ?? "live").split(",")) {
      await page.goto(server.url + "/#" + view.replace(/-.*/, ""));
      if (view.startsWith("playground")) {
        await page.locator("#play-example").selectOption(view === "playground-error" ? "type" : "good");
        await page.locator(view === "playground-send" ? "#send" : "#dryrun").click();
        await page.locator("#results h2").first().waitFor();
      }
      await page.waitForTimeout(1300);
      await page.mouse.move(0, 0);
      await page.screenshot({ path: `${out}/console-${view === "live" ? "" : view + "-"}${theme}.png` });
    }
  }
  running = false;
  await sending;
} finally {
  running = false;
  await browser.stop();
  await server.stop();
}
