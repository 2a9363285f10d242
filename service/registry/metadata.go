package registry

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"wolffia/runtime"
)

// An Owner is whom a sandbox belongs to. All three parts are required: text of
// up to MaxPart bytes without control characters.
type Owner struct {
	OrganizationID string `json:"organizationId"`
	ProjectID      string `json:"projectId"`
	UserID         string `json:"userId"`
}

// MaxPart bounds each part of an owner, in bytes.
const MaxPart = 256

// Metadata is what the registry knows of a sandbox. All but GitConfigured is
// required.
type Metadata struct {
	SandboxID     string `json:"sandboxId"`
	ContainerName string `json:"containerName"` // the sandbox's name, else its id
	Owner
	CreatedAt     int64 `json:"createdAt"` // ms since 1970
	GitConfigured bool  `json:"gitConfigured"`
}

// ParseOwner reads ORG/PROJECT/USER. The error is of class
// [runtime.ErrInvalid].
func ParseOwner(s string) (Owner, error) {
	parts := strings.Split(s, "/")
	if len(parts) != 3 {
		return Owner{}, runtime.Errorf(runtime.ErrInvalid, "owner %q: it must be ORG/PROJECT/USER", s)
	}
	o := Owner{parts[0], parts[1], parts[2]}
	return o, o.Validate()
}

// Validate checks that all three parts are there. The error is of class
// [runtime.ErrInvalid].
func (o Owner) Validate() error {
	return invalid(errors.Join(
		part("organization id", o.OrganizationID), part("project id", o.ProjectID), part("user id", o.UserID)))
}

// Validate checks that nothing is missing. The error is of class
// [runtime.ErrInvalid].
func (m *Metadata) Validate() error {
	errs := []error{part("sandbox id", m.SandboxID), part("container name", m.ContainerName), m.Owner.Validate()}
	if m.CreatedAt < 0 {
		errs = append(errs, fmt.Errorf("creation time %d: it must be ms since 1970", m.CreatedAt))
	}
	return invalid(errors.Join(errs...))
}

func part(what, s string) error {
	switch {
	case s == "":
		return fmt.Errorf("%s: it is empty", what)
	case len(s) > MaxPart:
		return fmt.Errorf("%s: it has %d bytes, %d is the most", what, len(s), MaxPart)
	case !utf8.ValidString(s):
		return fmt.Errorf("%s %q: it must be UTF-8", what, s)
	case strings.ContainsFunc(s, unicode.IsControl):
		return fmt.Errorf("%s %q: it must have no control characters", what, s)
	}
	return nil
}

func invalid(err error) error {
	if err == nil {
		return nil
	}
	return runtime.WithClass(runtime.ErrInvalid, err)
}

// key is the owner's key in the file: see the package comment.
func (o Owner) key() []byte {
	var key []byte
	for _, s := range []string{o.OrganizationID, o.ProjectID, o.UserID} {
		key = binary.AppendUvarint(key, uint64(len(s)))
		key = append(key, s...)
	}
	return key
}

// decode reads a record. ok is false unless it is whole, valid, and its own
// key's.
func decode(id, record []byte) (m Metadata, ok bool) {
	if record == nil || json.Unmarshal(record, &m) != nil || m.Validate() != nil || m.SandboxID != string(id) {
		return Metadata{}, false
	}
	return m, true
}
