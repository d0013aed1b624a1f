package emulator

import (
	"context"
	"fmt"
	"net"
	"os"
)

// LoopbackOnly makes this process unable to look a name up or to use a proxy, so that a
// test that lost its emulator's address fails instead of calling the real service. Call
// it in TestMain.
func LoopbackOnly() {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		_ = os.Unsetenv(name)
	}
	net.DefaultResolver = &net.Resolver{
		PreferGo: true, // localhost still comes from the hosts file
		Dial: func(_ context.Context, network, address string) (net.Conn, error) {
			return nil, fmt.Errorf("tests look no names up (%s %s)", network, address)
		},
	}
}
