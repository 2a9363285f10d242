package image

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"wolffia/image/store"
	"wolffia/internal/test/suite"
	"wolffia/runtime"
)

// Plain HTTP is for loopback only, and there for the one registry that was
// asked.
func TestPlainHost(t *testing.T) {
	for registry, want := range map[string]bool{
		"localhost": true, "localhost:5000": true, "127.0.0.1": true, "127.9.9.9:1": true, "[::1]:5000": true,
		"10.0.0.1:5000": false, "192.168.1.1": false, "registry.local": false, "localhost.example": false,
		"127.0.0.1.example": false, "index.docker.io": false, "0.0.0.0:5000": false, "": false,
	} {
		if got := plainHost(registry) != ""; got != want {
			t.Errorf("%s: got %v, want %v", registry, got, want)
		}
	}
	asked := 0
	g := &guarded{plain: "127.0.0.1:5000", next: roundTrip(func(*http.Request) { asked++ })}
	for url, want := range map[string]bool{
		"http://127.0.0.1:5000/v2/": true, "https://anything.example/": true,
		"http://127.0.0.1:6000/": false, "http://localhost:5000/": false, "http://registry.example/": false, "ftp://127.0.0.1:6000/": false,
	} {
		before := asked
		_, err := g.RoundTrip(httptest.NewRequest(http.MethodGet, url, nil))
		if (err == nil) != want || (asked > before) != want || err != nil && runtime.Class(err) != runtime.ErrUnsupported {
			t.Errorf("%s: got err %v; want (err == nil) == %v and (asked > before) == %v and (err == nil or runtime.Class(err) == runtime.ErrUnsupported)",
				url, err, want, want)
		}
	}
}

type roundTrip func(*http.Request)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) {
	f(r)
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// A registry that falls silent in the middle is given up.
func TestSilentRegistry(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() { // ends with the listener
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			_, _ = c.Read(make([]byte, 4096)) // the request; an answer before it is an error
			_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome"))
		}
	}()
	var said []byte
	suite.Timeouts(func(limit time.Duration) (came bool) {
		c := &http.Client{Transport: newTransport(limit, nil)}
		resp, err := c.Get("http://" + l.Addr().String())
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		if said, err = io.ReadAll(resp.Body); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("io.ReadAll: got said %q, err %v; want err is os.ErrDeadlineExceeded", said, err)
		}
		return len(said) > 0
	})
	if string(said) != "some" {
		t.Errorf(`got %q, want "some"`, said)
	}
}

// A pull for a request connects to no address of this host or of a private network, neither one that is
// named, nor one that a name leads to.
func TestPublic(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	asked := false
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked = true
		http.Error(w, "private text", http.StatusTeapot)
	}))
	defer s.Close()
	_, err := Pull(t.Context(), store.Open(t.TempDir()), strings.TrimPrefix(s.URL, "http://")+"/x:1", &Options{Public: true})
	if runtime.Class(err) != runtime.ErrDenied || asked {
		t.Errorf("%v; asked: %v", err, asked)
	}
	req := httptest.NewRequest(http.MethodGet, s.URL, nil)
	for public, want := range map[bool]error{false: nil, true: runtime.ErrDenied} {
		base := newTransports(public)
		defer base.close()
		asked = false
		resp, err := base.direct.RoundTrip(req) // as for a name
		if err == nil {
			resp.Body.Close()
		}
		if runtime.Class(err) != want || asked == public {
			t.Errorf("public: %v: %v; asked: %v", public, err, asked)
		}
	}
}

// Who has named an image in a request gets nothing of what its registry writes but the status.
func TestPublicHidesTheBody(t *testing.T) {
	for public, want := range map[bool]bool{false: true, true: false} {
		for status, class := range map[int]error{401: runtime.ErrDenied, 404: runtime.ErrNotFound, 500: runtime.ErrUnavailable} {
			for _, body := range []string{"private text", `{"errors":[{"code":"X","message":"private text"}]}`} {
				err := transport.CheckError(&http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body))}, http.StatusOK)
				err = (&registry{public: public}).failure(err)
				if runtime.Class(err) != class || strings.Contains(err.Error(), "private text") != want {
					t.Errorf("public: %v, %d: %v", public, status, err)
				}
			}
		}
	}
}
