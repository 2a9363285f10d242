package opensandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"wolffia/runtime"
	"wolffia/service"
)

// A fileReply describes a file on the wire.
type fileReply struct {
	Path     string    `json:"path"`
	Type     string    `json:"type"`
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified_at"`
	Created  time.Time `json:"created_at"`
	Owner    string    `json:"owner"`
	Group    string    `json:"group"`
	Mode     int       `json:"mode"` // octal digits, as a decimal number: 644
}

func describeFile(i *service.FileInfo) fileReply {
	digits, err := strconv.Atoi(strconv.FormatUint(uint64(i.Mode&0o7777), 8))
	if err != nil { // octal digits are decimal ones
		digits = 0
	}
	return fileReply{i.Path, i.Type, i.Size, i.Modified, i.Created, i.Owner, i.Group, digits}
}

// A modeRequest says what mode and owner a file is to have.
type modeRequest struct {
	Mode  int    `json:"mode"` // octal digits, as a decimal number; 0: unchanged
	Owner string `json:"owner"`
	Group string `json:"group"`
}

func (m *modeRequest) mode() (service.FileMode, error) {
	bits, err := strconv.ParseUint(strconv.Itoa(m.Mode), 8, 12)
	if err != nil {
		return service.FileMode{}, &fault{http.StatusBadRequest, "INVALID_FILE_METADATA", fmt.Sprintf("mode %d: it must be octal digits, such as 644", m.Mode)}
	}
	return service.FileMode{Mode: uint32(bits), Owner: m.Owner, Group: m.Group}, nil
}

// fileFault gives the errors of files their codes.
func fileFault(err error) error {
	if errors.As(err, new(*fault)) {
		return err
	}
	switch runtime.Class(err) {
	case runtime.ErrNotFound:
		return &fault{http.StatusNotFound, "FILE_NOT_FOUND", err.Error()}
	case runtime.ErrExists:
		return &fault{http.StatusConflict, "FILE_EXISTS", err.Error()}
	case runtime.ErrInvalid:
		return &fault{http.StatusBadRequest, "INVALID_FILE", err.Error()}
	}
	return err
}

// onFiles returns the function that serves a request about files: make returns the request
// to the sandbox, and answer replies.
func onFiles(
	request func(h *Handler, w http.ResponseWriter, r *http.Request, in *service.Inside) (*service.FileRequest, error),
	answer func(h *Handler, w http.ResponseWriter, r *http.Request, q *service.FileRequest, reply *service.FileReply),
) func(*Handler, http.ResponseWriter, *http.Request) error {
	return func(h *Handler, w http.ResponseWriter, r *http.Request) error {
		in, err := h.inside(r)
		if err != nil {
			return err
		}
		q, err := request(h, w, r, in)
		if err != nil {
			return fileFault(err)
		}
		reply, err := in.Files(r.Context(), q)
		if err != nil {
			return fileFault(err)
		}
		answer(h, w, r, q, reply)
		return nil
	}
}

