package deadletter

import (
	"context"
	"fmt"
	"slices"

	"cloud.google.com/go/iam/apiv1/iampb"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const publishPermission = "pubsub.topics.publish"

// Check asks whether topic (projects/P/topics/T) can be published to, without
// publishing. The error is an *Error whose text says what to do. It needs no permission
// of its own: where it may not look, it says what could be wrong.
func (p *Publisher) Check(ctx context.Context, topic string) error {
	if !topicName.MatchString(topic) {
		return &Error{Topic: topic, Permanent: true, Detail: "deadLetterTopic must read projects/P/topics/T"}
	}
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	granted, err := p.client.TopicAdminClient.TestIamPermissions(ctx, &iampb.TestIamPermissionsRequest{
		Resource:    topic,
		Permissions: []string{publishPermission},
	})
	switch status.Code(err) {
	case codes.OK:
		if slices.Contains(granted.GetPermissions(), publishPermission) {
			return nil
		}
	case codes.Unimplemented: // emulators
	case codes.NotFound:
		return &Error{Topic: topic, Permanent: true, Detail: missingTopic, Err: err}
	case codes.PermissionDenied:
		return &Error{Topic: topic, Detail: missingGrant, Err: err}
	default:
		return &Error{Topic: topic, Detail: "Pub/Sub cannot be reached", Err: err}
	}
	noRules := status.Code(err) == codes.Unimplemented

	// An empty answer is also given for a topic that does not exist.
	_, err = p.client.TopicAdminClient.GetTopic(ctx, &pubsubpb.GetTopicRequest{Topic: topic})
	switch status.Code(err) {
	case codes.OK:
		if noRules {
			return nil
		}
		return &Error{Topic: topic, Detail: missingGrant}
	case codes.NotFound:
		return &Error{Topic: topic, Permanent: true, Detail: missingTopic, Err: err}
	case codes.PermissionDenied:
		return &Error{Topic: topic, Detail: fmt.Sprintf("the topic is missing or may not be used: %s, or create it", missingGrant), Err: err}
	default:
		return &Error{Topic: topic, Detail: "Pub/Sub cannot be reached", Err: err}
	}
}
