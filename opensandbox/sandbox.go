package opensandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// SandboxOpts describe a new sandbox.
type SandboxOpts struct {
	Image          string            // such as python:3.12; of wolffia also "host", the host's system
	Entrypoint     []string          // nil: a program that only waits
	Env            map[string]string // of all processes
	Metadata       map[string]string // labels
	Timeout        int               // in seconds, at least 60; 0: it exists until it is deleted
	ResourceLimits map[string]string // such as {"cpu": "500m", "memory": "256Mi"}
	NetworkPolicy  *NetworkPolicy    // nil: the server's default
}

// A NetworkPolicy says what a sandbox may connect to.
type NetworkPolicy struct {
	DefaultAction string       `json:"defaultAction"` // allow or deny
	Egress        []EgressRule `json:"egress,omitempty"`
}

// An EgressRule allows or denies one target.
type EgressRule struct {
	Action string `json:"action"` // allow or deny
	Target string `json:"target"` // a domain name, or *.DOMAIN
}

// A SandboxResponse describes a sandbox at one moment.
type SandboxResponse struct {
	ID        string
	State     string    // Pending, Running, Pausing, Paused, Resuming, Stopping, Terminated or Failed
	ExpiresAt time.Time // zero: never
	CreatedAt time.Time
	Metadata  map[string]string
	Reason    string // why it is in this state, for programs; may be empty
	Message   string // the same for people
}

// UnmarshalJSON implements [json.Unmarshaler]. It also takes names in snake case and a state
// outside of status.
func (s *SandboxResponse) UnmarshalJSON(text []byte) error {
	var w struct {
		ID     string `json:"id"`
		Status struct {
			State   string `json:"state"`
			Reason  string `json:"reason"`
			Message string `json:"message"`
		} `json:"status"`
		State     string            `json:"state"`
		ExpiresAt *time.Time        `json:"expiresAt"`
		CreatedAt *time.Time        `json:"createdAt"`
		Expires   *time.Time        `json:"expires_at"`
		Created   *time.Time        `json:"created_at"`
		Metadata  map[string]string `json:"metadata"`
	}
	if err := json.Unmarshal(text, &w); err != nil {
		return err
	}
	*s = SandboxResponse{ID: w.ID, State: w.Status.State, Metadata: w.Metadata, Reason: w.Status.Reason, Message: w.Status.Message}
	if s.State == "" {
		s.State = w.State
	}
	for _, t := range []struct {
		to   *time.Time
		from []*time.Time
	}{{&s.ExpiresAt, []*time.Time{w.Expires, w.ExpiresAt}}, {&s.CreatedAt, []*time.Time{w.Created, w.CreatedAt}}} {
		for _, from := range t.from {
			if from != nil {
				*t.to = *from
			}
		}
	}
	return nil
}

// CreateSandbox creates a sandbox. It may not run yet: see WaitReady. The caller deletes it.
func (c *Client) CreateSandbox(ctx context.Context, opts SandboxOpts) (*SandboxResponse, error) {
	body := map[string]any{
		"image": map[string]string{"uri": opts.Image}, "entrypoint": opts.Entrypoint,
		"env": orEmpty(opts.Env), "metadata": orEmpty(opts.Metadata), "resourceLimits": orEmpty(opts.ResourceLimits),
	}
	if len(opts.Entrypoint) == 0 {
		body["entrypoint"] = []string{"tail", "-f", "/dev/null"}
	}
	if opts.Timeout != 0 {
		body["timeout"] = opts.Timeout
	}
	if opts.NetworkPolicy != nil {
		body["networkPolicy"] = opts.NetworkPolicy
	}
	var s SandboxResponse
	err := c.lifecycle(ctx, http.MethodPost, "/sandboxes", nil, body, &s, http.StatusAccepted, http.StatusOK, http.StatusCreated)
	if err == nil && s.ID == "" {
		err = errors.New("the reply has no id of a sandbox")
	}
	if err != nil {
		return nil, err
	}
	return &s, nil
}

