package envd

import (
	"context"
	"net/http"
	"path"

	"wolffia/internal/filecall"
	"wolffia/ops"
)

// The messages of filesystem.Filesystem.
type (
	pathRequest struct {
		Path  string `json:"path"`
		Depth number `json:"depth"` // of ListDir
	}
	moveRequest struct {
		Source      string `json:"source"`
		Destination string `json:"destination"`
	}
	entryReply struct {
		Entry *entry `json:"entry"`
	}
	entriesReply struct {
		Entries []*entry `json:"entries"`
	}
	entry struct {
		Name        string            `json:"name"`
		Type        string            `json:"type,omitempty"`
		Path        string            `json:"path"`
		Size        int64             `json:"size,string"`
		Mode        uint32            `json:"mode"`
		Permissions string            `json:"permissions"`
		Owner       string            `json:"owner"`
		Group       string            `json:"group"`
		Modified    string            `json:"modifiedTime"`
		Target      *string           `json:"symlinkTarget,omitempty"`
		Metadata    map[string]string `json:"metadata,omitempty"`
	}
)

// metadataPrefix begins the names of the extended attributes that are a file's metadata.
const metadataPrefix = "user.e2b."

// types are the types of files.
var types = map[string]string{"file": "FILE_TYPE_FILE", "directory": "FILE_TYPE_DIRECTORY"}

// entryOf describes a file: of a symbolic link type and mode are those of what it leads to.
func entryOf(i *filecall.Info) *entry {
	e := &entry{
		Name: path.Base(i.Path), Type: types[i.Type], Path: i.Path, Size: i.Size,
		Mode: i.Mode & 0o777, Permissions: i.Text, Owner: i.Owner, Group: i.Group,
		Modified: timestamp(i.Modified), Metadata: i.Attrs,
	}
	if i.Type == "symlink" {
		e.Type, e.Mode, e.Target = types[i.TargetType], i.TargetMode&0o777, &i.Target
	}
	return e
}

// maxDepth is how many levels of directories are listed.
const maxDepth = 1000

// file serves a method about one path: ask makes the request to the sandbox, whose reply describes
// files.
func file[R any](
	h *Handler, method string,
	ask func(q *pathRequest, at string, who *account) *filecall.Request, answer func([]*entry) *R,
) {
	serve := func(ctx context.Context, c *call, q *pathRequest, header http.Header) (*R, error) {
		who, err := c.basicUser(ctx, header)
		if err != nil {
			return nil, err
		}
		at, err := who.path(q.Path)
		if err != nil {
			return nil, err
		}
		entries, err := entriesOf(ctx, c.in.Files(), ask(q, at, who))
		if err != nil {
			return nil, err
		}
		return answer(entries), nil
	}
	unary(h, "/filesystem.Filesystem/"+method, serve)
}

// entriesOf does a request, and returns the descriptions in the reply.
func entriesOf(ctx context.Context, files *ops.Files, q *filecall.Request) ([]*entry, error) {
	q.Full, q.Prefix = true, metadataPrefix
	reply, err := files.Do(ctx, q)
	if err != nil {
		return nil, err
	}
	entries := make([]*entry, 0, len(reply.Infos))
	for n := range reply.Infos {
		entries = append(entries, entryOf(&reply.Infos[n]))
	}
	return entries, nil
}

// first answers with one description.
func first(entries []*entry) *entryReply {
	if len(entries) == 0 { // the sandbox's word
		return &entryReply{}
	}
	return &entryReply{entries[0]}
}

// filesystem serves filesystem.Filesystem.
func (h *Handler) filesystem() {
	file(h, "Stat", func(_ *pathRequest, at string, _ *account) *filecall.Request {
		return &filecall.Request{Op: filecall.OpInfo, Paths: []string{at}}
	}, first)
	file(h, "MakeDir", func(_ *pathRequest, at string, who *account) *filecall.Request {
		return &filecall.Request{Op: filecall.OpNewDir, Path: at, Mode: who.mode}
	}, first)
	file(h, "ListDir", func(q *pathRequest, at string, _ *account) *filecall.Request {
		return &filecall.Request{Op: filecall.OpList, Path: at, Depth: int(min(max(q.Depth, 1), maxDepth))}
	}, func(entries []*entry) *entriesReply { return &entriesReply{entries} })
	file(h, "Remove", func(_ *pathRequest, at string, _ *account) *filecall.Request {
		return &filecall.Request{Op: filecall.OpDelete, Paths: []string{at}}
	}, func([]*entry) *empty { return &empty{} })
	unary(h, "/filesystem.Filesystem/Move", h.move)
	h.watching()
}

// move serves Move, which replaces a file.
func (h *Handler) move(ctx context.Context, c *call, q *moveRequest, header http.Header) (*entryReply, error) {
	who, err := c.basicUser(ctx, header)
	if err != nil {
		return nil, err
	}
	m := filecall.Move{Replace: true}
	if m.From, err = who.path(q.Source); err != nil {
		return nil, err
	}
	if m.To, err = who.path(q.Destination); err != nil {
		return nil, err
	}
	files := c.in.Files()
	if _, err := files.Do(ctx, &filecall.Request{Op: filecall.OpMove, Moves: []filecall.Move{m}}); err != nil {
		return nil, err
	}
	entries, err := entriesOf(ctx, files, &filecall.Request{Op: filecall.OpInfo, Paths: []string{m.To}})
	return first(entries), err
}
