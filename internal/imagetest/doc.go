// Package imagetest holds the tests of the Dockerfile: what it says, and, where buildah
// is asked for, what becomes of it (make image-test).
package imagetest
