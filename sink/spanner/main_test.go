package spanner

import (
	"os"
	"testing"

	"github.com/pushsink/pushsink/internal/emulator"
)

func TestMain(m *testing.M) {
	emulator.LoopbackOnly()
	os.Exit(m.Run())
}
