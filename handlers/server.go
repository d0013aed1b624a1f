package handlers

import (
	"net/http"
	"time"
)

const (
	// maxHeaderBytes admits the most attributes a message can have as headers (Pub/Sub:
	// 100 of 256 bytes of key and 1,024 of value) with room for the rest.
	maxHeaderBytes = 256 << 10
	// answerTime is what the write timeout leaves for an answer after the longest request
	// deadline: the platform's front end reads it at once.
	answerTime = 10 * time.Second
	// maxStreams is the most HTTP/2 requests on one connection: the platform's highest
	// concurrency setting (1,000), so that a connection is never the bound.
	maxStreams = 1000
	// streamBuffer and connBuffer are how much of an HTTP/2 client's bodies net/http takes
	// in unread. With one buffer for both, a single stream that is not read, as its records
	// wait for room, would hold up every other request of its connection.
	streamBuffer = 128 << 10
	connBuffer   = 32 * streamBuffer
)

// NewServer gives an http.Server for h with the limits' timeouts: HTTP/1.1 and cleartext
// HTTP/2 on one port. There is no ReadTimeout, because it would end the wait for the write;
// bodies have their own deadline between bytes.
func NewServer(h http.Handler, l Limits) *http.Server {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler:   h,
		Protocols: p,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxStreams,
			MaxReceiveBufferPerStream: streamBuffer, MaxReceiveBufferPerConnection: connBuffer},
		ReadHeaderTimeout: l.ReadHeaderTimeout,
		IdleTimeout:       l.IdleTimeout,
		WriteTimeout:      max(l.RequestTimeout, l.BatchTimeout) + answerTime,
		MaxHeaderBytes:    maxHeaderBytes,
		ConnContext:       withConn,
	}
}