// paths returns the paths of the query.
func paths(r *http.Request, in *service.Inside) ([]string, error) {
	var all []string
	for _, name := range r.URL.Query()["path"] {
		p, err := in.Path(name)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// onPaths returns the request about the paths of the query.
func onPaths(op string) func(*Handler, http.ResponseWriter, *http.Request, *service.Inside) (*service.FileRequest, error) {
	return func(_ *Handler, _ http.ResponseWriter, r *http.Request, in *service.Inside) (*service.FileRequest, error) {
		all, err := paths(r, in)
		return &service.FileRequest{Op: op, Paths: all}, err
	}
}

// onModes returns the request about the files of the body.
func onModes(op string) func(*Handler, http.ResponseWriter, *http.Request, *service.Inside) (*service.FileRequest, error) {
	return func(h *Handler, w http.ResponseWriter, r *http.Request, in *service.Inside) (*service.FileRequest, error) {
		var body map[string]modeRequest
		if err := h.decode(w, r, smallBody, &body); err != nil {
			return nil, err
		}
		modes, _, err := byPath(in, body)
		if err != nil {
			return nil, err
		}
		q := &service.FileRequest{Op: op, Modes: map[string]service.FileMode{}}
		for p, m := range modes {
			if q.Modes[p], err = m.mode(); err != nil {
				return nil, err
			}
		}
		return q, nil
	}
}

// byPath returns what a client asks for by name, by the absolute path, and the names. It is an error to name a file twice.
func byPath[T any](in *service.Inside, named map[string]T) (all map[string]T, names map[string]string, err error) {
	all, names = map[string]T{}, map[string]string{}
	for name, v := range named {
		p, err := in.Path(name)
		if err != nil {
			return nil, nil, err
		}
		if _, twice := all[p]; twice {
			return nil, nil, &fault{http.StatusBadRequest, "INVALID_REQUEST_BODY", fmt.Sprintf("the request names %s twice", p)}
		}
		all[p], names[p] = v, name
	}
	return all, names, nil
}

// done answers that a request was done.
func done(h *Handler, w http.ResponseWriter, _ *http.Request, _ *service.FileRequest, _ *service.FileReply) {
	h.empty(w, http.StatusOK)
}

// fileList answers with descriptions.
func fileList(h *Handler, w http.ResponseWriter, _ *http.Request, _ *service.FileRequest, reply *service.FileReply) {
	list := []fileReply{}
	for n := range reply.Infos {
		list = append(list, describeFile(&reply.Infos[n]))
	}
	h.reply(w, http.StatusOK, list)
}

// fileInfos answers with descriptions by the paths as the client has them.
func fileInfos(h *Handler, w http.ResponseWriter, r *http.Request, _ *service.FileRequest, reply *service.FileReply) {
	all := map[string]fileReply{}
	for n, name := range r.URL.Query()["path"] {
		if n < len(reply.Infos) {
			all[name] = describeFile(&reply.Infos[n])
		}
	}
	h.reply(w, http.StatusOK, all)
}

// listRequest is the request of GET /directories/list.
func listRequest(_ *Handler, _ http.ResponseWriter, r *http.Request, in *service.Inside) (*service.FileRequest, error) {
	depth, err := number(r.URL.Query(), "depth", 1, 1000)
	if err != nil {
		return nil, err
	}
	p, err := onePath(r, in)
	return &service.FileRequest{Op: service.FileOpList, Path: p, Depth: depth}, err
}

// searchRequest is the request of GET /files/search.
func searchRequest(_ *Handler, _ http.ResponseWriter, r *http.Request, in *service.Inside) (*service.FileRequest, error) {
	p, err := onePath(r, in)
	return &service.FileRequest{Op: service.FileOpSearch, Path: p, Pattern: r.URL.Query().Get("pattern")}, err
}

// onePath returns the only path of the query.
func onePath(r *http.Request, in *service.Inside) (string, error) {
	all, err := paths(r, in)
	switch {
	case err != nil:
		return "", err
	case len(all) == 0:
		return "", &fault{http.StatusBadRequest, "MISSING_QUERY", "path: the query has no path"}
	case len(all) > 1:
		return "", invalid("path: the query has several paths")
	}
	return all[0], nil
}

// A moveBody renames a file or directory.
type moveBody struct {
	Src  string `json:"src"`
	Dest string `json:"dest"`
}

// moveRequest is the request of POST /files/mv.
func moveRequest(h *Handler, w http.ResponseWriter, r *http.Request, in *service.Inside) (*service.FileRequest, error) {
	var body []moveBody
	if err := h.decode(w, r, smallBody, &body); err != nil {
		return nil, err
	}
	q := &service.FileRequest{Op: service.FileOpMove}
	for _, m := range body {
		from, err := in.Path(m.Src)
		if err != nil {
			return nil, err
		}
		to, err := in.Path(m.Dest)
		if err != nil {
			return nil, err
		}
		q.Moves = append(q.Moves, service.FileMove{From: from, To: to})
	}
	return q, nil
}

// A replacedReply says how often a text was replaced in a file.
type replacedReply struct {
	Count int `json:"replacedCount"`
}

// replace serves POST /files/replace.
func (h *Handler) replace(w http.ResponseWriter, r *http.Request) error {
	var names map[string]string // as the client has them
	request := func(h *Handler, w http.ResponseWriter, r *http.Request, in *service.Inside) (*service.FileRequest, error) {
		var body map[string]service.FileReplace
		if err := h.decode(w, r, commandBody, &body); err != nil {
			return nil, err
		}
		q := &service.FileRequest{Op: service.FileOpReplace}
		var err error
		q.Replace, names, err = byPath(in, body)
		return q, err
	}
	answer := func(h *Handler, w http.ResponseWriter, r *http.Request, q *service.FileRequest, reply *service.FileReply) {
		if verbose, err := strconv.ParseBool(r.URL.Query().Get("verbose")); err != nil || !verbose {
			h.empty(w, http.StatusOK)
			return
		}
		counts := map[string]replacedReply{}
		for p := range q.Replace {
			counts[names[p]] = replacedReply{reply.Counts[p]}
		}
		h.reply(w, http.StatusOK, counts)
	}
	return onFiles(request, answer)(h, w, r)
}

// The bounds of an upload.
const (
	maxMetadata = 64 << 10 // bytes of one
	maxAhead    = 1000     // metadata before their files
)

// upload serves POST /files/upload: parts metadata, which say where the parts file go that
// follow, in the same order.
func (h *Handler) upload(w http.ResponseWriter, r *http.Request) error {
	in, err := h.inside(r)
	if err != nil {
		return err
	}
	body, err := r.MultipartReader()
	if err != nil {
		return &fault{http.StatusBadRequest, "INVALID_FILE", "the request must be multipart/form-data, with parts metadata and file"}
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(10 * h.opts.BodyLimit)) // always supported
	var ahead []service.FileTarget
	files := 0
	for {
		part, err := body.NextRawPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return uploadFault(err)
		}
		switch part.FormName() {
		case "metadata":
			t, err := target(part, in)
			if err != nil {
				return err
			}
			if ahead = append(ahead, *t); len(ahead) > maxAhead {
				return &fault{http.StatusBadRequest, "INVALID_FILE_METADATA", fmt.Sprintf("more than %d parts metadata before their files", maxAhead)}
			}
		case "file":
			if len(ahead) == 0 {
				return &fault{http.StatusBadRequest, "INVALID_FILE_METADATA", "a part file has no part metadata before it"}
			}
			if err := in.WriteFile(r.Context(), &ahead[0], part); err != nil {
				return uploadFault(fileFault(err))
			}
			ahead = ahead[1:]
			files++
		default:
			return &fault{http.StatusBadRequest, "INVALID_FILE", "a part is neither metadata nor file"}
		}
	}
	if files == 0 || len(ahead) > 0 {
		return &fault{http.StatusBadRequest, "INVALID_FILE_CONTENT", "a part metadata has no part file"}
	}
	h.empty(w, http.StatusOK)
	return nil
}

// uploadFault gives an error in the form of an upload its code.
func uploadFault(err error) error {
	if runtime.Class(err) != nil || errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, new(*fault)) {
		return err
	}
	return &fault{http.StatusBadRequest, "INVALID_FILE_CONTENT", "the request's body cannot be read to its end"}
}

