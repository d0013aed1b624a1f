// A server of this checkout and a browser to look at its console. Both are ended by the
// process that was started, and everything is on loopback.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const binary = process.env.PUSHSINK_SERVER;
if (!binary) throw new Error("PUSHSINK_SERVER must name the server's binary: make console-test builds it");

// startServer runs the binary with env alone and gives its address; nothing configured is dev mode.
export async function startServer(env = {}) {
  const child = spawn(binary, [], { env: { PORT: "0", ...env }, stdio: ["ignore", "pipe", "pipe"] });
  const exited = once(child, "exit");
  let output = "";
  const url = await new Promise((resolve, reject) => {
    const read = (chunk) => {
      output += chunk;
      const found = /"address":"[^"]*?:(\d+)"|address="?[^"\s]*?:(\d+)/.exec(output);
      if (found) resolve("http://127.0.0.1:" + (found[1] ?? found[2]));
    };
    child.stdout.on("data", read);
    child.stderr.on("data", read);
    child.once("error", reject);
    child.once("exit", (code) => reject(new Error(`the server ended with ${code}: ${output}`)));
  });
  return {
    url,
    async stop(signal = "SIGTERM") {
      child.kill(signal);
      await exited;
    },
  };
}

// startBrowser opens Debian's Chromium with a profile of its own.
export async function startBrowser() {
  const profile = await mkdtemp(join(tmpdir(), "consoletest-"));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    headless: true,
    timeout: 300_000, // of the start
    viewport: { width: 1360, height: 900 },
    args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
      "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
  context.setDefaultTimeout(180_000); // a busy machine takes its time
  return {
    context,
    async stop() {
      await context.close();
      await rm(profile, { recursive: true, force: true });
    },
  };
}

// openPage opens a page that is held to: no error, no breach of the policy, no other origin.
// An answer of 4xx or 5xx that the test provokes is logged by the browser, and allowed by it.
export async function openPage(t, browser, url, { refusals = false, options = {} } = {}) {
  const page = await browser.context.newPage();
  if (options.viewport) await page.setViewportSize(options.viewport);
  await page.emulateMedia({ colorScheme: options.dark ? "dark" : "light", reducedMotion: options.still ? "reduce" : "no-preference" });
  const faults = [], asked = [];
  page.on("console", (m) => {
    if (!["error", "warning"].includes(m.type())) return;
    if (refusals && m.text().startsWith("Failed to load resource")) return;
    faults.push(`${m.type()}: ${m.text()}`);
  });
  page.on("pageerror", (e) => faults.push("thrown: " + e.message));
  page.on("request", (r) => {
    asked.push(r.url());
    if (!r.url().startsWith(url + "/")) faults.push("asked another origin: " + r.url());
  });
  await page.addInitScript(() => {
    window.breaches = [];
    document.addEventListener("securitypolicyviolation", (e) => window.breaches.push(e.violatedDirective + " " + e.blockedURI));
  });
  await page.goto(url + "/");
  await page.locator("#version").filter({ hasText: "pushsink" }).waitFor();
  t.after(async () => {
    const breaches = await page.evaluate(() => window.breaches);
    await page.close();
    assert.deepEqual(faults, [], "errors in the page");
    assert.deepEqual(breaches, [], "breaches of the policy");
  });
  return { page, asked, faults };
}

// post sends a JSON text.
export function post(url, body, headers = {}) {
  return fetch(url, { method: "POST", body, headers: { "content-type": "application/json", ...headers } });
}
