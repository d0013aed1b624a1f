package imagetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// builder is buildah with storage of its own, which goes when the test ends.
type builder struct {
	t   *testing.T
	dir string
}

func newBuilder(t *testing.T) *builder {
	t.Helper()
	if _, err := exec.LookPath("buildah"); err != nil {
		t.Fatal("buildah is absent: apt-get install --no-install-recommends buildah")
	}
	b := &builder{t: t, dir: t.TempDir()}
	for name, dir := range map[string]string{"go/pkg/mod": "GOMODCACHE", "root/.cache/go-build": "GOCACHE"} {
		b.cache(name, goEnv(t, dir))
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), clearUp)
		defer cancel()
		if _, err := b.try(ctx, "rm", "--all"); err != nil { // and with them what is mounted
			t.Error(err)
		}
		// The storage mounts its own folder on itself and leaves it so.
		if err := syscall.Unmount(filepath.Join(b.dir, "storage", "overlay"), syscall.MNT_DETACH); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOENT) {
			t.Errorf("unmount the storage: %v", err)
		}
	})
	return b
}

// cache makes the host's Go cache the one that a cache mount of the Dockerfile has. Its
// modules are all there, since the build asks nobody for any, and what it compiled need not be compiled again.
func (b *builder) cache(target, dir string) {
	b.t.Helper()
	at := filepath.Join(b.dir, "buildah-cache", target) // buildah's place for them under TMPDIR
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.Symlink(dir, at); err != nil {
		b.t.Fatal(err)
	}
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatalf("go env %s: %v", name, err)
	}
	return strings.TrimSpace(string(out))
}

// clearUp is the time that is left for what a test made, a hundred times what it takes.
const clearUp = 100 * time.Second

// run runs buildah and returns what it printed on stdout. It ends before the test's
// deadline, so that the test can still clear up.
func (b *builder) run(args ...string) string {
	b.t.Helper()
	ctx := context.Background()
	if deadline, bounded := b.t.Deadline(); bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-clearUp-20*time.Second))
		defer cancel()
	}
	out, err := b.try(ctx, args...)
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

// try is run with the error returned. When ctx ends, buildah's process group is killed.
func (b *builder) try(ctx context.Context, args ...string) (string, error) {
	all := append([]string{"--root", filepath.Join(b.dir, "storage"), "--runroot", filepath.Join(b.dir, "run")}, args...)
	cmd := exec.CommandContext(ctx, "buildah", all...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Env = append(os.Environ(), "TMPDIR="+b.dir)
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("buildah %s: %w\n%s%s", strings.Join(args, " "), err, out, complaints.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// base makes an image from scratch: files maps a path of this machine to its place.
func (b *builder) base(name string, files map[string]string, settings ...string) {
	b.t.Helper()
	container := b.run("from", "scratch")
	for from, to := range files {
		b.run("copy", "--quiet", container, from, to)
	}
	b.run(append(append([]string{"config"}, settings...), container)...)
	b.run("commit", "--quiet", container, name)
	b.run("rm", container)
}

// goBase stands in for the builder: Go, a shell, and where golang's image has them. Without
// root's home the compiler's cache would be elsewhere than the Dockerfile mounts it.
func (b *builder) goBase(name string) {
	b.t.Helper()
	files := map[string]string{b.accounts(): "/etc", "/etc/ssl/certs/ca-certificates.crt": "/etc/ssl/certs/ca-certificates.crt", b.t.TempDir(): "/tmp"}
	goroot := goEnv(b.t, "GOROOT")
	for _, part := range []string{"bin", "pkg", "src", "lib", "go.env", "VERSION"} {
		files[filepath.Join(goroot, part)] = filepath.Join("/usr/local/go", part)
	}
	for _, library := range b.shell() {
		files[library] = library
	}
	b.base(name, files, "--env", "PATH=/usr/local/go/bin:/usr/bin:/bin", "--env", "GOPATH=/go", "--env", "GOTOOLCHAIN=local", "--workingdir", "/go")
}

// shell lists /bin/sh and the libraries that it loads.
func (b *builder) shell() []string {
	b.t.Helper()
	out, err := exec.Command("ldd", "/bin/sh").Output()
	if err != nil {
		b.t.Fatalf("ldd /bin/sh: %v", err)
	}
	list := []string{"/bin/sh"}
	for _, word := range strings.Fields(string(out)) {
		if strings.HasPrefix(word, "/") {
			list = append(list, word)
		}
	}
	return list
}

// accounts is a folder with the users root and nonroot.
func (b *builder) accounts() string {
	b.t.Helper()
	etc := b.t.TempDir()
	for file, text := range map[string]string{
		"passwd": "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n",
		"group":  "root:x:0:\nnonroot:x:65532:\n",
	} {
		if err := os.WriteFile(filepath.Join(etc, file), []byte(text), 0o644); err != nil {
			b.t.Fatal(err)
		}
	}
	return etc
}

// staticBase stands in for the base without a shell.
func (b *builder) staticBase(name string) {
	b.t.Helper()
	b.base(name, map[string]string{
		b.accounts():                         "/etc",
		"/etc/ssl/certs/ca-certificates.crt": "/etc/ssl/certs/ca-certificates.crt",
		"/usr/share/zoneinfo":                "/usr/share/zoneinfo",
	}, "--user", "65532", "--workingdir", "/home/nonroot")
}

// imageConfig is what an image says of how it is run.
type imageConfig struct {
	User         string
	Entrypoint   []string
	Cmd          []string
	ExposedPorts map[string]struct{}
}

func (b *builder) config(image string) imageConfig {
	b.t.Helper()
	var inspected struct {
		Docker struct {
			Config imageConfig `json:"config"`
		}
	}
	if err := json.Unmarshal([]byte(b.run("inspect", "--type", "image", image)), &inspected); err != nil {
		b.t.Fatal(err)
	}
	return inspected.Docker.Config
}

// mounted is the root file system of the image.
func (b *builder) mounted(image string) string {
	b.t.Helper()
	return b.run("mount", b.run("from", "--pull-never", image))
}
