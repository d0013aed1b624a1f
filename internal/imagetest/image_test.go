package imagetest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pushsink/pushsink/internal/emulator"
)

// maxContent bounds the files of the image: the base's and the server.
const maxContent = 60_000_000

const nonroot = 65532

// patience is how long the test waits for something that takes milliseconds.
const patience = 3 * time.Minute

// TestMain lets nothing out of the machine, as in all packages with emulators.
func TestMain(m *testing.M) {
	emulator.LoopbackOnly()
	os.Exit(m.Run())
}

// TestImage builds the Dockerfile, as it is, on stand-ins for its bases, and runs the
// image as the platform would: process 1, user nonroot, a root file system that cannot be
// written to. A stand-in has the base's name and what is used of it: Go and a shell;
// certificates, time zones and the user. It needs root and buildah; IMAGE_TEST=1 asks for it.
func TestImage(t *testing.T) {
	if os.Getenv("IMAGE_TEST") != "1" {
		t.Skip("IMAGE_TEST=1 builds the image: make image-test")
	}
	if os.Geteuid() != 0 {
		t.Fatal("mounts and a user of its own need root")
	}
	b := newBuilder(t)
	names := bases(t)
	b.goBase(names[0])
	b.staticBase(names[1])

	t.Setenv("GOPROXY", "off") // the build argument's value
	began := time.Now()
	b.run("build", "--pull-never", "--isolation", "chroot", "--layers=false",
		"--build-arg", "GOPROXY", "--build-arg", "VERSION=v0.0.0-image-test", "-t", "pushsink:test", root)
	t.Logf("built in %.0f s with %s", time.Since(began).Seconds(), b.run("--version"))

	config := b.config("pushsink:test")
	t.Run("CFG-04 config", func(t *testing.T) {
		if got := fmt.Sprintf("%q %q %s", config.Entrypoint, config.Cmd, config.User); got != `["/server"] [] nonroot:nonroot` {
			t.Errorf("entrypoint, command, user: %s", got)
		}
		if _, exposed := config.ExposedPorts["8080/tcp"]; !exposed {
			t.Errorf("ports %v", config.ExposedPorts)
		}
	})
	rootfs := b.mounted("pushsink:test")
	t.Run("content", func(t *testing.T) {
		if size := b.size(rootfs); size >= maxContent {
			t.Errorf("the image holds %d bytes, want under %d", size, maxContent)
		}
		for _, shell := range []string{"bin/sh", "bin/bash", "busybox/sh", "usr/bin/sh"} {
			if _, err := os.Lstat(filepath.Join(rootfs, shell)); err == nil {
				t.Errorf("there is a shell: %s", shell)
			}
		}
	})
	t.Run("version", func(t *testing.T) {
		out, err := exec.Command(filepath.Join(rootfs, config.Entrypoint[0]), "-version").CombinedOutput()
		if want := "v0.0.0-image-test " + runtime.Version(); err != nil || strings.TrimSpace(string(out)) != want {
			t.Errorf("-version: %q, %v, want %q", out, err, want)
		}
	})
	t.Run("RUN-07 process 1 drains on SIGTERM", func(t *testing.T) { runs(t, rootfs, config.Entrypoint) })
}

const routes = `
routes:
  demo:
    bigtable:
      table: readings
      rowKey: "{data.device}"
      create: ifNeeded
      families: {m: {gc: {maxVersions: 1}}}
      set:
        - {family: m, column: temp, value: data.temp, as: float64}
`

