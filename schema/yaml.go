package schema

import (
	"errors"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// mark is a place in the routes file, from 1, in characters.
type mark struct{ line, column int }

func (m *mark) setMark(at mark) { *m = at }

func markOf(t *token.Token) mark {
	if t == nil || t.Position == nil {
		return mark{1, 1}
	}
	return mark{t.Position.Line, t.Position.Column}
}

// decoder fills structs from YAML. It knows the fields by their yaml tags and the allowed
// words by their jsonschema tags, and refuses everything else. It has no anchors, aliases,
// merge keys and tags: each value stands where it counts.
type decoder struct{ *problems }

// custom is a type that reads its own node.
type custom interface {
	decode(d *decoder, n ast.Node, path, tag string)
}

// decodeFile reads text, one YAML document, into the struct that into points to.
func (d *decoder) decodeFile(text []byte, into any) {
	if !utf8.Valid(text) {
		line, column := 1, 1
		for _, c := range string(text[:firstInvalidUTF8(text)]) {
			column++
			if c == '\n' {
				line, column = line+1, 1
			}
		}
		d.add(mark{line, column}, "", "the file is not UTF-8")
		return
	}
	f, err := parse(text)
	if err != nil {
		var syntax *yaml.SyntaxError
		if errors.As(err, &syntax) {
			d.add(markOf(syntax.Token), "", "not YAML: %s", syntax.Message)
		} else {
			d.add(mark{1, 1}, "", "not YAML")
		}
		return
	}
	var bodies []ast.Node
	for _, doc := range f.Docs {
		if doc.Body != nil {
			bodies = append(bodies, doc.Body)
		}
	}
	switch len(bodies) {
	case 0:
		d.add(mark{1, 1}, "", "the file has no routes")
	case 1:
		d.node(bodies[0], reflect.ValueOf(into).Elem(), "", "")
	default:
		d.add(markOf(bodies[1].GetToken()), "", "a routes file is one YAML document")
	}
}

// parse does not let a fault of the parser end the process.
func parse(text []byte) (f *ast.File, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errors.New("schema: the YAML parser failed")
		}
	}()
	return parser.ParseBytes(text, 0, parser.AllowDuplicateMapKey())
}

func (d *decoder) node(n ast.Node, v reflect.Value, path, tag string) {
	n = d.plain(n, path)
	if n == nil {
		return
	}
	if c, ok := v.Addr().Interface().(custom); ok {
		c.decode(d, n, path, tag)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.node(n, v.Elem(), path, tag)
	case reflect.Slice:
		items, ok := d.sequence(n, path)
		if !ok {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), len(items), len(items)))
		for i, item := range items {
			d.node(item, v.Index(i), path+"["+itoa(i)+"]", tag)
		}
	case reflect.Struct:
		d.structure(n, v, path)
	default:
		panic("schema: no YAML for " + v.Type().String())
	}
}

// plain refuses the parts of YAML that hide where a value comes from.
func (d *decoder) plain(n ast.Node, path string) ast.Node {
	var what string
	switch n := n.(type) {
	case nil:
		return nil
	case *ast.AnchorNode:
		what = "an anchor"
	case *ast.AliasNode:
		what = "an alias"
	case *ast.TagNode:
		what = "a YAML tag"
	case *ast.MappingValueNode:
		m := ast.Mapping(n.Start, false, n)
		return m
	default:
		return n
	}
	d.add(markOf(n.GetToken()), path, "%s is not supported: write the value out (quote it, if it is text)", what)
	return nil
}

func (d *decoder) sequence(n ast.Node, path string) ([]ast.Node, bool) {
	s, ok := n.(*ast.SequenceNode)
	if !ok {
		d.add(markOf(startOf(n)), path, "a list is wanted, not %s", describe(n))
		return nil, false
	}
	return s.Values, true
}

// pair is one key of a mapping.
type pair struct {
	key   string
	at    mark
	value ast.Node
}

