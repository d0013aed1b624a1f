// Package pushsink holds the contract of the HTTP surface, so that the server can serve the
// very file that the tests check every response against.
package pushsink

import _ "embed"

// OpenAPI is openapi.yaml.
//
//go:embed openapi.yaml
var OpenAPI []byte
