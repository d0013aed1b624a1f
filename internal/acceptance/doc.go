// Package acceptance holds tests of the whole product and nothing else: the real server
// in a process of its own, the real emulators or the scripted service behind it, and
// pushes over HTTP in front of it.
//
// By default they are short, about a minute in all. With SOAK=1 (make soak) they have
// their full size.
package acceptance