func (d *decoder) mapping(n ast.Node, path string) ([]pair, bool) {
	m, ok := n.(*ast.MappingNode)
	if !ok {
		d.add(markOf(startOf(n)), path, "keys and values are wanted, not %s", describe(n))
		return nil, false
	}
	var pairs []pair
	seen := map[string]mark{}
	for _, kv := range m.Values {
		at := markOf(kv.Key.GetToken())
		key, ok := scalarText(kv.Key)
		if _, isNull := kv.Key.(*ast.NullNode); isNull {
			key, ok = kv.Key.GetToken().Value, true // the key null of a cell
		}
		if !ok {
			d.add(at, path, "a key is plain text here, not %s", describe(kv.Key))
			continue
		}
		if first, dup := seen[key]; dup {
			d.add(at, join(path, key), "key %q is here twice, first in line %d", key, first.line)
			continue
		}
		seen[key] = at
		pairs = append(pairs, pair{key, at, kv.Value})
	}
	return pairs, true
}

func (d *decoder) structure(n ast.Node, v reflect.Value, path string) {
	if m, ok := v.Addr().Interface().(interface{ setMark(mark) }); ok {
		m.setMark(markOf(startOf(n)))
	}
	pairs, ok := d.mapping(n, path)
	if !ok {
		return
	}
	fields, names := map[string]int{}, []string{}
	for i := range v.NumField() {
		if name := v.Type().Field(i).Tag.Get("yaml"); name != "" {
			fields[name] = i
			names = append(names, name)
		}
	}
	given := map[string]bool{}
	for _, p := range pairs {
		i, known := fields[p.key]
		if !known {
			hint := suggest(p.key, names)
			if _, noValue := p.value.(*ast.NullNode); noValue && hint == "" {
				hint = ": quote text that has a comma or a brace in it"
			}
			d.add(p.at, path, "unknown key %q%s", p.key, hint)
			continue
		}
		given[p.key] = true
		if null, isNull := p.value.(*ast.NullNode); isNull || p.value == nil {
			if isNull {
				p.at = markOf(null.GetToken())
			}
			d.add(p.at, join(path, p.key), "is empty")
			continue
		}
		d.node(p.value, v.Field(i), join(path, p.key), v.Type().Field(i).Tag.Get("jsonschema"))
	}
	for _, name := range names {
		if !given[name] && hasKeyword(v.Type().Field(fields[name]).Tag.Get("jsonschema"), "required") {
			d.add(markOf(startOf(n)), path, "%q is missing", name)
		}
	}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func hasKeyword(tag, keyword string) bool {
	for k := range strings.SplitSeq(tag, ",") {
		if k == keyword {
			return true
		}
	}
	return false
}

// words are the enum= values of a jsonschema tag.
func words(tag string) []string {
	var list []string
	for k := range strings.SplitSeq(tag, ",") {
		if w, ok := strings.CutPrefix(k, "enum="); ok {
			list = append(list, w)
		}
	}
	return list
}

// startOf is the token at which a reader sees n begin. A block mapping's own token is the
// colon behind its first key.
func startOf(n ast.Node) *token.Token {
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		return m.Values[0].Key.GetToken()
	}
	return n.GetToken()
}

func describe(n ast.Node) string {
	switch n := n.(type) {
	case *ast.MappingNode:
		return "keys and values"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode:
		return "nothing"
	case *ast.MappingKeyNode:
		return "a complex key"
	case *ast.MergeKeyNode:
		return "a merge key"
	default:
		_ = n
		return "text"
	}
}