// runs starts the image's server, pushes to it, stops it in the middle of pushes and
// looks for every row that was acknowledged.
func runs(t *testing.T, rootfs string, entrypoint []string) {
	bigtable := emulator.Bigtable(t)
	mounted := t.TempDir()
	if err := os.WriteFile(filepath.Join(mounted, "routes.yaml"), []byte(routes), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(mounted, 0o755); err != nil {
		t.Fatal(err)
	}
	// The platform makes the folder that it mounts a secret on.
	point := filepath.Join(rootfs, "etc", "pushsink")
	if err := os.MkdirAll(point, 0o755); err != nil {
		t.Fatal(err)
	}
	view := filepath.Join(t.TempDir(), "root")
	bindReadOnly(t, rootfs, view)
	bindReadOnly(t, mounted, filepath.Join(view, "etc", "pushsink"))

	port := emulator.FreePort(t)
	url := "http://127.0.0.1:" + strconv.Itoa(port)
	start := func() *process {
		cmd := exec.Command(entrypoint[0], entrypoint[1:]...)
		cmd.Dir = "/"
		cmd.Env = []string{
			"PORT=" + strconv.Itoa(port), "BIGTABLE_EMULATOR_HOST=" + bigtable,
			"PUSHSINK_ROUTES_FILE=/etc/pushsink/routes.yaml", "PUSHSINK_AUTH=none", "PUSHSINK_EXPOSE=rows",
			"PUSHSINK_BIGTABLE_PROJECT=p", "PUSHSINK_BIGTABLE_INSTANCE=i",
		}
		// A process id space of its own, where the server is process 1: a signal that it has
		// no handler for does nothing there, a SIGTERM least of all.
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Chroot: view, Credential: &syscall.Credential{Uid: nonroot, Gid: nonroot},
			Cloneflags: syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL,
		}
		return startProcess(t, cmd)
	}
	server := start()
	server.answers(url + "/health/ready")
	server.isUnprivileged()

	const pushers, before = 8, 20 // each sees so many acknowledged before the stop
	var acknowledged sync.Map
	var wait sync.WaitGroup
	var first sync.WaitGroup
	first.Add(pushers)
	for p := range pushers {
		wait.Go(func() {
			warm := sync.OnceFunc(first.Done)
			defer warm()
			for i, acks := 0, 0; ; i++ {
				device := fmt.Sprintf("d%d-%d", p, i)
				status, err := push(url, device)
				switch {
				case err == nil && status == http.StatusNoContent:
					acknowledged.Store(device, true)
					if acks++; acks == before {
						warm()
					}
				case server.told(): // refused, or the port is closed
					return
				case err != nil:
					t.Errorf("push before the stop: %v", err)
					return
				case status != http.StatusServiceUnavailable && status != http.StatusTooManyRequests: // a slow machine
					t.Errorf("push: %d", status)
					return
				}
			}
		})
	}
	first.Wait()
	took := server.terminate()
	wait.Wait()
	if took >= 10*time.Second {
		t.Errorf("the stop took %v, the platform kills after 10 s", took)
	}
	t.Logf("drained in %v", took)

	again := start()
	again.answers(url + "/health/ready")
	rows := get(t, url+"/v1/routes/demo/rows")
	count := 0
	acknowledged.Range(func(device, _ any) bool {
		count++
		if !strings.Contains(rows, fmt.Sprintf(`{"key":%q,`, device)) {
			t.Errorf("%s was acknowledged and is not there", device)
		}
		return true
	})
	if count < pushers*before {
		t.Errorf("%d acknowledged, want %d at least", count, pushers*before)
	}
	again.terminate()
}

func push(url, device string) (int, error) {
	data, err := json.Marshal(fmt.Appendf(nil, `{"device":%q,"temp":21.5}`, device)) // base64
	if err != nil {
		return 0, err
	}
	body := fmt.Sprintf(`{"message":{"data":%s,"messageId":%q,"publishTime":"2026-11-30T08:00:00Z"},"subscription":"projects/p/subscriptions/s"}`, data, device)
	answer, err := http.Post(url+"/v1/routes/demo/push", "application/json", strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	return answer.StatusCode, answer.Body.Close()
}

func get(t *testing.T, url string) string {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var body bytes.Buffer
	if _, err := body.ReadFrom(answer.Body); err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %d %v", url, answer.StatusCode, err)
	}
	return body.String()
}

// bindReadOnly shows from at to, read-only, until the test ends.
func bindReadOnly(t *testing.T, from, to string) {
	t.Helper()
	if err := os.MkdirAll(to, 0o755); err != nil {
		if !errors.Is(err, syscall.EROFS) {
			t.Fatal(err)
		}
	}
	if err := syscall.Mount(from, to, "", syscall.MS_BIND, ""); err != nil {
		t.Fatalf("mount %s: %v", to, err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(to, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", to, err)
		}
	})
	if err := syscall.Mount("", to, "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY|syscall.MS_NOSUID|syscall.MS_NODEV, ""); err != nil {
		t.Fatalf("mount %s read-only: %v", to, err)
	}
}

// size is the sum of the sizes of the regular files under dir.
func (b *builder) size(dir string) (total int64) {
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			total += info.Size()
		}
		if filepath.Base(path) == "server" {
			b.t.Logf("the server is %.1f MB", float64(info.Size())/1e6)
		}
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Logf("the image holds %.1f MB", float64(total)/1e6)
	return total
}
