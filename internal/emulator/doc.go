// Package emulator runs the real Bigtable, Pub/Sub and Spanner emulators of the Google
// Cloud CLI for tests: each on a port of its own, proven to be alone on it, ended with
// the test, and ended by the kernel when the test process dies without cleaning up.
//
// The emulators come with the CLI: the gcloud on PATH is followed through its links, and
// its root is two folders up. Without them a test is skipped; with REQUIRE_EMULATORS=1
// it fails, so that a machine that should have them cannot pass by skipping.
package emulator
