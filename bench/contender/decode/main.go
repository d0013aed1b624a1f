// Command decode is a ceiling: net/http and the JSON reader of pushsink, and nothing else.
// It reads the envelope, the base64 and every field of the record, strictly, and
// answers.
package main

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/pushsink/pushsink/bench/probe"
)

func main() {
	probe.Serve()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /", func(w http.ResponseWriter, r *http.Request) {
		x := scratches.Get().(*scratch)
		defer scratches.Put(x)
		if err := x.decode(r); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /health/ready", func(http.ResponseWriter, *http.Request) {})
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), mux))
}

// scratch is what one request needs, kept for the next.
type scratch struct {
	body, data []byte
	src        bytes.Buffer
	dec        jsontext.Decoder
	row        row
}

type row struct {
	device, state, note      string
	seq                      int64
	ts                       time.Time
	temp, humidity, pressure float64
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

var (
	errMissing  = errors.New("no data")
	errTrailing = errors.New("data after the object")
)

func (x *scratch) decode(r *http.Request) error {
	if n := int(r.ContentLength); n >= 0 {
		if cap(x.body) < n {
			x.body = make([]byte, n)
		}
		x.body = x.body[:n]
		if _, err := io.ReadFull(r.Body, x.body); err != nil {
			return err
		}
	} else {
		var err error
		if x.body, err = io.ReadAll(r.Body); err != nil {
			return err
		}
	}
	var encoded []byte
	if err := x.object(x.body, func(name []byte) error {
		if string(name) != "message" {
			return x.dec.SkipValue()
		}
		return members(&x.dec, func(name []byte) (err error) {
			if string(name) != "data" {
				return x.dec.SkipValue()
			}
			encoded, err = x.dec.ReadValue()
			if end := x.dec.InputOffset(); err == nil { // its place in the body, which stays
				encoded = x.body[end-int64(len(encoded)) : end]
			}
			return err
		})
	}); err != nil {
		return err
	}
	if len(encoded) < 2 {
		return errMissing
	}
	encoded = encoded[1 : len(encoded)-1]
	if n := base64.StdEncoding.DecodedLen(len(encoded)); cap(x.data) < n {
		x.data = make([]byte, n)
	}
	n, err := base64.StdEncoding.Decode(x.data[:cap(x.data)], encoded)
	if err != nil {
		return err
	}
	return x.object(x.data[:n], x.field)
}

// object calls member for each member of the object that is all of data.
func (x *scratch) object(data []byte, member func(name []byte) error) error {
	x.src = *bytes.NewBuffer(data)
	x.dec.Reset(&x.src)
	if err := members(&x.dec, member); err != nil {
		return err
	}
	if _, err := x.dec.ReadToken(); err != io.EOF {
		return errTrailing
	}
	return nil
}

// members calls member for each name of the next object; it has to read the value.
func members(dec *jsontext.Decoder, member func(name []byte) error) error {
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadValue()
		if err != nil {
			return err
		}
		if err := member(name[1 : len(name)-1]); err != nil {
			return err
		}
	}
	_, err := dec.ReadToken()
	return err
}

func (x *scratch) field(name []byte) error {
	var text *string
	var number *float64
	switch string(name) {
	case "device":
		text = &x.row.device
	case "state":
		text = &x.row.state
	case "note":
		text = &x.row.note
	case "temp":
		number = &x.row.temp
	case "humidity":
		number = &x.row.humidity
	case "pressure":
		number = &x.row.pressure
	case "seq":
		value, err := x.dec.ReadValue()
		if err == nil {
			x.row.seq, err = strconv.ParseInt(string(value), 10, 64)
		}
		return err
	case "ts":
		value, err := x.dec.ReadValue()
		if err == nil {
			err = x.row.ts.UnmarshalJSON(value)
		}
		return err
	default:
		return x.dec.SkipValue()
	}
	value, err := x.dec.ReadValue()
	switch {
	case err != nil:
	case text != nil:
		*text = string(value[1 : len(value)-1])
	default:
		*number, err = strconv.ParseFloat(string(value), 64)
	}
	return err
}
