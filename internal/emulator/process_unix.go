//go:build unix && !linux

package emulator

import "syscall"

// ownGroup: only Linux has a parent-death signal. Elsewhere an emulator outlives a test
// process that is killed.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func killGroup(pid int) error { return syscall.Kill(-pid, syscall.SIGKILL) }
