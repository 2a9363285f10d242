package agent

import (
	"fmt"
	"net/url"

	"wolffia/runtime"
	"wolffia/service"
	"wolffia/service/registry"
)

// A target says in which shell of which sandbox a session works.
type target struct {
	caller  service.Caller
	owner   registry.Owner
	sandbox string // an id or a name: see [service.Service.Named]; empty: the owner's default one
	session string // the name of the shell
}

// targetOf returns the target that the query of a request names. The errors are those of a
// wrong name, and of an owner whose sandboxes the caller may not use.
func targetOf(query url.Values, caller service.Caller) (*target, error) {
	at := &target{caller: caller, owner: caller.Subject(), session: "mcp"}
	for name, values := range query {
		if len(values) != 1 {
			return nil, runtime.Errorf(runtime.ErrInvalid, "query: %.100q is there %d times: name it once", name, len(values))
		}
		value := values[0]
		switch name {
		case "owner":
			o, err := registry.ParseOwner(value)
			if err != nil {
				return nil, err
			}
			at.owner = o
		case "sandbox":
			at.sandbox = value
		case "session":
			at.session = value
		default:
			return nil, runtime.Errorf(runtime.ErrInvalid, "query: unknown name %.100q: the names are owner, sandbox and session", name)
		}
		if value == "" {
			return nil, runtime.Errorf(runtime.ErrInvalid, "query: %s is empty: leave it out", name)
		}
	}
	if !caller.May(at.owner) {
		return nil, runtime.Errorf(runtime.ErrDenied, "the API key is for another owner")
	}
	return at, nil
}

// party is whose sessions are counted together.
func (t *target) party() string {
	return t.owner.OrganizationID + "/" + t.owner.ProjectID + "/" + t.owner.UserID
}

// key tells the sessions of one target from those of another.
func (t *target) key() string {
	return fmt.Sprintf("%v %q %q %q", t.caller.All, t.party(), t.sandbox, t.session)
}
