package process

import (
	"os/exec"
	"syscall"
)

// endWithParent lets no server outlive a benchmark that was killed.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
