package scripted

import (
	"sync/atomic"
	"time"

	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Entry is one entry of a MutateRows call.
type Entry = bigtablepb.MutateRowsRequest_Entry

// Call is what a Script decides on.
type Call struct {
	// N counts the MutateRows calls of the server from 1.
	N int
	// Table is the full name.
	Table      string
	AppProfile string
	Entries    []*Entry
}

// Script plans a call. It is called from many goroutines.
type Script func(*Call) Plan

// Plan is what becomes of one MutateRows call. The zero Plan applies every good entry
// and reports every status.
type Plan struct {
	// Delay is waited before anything is applied, and Until, if not nil, for its close.
	// A call that its caller gives up meanwhile applies nothing; with Late it waits on
	// and applies, as a request does that outlived its deadline on the way.
	Delay time.Duration
	Until <-chan struct{}
	Late  bool

	// Entry gives an entry a status of its own; such an entry is not applied. nil
	// error = judged as usual.
	Entry func(i int, e *Entry) error
	// Shuffle applies the entries in random order instead of the request's.
	Shuffle bool
	// Forget: no status is sent for entry i, which is applied all the same.
	Forget func(i int) bool

	// Fail ends the call with this error after Apply entries (in the order of
	// application) were applied and the statuses of the first Report entries were sent.
	Fail          error
	Apply, Report int

	// Stall: after Apply entries were applied and Report statuses sent, nothing more
	// happens until the caller gives up.
	Stall bool
}

// InTurn plans the first calls one by one; the later ones go well.
func InTurn(plans ...Plan) Script {
	var n atomic.Int64
	return func(*Call) Plan {
		i := n.Add(1) - 1
		if i < int64(len(plans)) {
			return plans[i]
		}
		return Plan{}
	}
}

// Status is a gRPC error; retry > 0 adds a RetryInfo.
func Status(code codes.Code, text string, retry time.Duration) error {
	st := status.New(code, text)
	if retry > 0 {
		with, err := st.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(retry)})
		if err != nil {
			return err
		}
		st = with
	}
	return st.Err()
}
