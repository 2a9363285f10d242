// Package opensandbox is a client of the HTTP APIs of OpenSandbox.
//
// The lifecycle API creates sandboxes; execd runs commands and moves files in one. The client
// talks to wolffia serve, and to OpenSandbox itself.
//
//	c := opensandbox.New("http://127.0.0.1:8080/v1", "", nil)
//	sb, err := c.CreateSandbox(ctx, opensandbox.SandboxOpts{Image: "host", Timeout: 600})
//	sb, err = c.WaitReady(ctx, sb.ID)
//	execd, _, err := c.DiscoverExecD(ctx, sb.ID)
//	r, err := c.RunCommand(ctx, execd, "make test", "/workspace", 0)
//	err = c.DeleteSandbox(ctx, sb.ID)
package opensandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// ExecDPort is the port of execd in the endpoints of a sandbox.
const ExecDPort = 44772

// A Client is safe for concurrent use. It holds nothing that must be closed. Its methods
// return an [*APIError] for an error that the server reports.
type Client struct {
	base   *url.URL
	err    error // of base
	apiKey string
	http   http.Client

	mu      sync.Mutex
	headers map[string]map[string]string // of endpoints, by URL; guarded by mu
}

// New returns a client of the lifecycle API at lifecycleURL, such as
// http://127.0.0.1:8080/v1; the methods return an error if that is not a URL. An empty
// apiKey sends none. The key is also sent to execd where execd has the same host and port.
// A nil httpClient is the default of package http; its Timeout would also limit commands. No
// redirect is followed.
func New(lifecycleURL, apiKey string, httpClient *http.Client) *Client {
	c := &Client{apiKey: apiKey, headers: map[string]map[string]string{}}
	if httpClient != nil {
		c.http = *httpClient
	}
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // it would get the key
	c.base, c.err = url.Parse(strings.TrimSuffix(lifecycleURL, "/"))
	if c.err == nil && (c.base.Scheme != "http" && c.base.Scheme != "https" || c.base.Host == "") {
		c.err = fmt.Errorf("lifecycle URL %q: it must begin with http:// or https:// and a host", lifecycleURL)
	}
	return c
}

// An APIError is an error that a server reports.
type APIError struct {
	Status    int    // of HTTP
	Code      string // for programs; empty if the server sends none
	Message   string
	RequestID string // of the server's log; empty if the server sends none
}

func (e *APIError) Error() string {
	if e.Code == "" {
		return fmt.Sprintf("status %d: %s", e.Status, e.Message)
	}
	return fmt.Sprintf("%s (%s, status %d)", e.Message, e.Code, e.Status)
}

// maxReply is the largest reply that is decoded as a whole, in bytes.
const maxReply = 32 << 20

// do sends a request and returns the reply, whose status is one of the wanted ones. The
// caller closes its body.
func (c *Client) do(req *http.Request, wanted ...int) (*http.Response, error) {
	res, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if slices.Contains(wanted, res.StatusCode) {
		return res, nil
	}
	defer res.Body.Close()
	return nil, apiError(res)
}

// apiError returns the error that a reply reports.
func apiError(res *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	if err != nil {
		return err
	}
	var body struct {
		Code    string          `json:"code"`
		Message string          `json:"message"`
		Error   json.RawMessage `json:"error"`  // execd, of a wrong token
		Detail  json.RawMessage `json:"detail"` // the server's framework
	}
	e := &APIError{Status: res.StatusCode, RequestID: res.Header.Get("X-Request-Id")}
	_ = json.Unmarshal(text, &body) // other replies are shown as they are
	e.Code, e.Message = body.Code, body.Message
	for _, other := range []string{string(body.Error), string(body.Detail), string(bytes.TrimSpace(text)), res.Status} {
		if e.Message == "" {
			e.Message = other
		}
	}
	return e
}

// lifecycle sends a request to the lifecycle API, and decodes the reply into to, unless that
// is nil.
func (c *Client) lifecycle(ctx context.Context, method, path string, query url.Values, body, to any, wanted ...int) error {
	if c.err != nil {
		return c.err
	}
	target := c.base.String() + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	req, err := request(ctx, method, target, body)
	if err != nil {
		return err
	}
	if c.apiKey != "" {
		req.Header.Set("OPEN-SANDBOX-API-KEY", c.apiKey)
	}
	res, err := c.do(req, wanted...)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	return decode(res, to)
}

// request returns a request with a body of JSON, unless body is nil.
func request(ctx context.Context, method, target string, body any) (*http.Request, error) {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, target, content)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, nil
}

// decode decodes a reply into to, unless that is nil.
func decode(res *http.Response, to any) error {
	text, err := io.ReadAll(io.LimitReader(res.Body, maxReply+1))
	switch {
	case err != nil:
		return err
	case len(text) > maxReply:
		return fmt.Errorf("the reply is larger than %d bytes", maxReply)
	case to == nil:
		return nil
	}
	if err := json.Unmarshal(text, to); err != nil {
		return fmt.Errorf("the reply is not what the API says: %w", err)
	}
	return nil
}
