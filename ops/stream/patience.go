package stream

import (
	"io"
	"net/http"
	"time"
)

// Patience gives the client of w the limit anew to read the reply.
func Patience(w http.ResponseWriter, limit time.Duration) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(limit)) // always supported
}

// A Patient reply gives the client the limit anew for each part of it.
type Patient struct {
	http.ResponseWriter
	Limit time.Duration
}

// WriteHeader implements [http.ResponseWriter].
func (p *Patient) WriteHeader(status int) {
	Patience(p.ResponseWriter, p.Limit)
	p.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (p *Patient) Write(b []byte) (int, error) {
	Patience(p.ResponseWriter, p.Limit)
	return p.ResponseWriter.Write(b)
}

// Unwrap is for [http.ResponseController].
func (p *Patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// A Body gives the client the limit anew to send each part of a request, and none once it has sent
// all: then the server reads for the end of the connection.
type Body struct {
	io.ReadCloser
	Control *http.ResponseController
	Limit   time.Duration
}

// Read implements [io.Reader].
func (p *Body) Read(b []byte) (int, error) {
	_ = p.Control.SetReadDeadline(time.Now().Add(p.Limit)) // always supported
	n, err := p.ReadCloser.Read(b)
	if err == io.EOF {
		_ = p.Control.SetReadDeadline(time.Time{})
	}
	return n, err
}
