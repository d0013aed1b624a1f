// What moved between two answers of /console/live. The server counts since its start and
// keeps nothing for a page; a bucket is [from, to, count], `to` excluded.

// since gives the buckets of `now` without what `before` had counted already.
export function since(before, now) {
  const had = new Map(before.map(([from, , n]) => [from, n]));
  return now.map(([from, to, n]) => [from, to, n - (had.get(from) ?? 0)]).filter(([, , n]) => n > 0);
}

// quantile reads the q-quantile (0 to 1) of buckets, taking what is in one as evenly spread;
// null where nothing was counted.
export function quantile(buckets, q) {
  const total = buckets.reduce((sum, [, , n]) => sum + n, 0);
  if (total === 0) return null;
  let left = q * total;
  for (const [from, to, n] of buckets) {
    if (left <= n) return to - from <= 1 ? from : from + (to - from) * (left / n);
    left -= n;
  }
  return buckets.at(-1)[1];
}

// History keeps the answers of one process for as long as a figure looks back.
export class History {
  constructor(span) { this.span = span; this.list = []; }

  // add takes an answer. It reports false where the process is another one, whose counts
  // have nothing to do with what was there.
  add(live) {
    const same = this.list.length === 0 || this.list.at(-1).process === live.process;
    if (!same) this.list = [];
    this.list.push(live);
    while (this.list.length > 2 && live.now - this.list[1].now >= this.span) this.list.shift();
    return same;
  }

  get last() { return this.list.at(-1); }
  // before is the answer one step back, oldest the one that a percentile is counted from.
  get before() { return this.list.at(-2); }
  get oldest() { return this.list.length > 1 ? this.list[0] : undefined; }
}
