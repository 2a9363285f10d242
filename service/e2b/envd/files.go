package envd

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"

	"wolffia/internal/filecall"
	"wolffia/internal/fileclient"
	"wolffia/ops/stream"
	"wolffia/runtime"
	"wolffia/service/e2b/fault"
	"wolffia/service/gate"
)

// files returns the query and account of a request to /files.
func (h *Handler) files(r *http.Request) (c *call, q url.Values, who *account, err error) {
	c = callOf(r.Context())
	if q, err = gate.Query(r); err != nil {
		return nil, nil, nil, err
	}
	who, err = c.account(r.Context(), q.Get("username"))
	return c, q, who, err
}

// download serves GET /files. The content is not compressed unless the client takes no other: on
// one machine that costs more than it saves.
func (h *Handler) download(w http.ResponseWriter, r *http.Request) error {
	c, q, who, err := h.files(r)
	if err != nil {
		return err
	}
	at, err := who.path(q.Get("path"))
	if err != nil {
		return err
	}
	plain, zipped := encodings(r.Header.Get("Accept-Encoding"))
	asked := stream.RangeOf(r.Header.Get("Range"))
	if !plain && (!zipped || r.Header.Get("Range") != "") {
		return fault.New(http.StatusNotAcceptable, "Accept-Encoding: the reply is plain or, without a range, gzip")
	}
	part, err := c.in.Files().Read(r.Context(), at, asked.From, asked.Most)
	if err != nil {
		return err
	}
	defer part.Close()
	w.Header().Set("Vary", "Accept-Encoding")
	modified := part.Modified.UTC().Format(http.TimeFormat)
	w.Header().Set("Last-Modified", modified)
	if r.Header.Get("If-Modified-Since") == modified {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	if !plain {
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Encoding", "gzip")
		to, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
		if err != nil {
			return err
		}
		send(to, part)
		return to.Close()
	}
	if err := stream.BeginFile(w, path.Base(at), asked, part.Start, part.Bytes, part.Size); err != nil {
		return fault.New(http.StatusRequestedRangeNotSatisfiable, err.Error())
	}
	send(w, part)
	return nil
}

// send sends a part of a file. If it ends early, the connection is broken, so that the client does
// not take what it has for all of it.
func send(to io.Writer, part *fileclient.Part) {
	n, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{part}, make([]byte, 256<<10))
	if err != nil || n < part.Bytes {
		panic(http.ErrAbortHandler)
	}
}

// encodings returns whether a client takes a plain content, and one with gzip (RFC 9110, section
// 12.5.3).
func encodings(header string) (plain, zipped bool) {
	plain = true
	named := false // identity is
	for part := range strings.SplitSeq(header, ",") {
		name, params, _ := strings.Cut(strings.ToLower(part), ";")
		refused := false
		if value, is := strings.CutPrefix(strings.TrimSpace(params), "q="); is {
			weight, err := strconv.ParseFloat(value, 64)
			refused = err != nil || weight == 0
		}
		switch strings.TrimSpace(name) {
		case "gzip":
			zipped = !refused
		case "identity":
			plain, named = !refused, true
		case "*":
			if !named {
				plain = !refused
			}
			zipped = zipped || !refused
		}
	}
	return plain, zipped
}

// A written file is one of the reply to an upload.
type written struct {
	Name     string            `json:"name"`
	Path     string            `json:"path"`
	Type     string            `json:"type"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

// upload serves POST /files: one file as the body, or several as parts of it.
func (h *Handler) upload(w http.ResponseWriter, r *http.Request) error {
	c, q, who, err := h.files(r)
	if err != nil {
		return err
	}
	metadata, err := metadataOf(r.Header)
	if err != nil {
		return err
	}
	switch encoding := strings.ToLower(r.Header.Get("Content-Encoding")); encoding {
	case "", "identity":
	case "gzip":
		zipped, err := gzip.NewReader(r.Body)
		if err != nil {
			return fault.Invalid("the request's body is not gzip")
		}
		r.Body = zipped
	default:
		return fault.Invalid("Content-Encoding %.40q: it can be gzip", encoding)
	}
	all, seen := []written{}, map[string]bool{}
	store := func(name string, content io.Reader) error {
		at, err := who.path(name)
		if err != nil {
			return err
		}
		if seen[at] {
			return fault.Invalid("%s: the request has several such files: only the first one was written", at)
		}
		seen[at] = true
		ask := &filecall.Request{
			Op: filecall.OpStore, Path: at, Mode: who.mode, Prefix: metadataPrefix, Attrs: metadata,
		}
		info, err := c.in.Files().Store(r.Context(), ask, content)
		if err != nil {
			return uploadError(err)
		}
		all = append(all, written{path.Base(at), at, "file", info.Attrs})
		return nil
	}
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case strings.HasPrefix(media, "multipart/"):
		err = parts(r, q, store)
	case media != "application/octet-stream":
		err = fault.Invalid("Content-Type %.100q: it must be multipart/form-data or application/octet-stream", media)
	case !q.Has("path"):
		err = fault.Invalid("path: the query has none, which a body of one file needs")
	default:
		err = store(q.Get("path"), r.Body)
	}
	if err != nil {
		return err
	}
	h.opts.JSON(w, http.StatusOK, all)
	return nil
}

// uploadError returns the error for a body that cannot be read to its end.
func uploadError(err error) error {
	if bad := new(fileclient.BadContent); errors.As(err, &bad) && runtime.Class(err) == nil {
		if f, known := fault.Of(bad); known {
			return f
		}
		return fault.Invalid("the request's body cannot be read to its end")
	}
	return err
}

// maxParts is how many parts a request has at most: each file is a request to the sandbox.
const maxParts = 10_000

// parts stores the files of a body of several parts. The name of a file is a path, which
// [multipart.Part.FileName] cuts.
func parts(r *http.Request, q url.Values, store func(name string, content io.Reader) error) error {
	body, err := r.MultipartReader()
	if err != nil {
		return fault.Invalid("the request's body: %v", err)
	}
	for n := 0; ; n++ {
		part, err := body.NextPart()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return uploadError(&fileclient.BadContent{})
		}
		if n == maxParts {
			return fault.New(http.StatusRequestEntityTooLarge, fmt.Sprintf("the request has more than %d parts: send several", maxParts))
		}
		if part.FormName() != "file" {
			continue
		}
		name := q.Get("path")
		if !q.Has("path") {
			_, params, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
			if name = params["filename"]; err != nil || name == "" {
				return fault.Invalid("a part file has no name, and the query no path")
			}
		}
		if err := store(name, part); err != nil {
			return err
		}
	}
}

// The bounds of metadata, in bytes.
const (
	maxKey      = 255 - len(metadataPrefix)
	maxMetadata = 4096
)

// metadataOf returns the metadata that the headers of a request give a file.
func metadataOf(header http.Header) (map[string]string, error) {
	all, size := map[string]string{}, 0
	for name, values := range header {
		key, is := strings.CutPrefix(strings.ToLower(name), "x-metadata-")
		if !is || key == "" {
			continue
		}
		all[key] = values[0]
		size += len(metadataPrefix) + len(key) + len(values[0])
		unprintable := func(c rune) bool { return c < 0x20 || c > 0x7e }
		if len(key) > maxKey || strings.ContainsFunc(key+values[0], unprintable) {
			return nil, fault.Invalid("metadata %.100q: key and value are printable ASCII, the key of at most %d bytes", key, maxKey)
		}
	}
	if size > maxMetadata {
		return nil, fault.Invalid("metadata: it has %d bytes, the limit is %d", size, maxMetadata)
	}
	return all, nil
}
