package main

import (
	"context"
	"net"
	"net/http"
	"path"
	"sync"
	"time"

	"cloud.google.com/go/compute/metadata"
	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// platform is where the process runs. Outside Cloud Run it is empty but for a project that
// GOOGLE_CLOUD_PROJECT names.
type platform struct {
	service, revision string // K_SERVICE and K_REVISION
	// project is the project's id, which log lines need to name a trace.
	project          string
	region, instance string
}

// metadataTimeout bounds what a start waits for the metadata server, which answers within
// milliseconds where there is one. (K_SERVICE is Knative's too.)
const metadataTimeout = 500 * time.Millisecond

// findPlatform asks Cloud Run's metadata server, for so long at most, for what no variable says.
func findPlatform(ctx context.Context, s *settings, most time.Duration) platform {
	p := platform{service: s.Service, revision: s.Revision, project: s.Project}
	if p.service == "" {
		return p
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	client := metadata.NewClient(&http.Client{Transport: &http.Transport{
		DialContext: (&net.Dialer{Timeout: most}).DialContext, DisableKeepAlives: true,
	}})
	var all sync.WaitGroup
	ask := func(name string, to *string) {
		all.Go(func() {
			// An error leaves it empty.
			if value, err := client.GetWithContext(ctx, name); err == nil {
				*to = path.Base(value) // of projects/NUMBER/regions/REGION
			}
		})
	}
	if p.project == "" {
		ask("project/project-id", &p.project)
	}
	ask("instance/region", &p.region)
	ask("instance/id", &p.instance)
	all.Wait()
	return p
}

// attributes are what p adds to every span and metric that is exported.
func (p platform) attributes() []attribute.KeyValue {
	if p.service == "" {
		return nil
	}
	list := []attribute.KeyValue{semconv.FaaSName(p.service)}
	if p.region != "" { // Google's metadata server answered
		list = append(list, semconv.CloudProviderGCP, semconv.CloudPlatformGCPCloudRun)
	}
	for _, a := range []attribute.KeyValue{
		semconv.FaaSVersion(p.revision), semconv.FaaSInstance(p.instance), semconv.CloudAccountID(p.project), semconv.CloudRegion(p.region),
	} {
		if a.Value.AsString() != "" {
			list = append(list, a)
		}
	}
	return list
}
