package main

import (
	"os"
	"reflect"
	"slices"
	"strings"
)

// forcedOption names, in the environment of a test process, the one option that has its
// default whatever is set: TestOptionProof of that option must then fail. Nothing outside
// the tests of this package can do that.
const forcedOption = "OPTION_FORCED"

// unsetForced leaves the forced option out of environ, where its effect is that of reading it.
func unsetForced(environ []string) []string {
	name := os.Getenv(forcedOption)
	for _, p := range proofs() {
		if p.option == name && p.reads {
			return slices.DeleteFunc(environ, func(item string) bool { return strings.HasPrefix(item, prefix+"_"+name+"=") })
		}
	}
	return environ
}

// resetForced puts the forced option back to its default after everything was read and checked.
func resetForced(s *settings) {
	name := os.Getenv(forcedOption)
	var defaults config
	for i, o := range optionsOf(&defaults) {
		if o.short() != name {
			continue
		}
		if text, ok := o.Tags.Lookup("default"); ok {
			if err := o.set(text); err != nil {
				panic(err) // load sets it too
			}
		}
		fieldsOf(reflect.ValueOf(&s.config).Elem())[i].Set(fieldsOf(reflect.ValueOf(&defaults).Elem())[i])
		delete(s.given, o.Name)
	}
}

// fieldsOf are the fields of a config in the order of optionsOf, whose own are the values
// behind pointers that are set.
func fieldsOf(v reflect.Value) (list []reflect.Value) {
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Struct {
			list = append(list, fieldsOf(f)...)
		} else {
			list = append(list, f)
		}
	}
	return list
}
