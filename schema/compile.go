package schema

import (
	"fmt"
	"strings"

	"cel.dev/cel-go/cel"
)

// MaxFile is how large a routes file may be, in bytes.
const MaxFile = 4 << 20

// compiler compiles one routes file and collects what is wrong with it.
type compiler struct {
	*decoder
	*rules
	open     Open    // nil = there are no files beside the routes file
	doc      docType // of the route that is compiled; nil = data may be anything
	base     *cel.Env
	envs     map[scope]*cel.Env
	warnings []string
	// idReads counts the places so far that read message.id.
	idReads int
}

// Compile reads a routes file that names no other files. file is used in messages only. The
// error is a *FileError with every problem, each with file, line, column and a caret.
func Compile(file string, text []byte) (*Routes, error) { return CompileWith(file, text, nil) }

// CompileWith is Compile for a routes file that may name files with schemas; open opens them.
func CompileWith(file string, text []byte, open Open) (*Routes, error) {
	// Some editors begin a file with a byte order mark, which the lexer takes for a character;
	// and some CRLF it counts as two lines.
	text = []byte(lineBreaks.Replace(strings.TrimPrefix(string(text), "\ufeff")))
	c := newCompiler(file, text)
	c.open = open
	if len(text) > MaxFile {
		c.add(mark{1, 1}, "", "the file is larger than %d bytes", MaxFile)
		return nil, c.err()
	}
	var f routesFile
	c.decodeFile(text, &f)
	routes := c.routes(&f)
	if err := c.err(); err != nil {
		return nil, err
	}
	return routes, nil
}

func newCompiler(file string, text []byte) *compiler {
	return &compiler{decoder: &decoder{newProblems(file, text)}, rules: newRules(), envs: map[scope]*cel.Env{}}
}

func (c *compiler) warn(at mark, path, format string, args ...any) {
	c.warnings = append(c.warnings, fmt.Sprintf("%s:%d:%d: %s: %s", c.file, at.line, at.column, path, fmt.Sprintf(format, args...)))
}

func (c *compiler) routes(f *routesFile) *Routes {
	out := &Routes{}
	if f.Routes.given && len(f.Routes.items) == 0 {
		c.add(f.Routes.mark, "routes", "there is no route")
	}
	var first *item[routeFile]
	for i := range f.Routes.items {
		it := &f.Routes.items[i]
		if !c.route.ok(it.name) {
			c.add(it.at, it.path, "%q is no route name: %s", it.name, c.route.text)
		}
		r := c.oneRoute(it)
		r.Source = c.source(it.at)
		out.List = append(out.List, r)
		if !it.v.Default.on {
			continue
		}
		if first != nil {
			c.add(it.v.Default.at(0), it.v.Default.path, "only one route can be the default, and %q is", first.name)
			continue
		}
		first, out.Default = it, r
	}
	if len(out.List) == 1 {
		out.Default = out.List[0]
	}
	out.Warnings = c.warnings
	return out
}

func (c *compiler) oneRoute(it *item[routeFile]) *Route {
	f := &it.v
	r := &Route{Name: it.name, Format: "json", Envelope: AutoEnvelope, OnReject: Fail, Mapping: &Mapping{}}
	c.doc = nil
	c.input(r, f.Input, join(it.path, "input"))
	r.Mapping.json = r.Format == "json"
	sc := scope{bytes: r.Format == "bytes"}
	r.Mapping.where, r.Mapping.source = c.sourced(&f.Where, sc, wantBool)
	c.reject(r, it)
	switch {
	case f.Bigtable != nil && f.Spanner != nil:
		c.add(f.Spanner.mark, it.path, "a route has either bigtable or spanner")
	case f.Bigtable != nil:
		r.Bigtable, r.Mapping.bigtable = c.bigtable(f.Bigtable, join(it.path, "bigtable"), sc)
	case f.Spanner != nil:
		r.Spanner, r.Mapping.spanner = c.spannerRoute(f, join(it.path, "spanner"), sc)
	default:
		c.add(it.at, it.path, "a route needs bigtable or spanner")
	}
	return r
}

func (c *compiler) input(r *Route, f *inputFile, path string) {
	if f == nil {
		return
	}
	if f.Format.given {
		r.Format = f.Format.text
	}
	if f.Avro != nil && r.Format != "avro" {
		c.add(f.Avro.mark, join(path, "avro"), "avro is here without format: avro")
	}
	if f.Protobuf != nil && r.Format != "protobuf" {
		c.add(f.Protobuf.mark, join(path, "protobuf"), "protobuf is here without format: protobuf")
	}
	if f.Envelope.given {
		r.Envelope = Envelope(f.Envelope.text)
	}
	r.Mapping.typed = c.payload(r, f, path)
	c.doc = r.Mapping.typed.docType()
}

func (c *compiler) reject(r *Route, it *item[routeFile]) {
	f := &it.v
	if f.OnReject.given {
		r.OnReject = Policy(f.OnReject.text)
	}
	topic := &f.DeadLetterTopic
	if project, id, ok := strings.Cut(topic.text, "/topics/"); ok && strings.HasPrefix(project, "projects/") && !c.topic.ok(topic.text) {
		c.add(topic.at(0), topic.path, "%q is no topic id: 3 to 255 letters, digits and - . _ ~ + %%, a letter first", id)
	} else {
		c.name(&topic.scalar, "topic", c.topic)
	}
	r.DeadLetterTopic = topic.text
	switch {
	case r.OnReject == DeadLetter && !topic.given:
		c.add(f.OnReject.at(0), it.path, "onReject: deadLetter needs deadLetterTopic")
	case r.OnReject != DeadLetter && topic.given:
		c.add(topic.at(0), topic.path, "deadLetterTopic is here without onReject: deadLetter")
	}
	if v := &f.ConstraintViolations; v.given && f.Spanner == nil {
		c.add(v.at(0), v.path, "constraintViolations is for spanner")
	} else if f.Spanner != nil && r.OnReject == Drop && !v.given {
		c.add(f.OnReject.at(0), it.path, "onReject: drop needs constraintViolations written out: "+
			"reject drops records that violate a constraint, also while an encryption key is out of reach; retry keeps them")
	}
}
