package schema

// SpannerTarget and GroupMutation belong to the Spanner sink.
type (
	SpannerTarget struct{}
	GroupMutation struct{}
)

type groupMapping struct{}

func (g *groupMapping) apply(s *state) (Mutation, error) {
	return Mutation{Spanner: &GroupMutation{}}, nil
}

func (c *compiler) spannerRoute(f *routeFile, path string, sc scope) (*SpannerTarget, *groupMapping) {
	c.add(f.Spanner.mark, path, "spanner is not supported yet")
	return nil, nil
}

func explainGroup(w *writer, m *GroupMutation) {}
