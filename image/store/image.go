package store

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"

	"wolffia/internal/sys/statefile"
	"wolffia/runtime"
)

// An Image is an image in the store. It never changes.
type Image struct {
	ID     string   `json:"id"`     // "sha256:" and the digest of the configuration
	Layers []string `json:"layers"` // digests, sha256:, the lowest first
	Config Config   `json:"config"` // the settings for a sandbox
	// when it was built, from its configuration: hostile text
	Created string `json:"created,omitempty"`
	Size    int64  `json:"size"`              // bytes in files
	Files   int    `json:"files"`             // names of any kind
	Skipped int    `json:"skipped,omitempty"` // device nodes that were left out

	// Parent is the id of the image that this one's files lie over; "" if its tree is whole.
	// Size, Files and Skipped do not count what the parent has.
	Parent string `json:"parent,omitempty"`
	// Empty says that the image has its parent's files and none of its own.
	Empty bool `json:"empty,omitempty"`
	// Step is the key of the step of a build that made it; "" if there is none.
	Step string `json:"step,omitempty"`
	// System says that it is one of Store.System: no whole image, but a part of the host's system.
	System bool `json:"system,omitempty"`
	// IDs are the subordinate ids that files of it or of a parent belong to; nil if all are
	// the user's own. Only a sandbox of the user with root inside may have such an image.
	IDs *IDs `json:"ids,omitempty"`
}

// IDs are what a user's ids inside sandboxes with root mean on the host: inside 0 is the user,
// and n from 1 to Count is UID+n-1, or GID+n-1 (subuid(5)).
type IDs struct {
	Owner int `json:"owner"` // the user: what uid 0 inside is
	UID   int `json:"uid"`
	GID   int `json:"gid"`
	Count int `json:"count"`
}

// Inside returns what a user and a group of the host are inside; 0, which is root, for
// the owner's own, and for all others. With nil they are the same.
func (ids *IDs) Inside(uid, gid uint32) (int, int) {
	if ids == nil {
		return int(uid), int(gid)
	}
	in := func(id uint32, sub int) int {
		if n := int(id) - sub + 1; n >= 1 && n <= ids.Count {
			return n
		}
		return 0
	}
	return in(uid, ids.UID), in(gid, ids.GID)
}

// A Config is the part of an image's configuration that is used or shown (OCI image
// specification, config.md). All of it is hostile text.
type Config struct {
	User       string   `json:"User,omitempty"` // for a sandbox with root inside
	Env        []string `json:"Env,omitempty"`
	Entrypoint []string `json:"Entrypoint,omitempty"`
	Cmd        []string `json:"Cmd,omitempty"`
	WorkingDir string   `json:"WorkingDir,omitempty"`
}

// Command returns the command that the image runs by default, or nil.
func (c *Config) Command() []string {
	return slices.Concat(c.Entrypoint, c.Cmd)
}

// A description is an image's configuration file.
type description struct {
	Created      string `json:"created"`
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
	Config       Config `json:"config"`
	RootFS       struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
}

// describe parses an image's configuration file. The error is of class ErrInvalid or
// ErrUnsupported.
func describe(config []byte, lim Limits) (*description, error) {
	d := new(description)
	if err := json.Unmarshal(config, d); err != nil {
		return nil, runtime.Errorf(runtime.ErrInvalid, "configuration is damaged: %w", err)
	}
	if d.OS != "" && d.OS != "linux" || d.Architecture != "" && d.Architecture != goruntime.GOARCH {
		return nil, runtime.Errorf(runtime.ErrUnsupported, "the image is for %.40q on %.40q, not for linux on %s", d.OS, d.Architecture, goruntime.GOARCH)
	}
	if n := len(d.RootFS.DiffIDs); n == 0 || n > lim.Layers {
		return nil, runtime.Errorf(runtime.ErrInvalid, "the image has %d layers: 1 to %d are allowed", n, lim.Layers)
	}
	for _, id := range d.RootFS.DiffIDs {
		if !IsID(id) {
			return nil, runtime.Errorf(runtime.ErrUnsupported, "a layer has the digest %.100q: only sha256 is supported", id)
		}
	}
	size := len(d.Config.User) + len(d.Config.WorkingDir) + len(d.Created)
	for _, s := range slices.Concat(d.Config.Env, d.Config.Entrypoint, d.Config.Cmd) {
		size += len(s) + 16 // what the kernel needs for each, and more
	}
	if size > maxText {
		return nil, runtime.Errorf(runtime.ErrInvalid, "environment and command have %d bytes: at most %d are allowed", size, maxText)
	}
	return d, nil
}

// maxText bounds the bytes of an image's configuration that every process gets. The kernel
// allows two megabytes for environment and arguments together (execve(2)).
const maxText = 256 << 10

const algorithm = "sha256:"

// IDOf returns the id of the image with this configuration file.
func IDOf(config []byte) string {
	sum := sha256.Sum256(config)
	return algorithm + hex.EncodeToString(sum[:])
}

// IsID reports whether s has the form of an image's id: "sha256:" and 64 lower-case
// hexadecimal digits.
func IsID(s string) bool {
	h, ok := strings.CutPrefix(s, algorithm)
	return ok && len(h) == 64 && strings.Trim(h, "0123456789abcdef") == ""
}

func hexOf(id string) string { return strings.TrimPrefix(id, algorithm) }

// shortest is the number of digits in a short id.
const shortest = 12

// Short returns the short form of an id, for people: the first twelve digits.
func Short(id string) string {
	h := hexOf(id)
	return h[:min(len(h), shortest)]
}

func missing(what string) error {
	return runtime.Errorf(runtime.ErrNotFound, "no image %q in the store: wolffia image pull gets it, wolffia image ls lists all images", what)
}

// Get returns the image with this id. ErrNotFound: it is not in the store.
// ErrUnavailable: it is damaged.
func (s *Store) Get(id string) (*Image, error) {
	if !IsID(id) {
		return nil, missing(id)
	}
	img := new(Image)
	err := statefile.Read(filepath.Join(s.path, hexOf(id), imageFile), img)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, missing(id)
	case err == nil && img.ID != id:
		err = fmt.Errorf("its id is %q", img.ID)
	}
	if err != nil {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "image %s is damaged: %w; remove it with wolffia image rm %s", Short(id), err, Short(id))
	}
	return img, nil
}

// A Name records which image a name means.
type Name struct {
	ID string `json:"id"`
	// Digest is the digest of the manifest that the name meant; "" if there was none.
	Digest   string `json:"digest,omitempty"`
	PulledAt int64  `json:"pulledAt"` // ms since 1970
}

// names reads names.json. The keys are canonical names.
func (s *Store) names() (map[string]Name, error) {
	all := map[string]Name{}
	err := statefile.Read(filepath.Join(s.path, namesFile), &all)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, runtime.Errorf(runtime.ErrUnavailable, "image store: %s: %w; delete that file: the images stay, and their names come back when they are pulled", filepath.Join(s.path, namesFile), err)
	}
	return all, nil
}

// namesOf returns those of names that mean the image with this id.
func namesOf(id string, names map[string]Name) map[string]Name {
	its := map[string]Name{}
	for name, n := range names {
		if n.ID == id {
			its[name] = n
		}
	}
	return its
}
