package schema

import (
	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/ext"
)

// scope says which variables and functions an expression has.
type scope struct {
	bytes   bool // data is the payload's bytes, not a document
	each    bool // key, value and index
	spanner bool // commitTimestamp()
}

// maxExpression is how many characters an expression may have.
const maxExpression = 10_000

// env gives the environment of a scope; the ones of a file share their libraries.
func (c *compiler) env(sc scope) *cel.Env {
	if env := c.envs[sc]; env != nil {
		return env
	}
	if c.base == nil {
		c.base = newBase()
	}
	data := cel.DynType
	if sc.bytes {
		data = cel.BytesType
	}
	opts := []cel.EnvOption{cel.Variable("data", data)}
	if sc.each {
		opts = append(opts, cel.Variable("key", cel.DynType), cel.Variable("value", cel.DynType), cel.Variable("index", cel.IntType))
	}
	if sc.spanner {
		opts = append(opts, cel.Function(commitTimestamp,
			cel.Overload("commit_timestamp", nil, cel.TimestampType)))
	}
	env, err := c.base.Extend(opts...)
	if err != nil {
		panic("schema: " + err.Error()) // the declarations are constants
	}
	c.envs[sc] = env
	return env
}

const (
	commitTimestamp = "commitTimestamp"
	messageType     = "pushsink.Message"
)

func newBase() *cel.Env {
	registry, err := types.NewRegistry()
	if err != nil {
		panic("schema: " + err.Error())
	}
	opts := []cel.EnvOption{
		cel.CustomTypeAdapter(registry),
		cel.CustomTypeProvider(messages{registry}),
		cel.Variable("message", cel.ObjectType(messageType)),
		cel.Variable("raw", cel.BytesType),
		cel.CrossTypeNumericComparisons(true),
		cel.DefaultUTCTimeZone(true),
		cel.OptionalTypes(),
		cel.ParserExpressionSizeLimit(maxExpression),
		ext.Strings(), ext.Math(), ext.Encoders(),
	}
	env, err := cel.NewEnv(append(append(opts, functions()...), guards()...)...)
	if err != nil {
		panic("schema: " + err.Error())
	}
	return env
}

// messageFields are the fields of message: their roots and types.
var messageFields = map[string]struct {
	root root
	typ  *types.Type
}{
	"id":              {rootID, types.StringType},
	"publishTime":     {rootPublishTime, types.TimestampType},
	"attributes":      {rootAttributes, types.NewMapType(types.StringType, types.StringType)},
	"orderingKey":     {rootOrderingKey, types.StringType},
	"subscription":    {rootSubscription, types.StringType},
	"deliveryAttempt": {rootAttempt, types.IntType},
}

// messages tells the type checker of the fields of message. They never reach evaluation:
// each use is a path.
type messages struct{ *types.Registry }

func (m messages) FindStructType(name string) (*types.Type, bool) {
	if name == messageType {
		return types.NewTypeTypeWithParam(types.NewObjectType(name)), true
	}
	return m.Registry.FindStructType(name)
}

func (m messages) FindStructFieldNames(name string) ([]string, bool) {
	if name != messageType {
		return m.Registry.FindStructFieldNames(name)
	}
	var names []string
	for field := range messageFields {
		names = append(names, field)
	}
	return names, true
}

func (m messages) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	if name != messageType {
		return m.Registry.FindStructFieldType(name, field)
	}
	f, ok := messageFields[field]
	if !ok {
		return nil, false
	}
	return &types.FieldType{Type: f.typ}, true
}
