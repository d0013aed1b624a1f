package main

import (
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/kelseyhightower/envconfig"
)

// declaration is one field of config, as envconfig names it.
type declaration struct {
	Name  string // with the prefix
	Field reflect.Value
	Tags  reflect.StructTag
}

// optionsOf lists the options of c in the order of their declaration. The names are
// envconfig's (split words, nested structs as prefixes). The values are not read by its
// Process: that one stops at the first bad value, knows no bounds, takes 010 for 8 and a
// negative duration for a timeout, splits lists without trimming, and cannot be given an
// environment.
func optionsOf(c *config) []declaration {
	var list []declaration
	visit := template.Must(template.New("").Funcs(template.FuncMap{
		"visit": func(name string, field reflect.Value, tags reflect.StructTag) string {
			list = append(list, declaration{name, field, tags})
			return ""
		},
	}).Parse(`{{range .}}{{visit .Key .Field .Tags}}{{end}}`))
	if err := envconfig.Usaget(prefix, c, discard{}, visit); err != nil {
		panic("cmd/server: the config struct: " + err.Error()) // a mistake in config.go, found by any test
	}
	return list
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// short is the name without the prefix, as the table shows it.
func (o declaration) short() string { return strings.TrimPrefix(o.Name, prefix+"_") }

// set reads text, which is not empty, into the option's field. The error is the bound
// that text does not keep.
func (o declaration) set(text string) error {
	return o.read(o.Field, text)
}

func (o declaration) read(field reflect.Value, text string) error {
	if field.Kind() == reflect.Pointer {
		value := reflect.New(field.Type().Elem())
		if err := o.read(value.Elem(), text); err != nil {
			return err
		}
		field.Set(value)
		return nil
	}
	if field.Kind() != reflect.Slice && text != strings.TrimSpace(text) {
		return errors.New("no spaces around the value")
	}
	switch field.Interface().(type) {
	case time.Duration:
		d, err := o.duration(text)
		if err != nil {
			return err
		}
		field.SetInt(int64(d))
	case int, size:
		n, err := o.integer(text)
		if err != nil {
			return err
		}
		field.SetInt(n)
	case bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return errors.New("true or false")
		}
		field.SetBool(b)
	case string:
		if err := o.word(text); err != nil {
			return err
		}
		field.SetString(text)
	case []string:
		items, err := o.items(text)
		if err != nil {
			return err
		}
		field.Set(reflect.ValueOf(items))
	default:
		panic("cmd/server: no reader for the type of " + o.Name)
	}
	return nil
}

// integer reads a decimal number: 010 is ten, and 0x10 or 1e3 is no number.
func (o declaration) integer(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, errors.New("a whole number, " + o.bounds())
	}
	if or, ok := o.Tags.Lookup("or"); ok && strconv.FormatInt(n, 10) == or {
		return n, nil
	}
	if low, ok := o.Tags.Lookup("min"); ok && n < mustInt(low) {
		return 0, errors.New(o.bounds())
	}
	if high, ok := o.Tags.Lookup("max"); ok && n > mustInt(high) {
		return 0, errors.New(o.bounds())
	}
	return n, nil
}

// duration reads a duration. A bare 0 is allowed, since it is the same in every unit.
func (o declaration) duration(text string) (time.Duration, error) {
	if _, err := strconv.ParseFloat(text, 64); err == nil && text != "0" {
		return 0, errors.New("a duration needs a unit, such as 500ms, 8s or 1h; " + o.bounds())
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, errors.New("a duration with units ns, us, ms, s, m or h, at most 2^63-1 ns; " + o.bounds())
	}
	if low, ok := o.Tags.Lookup("min"); d < 0 || strings.HasPrefix(text, "-") || ok && d < mustDuration(low) {
		return 0, errors.New(o.bounds())
	}
	if high, ok := o.Tags.Lookup("max"); ok && d > mustDuration(high) {
		return 0, errors.New(o.bounds())
	}
	return d, nil
}

func (o declaration) word(text string) error {
	if words, ok := o.Tags.Lookup("oneof"); ok && !contains(words, text) {
		return errors.New(o.bounds())
	}
	if form, ok := o.Tags.Lookup("form"); ok {
		return forms[form].check(text)
	}
	return nil
}

// items splits a comma-separated list; items are trimmed, an empty one is refused.
func (o declaration) items(text string) ([]string, error) {
	items := strings.Split(text, ",")
	for i := range items {
		items[i] = strings.TrimSpace(items[i])
		if items[i] == "" {
			return nil, fmt.Errorf("a comma-separated list, item %d is empty", i+1)
		}
		if err := o.word(items[i]); err != nil {
			return nil, fmt.Errorf("a comma-separated list, each %w", err)
		}
	}
	return items, nil
}

// bounds says which values are allowed, in the words of the table and of a refusal.
func (o declaration) bounds() string {
	var text string
	low, hasLow := o.Tags.Lookup("min")
	high, hasHigh := o.Tags.Lookup("max")
	words, hasWords := o.Tags.Lookup("oneof")
	form, hasForm := o.Tags.Lookup("form")
	switch {
	case hasWords:
		text = strings.ReplaceAll(words, ",", " | ")
	case hasForm:
		text = forms[form].bound
	case hasLow && hasHigh:
		text = grouped(low) + " .. " + grouped(high)
	case low == "1ns":
		text = "> 0"
	case hasLow:
		text = ">= " + grouped(low)
	case o.Field.Kind() == reflect.Bool:
		text = "true | false"
	case o.Field.Kind() == reflect.Slice:
		text = "no empty item"
	}
	if or, ok := o.Tags.Lookup("or"); ok {
		text += " or " + or
	}
	if also, ok := o.Tags.Lookup("also"); ok {
		text += ", " + also
	}
	return text
}

// form is a check of a text that no list of words can say.
type form struct {
	bound string
	check func(text string) error
}

var databasePath = regexp.MustCompile(`^projects/[^/\s]+/instances/[^/\s]+/databases/[^/\s]+$`)

var forms = map[string]form{
	"plain": {"no spaces around it", func(string) error { return nil }},
	"id": {"not blank, no /, no spaces around it", func(text string) error {
		if strings.Contains(text, "/") {
			return errors.New("an id without /")
		}
		return nil
	}},
	"database": {"projects/P/instances/I/databases/D", func(text string) error {
		if !databasePath.MatchString(text) {
			return errors.New("projects/P/instances/I/databases/D")
		}
		return nil
	}},
	"url": {"an http or https URL", func(text string) error {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return errors.New("an http or https URL")
		}
		return nil
	}},
}

func contains(words, word string) bool {
	for w := range strings.SplitSeq(words, ",") {
		if w == word {
			return true
		}
	}
	return false
}

// mustInt and mustDuration read bounds, which are typed in config.go.
func mustInt(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

func mustDuration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(err)
	}
	return d
}

// grouped writes a number of five digits or more with commas, anything else as it is.
func grouped(text string) string {
	if _, err := strconv.ParseUint(text, 10, 64); err != nil || len(text) < 5 {
		return text
	}
	var b strings.Builder
	for i, digit := range text {
		if i > 0 && (len(text)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(digit)
	}
	return b.String()
}
