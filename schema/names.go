package schema

import (
	"fmt"
	"regexp"
	"strings"
)

// Limits of Bigtable that are checked before anything is sent
// (https://cloud.google.com/bigtable/quotas).
const (
	MaxRowKey    = 4096      // bytes
	MaxQualifier = 16 << 10  // bytes
	MaxCell      = 100 << 20 // bytes
	MaxMutations = 100_000   // of one row in one request
)

// MaxTablesDefault is how many tables a templated table may become unless maxTables says
// otherwise: the service's own bound for an instance.
const MaxTablesDefault = 1000

// rule is what a name has to look like. Names that a template makes are held to the same
// rule as names in the file.
type rule struct {
	re   *regexp.Regexp
	text string
}

func (r rule) ok(name string) bool { return r.re.MatchString(name) }

// ruleOf compiles the rules once per routes file.
func newRules() *rules {
	return &rules{
		route:    rule{regexp.MustCompile(`^[A-Za-z0-9][-_.A-Za-z0-9]{0,62}$`), "letters, digits, - _ and . are allowed, up to 63, a letter or digit first"},
		table:    rule{regexp.MustCompile(`^[_a-zA-Z0-9][-_.a-zA-Z0-9]{0,49}$`), "letters, digits, - _ and . are allowed, up to 50, not - or . first"},
		family:   rule{regexp.MustCompile(`^[-_.a-zA-Z0-9]{1,64}$`), "letters, digits, - _ and . are allowed, 1 to 64"},
		instance: rule{regexp.MustCompile(`^[a-z]([-a-z0-9]{0,31}[a-z0-9])?$`), "lower-case letters, digits and - are allowed, up to 33, a letter first, no - last"},
		topic:    rule{regexp.MustCompile(`^projects/[^/\s]+/topics/[A-Za-z][-A-Za-z0-9._~+%]{2,254}$`), "projects/PROJECT/topics/TOPIC is wanted"},
		database: rule{regexp.MustCompile(`^projects/[^/\s]+/instances/[^/\s]+/databases/[^/\s]+$`), "projects/PROJECT/instances/INSTANCE/databases/DATABASE is wanted"},
		spanner:  rule{regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}(\.[A-Za-z_][A-Za-z0-9_]{0,127})?$`), "letters, digits and _ are allowed, up to 128, with a schema and a dot before it where it has one"},
		column:   rule{regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`), "letters, digits and _ are allowed, up to 128, no digit first"},
	}
}

type rules struct {
	route, table, family, instance, topic, database, spanner, column rule
}

// name checks a name of the file.
func (c *compiler) name(s *scalar, what string, r rule) {
	if s.given && !r.ok(s.text) {
		c.add(s.at(0), s.path, "%q is no %s: %s", s.text, what, r.text)
	}
}

// plainName checks a name that the service has no sharp rule for.
func (c *compiler) plainName(s *scalar, what string) {
	if s.given && (strings.TrimSpace(s.text) != s.text || s.text == "" || strings.Contains(s.text, "/")) {
		c.add(s.at(0), s.path, "%q is no %s: it must not be blank, hold a / or have space at its ends", s.text, what)
	}
}

// templated checks a name that a template made. The name itself is data and not shown.
func (r rule) templated(code Code, what, name string) error {
	if r.ok(name) {
		return nil
	}
	return &Error{Code: code, Detail: fmt.Sprintf("not a %s name: %s", what, r.text)}
}