// scalarText is the text of a scalar as it is written: numbers and bools keep their spelling.
func scalarText(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// scalar is text with its place. The zero value is text that is not given.
type scalar struct {
	text  string
	given bool
	node  ast.Node
	path  string
}

func (s *scalar) decode(d *decoder, n ast.Node, path, tag string) {
	text, ok := scalarText(n)
	if !ok {
		hint := ""
		if m, isMap := n.(*ast.MappingNode); isMap && m.IsFlowStyle {
			hint = `: quote a template that begins with a brace, "{...}"`
		}
		d.add(markOf(startOf(n)), path, "text is wanted, not %s%s", describe(n), hint)
		return
	}
	*s = scalar{text: text, given: true, node: n, path: path}
	if list := words(tag); len(list) > 0 && !contains(list, text) {
		d.add(s.at(0), path, "%q is none of %s%s", text, strings.Join(list, ", "), suggest(text, list))
	}
}

func contains(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}

// at is the place of byte offset i of the text, as far as escapes and folding allow.
func (s *scalar) at(i int) mark {
	if s.node == nil {
		return mark{1, 1}
	}
	t := s.node.GetToken()
	start := markOf(t)
	before := s.text[:min(i, len(s.text))]
	if l, ok := s.node.(*ast.LiteralNode); ok {
		if !strings.HasPrefix(t.Value, "|") {
			return start
		}
		lead := l.Value.GetToken().Origin
		indent := len(lead) - len(strings.TrimLeft(lead, " "))
		line := strings.Count(before, "\n")
		return mark{start.line + 1 + line, indent + utf8.RuneCountInString(before[strings.LastIndex(before, "\n")+1:]) + 1}
	}
	if strings.Contains(s.text, "\n") {
		return start
	}
	source := strings.TrimLeft(t.Origin, " \n\t\r")
	column := start.column
	switch t.Type {
	case token.DoubleQuoteType:
		return mark{start.line, column + 1 + sourceLength(source[1:], utf8.RuneCountInString(before), '\\')}
	case token.SingleQuoteType:
		return mark{start.line, column + 1 + sourceLength(source[1:], utf8.RuneCountInString(before), '\'')}
	default:
		return mark{start.line, column + utf8.RuneCountInString(before)}
	}
}

// sourceLength is how many characters of quoted source make count characters of text.
func sourceLength(source string, count int, escape rune) int {
	runes := []rune(source)
	i := 0
	for ; count > 0 && i < len(runes); count-- {
		if runes[i] != escape || i+1 >= len(runes) {
			i++
			continue
		}
		switch {
		case escape == '\\' && runes[i+1] == 'x':
			i += 4
		case escape == '\\' && runes[i+1] == 'u':
			i += 6
		case escape == '\\' && runes[i+1] == 'U':
			i += 10
		default:
			i += 2
		}
	}
	return min(i, len(runes))
}

// Kinds of scalars. The JSON Schema tells them apart.
type (
	word         struct{ scalar } // fixed text: a name, or one of some words
	expression   struct{ scalar } // CEL
	templateText struct{ scalar } // text with {CEL}
)

// number is a whole number.
type number struct {
	scalar
	n int
}

func (n *number) decode(d *decoder, node ast.Node, path, tag string) {
	n.scalar.decode(d, node, path, "")
	if !n.given {
		return
	}
	_, isInt := node.(*ast.IntegerNode)
	i, err := strconv.Atoi(n.text)
	if !isInt || err != nil {
		d.add(n.at(0), path, "a whole number is wanted")
		n.given = false
		return
	}
	n.n = i
}

// toggle is true or false.
type toggle struct {
	scalar
	on bool
}

func (f *toggle) decode(d *decoder, node ast.Node, path, tag string) {
	f.scalar.decode(d, node, path, "")
	if b, ok := node.(*ast.BoolNode); ok {
		f.on = b.Value
	} else if f.given {
		d.add(f.at(0), path, "true or false is wanted")
		f.given = false
	}
}

// ordered is a mapping with free keys, in the order of the file.
type ordered[T any] struct {
	mark
	given bool
	items []item[T]
}

type item[T any] struct {
	name string
	at   mark
	path string
	v    T
}

func (o *ordered[T]) decode(d *decoder, n ast.Node, path, tag string) {
	o.setMark(markOf(startOf(n)))
	pairs, ok := d.mapping(n, path)
	if !ok {
		return
	}
	o.given = true
	o.items = make([]item[T], len(pairs))
	for i, p := range pairs {
		it := &o.items[i]
		it.name, it.at, it.path = p.key, p.at, join(path, p.key)
		if _, null := p.value.(*ast.NullNode); null || p.value == nil {
			if _, may := any(&it.v).(interface{ mayBeEmpty() }); !may {
				d.add(p.at, it.path, "is empty")
			}
			continue
		}
		d.node(p.value, reflect.ValueOf(&it.v).Elem(), it.path, "")
	}
}

// structureOf fills the struct that into points to, past its own decode.
func (d *decoder) structureOf(n ast.Node, into any, path string) {
	d.structure(n, reflect.ValueOf(into).Elem(), path)
}
