package e2b

import (
	"errors"
	"fmt"
	"net/http"

	"wolffia/runtime"
	"wolffia/service"
	"wolffia/service/e2b/envd"
	"wolffia/service/e2b/fault"
	"wolffia/service/e2b/interpreter"
	"wolffia/service/port"
)

// The purposes of tokens.
const (
	envdToken    = "e2b envd"    // X-Access-Token; it signs URLs
	trafficToken = "e2b traffic" // trafficHeader
)

const trafficHeader = "E2b-Traffic-Access-Token"

// everyone may use all sandboxes: a token, and not a key, says which one a request is for.
var everyone = service.Caller{All: true}

// traffic serves a request to a port of a sandbox.
func (h *Handler) traffic(w http.ResponseWriter, r *http.Request, to route) error {
	b, err := h.service.Get(r.Context(), everyone, to.id)
	if errors.Is(err, runtime.ErrNotFound) {
		envd.NotRunning(w, to.id)
		return nil
	}
	if err != nil {
		return err
	}
	may := h.mayEnter(r, b, to.port)
	switch {
	case may: // else it does not count for the sandbox's key
		if err := h.service.AdmitRequest(b.Caller()); err != nil {
			return err
		}
	case to.port != envdPort: // which refuses itself what needs its token
		return fault.New(http.StatusForbidden, trafficHeader+": the request needs the sandbox's trafficAccessToken")
	}
	if stateOf(b) == paused {
		if !may || !noteOf(b).AutoResume {
			envd.NotRunning(w, to.id)
			return nil
		}
		if b, err = h.awake(r, b.Caller(), b, defaultTimeout); err != nil {
			return err
		}
	}
	switch to.port {
	case 0:
		return fault.Invalid("%s: it must be a number from 1 to 65535", portHeader)
	case envdPort:
		h.envd.ServeSandbox(w, r, h.boxOf(b))
		return nil
	case codePort:
		in, err := h.service.Inside(r.Context(), b.Caller(), b.ID)
		if err == nil {
			h.code.ServeSandbox(w, r, &interpreter.Box{Inside: in})
		}
		return err
	}
	return h.port(w, r, b.Caller(), to)
}

// mayEnter reports whether a request may use a port of a sandbox. Those for other ports than envd's
// need a token if anybody can send requests, or the sandbox was created so.
func (h *Handler) mayEnter(r *http.Request, b *service.Sandbox, port int) bool {
	if port == envdPort {
		return h.boxOf(b).Admits(r)
	}
	if !h.keyed && !noteOf(b).Private {
		return true
	}
	return h.service.IsToken(r.Header.Get(trafficHeader), trafficToken, b.ID) ||
		port == codePort && h.service.IsToken(r.Header.Get("X-Access-Token"), envdToken, b.ID)
}

// boxOf returns a sandbox as envd needs it.
func (h *Handler) boxOf(b *service.Sandbox) *envd.Box {
	return &envd.Box{
		Caller: b.Caller(), ID: b.ID, SandboxID: b.ID, TemplateID: templateOf(b), Token: h.service.Token(envdToken, b.ID),
	}
}

// A deadPort is the reply to a request that no server inside answers.
type deadPort struct {
	ID      string `json:"sandboxId"`
	Message string `json:"message"`
	Port    int    `json:"port"`
	Code    int    `json:"code"`
}

// port passes a request on to a server inside.
func (h *Handler) port(w http.ResponseWriter, r *http.Request, caller service.Caller, to route) error {
	in, err := h.service.Inside(r.Context(), caller, to.id)
	if err != nil {
		return err
	}
	for _, name := range []string{idHeader, portHeader, "X-Access-Token", trafficHeader} {
		r.Header.Del(name)
	}
	return port.Serve(w, r, &port.Request{
		Inside: in, Port: to.port, BodyLimit: h.opts.BodyLimit, WriteLimit: h.opts.WriteLimit,
		Fail: func(w http.ResponseWriter, _ *http.Request, err error) {
			h.reply(w, http.StatusBadGateway, deadPort{to.id, err.Error(), to.port, http.StatusBadGateway})
		},
	})
}

// The bounds of requests by a URL that names no sandbox: their cost comes before a check. Tests
// change maxTried.
var (
	maxTried = 1000              // sandboxes, of those that run the newest
	scanning = make(chan int, 1) // has a value while one such request looks
)

// signed serves a request for a file by a URL that names no sandbox: it is for the one whose token
// has signed it.
func (h *Handler) signed(w http.ResponseWriter, r *http.Request) error {
	id, err := h.signer(r)
	if err != nil {
		return err
	}
	return h.traffic(w, r, route{traffic, id, envdPort})
}

// signer returns the id of the sandbox that has signed the URL of a request.
func (h *Handler) signer(r *http.Request) (string, error) {
	select {
	case scanning <- 0:
		defer func() { <-scanning }()
	case <-r.Context().Done():
		return "", r.Context().Err()
	}
	all, err := h.service.List(r.Context(), everyone)
	if err != nil {
		return "", err
	}
	tried := 0
	for _, b := range all {
		if stateOf(b) == paused && !noteOf(b).AutoResume {
			continue
		}
		if tried++; tried > maxTried {
			break
		}
		if envd.Signs(h.service.Token(envdToken, b.ID), r) {
			return b.ID, nil
		}
	}
	const why = "signature: no sandbox that runs has signed this URL; of more than %d only the newest are tried: " +
		"send the header %s, or ask the host %d-ID.DOMAIN"
	return "", fault.New(http.StatusUnauthorized, fmt.Sprintf(why, maxTried, idHeader, envdPort))
}
