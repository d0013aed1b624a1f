// Package redrive reads dead letters from a Pub/Sub subscription and posts their records
// to a route again.
//
// A letter is acknowledged when the server answered its record with 204 and only then:
// a 200 may come from anything that listens at a wrong URL. Every other letter stays in
// the subscription, held until the run ends, so that none is tried twice in one run.
//
// A run takes what was there when it started. A record that is rejected once more comes
// back as a new letter, younger than the run; it is counted as failed and left for the
// next run, so a run ends even when nothing can be written. (The ages are Pub/Sub's
// publish times against this machine's clock; a clock that is ahead by d can let such a
// letter round again for at most d.)
package redrive
