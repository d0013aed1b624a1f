package schema

import "time"

// Record is one message as it came in, whatever envelope it travelled in.
type Record struct {
	// Data is the payload, decoded from the envelope once. Empty is legal.
	Data []byte
	// Encoding is how Data is encoded, where the envelope says so; empty otherwise. It
	// counts for the formats avro and protobuf.
	Encoding PayloadEncoding
	// Attributes may be nil.
	Attributes map[string]string
	// FoldAttributes: attribute names came as HTTP header names (unwrapped push), so
	// they are looked up without regard to case.
	FoldAttributes bool
	// ID is the message id; empty when the sender gave none.
	ID           string
	OrderingKey  string
	Subscription string
	// Published is the publish time; the zero time when it was absent or unreadable.
	Published time.Time
	// Attempt is the delivery attempt; 0 = not told.
	Attempt int
	// Memory is asked before the payload is decoded into much; nil = there is enough.
	Memory Memory
}
