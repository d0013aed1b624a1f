// A server of this checkout and a browser to look at its console. Both are ended by the
// process that was started, and everything is on loopback.
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
    viewport: { width: 1360, height: 900 },
    args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
      "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
  context.setDefaultTimeout(60_000); // a busy machine takes its time
  return {
    context,
    async stop() {
      await context.close();
      await rm(profile, { recursive: true, force: true });
    },
  };
}

// post sends a JSON text.
export function post(url, body, headers = {}) {
  return fetch(url, { method: "POST", body, headers: { "content-type": "application/json", ...headers } });
}
