package emulator

import "syscall"

func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func killGroup(pid int) error { return syscall.Kill(-pid, syscall.SIGKILL) }
