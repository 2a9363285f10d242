package envd

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"wolffia/service/e2b/fault"
	"wolffia/service/gate"
)

// Signs reports whether the token of a sandbox has signed the URL of a request to /files, at
// whatever time.
func Signs(token string, r *http.Request) bool {
	q, err := gate.Query(r)
	return err == nil && token != "" && signed(token, r.Method, q)
}

// signed reports whether a token has signed a query. [same] takes any text for an empty token.
func signed(token, method string, q url.Values) bool {
	op := "read"
	if method == http.MethodPost {
		op = "write"
	}
	parts := []string{q.Get("path"), op, q.Get("username"), token}
	if q.Has("signature_expiration") {
		parts = append(parts, q.Get("signature_expiration"))
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, ":")))
	return same(q.Get("signature"), "v1_"+base64.RawStdEncoding.EncodeToString(sum[:]))
}

// Admits reports whether a request has the token of the sandbox, or a URL that it has signed.
func (b *Box) Admits(r *http.Request) bool { return b.admits(r) == nil }

// admits returns why a request is not admitted, or nil.
func (b *Box) admits(r *http.Request) error {
	if r.URL.Path == "/files" {
		q, err := gate.Query(r)
		if err != nil {
			return err
		}
		return b.admit(r, q)
	}
	if !same(r.Header.Get(tokenHeader), b.Token) {
		return fault.New(http.StatusUnauthorized, "the request has not the access token of the sandbox")
	}
	return nil
}

// admit returns why a request to /files with a query is not admitted, or nil.
func (b *Box) admit(r *http.Request, q url.Values) error {
	token, err := r.Header.Get(tokenHeader), error(nil)
	switch {
	case b.Token == "":
	case token != "":
		if !same(token, b.Token) {
			err = errors.New("access token present in header but does not match")
		}
	case !q.Has("signature"):
		err = errors.New("missing signature query parameter")
	case !signed(b.Token, r.Method, q):
		err = errors.New("invalid signature")
	case q.Has("signature_expiration"):
		until, perr := strconv.ParseInt(q.Get("signature_expiration"), 10, 64)
		if perr != nil || until < time.Now().Unix() {
			err = errors.New("signature is already expired")
		}
	}
	if err != nil {
		return fault.New(http.StatusUnauthorized, err.Error())
	}
	return nil
}
