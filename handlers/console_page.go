package handlers

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"io/fs"
	"net/http"
	"path"
	"strings"

	"github.com/go-chi/chi/v5"
)

// consoleFiles are the page and everything that it loads: it asks no other origin for anything.
//
//go:embed console/*.html console/*.css console/*.js console/*.svg console/*.woff2 console/*.txt
var consoleFiles embed.FS

// consolePolicy lets the page load its own files and talk to this server. No script, style
// or handler stands in the page's text, and text can't become markup: whatever a record
// holds stays text.
const consolePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// consoleMedia are the media types of the files by their extension.
var consoleMedia = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".svg": "image/svg+xml", ".woff2": "font/woff2", ".txt": "text/plain; charset=utf-8",
}

// asset is one file, as it is answered.
type asset struct {
	media, etag string
	body        []byte
}

// consoleAssets are the files by name.
func consoleAssets() map[string]asset {
	files, err := fs.Glob(consoleFiles, "console/*")
	if err != nil {
		panic(err) // the pattern is ours
	}
	assets := make(map[string]asset, len(files))
	for _, name := range files {
		body, err := consoleFiles.ReadFile(name)
		if err != nil {
			panic(err) // it was listed
		}
		sum := sha256.Sum256(body)
		assets[path.Base(name)] = asset{consoleMedia[path.Ext(name)], `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`, body}
	}
	return assets
}

// routeConsole adds the console's paths to r.
func (h *api) routeConsole(r chi.Router) {
	assets := consoleAssets()
	page := assets["index.html"]
	delete(assets, "index.html")
	r.Get("/", page.ServeHTTP)
	r.Get("/console/live", h.serveConsoleLive)
	r.Get("/console/routes", h.serveConsoleRoutes)
	r.Get("/console/files/{file}", func(w http.ResponseWriter, r *http.Request) {
		file, ok := assets[chi.URLParam(r, "file")]
		if !ok {
			refuse(w, r, http.StatusNotFound, "no such file")
			return
		}
		file.ServeHTTP(w, r)
	})
}

func (a asset) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "private, no-cache") // asked for again each time, as a new version may run
	h.Set("ETag", a.etag)
	h.Set("Content-Security-Policy", consolePolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if strings.Contains(r.Header.Get("If-None-Match"), a.etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", a.media)
	_, _ = w.Write(a.body)
}
