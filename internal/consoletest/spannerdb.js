// A database in the Spanner emulator of the Google Cloud CLI, on free ports of loopback.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { access, constants, realpath } from "node:fs/promises";
import { createServer } from "node:net";
import { delimiter, dirname, join } from "node:path";

// spannerBinary is the emulator's path; it throws where there is none.
export async function spannerBinary() {
  for (const folder of (process.env.PATH ?? "").split(delimiter)) {
    const gcloud = await realpath(join(folder, "gcloud")).catch(() => null);
    if (!gcloud) continue;
    const binary = join(dirname(dirname(gcloud)), "bin/cloud_spanner_emulator/gateway_main");
    await access(binary, constants.X_OK);
    return binary;
  }
  throw new Error("no gcloud on PATH");
}

async function freePort() {
  const listener = createServer().listen(0, "127.0.0.1");
  await once(listener, "listening");
  const { port } = listener.address();
  listener.close();
  await once(listener, "close");
  return port;
}

// startSpanner gives {host, database, query, stop}: a new database with the statements of ddl.
export async function startSpanner(binary, ddl) {
  const grpc = await freePort(), http = await freePort();
  // The gateway starts the emulator itself and leaves it running when it is killed: the two
  // are a group, which is ended as one.
  const gateway = spawn(binary, ["--hostname=127.0.0.1", "--grpc_port=" + grpc, "--http_port=" + http], { detached: true, stdio: "ignore" });
  const exited = once(gateway, "exit");
  const end = () => { try { process.kill(-gateway.pid, "SIGKILL"); } catch { /* it ended */ } };
  process.once("exit", end);
  const stop = async () => {
    process.removeListener("exit", end);
    end();
    await exited;
  };
  const ask = async (method, path, body) => {
    const answer = await fetch(`http://127.0.0.1:${http}/v1/${path}`, { method, body: body && JSON.stringify(body) });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`Spanner emulator: ${method} ${path}: ${answer.status} ${text}`);
    return JSON.parse(text);
  };
  try {
    const deadline = Date.now() + 180_000;
    for (;;) {
      try { await ask("GET", "projects/test/instanceConfigs"); break; } catch (e) {
        if (Date.now() > deadline || gateway.exitCode !== null) throw e;
        await new Promise((r) => setTimeout(r, 50));
      }
    }
    const parent = "projects/test/instances/test", database = parent + "/databases/shop";
    await ask("POST", "projects/test/instances", { instanceId: "test", instance: { config: "projects/test/instanceConfigs/emulator-config", displayName: "test", nodeCount: 1 } });
    await ask("POST", parent + "/databases", { createStatement: "CREATE DATABASE shop", extraStatements: ddl });
    const session = await ask("POST", database + "/sessions", {});
    return { host: "127.0.0.1:" + grpc, database, stop, query: async (sql) => (await ask("POST", session.name + ":executeSql", { sql })).rows ?? [] };
  } catch (e) {
    await stop();
    throw e;
  }
}