// target reads a part metadata.
func target(part io.Reader, in *service.Inside) (*service.FileTarget, error) {
	wrong := func(why string) (*service.FileTarget, error) {
		return nil, &fault{http.StatusBadRequest, "INVALID_FILE_METADATA", "metadata: " + why}
	}
	text, err := io.ReadAll(io.LimitReader(part, maxMetadata+1))
	var m struct {
		Path string `json:"path"`
		modeRequest
	}
	switch {
	case err != nil:
		return nil, uploadFault(err)
	case len(text) > maxMetadata:
		return wrong("too long")
	case json.Unmarshal(text, &m) != nil:
		return wrong("not a JSON object with path, mode, owner and group")
	}
	p, err := in.Path(m.Path)
	if err != nil {
		return wrong(err.Error())
	}
	mode, err := m.mode()
	return &service.FileTarget{Path: p, Mode: mode}, err
}

// A byteRange is what the header Range asks for.
type byteRange struct {
	from int64 // negative: from the end
	most int64 // negative: all
}

// rangeOf parses the header Range; nil means the whole file, which is also the reply to a
// range that is not understood, and to several.
func rangeOf(header string) *byteRange {
	text, is := strings.CutPrefix(header, "bytes=")
	first, last, ok := strings.Cut(text, "-")
	if !is || !ok || strings.Contains(text, ",") {
		return nil
	}
	a, aerr := strconv.ParseUint(first, 10, 62)
	b, berr := strconv.ParseUint(last, 10, 62)
	switch {
	case first == "" && berr == nil && b > 0:
		return &byteRange{-int64(b), -1}
	case aerr != nil:
		return nil
	case last == "":
		return &byteRange{int64(a), -1}
	case berr == nil && b >= a:
		return &byteRange{int64(a), int64(b-a) + 1}
	}
	return nil
}

