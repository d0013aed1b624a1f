// Command server takes records by HTTP, from Pub/Sub push subscriptions and from batches,
// and answers 2xx once they are durable in Bigtable or Spanner. `server -h` lists its options.
package main

import (
	"context"
	"fmt"
	"os"
)

func main() {
	if err := run(context.Background(), os.Environ(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "server:", err)
		os.Exit(1)
	}
}
