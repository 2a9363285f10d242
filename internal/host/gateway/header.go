package gateway

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"

	"wolffia/network"
)

// maxHeaderFile is the maximum size of a file with the value of a header, in bytes.
const maxHeaderFile = 16 << 10

// A headerValue is a header with the secret that belongs to it.
type headerValue struct{ name, value string }

// readHeaders reads the files of headers. They are read for each request, so that a new value holds
// from the next request on.
func readHeaders(headers []network.Header) ([]headerValue, error) {
	if len(headers) == 0 {
		return nil, errors.New("no header")
	}
	var values []headerValue
	for _, h := range headers {
		value, err := readHeader(h.File)
		if err != nil {
			return nil, err
		}
		values = append(values, headerValue{h.Header, value})
	}
	return values, nil
}

// readHeader returns the value in a file, without the line's end. No error has the value in it.
func readHeader(file string) (string, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0) // a pipe does not block
	if err != nil {
		return "", err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a regular file", file)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxHeaderFile+1))
	if err != nil {
		return "", err
	}
	text = bytes.TrimRight(text, "\r\n")
	control := func(b rune) bool { return b < ' ' && b != '\t' || b == 0x7f }
	if len(text) == 0 || len(text) > maxHeaderFile || bytes.ContainsFunc(text, control) {
		return "", fmt.Errorf("%s does not have one line of at most %d bytes", file, maxHeaderFile)
	}
	return string(text), nil
}

// seal sends a request to its host by TLS, with the headers added, and without those that the
// program inside sent by the same names.
func seal(r *http.Request, p *passage) {
	r.URL.Scheme = "https"
	r.Host = authority(p.to, 443)
	for _, h := range p.values {
		r.Header.Set(h.name, h.value)
	}
}

// unsealed removes from a response what repeats a secret: headers, and trailers once the body has
// ended.
func unsealed(r *http.Response, p *passage) {
	unseal(r.Header, p)
	if r.StatusCode != http.StatusSwitchingProtocols { // whose body is a connection, without trailers
		r.Body = &sealedBody{r.Body, r, p}
	}
}

// A sealedBody is the body of a response whose trailers must not show a secret.
type sealedBody struct {
	io.ReadCloser
	of *http.Response
	p  *passage
}

// Read reads the body. The trailers are available at its end.
func (b *sealedBody) Read(to []byte) (int, error) {
	n, err := b.ReadCloser.Read(to)
	if err != nil {
		unseal(b.of.Trailer, b.p)
	}
	return n, err
}

// Close closes the body, for which the transport may read it to its end.
func (b *sealedBody) Close() error {
	err := b.ReadCloser.Close()
	unseal(b.of.Trailer, b.p)
	return err
}

// unseal removes the headers of a response that repeat a secret, and has redirections to the
// host lead to the name that adds the headers.
func unseal(h http.Header, p *passage) {
	for name, values := range h {
		for _, value := range values {
			for _, secret := range p.values {
				if repeats(value, secret.value) {
					delete(h, name)
				}
			}
		}
	}
	if rest, is := strings.CutPrefix(h.Get("Location"), "https://"+p.to.name+"/"); is {
		h.Set("Location", "http://"+p.to.name+network.LocalSuffix+"/"+rest)
	}
}

// repeats reports whether a value of a header has a secret in it, or a word of it that is no name
// of a scheme, such as what follows Bearer.
func repeats(value, secret string) bool {
	const least = 8 // bytes of a word
	return strings.Contains(value, secret) || slices.ContainsFunc(strings.Fields(secret), func(word string) bool {
		return len(word) >= least && strings.Contains(value, word)
	})
}

// tlsConfig returns the configuration of TLS to a host of headers.
func tlsConfig(roots *x509.CertPool, name string) *tls.Config {
	return &tls.Config{RootCAs: roots, ServerName: name, MinVersion: tls.VersionTLS12}
}
