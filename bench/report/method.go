package report

// method says how the figures came about.
const method = `## Method

` + "`make bench`" + ` builds every server with ` + "`-trimpath -ldflags='-s -w'`" + ` and runs it as a process of its own, beside a backend that keeps
nothing and a load generator, all on loopback. ` + "`make bench SCENARIO=push-256,push-1000`" + ` runs some scenarios and prints them,
` + "`make bench BENCHFLAGS='-rounds 5 -measure 10s'`" + ` takes longer, ` + "`cd bench && go run . -h`" + ` lists the rest. One row is a scenario
with one contender: ` + "`BENCHFLAGS='-contenders naive'`" + `.

- **Work.** All contenders take the same 500-byte JSON record and write the same row: key ` + "`device#seq`" + `, family ` + "`m`" + `, five cells
  with the record's own time (in Spanner a row of eight columns). A test holds their writes against each other, byte by byte.
- **Turns.** A scenario's servers are started once, all before its first turn, and are idle outside theirs. Each turn opens its
  connections anew, warms up, and then measures in a window.
- **Load.** One thread with epoll sends prepared bytes, in which it replaces the sequence numbers. The closed loop sends the next
  request of a connection when it has the answer. The open loop sends at exponential gaps, the same in every turn, and counts a
  latency from when a request was to be sent, so that a server that stalls is charged for what waited meanwhile.
- **Backend.** gRPC's own server without decoding: it counts the entries on the wire and answers OK an exact latency after
  the request came. In every turn it must have got at least as many entries as records were answered 2xx, or the benchmark
  fails. It fails, too, when more than one in a hundred requests was not answered 2xx; fewer are shown beside the contender's name.
- **CPU** is user and system time of the server's process from the system (ticks of 10 ms), over the window, by the records answered in
  it. Allocations come from the runtime's own count in the same window.
- **Sharing.** Nothing is pinned. Generator and backend run on the cores of the server, so that in the closed loop a server that needs
  less CPU leaves them more; their CPU per record is shown. Only ratios within a round mean something. Of the generator's, five
  sixths are the system's calls, one write and one read a request (a write on loopback does the receiver's part of TCP, too).
- **Bounds.** With its defaults pushsink has 8 requests of 100 records open for a table, and 1,000 records in the writer: of a backend that
  takes 5 ms that is 160,000 records a second at most, whatever the CPU, and less as a busy machine answers later. The NDJSON
  row of pushsink is bound by it, that of pushsink-bulk by the CPU.

| contender | what it is |
|---|---|
| pushsink | this server: metrics on, traces sampled at 1 %, no authentication |
| pushsink-bulk | the same with the options for bulk loads in [sizing.md](sizing.md#bulk-loads) |
| naive | net/http, encoding/json, one Apply per message, 204: the handler of a tutorial |
| naive-batch | net/http, encoding/json, one ApplyBulk per NDJSON request |
| naive-spanner | the same as naive with Spanner's client, one Apply per message in one round trip (ApplyAtLeastOnce) |
| benthos | redpanda-data/benthos v4.60.0: http_server that answers after the write, an ApplyBulk output, batches of 100 or 5 ms. What a record becomes is Go code in the output |
| benthos-bloblang | the same, but what a record becomes is a mapping in its own language, as pushsink's is in the routes file |
| decode | a ceiling: net/http and pushsink's JSON reader, strict, without a sink |
| client-ceiling | a ceiling: ApplyBulk of 100 rows, eight at a time, without HTTP and JSON |
`
