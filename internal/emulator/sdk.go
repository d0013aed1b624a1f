package emulator

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// RequireEnv is the environment variable that turns a skip into a failure.
const RequireEnv = "REQUIRE_EMULATORS"

// sdkFile finds a file of the Google Cloud CLI's installation.
func sdkFile(path string) (string, error) {
	gcloud, err := exec.LookPath("gcloud")
	if err != nil {
		return "", err
	}
	gcloud, err = filepath.EvalSymlinks(gcloud)
	if err != nil {
		return "", err
	}
	file := filepath.Join(filepath.Dir(filepath.Dir(gcloud)), path)
	if _, err := os.Stat(file); err != nil {
		return "", err
	}
	return file, nil
}

// sdkGlob is sdkFile for a name that holds a version.
func sdkGlob(pattern string) (string, error) {
	dir, err := sdkFile(filepath.Dir(pattern))
	if err != nil {
		return "", err
	}
	found, err := filepath.Glob(filepath.Join(dir, filepath.Base(pattern)))
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		return "", fmt.Errorf("no %s in the Google Cloud CLI", pattern)
	}
	return found[len(found)-1], nil
}

// absent ends the test: skipped, or failed where the emulators are required.
func absent(t testing.TB, name string, err error) {
	t.Helper()
	if os.Getenv(RequireEnv) == "1" {
		t.Fatalf("%s=1 and the %s emulator is absent: %v", RequireEnv, name, err)
	}
	t.Skipf("SKIPPED, NOT TESTED: the %s emulator is absent (%v); install the Google Cloud CLI with its emulators", name, err)
}
