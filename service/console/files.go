package console

import (
	"io"
	"mime"
	"net/http"
	"path"
	"strconv"
	"unicode/utf8"

	"wolffia/internal/filecall"
	"wolffia/internal/jsontext"
	"wolffia/ops"
	"wolffia/ops/stream"
	"wolffia/runtime"
	"wolffia/service"
)

// An entry is a name in a directory of a sandbox, which has chosen all of it.
type entry struct {
	Name       string `json:"name"`
	NameBytes  []byte `json:"nameBytes,omitempty"`
	Type       string `json:"type"` // file, directory, symlink, other
	Size       int64  `json:"size"`
	Mode       uint32 `json:"mode"`
	ModifiedAt int64  `json:"modifiedAt"` // ms since 1970
	Target     string `json:"target,omitempty"`
}

func files(c *call, in *service.Inside) (any, error) {
	limit, err := c.number("limit", 1000, 1, filecall.MaxInfos)
	if err != nil {
		return nil, err
	}
	of := in.Files()
	dir, err := c.path()
	if err == nil && dir == "" {
		dir = in.Sandbox().MountPoint
	}
	if err == nil {
		dir, err = of.Path(dir)
	}
	if err != nil {
		return nil, err
	}
	reply, err := of.Do(c.Context(), &filecall.Request{Op: filecall.OpList, Path: dir, Full: true})
	if err != nil {
		return nil, err
	}
	list := []entry{}
	for _, i := range reply.Infos[:min(len(reply.Infos), int(limit))] {
		name := path.Base(i.Path)
		list = append(list, entry{name, jsontext.Exact(name), i.Type, i.Size, i.Mode, ms(i.Modified), i.Target})
	}
	return map[string]any{"path": dir, "entries": list, "more": len(reply.Infos) > int(limit)}, nil
}

// A content is a part of a file.
type content struct {
	Text   string `json:"text"`
	Bytes  []byte `json:"bytes,omitempty"` // the exact bytes, where Text is not
	Offset int64  `json:"offset"`
	Size   int64  `json:"size"` // of the file
}

func file(c *call, in *service.Inside) (any, error) {
	most, err := c.number("max", 256<<10, 1, 1<<20)
	if err != nil {
		return nil, err
	}
	from, err := c.number("offset", 0, 0, 1<<60)
	if err != nil {
		return nil, err
	}
	name, err := c.path()
	if err != nil {
		return nil, err
	}
	b, at, size, err := in.Files().Range(c.Context(), name, from, most)
	if err != nil {
		return nil, err
	}
	if at+int64(len(b)) < size { // a character that is cut off is for the next part
		if whole := jsontext.WholeRunes(b); whole > 0 {
			b = b[:whole]
		}
	}
	text := string(b)
	return content{text, jsontext.Exact(text), at, size}, nil
}

// download sends a file.
func download(c *call, in *service.Inside) (any, error) {
	of := in.Files()
	name, err := c.path()
	if err == nil {
		name, err = of.FilePath(name)
	}
	if err != nil {
		return nil, err
	}
	part, err := of.Read(c.Context(), name, 0, ops.MaxFile)
	if err != nil {
		return nil, err
	}
	defer part.Close()
	if part.Size > ops.MaxFile {
		return nil, runtime.Errorf(runtime.ErrInvalid, "%q: larger than %d bytes: wolffia cp copies it", name, ops.MaxFile)
	}
	base := path.Base(name)
	if !utf8.ValidString(base) {
		base = "file"
	}
	c.w.Header().Set("Content-Type", "application/octet-stream")
	c.w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": base}))
	c.w.Header().Set("Content-Length", strconv.FormatInt(part.Size, 10))
	if _, err := io.Copy(&stream.Patient{ResponseWriter: c.w, Limit: writeLimit}, part); err != nil {
		panic(http.ErrAbortHandler) // the client sees that it is not complete
	}
	return nil, errAnswered
}
