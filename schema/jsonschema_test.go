package schema

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/invopop/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"
)

// routesSchema makes the JSON Schema of the routes file from the structs it is read into.
func routesSchema(t *testing.T) []byte {
	t.Helper()
	described := func(text string) *jsonschema.Schema { return &jsonschema.Schema{Type: "string", Description: text} }
	var r *jsonschema.Reflector
	reflectType := func(v any) *jsonschema.Schema { return r.ReflectFromType(reflect.TypeOf(v)) }
	object := func(values *jsonschema.Schema) *jsonschema.Schema {
		values.Version, values.ID = "", ""
		return &jsonschema.Schema{Type: "object", AdditionalProperties: values}
	}
	r = &jsonschema.Reflector{
		FieldNameTag:               "yaml",
		Anonymous:                  true,
		DoNotReference:             true,
		RequiredFromJSONSchemaTags: true,
		Mapper: func(typ reflect.Type) *jsonschema.Schema {
			switch typ {
			case reflect.TypeFor[word](), reflect.TypeFor[templateText]():
				return &jsonschema.Schema{Type: "string"}
			case reflect.TypeFor[expression]():
				// A CEL expression like 5 or true is no string to YAML.
				return &jsonschema.Schema{OneOf: []*jsonschema.Schema{{Type: "string"}, {Type: "number"}, {Type: "boolean"}}}
			case reflect.TypeFor[number]():
				return &jsonschema.Schema{Type: "integer"}
			case reflect.TypeFor[toggle]():
				return &jsonschema.Schema{Type: "boolean"}
			case reflect.TypeFor[ordered[routeFile]]():
				return object(reflectType(routeFile{}))
			case reflect.TypeFor[ordered[familyFile]]():
				family := reflectType(familyFile{})
				family.Version = ""
				return object(&jsonschema.Schema{OneOf: []*jsonschema.Schema{family, {Type: "null"}}})
			case reflect.TypeFor[ordered[expression]]():
				return object(&jsonschema.Schema{OneOf: []*jsonschema.Schema{{Type: "string"}, {Type: "number"}, {Type: "boolean"}}})
			case reflect.TypeFor[deleteFile]():
				type fields deleteFile
				f := reflectType(fields{})
				f.Version = ""
				row := described("The whole row.")
				row.Const = "row"
				return &jsonschema.Schema{OneOf: []*jsonschema.Schema{row, f}}
			case reflect.TypeFor[gcFile]():
				return &jsonschema.Schema{Ref: "#/$defs/gc"}
			}
			return nil
		},
	}
	s := reflectType(routesFile{})
	s.Title = "pushsink routes file"
	mapper := r.Mapper
	r.Mapper = func(typ reflect.Type) *jsonschema.Schema {
		if typ == reflect.TypeFor[gcFile]() {
			r.Mapper = mapper // only the outermost is spelled out
			return nil
		}
		return mapper(typ)
	}
	gc := reflectType(gcFile{})
	gc.Version = ""
	one := uint64(1)
	gc.MinProperties, gc.MaxProperties = &one, &one
	s.Definitions = jsonschema.Definitions{"gc": gc}
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(b, '\n')
}

func TestJSONSchemaEqualsStructs(t *testing.T) {
	want := routesSchema(t)
	if *update {
		if err := os.WriteFile("routes.schema.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile("routes.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("routes.schema.json is not what the structs say: go test ./schema -run JSONSchema -update")
	}
}

// Every key of the structs stands in the schema with a description, and no other key.
func TestJSONSchemaDescribesEveryKey(t *testing.T) {
	var s any
	if err := json.Unmarshal(routesSchema(t), &s); err != nil {
		t.Fatal(err)
	}
	keys := 0
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			if properties, ok := v["properties"].(map[string]any); ok {
				if v["additionalProperties"] != false {
					t.Errorf("%s allows other keys", path)
				}
				for name, p := range properties {
					keys++
					if d, _ := p.(map[string]any)["description"].(string); d == "" {
						t.Errorf("%s.%s has no description", path, name)
					}
				}
			}
			for k, child := range v {
				walk(path+"/"+k, child)
			}
		case []any:
			for _, child := range v {
				walk(path, child)
			}
		}
	}
	walk("", s)
	if keys < 60 {
		t.Errorf("only %d keys", keys)
	}
}

// The schema accepts every routes file of the tests that compiles, and refuses those
// whose keys and words are wrong.
func TestJSONSchemaAgreesWithCompile(t *testing.T) {
	doc, err := validator.UnmarshalJSON(bytes.NewReader(routesSchema(t)))
	if err != nil {
		t.Fatal(err)
	}
	c := validator.NewCompiler()
	if err := c.AddResource("routes.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("routes.json")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("testdata/mapping/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	accepted, refused := 0, 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range parseGroups(t, string(text)) {
			b, err := yaml.YAMLToJSON([]byte(g.file()))
			if err != nil {
				continue
			}
			inst, err := validator.UnmarshalJSON(bytes.NewReader(b))
			if err != nil {
				continue
			}
			verdict := schema.Validate(inst)
			_, compileErr := Compile("f", []byte(g.file()))
			switch {
			case compileErr == nil:
				accepted++
				if verdict != nil {
					t.Errorf("%s compiles, but: %v", g.title, verdict)
				}
			case strings.Contains(g.title, "unknown keys") || strings.Contains(g.title, "words") || strings.Contains(g.title, "missing") || strings.Contains(g.title, "shapes"):
				refused++
				if verdict == nil {
					t.Errorf("%s is refused, but the schema accepts it", g.title)
				}
			}
		}
	}
	if accepted < 50 || refused < 4 {
		t.Errorf("%d accepted, %d refused", accepted, refused)
	}
}
