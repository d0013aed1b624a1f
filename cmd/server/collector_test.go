package main

import (
	"context"
	"encoding/hex"
	"net"
	"sync"
	"testing"

	metricscollector "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracecollector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
)

// collector is an OTLP collector on a loopback port. It keeps what it was sent, or, when it
// hangs, answers nothing.
type collector struct {
	tracecollector.UnimplementedTraceServiceServer
	addr  string
	hangs bool
	asked chan struct{} // gets one per call, as far as it has room

	mu        sync.Mutex // guards what follows
	spans     []*tracepb.Span
	resources []map[string]string // of the spans' calls
	metrics   map[string]*metricspb.Metric
}

func newCollector(t testing.TB, hangs bool) *collector {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &collector{addr: listener.Addr().String(), hangs: hangs, asked: make(chan struct{}, 100), metrics: map[string]*metricspb.Metric{}}
	s := grpc.NewServer()
	tracecollector.RegisterTraceServiceServer(s, c)
	metricscollector.RegisterMetricsServiceServer(s, metricsService{collector: c})
	go s.Serve(listener)
	t.Cleanup(s.Stop)
	return c
}

// take reports whether a call is to be answered.
func (c *collector) take(ctx context.Context) error {
	select {
	case c.asked <- struct{}{}:
	default:
	}
	if !c.hangs {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (c *collector) Export(ctx context.Context, r *tracecollector.ExportTraceServiceRequest) (*tracecollector.ExportTraceServiceResponse, error) {
	if err := c.take(ctx); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, rs := range r.ResourceSpans {
		c.resources = append(c.resources, texts(rs.Resource.Attributes))
		for _, ss := range rs.ScopeSpans {
			c.spans = append(c.spans, ss.Spans...)
		}
	}
	return &tracecollector.ExportTraceServiceResponse{}, nil
}

// metricsService is the collector's other Export.
type metricsService struct {
	metricscollector.UnimplementedMetricsServiceServer
	*collector
}

func (c metricsService) Export(ctx context.Context, r *metricscollector.ExportMetricsServiceRequest) (*metricscollector.ExportMetricsServiceResponse, error) {
	if err := c.take(ctx); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, rm := range r.ResourceMetrics {
		for _, sm := range rm.ScopeMetrics {
			for _, m := range sm.Metrics {
				c.metrics[m.Name] = m
			}
		}
	}
	return &metricscollector.ExportMetricsServiceResponse{}, nil
}

// texts are attributes as text.
func texts(list []*commonpb.KeyValue) map[string]string {
	m := map[string]string{}
	for _, kv := range list {
		switch v := kv.Value.Value.(type) {
		case *commonpb.AnyValue_StringValue:
			m[kv.Key] = v.StringValue
		default:
			m[kv.Key] = kv.Value.String()
		}
	}
	return m
}

// span is the only one of that name.
func (c *collector) span(t testing.TB, name string) *tracepb.Span {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []*tracepb.Span
	for _, s := range c.spans {
		if s.Name == name {
			found = append(found, s)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d spans named %q of %d, want 1", len(found), name, len(c.spans))
	}
	return found[0]
}

// sum is the sum of a counter.
func (c *collector) sum(name string) (n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.metrics[name]; m != nil {
		for _, p := range m.GetSum().GetDataPoints() {
			n += p.GetAsInt()
		}
	}
	return n
}

func hexOf(id []byte) string { return hex.EncodeToString(id) }
