package emulator

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// alone fails unless pid listens on port and nobody else does. The Spanner emulator sets
// SO_REUSEPORT: a second one binds the same port without an error and the kernel deals
// the calls out between the two.
func alone(port, pid int) error {
	all, err := listeners(port)
	if err != nil {
		return err
	}
	own, err := sockets(pid)
	if err != nil {
		return err
	}
	mine, others := 0, 0
	for inode := range all {
		if own[inode] {
			mine++
		} else {
			others++
		}
	}
	switch {
	case others > 0:
		return fmt.Errorf("port %d is shared: %d sockets of other processes listen on it", port, others)
	case mine == 0:
		return fmt.Errorf("port %d: process %d does not listen on it", port, pid)
	}
	return nil
}

// listeners are the inodes of the TCP sockets in state LISTEN on port, on any address.
func listeners(port int) (map[string]bool, error) {
	const stateListen = "0A" // include/net/tcp_states.h
	inodes := map[string]bool{}
	suffix := fmt.Sprintf(":%04X", port)
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(table)
		if errors.Is(err, fs.ErrNotExist) {
			continue // no IPv6
		}
		if err != nil {
			return nil, err
		}
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			// sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode
			c := strings.Fields(lines.Text())
			if len(c) > 9 && c[3] == stateListen && strings.HasSuffix(c[1], suffix) {
				inodes[c[9]] = true
			}
		}
		if err := errors.Join(lines.Err(), f.Close()); err != nil {
			return nil, err
		}
	}
	return inodes, nil
}

// sockets are the inodes of the sockets that pid holds.
func sockets(pid int) (map[string]bool, error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	inodes := map[string]bool{}
	for _, f := range files {
		link, err := os.Readlink(filepath.Join(dir, f.Name()))
		if err != nil {
			continue // closed meanwhile
		}
		if inode, ok := strings.CutPrefix(link, "socket:["); ok {
			inodes[strings.TrimSuffix(inode, "]")] = true
		}
	}
	return inodes, nil
}
