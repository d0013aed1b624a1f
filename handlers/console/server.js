// What the page asks of the server. A proxy in front of it may add the credentials; the page
// has none of its own.

export class Server {
  // ask gives {status, ok, text}. It fails only where there was no answer.
  async ask(path, { method = "GET", headers, body, timeout = 70_000 }) {
    const response = await fetch(path, { method, headers, body, cache: "no-store", credentials: "same-origin", redirect: "error", signal: AbortSignal.timeout(timeout) });
    return { status: response.status, ok: response.ok, text: await response.text() };
  }
}

// Poll asks for something each second while the page is seen; after failures less often, up
// to every 8 seconds. Nothing is asked while it is paused or hidden.
export class Poll {
  constructor(ask, seen, failed) {
    Object.assign(this, { ask, seen, failed, paused: false, failures: 0, timer: null, asking: false, gap: false });
    document.addEventListener("visibilitychange", () => this.kick());
  }

  get idle() { return this.paused || document.hidden; }

  kick() {
    clearTimeout(this.timer);
    if (this.idle) { this.gap = true; return; }
    if (!this.asking) void this.once();
  }

  pause(on) { this.paused = on; this.kick(); }

  async once() {
    this.asking = true;
    const began = performance.now();
    try {
      const answer = await this.ask();
      const gap = this.gap;
      this.gap = false;
      await this.seen(answer, gap);
      this.failures = 0;
    } catch (e) {
      this.failures++;
      this.gap = true;
      this.failed(e, this.wait / 1000);
    }
    this.asking = false;
    if (!this.idle) this.timer = setTimeout(() => this.once(), Math.max(0, this.wait - (performance.now() - began)));
  }

  get wait() { return 1000 * Math.min(8, 2 ** Math.max(0, this.failures - 1)); }
}
