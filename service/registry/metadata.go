package registry

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"wolffia/runtime"
)

// An Owner identifies the user that a sandbox belongs to. All three parts are
// required: UTF-8 of up to MaxPart bytes without control characters.
type Owner struct {
	OrganizationID string `json:"organizationId"`
	ProjectID      string `json:"projectId"`
	UserID         string `json:"userId"`
}

// Named returns the owner itself, also of what embeds it.
func (o Owner) Named() Owner { return o }

// MaxPart is the largest size of each part of an owner, in bytes.
const MaxPart = 256

// Metadata is the registry's record of a sandbox. All fields but GitConfigured are
// required.
type Metadata struct {
	SandboxID     string `json:"sandboxId"`
	ContainerName string `json:"containerName"` // the sandbox's name, else its id
	Owner
	CreatedAt     int64 `json:"createdAt"` // ms since 1970
	GitConfigured bool  `json:"gitConfigured"`
}

// ParseOwner parses ORG/PROJECT/USER. The error is of class [runtime.ErrInvalid].
func ParseOwner(s string) (Owner, error) {
	parts := strings.Split(s, "/")
	if len(parts) != 3 {
		return Owner{}, runtime.Errorf(runtime.ErrInvalid, "owner %q: an owner is ORG/PROJECT/USER", s)
	}
	o := Owner{parts[0], parts[1], parts[2]}
	return o, o.Validate()
}

// Compare orders owners by organization, project and user.
func Compare(a, b Owner) int {
	return cmp.Or(cmp.Compare(a.OrganizationID, b.OrganizationID), cmp.Compare(a.ProjectID, b.ProjectID), cmp.Compare(a.UserID, b.UserID))
}

// Validate returns an error of class [runtime.ErrInvalid] unless all three parts are
// valid.
func (o Owner) Validate() error {
	return invalid(errors.Join(
		part("organization id", o.OrganizationID), part("project id", o.ProjectID), part("user id", o.UserID)))
}

// Validate returns an error of class [runtime.ErrInvalid] unless all required fields
// are valid.
func (m *Metadata) Validate() error {
	errs := []error{part("sandbox id", m.SandboxID), part("container name", m.ContainerName), m.Owner.Validate()}
	if m.CreatedAt < 0 {
		errs = append(errs, fmt.Errorf("creation time %d: negative; the unit is ms since 1970", m.CreatedAt))
	}
	return invalid(errors.Join(errs...))
}

func part(what, s string) error {
	switch {
	case s == "":
		return fmt.Errorf("%s: empty", what)
	case len(s) > MaxPart:
		return fmt.Errorf("%s: %d bytes; the limit is %d", what, len(s), MaxPart)
	case !utf8.ValidString(s):
		return fmt.Errorf("%s %q: not UTF-8", what, s)
	case strings.ContainsFunc(s, unicode.IsControl):
		return fmt.Errorf("%s %q: control characters are not allowed", what, s)
	}
	return nil
}

func invalid(err error) error {
	if err == nil {
		return nil
	}
	return runtime.WithClass(runtime.ErrInvalid, err)
}
