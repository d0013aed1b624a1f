// Package process runs the servers of a benchmark as processes of their own, and reads what
// they used from the system.
package process
