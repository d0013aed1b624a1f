package handlers

import (
	"context"

	"github.com/pushsink/pushsink/schema"
	"github.com/pushsink/pushsink/sink"
)

// discardMapper makes the same mutation of every record.
type discardMapper struct{}

var discardRow = schema.RowMutation{Table: "t", Key: "k", Ops: []schema.Op{{Kind: schema.SetCell}}}

func (discardMapper) Apply(*schema.Record) (schema.Mutation, error) {
	return schema.Mutation{Bigtable: &discardRow}, nil
}

// discardWriter applies everything at once.
type discardWriter struct{}

type discardTicket []sink.Outcome

func (t discardTicket) Admitted() bool       { return true }
func (t discardTicket) Wait() []sink.Outcome { return t }

var applied = func() []sink.Outcome {
	o := make([]sink.Outcome, groupRecords)
	for i := range o {
		o[i].Kind = sink.Applied
	}
	return o
}()

func (discardWriter) Submit(_ context.Context, es []sink.Entry) Ticket {
	return discardTicket(applied[:len(es)])
}
func (discardWriter) RouteState(*sink.Route) RouteState { return RouteState{} }
func (discardWriter) Stuck() string                     { return "" }