// orEmpty returns a map that is not nil.
func orEmpty(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

// GetSandbox returns a sandbox.
func (c *Client) GetSandbox(ctx context.Context, id string) (*SandboxResponse, error) {
	var s SandboxResponse
	if err := c.lifecycle(ctx, http.MethodGet, "/sandboxes/"+url.PathEscape(id), nil, nil, &s, http.StatusOK); err != nil {
		return nil, err
	}
	return &s, nil
}

// maxPages bounds a list, in pages of 200.
const maxPages = 1000

// ListSandboxes returns the sandboxes that have all of the metadata; nil means all. Neither
// & nor = can be in a value: the API cannot express it.
func (c *Client) ListSandboxes(ctx context.Context, metadata map[string]string) ([]SandboxResponse, error) {
	pairs := ""
	for _, k := range slices.Sorted(maps.Keys(metadata)) {
		if pairs != "" {
			pairs += "&"
		}
		pairs += k + "=" + metadata[k]
	}
	var all []SandboxResponse
	for page := 1; page <= maxPages; page++ {
		q := url.Values{"page": {strconv.Itoa(page)}, "pageSize": {"200"}}
		if pairs != "" {
			q.Set("metadata", pairs)
		}
		var text json.RawMessage
		if err := c.lifecycle(ctx, http.MethodGet, "/sandboxes", q, nil, &text, http.StatusOK); err != nil {
			return nil, err
		}
		var list struct {
			Items      []SandboxResponse `json:"items"`
			Pagination struct {
				HasNextPage bool `json:"hasNextPage"`
			} `json:"pagination"`
		}
		if len(text) > 0 && text[0] == '[' {
			err := json.Unmarshal(text, &all)
			return all, err
		}
		if err := json.Unmarshal(text, &list); err != nil {
			return nil, fmt.Errorf("the reply is not what the API says: %w", err)
		}
		all = append(all, list.Items...)
		if !list.Pagination.HasNextPage {
			return all, nil
		}
	}
	return nil, fmt.Errorf("the list has more than %d pages", maxPages)
}

// DeleteSandbox deletes a sandbox.
func (c *Client) DeleteSandbox(ctx context.Context, id string) error {
	return c.lifecycle(ctx, http.MethodDelete, "/sandboxes/"+url.PathEscape(id), nil, nil, nil, http.StatusNoContent, http.StatusOK, http.StatusAccepted)
}

// The pauses of WaitReady between two requests: the API reports no changes of its own accord.
const (
	firstPause = 250 * time.Millisecond
	lastPause  = 2 * time.Second
)

// WaitReady returns a sandbox once it is Running. A Failed or Terminated one is an error. It
// ends with ctx.
func (c *Client) WaitReady(ctx context.Context, id string) (*SandboxResponse, error) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		s, err := c.GetSandbox(ctx, id)
		if err != nil {
			return nil, err
		}
		switch s.State {
		case "Running":
			return s, nil
		case "Failed", "Terminated":
			return nil, fmt.Errorf("sandbox %s is %s: %s", id, s.State, s.Message)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
	}
}

// An Endpoint is where a port of a sandbox can be reached.
type Endpoint struct {
	Host    string
	Port    int
	URL     string            // scheme, host, port and path
	Headers map[string]string // that requests to it must have
}

// GetEndpoint returns where a port of a running sandbox can be reached. The client sends the
// endpoint's headers with its own requests to it.
func (c *Client) GetEndpoint(ctx context.Context, sandboxID string, port int) (*Endpoint, error) {
	var w struct {
		Endpoint string            `json:"endpoint"` // without a scheme
		Headers  map[string]string `json:"headers"`
	}
	path := "/sandboxes/" + url.PathEscape(sandboxID) + "/endpoints/" + strconv.Itoa(port)
	if err := c.lifecycle(ctx, http.MethodGet, path, nil, nil, &w, http.StatusOK); err != nil {
		return nil, err
	}
	u, err := url.Parse(c.base.Scheme + "://" + w.Endpoint)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("endpoint %q: it must be HOST:PORT", w.Endpoint)
	}
	e := &Endpoint{Host: u.Hostname(), URL: u.String(), Headers: w.Headers}
	if e.Port, err = strconv.Atoi(portOf(u)); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.headers[e.URL] = w.Headers
	return e, nil
}

// portOf returns the port of a URL.
func portOf(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	return map[string]string{"http": "80", "https": "443"}[u.Scheme]
}

// DiscoverExecD returns the URL of a sandbox's execd, for the methods that take one, and the
// headers that requests to it must have.
func (c *Client) DiscoverExecD(ctx context.Context, sandboxID string) (string, map[string]string, error) {
	e, err := c.GetEndpoint(ctx, sandboxID, ExecDPort)
	if err != nil {
		return "", nil, err
	}
	return e.URL, e.Headers, nil
}
