package network

import (
	"fmt"
	"net/textproto"
	"slices"

	"golang.org/x/net/http/httpguts"
)

// framing are headers that belong to one connection or to the form of a message: a value from
// elsewhere would change where a request ends or where it is sent.
var framing = []string{
	"Connection", "Content-Length", "Expect", "Host", "Keep-Alive", "Proxy-Authenticate",
	"Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// headerName returns the canonical form of the name of a header that may be added to requests.
func headerName(name string) (string, error) {
	key := textproto.CanonicalMIMEHeaderKey(name)
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		return "", fmt.Errorf("is not the name of a header; use one such as Authorization")
	case slices.Contains(framing, key):
		return "", fmt.Errorf("belongs to the connection and cannot be added; use a header such as Authorization")
	}
	return key, nil
}
