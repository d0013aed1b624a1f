package deadletter

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
)

// Pub/Sub's limits of one message: https://cloud.google.com/pubsub/quotas#resource_limits
const (
	maxAttributes = 100
	maxKey        = 256
	maxValue      = 1024
	// maxMessage bounds data and attributes together, as they are on the wire.
	maxMessage = 10_000_000
)

// packed holds what no attribute can. In the base64 members, keys and values both are
// base64: they hold what is not UTF-8.
type packed struct {
	Attributes       map[string]string `json:"attributes,omitzero"`
	AttributesBase64 map[string]string `json:"attributesBase64,omitzero"`
	Record           map[string]string `json:"record,omitzero"`
	RecordBase64     map[string]string `json:"recordBase64,omitzero"`
}

func (p *packed) addAttribute(key, value string) { add(&p.Attributes, &p.AttributesBase64, key, value) }
func (p *packed) addRecord(key, value string)    { add(&p.Record, &p.RecordBase64, key, value) }

func (p *packed) empty() bool {
	return len(p.Attributes)+len(p.AttributesBase64)+len(p.Record)+len(p.RecordBase64) == 0
}

func add(text, binary *map[string]string, key, value string) {
	if !utf8.ValidString(key) || !utf8.ValidString(value) {
		text = binary
		key = base64.StdEncoding.EncodeToString([]byte(key))
		value = base64.StdEncoding.EncodeToString([]byte(value))
	}
	if *text == nil {
		*text = make(map[string]string)
	}
	(*text)[key] = value
}

// carries reports whether a record's attribute can travel as an attribute of the letter.
func carries(key, value string) bool {
	return key != "" && len(key) <= maxKey && len(value) <= maxValue &&
		utf8.ValidString(key) && utf8.ValidString(value) &&
		!strings.HasPrefix(key, prefix) && !strings.HasPrefix(key, "goog")
}

// pack makes the letter's message: data shares the record's bytes unless something had
// to be appended.
func (l *Letter) pack() (data []byte, attributes map[string]string, err error) {
	data = l.Record.Data
	attributes = make(map[string]string)
	var rest packed
	for _, a := range l.own() {
		if len(a[1]) <= maxValue && utf8.ValidString(a[1]) {
			attributes[prefix+a[0]] = a[1]
		} else {
			rest.addRecord(a[0], a[1])
		}
	}
	fit := make([]string, 0, len(l.Record.Attributes))
	for k, v := range l.Record.Attributes {
		if carries(k, v) {
			fit = append(fit, k)
		} else {
			rest.addAttribute(k, v)
		}
	}
	room := maxAttributes - len(attributes)
	if len(fit) > room || !rest.empty() {
		room-- // for pushsink-attributes or pushsink-data-size
	}
	if len(fit) > room {
		// The largest stay, so that what is packed fits an attribute most often.
		slices.SortFunc(fit, func(a, b string) int {
			sa, sb := len(a)+len(l.Record.Attributes[a]), len(b)+len(l.Record.Attributes[b])
			return cmp.Or(cmp.Compare(sb, sa), strings.Compare(a, b))
		})
		for _, k := range fit[room:] {
			rest.addAttribute(k, l.Record.Attributes[k])
		}
		fit = fit[:room]
	}
	for _, k := range fit {
		attributes[k] = l.Record.Attributes[k]
	}
	if rest.empty() {
		return data, attributes, nil
	}
	text, err := json.Marshal(&rest, json.Deterministic(true))
	if err != nil {
		return nil, nil, fmt.Errorf("packing attributes: %w", err)
	}
	if len(text) <= maxValue {
		attributes[prefix+packedName] = string(text)
		return data, attributes, nil
	}
	attributes[prefix+sizeName] = strconv.Itoa(len(data))
	return slices.Concat(data, text), attributes, nil
}

// unpack parts a message into the record's data, the letter's own attributes (names
// without the prefix) and the record's.
func unpack(data []byte, attributes map[string]string) (_ []byte, own, record map[string]string, err error) {
	text := []byte(attributes[prefix+packedName])
	if s, ok := attributes[prefix+sizeName]; ok {
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 || n > len(data) {
			return nil, nil, nil, fmt.Errorf("%w: %s%s is not a size within the data", ErrNotLetter, prefix, sizeName)
		}
		data, text = data[:n:n], data[n:]
	}
	var rest packed
	if len(text) > 0 {
		if err := json.Unmarshal(text, &rest); err != nil {
			return nil, nil, nil, fmt.Errorf("%w: its packed attributes cannot be read", ErrNotLetter)
		}
	}
	own, record = make(map[string]string), make(map[string]string)
	for k, v := range attributes {
		if name, ok := strings.CutPrefix(k, prefix); ok {
			own[name] = v
		} else if !strings.HasPrefix(k, "goog") { // those are the transport's: a record's are packed
			record[k] = v
		}
	}
	for k, v := range rest.Attributes {
		record[k] = v
	}
	for k, v := range rest.Record {
		own[k] = v
	}
	if err := decodeInto(record, rest.AttributesBase64); err != nil {
		return nil, nil, nil, err
	}
	if err := decodeInto(own, rest.RecordBase64); err != nil {
		return nil, nil, nil, err
	}
	if len(record) == 0 {
		record = nil
	}
	return data, own, record, nil
}

func decodeInto(m, encoded map[string]string) error {
	for k, v := range encoded {
		key, err := base64.StdEncoding.DecodeString(k)
		if err != nil {
			return fmt.Errorf("%w: a packed name is not base64", ErrNotLetter)
		}
		value, err := base64.StdEncoding.DecodeString(v)
		if err != nil {
			return fmt.Errorf("%w: a packed value is not base64", ErrNotLetter)
		}
		m[string(key)] = string(value)
	}
	return nil
}
