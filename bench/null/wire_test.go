package null

import (
	"testing"

	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"cloud.google.com/go/spanner/apiv1/spannerpb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

func TestCountAgainstProtobuf(t *testing.T) {
	rows := &bigtablepb.MutateRowsRequest{TableName: "t", AppProfileId: "p"}
	groups := &spannerpb.BatchWriteRequest{Session: "s"}
	commit := &spannerpb.CommitRequest{Session: "s"}
	for n := range 4 {
		for _, c := range []struct {
			message proto.Message
			field   protowire.Number
		}{{rows, mutateRowsEntries}, {groups, batchWriteGroups}, {commit, commitMutations}} {
			wire, err := proto.Marshal(c.message)
			if err != nil {
				t.Fatal(err)
			}
			if got, ok := count(wire, c.field); !ok || got != int64(n) {
				t.Errorf("%T with %d entries: %d, %t", c.message, n, got, ok)
			}
			if got, ok := count(wire[:len(wire)-1], c.field); ok {
				t.Errorf("%T cut short: %d entries", c.message, got)
			}
		}
		rows.Entries = append(rows.Entries, &bigtablepb.MutateRowsRequest_Entry{RowKey: []byte("\x12\x00\x12\x00")})
		groups.MutationGroups = append(groups.MutationGroups, &spannerpb.BatchWriteRequest_MutationGroup{Mutations: []*spannerpb.Mutation{{}}})
		commit.Mutations = append(commit.Mutations, &spannerpb.Mutation{})
	}
}

func TestMutatedAnswersEveryEntry(t *testing.T) {
	m := newMutated()
	for _, n := range []int64{0, 1, 2, 127, 128, 129, 16385, maxEntries} {
		var answer bigtablepb.MutateRowsResponse
		if err := proto.Unmarshal(m.answer(n), &answer); err != nil {
			t.Fatal(err)
		}
		if int64(len(answer.Entries)) != n {
			t.Fatalf("%d answers to %d entries", len(answer.Entries), n)
		}
		for i, e := range answer.Entries {
			if e.Index != int64(i) || e.Status == nil || e.Status.Code != 0 {
				t.Fatalf("answer %d of %d: %v", i, n, e)
			}
		}
	}
}

func TestText(t *testing.T) {
	wire, err := proto.Marshal(&spannerpb.CreateSessionRequest{Database: "projects/p", Session: &spannerpb.Session{}})
	if err != nil {
		t.Fatal(err)
	}
	if got := text(wire, createSessionField); got != "projects/p" {
		t.Errorf("%q", got)
	}
	if got := text([]byte{0xff}, createSessionField); got != "" {
		t.Errorf("%q", got)
	}
}
