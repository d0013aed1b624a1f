// Package deadletter publishes rejected records to a Pub/Sub topic and reads them back.
//
// # A dead letter
//
// The message's data is the record's, byte for byte, its attributes are the record's,
// and beside them stand, each left out when it is empty:
//
//	pushsink-error          why, cut at 1024 bytes on a character boundary
//	pushsink-code           the machine-readable reason
//	pushsink-route          the route that refused it
//	pushsink-destination    where it was going
//	pushsink-message-id     the record's id, publish time (RFC 3339), ordering key,
//	pushsink-publish-time   subscription and delivery attempt
//	pushsink-ordering-key
//	pushsink-subscription
//	pushsink-attempt
//	pushsink-envelope       unwrapped or cloudevents, where a redrive has to post it so
//
// The message itself has no ordering key: a letter must not wait behind another.
//
// # What an attribute cannot hold
//
// Pub/Sub takes at most 100 attributes, keys of 1 to 256 bytes that do not begin with
// "goog", and values of at most 1024 bytes, all of it UTF-8
// (https://cloud.google.com/pubsub/quotas#resource_limits). A record that came in by
// another way than Pub/Sub may have more, and one that came from Pub/Sub may have 100
// already. Nothing of it is lost: what does not fit (the smallest first, where only the
// count is over) goes as one JSON object into the attribute pushsink-attributes; where
// that object is above 1024 bytes it is appended to the data, and the attribute
// pushsink-data-size says how many bytes of the data are the record's own. Record
// attributes that begin with "pushsink-" are packed too, so that they are never taken
// for ours. [Restore] undoes all of it.
//
// # Promise
//
// Publish returns nil when the service confirmed the message, and at no other time. A
// letter whose caller left may still arrive; the record's redelivery then publishes it
// again. So a letter is published at least once, and at most once per delivery.
// Topics are never created.
package deadletter
