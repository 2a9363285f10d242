package network

import (
	"errors"
	"net"
	"net/url"
	"strconv"
)

// upstream returns HOST:PORT of a Policy.Upstream.
func upstream(text string) (string, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" || u.Hostname() == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		return "", errors.New("it must be http://HOST:PORT")
	case u.User != nil:
		return "", errors.New("a password would be in the state directory; use a proxy without one, such as one on this host that adds it")
	}
	port := u.Port()
	if port == "" {
		port = "80"
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", errors.New("the port is not a number from 1 to 65535")
	}
	return net.JoinHostPort(u.Hostname(), port), nil
}