// download serves GET /files/download.
func (h *Handler) download(w http.ResponseWriter, r *http.Request) error {
	in, err := h.inside(r)
	if err != nil {
		return err
	}
	p, err := onePath(r, in)
	if err != nil {
		return fileFault(err)
	}
	q := r.URL.Query()
	if q.Has("offset") || q.Has("limit") {
		first, err := number(q, "offset", 1, 1<<53)
		if err != nil {
			return err
		}
		most := -1
		if q.Has("limit") {
			if most, err = number(q, "limit", 1, 1<<53); err != nil {
				return err
			}
		}
		part, err := in.ReadLines(r.Context(), p, int64(first), int64(most))
		if err != nil {
			return fileFault(err)
		}
		defer part.Close()
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		h.send(w, part)
		return nil
	}
	asked := rangeOf(r.Header.Get("Range"))
	want := byteRange{0, -1}
	if asked != nil {
		want = *asked
	}
	part, err := in.ReadPart(r.Context(), p, want.from, want.most)
	if err != nil {
		return fileFault(err)
	}
	defer part.Close()
	header := w.Header()
	header.Set("Accept-Ranges", "bytes")
	if part.Size == 0 {
		asked = nil // as in net/http: no range of an empty file is satisfiable, and clients read it so all the same
	}
	if asked != nil && part.Bytes <= 0 {
		header.Set("Content-Range", "bytes */"+strconv.FormatInt(part.Size, 10))
		return &fault{http.StatusRequestedRangeNotSatisfiable, "INVALID_FILE", fmt.Sprintf("the range is beyond the %d bytes of the file", part.Size)}
	}
	header.Set("Content-Type", "application/octet-stream")
	header.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": path.Base(p)}))
	header.Set("Content-Length", strconv.FormatInt(part.Bytes, 10))
	if asked != nil {
		header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", part.Start, part.Start+part.Bytes-1, part.Size))
		w.WriteHeader(http.StatusPartialContent)
	}
	h.send(w, part)
	return nil
}

// send sends a part of a file. If it ends early, the connection is closed, so that the
// client does not take what it has for all of it.
func (h *Handler) send(w http.ResponseWriter, part *service.FilePart) {
	n, err := io.CopyBuffer(h.patient(w), struct{ io.Reader }{part}, make([]byte, 256<<10))
	if err != nil || part.Bytes >= 0 && n < part.Bytes {
		panic(http.ErrAbortHandler)
	}
}
